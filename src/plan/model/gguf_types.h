/* SPDX-License-Identifier: MIT */
/* gguf_types.h - the numbers that GGUF files give to tensor types and file types. Pure tables. */
#pragma once

#include "uma_model.h"

struct uma_ggml_type {
    uint16_t number;
    uint8_t format;    /* enum uma_format; a repacked type has the format of its plain form */
    uint8_t row_extra; /* bytes that each row holds beyond its blocks (a scale per row) */
    uint16_t elements; /* of a block */
    uint16_t bytes;
};

/* NULL for a number that no released version wrote, or whose layout differs between forks. */
const struct uma_ggml_type *uma_ggml_type_find(uint32_t number);
/* Bytes of a tensor of `rows` rows of `row` elements; 0 when a row is not whole blocks. Saturates. */
uint64_t uma_ggml_type_bytes(const struct uma_ggml_type *type, uint64_t row, uint64_t rows);

/* general.file_type as llama.cpp shows it ("Q4_K - Medium"), or NULL. */
const char *uma_gguf_file_type_name(uint64_t file_type);
