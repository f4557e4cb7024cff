/* SPDX-License-Identifier: MIT */
/* When loading is over. */
#include "test.h"

#include "base/units.h"
#include "cache/follow_end.h"

#include <stdlib.h>

#define S UMA_SECOND_NS

static struct uma_follow_file of(uint64_t size, unsigned percent, bool in_use) {
    return (struct uma_follow_file){ .size = size, .read = size / 100 * percent, .in_use = in_use, .moved_ns = 10 * S };
}

static enum uma_follow_progress judge_one(const char *name, unsigned percent, bool in_use, int64_t after_s) {
    struct uma_follow_file file = of(1000 * UMA_MIB, percent, in_use);
    struct uma_follow_file_name names[] = { { &file, name } };
    return uma_follow_judge(names, 1, 5 * S, (10 + after_s) * S);
}

static void test_one_file(void **state) {
    (void)state;
    const struct {
        unsigned percent;
        bool in_use;
        int64_t after_s;
        enum uma_follow_progress wanted;
    } cases[] = {
        { 99, true, 1, UMA_FOLLOW_GOES_ON },    { 99, true, 2, UMA_FOLLOW_IS_LOADED }, { 100, false, 2, UMA_FOLLOW_IS_LOADED },
        { 98, true, 29, UMA_FOLLOW_GOES_ON },   { 98, true, 30, UMA_FOLLOW_IS_IDLE },  { 98, false, 2, UMA_FOLLOW_IS_LOADED },
        { 6, false, 2, UMA_FOLLOW_IS_LOADED },  /* one rank of sixteen */
        { 1, false, 3600, UMA_FOLLOW_GOES_ON }, /* its header: the load is still to come */
        { 1, true, 3600, UMA_FOLLOW_GOES_ON },  { 0, true, 3600, UMA_FOLLOW_GOES_ON },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(judge_one("/m/model.safetensors", cases[i].percent, cases[i].in_use, cases[i].after_s), cases[i].wanted);
    assert_int_equal(uma_follow_judge(NULL, 0, 0, 3600 * S), UMA_FOLLOW_GOES_ON);
}

static void test_several_files(void **state) {
    (void)state;
    struct uma_follow_file a = of(1000, 100, false), b = of(1000, 50, true), c = of(1000, 1, false), d = of(1000, 0, false);
    struct uma_follow_file_name names[] = { { &a, "a.safetensors" }, { &b, "b.safetensors" } };
    assert_int_equal(uma_follow_judge(names, 2, 0, 20 * S), UMA_FOLLOW_GOES_ON);
    assert_int_equal(uma_follow_judge(names, 2, 0, 40 * S), UMA_FOLLOW_IS_IDLE);
    b.in_use = false;
    assert_int_equal(uma_follow_judge(names, 2, 0, 20 * S), UMA_FOLLOW_IS_LOADED);
    assert_int_equal(uma_follow_judge(names, 2, 19 * S, 20 * S), UMA_FOLLOW_GOES_ON); /* a file was new a second ago */
    names[1] = (struct uma_follow_file_name){ &c, "c.safetensors" };                  /* looked into, and to be read yet, or never */
    assert_int_equal(uma_follow_judge(names, 2, 0, 20 * S), UMA_FOLLOW_GOES_ON);
    assert_int_equal(uma_follow_judge(names, 2, 0, 40 * S), UMA_FOLLOW_IS_IDLE);
    names[1].file = &d; /* opened and closed */
    assert_int_equal(uma_follow_judge(names, 2, 0, 20 * S), UMA_FOLLOW_IS_LOADED);
}

static void test_a_missing_shard_is_waited_for(void **state) {
    (void)state;
    struct uma_follow_file a = of(1000, 100, false), b = of(1000, 100, false);
    struct uma_follow_file_name names[] = { { &a, "/m/model-00001-of-00002.safetensors" }, { &b, "/m/model-00002-of-00002.safetensors" } };
    assert_int_equal(uma_follow_judge(names, 1, 0, 20 * S), UMA_FOLLOW_GOES_ON);
    assert_int_equal(uma_follow_judge(names, 1, 0, 40 * S), UMA_FOLLOW_IS_IDLE);
    assert_int_equal(uma_follow_judge(names, 2, 0, 20 * S), UMA_FOLLOW_IS_LOADED);
}

/* Sets of different sizes, mixed; the last shard of one of them is missing, then there. */
static void test_many_shards(void **state) {
    (void)state;
    enum { N = 10000 };
    struct uma_follow_file file = of(1000, 100, false);
    struct uma_follow_file_name *names = calloc(N, sizeof *names);
    char(*texts)[48] = calloc(N, sizeof *texts);
    assert_true(names && texts);
    size_t n = 0;
    for (unsigned set = 1; n + set <= N; set++)
        for (unsigned i = 1; i <= set; i++, n++)
            (void)snprintf(texts[n], sizeof texts[n], "model-%05u-of-%05u.safetensors", i, set);
    for (size_t i = 0; i < n; i++) /* in no order: 7919 is prime and no divisor of n */
        names[i] = (struct uma_follow_file_name){ &file, texts[i * 7919 % n] };
    assert_int_equal(uma_follow_judge(names, n, 0, 20 * S), UMA_FOLLOW_IS_LOADED);
    assert_int_equal(uma_follow_judge(names, n - 1, 0, 20 * S), UMA_FOLLOW_GOES_ON);
    names[1].name = "other.safetensors";
    assert_int_equal(uma_follow_judge(names, n, 0, 20 * S), UMA_FOLLOW_GOES_ON);
    free(texts);
    free(names);
}

static void test_in_place(void **state) {
    (void)state;
    struct uma_follow_file a = of(1000, 30, true), b = of(900, 100, false);
    a.in_place = true;
    struct uma_follow_file_name names[] = { { &a, "a.gguf" }, { &b, "b.gguf" } };
    assert_int_equal(uma_follow_judge(names, 1, 0, 11 * S), UMA_FOLLOW_GOES_ON);
    assert_int_equal(uma_follow_judge(names, 1, 0, 12 * S), UMA_FOLLOW_IS_IN_PLACE);
    assert_int_equal(uma_follow_judge(names, 2, 0, 12 * S), UMA_FOLLOW_IS_IN_PLACE); /* most of it */
    b.size = b.read = 2000;
    assert_int_equal(uma_follow_judge(names, 2, 0, 12 * S), UMA_FOLLOW_IS_LOADED);
}

static void test_names_of_shards(void **state) {
    (void)state;
    const struct {
        const char *name;
        uint32_t number, of; /* 0: no shard */
    } cases[] = {
        { "model-00002-of-00017.safetensors", 2, 17 },
        { "/x-of-y/q-1-of-3.gguf", 1, 3 },
        { "a-1-of-2-00003-of-00004.bin", 3, 4 },
        { "model-00017-of-00017", 17, 17 },
        { "model-00018-of-00017.safetensors", 0, 0 },
        { "model-1-of-0.safetensors", 0, 0 },
        { "best-of-3.gguf", 0, 0 },
        { "1-of-", 0, 0 },
        { "-of-2", 0, 0 },
        { "1-of-99999999999", 0, 0 },
        { "", 0, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t number = 0, of_n = 0;
        assert_int_equal(uma_follow_shard_parse(cases[i].name, &number, &of_n), cases[i].of != 0);
        assert_int_equal(number, cases[i].number);
        assert_int_equal(of_n, cases[i].of);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_file),    cmocka_unit_test(test_several_files), cmocka_unit_test(test_a_missing_shard_is_waited_for),
        cmocka_unit_test(test_many_shards), cmocka_unit_test(test_in_place),      cmocka_unit_test(test_names_of_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
