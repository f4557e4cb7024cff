/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/files/page_cache_order.h"

#include <errno.h>
#include <string.h>

static struct uma_u64 known(uint64_t v) {
    return (struct uma_u64){ v, UMA_KNOWN };
}

static void test_sort(void **state) {
    (void)state;
    struct uma_cached_file files[] = {
        { .path = "/denied-small", .size = { 1, UMA_KNOWN }, .resident = { .value = UINT64_MAX, .validity = UMA_DENIED } },
        { .path = "/b", .size = { 9, UMA_KNOWN }, .resident = { 4096, UMA_KNOWN } },
        { .path = "/denied-large", .size = { 1000, UMA_KNOWN }, .resident = { .validity = UMA_DENIED } },
        { .path = "/a", .size = { 9, UMA_KNOWN }, .resident = { 4096, UMA_KNOWN } },
        { .path = NULL, .size = { 9, UMA_KNOWN }, .resident = { 4096, UMA_KNOWN } },
        { .path = "/sizeless", .resident = { 4096, UMA_KNOWN } },
        { .path = "/big", .size = { 4, UMA_KNOWN }, .resident = { 8192, UMA_STALE } },
    };
    static const char *const order[] = { "/big", NULL, "/a", "/b", "/sizeless", "/denied-large", "/denied-small" };
    uma_cached_files_sort(files, ELEMENTS(files));
    for (size_t i = 0; i < ELEMENTS(order); i++) {
        if (order[i])
            assert_string_equal(files[i].path, order[i]);
        else
            assert_null(files[i].path);
    }
    uma_cached_files_sort(NULL, 0);
}

/* More files than a snapshot keeps, with more processes each; and nothing of the copy is in the first one's memory. */
static void test_keep(void **state) {
    (void)state;
    enum { FILES = UMA_SNAPSHOT_CACHED_FILES + 10, PIDS = UMA_SNAPSHOT_CACHED_PIDS + 5 };
    struct uma_arena *from = uma_arena_new(1 << 24), *to = uma_arena_new(1 << 24);
    struct uma_page_cache cache = { .source = { UMA_KNOWN, 5, uma_arena_strndup(from, "cachestat", 9), uma_arena_strndup(from, "why", 3) },
                                    .total = known(1 << 30),
                                    .explained = known(77),
                                    .unreadable = known(3),
                                    .complete = true,
                                    .n_files = FILES,
                                    .files = uma_arena_array(from, FILES, sizeof(struct uma_cached_file)) };
    for (size_t i = 0; i < FILES; i++) {
        struct uma_cached_file *f = &cache.files[i];
        *f = (struct uma_cached_file){ .path = uma_arena_printf(from, "/f%zu", i), .model = "m", .resident = known(FILES - i) };
        f->mapped_by = uma_arena_array(from, PIDS, sizeof(*f->mapped_by));
        f->n_mapped_by = PIDS;
        for (size_t p = 0; p < PIDS; p++)
            f->mapped_by[p].pid = (int32_t)(p + 1);
    }
    cache.files[1].path = "/\xff";
    cache.files[1].shown = "/a";
    cache.files[FILES - 1].resident = (struct uma_u64){ .validity = UMA_DENIED };
    cache.files[FILES - 2].resident = known(0);
    struct uma_page_cache kept;
    struct uma_error err = { 0 };
    assert_int_equal(uma_page_cache_keep(&cache, to, &kept, &err), 0);
    (void)uma_arena_free(from);
    assert_int_equal(kept.n_files, UMA_SNAPSHOT_CACHED_FILES);
    assert_int_equal(kept.left_out.validity, UMA_KNOWN);
    assert_int_equal(kept.left_out.value, 8); /* one has no pages, of one nobody knows */
    assert_true(kept.complete);
    assert_int_equal(kept.explained.value, 77);
    assert_string_equal(kept.source.path, "cachestat");
    assert_string_equal(kept.source.detail, "why");
    assert_string_equal(kept.files[UMA_SNAPSHOT_CACHED_FILES - 1].path, "/f255");
    assert_string_equal(kept.files[0].model, "m");
    assert_string_equal(kept.files[1].path, "/\\xff");
    assert_string_equal(kept.files[1].shown, "/a");
    assert_null(kept.files[0].container);
    assert_int_equal(kept.files[0].n_mapped_by, UMA_SNAPSHOT_CACHED_PIDS);
    assert_int_equal(kept.files[0].mapped_by[UMA_SNAPSHOT_CACHED_PIDS - 1].pid, UMA_SNAPSHOT_CACHED_PIDS);
    assert_null(kept.files[0].open_by);

    /* a second cut adds to the first one's count */
    struct uma_page_cache again;
    kept.files[3].n_mapped_by = 1;
    assert_int_equal(uma_page_cache_keep(&kept, to, &again, &err), 0);
    assert_int_equal(again.left_out.value, 8);
    assert_int_equal(again.files[3].n_mapped_by, 1);
    (void)uma_arena_free(to);
}

static void test_keep_refused(void **state) {
    (void)state;
    struct uma_arena *small = uma_arena_new(64);
    struct uma_cached_file file = { .path = "/a" };
    struct uma_page_cache cache = { .n_files = 1, .files = &file }, kept = { .n_files = 42 };
    struct uma_error err = { 0 };
    assert_int_equal(uma_page_cache_keep(&cache, small, &kept, &err), -ENOMEM);
    assert_int_equal(kept.n_files, 42);
    cache.n_files = 0;
    assert_int_equal(uma_page_cache_keep(&cache, small, &kept, &err), 0);
    assert_int_equal(kept.n_files, 0);
    assert_int_equal(kept.left_out.value, 0);
    (void)uma_arena_free(small);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_keep_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
