/* SPDX-License-Identifier: MIT */
#include "plan/model/safetensors.h"

#include "plan/estimate.h"

#include <string.h>
#include <unistd.h>

/* The length that begins a file. */
enum { LENGTH_BYTES = 8 };
/*
 * One shard of many has a few dozen tensors: the first read then holds the length and the whole header, and brings no more of the data into
 * memory than it must. Larger headers take one more read for each window, which is noise beside parsing them.
 */
enum { FIRST_READ = 8 * 1024, WINDOW = 64 * 1024 };

struct extent {
    uint64_t begin, end;
};

struct uma_safetensors_reader {
    char window[WINDOW];
    char name[UMA_SAFETENSORS_NAME_MAX + 1];
    char dtype_name[24];
    struct uma_safetensors_names names;
    uint32_t files; /* read so far */
    /* where this file's tensors lie */
    struct extent *extents;
    size_t extent_count, extent_capacity;
    bool in_order; /* each began at or behind the end of the one before: nothing can overlap, and nothing has to be sorted */
};

struct uma_safetensors_reader *uma_safetensors_reader_new(void) {
    return calloc(1, sizeof(struct uma_safetensors_reader));
}

struct uma_safetensors_reader *uma_safetensors_reader_free(struct uma_safetensors_reader *reader) {
    if (!reader)
        return NULL;
    uma_safetensors_names_done(&reader->names);
    free(reader->extents);
    free(reader);
    return NULL;
}

static const struct {
    const char *name;
    unsigned bits;
} dtypes[UMA_DTYPE_COUNT] = {
#define DTYPE_ROW(id, text, width) [UMA_DTYPE_##id] = { text, width },
    UMA_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

unsigned uma_dtype_bits(enum uma_dtype dtype) {
    return dtypes[dtype].bits;
}

static enum uma_dtype dtype_of(const char *name) {
    for (unsigned i = 1; i < UMA_DTYPE_COUNT; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return (enum uma_dtype)i;
    return UMA_DTYPE_UNKNOWN;
}

/* ---- one tensor --------------------------------------------------------------------------------------------- */

struct parse {
    struct uma_safetensors_reader *reader;
    struct uma_json_scan scan;
    uint64_t data_begin, data_length;
    uma_safetensors_each each;
    void *userdata;
    struct uma_safetensors_file file;
};

static int read_shape(struct parse *p, struct uma_safetensors_tensor *t, struct uma_error *err) {
    bool first = true, overflow = false, empty = false;
    uint64_t elements = 1, size = 0;
    int r;
    while ((r = uma_json_scan_element(&p->scan, &first, err)) > 0) {
        r = uma_json_scan_u64(&p->scan, &size, err);
        if (r < 0)
            return r;
        if (t->dims < UMA_SAFETENSORS_DIMS_KEPT)
            t->shape[t->dims] = size;
        t->dims++;
        empty = empty || size == 0;
        overflow = overflow || __builtin_mul_overflow(elements, size, &elements);
    }
    if (r < 0)
        return r;
    if (overflow && !empty)
        return uma_json_scan_error(&p->scan, err, "the shape of this tensor holds more than 2^64 elements");
    t->elements = empty ? 0 : elements;
    return 0;
}

static int read_offsets(struct parse *p, struct extent *extent, struct uma_error *err) {
    uint64_t offsets[2] = { 0 };
    bool first = true;
    unsigned n = 0;
    int r;
    while ((r = uma_json_scan_element(&p->scan, &first, err)) > 0) {
        if (n == 2)
            return uma_json_scan_error(&p->scan, err, "data_offsets hold two numbers, not more");
        r = uma_json_scan_u64(&p->scan, &offsets[n++], err);
        if (r < 0)
            return r;
    }
    if (r < 0)
        return r;
    if (n != 2)
        return uma_json_scan_error(&p->scan, err, "data_offsets hold two numbers, not %u", n);
    *extent = (struct extent){ offsets[0], offsets[1] };
    return 0;
}

enum { HAVE_DTYPE = 1, HAVE_SHAPE = 2, HAVE_OFFSETS = 4 };

/* The members of a tensor's object. */
static int read_members(struct parse *p, struct uma_safetensors_tensor *t, struct extent *extent, struct uma_error *err) {
    static const char *const names[] = { "dtype", "shape", "data_offsets" };
    char key[16];
    size_t length = 0;
    unsigned have = 0;
    bool first = true;
    int r;
    while ((r = uma_json_scan_member(&p->scan, &first, key, sizeof(key), &length, err)) > 0) {
        unsigned which = 0;
        for (unsigned i = 0; i < ELEMENTS(names); i++)
            if (length == strlen(names[i]) && memcmp(key, names[i], length) == 0)
                which = 1u << i;
        if (have & which)
            return uma_json_scan_error(&p->scan, err, "\"%s\" stands twice in one tensor", key);
        have |= which;
        if (which == HAVE_DTYPE) {
            r = uma_json_scan_string(&p->scan, p->reader->dtype_name, sizeof(p->reader->dtype_name), NULL, err);
            t->dtype_name = p->reader->dtype_name;
            t->dtype = r < 0 ? UMA_DTYPE_UNKNOWN : dtype_of(t->dtype_name);
        } else if (which == HAVE_SHAPE)
            r = read_shape(p, t, err);
        else if (which == HAVE_OFFSETS)
            r = read_offsets(p, extent, err);
        else
            r = uma_json_scan_skip(&p->scan, NULL, err);
        if (r < 0)
            return r;
    }
    if (r < 0)
        return r;
    for (unsigned i = 0; i < ELEMENTS(names); i++)
        if (!(have & 1u << i))
            return uma_json_scan_error(&p->scan, err, "a tensor without \"%s\"", names[i]);
    return 0;
}

static int check_size(const struct parse *p, const struct uma_safetensors_tensor *t, const struct extent *extent, struct uma_error *err) {
    if (extent->begin > extent->end)
        return uma_json_scan_error(&p->scan, err, "data_offsets end (%llu) before they begin (%llu)", (unsigned long long)extent->end,
                                   (unsigned long long)extent->begin);
    if (extent->end > p->data_length)
        return uma_json_scan_error(&p->scan, err, "the data of this tensor ends at byte %llu, the file at %llu: is it whole?",
                                   (unsigned long long)uma_plus(p->data_begin, extent->end),
                                   (unsigned long long)(p->data_begin + p->data_length));
    if (t->dtype == UMA_DTYPE_UNKNOWN)
        return 0;
    uint64_t bits = 0;
    bool overflow = __builtin_mul_overflow(t->elements, dtypes[t->dtype].bits, &bits);
    if (overflow || bits / 8 + (bits % 8 != 0) != t->bytes)
        return uma_json_scan_error(&p->scan, err, "data_offsets give this tensor %llu bytes, but %llu elements of %s take %llu",
                                   (unsigned long long)t->bytes, (unsigned long long)t->elements, t->dtype_name,
                                   (unsigned long long)(overflow ? UINT64_MAX : bits / 8 + (bits % 8 != 0)));
    return 0;
}

static int keep_extent(struct uma_safetensors_reader *reader, struct extent extent) {
    if (extent.begin == extent.end)
        return 0;
    if (reader->extent_count == reader->extent_capacity) {
        size_t capacity = MAX_OF((size_t)1024, reader->extent_capacity * 2);
        struct extent *extents = realloc(reader->extents, capacity * sizeof(*extents));
        if (!extents)
            return -ENOMEM;
        reader->extents = extents;
        reader->extent_capacity = capacity;
    }
    if (reader->extent_count > 0 && extent.begin < reader->extents[reader->extent_count - 1].end)
        reader->in_order = false;
    reader->extents[reader->extent_count++] = extent;
    return 0;
}

/* 1: this tensor is new. 0: an earlier file has it. */
static int enter_name(struct parse *p, size_t length, struct uma_error *err) {
    struct uma_safetensors_reader *reader = p->reader;
    if (length > UMA_SAFETENSORS_NAME_MAX)
        return uma_json_scan_error(&p->scan, err, "a tensor name of %zu bytes; the longest accepted is %d", length,
                                   UMA_SAFETENSORS_NAME_MAX);
    if (p->file.tensors == UMA_SAFETENSORS_TENSORS_MAX)
        return uma_json_scan_error(&p->scan, err, "more than %d tensors in one file", UMA_SAFETENSORS_TENSORS_MAX);
    uint32_t file = 0;
    int r = uma_safetensors_names_add(&reader->names, reader->name, length, reader->files, &file);
    if (r == -E2BIG)
        return uma_json_scan_error(&p->scan, err, "more than %d tensors in one model", UMA_SAFETENSORS_NAMES_MAX);
    if (r < 0)
        return uma_error_set(err, -r, "%s", p->scan.file);
    if (r == 1 && file == reader->files)
        return uma_json_scan_error(&p->scan, err, "a second tensor of the name \"%.120s\"", reader->name);
    return r == 0;
}

static int read_tensor(struct parse *p, size_t name_length, struct uma_error *err) {
    struct uma_safetensors_tensor t = { .name = p->reader->name, .name_length = name_length };
    struct extent extent = { 0 };
    int new_name = enter_name(p, name_length, err);
    if (new_name < 0)
        return new_name;
    int r = read_members(p, &t, &extent, err);
    if (r < 0)
        return r;
    t.bytes = uma_minus(extent.end, extent.begin);
    r = check_size(p, &t, &extent, err);
    if (r < 0)
        return r;
    if (keep_extent(p->reader, extent) < 0)
        return uma_error_set(err, ENOMEM, "%s", p->scan.file);
    p->file.tensors++;
    p->file.data_end = MAX_OF(p->file.data_end, p->data_begin + extent.end);
    if (!new_name) {
        p->file.repeated++;
        return 0;
    }
    return p->each(p->userdata, &t, err);
}

/* ---- the whole header --------------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b) {
    const struct extent *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Writers put the data in the header's order; only another's has to be sorted to see whether tensors lie over each other. */
static int check_overlap(struct parse *p, struct uma_error *err) {
    struct uma_safetensors_reader *reader = p->reader;
    if (reader->in_order)
        return 0;
    qsort(reader->extents, reader->extent_count, sizeof(struct extent), by_begin);
    for (size_t i = 1; i < reader->extent_count; i++)
        if (reader->extents[i].begin < reader->extents[i - 1].end)
            return uma_error_text(err, EINVAL, "%s: two tensors share the bytes %llu to %llu of the file", p->scan.file,
                                  (unsigned long long)(p->data_begin + reader->extents[i].begin),
                                  (unsigned long long)(p->data_begin + MIN_OF(reader->extents[i].end, reader->extents[i - 1].end)));
    return 0;
}

static int parse_header(struct parse *p, struct uma_error *err) {
    struct uma_safetensors_reader *reader = p->reader;
    reader->extent_count = 0;
    reader->in_order = true;
    bool first = true;
    size_t length = 0;
    int r;
    while ((r = uma_json_scan_member(&p->scan, &first, reader->name, sizeof(reader->name), &length, err)) > 0) {
        static const char metadata[] = "__metadata__";
        if (length == sizeof(metadata) - 1 && memcmp(reader->name, metadata, length) == 0)
            r = uma_json_scan_skip(&p->scan, NULL, err);
        else
            r = read_tensor(p, length, err);
        if (r < 0)
            return r;
    }
    if (r == 0)
        r = uma_json_scan_finish(&p->scan, err);
    if (r == 0)
        r = check_overlap(p, err);
    reader->files++;
    return r;
}

/* The first bytes of the file are in `head`: its length field, and whether this can be a header at all. */
static int read_length(const char *head, size_t there, uint64_t size, const char *name, uint64_t *ret_length, struct uma_error *err) {
    static const char pointer[] = "version https://git-lfs";
    if (there >= sizeof(pointer) - 1 && memcmp(head, pointer, sizeof(pointer) - 1) == 0)
        return uma_error_text(err, EINVAL, "%s: a Git LFS pointer, not the file itself; fetch it with git lfs pull", name);
    if (there <= LENGTH_BYTES)
        return uma_error_text(err, EINVAL, "%s: %llu bytes are too short for a safetensors file", name, (unsigned long long)size);
    uint64_t length = 0;
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)(unsigned char)head[i] << 8 * i;
    if (length > UMA_SAFETENSORS_HEADER_MAX)
        return uma_error_text(err, EINVAL, "%s: byte 0: a header of %llu bytes; the format allows %llu. Is this a safetensors file?", name,
                              (unsigned long long)length, (unsigned long long)UMA_SAFETENSORS_HEADER_MAX);
    if (length > size - LENGTH_BYTES)
        return uma_error_text(err, EINVAL, "%s: byte 0: a header of %llu bytes in a file of %llu: it is not whole, or no safetensors file",
                              name, (unsigned long long)length, (unsigned long long)size);
    if (length == 0 || head[LENGTH_BYTES] != '{')
        return uma_error_text(err, EINVAL, "%s: byte %d: the header does not begin with '{': not a safetensors file", name, LENGTH_BYTES);
    *ret_length = length;
    return 0;
}

/* A file of `size` bytes whose header has `length`; its scan stands at the first byte. */
static int parse_file(struct parse *p, uint64_t length, uint64_t size, struct uma_safetensors_file *ret_file, struct uma_error *err) {
    p->data_begin = LENGTH_BYTES + length;
    p->data_length = size - LENGTH_BYTES - length;
    p->file.header_bytes = length;
    p->scan.at += LENGTH_BYTES;
    int r = parse_header(p, err);
    if (r == 0)
        *ret_file = p->file;
    return r;
}

int uma_safetensors_read(struct uma_safetensors_reader *reader, int fd, uint64_t size, const char *name, uma_safetensors_each each,
                         void *userdata, struct uma_safetensors_file *ret_file, struct uma_error *err) {
    ssize_t n;
    do
        n = pread(fd, reader->window, FIRST_READ, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return uma_error_set(err, errno, "%s: cannot read it", name);
    size_t there = (size_t)n;
    uint64_t length = 0;
    int r = read_length(reader->window, there, size, name, &length, err);
    if (r < 0)
        return r;
    struct parse p = { .reader = reader, .each = each, .userdata = userdata };
    uma_json_scan_file(&p.scan, name, fd, 0, LENGTH_BYTES + length, reader->window, WINDOW, there);
    return parse_file(&p, length, size, ret_file, err);
}

int uma_safetensors_read_memory(struct uma_safetensors_reader *reader, const char *data, size_t length, uint64_t size, const char *name,
                                uma_safetensors_each each, void *userdata, struct uma_safetensors_file *ret_file, struct uma_error *err) {
    uint64_t header = 0;
    int r = read_length(data, length, size, name, &header, err);
    if (r < 0)
        return r;
    struct parse p = { .reader = reader, .each = each, .userdata = userdata };
    uma_json_scan_memory(&p.scan, name, data, (size_t)MIN_OF((uint64_t)length, LENGTH_BYTES + header));
    return parse_file(&p, header, size, ret_file, err);
}
