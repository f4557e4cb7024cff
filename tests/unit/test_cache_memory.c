/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "base/units.h"
#include "cmd/cache_evict.h"

static struct uma_cache_memory read_of(const struct folder *folder) {
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(folder->path, NULL, &root, NULL), 0);
    return uma_cache_memory_read(root);
}

static void a_machine(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    assert_int_equal(folder_new(&folder), 0);
    folder_put(&folder, "proc/meminfo",
               "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 700 kB\nBuffers: 10 kB\nCached: 400 kB\nShmem: 50 kB\n");
    struct uma_cache_memory m = read_of(&folder);
    assert_int_equal(m.free.value, 300 * UMA_KIB);
    assert_int_equal(m.available.value, 700 * UMA_KIB);
    assert_int_equal(m.page_cache.value, 360 * UMA_KIB);
    assert_false(uma_usable(m.percpu_free.validity)); /* no zoneinfo */
    folder_put(
        &folder, "proc/zoneinfo",
        "Node 0, zone   Normal\n  pages free     100\n        min      1\n        managed  500\n  pagesets\n    cpu: 0\n              count: 7\n"
        "              high:  9\n    cpu: 1\n              count: 5\n  start_pfn: 1\n");
    m = read_of(&folder);
    assert_int_equal(m.percpu_free.validity, UMA_KNOWN);
    assert_int_equal(m.percpu_free.value, 12 * (uint64_t)sysconf(_SC_PAGESIZE));
    folder_put(&folder, "proc/zoneinfo",
               "Node 0, zone   Normal\n  pages free     100\n        managed  500\n  pagesets\n    cpu: 0\n              count: 7\n");
    assert_false(uma_usable(read_of(&folder).percpu_free.validity)); /* cut off: a CPU may be missing */
}

static void what_is_not_there_is_unknown(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    assert_int_equal(folder_new(&folder), 0);
    struct uma_cache_memory m = read_of(&folder);
    assert_false(uma_usable(m.free.validity) || uma_usable(m.available.validity) || uma_usable(m.page_cache.validity) ||
                 uma_usable(m.percpu_free.validity));
    folder_put(&folder, "proc/meminfo", "");
    m = read_of(&folder);
    assert_false(uma_usable(m.free.validity));
    folder_put(&folder, "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nCached: 10 kB\n");
    m = read_of(&folder);
    assert_true(uma_usable(m.free.validity));
    assert_false(uma_usable(m.page_cache.validity)); /* a part of the sum is missing */
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_machine), cmocka_unit_test(what_is_not_there_is_unknown) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
