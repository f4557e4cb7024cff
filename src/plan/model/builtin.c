/* SPDX-License-Identifier: MIT */
/* A built-in shape by its name: its line becomes a config.json, which is read as any other. */
#include "plan/model/builtin.h"

#include "base/error.h"
#include "base/units.h"
#include "plan/estimate.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    char key;
    const char *field;
} short_keys[] = {
    { 'h', "hidden_size" },
    { 'l', "num_hidden_layers" },
    { 'a', "num_attention_heads" },
    { 'k', "num_key_value_heads" },
    { 'd', "head_dim" },
    { 'f', "intermediate_size" },
    { 'v', "vocab_size" },
    { 'p', "max_position_embeddings" },
    { 't', "tie_word_embeddings" },
    { 'w', "sliding_window" },
    { 'e', "num_experts" },
    { 'x', "num_experts_per_tok" },
    { 'm', "moe_intermediate_size" },
    { 's', "n_shared_experts" },
    { 'S', "shared_expert_intermediate_size" },
    { 'D', "first_k_dense_replace" },
};

/* What the publisher's own checkpoint is packed in. */
static const char *quantisation(const char *value, size_t n) {
    if (n == 3 && memcmp(value, "fp8", n) == 0)
        return "{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}";
    if (n == 5 && memcmp(value, "mxfp4", n) == 0)
        return "{\"quant_method\":\"mxfp4\",\"modules_to_not_convert\":[\"model.layers.*.self_attn\",\"model.layers.*.mlp.router\","
               "\"model.embed_tokens\",\"lm_head\"]}";
    return NULL;
}

static int field(struct uma_text *config, const char *key, size_t key_length, const char *value, size_t value_length, uint64_t *tower) {
    char quoted[64];
    if (key_length == 1 && key[0] == 'V') {
        uint64_t millions = 0;
        if (uma_parse_u64(value, value + value_length, &millions) != value + value_length)
            return -EINVAL;
        *tower = uma_times(millions, 1000000);
        return 0;
    }
    if (key_length == 1 && key[0] == 'q') {
        const char *object = quantisation(value, value_length);
        if (object)
            uma_text_printf(config, ",\"quantization_config\":%s", object);
        return object ? 0 : -EINVAL;
    }
    if (key_length >= sizeof quoted || value_length == 0)
        return -EINVAL;
    memcpy(quoted, key, key_length);
    quoted[key_length] = 0;
    if (key_length == 1) {
        const char *name = NULL;
        for (size_t i = 0; i < ELEMENTS(short_keys); i++)
            if (short_keys[i].key == key[0])
                name = short_keys[i].field;
        if (!name)
            return -EINVAL;
        if (key[0] == 't') {
            value = value[0] == '1' ? "true" : "false";
            value_length = strlen(value);
        }
        uma_text_printf(config, ",\"%s\":%.*s", name, (int)value_length, value);
        return 0;
    }
    uma_text_printf(config, ",\"%s\":%.*s", quoted, (int)value_length, value);
    return 0;
}

int uma_builtin_config(const struct uma_builtin_shape *shape, struct uma_text *ret_config, uint64_t *ret_tower) {
    const char *p = shape->fields;
    size_t n = strcspn(p, " ");
    uint64_t tower = 0;
    uma_text_printf(ret_config, "{\"model_type\":\"%.*s\"", (int)n, p);
    for (p += n; *p; p += n) {
        while (*p == ' ')
            p++;
        n = strcspn(p, " ");
        const char *equals = memchr(p, '=', n);
        if (!equals || equals == p)
            return -EINVAL;
        int r = field(ret_config, p, (size_t)(equals - p), equals + 1, n - (size_t)(equals - p) - 1, &tower);
        if (r < 0)
            return r;
    }
    uma_text_char(ret_config, '}');
    *ret_tower = tower;
    return ret_config->failed ? -ENOMEM : 0;
}

/* Towers are given as a sum: their share is what the published count has beyond the language model where there is a count, else the line's. */
static void add_tower(struct uma_model *model, const struct uma_builtin_shape *shape, uint64_t tower) {
    uint64_t text = uma_minus(uma_model_params(model), model->totals[UMA_CLASS_MTP].params);
    if (tower == 0)
        return;
    if (shape->published > text)
        tower = shape->published - text;
    model->has_vision = true;
    model->details.vision_params = tower;
    model->totals[UMA_CLASS_VISION] =
        (struct uma_tensor_total){ .tensors = 1, .params = tower, .bytes = uma_class_bytes(model, UMA_CLASS_VISION, tower) };
}

/* A GGUF file is packed throughout, embedding and output in, at its type's mean; norms are fp32 (llama.cpp, src/llama-quant.cpp). */
static void pack_as_file(struct uma_model *model, const char *file_type) {
    double bits = uma_file_type_bits(file_type);
    for (unsigned i = 0; bits > 0 && i < UMA_CLASS_COUNT; i++) {
        struct uma_tensor_total *total = &model->totals[i];
        if (i == UMA_CLASS_NORM || i == UMA_CLASS_ROUTER) {
            model->class_format[i] = UMA_FORMAT_F32;
            total->bytes = uma_times(total->params, 4);
        } else if (i != UMA_CLASS_VISION)
            total->bytes = uma_scale(total->params, bits / 8);
    }
}

/* What the words of the name say of its packing. */
static int pack(struct uma_model *model, const struct uma_name_words *words) {
    if (words->format == UMA_FORMAT_UNKNOWN)
        return 0;
    uma_model_set_format(model, words->format);
    if (words->file_type[0])
        pack_as_file(model, words->file_type);
    if (words->dynamic)
        uma_model_warn(model, "files named unsloth-bnb-4bit leave some layers in 16 bits, and are larger than counted here");
    return uma_model_string(&model->quantisation, words->file_type[0] ? words->file_type : uma_format_name(words->format));
}

static int read_shape(const struct uma_builtin_shape *shape, struct uma_model **ret_model, struct uma_error *err) {
    _cleanup_text_ struct uma_text config = { 0 };
    _cleanup_model_ struct uma_model *model = NULL;
    uint64_t tower = 0;
    char source[160];
    int length = (int)strcspn(shape->names, "|");
    snprintf(source, sizeof source, "built-in shape of %.*s", length, shape->names);
    int r = uma_builtin_config(shape, &config, &tower);
    if (r < 0)
        return uma_error_set(err, -r, "%s", source);
    r = uma_model_from_config(source, config.data, config.length, NULL, 0, &model, err);
    if (r < 0)
        return r;
    add_tower(model, shape, tower);
    *ret_model = TAKE_PTR(model);
    return 0;
}

int uma_model_builtin(const char *name, struct uma_model **ret_model, struct uma_error *err) {
    struct uma_name_words words;
    bool derived = false;
    const struct uma_builtin_shape *shape = uma_builtin_find(name, &words, &derived);
    if (!shape) {
        char nearest[240];
        uma_builtin_nearest(name, nearest, sizeof nearest);
        return uma_error_text(err, ENOENT, "%.200s: no built-in shape has this name%s%s", name, nearest[0] ? "; near it: " : "", nearest);
    }
    _cleanup_model_ struct uma_model *model = NULL;
    int r = read_shape(shape, &model, err);
    if (r < 0)
        return r;
    if (derived)
        uma_model_warn(model, "%.60s is not known; it is taken to have the shape of %.*s", name, (int)strcspn(shape->names, "|"),
                       shape->names);
    if (uma_model_string(&model->name, name) < 0 || pack(model, &words) < 0)
        return uma_error_set(err, ENOMEM, "%.200s", name);
    *ret_model = TAKE_PTR(model);
    return 0;
}
