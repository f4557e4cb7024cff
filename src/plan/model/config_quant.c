/* SPDX-License-Identifier: MIT */
/* Formats of the weights: torch_dtype, quantization_config, hf_quant_config.json. */
#include "plan/model/config.h"
#include "plan/model/config_quant.h"

#include "base/error.h"
#include "plan/estimate.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { GENERAL_MAX = 256 }; /* names without a layer in one list: published ones have a dozen, each costs a pass over all layers */

/* One format per matrix: quantisers leave out modules by name, and mix formats. */
struct plan {
    struct uma_config *config;
    unsigned char formats[UMA_MODEL_LAYERS_MAX][UMA_LINEAR_ROLE_COUNT]; /* 0: as the rest, 16 bits */
    bool mtp_excluded, experts_apart;
    uint32_t general; /* names seen that are for all layers */
};

void uma_config_formats(struct uma_config *config) {
    const char *name = uma_config_string(config, "torch_dtype|dtype");
    enum uma_format format = name ? uma_format_from_name(name) : UMA_FORMAT_UNKNOWN;
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        config->model->class_format[i] = format == UMA_FORMAT_UNKNOWN ? UMA_FORMAT_BF16 : format;
}

/* Whole numbers of a quantiser's section: those that make no sense (-1: per channel) count as 0. */
static uint64_t small(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    json_int_t n = json_is_integer(value) ? json_integer_value(value) : 0;
    return n > 0 && n <= 65536 ? (uint64_t)n : 0;
}

static enum uma_format integer_format(uint64_t bits, uint64_t group, bool awq, bool symmetric) {
    if (bits >= 8)
        return UMA_FORMAT_INT8;
    if (group == 0)
        return UMA_FORMAT_GPTQ4_CHANNEL;
    if (group >= 128)
        return awq ? UMA_FORMAT_AWQ4_G128 : symmetric ? UMA_FORMAT_W4A16_G128 : UMA_FORMAT_GPTQ4_G128;
    return group >= 64 ? UMA_FORMAT_GPTQ4_G64 : UMA_FORMAT_GPTQ4_G32;
}

/* modelopt's names (quant_algo). */
static enum uma_format algorithm_format(const char *algorithm, uint64_t group) {
    if (!algorithm)
        return UMA_FORMAT_UNKNOWN;
    if (strncasecmp(algorithm, "NVFP4", 5) == 0 || strcasestr(algorithm, "W4A16_NVFP4") || strcasestr(algorithm, "W4A8_NVFP4"))
        return UMA_FORMAT_NVFP4;
    if (strcasestr(algorithm, "MXFP4"))
        return UMA_FORMAT_MXFP4;
    if (strcasestr(algorithm, "MXFP8"))
        return UMA_FORMAT_MXFP8;
    if (strcasecmp(algorithm, "FP8_PB_WO") == 0 || strcasestr(algorithm, "FP8_BLOCK"))
        return UMA_FORMAT_FP8_BLOCK128;
    if (strncasecmp(algorithm, "FP8", 3) == 0)
        return UMA_FORMAT_FP8;
    if (strcasestr(algorithm, "W8") || strcasestr(algorithm, "INT8"))
        return UMA_FORMAT_INT8;
    if (strcasestr(algorithm, "W4") || strcasestr(algorithm, "INT4"))
        return integer_format(4, group ? group : 128, strcasestr(algorithm, "AWQ") != NULL, false);
    return UMA_FORMAT_UNKNOWN;
}

/* A group of compressed-tensors or modelopt: {"weights": {"num_bits", "type", "strategy", "group_size"}, "format"}. */
static enum uma_format group_format(const json_t *section, const json_t *group) {
    const json_t *weights = json_object_get(group, "weights");
    const char *type = json_string_value(json_object_get(weights, "type")), *packing = json_string_value(json_object_get(group, "format"));
    uint64_t bits = small(weights, "num_bits"), size = small(weights, "group_size");
    if (!packing)
        packing = json_string_value(json_object_get(section, "format"));
    if (packing && strstr(packing, "mxfp4"))
        return UMA_FORMAT_MXFP4;
    if (packing && strstr(packing, "nvfp4"))
        return UMA_FORMAT_NVFP4;
    if (bits == 0)
        return UMA_FORMAT_UNKNOWN;
    if (type && strcmp(type, "float") == 0) {
        if (bits == 4)
            return size == 32 ? UMA_FORMAT_MXFP4 : UMA_FORMAT_NVFP4;
        return json_is_array(json_object_get(weights, "block_structure")) ? UMA_FORMAT_FP8_BLOCK128
               : size == 32                                               ? UMA_FORMAT_MXFP8
                                                                          : UMA_FORMAT_FP8;
    }
    return integer_format(bits, size, false, !json_is_false(json_object_get(weights, "symmetric")));
}

static enum uma_format bitsandbytes_format(const json_t *section) {
    bool four = json_is_true(json_object_get(section, "load_in_4bit")) || json_is_true(json_object_get(section, "_load_in_4bit"));
    if (!four)
        return UMA_FORMAT_INT8;
    return json_is_true(json_object_get(section, "bnb_4bit_use_double_quant")) ? UMA_FORMAT_NF4_DQ : UMA_FORMAT_NF4;
}

/* The format of what a section quantises; UNKNOWN when it does not say in words that are known. */
static enum uma_format section_format(const json_t *section, const char *method) {
    uint64_t bits = small(section, "bits"), group = small(section, "group_size");
    bits = bits ? bits : small(section, "w_bit");
    group = group ? group : small(section, "q_group_size");
    enum uma_format format = algorithm_format(json_string_value(json_object_get(section, "quant_algo")), group);
    if (format != UMA_FORMAT_UNKNOWN)
        return format;
    if (strcmp(method, "bitsandbytes") == 0)
        return bitsandbytes_format(section);
    if (strcmp(method, "mxfp4") == 0)
        return UMA_FORMAT_MXFP4;
    if (strcmp(method, "fp8") == 0 || strcmp(method, "fbgemm_fp8") == 0)
        return json_is_array(json_object_get(section, "weight_block_size")) ? UMA_FORMAT_FP8_BLOCK128 : UMA_FORMAT_FP8;
    if (strcmp(method, "eetq") == 0)
        return UMA_FORMAT_INT8;
    if (strcmp(method, "hqq") == 0)
        return UMA_FORMAT_HQQ4_G64;
    if (bits)
        return integer_format(bits, group, strcmp(method, "awq") == 0, false);
    return UMA_FORMAT_UNKNOWN;
}

static void set(struct plan *plan, int64_t layer, uint32_t roles, enum uma_format format) {
    uint32_t first = layer >= 0 ? (uint32_t)layer : 0, last = layer >= 0 ? (uint32_t)layer + 1 : plan->config->model->layer_count;
    for (uint32_t i = first; i < last && i < plan->config->model->layer_count; i++)
        for (unsigned role = 0; role < UMA_LINEAR_ROLE_COUNT; role++)
            if (roles & UMA_LINEAR_BIT(role) && role != UMA_LINEAR_ROUTER)
                plan->formats[i][role] = (unsigned char)format;
}

static void set_module(struct plan *plan, const char *name, enum uma_format format) {
    if (uma_config_module_is_tower(name))
        return;
    if (strstr(name, "(?!")) {
        uma_model_warn(plan->config->model, "a pattern of the quantisation's exceptions is not understood: %.80s", name);
        return;
    }
    int64_t layer = uma_config_module_layer(name);
    if (strstr(name, "mtp") || strstr(name, "nextn") || layer >= (int64_t)plan->config->model->layer_count) {
        plan->mtp_excluded |= format == UMA_FORMAT_UNKNOWN;
        return;
    }
    uint32_t roles = uma_config_module_roles(name, plan->experts_apart);
    if (layer < 0 && roles && ++plan->general > GENERAL_MAX) {
        uma_model_warn(plan->config->model, "more than %d names of the quantisation are for all layers; the rest is not counted",
                       GENERAL_MAX);
        return;
    }
    set(plan, layer, roles, format);
}

static void set_modules(struct plan *plan, const json_t *list, enum uma_format format) {
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name)
            set_module(plan, name, format);
    }
}

/* Groups: each for some targets ("Linear": all). */
static void set_groups(struct plan *plan, json_t *section) {
    const char *key;
    json_t *group;
    json_object_foreach(json_object_get(section, "config_groups"), key, group) {
        enum uma_format format = group_format(section, group);
        const json_t *targets = json_object_get(group, "targets");
        const char *first = json_string_value(json_array_get(targets, 0));
        if (format == UMA_FORMAT_UNKNOWN)
            continue;
        if (!first || strcmp(first, "Linear") == 0)
            set(plan, -1, UINT32_MAX, format);
        else
            set_modules(plan, targets, format);
    }
}

/* modelopt's mixed precision: a format per module, everything else 16 bits. */
static void set_layers(struct plan *plan, json_t *section) {
    const char *key;
    json_t *layer;
    memset(plan->formats, 0, sizeof plan->formats);
    json_object_foreach(json_object_get(section, "quantized_layers"), key, layer) {
        enum uma_format format = algorithm_format(json_string_value(json_object_get(layer, "quant_algo")), small(layer, "group_size"));
        if (format != UMA_FORMAT_UNKNOWN)
            set_module(plan, key, format);
    }
}

/* Bytes of the classes that are quantised, matrix by matrix; the format of most of a class becomes the class's. */
static void apply(const struct plan *plan) {
    struct uma_model *model = plan->config->model;
    uint64_t held[UMA_CLASS_COUNT][UMA_FORMAT_COUNT] = { 0 }, rest[UMA_CLASS_COUNT];
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        rest[i] = model->totals[i].params;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
        size_t n = model->layers[i].shares_weights ? 0 : uma_model_linears(model, i, linears);
        for (size_t j = 0; j < n; j++) {
            unsigned format = plan->formats[i][linears[j].role];
            uint64_t params = uma_times(linears[j].copies, uma_times(linears[j].in, linears[j].out));
            if (format == UMA_FORMAT_UNKNOWN)
                continue;
            held[linears[j].class_][format] = uma_plus(held[linears[j].class_][format], params);
            rest[linears[j].class_] = uma_minus(rest[linears[j].class_], params);
        }
    }
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++) {
        uint64_t bytes = uma_class_bytes(model, (enum uma_class)i, rest[i]), most = rest[i];
        for (unsigned format = 1; format < UMA_FORMAT_COUNT; format++) {
            bytes = uma_plus(bytes, uma_format_bytes((enum uma_format)format, held[i][format]));
            if (held[i][format] > most) {
                most = held[i][format];
                model->class_format[i] = (enum uma_format)format;
            }
        }
        model->totals[i].bytes = bytes;
    }
}

static void kv_format(struct uma_model *model, const json_t *section) {
    const char *algorithm = json_string_value(json_object_get(section, "kv_cache_quant_algo"));
    const json_t *scheme = json_object_get(section, "kv_cache_scheme");
    if ((algorithm && strncasecmp(algorithm, "FP8", 3) == 0) || small(scheme, "num_bits") == 8)
        model->kv_format = UMA_FORMAT_FP8;
    else if ((algorithm && strncasecmp(algorithm, "NVFP4", 5) == 0) || small(scheme, "num_bits") == 4)
        model->kv_format = UMA_FORMAT_NVFP4;
}

static void name_quantisation(struct uma_config *config, const char *method, const char *algorithm, enum uma_format format) {
    char text[96];
    snprintf(text, sizeof text, "%.40s%s%.40s", method, algorithm || format ? " " : "",
             algorithm ? algorithm
             : format  ? uma_format_name(format)
                       : "");
    if (uma_model_string(&config->model->quantisation, text) < 0)
        config->status = uma_error_set(config->err, ENOMEM, "%s", config->file);
}

static void exceptions(struct plan *plan, const json_t *section) {
    static const char *const lists[] = { "modules_to_not_convert", "llm_int8_skip_modules", "ignore",
                                         "ignored_layers",         "exclude_modules",       "modules_to_exclude" };
    for (size_t i = 0; i < ELEMENTS(lists); i++)
        set_modules(plan, json_object_get(section, lists[i]), UMA_FORMAT_UNKNOWN);
}

void uma_config_quantise(struct uma_config *config, const json_t *quant) {
    json_t *section = uma_config_object(config, "quantization_config|compression_config");
    const char *method = json_string_value(json_object_get(section, "quant_method"));
    json_t *stated = json_object_get(quant, "quantization");
    if (json_is_object(stated)) {
        section = stated;
        method = "modelopt";
    }
    if (!section)
        return;
    method = method ? method : "";
    _cleanup_free_
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        config->status = uma_error_set(config->err, ENOMEM, "%s", config->file);
        return;
    }
    plan->config = config;
    plan->experts_apart = config->arch && config->arch->flags & ARCH_MOE_DENSE;
    struct uma_model *model = config->model;
    const char *algorithm = json_string_value(json_object_get(section, "quant_algo"));
    enum uma_format format = section_format(section, method);
    bool mixed = json_is_object(json_object_get(section, "quantized_layers"));
    if (format != UMA_FORMAT_UNKNOWN)
        set(plan, -1, strcmp(method, "mxfp4") == 0 ? uma_config_module_roles("experts", false) : UINT32_MAX, format);
    set_groups(plan, section);
    const char *expert = uma_config_string(config, "expert_dtype"); /* DeepSeek-V4: FP8 with experts in FP4 */
    if (expert && strcasecmp(expert, "fp4") == 0 && format == UMA_FORMAT_FP8_BLOCK128)
        set(plan, -1, uma_config_module_roles("experts", false), UMA_FORMAT_MXFP4);
    if (mixed)
        set_layers(plan, section);
    exceptions(plan, section);
    if (format == UMA_FORMAT_UNKNOWN && !mixed && !json_is_object(json_object_get(section, "config_groups")))
        uma_model_warn(model, "quantisation %.40s is not known; weights are counted in 16 bits", *method ? method : "without quant_method");
    if (strcmp(method, "fp8") == 0 && !plan->mtp_excluded) /* FP8 releases hold their MTP layers in FP8, too */
        model->class_format[UMA_CLASS_MTP] = format;
    apply(plan);
    kv_format(model, section);
    name_quantisation(config, *method ? method : "quantised", algorithm, format);
}
