/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "observe/cgroup.h"

static void parse(const char *text, bool short_form, struct uma_cgroup_mounts *mounts, int expected) {
    assert_int_equal(uma_cgroup_mounts_parse(text, strlen(text), short_form, mounts), expected);
}

static void tables(void **state) {
    (void)state;
    struct uma_cgroup_mounts m = { 0 };
    parse("22 1 0:20 / /proc rw - proc proc rw\n24 1 0:21 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", false, &m,
          0);
    assert_string_equal(m.unified.base, "sys/fs/cgroup");
    assert_string_equal(m.unified.inner, "/");
    assert_null(m.memory_v1.base);
    /* hybrid; the memory controller may share its hierarchy; memoryless names do not count */
    parse(
        "1 1 0:1 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n2 1 0:2 /docker/abc /sys/fs/cgroup/memory ro shared:1 master:2 - cgroup cgroup rw,memory,cpu\n"
        "3 1 0:3 / /sys/fs/cgroup/x rw - cgroup cgroup rw,memoryx\n",
        false, &m, 0);
    assert_string_equal(m.unified.base, "sys/fs/cgroup/unified");
    assert_string_equal(m.memory_v1.base, "sys/fs/cgroup/memory");
    assert_string_equal(m.memory_v1.inner, "/docker/abc");
    /* the usual place wins, in either order; escapes are undone */
    parse("cg /mnt/a\\040b cgroup2 rw 0 0\n", true, &m, 0);
    assert_string_equal(m.unified.base, "mnt/a b");
    parse("cg /mnt/x cgroup2 rw 0 0\ncg /sys/fs/cgroup cgroup2 rw 0 0\ncg /mnt/y cgroup2 rw 0 0\n", true, &m, 0);
    assert_string_equal(m.unified.base, "sys/fs/cgroup");
    /* what would lead out, and nonsense */
    parse("cg /sys/fs/cgroup/../../etc cgroup2 rw 0 0\n", true, &m, -ENOENT);
    parse("cg relative cgroup2 rw 0 0\n", true, &m, -ENOENT);
    parse("1 1 0:1 / /sys/fs/cgroup rw cgroup2\n\n \n-\n1 1 - - - -", false, &m, -ENOENT);
    parse("", false, &m, -ENOENT);
    assert_null(m.unified.base);
    uma_cgroup_mounts_done(&m);
}

static void below(void **state) {
    (void)state;
    static char base[] = "sys/fs/cgroup";
    static const struct {
        const char *inner, *path, *below;
    } cases[] = {
        { "/", "/", "" },
        { "/", "/a/b", "/a/b" },
        { "/docker/abc", "/docker/abc", "" },
        { "/docker/abc", "/docker/abc/sub", "/sub" },
        { "/docker/abc", "/docker/abcd", NULL },
        { "/docker/abc", "/system.slice", NULL },
        { "/", "/../outside", NULL },
        { "/", "/a/../../etc", NULL },
        { "/../..", "/../../docker/x", "/docker/x" },
        { "/../..", "/x", NULL },
        { "/", "/..a/b..", "/..a/b.." },
        { "/", "relative", NULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char inner[64];
        (void)snprintf(inner, sizeof(inner), "%s", cases[i].inner);
        const struct uma_cgroup_mount mount = { .base = base, .inner = inner };
        const char *got = uma_cgroup_path_below(&mount, cases[i].path);
        if (!cases[i].below)
            assert_null(got);
        else
            assert_string_equal(got, cases[i].below);
    }
    const struct uma_cgroup_mount none = { 0 };
    assert_null(uma_cgroup_path_below(&none, "/"));
}

/* Folders without a table of mounts, or with that of another view, fall back to the usual places. */
static void found(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    assert_int_equal(folder_new(&folder), 0);
    struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(folder.path, NULL, &root, NULL), 0);
    struct uma_cgroup_mounts m = { 0 };
    _cleanup_text_ struct uma_text scratch = { 0 };
    uma_cgroup_mounts_find(root, &scratch, &m);
    assert_null(m.unified.base);
    folder_put(&folder, "sys/fs/cgroup/cgroup.controllers", "memory\n");
    uma_cgroup_mounts_find(root, &scratch, &m);
    assert_string_equal(m.unified.base, "sys/fs/cgroup");
    folder_put(&folder, "proc/mounts", "cg /elsewhere cgroup2 rw 0 0\n");
    uma_cgroup_mounts_find(root, &scratch, &m);
    assert_string_equal(m.unified.base, "sys/fs/cgroup");
    folder_put(&folder, "elsewhere/memory.max", "max\n");
    uma_cgroup_mounts_find(root, &scratch, &m);
    assert_string_equal(m.unified.base, "elsewhere");
    folder_put(&folder, "proc/self/mountinfo", "1 1 0:2 /me /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    folder_put(&folder, "sys/fs/cgroup/memory/memory.limit_in_bytes", "1\n");
    uma_cgroup_mounts_find(root, &scratch, &m);
    assert_null(m.unified.base);
    assert_string_equal(m.memory_v1.base, "sys/fs/cgroup/memory");
    assert_string_equal(m.memory_v1.inner, "/me");
    uma_cgroup_mounts_done(&m);
    (void)uma_root_close(root);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(tables), cmocka_unit_test(below), cmocka_unit_test(found) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
