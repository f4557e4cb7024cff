/* SPDX-License-Identifier: MIT */
/*
 * safetensors.h - the headers of safetensors files (github.com/huggingface/safetensors, "Format": 8 bytes of length, that many bytes of JSON,
 * the data). The header streams through one buffer and each tensor is handed on as it comes by; the data is never read. What is kept is
 * bounded: 12 bytes a name and 16 bytes a tensor, some 50 MiB at the most tensors that are accepted.
 *
 * A file is refused, with its name and the byte, when its header cannot be true: longer than the file or the format's limit, not JSON, a
 * tensor named twice, data that lies beyond the end or over another tensor's, a size that is not shape x type.
 */
#pragma once

#include "plan/model/json_scan.h"
#include "plan/model/safetensors_names.h"

/* The format's own limit on a header. */
#define UMA_SAFETENSORS_HEADER_MAX UINT64_C(100000000)
enum {
    UMA_SAFETENSORS_DIMS_KEPT = 8,
    UMA_SAFETENSORS_NAME_MAX = 1024,      /* the longest in use are about 150 bytes */
    UMA_SAFETENSORS_TENSORS_MAX = 1 << 19 /* of one file */
};

#define UMA_DTYPES(X)                                                                                                                      \
    X(BOOL, "BOOL", 8)                                                                                                                     \
    X(F4, "F4", 4)                                                                                                                         \
    X(F6_E2M3, "F6_E2M3", 6)                                                                                                               \
    X(F6_E3M2, "F6_E3M2", 6)                                                                                                               \
    X(U8, "U8", 8)                                                                                                                         \
    X(I8, "I8", 8)                                                                                                                         \
    X(F8_E4M3, "F8_E4M3", 8)                                                                                                               \
    X(F8_E5M2, "F8_E5M2", 8)                                                                                                               \
    X(F8_E8M0, "F8_E8M0", 8)                                                                                                               \
    X(F8_E4M3FNUZ, "F8_E4M3FNUZ", 8)                                                                                                       \
    X(F8_E5M2FNUZ, "F8_E5M2FNUZ", 8)                                                                                                       \
    X(I16, "I16", 16)                                                                                                                      \
    X(U16, "U16", 16)                                                                                                                      \
    X(F16, "F16", 16)                                                                                                                      \
    X(BF16, "BF16", 16)                                                                                                                    \
    X(I32, "I32", 32)                                                                                                                      \
    X(U32, "U32", 32)                                                                                                                      \
    X(F32, "F32", 32)                                                                                                                      \
    X(I64, "I64", 64)                                                                                                                      \
    X(U64, "U64", 64)                                                                                                                      \
    X(F64, "F64", 64)                                                                                                                      \
    X(C64, "C64", 64)

enum uma_dtype {
    UMA_DTYPE_UNKNOWN = 0, /* a name this version does not know: its size is what data_offsets say */
#define UMA_DTYPE_ENUM(id, name, bits) UMA_DTYPE_##id,
    UMA_DTYPES(UMA_DTYPE_ENUM)
#undef UMA_DTYPE_ENUM
        UMA_DTYPE_COUNT,
};
unsigned uma_dtype_bits(enum uma_dtype dtype); /* 0 for unknown */

struct uma_safetensors_tensor {
    const char *name; /* NUL-terminated UTF-8; only during the call */
    size_t name_length;
    enum uma_dtype dtype;
    const char *dtype_name; /* as the file has it */
    uint32_t dims;          /* of the shape; the first UMA_SAFETENSORS_DIMS_KEPT stand in `shape`, 0 behind them */
    uint64_t shape[UMA_SAFETENSORS_DIMS_KEPT];
    uint64_t elements, bytes;
};

/* Called for each tensor. A negative return ends the reading with it (err is then the callee's). */
typedef int (*uma_safetensors_each)(void *userdata, const struct uma_safetensors_tensor *tensor, struct uma_error *err);

struct uma_safetensors_file {
    uint64_t header_bytes, tensors;
    uint64_t repeated; /* tensors left out because an earlier file of this reader has them */
    uint64_t data_end; /* the last byte that a tensor takes, counted from the start of the file */
};

/* One reader for all files of a model: the buffer is reused, and a tensor that a second file repeats is left out. */
struct uma_safetensors_reader;
struct uma_safetensors_reader *uma_safetensors_reader_new(void); /* NULL when out of memory */
struct uma_safetensors_reader *uma_safetensors_reader_free(struct uma_safetensors_reader *reader);

/* Read the header of an open regular file of `size` bytes; `name` for messages. */
int uma_safetensors_read(struct uma_safetensors_reader *reader, int fd, uint64_t size, const char *name, uma_safetensors_each each,
                         void *userdata, struct uma_safetensors_file *ret_file, struct uma_error *err);
/* The same of a file in memory of which `length` bytes are there, as if it was `size` long. */
int uma_safetensors_read_memory(struct uma_safetensors_reader *reader, const char *data, size_t length, uint64_t size, const char *name,
                                uma_safetensors_each each, void *userdata, struct uma_safetensors_file *ret_file, struct uma_error *err);

static inline void uma_cleanup_safetensors_reader(struct uma_safetensors_reader **reader) {
    (void)uma_safetensors_reader_free(*reader);
}
#define _cleanup_safetensors_reader_ _cleanup_(uma_cleanup_safetensors_reader)
