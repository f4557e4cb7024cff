/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/values.h"
#include "observe/tuning.h"

#include <string.h>

static void choices(void **state) {
    static const struct {
        const char *text, *selected; /* NULL: refused */
    } table[] = {
        { "always [madvise] never\n", "madvise" },
        { "[always] madvise never\n", "always" },
        { "always defer defer+madvise [never]", "never" },
        { "65536\n", "65536" },
        { " 10 \n", "10" },
        { "always madvise never\n", NULL },
        { "[]\n", NULL },
        { "[always\n", NULL },
        { "]always[\n", NULL },
        { "\n", NULL },
        { "", NULL },
    };
    (void)state;
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        const char *start = NULL;
        size_t length = 0;
        bool good = uma_choice_parse(table[i].text, strlen(table[i].text), &start, &length);
        assert_int_equal(good, table[i].selected != NULL);
        if (good) {
            assert_int_equal(length, strlen(table[i].selected));
            assert_memory_equal(start, table[i].selected, length);
        }
    }
}

static void command_lines(void **state) {
    static const struct {
        const char *text, *value;
    } table[] = {
        { "quiet kho=off splash\n", "off" },
        { "kho=on", "on" },
        { "kho=on quiet kho=off\n", "off" },
        { "kho=\"off\"\n", "off" },
        { "x=\"a kho=on b\" quiet\n", NULL },
        { "nokho=on xkho=1\n", NULL },
        { "kho\n", NULL },
        { "kho=", "" },
        { "", NULL },
    };
    (void)state;
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        const char *start = NULL;
        size_t length = 0;
        bool good = uma_command_line_find(table[i].text, strlen(table[i].text), "kho", &start, &length);
        assert_int_equal(good, table[i].value != NULL);
        if (good) {
            assert_int_equal(length, strlen(table[i].value));
            assert_memory_equal(start, table[i].value, length);
        }
    }
}

static struct uma_u64 pools(const char *text) {
    return uma_nvidia_pools_parse(text, strlen(text));
}

static void nvidia(void **state) {
    (void)state;
    struct uma_u64 v = pools("ResmanDebugLevel: 4294967295\nEnableSystemMemoryPools: 529\nRmMsg: \"\"\n");
    assert_int_equal(v.validity, UMA_KNOWN);
    assert_int_equal(v.value, 0x211);
    assert_int_equal(pools("EnableSystemMemoryPools: 0\n").validity, UMA_KNOWN);
    assert_int_equal(pools("RmMsg: \"\"\n").validity, UMA_ABSENT);
    assert_int_equal(pools("EnableSystemMemoryPools: many\n").validity, UMA_MALFORMED);
}

static struct uma_u64 limit(const char *text) {
    return uma_memlock_parse(text, strlen(text));
}

static void memlock(void **state) {
    (void)state;
    struct uma_u64 v =
        limit("Max processes  1 2 processes\nMax locked memory         8388608              unlimited            bytes     \n");
    assert_int_equal(v.validity, UMA_KNOWN);
    assert_int_equal(v.value, 8388608);
    assert_int_equal(limit("Max locked memory unlimited unlimited bytes\n").validity, UMA_UNLIMITED);
    assert_int_equal(limit("Max locked memory lots unlimited bytes\n").validity, UMA_MALFORMED);
    assert_int_equal(limit("Max processes 1 2\n").validity, UMA_MALFORMED);
}

static void zram(void **state) {
    uint64_t stored = 7, used = 7;
    const char *good = "1073741824 268435456 301989888 0 301989888 12 0 0 0\n", *cut = "1 2\n", *odd = "a b c\n";
    (void)state;
    assert_true(uma_zram_stat_parse(good, strlen(good), &stored, &used));
    assert_int_equal(stored, 1073741824);
    assert_int_equal(used, 301989888);
    stored = used = 7;
    assert_false(uma_zram_stat_parse(cut, strlen(cut), &stored, &used));
    assert_false(uma_zram_stat_parse(odd, strlen(odd), &stored, &used));
    assert_false(uma_zram_stat_parse("", 0, &stored, &used));
    assert_int_equal(stored, 7);
    assert_int_equal(used, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices), cmocka_unit_test(command_lines), cmocka_unit_test(nvidia),
        cmocka_unit_test(memlock), cmocka_unit_test(zram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
