/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "base/units.h"
#include "base/values.h"
#include "cmd/status_cache.h"

#include <string.h>
#include <unistd.h>

#define S UMA_SECOND_NS

static void when_it_is_looked_again(void **state) {
    (void)state;
    const struct uma_u64 unknown = { 0, UMA_FAILED };
    static const struct {
        int64_t seconds;
        uint64_t page_cache;
        bool due;
    } cases[] = {
        { 0, 1000, false }, { 9, 1000, false },   { 10, 1000, true }, { 2, 1050, false },      { 2, 1051, true },  { 2, 950, false },
        { 2, 949, true },   { 1000, 1000, true }, { 2, 0, true },     { 2, 1ull << 60, true }, { 9, 1040, false },
    };
    struct uma_status_cache cache = { 0 };
    assert_true(uma_status_cache_is_due(&cache, 0, uma_known_u64(1000)));
    cache = (struct uma_status_cache){ .has = true, .looked_ns = 77, .page_cache = uma_known_u64(1000) };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        if (uma_status_cache_is_due(&cache, 77 + cases[i].seconds * S, uma_known_u64(cases[i].page_cache)) != cases[i].due)
            fail_msg("case %zu", i);
    assert_true(uma_status_cache_is_due(&cache, 77, unknown));
    cache.page_cache = unknown;
    assert_false(uma_status_cache_is_due(&cache, 77, unknown));
    assert_true(uma_status_cache_is_due(&cache, 77 + 10 * S, unknown));
    cache.page_cache = uma_known_u64(0); /* none was there */
    assert_false(uma_status_cache_is_due(&cache, 77, uma_known_u64(0)));
    assert_true(uma_status_cache_is_due(&cache, 77, uma_known_u64(4096)));
}

/* One tick: everything is read anew but the files, which are as they were found. */
static size_t tick(struct uma_status_cache *cache, struct uma_observer *observer, struct uma_snapshot *snapshot, int64_t seconds,
                   uint64_t more_cache) {
    assert_int_equal(uma_observer_read(observer, UMA_READ_MEMORY, snapshot, NULL), 0);
    snapshot->meminfo.cached.value += more_cache;
    assert_int_equal(uma_status_cache_read(cache, observer, 0.5, seconds * S, snapshot, NULL), 0);
    for (size_t i = 0; i < snapshot->page_cache.n_files; i++)
        assert_true(strlen(snapshot->page_cache.files[i].path) > 0);
    return snapshot->page_cache.n_files;
}

static void what_was_found_is_shown_again(void **state) {
    (void)state;
    struct folder folder;
    char command[512], record[256];
    assert_int_equal(folder_new(&folder), 0);
    (void)snprintf(command, sizeof command, "cp -r '%s/machines/spark-cache-starved/.' '%s'", getenv("UMA_FIXTURES"), folder.path);
    (void)snprintf(record, sizeof record, "%s/umactl/page_cache.json", folder.path);
    assert_int_equal(system(command), 0);
    struct uma_observe_options options = { .root = folder.path };
    struct uma_observer *observer = NULL;
    struct uma_snapshot snapshot;
    struct uma_status_cache cache = { 0 };
    assert_int_equal(uma_observer_open(&options, &observer, NULL), 0);
    assert_int_equal(uma_snapshot_init(&snapshot), 0);
    size_t n = tick(&cache, observer, &snapshot, 100, 0);
    assert_true(n > 0);
    assert_int_equal(unlink(record), 0); /* whoever looks again finds none */
    assert_int_equal(tick(&cache, observer, &snapshot, 102, 0), n);
    assert_int_equal(tick(&cache, observer, &snapshot, 109, UMA_GIB), n); /* of some 99 */
    assert_int_equal(tick(&cache, observer, &snapshot, 110, 0), 0);
    folder_drop(&folder, "umactl");
    uma_status_cache_done(&cache);

    assert_int_equal(system(command), 0);
    assert_int_equal(tick(&cache, observer, &snapshot, 100, 0), n);
    assert_int_equal(unlink(record), 0);
    assert_int_equal(tick(&cache, observer, &snapshot, 101, 10 * UMA_GIB), 0); /* it has grown */
    uma_status_cache_done(&cache);
    uma_snapshot_done(&snapshot);
    (void)uma_observer_close(observer);
    folder_done(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(when_it_is_looked_again), cmocka_unit_test(what_was_found_is_shown_again) };
    return cmocka_run_group_tests_name("status_cache", tests, NULL, NULL);
}
