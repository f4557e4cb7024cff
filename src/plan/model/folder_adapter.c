/* SPDX-License-Identifier: MIT */
/* PEFT's adapters: adapter_config.json with the rank and the base model's name, adapter_model.safetensors (or .bin) with the matrices. */
#include "plan/model/folder.h"

#include "plan/estimate.h"
#include "plan/model/json_scan.h"

#include <string.h>

static int read_rank(struct uma_json_scan *scan, struct uma_folder_adapter *adapter, struct uma_error *err) {
    uint64_t rank = 0;
    int r = uma_json_scan_number(scan, &rank, err);
    if (r == 0 && rank <= UINT32_MAX)
        adapter->rank = MAX_OF(adapter->rank, (uint32_t)rank);
    return r;
}

/* { "model.layers.0.self_attn.q_proj": 32, ... }: ranks of single modules; the largest counts. */
static int read_rank_pattern(struct uma_json_scan *scan, struct uma_folder_adapter *adapter, struct uma_error *err) {
    bool first = true;
    int r;
    while ((r = uma_json_scan_member(scan, &first, NULL, 0, NULL, err)) > 0) {
        int c = uma_json_scan_peek(scan, err);
        r = c >= '0' && c <= '9' ? read_rank(scan, adapter, err) : uma_json_scan_skip(scan, NULL, err);
        if (r < 0)
            return r;
    }
    return r;
}

int uma_folder_adapter_parse(const char *text, size_t length, const char *path, struct uma_folder_adapter *ret_adapter,
                             struct uma_error *err) {
    struct uma_folder_adapter adapter = { 0 };
    struct uma_json_scan scan;
    char key[32];
    size_t base = 0;
    bool first = true;
    int r;
    uma_json_scan_memory(&scan, path, text, length);
    while ((r = uma_json_scan_member(&scan, &first, key, sizeof(key), NULL, err)) > 0) {
        int c = uma_json_scan_peek(&scan, err);
        if (strcmp(key, "r") == 0 && c >= '0' && c <= '9')
            r = read_rank(&scan, &adapter, err);
        else if (strcmp(key, "rank_pattern") == 0 && c == '{')
            r = read_rank_pattern(&scan, &adapter, err);
        else if (strcmp(key, "base_model_name_or_path") == 0 && c == '"') {
            r = uma_json_scan_string(&scan, adapter.base, sizeof(adapter.base), &base, err);
            if (r == 0 && (base >= sizeof(adapter.base) || strlen(adapter.base) != base))
                r = uma_json_scan_error(&scan, err, "the base model's name has %zu bytes; at most %zu are accepted, and no NUL", base,
                                        sizeof(adapter.base) - 1);
        } else
            r = uma_json_scan_skip(&scan, NULL, err);
        if (r < 0)
            return r;
    }
    if (r == 0)
        r = uma_json_scan_finish(&scan, err);
    if (r == 0)
        *ret_adapter = adapter;
    return r;
}

/* Bytes of the matrices, and their rank where the configuration has none: lora_A is [rank, inputs]. */
static int see_tensor(void *userdata, const struct uma_safetensors_tensor *t, struct uma_error *err) {
    (void)err;
    struct uma_folder_adapter *adapter = userdata;
    adapter->bytes = uma_plus(adapter->bytes, t->bytes);
    if (t->dims == 2 && memmem(t->name, t->name_length, "lora_A", 6) && t->shape[0] <= UINT32_MAX)
        adapter->rank = MAX_OF(adapter->rank, (uint32_t)t->shape[0]);
    return 0;
}

static int read_matrices(int folder, const char *path, struct uma_folder_adapter *adapter, struct uma_error *err) {
    _cleanup_free_
    char *whole = uma_folder_path(path, "adapter_model.safetensors"), *pickle = uma_folder_path(path, "adapter_model.bin");
    _cleanup_safetensors_reader_ struct uma_safetensors_reader *reader = uma_safetensors_reader_new();
    _cleanup_close_ int fd = -1;
    struct uma_safetensors_file file;
    uint64_t size = 0;
    if (!whole || !pickle || !reader)
        return uma_error_set(err, ENOMEM, "%s", path);
    int r = uma_folder_open_file(folder, "adapter_model.safetensors", whole, &fd, &size, err);
    if (r == 0)
        return uma_safetensors_read(reader, fd, size, whole, see_tensor, adapter, &file, err);
    if (r != -ENOENT)
        return r;
    r = uma_folder_open_file(folder, "adapter_model.bin", pickle, &fd, &size, err);
    if (r == 0)
        adapter->bytes = size;
    return r == -ENOENT ? 0 : r; /* not trained yet */
}

int uma_folder_adapter_read(int folder, const char *path, struct uma_folder_adapter *ret_adapter, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    _cleanup_free_
    char *whole = uma_folder_path(path, "adapter_config.json");
    struct uma_folder_adapter adapter;
    if (!whole)
        return uma_error_set(err, ENOMEM, "%s", path);
    int r = uma_folder_read_file(folder, "adapter_config.json", whole, UMA_FOLDER_TEXT_MAX, &text, err);
    if (r == 0)
        r = uma_folder_adapter_parse(text.data, text.length, whole, &adapter, err);
    if (r == 0)
        r = read_matrices(folder, path, &adapter, err);
    if (r == 0)
        *ret_adapter = adapter;
    return r;
}
