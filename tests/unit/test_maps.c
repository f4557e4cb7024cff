/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/text.h"
#include "base/units.h"
#include "observe/files/maps.h"
#include "folder.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#define ROOM (64 * UMA_MIB)

static int parse(const char *text, struct uma_arena *arena, size_t *ret_n, struct uma_mapping **ret_list) {
    struct uma_error err = { 0 };
    int r = uma_maps_parse(text, strlen(text), "maps", arena, ret_n, ret_list, &err);
    assert_true(r >= 0 || err.text[0]);
    return r;
}

/* Lines as a kernel wrote them; only names were changed. */
static const char plain[] =
    "5617a7505000-5617a7507000 r--p 00000000 fe:00 247134                     /usr/bin/cat\n"
    "5617a7507000-5617a750c000 r-xp 00002000 fe:00 247134                     /usr/bin/cat\n"
    "5617a7510000-5617a7511000 rw-p 0000a000 fe:00 247134                     /usr/bin/cat\n"
    "5617c8a5f000-5617c8a80000 rw-p 00000000 00:00 0                          [heap]\n"
    "7f0000000000-7f0100000000 r--s 1000000000 103:02 18446744073709551615      /models/a b/model-00001-of-00017.safetensors\n"
    "7f0d2c000000-7f0d2c021000 rw-p 00000000 00:00 0 \n"
    "7f0d33e2b000-7f0d33e2d000 rw-p 00000000 00:00 0                          [anon: glibc: malloc]\n"
    "7f0d33e35000-7f0d33e36000 rw-s 00000000 00:01 2077                       /memfd:wayland shm (deleted)\n"
    "7f0d33e36000-7f0d33e37000 rw-s 00000000 00:01 98317                      /SYSV00000000 (deleted)\n"
    "7f0d33e37000-7f0d33e38000 rw-s 00000000 00:01 2078                       /dev/zero (deleted)\n"
    "7f0d33e38000-7f0d33e39000 rw-s 00000000 00:0f 1057                       anon_inode:[perf_event]\n"
    "7f0d33e39000-7f0d33e3a000 rw-s 00000000 00:09 40219                      socket:[40219]\n"
    "7ffd0b5f0000-7ffd0b611000 rw-p 00000000 00:00 0                          [stack]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

static void test_plain(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(ROOM);
    size_t n = 0;
    struct uma_mapping *m = NULL;
    assert_int_equal(parse(plain, arena, &n, &m), 0);
    assert_int_equal(n, 7);
    assert_string_equal(m[0].path, "/usr/bin/cat");
    assert_ptr_equal(m[0].path, m[2].path);
    assert_true(m[0].start == 0x5617a7505000 && m[0].end == 0x5617a7507000 && m[0].offset == 0);
    assert_true(m[0].major == 0xfe && m[0].minor == 0 && m[0].inode == 247134);
    assert_true(m[0].readable && !m[0].writable && !m[0].executable && !m[0].shared && !m[0].deleted);
    assert_true(m[1].executable && m[1].offset == 0x2000);
    assert_true(m[2].writable);
    assert_string_equal(m[3].path, "/models/a b/model-00001-of-00017.safetensors");
    assert_true(m[3].shared && m[3].offset == 0x1000000000 && m[3].major == 0x103 && m[3].minor == 2 && m[3].inode == UINT64_MAX);
    assert_string_equal(m[4].path, "/memfd:wayland shm");
    assert_true(m[4].deleted);
    assert_string_equal(m[5].path, "/SYSV00000000");
    assert_string_equal(m[6].path, "/dev/zero");
}

static void test_names(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(ROOM);
    size_t n = 0;
    struct uma_mapping *m = NULL;
    assert_int_equal(parse("1000-2000 r--p 00000000 fe:00 5                          /x (deleted) (deleted)\n"
                           "2000-3000 r--p 00000000 fe:00 6                          /a\\012b\\0123\n"
                           "3000-4000 r--p 00000000 fe:00 7                          /tail  \n"
                           "4000-5000 r--p 00000000 fe:00 8                          /\xff\xfe\\01\n"
                           "5000-6000 r--p 00000000 fe:00 9                          / (deleted)\n"
                           "6000-7000 r--p 00000000 fe:00 9                          /(deleted)\n",
                           arena, &n, &m),
                     0);
    assert_int_equal(n, 6);
    assert_string_equal(m[0].path, "/x (deleted)");
    assert_true(m[0].deleted);
    assert_string_equal(m[1].path, "/a\nb\n3");
    assert_false(m[1].deleted);
    assert_string_equal(m[2].path, "/tail  ");
    assert_string_equal(m[3].path, "/\xff\xfe\\01");
    assert_string_equal(m[4].path, "/");
    assert_true(m[4].deleted);
    assert_string_equal(m[5].path, "/(deleted)");
    assert_false(m[5].deleted);
}

static void test_foreign_lines(void **state) {
    (void)state;
    static const char *const lines[] = {
        "\n",
        "1000-1000 r--p 00000000 fe:00 5 /empty\n",
        "2000-1000 r--p 00000000 fe:00 5 /backwards\n",
        "1000-2000 r-?p 00000000 fe:00 5 /x\n",
        "1000-2000 rwx- 00000000 fe:00 5 /x\n",
        "1000-2000 r--p 00000000 fe:00 /x\n",
        "1000-2000 r--p 00000000 fe:00 5/x\n",
        "1000-2000 r--p 00000000 fe-00 5 /x\n",
        "1000-2000 r--p 00000000 fe:00 18446744073709551616 /x\n",
        "11112222333344445-2000 r--p 00000000 fe:00 5 /x\n",
        "-2000 r--p 00000000 fe:00 5 /x\n",
        "1000-2000 r--p 00000000 100000000:00 5 /x\n",
        "1000-2000 R--p 00000000 FE:00 5 /x\n",
        "1000-2000 r--p\n",
        "1000-2000 r--p 00000000 fe:00 5 /cut",
    };
    for (size_t i = 0; i < ELEMENTS(lines); i++) {
        _cleanup_arena_ struct uma_arena *arena = uma_arena_new(ROOM);
        size_t n = 9;
        struct uma_mapping *m = NULL;
        if (parse(lines[i], arena, &n, &m) != 1 || n != 0)
            fail_msg("taken for a line of maps: %s", lines[i]);
    }
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(ROOM);
    size_t n = 9;
    struct uma_mapping *m = NULL;
    assert_int_equal(parse("", arena, &n, &m), 0);
    assert_int_equal(n, 0);
    static const char nul[] = "1000-2000 r--p 00000000 fe:00 5 /a\0b\n";
    assert_int_equal(uma_maps_parse(nul, sizeof(nul) - 1, "maps", arena, &n, &m, NULL), 1);
    assert_int_equal(n, 0);
}

static void test_bounds(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(ROOM), *small = uma_arena_new(4096);
    _cleanup_text_ struct uma_text text = { 0 };
    for (unsigned i = 1; i <= UMA_MAPPINGS_MAX + 3u; i++)
        uma_text_printf(&text, "%x000-%x001 r--p 00000000 00:2a %u /f\n", i, i, i);
    assert_false(text.failed);
    size_t n = 0;
    struct uma_mapping *m = NULL;
    assert_int_equal(uma_maps_parse(text.data, text.length, "maps", arena, &n, &m, NULL), 3);
    assert_int_equal(n, UMA_MAPPINGS_MAX);
    assert_int_equal(m[n - 1].inode, UMA_MAPPINGS_MAX);
    struct uma_error err = { 0 };
    n = 77;
    assert_int_equal(uma_maps_parse(text.data, text.length, "maps", small, &n, &m, &err), -ENOMEM);
    assert_int_equal(n, 77);
    assert_non_null(strstr(err.text, "maps"));
}

/* This program's own, with a file whose name needs escaping, against stat(2). */
static void test_read_own(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    folder_put(&f, "a\nb", "content");
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/a\nb", f.path);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(at != MAP_FAILED);
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(NULL, NULL, &root, NULL), 0);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(ROOM);
    size_t n = 0, found = 0;
    struct uma_mapping *m = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(uma_maps_read(root, 0, arena, &n, &m, &err), 0);
    for (size_t i = 0; i < n; i++)
        if (m[i].start == (uintptr_t)at) {
            found++;
            assert_int_equal(m[i].inode, st.st_ino);
            assert_non_null(strstr(m[i].path, "/a\nb"));
        }
    assert_int_equal(found, 1);
    assert_int_equal(munmap(at, 4096), 0);
    assert_int_equal(uma_maps_read(root, 0x7ffffff0, arena, &n, &m, &err), -ESRCH);
    assert_non_null(strstr(err.text, "proc/2147483632/maps"));
}

static void test_fdinfo(void **state) {
    (void)state;
    struct uma_fdinfo info;
    static const char good[] = "pos:\t4294967296\nflags:\t0100002\nmnt_id:\t24\nino:\t12345\nscm_fds: 0\nino:\t7\n";
    assert_int_equal(uma_fdinfo_parse(good, sizeof(good) - 1, &info), 0);
    assert_true(info.position == 4294967296 && info.flags == (O_LARGEFILE | O_RDWR | 0100000) && info.mount_id == 24 &&
                info.inode == 12345);
    static const char old[] = "pos:\t0\nflags:\t00\n";
    assert_int_equal(uma_fdinfo_parse(old, sizeof(old) - 1, &info), 0);
    assert_true(info.position == 0 && info.flags == 0 && info.mount_id == -1 && info.inode == 0);
    static const char *const bad[] = {
        "",
        "pos:\t1\n",
        "flags:\t0\n",
        "pos:\t-1\nflags:\t0\n",
        "pos:\t1\nflags:\t08\n",
        "pos:\t1\nflags:\t0",
        "pos:\t1\nflags:\t777777777777\n",
        "pos:\t1\nflags:\t\n",
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        info.inode = 99;
        if (uma_fdinfo_parse(bad[i], strlen(bad[i]), &info) != -EINVAL || info.inode != 99)
            fail_msg("taken for fdinfo: %s", bad[i]);
    }
    _cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(lseek(fd, 100, SEEK_SET), 100);
    char path[40], text[512];
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    _cleanup_close_ int from = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(from, text, sizeof(text));
    assert_true(n > 0);
    assert_int_equal(uma_fdinfo_parse(text, (size_t)n, &info), 0);
    assert_true(info.position == 100 && (info.flags & O_ACCMODE) == O_RDONLY && (info.inode == 0 || info.inode == st.st_ino));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),  cmocka_unit_test(test_names),    cmocka_unit_test(test_foreign_lines),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_read_own), cmocka_unit_test(test_fdinfo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
