/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "base/units.h"
#include "plan/model/safetensors.h"

#include <sys/resource.h>

struct seen {
    unsigned n;
    struct uma_safetensors_tensor last;
    char name[64], dtype[24];
};

static int see(void *userdata, const struct uma_safetensors_tensor *t, struct uma_error *err) {
    (void)err;
    struct seen *seen = userdata;
    seen->n++;
    seen->last = *t;
    (void)snprintf(seen->name, sizeof(seen->name), "%s", t->name);
    (void)snprintf(seen->dtype, sizeof(seen->dtype), "%s", t->dtype_name);
    return 0;
}

static int read_path(struct uma_safetensors_reader *reader, const char *path, struct seen *seen, struct uma_safetensors_file *file,
                     struct uma_error *err) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    int r = uma_safetensors_read(reader, fd, (uint64_t)st.st_size, path, see, seen, file, err);
    (void)close(fd);
    return r;
}

/* A header with so many bytes of data, from a file of its own and from memory: both must say the same. */
static int read_header(const char *header, uint64_t data, struct seen *seen, struct uma_error *err) {
    char *folder = files_folder();
    const char *path = files_safetensors(folder, "model.safetensors", header, data);
    struct uma_safetensors_file file = { 0 };
    _cleanup_safetensors_reader_ struct uma_safetensors_reader *reader = uma_safetensors_reader_new(),
                                                               *again = uma_safetensors_reader_new();
    *seen = (struct seen){ 0 };
    int r = read_path(reader, path, seen, &file, err);
    size_t n = strlen(header);
    _cleanup_free_
    char *text = malloc(n + 8);
    assert_non_null(text);
    for (unsigned i = 0; i < 8; i++)
        text[i] = (char)(n >> 8 * i & 0xff);
    (void)memcpy(text + 8, header, n);
    struct seen other = { 0 };
    assert_int_equal(uma_safetensors_read_memory(again, text, n + 8, n + 8 + data, path, see, &other, &file, NULL), r);
    assert_int_equal(other.n, seen->n);
    files_remove(folder);
    return r;
}

static void test_good(void **state) {
    (void)state;
    struct seen seen;
    struct uma_error err;
    assert_int_equal(read_header("{\"__metadata__\":{\"format\":\"pt\",\"x\":\"{\"},\"a.weight\":{\"dtype\":\"BF16\",\"shape\":[3,4],"
                                 "\"data_offsets\":[0,24]},\"b\":{\"data_offsets\":[24,28],\"shape\":[],\"dtype\":\"F32\"}}      ",
                                 28, &seen, &err),
                     0);
    assert_int_equal(seen.n, 2);
    assert_string_equal(seen.name, "b");
    assert_int_equal(seen.last.dims, 0);
    assert_int_equal(seen.last.elements, 1);
    assert_int_equal(seen.last.bytes, 4);
    assert_int_equal(seen.last.dtype, UMA_DTYPE_F32);
    /* no tensors; an empty tensor; four-bit elements; a hole between two tensors; a type of the future */
    assert_int_equal(read_header("{}", 0, &seen, &err), 0);
    assert_int_equal(read_header("{\"a\":{\"dtype\":\"I64\",\"shape\":[9223372036854775808,4,0],\"data_offsets\":[0,0]}}", 0, &seen, &err),
                     0);
    assert_int_equal(seen.last.elements, 0);
    assert_int_equal(read_header("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],"
                                 "\"data_offsets\":[9,10]}}",
                                 10, &seen, &err),
                     0);
    assert_int_equal(read_header("{\"a\":{\"dtype\":\"F3_NEW\",\"shape\":[8],\"data_offsets\":[0,3]}}", 3, &seen, &err), 0);
    assert_int_equal(seen.last.dtype, UMA_DTYPE_UNKNOWN);
    assert_string_equal(seen.dtype, "F3_NEW");
    assert_int_equal(seen.last.bytes, 3);
    /* more dimensions than are kept: all are counted */
    assert_int_equal(read_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,2,2,2],\"data_offsets\":[0,8]}}", 8, &seen, &err), 0);
    assert_int_equal(seen.last.dims, 10);
    assert_int_equal(seen.last.elements, 8);
}

#define TENSOR(name, shape, from, to) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *header, *says;
        uint64_t data;
    } cases[] = {
        { "[]", "does not begin with '{'", 0 },
        { " {}", "does not begin with '{'", 0 },
        { "{" TENSOR("a", "4", "0", "4") "," TENSOR("a", "4", "4", "8") "}", "a second tensor of the name \"a\"", 8 },
        { "{" TENSOR("a", "4", "0", "4") "," TENSOR("\\u0061", "4", "4", "8") "}", "a second tensor", 8 },
        { "{" TENSOR("a", "4", "0", "4") "," TENSOR("b", "4", "2", "6") "}", "share the bytes", 8 },
        { "{" TENSOR("a", "4", "4", "8") "," TENSOR("b", "5", "0", "5") "}", "share the bytes", 8 },
        { "{" TENSOR("a", "4", "0", "4") "," TENSOR("b", "4", "0", "4") "}", "share the bytes", 8 },
        { "{" TENSOR("a", "4", "0", "4") "}", "is it whole?", 3 },
        { "{" TENSOR("a", "4", "8", "4") "}", "before they begin", 8 },
        { "{" TENSOR("a", "5", "0", "4") "}", "5 elements of U8 take 5", 8 },
        { "{" TENSOR("a", "9223372036854775808,2", "0", "4") "}", "more than 2^64 elements", 8 },
        { "{\"a\":{\"dtype\":\"F64\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}", "elements of F64 take", 8 },
        { "{" TENSOR("a", "18446744073709551616", "0", "4") "}", "beyond 2^64", 8 },
        { "{" TENSOR("a", "-1", "0", "4") "}", "not negative", 8 },
        { "{" TENSOR("a", "1.5", "0", "4") "}", "an integer", 8 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", "without \"data_offsets\"", 8 },
        { "{\"a\":{\"shape\":[4],\"data_offsets\":[0,4]}}", "without \"dtype\"", 8 },
        { "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", "stands twice", 8 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}", "two numbers", 8 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,8]}}", "two numbers", 8 },
        { "{\"a\":4}", "expected '{'", 8 },
        { "{" TENSOR("a\xff", "4", "0", "4") "}", "not UTF-8", 8 },
        { "{" TENSOR("a", "4", "0", "4"), "ends in the middle", 8 },
        { "{" TENSOR("a", "4", "0", "4") "}x", "expected the end", 8 },
        { "{" TENSOR("a", "4", "0", "4") ",}", "expected '\"'", 8 },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct seen seen;
        struct uma_error err = { 0 };
        int r = read_header(cases[i].header, cases[i].data, &seen, &err);
        if (r != -EINVAL || !strstr(err.text, cases[i].says) || !strstr(err.text, "model.safetensors: "))
            fail_msg("%s: %d, %s", cases[i].header, r, err.text);
    }
}

/* What stands before the header. */
static void test_length(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        uint64_t size;
        const char *says;
    } cases[] = {
        { "", 0, 0, "too short" },
        { "\2\0\0\0\0\0\0\0", 8, 8, "too short" },
        { "\3\0\0\0\0\0\0\0{}", 10, 10, "not whole" },
        { "\377\377\377\377\377\377\377\377{}", 10, 10, "the format allows 100000000" },
        { "\1\341\365\5\0\0\0\0{}", 10, UINT64_C(1) << 30, "the format allows 100000000" },
        { "\0\0\0\0\0\0\0\0{}", 10, 10, "does not begin with '{'" },
        { "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", 63, 63, "Git LFS pointer" },
    };
    char *folder = files_folder();
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_safetensors_reader_ struct uma_safetensors_reader *reader = uma_safetensors_reader_new();
        struct seen seen = { 0 };
        struct uma_safetensors_file file;
        struct uma_error err = { 0 };
        const char *path = files_write(folder, "x.safetensors", cases[i].bytes, cases[i].n, cases[i].size);
        assert_int_equal(read_path(reader, path, &seen, &file, &err), -EINVAL);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%zu: %s", i, err.text);
    }
    files_remove(folder);
}

static void test_repeated_in_another_file(void **state) {
    (void)state;
    char *folder = files_folder();
    _cleanup_safetensors_reader_ struct uma_safetensors_reader *reader = uma_safetensors_reader_new();
    struct seen seen = { 0 };
    struct uma_safetensors_file file;
    const char *one = files_safetensors(folder, "one", "{" TENSOR("a", "4", "0", "4") "}", 4);
    assert_int_equal(read_path(reader, one, &seen, &file, NULL), 0);
    assert_int_equal(file.repeated, 0);
    assert_int_equal(file.data_end, 8 + file.header_bytes + 4);
    const char *two = files_safetensors(folder, "two", "{" TENSOR("a", "4", "0", "4") "," TENSOR("b", "4", "4", "8") "}", 8);
    assert_int_equal(read_path(reader, two, &seen, &file, NULL), 0);
    assert_int_equal(file.repeated, 1);
    assert_int_equal(file.tensors, 2);
    assert_int_equal(seen.n, 2);
    files_remove(folder);
}

static int stop(void *userdata, const struct uma_safetensors_tensor *t, struct uma_error *err) {
    (void)userdata;
    return uma_error_text(err, ECANCELED, "%s", t->name);
}

static void test_callback_stops(void **state) {
    (void)state;
    static const char text[] = "\x36\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}    ";
    _cleanup_safetensors_reader_ struct uma_safetensors_reader *reader = uma_safetensors_reader_new();
    struct uma_safetensors_file file = { .tensors = 7 };
    struct uma_error err;
    assert_int_equal(uma_safetensors_read_memory(reader, text, sizeof(text) - 1, sizeof(text) - 1 + 4, "x", stop, NULL, &file, &err),
                     -ECANCELED);
    assert_string_equal(err.text, "a");
    assert_int_equal(file.tensors, 7);
}

/* A header of 100 MB, 99 of them one value that nobody wants, and one of as many tensors as there can be: time and memory stay small. */
static void test_largest(void **state) {
    (void)state;
    char *folder = files_folder();
    size_t n = 99 * 1000 * 1000;
    char *text = malloc(n + 64);
    assert_non_null(text);
    (void)memset(text, 'x', n);
    size_t begin = (size_t)sprintf(text, "{\"__metadata__\":{\"k\":\"");
    text[begin] = 'x';
    (void)strcpy(text + n, "\"}}");
    const char *path = files_safetensors(folder, "model.safetensors", text, 0);
    free(text);
    _cleanup_safetensors_reader_ struct uma_safetensors_reader *reader = uma_safetensors_reader_new();
    struct seen seen = { 0 };
    struct uma_safetensors_file file = { 0 };
    int64_t start = uma_monotonic_ns();
    assert_int_equal(read_path(reader, path, &seen, &file, NULL), 0);
    assert_true(uma_monotonic_ns() - start < 5 * UMA_SECOND_NS); /* a fifth of a second; five under sanitizers on a busy machine */
    assert_int_equal(file.header_bytes, n + 3);
    files_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),           cmocka_unit_test(test_refused),
        cmocka_unit_test(test_length),         cmocka_unit_test(test_repeated_in_another_file),
        cmocka_unit_test(test_callback_stops), cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
