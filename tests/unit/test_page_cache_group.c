/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "base/values.h"
#include "observe/files/page_cache.h"

#include <string.h>

static int setup(void **state) {
    *state = uma_arena_new(UMA_MIB);
    return *state ? 0 : -1;
}
static int teardown(void **state) {
    (void)uma_arena_free(*state);
    return 0;
}

#define KNOWN(v) uma_known_u64(v)
#define DENIED uma_no_u64(UMA_DENIED)

static void test_groups(void **state) {
    struct uma_pid first[] = { { 7 }, { 9 } }, second[] = { { 3 }, { 9 } };
    struct uma_cached_file files[] = {
        { .path = "/m/a1",
          .model = "a",
          .size = KNOWN(100),
          .resident = KNOWN(40),
          .dirty = KNOWN(4),
          .used_ns = 5,
          .mapped_by = first,
          .n_mapped_by = 2 },
        { .path = "/x", .size = KNOWN(50), .resident = KNOWN(50), .dirty = KNOWN(0), .used_ns = 1 },
        { .path = "/x", .size = KNOWN(50), .resident = KNOWN(10), .dirty = KNOWN(0) }, /* the same name, another file: not one row */
        { .path = "/m/b", .model = "b", .size = KNOWN(70), .resident = DENIED, .dirty = DENIED },
        { .path = "/m/a2",
          .model = "a",
          .size = KNOWN(11),
          .resident = KNOWN(20),
          .dirty = KNOWN(0),
          .used_ns = 9,
          .mapped_by = second,
          .n_mapped_by = 2 },
        { .path = "/m/a3", .model = "a", .size = KNOWN(1), .resident = DENIED, .dirty = uma_no_u64(UMA_UNKNOWN) },
        { .path = "/dev/shm/a", .model = "a", .kind = UMA_CACHED_MEMORY, .size = KNOWN(5), .resident = KNOWN(5), .dirty = KNOWN(0) },
        { .path = "/proc/1/fd/3", .shown = "/gone", .size = KNOWN(1), .resident = KNOWN(1), .dirty = KNOWN(0) },
    };
    struct uma_page_cache cache = { .files = files, .n_files = ELEMENTS(files) };
    struct uma_cached_group *g = NULL;
    size_t n = 0;
    assert_int_equal(uma_page_cache_group(&cache, *state, &n, &g), 0);
    static const struct {
        const char *name;
        bool is_model;
        size_t files;
        uint64_t resident;
    } expected[] = { { "a", true, 3, 60 }, { "/x", false, 1, 50 },   { "/x", false, 1, 10 },
                     { "a", true, 1, 5 },  { "/gone", false, 1, 1 }, { "b", true, 1, 0 } };
    assert_int_equal(n, ELEMENTS(expected));
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(g[i].name, expected[i].name);
        assert_int_equal(g[i].is_model, expected[i].is_model);
        assert_int_equal(g[i].n_files, expected[i].files);
        assert_int_equal(g[i].resident.value, expected[i].resident);
    }
    assert_true(g[0].partly);
    assert_int_equal(g[0].size.value, 112);
    assert_int_equal(g[0].dirty.value, 4);
    assert_int_equal(g[0].used_ns, 9);
    assert_int_equal(g[0].n_mapped_by, 3);
    static const int32_t pids[] = { 3, 7, 9 };
    assert_memory_equal(g[0].mapped_by, pids, sizeof(pids));
    assert_ptr_equal(g[0].files[0], &files[0]);
    assert_ptr_equal(g[0].files[2], &files[5]);
    assert_int_equal(g[3].kind, UMA_CACHED_MEMORY);
    assert_false(g[3].partly);
    assert_int_equal(g[5].resident.validity, UMA_DENIED);
    assert_int_equal(g[5].dirty.validity, UMA_DENIED);
    assert_int_equal(g[5].size.value, 70);
    assert_false(g[5].partly); /* none is known: not a part */
}

/* The first file of a model unknown, a later one known: the sum is of the known ones. */
static void test_unknown_first(void **state) {
    struct uma_cached_file files[] = {
        { .path = "/1", .model = "m", .size = KNOWN(UINT64_MAX), .resident = DENIED },
        { .path = "/2", .model = "m", .size = KNOWN(3), .resident = KNOWN(3) },
    };
    struct uma_page_cache cache = { .files = files, .n_files = 2 };
    struct uma_cached_group *g = NULL;
    size_t n = 0;
    assert_int_equal(uma_page_cache_group(&cache, *state, &n, &g), 0);
    assert_int_equal(n, 1);
    assert_int_equal(g[0].resident.validity, UMA_KNOWN);
    assert_int_equal(g[0].resident.value, 3);
    assert_true(g[0].partly);
    assert_true(g[0].size.value == UINT64_MAX); /* stops at the end of its range */
    assert_int_equal(g[0].dirty.validity, UMA_UNKNOWN);
}

static void test_empty(void **state) {
    struct uma_page_cache cache = { 0 };
    struct uma_cached_group *g = NULL;
    size_t n = 1;
    assert_int_equal(uma_page_cache_group(&cache, *state, &n, &g), 0);
    assert_int_equal(n, 0);
    struct uma_cached_file file = { .path = "/1" };
    cache = (struct uma_page_cache){ .files = &file, .n_files = 1 };
    _cleanup_arena_ struct uma_arena *small = uma_arena_new(16);
    n = 7;
    assert_int_equal(uma_page_cache_group(&cache, small, &n, &g), -ENOMEM);
    assert_int_equal(n, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_groups, setup, teardown),
                                        cmocka_unit_test_setup_teardown(test_unknown_first, setup, teardown),
                                        cmocka_unit_test_setup_teardown(test_empty, setup, teardown) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
