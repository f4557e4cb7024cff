/* SPDX-License-Identifier: MIT */
/*
 * gguf_reader.h - one pass over the header of one GGUF file, with a buffer of fixed size. Says what it meets to a visitor and keeps nothing
 * of it. Reads with pread, not through a mapping: a file that another process cuts short is then an error and not a signal.
 *
 * Checked here, before use: every length and count against what is left of the file, every product of dimensions, offsets (aligned, inside
 * the file, not overlapping), and that no key and no tensor comes twice.
 */
#pragma once

#include "base/error.h"
#include "uma_model.h"

enum {
    UMA_GGUF_TENSORS_MAX = 1 << 18, /* the largest models have some 2,000 */
    UMA_GGUF_KEYS_MAX = 1 << 16,
    UMA_GGUF_TEXT = 256,                       /* of keys, names and texts so much is given to the visitor */
    UMA_GGUF_ARRAY_MAX = UMA_MODEL_LAYERS_MAX, /* longer arrays of numbers are skipped */
};

/* One value of the metadata. Numbers are not below 0: a negative one has `negative` and the value 0; fractions are cut. */
struct uma_gguf_value {
    bool is_number, is_text, negative;
    uint64_t number;
    const char *text;        /* NUL-terminated, cut at UMA_GGUF_TEXT; NUL bytes in it end it */
    uint64_t count;          /* elements of an array */
    const uint32_t *numbers; /* of an array of at most UMA_GGUF_ARRAY_MAX numbers: capped at UINT32_MAX, negative ones as 0; else NULL */
};

struct uma_gguf_tensor {
    const char *name;
    unsigned dimension_count;
    uint64_t dimensions[4]; /* the fastest first; 1 beyond dimension_count */
    uint64_t elements;
    enum uma_format format; /* UNKNOWN for a type this program does not know */
    uint64_t bytes;         /* 0 then */
};

struct uma_gguf_visitor {
    int (*key)(void *userdata, const char *key, const struct uma_gguf_value *value, struct uma_error *err);
    /* A number >= 0 that stands for the tensor in `sized`. */
    int (*tensor)(void *userdata, const struct uma_gguf_tensor *tensor, struct uma_error *err);
    /* Bytes of a tensor of unknown type, found from where the next one begins. */
    void (*sized)(void *userdata, int tag, uint64_t bytes);
    void *userdata;
};

struct uma_gguf_header {
    uint32_t version;
    uint64_t file_size, bytes_read;
    uint32_t unknown_type, unknown_tensors; /* the last type not known, and how many tensors have such */
};

/* `path` is for messages. 0, or what the visitor returned. */
int uma_gguf_scan(int fd, const char *path, const struct uma_gguf_visitor *visitor, struct uma_gguf_header *ret_header,
                  struct uma_error *err);
