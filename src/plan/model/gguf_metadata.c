/* SPDX-License-Identifier: MIT */
#include "plan/model/gguf_metadata.h"

#include <stdlib.h>
#include <string.h>

static const char *const key_names[UMA_GGUF_KEY_COUNT] = {
#define KEY_NAME(id, name) [UMA_GGUF_##id] = name,
    UMA_GGUF_KEYS(KEY_NAME)
#undef KEY_NAME
};

static void copy_text(char *into, size_t size, const struct uma_gguf_value *value) {
    if (value->is_text)
        snprintf(into, size, "%s", value->text);
}

static void copy_number(uint64_t *into, const struct uma_gguf_value *value) {
    if (value->is_number && !value->negative)
        *into = value->number;
}

/* Keys that stand alone. */
static bool take_general(struct uma_gguf_metadata *m, const char *key, const struct uma_gguf_value *value) {
    if (strcmp(key, "general.architecture") == 0)
        copy_text(m->architecture, sizeof m->architecture, value);
    else if (strcmp(key, "general.name") == 0)
        copy_text(m->name, sizeof m->name, value);
    else if (strcmp(key, "general.type") == 0)
        copy_text(m->type, sizeof m->type, value);
    else if (strcmp(key, "general.file_type") == 0) {
        m->has_file_type = value->is_number && !value->negative;
        copy_number(&m->file_type, value);
    } else if (strcmp(key, "tokenizer.ggml.tokens") == 0)
        m->words = value->count;
    else if (strcmp(key, "split.no") == 0)
        copy_number(&m->split_number, value);
    else if (strcmp(key, "split.count") == 0)
        copy_number(&m->split_count, value);
    else if (strcmp(key, "split.tensors.count") == 0)
        copy_number(&m->split_tensors, value);
    else
        return strncmp(key, "general.", 8) == 0 || strncmp(key, "tokenizer.", 10) == 0 || strncmp(key, "split.", 6) == 0;
    return true;
}

int uma_gguf_metadata_key(void *userdata, const char *key, const struct uma_gguf_value *value, struct uma_error *err) {
    struct uma_gguf_metadata *m = userdata;
    if (take_general(m, key, value))
        return 0;
    size_t prefix = strlen(m->architecture);
    if (prefix == 0) {
        m->out_of_order = true;
        return 0;
    }
    if (strncmp(key, m->architecture, prefix) != 0 || key[prefix] != '.')
        return 0;
    for (unsigned i = 0; i < UMA_GGUF_KEY_COUNT; i++) {
        if (strcmp(key + prefix + 1, key_names[i]) != 0)
            continue;
        if (value->is_number && !value->negative) {
            m->keys[i].known = true;
            m->keys[i].number = value->number;
        } else if (value->numbers && value->count > 0) {
            size_t size = (size_t)value->count * sizeof *value->numbers;
            uint32_t *numbers = malloc(size);
            if (!numbers)
                return uma_error_set(err, ENOMEM, "cannot keep the metadata of a model");
            memcpy(numbers, value->numbers, size);
            free(m->keys[i].numbers);
            m->keys[i].known = true;
            m->keys[i].number = numbers[0];
            m->keys[i].count = (uint32_t)value->count;
            m->keys[i].numbers = numbers;
        }
        return 0;
    }
    return 0;
}

void uma_gguf_metadata_done(struct uma_gguf_metadata *m) {
    for (unsigned i = 0; i < UMA_GGUF_KEY_COUNT; i++) {
        free(m->keys[i].numbers);
        m->keys[i].numbers = NULL;
        m->keys[i].count = 0;
    }
}

uint32_t uma_gguf_number(const struct uma_gguf_metadata *m, enum uma_gguf_key key, uint32_t layer, uint32_t otherwise) {
    if (!m->keys[key].known)
        return otherwise;
    if (m->keys[key].numbers)
        return layer < m->keys[key].count ? m->keys[key].numbers[layer] : otherwise;
    return (uint32_t)(m->keys[key].number < UINT32_MAX ? m->keys[key].number : UINT32_MAX);
}
