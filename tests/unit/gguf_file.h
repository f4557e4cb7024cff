/* SPDX-License-Identifier: MIT */
/* gguf_file.h - GGUF files made for a test: keys and tensors are added, the file is written with its data left as a hole. */
#pragma once

#include "base/text.h"
#include "folder.h"
#include "plan/model/gguf_types.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { GGUF_U32 = 4, GGUF_I32 = 5, GGUF_BOOL = 7, GGUF_TEXT = 8, GGUF_ARRAY = 9, GGUF_U64 = 10 };
enum { GGML_F32 = 0, GGML_F16 = 1, GGML_Q8_0 = 8, GGML_Q4_K = 12, GGML_Q6_K = 14, GGML_BF16 = 30, GGML_MXFP4 = 39 };

struct gguf {
    struct uma_text keys, infos;
    uint64_t key_count, tensor_count, offset; /* offset: of the next tensor */
    uint32_t version;                         /* 0: 3 */
};

static inline void gguf_done(struct gguf *g) {
    uma_text_done(&g->keys);
    uma_text_done(&g->infos);
}
#define _cleanup_gguf_ _cleanup_(gguf_done)

static inline void gguf_put(struct uma_text *text, uint64_t v, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++)
        uma_text_char(text, (char)(v >> (8 * i) & 0xff));
}

static inline void gguf_put_text(struct uma_text *text, const char *s) {
    gguf_put(text, strlen(s), 8);
    uma_text_append(text, s);
}

/* Key and type; the value is put into g->keys behind it. */
static inline void gguf_key(struct gguf *g, const char *key, uint32_t type) {
    gguf_put_text(&g->keys, key);
    gguf_put(&g->keys, type, 4);
    g->key_count++;
}

static inline void gguf_u32(struct gguf *g, const char *key, uint32_t v) {
    gguf_key(g, key, GGUF_U32);
    gguf_put(&g->keys, v, 4);
}

static inline void gguf_text(struct gguf *g, const char *key, const char *value) {
    gguf_key(g, key, GGUF_TEXT);
    gguf_put_text(&g->keys, value);
}

static inline void gguf_array(struct gguf *g, const char *key, uint32_t type, uint64_t count) {
    gguf_key(g, key, GGUF_ARRAY);
    gguf_put(&g->keys, type, 4);
    gguf_put(&g->keys, count, 8);
}

static inline void gguf_u32s(struct gguf *g, const char *key, const uint32_t *v, size_t n) {
    gguf_array(g, key, GGUF_U32, n);
    for (size_t i = 0; i < n; i++)
        gguf_put(&g->keys, v[i], 4);
}

static inline void gguf_words(struct gguf *g, uint64_t n) {
    gguf_array(g, "tokenizer.ggml.tokens", GGUF_TEXT, n);
    for (uint64_t i = 0; i < n; i++) {
        char word[24];
        (void)snprintf(word, sizeof word, "w%llu", (unsigned long long)i);
        gguf_put_text(&g->keys, word);
    }
}

/* As it is, whether it makes sense or not. */
static inline void gguf_raw_tensor(struct gguf *g, const char *name, uint32_t type, uint32_t n, const uint64_t *dimensions,
                                   uint64_t offset) {
    gguf_put_text(&g->infos, name);
    gguf_put(&g->infos, n, 4);
    for (uint32_t i = 0; i < n; i++)
        gguf_put(&g->infos, dimensions[i], 8);
    gguf_put(&g->infos, type, 4);
    gguf_put(&g->infos, offset, 8);
    g->tensor_count++;
}

/* A tensor behind the last one; dimensions end at the first 0. Returns its bytes. */
static inline uint64_t gguf_tensor(struct gguf *g, const char *name, uint32_t type, uint64_t d0, uint64_t d1, uint64_t d2) {
    const uint64_t dimensions[] = { d0, d1, d2 };
    uint64_t bytes = uma_ggml_type_bytes(uma_ggml_type_find(type), d0, (d1 ? d1 : 1) * (d2 ? d2 : 1));
    gguf_raw_tensor(g, name, type, d2 ? 3 : d1 ? 2 : 1, dimensions, g->offset);
    g->offset = (g->offset + bytes + 31) / 32 * 32;
    return bytes;
}

UMA_PRINTF(6, 7)
static inline uint64_t gguf_block(struct gguf *g, uint32_t type, uint64_t d0, uint64_t d1, uint64_t d2, const char *name, ...) {
    char whole[128];
    va_list arguments;
    va_start(arguments, name);
    (void)vsnprintf(whole, sizeof whole, name, arguments);
    va_end(arguments);
    return gguf_tensor(g, whole, type, d0, d1, d2);
}

static inline void gguf_bytes(const struct gguf *g, struct uma_text *ret_file) {
    uma_text_reset(ret_file);
    uma_text_append(ret_file, "GGUF");
    gguf_put(ret_file, g->version ? g->version : 3, 4);
    gguf_put(ret_file, g->tensor_count, 8);
    gguf_put(ret_file, g->key_count, 8);
    uma_text_append_n(ret_file, g->keys.data ? g->keys.data : "", g->keys.length);
    uma_text_append_n(ret_file, g->infos.data ? g->infos.data : "", g->infos.length);
    while (ret_file->length % 32)
        uma_text_char(ret_file, '\0');
}

/* Write it into a folder; the path is in `ret_path`. */
static inline void gguf_write(const struct gguf *g, const struct folder *folder, const char *name, char ret_path[512]) {
    _cleanup_text_ struct uma_text file = { 0 };
    gguf_bytes(g, &file);
    folder_put_n(folder, name, file.data, file.length);
    (void)snprintf(ret_path, 512, "%s/%s", folder->path, name);
    if (truncate(ret_path, (off_t)(file.length + g->offset)) < 0)
        abort();
}
