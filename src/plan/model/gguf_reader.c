/* SPDX-License-Identifier: MIT */
#include "plan/model/gguf_reader.h"

#include "plan/estimate.h"
#include "plan/model/gguf.h"
#include "plan/model/gguf_types.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The types of metadata values (gguf.md of ggml-org/ggml). */
enum {
    TYPE_U8,
    TYPE_I8,
    TYPE_U16,
    TYPE_I16,
    TYPE_U32,
    TYPE_I32,
    TYPE_F32,
    TYPE_BOOL,
    TYPE_STRING,
    TYPE_ARRAY,
    TYPE_U64,
    TYPE_I64,
    TYPE_F64
};

/* One read(2) holds the whole header of a file without a vocabulary, and some 15,000 words of one with. */
enum { BUFFER_SIZE = 256 << 10, KEY_LENGTH_MAX = 65535, TENSOR_NAME_MAX = 65535 };

struct extent {
    uint64_t offset, bytes;
    int tag;
    bool unknown;
};

struct reader {
    int fd;
    const char *path;
    uint64_t size;     /* of the file */
    uint64_t base;     /* file offset of buffer[0] */
    size_t at, filled; /* in buffer */
    uint64_t bytes_read;
    uint8_t *buffer;
    char key[UMA_GGUF_TEXT]; /* what is being read, for messages */
    uint32_t alignment;
    uint32_t numbers[UMA_GGUF_ARRAY_MAX];
    uint64_t *names; /* hashes of names, to find what comes twice */
    size_t name_count, name_room;
    struct extent *extents;
    size_t extent_count, extent_room;
};

static void reader_done(struct reader *r) {
    free(r->buffer);
    free(r->names);
    free(r->extents);
}

static uint64_t position(const struct reader *r) {
    return r->base + r->at;
}

static uint64_t left(const struct reader *r) {
    return r->size - position(r);
}

static int malformed(const struct reader *r, struct uma_error *err, const char *what) {
    return uma_error_text(err, EINVAL, "%s: %s at byte %" PRIu64 " (%s)", r->path, what, position(r), r->key);
}

/* At least n bytes at buffer + at; n <= BUFFER_SIZE. */
static int need(struct reader *r, size_t n, struct uma_error *err) {
    if (r->filled - r->at >= n)
        return 0;
    if (left(r) < n)
        return malformed(r, err, "the file ends");
    memmove(r->buffer, r->buffer + r->at, r->filled - r->at);
    r->base += r->at;
    r->filled -= r->at;
    r->at = 0;
    while (r->filled < n) {
        ssize_t got = pread(r->fd, r->buffer + r->filled, BUFFER_SIZE - r->filled, (off_t)(r->base + r->filled));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return uma_error_set(err, errno, "cannot read %s", r->path);
        if (got == 0)
            return malformed(r, err, "the file became shorter while it was read");
        r->filled += (size_t)got;
        r->bytes_read += (uint64_t)got;
    }
    if (r->bytes_read > UMA_GGUF_HEADER_MAX)
        return uma_error_text(err, EINVAL, "%s: the header is longer than %d MiB", r->path, UMA_GGUF_HEADER_MAX >> 20);
    return 0;
}

static int skip(struct reader *r, uint64_t n, struct uma_error *err) {
    if (n > left(r))
        return malformed(r, err, "a length is beyond the end of the file");
    if (n <= r->filled - r->at) {
        r->at += (size_t)n;
        return 0;
    }
    r->base = position(r) + n;
    r->at = r->filled = 0;
    return 0;
}

/* n of 1 to 8 little-endian bytes. */
static uint64_t little(const uint8_t *p, unsigned n) {
    uint64_t v = 0;
    memcpy(&v, p, n);
    return le64toh(v);
}

static int take(struct reader *r, unsigned n, uint64_t *ret_value, struct uma_error *err) {
    int e = need(r, n, err);
    if (e < 0)
        return e;
    *ret_value = little(r->buffer + r->at, n);
    r->at += n;
    return 0;
}

/* A string's first bytes into `text`; its whole is hashed when it is a name (at most BUFFER_SIZE long). */
static int take_name(struct reader *r, size_t most, char text[UMA_GGUF_TEXT], uint64_t *ret_hash, struct uma_error *err) {
    uint64_t length;
    int e = take(r, 8, &length, err);
    if (e < 0)
        return e;
    if (length > left(r))
        return malformed(r, err, "a name is longer than the file");
    if (length == 0 || length > most)
        return malformed(r, err, length ? "a name is too long" : "an empty name");
    if ((e = need(r, (size_t)length, err)) < 0)
        return e;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a: collisions cost a hostile file its reading, nothing else */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ r->buffer[r->at + i]) * UINT64_C(0x100000001b3);
    size_t kept = MIN_OF((size_t)length, (size_t)UMA_GGUF_TEXT - 1);
    memcpy(text, r->buffer + r->at, kept);
    text[kept] = '\0';
    r->at += (size_t)length;
    *ret_hash = hash;
    return 0;
}

static int remember_name(struct reader *r, uint64_t hash, struct uma_error *err) {
    if (r->name_count == r->name_room) {
        size_t room = r->name_room ? r->name_room * 2 : 1024;
        uint64_t *names = reallocarray(r->names, room, sizeof *names);
        if (!names)
            return uma_error_set(err, ENOMEM, "cannot read %s", r->path);
        r->names = names;
        r->name_room = room;
    }
    r->names[r->name_count++] = hash;
    return 0;
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int forget_names(struct reader *r, const char *what, struct uma_error *err) {
    if (r->name_count > 1)
        qsort(r->names, r->name_count, sizeof *r->names, compare_numbers);
    for (size_t i = 1; i < r->name_count; i++)
        if (r->names[i] == r->names[i - 1])
            return uma_error_text(err, EINVAL, "%s: a %s comes twice", r->path, what);
    r->name_count = 0;
    return 0;
}

/* ---- metadata ----------------------------------------------------------------------------------------------- */

static unsigned size_of(uint64_t type) { /* 0: not a number */
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < ELEMENTS(sizes) ? sizes[type] : 0;
}

static uint64_t whole(double v) {
    return !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

static uint64_t number_of(uint64_t type, uint64_t raw, bool *ret_negative) {
    bool is_signed = type == TYPE_I8 || type == TYPE_I16 || type == TYPE_I32 || type == TYPE_I64;
    *ret_negative = is_signed && raw >> (size_of(type) * 8 - 1);
    if (*ret_negative)
        return 0;
    if (type == TYPE_F32) {
        float f;
        memcpy(&f, &(uint32_t){ (uint32_t)raw }, sizeof f);
        return whole((double)f);
    }
    if (type == TYPE_F64) {
        double f;
        memcpy(&f, &raw, sizeof f);
        return whole(f);
    }
    return raw;
}

/* The words of a vocabulary: only their lengths are read. */
static int skip_texts(struct reader *r, uint64_t count, struct uma_error *err) {
    if (count > left(r) / 8)
        return malformed(r, err, "an array has more elements than the file has room for");
    while (count > 0) {
        /* those that lie in the buffer as a whole: half a million in a large vocabulary and its merges */
        size_t at = r->at;
        for (; count > 0 && r->filled - at >= 8; count--) {
            uint64_t length = little(r->buffer + at, 8);
            if (length > r->filled - at - 8)
                break;
            at += 8 + (size_t)length;
        }
        r->at = at;
        if (count == 0)
            break;
        uint64_t length;
        int e = take(r, 8, &length, err);
        if (e < 0 || (e = skip(r, length, err)) < 0)
            return e;
        count--;
    }
    return 0;
}

static int take_array(struct reader *r, struct uma_gguf_value *value, struct uma_error *err) {
    uint64_t type, count;
    int e = take(r, 4, &type, err);
    if (e < 0 || (e = take(r, 8, &count, err)) < 0)
        return e;
    value->count = count;
    if (type == TYPE_STRING)
        return skip_texts(r, count, err);
    unsigned size = size_of(type);
    if (type == TYPE_ARRAY)
        return malformed(r, err, "an array of arrays, which no reader of GGUF takes");
    if (size == 0)
        return malformed(r, err, "an array of an unknown type");
    if (count > left(r) / size)
        return malformed(r, err, "an array has more elements than the file has room for");
    if (count > UMA_GGUF_ARRAY_MAX)
        return skip(r, count * size, err);
    if ((e = need(r, (size_t)(count * size), err)) < 0)
        return e;
    for (size_t i = 0; i < count; i++) {
        bool negative;
        r->numbers[i] = (uint32_t)MIN_OF(number_of(type, little(r->buffer + r->at + i * size, size), &negative), (uint64_t)UINT32_MAX);
    }
    r->at += (size_t)(count * size);
    value->numbers = r->numbers;
    return 0;
}

static int take_text(struct reader *r, char text[UMA_GGUF_TEXT], struct uma_gguf_value *value, struct uma_error *err) {
    uint64_t length;
    int e = take(r, 8, &length, err);
    if (e < 0)
        return e;
    if (length > left(r))
        return malformed(r, err, "a text is longer than the file");
    size_t kept = (size_t)MIN_OF(length, (uint64_t)UMA_GGUF_TEXT - 1);
    if ((e = need(r, kept, err)) < 0)
        return e;
    memcpy(text, r->buffer + r->at, kept);
    text[kept] = '\0';
    value->is_text = true;
    value->text = text;
    return skip(r, length, err);
}

static int take_value(struct reader *r, char text[UMA_GGUF_TEXT], struct uma_gguf_value *value, struct uma_error *err) {
    uint64_t type, raw;
    int e = take(r, 4, &type, err);
    if (e < 0)
        return e;
    if (type == TYPE_STRING)
        return take_text(r, text, value, err);
    if (type == TYPE_ARRAY)
        return take_array(r, value, err);
    if (size_of(type) == 0)
        return malformed(r, err, "a value of an unknown type");
    if ((e = take(r, size_of(type), &raw, err)) < 0)
        return e;
    value->is_number = true;
    value->number = number_of(type, raw, &value->negative);
    return 0;
}

static int take_keys(struct reader *r, uint64_t count, const struct uma_gguf_visitor *visitor, struct uma_error *err) {
    char text[UMA_GGUF_TEXT];
    for (uint64_t i = 0; i < count; i++) {
        struct uma_gguf_value value = { 0 };
        uint64_t hash;
        int e = take_name(r, KEY_LENGTH_MAX, r->key, &hash, err);
        if (e < 0 || (e = remember_name(r, hash, err)) < 0 || (e = take_value(r, text, &value, err)) < 0)
            return e;
        if (strcmp(r->key, "general.alignment") == 0) {
            if (!value.is_number || value.number == 0 || value.number > INT32_MAX || (value.number & (value.number - 1)) != 0)
                return malformed(r, err, "the alignment is not a power of two");
            r->alignment = (uint32_t)value.number;
        }
        if ((e = visitor->key(visitor->userdata, r->key, &value, err)) < 0)
            return e;
    }
    return forget_names(r, "key", err);
}

/* ---- tensors ------------------------------------------------------------------------------------------------ */

static int take_dimensions(struct reader *r, struct uma_gguf_tensor *tensor, struct uma_error *err) {
    uint64_t n;
    int e = take(r, 4, &n, err);
    if (e < 0)
        return e;
    if (n > ELEMENTS(tensor->dimensions))
        return malformed(r, err, "a tensor of more than four dimensions");
    tensor->dimension_count = (unsigned)n;
    tensor->elements = 1;
    for (unsigned i = 0; i < ELEMENTS(tensor->dimensions); i++)
        tensor->dimensions[i] = 1;
    for (unsigned i = 0; i < n; i++) {
        if ((e = take(r, 8, &tensor->dimensions[i], err)) < 0)
            return e;
        if (tensor->dimensions[i] > INT64_MAX || __builtin_mul_overflow(tensor->elements, tensor->dimensions[i], &tensor->elements) ||
            tensor->elements > INT64_MAX)
            return malformed(r, err, "a tensor has more elements than can be counted");
    }
    return 0;
}

static int add_extent(struct reader *r, struct extent extent, struct uma_error *err) {
    if (r->extent_count == r->extent_room) {
        size_t room = r->extent_room ? r->extent_room * 2 : 1024;
        struct extent *extents = reallocarray(r->extents, room, sizeof *extents);
        if (!extents)
            return uma_error_set(err, ENOMEM, "cannot read %s", r->path);
        r->extents = extents;
        r->extent_room = room;
    }
    r->extents[r->extent_count++] = extent;
    return 0;
}

static int take_tensor(struct reader *r, const struct uma_gguf_visitor *visitor, struct uma_gguf_header *header, struct uma_error *err) {
    struct uma_gguf_tensor tensor = { .name = r->key };
    uint64_t hash, number, offset;
    int e = take_name(r, TENSOR_NAME_MAX, r->key, &hash, err);
    if (e < 0 || (e = remember_name(r, hash, err)) < 0 || (e = take_dimensions(r, &tensor, err)) < 0 ||
        (e = take(r, 4, &number, err)) < 0 || (e = take(r, 8, &offset, err)) < 0)
        return e;
    if (offset % r->alignment != 0)
        return malformed(r, err, "a tensor's offset is not aligned");
    const struct uma_ggml_type *type = uma_ggml_type_find((uint32_t)number);
    if (type) {
        tensor.format = (enum uma_format)type->format;
        uint64_t row = tensor.dimensions[0];
        tensor.bytes = uma_ggml_type_bytes(type, row, row ? tensor.elements / row : 0);
        if (row % type->elements != 0)
            return malformed(r, err, "a tensor's rows are not whole blocks of its type");
    } else {
        header->unknown_type = (uint32_t)number;
        header->unknown_tensors++;
    }
    int tag = visitor->tensor(visitor->userdata, &tensor, err);
    return tag < 0 ? tag : add_extent(r, (struct extent){ offset, tensor.bytes, tag, !type }, err);
}

static int compare_extents(const void *a, const void *b) {
    const struct extent *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Every tensor lies in the file and on no other. `room`: bytes of the file behind the header. */
static int check_extents(struct reader *r, uint64_t room, const struct uma_gguf_visitor *visitor, struct uma_error *err) {
    if (r->extent_count > 1)
        qsort(r->extents, r->extent_count, sizeof *r->extents, compare_extents);
    uint64_t end = 0;
    for (size_t i = 0; i < r->extent_count; i++) {
        struct extent *extent = &r->extents[i];
        uint64_t next = i + 1 < r->extent_count ? r->extents[i + 1].offset : room;
        if (extent->offset < end)
            return uma_error_text(err, EINVAL, "%s: two tensors overlap at offset %" PRIu64 " of the data", r->path, extent->offset);
        if (extent->unknown) {
            extent->bytes = uma_minus(next, extent->offset);
            visitor->sized(visitor->userdata, extent->tag, extent->bytes);
        }
        if (extent->offset > room || extent->bytes > room - extent->offset)
            return uma_error_text(err, EINVAL, "%s: the file is cut off: its tensors end %" PRIu64 " bytes behind its end", r->path,
                                  uma_minus(uma_plus(extent->offset, extent->bytes), room));
        end = extent->offset + extent->bytes;
    }
    return 0;
}

/* ---- the file ----------------------------------------------------------------------------------------------- */

static int take_version(struct reader *r, uint32_t *ret_version, struct uma_error *err) {
    uint64_t version;
    if (left(r) < 4 || need(r, 4, NULL) < 0 || memcmp(r->buffer, "GGUF", 4) != 0)
        return uma_error_text(err, EINVAL, "%s is not a GGUF file: it does not begin with \"GGUF\"", r->path);
    r->at += 4;
    int e = take(r, 4, &version, err);
    if (e < 0)
        return e;
    if (version != 0 && (version & 0xffff) == 0)
        return uma_error_text(err, ENOTSUP, "%s is a big-endian GGUF file, which is not read here", r->path);
    if (version == 1)
        return uma_error_text(err, ENOTSUP, "%s is GGUF version 1, which llama.cpp no longer reads, either: convert it again", r->path);
    if (version != 2 && version != 3)
        return uma_error_text(err, ENOTSUP, "%s is GGUF version %" PRIu64 ", versions 2 and 3 are read", r->path, version);
    *ret_version = (uint32_t)version;
    return 0;
}

static int scan(struct reader *r, const struct uma_gguf_visitor *visitor, struct uma_gguf_header *header, struct uma_error *err) {
    uint64_t tensors, keys;
    int e = take_version(r, &header->version, err);
    if (e < 0 || (e = take(r, 8, &tensors, err)) < 0 || (e = take(r, 8, &keys, err)) < 0)
        return e;
    /* a key takes at least 8 + 1 + 4 + 1 bytes, a tensor 8 + 1 + 4 + 4 + 8 */
    if (keys > left(r) / 14 || keys > UMA_GGUF_KEYS_MAX)
        return malformed(r, err, "more keys than the file has room for");
    if (tensors > left(r) / 25 || tensors > UMA_GGUF_TENSORS_MAX)
        return malformed(r, err, "more tensors than the file has room for");
    header->file_size = r->size;
    if ((e = take_keys(r, keys, visitor, err)) < 0)
        return e;
    for (uint64_t i = 0; i < tensors; i++)
        if ((e = take_tensor(r, visitor, header, err)) < 0)
            return e;
    if ((e = forget_names(r, "tensor", err)) < 0)
        return e;
    uint64_t start = uma_times(uma_divide_up(position(r), r->alignment), r->alignment);
    return check_extents(r, uma_minus(r->size, start), visitor, err);
}

int uma_gguf_scan(int fd, const char *path, const struct uma_gguf_visitor *visitor, struct uma_gguf_header *ret_header,
                  struct uma_error *err) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "cannot read %s", path);
    if (!S_ISREG(st.st_mode))
        return uma_error_text(err, EINVAL, "%s is not a file", path);
    struct uma_gguf_header header = { 0 };
    _cleanup_(reader_done) struct reader r = { .fd = fd, .path = path, .size = (uint64_t)st.st_size, .key = "header", .alignment = 32 };
    r.buffer = malloc(BUFFER_SIZE);
    if (!r.buffer)
        return uma_error_set(err, ENOMEM, "cannot read %s", path);
    int e = scan(&r, visitor, &header, err);
    if (e < 0)
        return e;
    header.bytes_read = r.bytes_read;
    *ret_header = header;
    return 0;
}
