/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "guard/helper/evict.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#define KNOWN(bytes) ((struct uma_u64){ bytes, UMA_KNOWN })

static struct uma_pid somebody = { 7 };

static void order(void **state) {
    (void)state;
    struct uma_cached_file files[] = {
        { .path = "/a", .model = "mapped", .resident = KNOWN(100), .used_ns = 1, .n_mapped_by = 1, .mapped_by = &somebody },
        { .path = "/b", .resident = KNOWN(100), .used_ns = 1 }, /* no weights */
        { .path = "/c", .model = "recent", .resident = KNOWN(100), .used_ns = 9 },
        { .path = "/d", .model = "open", .resident = KNOWN(100), .used_ns = 1, .n_open_by = 1, .open_by = &somebody },
        { .path = "/e", .model = "old", .resident = KNOWN(50), .used_ns = 2 },
        { .path = "/f", .model = "old and large", .resident = KNOWN(60), .used_ns = 2 },
        { .path = "/g", .model = "in memory", .resident = KNOWN(100), .used_ns = 1, .kind = UMA_CACHED_MEMORY },
        { .path = "/h", .model = "unknown", .resident = { 0, UMA_DENIED }, .used_ns = 1 },
        { .model = "no way to it", .resident = KNOWN(100), .used_ns = 1 },
        { .path = "/i", .model = "not cached", .resident = KNOWN(0), .used_ns = 1 },
    };
    struct uma_page_cache cache = { .n_files = sizeof(files) / sizeof(files[0]), .files = files };
    size_t places[16];
    assert_int_equal(uma_helper_evict_order(&cache, places, 16), 5);
    static const char *const expected[] = { "old and large", "old", "recent", "open", "mapped" };
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(files[places[i]].model, expected[i]);
    assert_int_equal(uma_helper_evict_order(&cache, places, 2), 2);
    cache.n_files = 0;
    assert_int_equal(uma_helper_evict_order(&cache, places, 16), 0);
}

static bool at_once(void *userdata) {
    (void)userdata;
    return true;
}

/* No more than asked, not past its time, and only the file that was listed. */
static void bounds(void **state) {
    (void)state;
    char path[] = "/var/tmp/umactl-test-XXXXXX";
    struct uma_helper_eviction e;
    struct stat st;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && ftruncate(fd, 1 << 20) == 0 && fsync(fd) == 0 && fstat(fd, &st) == 0);
    struct uma_cached_file file = { .path = path,
                                    .model = "m",
                                    .resident = KNOWN(1 << 20),
                                    .device = (uint64_t)st.st_dev,
                                    .inode = (uint64_t)st.st_ino,
                                    .size = KNOWN(1 << 20) };
    struct uma_page_cache cache = { .n_files = 1, .files = &file };
    uma_helper_evict(&cache, 0, INT64_MAX, NULL, NULL, &e);
    assert_true(e.evicted == 0 && e.n_files == 1 && e.cached == 1 << 20 && !e.late && !e.stopped);
    uma_helper_evict(&cache, 1 << 20, uma_monotonic_ns() - 1, NULL, NULL, &e);
    assert_true(e.evicted == 0 && e.late);
    uma_helper_evict(&cache, 1 << 20, INT64_MAX, at_once, NULL, &e);
    assert_true(e.evicted == 0 && e.stopped);
    file.inode++;
    uma_helper_evict(&cache, 1 << 20, INT64_MAX, NULL, NULL, &e);
    assert_true(e.evicted == 0 && e.files == 0);
    file.path = "/nonexistent/file";
    uma_helper_evict(&cache, 1 << 20, INT64_MAX, NULL, NULL, &e);
    assert_int_equal(e.evicted, 0);
    (void)close(fd);
    (void)unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(order), cmocka_unit_test(bounds) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
