/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "observe/cgroup_leaf.h"

#include <errno.h>

static void put(const struct folder *f, const char *path, const char *text) {
    folder_put_n(f, path, text, strlen(text));
}

static void where_a_process_really_is(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    _cleanup_root_ struct uma_root *root = NULL;
    struct uma_error err = { 0 };
    char path[256];
    assert_int_equal(folder_new(&f), 0);
    assert_int_equal(uma_root_open(f.path, NULL, &root, NULL), 0);
    put(&f, "proc/7/cgroup", "0::/x\n");
    assert_int_equal(uma_cgroup_leaf_of(root, 7, path, sizeof(path), &err), -ENOENT);
    assert_non_null(strstr(err.text, "not mounted"));
    put(&f, "proc/self/mountinfo", "24 1 0:21 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put(&f, "sys/fs/cgroup/unified/docker/leaf/cgroup.procs", "");
    static const struct {
        const char *text;
        int expected;
        const char *said;
    } cases[] = { { "12:memory:/other\n0::/docker/leaf\n", 0, "/sys/fs/cgroup/unified/docker/leaf" },
                  { "0::/docker/leaf", 0, "/sys/fs/cgroup/unified/docker/leaf" },
                  { "0::/\n", -EINVAL, "whole machine" },
                  { "0::/../outside\n", -EXDEV, "on the host" },
                  { "12:memory:/other\n", -ENOENT, "no group" },
                  { "", -ENOENT, "no group" } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        put(&f, "proc/7/cgroup", cases[i].text);
        (void)strcpy(path, "untouched");
        assert_int_equal(uma_cgroup_leaf_of(root, 7, path, sizeof(path), &err), cases[i].expected);
        assert_non_null(strstr(cases[i].expected ? err.text : path, cases[i].said));
        assert_true(cases[i].expected == 0 || strcmp(path, "untouched") == 0);
    }
    put(&f, "proc/7/cgroup", "0::/docker/leaf\n");
    assert_int_equal(uma_cgroup_leaf_of(root, 7, path, 20, &err), -ENAMETOOLONG);
    assert_int_equal(uma_cgroup_leaf_of(root, 8, path, sizeof(path), &err), -ENOENT);
    static const struct {
        const char *path;
        int expected;
    } named[] = { { "/sys/fs/cgroup/unified/docker/leaf", 0 },
                  { "/sys/fs/cgroup/unified/docker/none", -ENOENT },
                  { "/sys/fs/cgroup/unified", -EXDEV },
                  { "/sys/fs/cgroup/unified/", -EINVAL },
                  { "/sys/fs/cgroup/unified//", -EINVAL },
                  { "/sys/fs/cgroup/unified/./", -EINVAL },
                  { "/sys/fs/cgroup/unified/.", -EINVAL },
                  { "/sys/fs/cgroup/unifiedx/docker", -EXDEV },
                  { "sys/fs/cgroup/unified/docker/leaf", -EXDEV },
                  { "/etc", -EXDEV },
                  { "", -EXDEV },
                  { "/sys/fs/cgroup/unified/docker/../../x", -EXDEV } };
    for (size_t i = 0; i < ELEMENTS(named); i++)
        assert_int_equal(uma_cgroup_leaf_check(root, named[i].path, &err), named[i].expected);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(where_a_process_really_is) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
