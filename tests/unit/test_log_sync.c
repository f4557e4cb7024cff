/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "record/log_sync.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static int descriptors(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n;
}

static void nothing_to_keep(void **state) {
    (void)state;
    int fds[] = { -1, -1 };
    assert_null(uma_log_sync_start(fds, 2));
    assert_null(uma_log_sync_start(NULL, 0));
    assert_null(uma_log_sync_stop(NULL));
}

/* It has descriptors of its own, ends long before its interval is over, and leaves none behind. */
static void stops_promptly(void **state) {
    (void)state;
    char path[] = "/tmp/umactl-test-XXXXXX";
    int ends[2], before = descriptors(), file = mkstemp(path);
    assert_true(file >= 0 && pipe(ends) == 0);
    int many[] = { file, -1, ends[1], file, file, file, file }; /* more than it takes */
    struct uma_log_sync *sync = uma_log_sync_start(many, 7);
    assert_non_null(sync);
    assert_int_equal(write(file, "row\n", 4), 4);
    assert_int_equal(close(file), 0);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
    int64_t start = uma_monotonic_ns();
    assert_null(uma_log_sync_stop(sync));
    assert_true(uma_monotonic_ns() - start < UMA_LOG_SYNC_SECONDS * UMA_SECOND_NS / 2);
    assert_int_equal(descriptors(), before);
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_to_keep), cmocka_unit_test(stops_promptly) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
