/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/files/mounts.h"

#include <string.h>
#include <sys/sysmacros.h>

static struct uma_arena *arena;

static int set_up(void **state) {
    (void)state;
    arena = uma_arena_new(64 * UMA_MIB);
    return arena ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    arena = uma_arena_free(arena);
    return 0;
}

static int parse(const char *text, struct uma_mounts *ret_mounts, struct uma_error *err) {
    return uma_mounts_parse(text, strlen(text), "table", arena, ret_mounts, err);
}

static void kinds(void **state) {
    (void)state;
    static const struct {
        const char *type;
        enum uma_filesystem_kind kind;
    } cases[] = {
        { "ext4", UMA_FILESYSTEM_LOCAL },      { "btrfs", UMA_FILESYSTEM_LOCAL },      { "zfs", UMA_FILESYSTEM_LOCAL },
        { "squashfs", UMA_FILESYSTEM_LOCAL },  { "never-seen", UMA_FILESYSTEM_LOCAL }, { "", UMA_FILESYSTEM_LOCAL },
        { "tmpfs", UMA_FILESYSTEM_MEMORY },    { "hugetlbfs", UMA_FILESYSTEM_MEMORY }, { "devtmpfs", UMA_FILESYSTEM_MEMORY },
        { "overlay", UMA_FILESYSTEM_OVERLAY }, { "nfs4", UMA_FILESYSTEM_NETWORK },     { "nfsd", UMA_FILESYSTEM_PSEUDO },
        { "ceph", UMA_FILESYSTEM_NETWORK },    { "fuse", UMA_FILESYSTEM_FUSE },        { "fuse.sshfs", UMA_FILESYSTEM_FUSE },
        { "fuseblk", UMA_FILESYSTEM_FUSE },    { "fusectl", UMA_FILESYSTEM_PSEUDO },   { "virtiofs", UMA_FILESYSTEM_FUSE },
        { "proc", UMA_FILESYSTEM_PSEUDO },     { "cgroup2", UMA_FILESYSTEM_PSEUDO },   { "autofs", UMA_FILESYSTEM_PSEUDO },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        if (uma_filesystem_kind_of(cases[i].type) != cases[i].kind)
            fail_msg("%s: %d", cases[i].type, (int)uma_filesystem_kind_of(cases[i].type));
}

static void fields(void **state) {
    (void)state;
    struct uma_mounts m;
    assert_int_equal(
        parse("36 35 259:70000 /sub\\040volume /mnt/my\\040models rw,noatime shared:7 - ext4 /dev/nvme0n1p2 ro,errors=continue\n"
              "37 36 0:50 / /mnt/x ro,nosuid - fuse.sshfs host:/a\\054b rw,user_id=0\n"
              "38 36 0:51 / /mnt/y rw - xfs /dev/b rw,rox,inode64\n",
              &m, NULL),
        0);
    assert_int_equal(m.n, 3);
    assert_int_equal(m.list[0].id, 36);
    assert_int_equal(m.list[0].parent, 35);
    assert_int_equal(m.list[0].major, 259);
    assert_int_equal(m.list[0].minor, 70000);
    assert_string_equal(m.list[0].root, "/sub volume");
    assert_string_equal(m.list[0].point, "/mnt/my models");
    assert_string_equal(m.list[0].type, "ext4");
    assert_true(m.list[0].read_only); /* the file system is */
    assert_int_equal(m.list[0].kind, UMA_FILESYSTEM_LOCAL);
    assert_null(m.list[0].upper);
    assert_int_equal(m.list[0].n_lower, 0);
    assert_true(m.list[1].read_only); /* this mount is */
    assert_string_equal(m.list[1].source, "host:/a,b");
    assert_int_equal(m.list[1].kind, UMA_FILESYSTEM_FUSE);
    assert_false(m.list[2].read_only);
    assert_ptr_equal(uma_mounts_of_device(&m, makedev(0, 50)), &m.list[1]);
    assert_null(uma_mounts_of_device(&m, makedev(0, 49)));
}

static void skipped_lines(void **state) {
    (void)state;
    struct uma_mounts m = { .n = 77 };
    struct uma_error err = { 0 };
    assert_int_equal(parse("", &m, &err), 0);
    assert_int_equal(m.n, 0);
    assert_int_equal(parse("\n\n22 1 8:1 / / rw - ext4 /dev/a rw\nnonsense\n23 1 8 / /x rw - ext4 d rw\n24 1 8:1 / rel rw - ext4 d rw\n"
                           "99999999999 1 8:1 / /x rw - ext4 d rw\n25 22 8:2 / /cut rw - overlay o rw,lowerdir=/a:/b",
                           &m, &err),
                     5);
    assert_int_equal(m.n, 1);
    assert_int_equal(parse("\nnonsense\n", &m, &err), -EINVAL);
    assert_int_equal(m.n, 1); /* left alone */
    assert_non_null(strstr(err.text, "table:2"));
}

static void check_layers(const char *options, const char *upper, size_t n, const char *const *lower) {
    char line[1024];
    struct uma_mounts m;
    (void)snprintf(line, sizeof(line), "30 22 0:60 / /merged rw,relatime - overlay overlay %s\n", options);
    assert_int_equal(parse(line, &m, NULL), 0);
    if (upper)
        assert_string_equal(m.list[0].upper, upper);
    else
        assert_null(m.list[0].upper);
    assert_int_equal(m.list[0].n_lower, n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(m.list[0].lower[i], lower[i]);
}

static void layers(void **state) {
    (void)state;
    check_layers("rw,lowerdir=/a:/b:/c,upperdir=/u,workdir=/w", "/u", 3, (const char *const[]){ "/a", "/b", "/c" });
    check_layers("ro,lowerdir=/a:/b::/data1::/data2", NULL, 4, (const char *const[]){ "/a", "/b", "/data1", "/data2" });
    check_layers("rw,lowerdir+=/a:1,lowerdir+=/b,datadir+=/d,upperdir=/u\\040x", "/u x", 3, (const char *const[]){ "/a:1", "/b", "/d" });
    /* a colon within a name, as /proc shows it: the backslash itself is escaped */
    check_layers("rw,lowerdir=/a\\134:b:/c\\054d\\075e\\040f", NULL, 2, (const char *const[]){ "/a:b", "/c,d=e f" });
    check_layers("rw,lowerdir=/a\\\\:b:/c\\,d", NULL, 3, (const char *const[]){ "/a\\", "b", "/c,d" });
    check_layers("rw,lowerdir=l/ABC:l/DEF", NULL, 2, (const char *const[]){ "l/ABC", "l/DEF" });
    check_layers("rw,lowerdir=,upperdir=,xlowerdir=/no,lowerdirs=/no,lowerdir", "", 0, NULL);
    check_layers("rw,lowerdir=/a,lowerdir=/b:/c", NULL, 3, (const char *const[]){ "/a", "/b", "/c" });
    check_layers("rw,lowerdir=/a\\", NULL, 1, (const char *const[]){ "/a\\" });
}

static void expect_on(const struct uma_mounts *m, const char *path, int id) {
    const struct uma_mount *on = uma_mounts_of_path(m, path);
    if (id < 0) {
        assert_null(on);
        return;
    }
    assert_non_null(on);
    if (on->id != id)
        fail_msg("%s: on %d, not on %d", path, on->id, id);
}

static void of_path(void **state) {
    (void)state;
    struct uma_mounts m;
    assert_int_equal(parse("1 1 0:2 / / rw - rootfs rootfs rw\n"
                           "22 1 8:1 / / rw - ext4 /dev/a rw\n"
                           "23 22 8:2 / /data rw - ext4 /dev/b rw\n"
                           "24 23 8:3 / /data/models rw - xfs /dev/c rw\n"
                           "25 22 8:4 / /hidden/below rw - xfs /dev/d rw\n"
                           "26 22 8:5 / /hidden rw - xfs /dev/e rw\n"
                           "27 23 8:6 / /data rw - tmpfs t rw\n" /* over 23, whose 24 it hides */
                           "28 22 8:7 / /twice rw - xfs /dev/f rw\n"
                           "29 28 8:8 / /twice rw - xfs /dev/g rw\n",
                           &m, NULL),
                     0);
    expect_on(&m, "/", 22);
    expect_on(&m, "/etc/passwd", 22);
    expect_on(&m, "/database", 22);
    expect_on(&m, "/data", 27);
    expect_on(&m, "/data/models/x", 27);
    expect_on(&m, "/hidden/below/x", 26);
    expect_on(&m, "/twice/x", 29);
    expect_on(&m, "relative", -1);
    assert_int_equal(parse("24 23 8:3 / /data/models rw - xfs /dev/c rw\n23 22 8:2 / /data rw - ext4 /dev/b rw\n", &m, NULL), 0);
    expect_on(&m, "/data/models/x", 24); /* in any order; the root's own mount is not in this view */
    expect_on(&m, "/data/x", 23);
    expect_on(&m, "/x", -1);
    /* what no kernel says: a circle */
    assert_int_equal(parse("1 2 8:3 / / rw - xfs c rw\n2 1 8:3 / /a rw - xfs c rw\n", &m, NULL), 0);
    expect_on(&m, "/a/b", 2);
}

static void of_device(void **state) {
    (void)state;
    struct uma_mounts m;
    assert_int_equal(
        parse("22 1 8:1 /sub /a rw - ext4 /dev/a rw\n23 1 8:1 / /b rw - ext4 /dev/a rw\n24 1 8:1 / /c rw - ext4 /dev/a rw\n", &m, NULL), 0);
    assert_int_equal(uma_mounts_of_device(&m, makedev(8, 1))->id, 23);
}

static void too_many(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_mounts m;
    for (int i = 0; i < UMA_MOUNTS_MAX + 3; i++)
        uma_text_printf(&text, "%d 1 0:%d / /m rw - proc p rw\n", i + 2, i);
    assert_int_equal(parse(text.data, &m, NULL), 3);
    assert_int_equal(m.n, UMA_MOUNTS_MAX);
    expect_on(&m, "/m/x", UMA_MOUNTS_MAX + 1); /* more on one point than are told apart: the last of the longest */
}

static void out_of_memory(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *small = uma_arena_new(64);
    struct uma_mounts m = { 0 };
    const char *text = "22 1 8:1 /sub /a rw - ext4 /dev/a rw\n";
    assert_int_equal(uma_mounts_parse(text, strlen(text), "t", small, &m, NULL), -ENOMEM);
    assert_null(m.list);
}

/* This machine's own table: the file system that /proc lies on is found. */
static void own_table(void **state) {
    (void)state;
    _cleanup_root_ struct uma_root *root = NULL;
    struct uma_mounts m, same;
    struct uma_error err = { 0 };
    assert_int_equal(uma_root_open(NULL, NULL, &root, &err), 0);
    int r = uma_mounts_read(root, 0, arena, &m, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    assert_int_equal(r, 0);
    const struct uma_mount *on = uma_mounts_of_path(&m, "/proc/self/status");
    assert_non_null(on);
    assert_int_equal(on->kind, UMA_FILESYSTEM_PSEUDO);
    assert_int_equal(uma_mounts_read(root, getpid(), arena, &same, &err), 0);
    assert_int_equal(same.n, m.n);
    assert_true(uma_mounts_read(root, 0x7ffffffe, arena, &same, &err) < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test_setup_teardown(fields, set_up, tear_down),
        cmocka_unit_test_setup_teardown(skipped_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(layers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_device, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(out_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(own_table, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
