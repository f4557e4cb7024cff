/* SPDX-License-Identifier: MIT */
/*
 * load_weights.c - a loader of weights as the common ones are: it maps a safetensors file and copies tensor by tensor into memory of its own. Also makes such a file.
 *
 *   load_weights make FILE BYTES [TENSOR]   about BYTES of random content, tensors of at most TENSOR bytes (default: as a model has them)
 *   load_weights load FILE HOW ORDER [HOLD [PAUSE]]
 *       HOW    shared | private: mapped read-only; writable: private and writable, as torch's from_file and mmap.ACCESS_COPY; read: read(2), no mapping
 *       ORDER  file: by offset; dict: as the model's modules are, which is not the order in the file (names are sorted there)
 *       HOLD   seconds to keep what was loaded (default 0)
 *       PAUSE  seconds to do nothing after each tensor (default 0): a loader whose disk or whose device is slow
 *
 * "pid N" when it starts, "seconds S" when the last tensor is copied, then "checksum ok" or "checksum wrong" with exit status 1: the sum of all 64-bit words, which
 * the file's own header says.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 96, TENSORS_MAX = 1 << 16, HEADER_MAX = 64 << 20 };

static _Noreturn void fail(const char *what) {
    (void)fprintf(stderr, "load_weights: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(2);
}

static void *must(void *p) {
    if (!p)
        fail("memory");
    return p;
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

struct tensor {
    char name[NAME];
    uint64_t bytes, begin;
    unsigned place; /* among the modules */
};

struct model {
    struct tensor *tensors;
    size_t n;
    uint64_t total;
};

static void add(struct model *m, uint64_t bytes, const char *format, int layer) {
    struct tensor *t = &m->tensors[m->n];
    if (m->n == TENSORS_MAX)
        fail("too many tensors");
    *t = (struct tensor){ .bytes = bytes / 8 * 8, .place = (unsigned)m->n++ };
    if (layer < 0)
        (void)snprintf(t->name, sizeof(t->name), "%s", format);
    else
        (void)snprintf(t->name, sizeof(t->name), "model.layers.%d.%s.weight", layer, format);
    m->total += t->bytes;
}

/* Embedding, layers of attention and feed-forward, norms, head: a layer is a 32nd of the file, as in models of 7 to 8 billion parameters. */
static void shape(struct model *m, uint64_t bytes) {
    static const struct {
        const char *name;
        uint64_t share; /* of 64 in a layer */
    } parts[] = { { "self_attn.q_proj", 6 }, { "self_attn.k_proj", 2 }, { "self_attn.v_proj", 2 }, { "self_attn.o_proj", 6 },
                  { "mlp.gate_proj", 16 },   { "mlp.up_proj", 16 },     { "mlp.down_proj", 16 } };
    uint64_t layer = bytes / 32;
    add(m, layer, "model.embed_tokens.weight", -1);
    for (int i = 0; i < 30; i++) {
        for (size_t j = 0; j < sizeof(parts) / sizeof(parts[0]); j++)
            add(m, layer * parts[j].share / 64, parts[j].name, i);
        add(m, 8192, "input_layernorm", i);
        add(m, 8192, "post_attention_layernorm", i);
    }
    add(m, 8192, "model.norm.weight", -1);
    add(m, layer, "lm_head.weight", -1);
}

static void shape_of_pieces(struct model *m, uint64_t bytes, uint64_t piece) {
    for (int i = 0; m->total < bytes; i++)
        add(m, piece < bytes - m->total ? piece : (bytes - m->total + 7) / 8 * 8, "piece", i);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

/* xorshift64*: as fast as memory here, and nothing that a file system could compress */
static uint64_t fill(uint64_t *words, size_t n, uint64_t *state) {
    uint64_t x = *state, sum = 0;
    for (size_t i = 0; i < n; i++) {
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        words[i] = x * UINT64_C(2685821657736338717);
        sum += words[i];
    }
    *state = x;
    return sum;
}

static char *header_of(const struct model *m, uint64_t checksum) {
    json_t *header = must(json_object());
    char sum[24];
    (void)snprintf(sum, sizeof(sum), "%016" PRIx64, checksum);
    (void)json_object_set_new(header, "__metadata__", json_pack("{s:s,s:s}", "format", "pt", "checksum", sum));
    for (size_t i = 0; i < m->n; i++) {
        const struct tensor *t = &m->tensors[i];
        (void)json_object_set_new(header, t->name,
                                  json_pack("{s:s,s:[I],s:[I,I],s:i}", "dtype", "BF16", "shape", (json_int_t)(t->bytes / 2), "data_offsets",
                                            (json_int_t)t->begin, (json_int_t)(t->begin + t->bytes), "place", (int)t->place));
    }
    char *text = must(json_dumps(header, JSON_COMPACT));
    size_t length = strlen(text), padded = (length + 8 + 4095) / 4096 * 4096 - 8; /* data begins on a page */
    text = must(realloc(text, padded + 1));
    (void)memset(text + length, ' ', padded - length);
    text[padded] = '\0';
    json_decref(header);
    return text;
}

static void put(int fd, const void *data, size_t length, off_t at) {
    for (size_t done = 0; done < length;) {
        ssize_t n = pwrite(fd, (const char *)data + done, length - done, at + (off_t)done);
        if (n <= 0)
            fail("writing");
        done += (size_t)n;
    }
}

static int make(const char *path, uint64_t bytes, uint64_t piece) {
    struct model m = { .tensors = must(calloc(TENSORS_MAX, sizeof(struct tensor))) };
    if (piece)
        shape_of_pieces(&m, bytes, piece);
    else
        shape(&m, bytes);
    qsort(m.tensors, m.n, sizeof(*m.tensors), by_name);
    for (size_t i = 1; i < m.n; i++)
        m.tensors[i].begin = m.tensors[i - 1].begin + m.tensors[i - 1].bytes;
    char *header = header_of(&m, 0);
    uint64_t length = strlen(header), state = 88172645463325252u, sum = 0;
    size_t block = (size_t)8 << 20;
    uint64_t *words = must(malloc(block));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        fail(path);
    for (uint64_t at = 0; at < m.total; at += block) {
        size_t part = m.total - at < block ? (size_t)(m.total - at) : block;
        sum += fill(words, part / 8, &state);
        put(fd, words, part, (off_t)(8 + length + at));
    }
    free(header);
    header = header_of(&m, sum); /* as long: the checksum has a fixed width */
    put(fd, &length, 8, 0);
    put(fd, header, length, 8);
    if (fsync(fd) < 0 || close(fd) < 0)
        fail(path);
    free(header);
    free(words);
    free(m.tensors);
    return 0;
}

/* ---- loading --------------------------------------------------------------------------------------------------- */

struct loaded {
    char *copy;
    uint64_t begin, bytes;
    json_int_t place;
};

static bool dict_order;
static int in_order(const void *a, const void *b) {
    const struct loaded *x = a, *y = b;
    if (dict_order)
        return (x->place > y->place) - (x->place < y->place);
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static struct loaded *read_header(int fd, uint64_t file_bytes, size_t *ret_n, uint64_t *ret_data, uint64_t *ret_checksum) {
    uint64_t length;
    errno = 0;
    if (pread(fd, &length, 8, 0) != 8 || length > HEADER_MAX || length + 8 > file_bytes)
        fail("header");
    char *text = must(malloc(length));
    if (pread(fd, text, length, 8) != (ssize_t)length)
        fail("header");
    json_error_t error;
    json_t *header = json_loadb(text, length, 0, &error), *value;
    const char *key, *checksum;
    if (!json_is_object(header) || !(checksum = json_string_value(json_object_get(json_object_get(header, "__metadata__"), "checksum"))))
        fail("header");
    *ret_checksum = strtoull(checksum, NULL, 16);
    struct loaded *list = must(calloc(json_object_size(header), sizeof(*list)));
    size_t n = 0;
    json_object_foreach(header, key, value) {
        json_t *offsets = json_object_get(value, "data_offsets");
        json_int_t begin = json_integer_value(json_array_get(offsets, 0)), end = json_integer_value(json_array_get(offsets, 1));
        if (strcmp(key, "__metadata__") == 0)
            continue;
        if (begin < 0 || end < begin || (uint64_t)end > file_bytes - 8 - length)
            fail("offsets");
        list[n++] = (struct loaded){ .begin = (uint64_t)begin,
                                     .bytes = (uint64_t)(end - begin),
                                     .place = json_integer_value(json_object_get(value, "place")) };
    }
    json_decref(header);
    free(text);
    qsort(list, n, sizeof(*list), in_order);
    *ret_n = n;
    *ret_data = 8 + length;
    return list;
}

static const char *map_whole(int fd, size_t bytes, const char *how) {
    if (strcmp(how, "read") == 0)
        return NULL;
    int protection = strcmp(how, "writable") == 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    const char *file = mmap(NULL, bytes, protection, strcmp(how, "shared") == 0 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED)
        fail("mmap");
    return file;
}

static void get(int fd, char *to, uint64_t bytes, uint64_t at) {
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, to + done, bytes - done, (off_t)(at + done));
        if (n <= 0)
            fail("reading");
        done += (uint64_t)n;
    }
}

static int load(const char *path, const char *how, double hold, double rest) {
    (void)printf("pid %d\n", (int)getpid());
    (void)fflush(stdout);
    double start = now();
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        fail(path);
    size_t n;
    uint64_t data, expected, sum = 0;
    struct loaded *list = read_header(fd, (uint64_t)st.st_size, &n, &data, &expected);
    const char *file = map_whole(fd, (size_t)st.st_size, how);
    for (size_t i = 0; i < n; i++) {
        list[i].copy = must(aligned_alloc(64, (list[i].bytes + 63) / 64 * 64));
        if (file)
            (void)memcpy(list[i].copy, file + data + list[i].begin, list[i].bytes);
        else
            get(fd, list[i].copy, list[i].bytes, data + list[i].begin);
        if (rest > 0)
            (void)usleep((useconds_t)(rest * 1e6));
    }
    (void)printf("seconds %.6f\n", now() - start);
    (void)fflush(stdout);
    if (file)
        (void)munmap((void *)(uintptr_t)file, (size_t)st.st_size);
    (void)close(fd);
    for (size_t i = 0; i < n; i++)
        for (uint64_t at = 0; at < list[i].bytes; at += 8) {
            uint64_t word;
            (void)memcpy(&word, list[i].copy + at, 8);
            sum += word;
        }
    (void)printf("checksum %s\n", sum == expected ? "ok" : "wrong");
    (void)fflush(stdout);
    (void)usleep((useconds_t)(hold * 1e6));
    return sum == expected ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc >= 4 && strcmp(argv[1], "make") == 0)
        return make(argv[2], strtoull(argv[3], NULL, 10), argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
    if (argc < 5 || strcmp(argv[1], "load") != 0) {
        (void)fprintf(stderr,
                      "usage: load_weights make FILE BYTES [TENSOR] | load FILE shared|private|writable|read file|dict [HOLD [PAUSE]]\n");
        return 2;
    }
    dict_order = strcmp(argv[4], "dict") == 0;
    return load(argv[2], argv[3], argc > 5 ? strtod(argv[5], NULL) : 0, argc > 6 ? strtod(argv[6], NULL) : 0);
}
