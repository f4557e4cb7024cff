/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "observe/files/locked.h"

#include <string.h>

#define FIELDS(rss, flags) "Size:               8192 kB\nRss:    " rss " kB\nLocked:             0 kB\nVmFlags: " flags "\n"
static const char smaps[] =
    "7f0000000000-7f0000800000 r--s 00000000 08:01 42                         /models/a \n" FIELDS("2048", "rd sh mr mw me ms lo") "7f0000800000-7f0001000000 r--s 00800000 08:01 42                         /models/a\n" FIELDS("1024", "rd lo sd") "7f0001000000-7f0001800000 r--s 01000000 08:01 42                         /models/a\n" FIELDS(
        "9999",
        "rd mr lox") "7f0002000000-7f0002800000 rw-p 00000000 00:00 0 \n" FIELDS("512",
                                                                                 "rd wr lo") "7f0003000000-7f0003800000 r--p 00000000 103:02 43                        /models/b (deleted)\n" FIELDS("4",
                                                                                                                                                                                                     "rd lo") "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0                          [stack]\n" FIELDS("64",
                                                                                                                                                                                                                                                                                                          "rd wr lo");

static void mappings_that_are_locked(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_locked_file *f = NULL;
    size_t n = 0;
    assert_int_equal(uma_locked_parse(smaps, strlen(smaps), arena, &n, &f, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(f[0].inode, 42);
    assert_int_equal(f[0].major, 8);
    assert_int_equal(f[0].bytes, 3072 * 1024); /* two of its three mappings */
    assert_int_equal(f[1].inode, 43);
    assert_int_equal(f[1].major, 0x103);
    assert_int_equal(f[1].minor, 2);
    assert_int_equal(f[1].bytes, 4096);
}

static void cut_anywhere(void **state) {
    (void)state;
    for (size_t length = 0; length <= strlen(smaps); length++) {
        _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
        struct uma_locked_file *f = NULL;
        size_t n = 0;
        assert_int_equal(uma_locked_parse(smaps, length, arena, &n, &f, NULL), 0);
        assert_true(n <= 2);
        for (size_t i = 0; i < n; i++)
            assert_true(f[i].bytes == 2048 * 1024 || f[i].bytes == 3072 * 1024 || f[i].bytes == 4096);
    }
}

/* Where nothing is locked, smaps is not read: it is costly. */
static void of_a_process(void **state) {
    (void)state;
    struct folder folder;
    assert_int_equal(folder_new(&folder), 0);
    folder_put(&folder, "proc/7/status", "Name:\tpython3\nVmLck:\t    3076 kB\nVmPin:\t       0 kB\n");
    folder_put(&folder, "proc/7/smaps", smaps);
    folder_put(&folder, "proc/8/status", "Name:\tpython3\nVmLck:\t       0 kB\n");
    folder_put(&folder, "proc/8/smaps", smaps);
    folder_put(&folder, "proc/9/status", "Name:\tkthreadd\n"); /* has no memory of its own */
    _cleanup_root_ struct uma_root *root = NULL;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_locked_file *f = NULL;
    size_t n = 99;
    assert_int_equal(uma_root_open(folder.path, NULL, &root, NULL), 0);
    assert_int_equal(uma_locked_read(root, 7, arena, &n, &f, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(uma_locked_read(root, 8, arena, &n, &f, NULL), 0);
    assert_int_equal(n, 0);
    assert_int_equal(uma_locked_read(root, 9, arena, &n, &f, NULL), 0);
    assert_int_equal(n, 0);
    assert_true(uma_locked_read(root, 10, arena, &n, &f, NULL) < 0);
    folder_done(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(mappings_that_are_locked), cmocka_unit_test(cut_anywhere),
                                        cmocka_unit_test(of_a_process) };
    return cmocka_run_group_tests_name("locked", tests, NULL, NULL);
}
