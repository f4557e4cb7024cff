/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "plan/model/json_scan.h"

static struct uma_json_scan on(const char *text) {
    struct uma_json_scan scan;
    uma_json_scan_memory(&scan, "text", text, strlen(text));
    return scan;
}

/* Skip the whole text as one value. */
static int whole(const char *text, uint64_t *ret_values, struct uma_error *err) {
    struct uma_json_scan scan = on(text);
    int r = uma_json_scan_skip(&scan, ret_values, err);
    return r < 0 ? r : uma_json_scan_finish(&scan, err);
}

static void test_values(void **state) {
    (void)state;
    static const char *const good[] = { "1",
                                        "-0.5e+7",
                                        "true",
                                        " null ",
                                        "\"\"",
                                        "[]",
                                        "{}",
                                        "[1,[2,{\"a\":[]}],\"x\"]",
                                        "{\"a\":{\"b\":1},\"c\":[]}",
                                        "\"\\u00e9\\ud83d\\ude00\\n\"",
                                        "0",
                                        "1E5",
                                        "[[[[]]]]" };
    static const char *const bad[] = { "",
                                       "01",
                                       "1.",
                                       "-",
                                       "tru",
                                       "[1,]",
                                       "{\"a\"}",
                                       "{\"a\":1,}",
                                       "[1 2]",
                                       "\"\\x\"",
                                       "\"a",
                                       "\"\n\"",
                                       "\"\\ud800\"",
                                       "\"\\udc00\"",
                                       "\"\\ud800\\u0041\"",
                                       "\"\xff\"",
                                       "\"\xc0\x80\"",
                                       "{1:2}",
                                       "[}",
                                       "1 2",
                                       "nul",
                                       "\"\xed\xa0\x80\"",
                                       "1e",
                                       "+1",
                                       "[",
                                       "{\"a\":",
                                       "'a'" };
    struct uma_error err;
    for (size_t i = 0; i < ELEMENTS(good); i++)
        if (whole(good[i], NULL, &err) != 0)
            fail_msg("%s: %s", good[i], err.text);
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        err = (struct uma_error){ 0 };
        if (whole(bad[i], NULL, &err) != -EINVAL || !strstr(err.text, "text: byte "))
            fail_msg("%s: accepted, or without a place: %s", bad[i], err.text);
    }
    uint64_t values = 0;
    assert_int_equal(whole("[1,{\"a\":2,\"b\":[3]}]", &values, &err), 0);
    assert_int_equal(values, 6);
}

static void test_strings(void **state) {
    (void)state;
    struct uma_json_scan scan = on("\"a\\u0041\\u00e9\\ud83d\\ude00\\t\\/\"");
    char text[32];
    size_t length = 0;
    assert_int_equal(uma_json_scan_string(&scan, text, sizeof(text), &length, NULL), 0);
    assert_string_equal(text, "aA\xc3\xa9\xf0\x9f\x98\x80\t/");
    assert_int_equal(length, strlen(text));
    scan = on("\"longer than fits\"");
    assert_int_equal(uma_json_scan_string(&scan, text, 5, &length, NULL), 0);
    assert_string_equal(text, "long");
    assert_int_equal(length, 16);
}

static void test_numbers(void **state) {
    (void)state;
    uint64_t value = 7;
    struct uma_error err;
    struct uma_json_scan scan = on("18446744073709551615");
    assert_int_equal(uma_json_scan_u64(&scan, &value, &err), 0);
    assert_true(value == UINT64_MAX);
    scan = on("18446744073709551616");
    assert_int_equal(uma_json_scan_u64(&scan, &value, &err), -EINVAL);
    static const char *const no_integers[] = { "-1", "1.0", "1e3", "01", "\"1\"", "", "x" };
    for (size_t i = 0; i < ELEMENTS(no_integers); i++) {
        scan = on(no_integers[i]);
        assert_int_equal(uma_json_scan_u64(&scan, &value, &err), -EINVAL);
    }
    assert_true(value == UINT64_MAX); /* untouched */
    scan = on("15000000000.75");
    assert_int_equal(uma_json_scan_number(&scan, &value, &err), 0);
    assert_int_equal(value, 15000000000);
    scan = on("-3");
    assert_int_equal(uma_json_scan_number(&scan, &value, &err), 0);
    assert_int_equal(value, 0);
}

static void test_members(void **state) {
    (void)state;
    struct uma_json_scan scan = on(" { \"a\" : 1 , \"bcdef\" : [ 2 , 3 ] } ");
    char key[4];
    size_t length = 0;
    bool first = true, first_element = true;
    uint64_t value = 0;
    assert_int_equal(uma_json_scan_member(&scan, &first, key, sizeof(key), &length, NULL), 1);
    assert_string_equal(key, "a");
    assert_int_equal(uma_json_scan_u64(&scan, &value, NULL), 0);
    assert_int_equal(uma_json_scan_member(&scan, &first, key, sizeof(key), &length, NULL), 1);
    assert_string_equal(key, "bcd");
    assert_int_equal(length, 5);
    for (uint64_t i = 2; i <= 3; i++) {
        assert_int_equal(uma_json_scan_element(&scan, &first_element, NULL), 1);
        assert_int_equal(uma_json_scan_u64(&scan, &value, NULL), 0);
        assert_int_equal(value, i);
    }
    assert_int_equal(uma_json_scan_element(&scan, &first_element, NULL), 0);
    assert_int_equal(uma_json_scan_member(&scan, &first, key, sizeof(key), &length, NULL), 0);
    assert_int_equal(uma_json_scan_finish(&scan, NULL), 0);
}

static void test_depth(void **state) {
    (void)state;
    char text[2 * UMA_JSON_SCAN_DEPTH_MAX + 3];
    struct uma_error err;
    for (int depth = UMA_JSON_SCAN_DEPTH_MAX; depth <= UMA_JSON_SCAN_DEPTH_MAX + 1; depth++) {
        (void)memset(text, '[', (size_t)depth);
        (void)memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        assert_int_equal(whole(text, NULL, &err), depth > UMA_JSON_SCAN_DEPTH_MAX ? -EINVAL : 0);
    }
    assert_non_null(strstr(err.text, "nested more than"));
}

/* The same text through windows of every size down to the smallest: nothing depends on where a window ends. */
static void test_windows(void **state) {
    (void)state;
    static const char text[] =
        "12345678{\"k\\u00e9y\": [1, 22.5e-3, true, null, \"\xf0\x9f\x98\x80\\ud83d\\ude00\"], \"b\": {\"c\": \"long enough to cross\"}}";
    char *folder = files_folder();
    int fd = open(files_text(folder, "text", text), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    char buffer[sizeof(text)], key[16];
    for (size_t size = 16; size <= sizeof(text); size++) {
        struct uma_json_scan scan;
        struct uma_error err = { 0 };
        bool first = true;
        uma_json_scan_file(&scan, "text", fd, 8, sizeof(text) - 1, buffer, size, 0);
        assert_int_equal(uma_json_scan_member(&scan, &first, key, sizeof(key), NULL, &err), 1);
        assert_string_equal(key, "k\xc3\xa9y");
        assert_int_equal(uma_json_scan_skip(&scan, NULL, &err), 0);
        assert_int_equal(uma_json_scan_member(&scan, &first, key, sizeof(key), NULL, &err), 1);
        assert_int_equal(uma_json_scan_skip(&scan, NULL, &err), 0);
        assert_int_equal(uma_json_scan_member(&scan, &first, key, sizeof(key), NULL, &err), 0);
        assert_int_equal(uma_json_scan_finish(&scan, &err), 0);
        assert_int_equal(uma_json_scan_place(&scan), sizeof(text) - 1);
    }
    /* a file that is shorter than was said */
    struct uma_json_scan scan;
    struct uma_error err = { 0 };
    uma_json_scan_file(&scan, "text", fd, 8, 1000, buffer, 16, 0);
    assert_int_equal(uma_json_scan_skip(&scan, NULL, &err), 0);
    assert_int_equal(uma_json_scan_finish(&scan, &err), -EINVAL);
    assert_non_null(strstr(err.text, "cut short"));
    (void)close(fd);
    files_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_strings), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_members), cmocka_unit_test(test_depth),   cmocka_unit_test(test_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
