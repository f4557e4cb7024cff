/* SPDX-License-Identifier: MIT */
/* Files that are cut, that lie about their lengths, or that were never GGUF. */
#include "test.h"

#include "base/units.h"
#include "gguf_file.h"
#include "plan/model/gguf.h"
#include "plan/model/structure.h"

#include <sys/mman.h>

/* One tensor of each kind that the tests bend. */
static void small(struct gguf *g) {
    gguf_text(g, "general.architecture", "llama");
    gguf_u32(g, "llama.block_count", 1);
    gguf_words(g, 5);
    gguf_tensor(g, "token_embd.weight", GGML_Q8_0, 64, 5, 0);
    gguf_tensor(g, "blk.0.attn_q.weight", GGML_F16, 64, 64, 0);
}

/* Open these bytes as a file of this size (0: as long as they are). */
static int open_bytes(const struct uma_text *bytes, uint64_t size, struct uma_model **ret_model, struct uma_error *err) {
    _cleanup_close_ int fd = memfd_create("gguf", MFD_CLOEXEC);
    char path[64];
    assert_true(fd >= 0 && write(fd, bytes->data, bytes->length) == (ssize_t)bytes->length);
    if (size)
        assert_return_code(ftruncate(fd, (off_t)size), errno);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return uma_gguf_open(path, ret_model, err);
}

static void expect_at(int line, const struct gguf *g, uint64_t extra, int code, const char *says) {
    _cleanup_text_ struct uma_text bytes = { 0 };
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    gguf_bytes(g, &bytes);
    int e = open_bytes(&bytes, bytes.length + g->offset + extra, &model, &err);
    if (e != code || (code < 0 && (!strstr(err.text, says) || model)))
        fail_msg("line %d: %d \"%s\", expected %d \"%s\"", line, e, err.text, code, says);
    (void)uma_model_free(model);
}
#define EXPECT(g, code, says) expect_at(__LINE__, g, 0, code, says)

static void test_cut_anywhere(void **state) {
    (void)state;
    _cleanup_gguf_ struct gguf g = { 0 };
    _cleanup_text_ struct uma_text bytes = { 0 };
    small(&g);
    gguf_bytes(&g, &bytes);
    uint64_t whole = bytes.length + g.offset;
    for (size_t n = 0; n < whole; n++) {
        struct uma_model *model = NULL;
        struct uma_error err = { 0 };
        struct uma_text part = { .data = bytes.data, .length = n < bytes.length ? n : bytes.length };
        if (n == 0)
            part.data = (char[]){ "" };
        /* the last tensor ends 8,192 bytes behind the first one's place: a multiple of 32, so nothing of the end may be missing */
        int e = open_bytes(&part, n, &model, &err);
        if (e != -EINVAL || model || !err.text[0])
            fail_msg("%zu of %llu bytes: %d %s", n, (unsigned long long)whole, e, err.text);
    }
    EXPECT(&g, 0, "");
}

static void test_not_gguf(void **state) {
    (void)state;
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    struct uma_text text = { .data = (char[]){ "PK\3\4 and so on, a zip" }, .length = 21 };
    assert_int_equal(open_bytes(&text, 0, &model, &err), -EINVAL);
    assert_non_null(strstr(err.text, "is not a GGUF file"));
    assert_int_equal(uma_gguf_open("/nonexistent/file.gguf", &model, &err), -ENOENT);
    assert_int_equal(uma_gguf_open("/tmp", &model, &err), -EINVAL);
    assert_non_null(strstr(err.text, "is not a file"));
    _cleanup_gguf_ struct gguf g = { .version = 1 };
    small(&g);
    EXPECT(&g, -ENOTSUP, "version 1");
    g.version = 4;
    EXPECT(&g, -ENOTSUP, "version 4");
    g.version = 0x03000000;
    EXPECT(&g, -ENOTSUP, "big-endian");
    g.version = 2;
    EXPECT(&g, 0, "");
}

static void test_counts(void **state) {
    (void)state;
    static const uint64_t counts[] = { 1000, UINT32_MAX, INT64_MAX, UINT64_MAX };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        _cleanup_gguf_ struct gguf g = { 0 }, h = { 0 };
        small(&g);
        g.key_count = counts[i];
        EXPECT(&g, -EINVAL, i == 0 ? "" : "more keys than the file has room for");
        small(&h);
        h.tensor_count = counts[i];
        EXPECT(&h, -EINVAL, i == 0 ? "" : "more tensors than the file has room for");
    }
}

static void test_strings_and_arrays(void **state) {
    (void)state;
    static const uint64_t lengths[] = { 100000, UINT32_MAX, INT64_MAX, UINT64_MAX };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        _cleanup_gguf_ struct gguf text = { 0 }, key = { 0 }, words = { 0 }, numbers = { 0 }, word = { 0 };
        gguf_key(&text, "general.name", GGUF_TEXT);
        gguf_put(&text.keys, lengths[i], 8);
        EXPECT(&text, -EINVAL, "longer than the file");
        gguf_put(&key.keys, lengths[i], 8);
        gguf_put(&key.keys, 0, 8);
        key.key_count = 1;
        EXPECT(&key, -EINVAL, "longer than the file");
        gguf_array(&words, "tokenizer.ggml.tokens", GGUF_TEXT, lengths[i]);
        EXPECT(&words, -EINVAL, "more elements than the file has room for");
        gguf_array(&numbers, "tokenizer.ggml.scores", GGUF_U64, lengths[i]);
        EXPECT(&numbers, -EINVAL, "more elements than the file has room for");
        gguf_array(&word, "tokenizer.ggml.tokens", GGUF_TEXT, 1);
        gguf_put(&word.keys, lengths[i], 8);
        EXPECT(&word, -EINVAL, "beyond the end of the file");
    }
}

static void test_types(void **state) {
    (void)state;
    _cleanup_gguf_ struct gguf value = { 0 }, nested = { 0 }, element = { 0 };
    gguf_key(&value, "general.name", 255);
    gguf_put(&value.keys, 0, 64);
    EXPECT(&value, -EINVAL, "unknown type");
    gguf_array(&nested, "general.tags", GGUF_ARRAY, 1);
    gguf_put(&nested.keys, 0, 64);
    EXPECT(&nested, -EINVAL, "array of arrays");
    gguf_array(&element, "general.tags", 13, 1);
    gguf_put(&element.keys, 0, 64);
    EXPECT(&element, -EINVAL, "unknown type");
}

/* Every type of value is skipped by its own length. */
static void test_all_values(void **state) {
    (void)state;
    static const unsigned sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    _cleanup_gguf_ struct gguf g = { 0 };
    char key[32];
    for (unsigned type = 0; type < 13; type++) {
        if (sizes[type] == 0)
            continue;
        (void)snprintf(key, sizeof key, "llama.value%u", type);
        gguf_key(&g, key, type);
        gguf_put(&g.keys, 0xffffffffffffffff, MIN_OF(sizes[type], 8u));
        (void)snprintf(key, sizeof key, "llama.values%u", type);
        gguf_array(&g, key, type, 3000);
        for (unsigned i = 0; i < 3000; i++)
            gguf_put(&g.keys, i, sizes[type]);
    }
    small(&g);
    EXPECT(&g, 0, "");
}

/* Numbers below 0 or not numbers are not there; whole floats are. */
static void test_odd_numbers(void **state) {
    (void)state;
    _cleanup_gguf_ struct gguf h = { 0 };
    gguf_text(&h, "general.architecture", "llama");
    gguf_key(&h, "llama.block_count", GGUF_I32);
    gguf_put(&h.keys, (uint32_t)-5, 4);
    gguf_key(&h, "llama.attention.head_count", 6);
    gguf_put(&h.keys, 0x41000000, 4); /* 8.0 */
    gguf_key(&h, "llama.embedding_length", 12);
    gguf_put(&h.keys, UINT64_C(0x7ff8000000000000), 8); /* not a number */
    gguf_tensor(&h, "blk.0.attn_q.weight", GGML_F16, 64, 64, 0);
    _cleanup_text_ struct uma_text bytes = { 0 };
    _cleanup_model_ struct uma_model *model = NULL;
    gguf_bytes(&h, &bytes);
    assert_return_code(open_bytes(&bytes, bytes.length + h.offset, &model, NULL), 0);
    assert_int_equal(model->layer_count, 1);
    assert_int_equal(model->layers[0].heads, 8);
    assert_int_equal(model->hidden, 0);
}

static void test_twice(void **state) {
    (void)state;
    _cleanup_gguf_ struct gguf key = { 0 }, tensor = { 0 };
    small(&key);
    gguf_u32(&key, "llama.block_count", 1);
    EXPECT(&key, -EINVAL, "a key comes twice");
    small(&tensor);
    gguf_tensor(&tensor, "token_embd.weight", GGML_F16, 64, 5, 0);
    EXPECT(&tensor, -EINVAL, "a tensor comes twice");
}

static void test_dimensions(void **state) {
    (void)state;
    static const struct {
        uint32_t n, type;
        uint64_t dimensions[5];
        const char *says;
    } cases[] = {
        { 1, GGML_F16, { UINT64_C(1) << 63 }, "more elements than can be counted" },
        { 2, GGML_F16, { UINT64_C(1) << 62, UINT64_C(1) << 62 }, "more elements than can be counted" },
        { 4, GGML_F16, { 1 << 16, 1 << 16, 1 << 16, 1 << 16 }, "more elements than can be counted" },
        { 2, GGML_F16, { UINT64_C(1) << 61, 2 }, "cut off" },
        { 2, GGML_Q4_K, { 100, 256 }, "not whole blocks" },
        { 5, GGML_F16, { 1, 1, 1, 1, 1 }, "more than four dimensions" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        _cleanup_gguf_ struct gguf g = { 0 };
        small(&g);
        gguf_raw_tensor(&g, "x", cases[i].type, cases[i].n, cases[i].dimensions, g.offset);
        EXPECT(&g, -EINVAL, cases[i].says);
    }
}

static void test_offsets(void **state) {
    (void)state;
    _cleanup_gguf_ struct gguf crooked = { 0 }, beyond = { 0 }, far = { 0 }, over = { 0 }, alignment = { 0 }, wide = { 0 };
    small(&crooked);
    gguf_raw_tensor(&crooked, "x", GGML_F16, 1, (const uint64_t[]){ 1 }, crooked.offset + 2);
    EXPECT(&crooked, -EINVAL, "not aligned");
    small(&beyond);
    gguf_raw_tensor(&beyond, "x", GGML_F16, 1, (const uint64_t[]){ 32 }, beyond.offset);
    EXPECT(&beyond, -EINVAL, "its tensors end 64 bytes behind its end");
    expect_at(__LINE__, &beyond, 64, 0, "");
    small(&far);
    gguf_raw_tensor(&far, "x", 9999, 1, (const uint64_t[]){ 32 }, UINT64_MAX - 31);
    EXPECT(&far, -EINVAL, "cut off");
    small(&over);
    gguf_raw_tensor(&over, "x", GGML_F16, 1, (const uint64_t[]){ 32 }, 32);
    EXPECT(&over, -EINVAL, "overlap");
    small(&alignment);
    gguf_u32(&alignment, "general.alignment", 24);
    EXPECT(&alignment, -EINVAL, "power of two");
    gguf_u32(&wide, "general.alignment", 4096);
    small(&wide);
    EXPECT(&wide, -EINVAL, "not aligned");
}

static void test_blocks(void **state) {
    (void)state;
    _cleanup_gguf_ struct gguf g = { 0 }, h = { 0 };
    small(&g);
    gguf_tensor(&g, "blk.2048.attn_q.weight", GGML_F16, 64, 64, 0);
    EXPECT(&g, -EINVAL, "at most 2048");
    small(&h);
    gguf_tensor(&h, "blk.2047.attn_q.weight", GGML_F16, 64, 64, 0);
    gguf_tensor(&h, "blk.99999999999999999999999.attn_q.weight", GGML_F16, 64, 64, 0);
    gguf_tensor(&h, "blk.", GGML_F16, 64, 64, 0);
    gguf_tensor(&h, "blk.7", GGML_F16, 64, 64, 0);
    EXPECT(&h, 0, "");
    _cleanup_gguf_ struct gguf empty = { 0 };
    gguf_text(&empty, "general.architecture", "llama");
    EXPECT(&empty, -EINVAL, "no tensors");
    _cleanup_gguf_ struct gguf imatrix = { 0 };
    gguf_text(&imatrix, "general.type", "imatrix");
    EXPECT(&imatrix, -ENOTSUP, "importance matrix");
}

/* A file that claims a header of gigabytes costs a bounded read. */
static void test_endless_header(void **state) {
    (void)state;
    _cleanup_gguf_ struct gguf g = { 0 };
    gguf_array(&g, "tokenizer.ggml.tokens", GGUF_TEXT, UINT64_C(1) << 32); /* each a word of length 0 */
    int64_t start = uma_monotonic_ns();
    expect_at(__LINE__, &g, UINT64_C(1) << 36, -EINVAL, "longer than 64 MiB");
    assert_true(uma_monotonic_ns() - start < 2 * UMA_SECOND_NS);
}

/* A vocabulary of 150,000 words and a model of 60 layers. The bound is generous for instrumented builds and busy machines. */
static void test_speed(void **state) {
    (void)state;
    _cleanup_gguf_ struct gguf g = { 0 };
    _cleanup_text_ struct uma_text bytes = { 0 };
    gguf_text(&g, "general.architecture", "llama");
    gguf_words(&g, 150000);
    gguf_array(&g, "tokenizer.ggml.scores", 6, 150000);
    for (unsigned i = 0; i < 150000; i++)
        gguf_put(&g.keys, 0, 4);
    for (unsigned i = 0; i < 60; i++)
        for (unsigned k = 0; k < 15; k++)
            gguf_block(&g, GGML_Q4_K, 8192, 1024, 0, "blk.%u.part_%u.weight", i, k);
    gguf_bytes(&g, &bytes);
    struct uma_model *model = NULL;
    int64_t start = uma_monotonic_ns();
    assert_return_code(open_bytes(&bytes, bytes.length + g.offset, &model, NULL), 0);
    int64_t took = uma_monotonic_ns() - start;
    assert_int_equal(model->vocab, 150000);
    (void)uma_model_free(model);
    (void)printf("# 60 layers, 150,000 words: %.2f ms, writing the file included\n", (double)took / 1e6);
    assert_true(took < UMA_SECOND_NS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_not_gguf),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_all_values),
        cmocka_unit_test(test_odd_numbers),
        cmocka_unit_test(test_strings_and_arrays),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_endless_header),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
