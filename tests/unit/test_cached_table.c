/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/text.h"
#include "base/units.h"
#include "base/values.h"
#include "observe/files/cached_table.h"

#include <string.h>

static const char *no_model(void *userdata, const struct uma_cached_file *file, struct uma_arena *scratch) {
    (void)userdata;
    (void)file;
    (void)scratch;
    return NULL;
}

/* The model is the folder, made anew for each file. */
static const char *folder_model(void *userdata, const struct uma_cached_file *file, struct uma_arena *scratch) {
    (void)userdata;
    return uma_arena_strndup(scratch, file->path, (size_t)(strrchr(file->path, '/') - file->path));
}

static void add(struct uma_cached_table *table, const char *path, uint64_t inode, struct uma_u64 resident) {
    struct uma_cached_file file = {
        .path = path, .filesystem = "ext4", .device = 1, .inode = inode, .size = uma_known_u64(100), .resident = resident, .dirty = resident
    };
    assert_int_equal(uma_cached_table_claim(table, 1, inode), 1);
    assert_int_equal(uma_cached_table_add(table, &file, NULL), 0);
}

static void finish(struct uma_cached_table *table, struct uma_arena *arena, size_t expected, struct uma_cached_file **ret_files) {
    size_t n = 0;
    assert_int_equal(uma_cached_table_finish(table, no_model, NULL, arena, &n, ret_files), 0);
    assert_int_equal(n, expected);
}

/* The most resident are kept, in order, whatever order they came in; sums are of all. */
static void test_most_resident(void **state) {
    (void)state;
    enum { FILES = 10000, KEPT = 100 };
    _cleanup_cached_table_ struct uma_cached_table *table = uma_cached_table_new(KEPT, false);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_cached_file *files = NULL;
    char path[32];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < FILES; i++) {
        uint64_t resident = i * 7919 % FILES; /* each number once */
        (void)snprintf(path, sizeof(path), "/f/%llu", (unsigned long long)resident);
        add(table, path, i + 1, uma_known_u64(resident));
        sum += resident;
    }
    assert_int_equal(uma_cached_table_sums(table)->files, FILES);
    assert_int_equal(uma_cached_table_sums(table)->resident, sum);
    assert_int_equal(uma_cached_table_sums(table)->left_out, FILES - KEPT - 1); /* the one of 0 had nothing to leave out */
    finish(table, arena, KEPT, &files);
    for (uint64_t i = 0; i < KEPT; i++) {
        (void)snprintf(path, sizeof(path), "/f/%llu", (unsigned long long)(FILES - 1 - i));
        assert_int_equal(files[i].resident.value, FILES - 1 - i);
        assert_string_equal(files[i].path, path);
        assert_ptr_equal(files[i].filesystem, files[0].filesystem); /* one copy for all */
    }
}

static void test_once(void **state) {
    (void)state;
    _cleanup_cached_table_ struct uma_cached_table *table = uma_cached_table_new(10, false);
    add(table, "/a", 5, uma_known_u64(1));
    assert_int_equal(uma_cached_table_claim(table, 1, 5), 0);
    assert_int_equal(uma_cached_table_claim(table, 2, 5), 1); /* another device's */
    assert_int_equal(uma_cached_table_claim(table, 0, 5), 1);
    assert_int_equal(uma_cached_table_claim(table, 0, 5), 0);
    for (uint64_t i = 100; i < 5000; i++)
        assert_int_equal(uma_cached_table_claim(table, i % 3 + 7, i), 1);
    for (uint64_t i = 100; i < 5000; i++)
        assert_int_equal(uma_cached_table_claim(table, i % 3 + 7, i), 0);
}

static void test_kinds(void **state) {
    (void)state;
    _cleanup_cached_table_ struct uma_cached_table *table = uma_cached_table_new(10, true);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_cached_file *files = NULL;
    add(table, "/nothing", 1, uma_known_u64(0));
    add(table, "/denied", 2, uma_no_u64(UMA_DENIED));
    add(table, "/some", 3, uma_known_u64(4096));
    struct uma_cached_file memory = {
        .path = "/dev/shm/x", .kind = UMA_CACHED_MEMORY, .size = uma_known_u64(8192), .resident = uma_known_u64(8192)
    };
    assert_int_equal(uma_cached_table_add(table, &memory, NULL), 0); /* no inode: two such are two */
    assert_int_equal(uma_cached_table_add(table, &memory, NULL), 0);
    assert_int_equal(uma_cached_table_sums(table)->files, 5);
    assert_int_equal(uma_cached_table_sums(table)->resident, 4096);
    assert_int_equal(uma_cached_table_sums(table)->unreadable, 1);
    assert_int_equal(uma_cached_table_sums(table)->left_out, 0);
    finish(table, arena, 4, &files);
    assert_string_equal(files[0].path, "/dev/shm/x");
    assert_string_equal(files[2].path, "/some");
    assert_string_equal(files[3].path, "/denied"); /* unknown ones behind */
}

/* One file by two ways: users of both, the plain path, and nothing of a file that was not kept. */
static void test_again(void **state) {
    (void)state;
    static const int32_t first[] = { 3, 9 }, second[] = { 1, 9, 12 }, open[] = { 4 };
    _cleanup_cached_table_ struct uma_cached_table *table = uma_cached_table_new(2, false);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_cached_file *files = NULL, file = { .path = "/proc/9/root/m/a",
                                                   .shown = "/m/a",
                                                   .container = "c",
                                                   .filesystem = "overlay",
                                                   .device = 1,
                                                   .inode = 1,
                                                   .size = uma_known_u64(9),
                                                   .resident = uma_known_u64(9) };
    assert_int_equal(uma_cached_table_claim(table, 1, 1), 1);
    assert_int_equal(uma_cached_table_add(table, &file, &(struct uma_cached_users){ .n_mapped_by = 2, .mapped_by = first }), 0);
    struct uma_cached_users more = { .n_mapped_by = 3, .mapped_by = second, .n_open_by = 1, .open_by = open };
    assert_int_equal(uma_cached_table_again(table, 1, 1, "/data/m/a", "ext4", &more), 0);
    assert_int_equal(uma_cached_table_again(table, 1, 1, "/bind/m/a", "ext4", NULL), 0); /* the first plain path stays */
    add(table, "/b", 2, uma_known_u64(5));
    add(table, "/least", 3, uma_known_u64(1)); /* no room */
    assert_int_equal(uma_cached_table_again(table, 1, 3, "/x", NULL, &more), 0);
    add(table, "/more", 4, uma_known_u64(7)); /* in place of /b */
    assert_int_equal(uma_cached_table_again(table, 1, 2, "/x", NULL, &more), 0);
    finish(table, arena, 2, &files);
    assert_string_equal(files[0].path, "/data/m/a");
    assert_null(files[0].shown);
    assert_null(files[0].container);
    assert_string_equal(files[0].filesystem, "ext4");
    assert_int_equal(files[0].n_mapped_by, 4);
    static const struct uma_pid all[] = { { 1 }, { 3 }, { 9 }, { 12 } };
    assert_memory_equal(files[0].mapped_by, all, sizeof(all));
    assert_int_equal(files[0].n_open_by, 1);
    assert_string_equal(files[1].path, "/more");
    assert_int_equal(files[1].n_open_by, 0);
}

static void test_models(void **state) {
    (void)state;
    _cleanup_cached_table_ struct uma_cached_table *table = uma_cached_table_new(10, false);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_cached_file *files = NULL;
    size_t n = 0;
    add(table, "/m/1", 1, uma_known_u64(3));
    add(table, "/m/2", 2, uma_known_u64(2));
    add(table, "/bytes\xff/3", 3, uma_known_u64(1));
    assert_int_equal(uma_cached_table_finish(table, folder_model, NULL, arena, &n, &files), 0);
    assert_int_equal(n, 3);
    assert_string_equal(files[0].model, "/m");
    assert_ptr_equal(files[0].model, files[1].model);
    assert_string_equal(files[2].path, "/bytes\xff/3"); /* for opening: as it is */
}

static void test_no_memory(void **state) {
    (void)state;
    _cleanup_cached_table_ struct uma_cached_table *table = uma_cached_table_new(0, false);
    _cleanup_arena_ struct uma_arena *small = uma_arena_new(64);
    struct uma_cached_file *files = NULL;
    size_t n = 7;
    add(table, "/a", 1, uma_known_u64(1));
    assert_int_equal(uma_cached_table_finish(table, no_model, NULL, small, &n, &files), -ENOMEM);
    assert_int_equal(n, 7);
    (void)uma_cached_table_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_most_resident), cmocka_unit_test(test_once),
                                        cmocka_unit_test(test_kinds),         cmocka_unit_test(test_again),
                                        cmocka_unit_test(test_models),        cmocka_unit_test(test_no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
