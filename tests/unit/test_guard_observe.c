/* SPDX-License-Identifier: MIT */
#include "guard/observe.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#include "folder.h"

static struct uma_guard_observer observer; /* 64 KiB */

static void put_meminfo(const struct folder *f, unsigned available) {
    char text[512];
    (void)snprintf(
        text, sizeof(text),
        "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: %u kB\nBuffers: 10 kB\nCached: 290 kB\nSwapTotal: 50 kB\nSwapFree: 40 kB\n"
        "Dirty: 3 kB\nWriteback: 2 kB\nAnonPages: 100 kB\nShmem: 20 kB\n",
        available);
    folder_put(f, "proc/meminfo", text);
}

static void put_all(const struct folder *f) {
    put_meminfo(f, 600);
    folder_put(f, "proc/vmstat", "allocstall_normal 2\npgscan_direct 5\n");
    folder_put(f, "proc/pressure/memory", "some avg10=0.00 total=12\nfull avg10=1.00 total=7\n");
    folder_put(f, "proc/zoneinfo", "Node 0, zone Normal\n  pagesets\n    cpu: 0\n   count: 5\n");
    folder_put(f, "proc/buddyinfo", "Node 0, zone Normal 1 2 3\n");
}

static void looks_as_far_as_it_is_told(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_reading r;
    assert_int_equal(folder_new(&f), 0);
    put_all(&f);
    uma_guard_observer_open(&observer, f.path);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_FAR, &r), 0);
    assert_int_equal(r.known, UMA_GUARD_KNOWS_MEMINFO | UMA_GUARD_KNOWS_PRESSURE);
    assert_int_equal(r.gap, 1); /* there is none before the first */
    assert_true(r.time > 0 && r.boot >= r.time);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_NEAR, &r), 0);
    assert_int_equal(r.known, UMA_GUARD_KNOWS_MEMINFO | UMA_GUARD_KNOWS_PRESSURE | UMA_GUARD_KNOWS_VMSTAT | UMA_GUARD_KNOWS_LISTS);
    assert_int_equal(r.gap, 0);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r), 0);
    assert_true(r.known & UMA_GUARD_KNOWS_BLOCKS);
    assert_int_equal(r.available, 600 * 1024);
    assert_int_equal(r.allocstall, 2);
    assert_int_equal(r.psi_some, 12000);
    assert_int_equal(r.per_cpu, 5 * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_int_equal(r.blocks[2], 3);
    observer.asleep -= INT64_C(3600000000000); /* the machine slept for an hour */
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_FAR, &r), 0);
    assert_int_equal(r.gap, 1);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_FAR, &r), 0);
    assert_int_equal(r.gap, 0);
    uma_guard_observer_close(&observer);
    assert_int_equal(observer.meminfo, -1);
}

static void what_fails_is_unknown_and_tried_again(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_reading r;
    assert_int_equal(folder_new(&f), 0);
    uma_guard_observer_open(&observer, f.path);
    assert_true(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r) < 0);
    assert_int_equal(r.known, 0);
    assert_true(r.time > 0 && r.gap == 1);
    put_all(&f);
    assert_true(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r) < 0); /* not yet: once a second */
    observer.tried -= INT64_C(1000000000);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r), 0);
    assert_int_equal(r.gap, 1); /* the one before failed */
    assert_int_equal(r.known & UMA_GUARD_KNOWS_BLOCKS, UMA_GUARD_KNOWS_BLOCKS);

    /* one of them ends: the rest is known */
    assert_int_equal(ftruncate(observer.vmstat, 0), -1); /* it cannot write */
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/proc/vmstat", f.path);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r), 0);
    assert_int_equal(r.known & UMA_GUARD_KNOWS_VMSTAT, 0);
    assert_int_equal(r.known & UMA_GUARD_KNOWS_LISTS, UMA_GUARD_KNOWS_LISTS);
    assert_int_equal(r.gap, 0);
    folder_put(&f, "proc/vmstat", "allocstall_normal 9\npgscan_direct 5\n");
    observer.tried -= INT64_C(1000000000);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r), 0);
    assert_int_equal(r.allocstall, 9);

    /* a folder where a file should be, and a descriptor that somebody closed */
    (void)close(observer.zoneinfo);
    observer.zoneinfo = open(f.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r), 0);
    assert_int_equal(r.known & UMA_GUARD_KNOWS_LISTS, 0);
    assert_int_equal(observer.zoneinfo, -1);
    uma_guard_observer_close(&observer);
}

static void what_is_too_long_is_unknown(void **state) {
    (void)state;
    static char text[UMA_GUARD_OBSERVE_BUFFER + 1];
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_guard_reading r;
    assert_int_equal(folder_new(&f), 0);
    put_all(&f);
    memset(text, '\n', sizeof(text));
    memcpy(text, "  count: 5\n", 11);
    folder_put_n(&f, "proc/zoneinfo", text, sizeof(text));
    uma_guard_observer_open(&observer, f.path);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r), 0);
    assert_int_equal(r.known & UMA_GUARD_KNOWS_LISTS, 0);
    assert_int_equal(r.known & UMA_GUARD_KNOWS_BLOCKS, UMA_GUARD_KNOWS_BLOCKS);
    folder_put(&f, "proc/meminfo", "MemTotal: 1 kB\n");
    uma_guard_observer_close(&observer);
    uma_guard_observer_open(&observer, f.path);
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r), -EBADMSG);
    uma_guard_observer_close(&observer);
}

static void this_machine(void **state) {
    (void)state;
    SKIP_UNDER_EMULATION();
    struct uma_guard_reading r, later;
    uma_guard_observer_open(&observer, "");
    assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &r), 0);
    assert_true(r.known & UMA_GUARD_KNOWS_VMSTAT);
    assert_true(r.total > r.free && r.available > 0 && r.anon > 0);
    assert_true(!(r.known & UMA_GUARD_KNOWS_LISTS) || r.per_cpu < r.total);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(uma_guard_observe(&observer, UMA_GUARD_LOOK_ALL, &later), 0);
    assert_int_equal(later.known, r.known);
    assert_true(later.time > r.time);
    print_message("# all files: %.1f us a reading\n", (double)(later.time - r.time) / 1e6);
    uma_guard_observer_close(&observer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(looks_as_far_as_it_is_told),
        cmocka_unit_test(what_fails_is_unknown_and_tried_again),
        cmocka_unit_test(what_is_too_long_is_unknown),
        cmocka_unit_test(this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
