/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "base/values.h"
#include "cmd/cache.h"

#include <string.h>

static struct uma_process list[] = { { .pid = 3, .name = "vllm" },
                                     { .pid = 40, .name = "py\033[31m" },
                                     { .pid = 4242, .name = "VLLM::EngineCor" } };
static const struct uma_processes processes = { .n = ELEMENTS(list), .list = list };

static const char *users(const int32_t *pids, size_t n, size_t columns) {
    static char buffer[512];
    _cleanup_text_ struct uma_text t = { 0 };
    uma_cache_users_text(&t, &processes, pids, n, columns);
    (void)snprintf(buffer, sizeof buffer, "%s", t.data ? t.data : "");
    if (columns)
        assert_true(uma_text_columns(buffer) <= columns);
    return buffer;
}

static void users_of_a_file(void **state) {
    (void)state;
    static const int32_t pids[] = { 3, 40, 4242, 77 };
    assert_string_equal(users(pids, 0, 0), "");
    assert_string_equal(users(pids, 1, 0), "vllm 3");
    assert_string_equal(users(pids + 3, 1, 0), "77"); /* no name is known */
    assert_string_equal(users(pids, 4, 0), "vllm 3, py\\x1b[31m 40, VLLM::EngineCor 4242, 77");
    assert_string_equal(users(pids, 4, 27), "vllm 3, py\\x1b[31m 40 +2");
    assert_string_equal(users(pids, 4, 24), "vllm 3, py\\x1b[31m 40 +2");
    assert_string_equal(users(pids, 4, 23), "vllm 3 +3");
    assert_string_equal(users(pids, 4, 16), "vllm 3 +3");
    assert_string_equal(users(pids + 2, 1, 24), "VLLM::EngineCor 4242");
    assert_string_equal(users(pids + 2, 1, 12), "VLLM::… 4242"); /* the number stays */
}

static const char *name(const char *s, size_t columns) {
    static char buffer[512];
    _cleanup_text_ struct uma_text t = { 0 };
    uma_cache_name_text(&t, s, columns);
    (void)snprintf(buffer, sizeof buffer, "%s", t.data ? t.data : "");
    if (columns)
        assert_true(uma_text_columns(buffer) <= columns);
    return buffer;
}

static void names(void **state) {
    (void)state;
    assert_string_equal(name("/a/b", 0), "/a/b");
    assert_string_equal(name("/a/b", 4), "/a/b");
    assert_string_equal(name("/models/one.gguf", 9), "…one.gguf");
    assert_string_equal(name("/a\nb", 0), "/a\\nb");
    assert_string_equal(name("/a\xff", 0), "/a\\xff");
    assert_string_equal(name("/a\\nb", 0), "/a\\\\nb");
    assert_string_equal(name("/a\\nb", 4), "…nb"); /* never the half of what is escaped: that would be a newline */
    assert_string_equal(name("/模型/权重", 5), "…权重");
    assert_string_equal(name("/模型/权重", 4), "…重");
    assert_string_equal(name("\033[31m", 3), "…1m");
}

static void bytes_that_are_no_text(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text t = { 0 };
    assert_string_equal(uma_cache_utf8(&t, ""), "");
    assert_string_equal(uma_cache_utf8(&t, "/a\xff\xc3\xa4\xc3"), "/a\\xff\xc3\xa4\\xc3");
    assert_string_equal(uma_cache_utf8(&t, "b"), "b");
}

static void ages(void **state) {
    (void)state;
    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = { { -5, "0 s" },   { 0, "0 s" },       { 119, "119 s" },  { 120, "2 min" },         { 7199, "119 min" },
                  { 7200, "2 h" }, { 172799, "47 h" }, { 172800, "2 d" }, { 86400 * 729, "729 d" }, { INT64_C(86400) * 730, "2 y" } };
    int64_t now = INT64_C(1790000000) * UMA_SECOND_NS;
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_text_ struct uma_text t = { 0 };
        uma_cache_age_text(&t, now - cases[i].seconds * UMA_SECOND_NS, now);
        assert_string_equal(t.data, cases[i].text);
    }
    _cleanup_text_ struct uma_text t = { 0 };
    uma_cache_age_text(&t, 0, now);
    assert_string_equal(t.data, "?");
}

static void percentages(void **state) {
    (void)state;
    static const struct {
        struct uma_u64 part, whole;
        const char *text;
    } cases[] = {
        { { 0, UMA_KNOWN }, { 100, UMA_KNOWN }, "0" },     { { 1, UMA_KNOWN }, { 1000, UMA_KNOWN }, "<1" },
        { { 37, UMA_KNOWN }, { 100, UMA_KNOWN }, "37" },   { { 999, UMA_KNOWN }, { 1000, UMA_KNOWN }, ">99" },
        { { 100, UMA_KNOWN }, { 100, UMA_KNOWN }, "100" }, { { 4096, UMA_KNOWN }, { 5, UMA_KNOWN }, "100" },
        { { 0, UMA_KNOWN }, { 0, UMA_KNOWN }, "-" },       { { 0, UMA_DENIED }, { 5, UMA_KNOWN }, "?" },
        { { 5, UMA_KNOWN }, { 0, UMA_UNKNOWN }, "?" },     { { 0, UMA_ABSENT }, { 5, UMA_KNOWN }, "-" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_text_ struct uma_text t = { 0 };
        uma_cache_percent_text(&t, cases[i].part, cases[i].whole);
        assert_string_equal(t.data, cases[i].text);
    }
}

static void durations(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = { { 0, "0.0 ms" }, { 0.0042, "4.2 ms" }, { 0.0137, "14 ms" }, { 0.9994, "999 ms" }, { 3.21, "3.2 s" } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_text_ struct uma_text t = { 0 };
        uma_cache_seconds_text(&t, cases[i].seconds);
        assert_string_equal(t.data, cases[i].text);
    }
}

static void reasons(void **state) {
    (void)state;
    assert_null(uma_cache_unknown_reason(UMA_KNOWN));
    for (int v = 0; v < UMA_VALIDITY_MAX; v++)
        if (!uma_usable((enum uma_validity)v))
            assert_non_null(uma_cache_unknown_reason((enum uma_validity)v));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(users_of_a_file),
                                        cmocka_unit_test(names),
                                        cmocka_unit_test(bytes_that_are_no_text),
                                        cmocka_unit_test(ages),
                                        cmocka_unit_test(percentages),
                                        cmocka_unit_test(durations),
                                        cmocka_unit_test(reasons) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
