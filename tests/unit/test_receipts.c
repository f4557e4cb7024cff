/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "base/units.h"
#include "base/values.h"
#include "cache/receipts.h"
#include "observe/files/process_files.h"

#include <string.h>

#define KNOWN(v) uma_known_u64(v)

static struct uma_eviction eviction_of(bool every_file) {
    struct uma_eviction e;
    struct uma_eviction_options options = { .every_file = every_file };
    assert_int_equal(uma_eviction_init(&e, &options, NULL), 0);
    return e;
}

static struct uma_evicted_file file_of(uint64_t inode, uint64_t before, uint64_t after) {
    return (struct uma_evicted_file){ .device = 1,
                                      .inode = inode,
                                      .size = before,
                                      .before = KNOWN(before),
                                      .after = KNOWN(after),
                                      .evicted = KNOWN(before - after),
                                      .dirty = KNOWN(0),
                                      .written = KNOWN(0) };
}

static void add(struct uma_eviction *e, struct uma_evicted_file file, const char *path) {
    assert_int_equal(uma_receipts_add(e, &file, &(struct uma_receipt_names){ .path = path }, NULL), 0);
}

static void sums(void **state) {
    (void)state;
    struct uma_eviction e = eviction_of(true);
    struct uma_evicted_file dirty = file_of(3, 100, 30), failed = file_of(4, 7, 7);
    dirty.written = KNOWN(60);
    dirty.synced = true;
    failed.error = -EIO;
    add(&e, file_of(1, 10, 0), "/a");
    add(&e, (struct uma_evicted_file){ .inode = 2, .size = 99, .before.validity = UMA_DENIED, .after.validity = UMA_DENIED }, "/denied");
    add(&e, dirty, "/dirty");
    assert_int_equal(
        uma_receipts_add(&e, &failed, &(struct uma_receipt_names){ .path = "/failed", .model = "model", .error = "writing out: no" }, NULL),
        0);
    add(&e, (struct uma_evicted_file){ .inode = 5, .before.validity = UMA_ABSENT, .after.validity = UMA_ABSENT }, "/none");
    assert_int_equal(e.n_files, 5);
    assert_int_equal(e.before, 117);
    assert_int_equal(e.evicted, 80);
    assert_int_equal(e.kept, 37);
    assert_int_equal(e.written, 60);
    assert_int_equal(e.n_synced, 1);
    assert_int_equal(e.n_unknown, 1); /* what has no cache is not unknown */
    assert_int_equal(e.n_failed, 1);
    assert_string_equal(e.failed_at, "/failed: writing out: no");
    uma_eviction_done(&e);
}

/* A million files of which a few stay: the list stays short, has those few and the largest, and the sums have all. */
static void the_list_is_bounded(void **state) {
    (void)state;
    enum { MANY = 50000 };
    struct uma_eviction e = eviction_of(false);
    for (uint64_t i = 1; i <= MANY; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "/%06u", (unsigned)i);
        add(&e, file_of(i, i, i % 10000 == 0 ? 1 : 0), path);
    }
    assert_true(e.n <= 5 * UMA_EVICTION_SHOWN);
    assert_int_equal(e.n + e.folded_files, MANY);
    assert_int_equal(e.n_files, MANY);
    assert_int_equal(e.kept, 5);
    uint64_t before = e.folded_before, evicted = e.folded_evicted;
    unsigned remarkable = 0;
    bool largest = false;
    for (size_t i = 0; i < e.n; i++) {
        before += e.files[i].before.value;
        evicted += e.files[i].evicted.value;
        remarkable += e.files[i].after.value > 0;
        largest |= e.files[i].inode == MANY - 1;
    }
    assert_int_equal(before, e.before);
    assert_int_equal(evicted, e.evicted);
    assert_int_equal(remarkable, 5);
    assert_true(largest);
    uma_eviction_done(&e);
}

static void who_maps_what_stays(void **state) {
    (void)state;
    struct uma_eviction e = eviction_of(true);
    int32_t one[] = { 7 }, two[] = { 7, 9 };
    struct uma_used_file list[] = {
        { .device = 1, .inode = 10, .path = "/m/a", .n_mapped_by = 1, .mapped_by = one },
        { .device = 2, .inode = 10, .path = "/other", .n_mapped_by = 2, .mapped_by = two }, /* another device's inode 10 */
        { .device = 9, .inode = 10, .path = "/m/a", .n_mapped_by = 2, .mapped_by = two },   /* maps of an overlay: the path is it */
        { .device = 1, .inode = 11, .path = "/m/open", .n_open_by = 1, .open_by = one },    /* open is not mapped */
        { .device = 1, .inode = 12, .path = "/m/gone", .n_mapped_by = 1, .mapped_by = one },
    };
    struct uma_used_files used = { .n = ELEMENTS(list), .list = list, .processes = 5, .denied = 2 };
    struct uma_evicted_file dirty = file_of(11, 50, 20);
    dirty.dirty = KNOWN(20);
    add(&e, file_of(10, 100, 40), "/m/a");
    add(&e, dirty, "/m/open");
    add(&e, file_of(12, 9, 0), "/m/gone");
    add(&e, file_of(13, 9, 4), "/m/locked");
    assert_int_equal(uma_receipts_map(&e, &used, NULL), 0);
    assert_true(e.mapped_known);
    assert_int_equal(e.users_denied, 2);
    assert_int_equal(e.files[0].n_mapped_by, 2); /* 7 once */
    assert_int_equal(e.files[0].mapped_by[0] + e.files[0].mapped_by[1], 16);
    assert_int_equal(uma_evicted_file_kept(&e.files[0]), UMA_KEPT_MAPPED);
    assert_int_equal(e.files[1].n_mapped_by, 0);
    assert_int_equal(uma_evicted_file_kept(&e.files[1]), UMA_KEPT_DIRTY);
    assert_int_equal(e.files[2].n_mapped_by, 0); /* nothing of it stays: nobody was asked for */
    assert_int_equal(uma_evicted_file_kept(&e.files[2]), 0);
    assert_int_equal(uma_evicted_file_kept(&e.files[3]), UMA_KEPT_IN_USE);
    uma_eviction_done(&e);
}

/* Of two that map it one has locked a part of it; the other has locked something else; a third has ended. */
static void who_locked_what_stays(void **state) {
    (void)state;
    struct folder folder;
    struct uma_eviction e = eviction_of(true);
    int32_t pids[] = { 7, 9, 11 };
    struct uma_used_file list[] = { { .device = 1, .inode = 10, .path = "/m/a", .n_mapped_by = 3, .mapped_by = pids },
                                    { .device = 1, .inode = 11, .path = "/m/b", .n_mapped_by = 1, .mapped_by = pids + 1 } };
    struct uma_used_files used = { .n = ELEMENTS(list), .list = list };
    assert_int_equal(folder_new(&folder), 0);
    folder_put(&folder, "proc/7/status", "VmLck:\t8 kB\n");
    folder_put(&folder, "proc/7/smaps",
               "1000-4000 r--p 00000000 08:01 10   /m/a\nRss: 8 kB\nVmFlags: rd lo\n"
               "5000-6000 r--p 00000000 08:01 11   /m/b\nRss: 4 kB\nVmFlags: rd lo\n"); /* by now; it did not map it before */
    folder_put(&folder, "proc/9/status", "VmLck:\t4 kB\n");
    folder_put(&folder, "proc/9/smaps", "5000-6000 r--p 00000000 08:01 12   /m/c\nRss: 4 kB\nVmFlags: rd lo\n");
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(folder.path, NULL, &root, NULL), 0);
    add(&e, file_of(10, 65536, 12288), "/m/a");
    add(&e, file_of(11, 65536, 4096), "/m/b");
    assert_int_equal(uma_receipts_map(&e, &used, NULL), 0);
    assert_int_equal(uma_receipts_lock(&e, root, INT64_MAX, NULL), 0);
    assert_int_equal(e.files[0].n_locked_by, 1);
    assert_int_equal(e.files[0].locked_by[0], 7);
    assert_int_equal(e.files[0].locked, 8192);
    assert_int_equal(uma_evicted_file_kept(&e.files[0]), UMA_KEPT_MAPPED | UMA_KEPT_LOCKED);
    assert_int_equal(e.files[1].n_locked_by, 0);
    assert_int_equal(uma_evicted_file_kept(&e.files[1]), UMA_KEPT_MAPPED);
    uma_eviction_done(&e);
    folder_done(&folder);
}

static void order(void **state) {
    (void)state;
    struct uma_eviction e = eviction_of(true);
    add(&e, file_of(1, 0, 0), "/nothing");
    add(&e, (struct uma_evicted_file){ .inode = 2, .size = 5, .before.validity = UMA_DENIED, .after.validity = UMA_DENIED }, "/unknown");
    add(&e, file_of(3, 10, 0), "/b");
    add(&e, file_of(4, 10, 0), "/a");
    add(&e, file_of(5, 20, 0), "/large");
    assert_int_equal(uma_eviction_finish(&e, NULL, NULL), 0); /* nothing was kept: no process is looked at */
    const char *expected[] = { "/large", "/a", "/b", "/unknown", "/nothing" };
    for (size_t i = 0; i < ELEMENTS(expected); i++)
        assert_string_equal(e.files[i].path, expected[i]);
    assert_false(e.mapped_known);
    uma_eviction_done(&e);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(sums), cmocka_unit_test(the_list_is_bounded),
                                        cmocka_unit_test(who_maps_what_stays), cmocka_unit_test(who_locked_what_stays),
                                        cmocka_unit_test(order) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
