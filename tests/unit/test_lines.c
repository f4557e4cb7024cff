/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/lines.h"

static bool has(const char *list, const char *word) {
    return uma_list_has(list, list + strlen(list), word);
}

static void lists(void **state) {
    (void)state;
    assert_true(has("memory", "memory"));
    assert_true(has("cpu,memory,pids", "memory"));
    assert_true(has("cpu,memory", "cpu"));
    assert_true(has("cpu,memory", "memory"));
    assert_false(has("cpu,memory_x", "memory"));
    assert_false(has("xmemory,cpu", "memory"));
    assert_false(has("", "memory"));
    assert_true(has("cpu,,memory", ""));
    static const char cut[] = "cpu,memory";
    assert_false(uma_list_has(cut, cut + 7, "memory")); /* nothing behind the end is looked at */
}

static void line_ends(void **state) {
    (void)state;
    static const char text[] = "a b \n\nc";
    const char *end = text + sizeof(text) - 1;
    assert_ptr_equal(uma_line_end(text, end), text + 4);
    assert_ptr_equal(uma_line_end(text + 5, end), text + 5);
    assert_ptr_equal(uma_line_end(text + 6, end), end);
    assert_ptr_equal(uma_line_end(end, end), end);
}

static void walk(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbf  MemTotal: 1 kB\r\n\n\tcut of";
    struct uma_lines lines = uma_lines_of(text, sizeof(text) - 1);
    assert_true(uma_lines_next(&lines));
    assert_int_equal(lines.number, 1);
    assert_true(lines.whole);
    assert_int_equal(lines.stop - lines.line, 14);
    assert_memory_equal(lines.line, "MemTotal: 1 kB", 14);
    assert_true(uma_lines_next(&lines));
    assert_true(lines.whole && lines.line == lines.stop);
    assert_true(uma_lines_next(&lines));
    assert_false(lines.whole);
    assert_memory_equal(lines.line, "cut of", 6);
    assert_false(uma_lines_next(&lines));
    lines = uma_lines_of("", 0);
    assert_false(uma_lines_next(&lines));
}

static bool kilobytes(const char *s, uint64_t *ret_bytes) {
    return uma_whole_kilobytes(s, s + strlen(s), ret_bytes);
}

static void numbers(void **state) {
    uint64_t v = 7;
    (void)state;
    assert_true(kilobytes("  12 kB", &v) && v == 12288);
    static const char *const bad[] = { "12", "12 KB", "12 kB x", "kB", "-1 kB", "18446744073709551615 kB", "" };
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        assert_false(kilobytes(bad[i], &v));
    assert_int_equal(v, 12288);
    static const char negative[] = "18446744073709551615"; /* -1 of the kernel, printed as unsigned */
    assert_false(uma_whole_u64(negative, negative + sizeof(negative) - 1, &v));
}

static void numbers_by_key(void **state) {
    (void)state;
    static const char text[] = "rchar: 5\nMemFree:   \t123 kB\r\nMemFreeX: 7\nEmpty:\nword: x\nlast: 18446744073709551615";
    size_t n = sizeof(text) - 1;
    struct uma_u64 v = uma_lines_number(text, n, "MemFree");
    assert_true(v.validity == UMA_KNOWN && v.value == 123);
    assert_int_equal(uma_lines_number(text, n, "rchar").value, 5);
    assert_int_equal(uma_lines_number(text, n, "char").validity, UMA_ABSENT); /* a key begins its line */
    assert_int_equal(uma_lines_number(text, n, "MemFre").validity, UMA_ABSENT);
    assert_int_equal(uma_lines_number(text, n, "Empty").validity, UMA_MALFORMED);
    assert_int_equal(uma_lines_number(text, n, "word").validity, UMA_MALFORMED);
    assert_true(uma_lines_number(text, n, "last").value == UINT64_MAX);
    assert_int_equal(uma_lines_number(text, 4, "rchar").validity, UMA_ABSENT); /* cut: nothing behind the end is looked at */
    assert_int_equal(uma_lines_number("", 0, "rchar").validity, UMA_ABSENT);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(lists), cmocka_unit_test(line_ends), cmocka_unit_test(walk),
                                        cmocka_unit_test(numbers), cmocka_unit_test(numbers_by_key) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
