/* SPDX-License-Identifier: MIT */
#include "plan/model/folder.h"

#include "observe/json_tree.h"
#include "plan/model/config.h"
#include "plan/model/json_scan.h"

#include <string.h>

/* How deep a configuration says something of packing: quantization_config, config_groups, group_0, weights. */
enum { PACKING_DEPTH = 6 };

static const char *const quantisations[] = { "quantization_config", "quantization", "compression_config" };
/* What is in other hands than the weights': their numbers of bits are not ours. */
static const char *const not_weights[] = { "input_activations", "output_activations", "kv_cache_scheme", "kv_cache", "lm_head" };
static const char *const bits_names[] = { "bits", "num_bits", "w_bit", "nbits", "weight_bits" };

static bool one_of(const char *key, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(key, names[i]) == 0)
            return true;
    return false;
}

static int read_bits(struct uma_json_scan *scan, struct uma_packing *packing, struct uma_error *err) {
    uint64_t bits = 0;
    int r = uma_json_scan_number(scan, &bits, err);
    /* the first that is told, because groups of other widths come behind the main one */
    if (r == 0 && packing->bits == 0 && bits >= 1 && bits <= 16)
        packing->bits = (unsigned)bits;
    return r;
}

static int read_expert_type(struct uma_json_scan *scan, struct uma_packing *packing, struct uma_error *err) {
    char type[16];
    int r = uma_json_scan_string(scan, type, sizeof(type), NULL, err);
    if (r == 0 && strcmp(type, "fp4") == 0)
        packing->fp4_experts = true;
    return r;
}

/* The members of an object that may say something of packing. `depth` is bounded by PACKING_DEPTH, whatever the text holds. */
static int read_object(struct uma_json_scan *scan, struct uma_packing *packing, bool in_quantisation, unsigned depth, uint64_t *values,
                       struct uma_error *err) {
    char key[32];
    bool first = true;
    int r;
    while ((r = uma_json_scan_member(scan, &first, key, sizeof(key), NULL, err)) > 0) {
        int c = uma_json_scan_peek(scan, err);
        bool quantisation = in_quantisation || one_of(key, quantisations, ELEMENTS(quantisations));
        ++*values;
        if (quantisation && (c == '{' || c == '"'))
            packing->quantised = true;
        if (c == '{' && depth < PACKING_DEPTH && !one_of(key, not_weights, ELEMENTS(not_weights)))
            r = read_object(scan, packing, quantisation, depth + 1, values, err);
        else if (quantisation && one_of(key, bits_names, ELEMENTS(bits_names)) && c >= '0' && c <= '9')
            r = read_bits(scan, packing, err);
        else if (strcmp(key, "expert_dtype") == 0 && c == '"')
            r = read_expert_type(scan, packing, err);
        else
            r = uma_json_scan_skip(scan, values, err);
        if (r == 0 && *values > UMA_FOLDER_VALUES_MAX)
            r = uma_json_scan_error(scan, err, "more than %d values: not a configuration", UMA_FOLDER_VALUES_MAX);
        if (r < 0)
            return r;
    }
    return r;
}

int uma_folder_config_check(const char *text, size_t length, const char *path, struct uma_packing *ret_packing, struct uma_error *err) {
    struct uma_json_scan scan;
    struct uma_packing packing = *ret_packing;
    uint64_t values = 0;
    uma_json_scan_memory(&scan, path, text, length);
    int r = read_object(&scan, &packing, false, 0, &values, err);
    if (r == 0)
        r = uma_json_scan_finish(&scan, err);
    if (r == 0)
        *ret_packing = packing;
    return r;
}

static int read_text(int folder, const char *path, const char *name, struct uma_text *into, struct uma_packing *packing,
                     struct uma_error *err) {
    _cleanup_free_
    char *whole = uma_folder_path(path, name);
    if (!whole)
        return uma_error_set(err, ENOMEM, "%s", path);
    int r = uma_folder_read_file(folder, name, whole, UMA_FOLDER_TEXT_MAX, into, err);
    return r < 0 ? r : uma_folder_config_check(into->data ? into->data : "", into->length, whole, packing, err);
}

/* The text is JSON all right: then a field that a model needs is missing or out of range. */
static bool is_sound(const char *path, const struct uma_text *text) {
    _cleanup_json_ json_t *root = NULL;
    return uma_config_parse(path, text->data, text->length, &root, NULL) == 0;
}

int uma_folder_config_read(int folder, const char *path, struct uma_model **ret_model, struct uma_packing *ret_packing,
                           struct uma_error *err) {
    _cleanup_text_ struct uma_text config = { 0 }, quant = { 0 };
    _cleanup_free_
    char *whole = uma_folder_path(path, "config.json");
    struct uma_packing packing = { 0 };
    struct uma_model *model = NULL;
    if (!whole)
        return uma_error_set(err, ENOMEM, "%s", path);
    int r = read_text(folder, path, "config.json", &config, &packing, err);
    if (r < 0)
        return r;
    r = read_text(folder, path, "hf_quant_config.json", &quant, &packing, err);
    if (r < 0 && r != -ENOENT)
        return r;
    bool have_quant = r == 0;
    r = uma_model_from_config(whole, config.data, config.length, have_quant ? quant.data : NULL, have_quant ? quant.length : 0, &model,
                              err);
    if (r < 0 && !(r == -EINVAL && is_sound(whole, &config)))
        return r;
    packing.quantised = packing.quantised || (model && model->quantisation);
    packing.known_unquantised = !packing.quantised;
    *ret_model = model;
    *ret_packing = packing;
    return r < 0;
}
