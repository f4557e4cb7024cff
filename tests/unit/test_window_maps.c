/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "window/maps.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool line(const char *s, struct window_area *ret_area) {
    return window_maps_line(s, strlen(s), ret_area);
}

static void lines(void **state) {
    (void)state;
    struct window_area a;
    assert_true(line("7f0c1a000000-7f0c1b000000 r--s 0001f000 fe:00 123456                     /a b", &a));
    assert_int_equal(a.start, 0x7f0c1a000000);
    assert_int_equal(a.end, 0x7f0c1b000000);
    assert_int_equal(a.offset, 0x1f000);
    assert_true(a.readable && !a.writable && a.shared && a.file);
    assert_true(line("55d0-55d1 rw-p 00000000 00:00 0 ", &a));
    assert_true(a.writable && !a.shared && !a.file);
    assert_true(line("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]", &a));
    assert_true(line("1-2 ---p 0 00:00 7", &a));
    assert_true(a.file);
}

static void not_lines(void **state) {
    (void)state;
    static const char *const wrong[] = { "",
                                         "1",
                                         "1-2",
                                         "2-1 r--p 0 00:00 0 ",
                                         "1-1 r--p 0 00:00 0 ",
                                         "1-2 r-p 0 00:00 0 ",
                                         "1-2 rwxq 0 00:00 0 ",
                                         "1-2 r--p",
                                         "1-2 r--p 0 00:00",
                                         "1-2 r--p 0 00:00 ",
                                         "1-2 r--p 0 00-00 0 ",
                                         "1-2 r--p 0 00:00 x",
                                         "11111111111111111-2 r--p 0 00:00 0 ",
                                         "1-2 r--p 0 00:00 99999999999999999999 ",
                                         " 1-2 r--p 0 00:00 0 " };
    struct window_area a = { .start = 77 };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(line(wrong[i], &a));
    assert_int_equal(a.start, 77);
}

static int file_of(const char *text, size_t length) {
    int fd = memfd_create("maps", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), (ssize_t)length);
    return fd;
}

/* Lines that a read(2) cuts anywhere, and paths that are longer than what is kept of a line. */
static void finds_across_blocks(void **state) {
    (void)state;
    enum { LINES = 300 };
    size_t room = LINES * 1100, length = 0;
    char *text = malloc(room), path[1000];
    struct window_area a;
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    for (int i = 0; i < LINES; i++)
        length +=
            (size_t)snprintf(text + length, room - length, "%x000-%x800 r--p 00000000 fe:00 5 /%.*s\n", i + 16, i + 16, i * 7 % 999, path);
    int fd = file_of(text, length);
    for (uint64_t i = 0; i < LINES; i++) {
        assert_true(window_maps_area(fd, ((i + 16) << 12) + 0x7ff, &a));
        assert_int_equal(a.start, (i + 16) << 12);
        assert_int_equal(window_maps_area(fd, ((i + 16) << 12) + 0x800, &a), i + 1 < LINES); /* in a hole: the next */
        assert_int_equal(a.start, i + 1 < LINES ? (i + 17) << 12 : (i + 16) << 12);
    }
    free(text);
    (void)close(fd);
}

static void believes_nothing_behind_a_line_it_does_not_know(void **state) {
    (void)state;
    static const char text[] = "1000-2000 r--p 0 00:00 1 /a\nnonsense\n3000-4000 r--p 0 00:00 1 /b\n";
    struct window_area a;
    int fd = file_of(text, sizeof(text) - 1);
    assert_true(window_maps_area(fd, 0x1000, &a));
    assert_false(window_maps_area(fd, 0x3000, &a));
    (void)close(fd);
    assert_false(window_maps_area(-1, 0, &a));
}

static void this_process(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    struct window_area a;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    assert_true(own >= 0 && fd >= 0);
    void *p = mmap(NULL, page, PROT_READ, MAP_PRIVATE, own, (off_t)page);
    assert_true(p != MAP_FAILED);
    assert_true(window_maps_area(fd, (uintptr_t)p, &a));
    assert_true(a.start <= (uintptr_t)p && a.end >= (uintptr_t)p + page);
    assert_true(a.file && !a.writable && !a.shared);
    assert_int_equal(a.offset + ((uintptr_t)p - a.start), page);
    assert_true(window_maps_area(fd, (uintptr_t)&a, &a)); /* the stack */
    assert_true(!a.file && a.writable);
    (void)munmap(p, page);
    (void)close(fd);
    (void)close(own);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(not_lines), cmocka_unit_test(finds_across_blocks),
                                        cmocka_unit_test(believes_nothing_behind_a_line_it_does_not_know), cmocka_unit_test(this_process) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
