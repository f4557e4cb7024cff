/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/files/page_cache.h"
#include "observe/snapshot_json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int begin(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-XXXXXX");
    if (!mkdtemp(folder) || chdir(folder) < 0)
        return -1;
    return mkdir("umactl", 0700);
}

static int end(void **state) {
    (void)state;
    (void)unlink(UMA_PAGE_CACHE_RECORD);
    (void)rmdir("umactl");
    return chdir("/") < 0 || rmdir(folder) < 0 ? -1 : 0;
}

static void record(const char *text, size_t n) {
    _cleanup_close_ int fd = open(UMA_PAGE_CACHE_RECORD, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
}

static void recorded(struct uma_arena *arena, struct uma_page_cache *ret_cache) {
    _cleanup_root_ struct uma_root *root = NULL;
    struct uma_error err = { 0 };
    if (uma_root_open(folder, NULL, &root, &err) < 0)
        fail_msg("%s", err.text);
    (void)memset(ret_cache, 0x55, sizeof(*ret_cache));
    uma_page_cache_recorded(root, arena, ret_cache);
}

static void test_recorded(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_page_cache cache;
    recorded(arena, &cache);
    assert_int_equal(cache.source.validity, UMA_UNKNOWN);
    assert_non_null(strstr(cache.source.detail, "not recorded"));
    assert_int_equal(cache.total.validity, UMA_UNKNOWN);
    assert_int_equal(cache.n_files, 0);

    static const char good[] = "{\"source\": {\"state\": \"known\", \"time\": 5, \"path\": \"cachestat\"}, \"total\": 9,"
                               " \"files\": [{\"path\": \"/a\", \"resident\": 4096}, {\"path\": \"/b\", \"resident\": 8192}]}";
    record(good, sizeof(good) - 1);
    recorded(arena, &cache);
    assert_int_equal(cache.source.validity, UMA_KNOWN);
    assert_string_equal(cache.source.path, "cachestat");
    assert_int_equal(cache.n_files, 2);
    assert_string_equal(cache.files[0].path, "/b");

    static const char *const bad[] = { "", "{", "[]", "{\"files\": [{\"resident\": -1}]}", "{\"total\": \"much\"}" };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        record(bad[i], strlen(bad[i]));
        recorded(arena, &cache);
        assert_int_equal(cache.source.validity, UMA_MALFORMED);
        assert_string_equal(cache.source.path, UMA_PAGE_CACHE_RECORD);
        assert_non_null(strstr(cache.source.detail, UMA_PAGE_CACHE_RECORD));
        assert_int_equal(cache.n_files, 0);
        assert_null(cache.files);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_recorded) };
    return cmocka_run_group_tests(tests, begin, end);
}
