/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "base/units.h"
#include "plan/model/folder.h"

static int parse(const char *text, struct uma_folder_index *index, struct uma_error *err) {
    return uma_folder_index_parse(text, strlen(text), "index", index, err);
}

static void test_good(void **state) {
    (void)state;
    struct uma_folder_index index;
    assert_int_equal(
        parse(
            "{\"metadata\":{\"x\":[1],\"total_size\":1234567890123},\"weight_map\":{\"a\":\"m2\",\"b\":\"m1\",\"c\":\"m2\",\"d\":\"m2\"}}",
            &index, NULL),
        0);
    assert_int_equal(index.total_size, 1234567890123);
    assert_int_equal(index.tensors, 4);
    assert_int_equal(index.files.count, 2);
    assert_string_equal(index.files.names[0], "m1");
    assert_string_equal(index.files.names[1], "m2");
    uma_folder_names_done(&index.files);
    /* written as a float; no metadata; a file in a folder below */
    assert_int_equal(parse("{\"weight_map\":{\"a\":\"sub/m..1\"},\"metadata\":{\"total_size\":64.0}}", &index, NULL), 0);
    assert_int_equal(index.total_size, 64);
    uma_folder_names_done(&index.files);
    assert_int_equal(parse("{\"metadata\":null,\"weight_map\":{\"a\":\"m\"},\"other\":{\"total_size\":\"x\"}}", &index, NULL), 0);
    assert_int_equal(index.total_size, 0);
    uma_folder_names_done(&index.files);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        { "", "ends in the middle" },
        { "[]", "expected '{'" },
        { "{}", "without a weight_map" },
        { "{\"weight_map\":{}}", "without a weight_map" },
        { "{\"weight_map\":[]}", "expected '{'" },
        { "{\"weight_map\":{\"a\":1}}", "expected '\"'" },
        { "{\"weight_map\":{\"a\":\"../m\"}}", "would not be in this folder" },
        { "{\"weight_map\":{\"a\":\"x/../../m\"}}", "would not be in this folder" },
        { "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "would not be in this folder" },
        { "{\"weight_map\":{\"a\":\"\"}}", "would not be in this folder" },
        { "{\"weight_map\":{\"a\":\"..\"}}", "would not be in this folder" },
        { "{\"weight_map\":{\"a\":\"m\\u0000x\"}}", "not the name of a file" },
        { "{\"weight_map\":{\"a\":\"m\"},\"weight_map\":{}}", "a second weight_map" },
        { "{\"weight_map\":{\"a\":\"m\"}", "ends in the middle" },
        { "{\"weight_map\":{\"a\":\"m\"}} x", "expected the end" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_folder_index index = { .tensors = 77 };
        struct uma_error err = { 0 };
        int r = parse(cases[i][0], &index, &err);
        if (r != -EINVAL || !strstr(err.text, cases[i][1]) || index.tensors != 77)
            fail_msg("%s: %d %s", cases[i][0], r, err.text);
    }
}

/* A map that names a new file with each tensor ends at the limit, and in time. */
static void test_many_files(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "{\"weight_map\":{");
    for (unsigned i = 0; i < 200000; i++)
        uma_text_printf(&text, "%s\"%u\":\"f%u\"", i ? "," : "", i, i);
    uma_text_append(&text, "}}");
    struct uma_folder_index index;
    struct uma_error err;
    int64_t start = uma_monotonic_ns();
    assert_int_equal(parse(text.data, &index, &err), -EINVAL);
    assert_true(uma_monotonic_ns() - start < UMA_SECOND_NS);
    assert_non_null(strstr(err.text, "more than 16384 files"));
}

static void test_file(void **state) {
    (void)state;
    char *folder = files_folder();
    struct uma_folder_index index;
    struct uma_error err;
    static const char text[] = "{\"weight_map\":{\"a\":\"m\"}}";
    int fd = open(files_text(folder, "i", text), O_RDONLY | O_CLOEXEC);
    assert_int_equal(uma_folder_index_read(fd, sizeof(text) - 1, "i", &index, &err), 0);
    assert_int_equal(index.files.count, 1);
    uma_folder_names_done(&index.files);
    assert_int_equal(uma_folder_index_read(fd, UINT64_C(5) << 30, "i", &index, &err), -EFBIG);
    (void)close(fd);
    files_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_many_files),
        cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
