/* SPDX-License-Identifier: MIT */
/* Presence of this process's own pages, by the ioctl and by reading the file, which must agree. */
#include "test.h"

#include "observe/files/presence.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 64 };

static size_t page;
static int file = -1;

static int make_file(void **state) {
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    char name[] = "/tmp/presence-XXXXXX";
    file = mkstemp(name);
    if (file < 0)
        return -1;
    (void)unlink(name);
    return ftruncate(file, (off_t)(PAGES * page));
}

static int drop_file(void **state) {
    (void)state;
    return close(file);
}

/* A bit per page that is present, as `presence` says. */
static uint64_t bits(struct uma_presence *presence, const char *at, size_t max) {
    uint64_t start = (uint64_t)(uintptr_t)at, end = start + PAGES * page, seen = 0, until = start, before = 0;
    struct uma_address_range ranges[PAGES];
    while (until < end) {
        ssize_t n = uma_presence_read(presence, until, end, ranges, max, &until, NULL);
        assert_true(n >= 0 && (size_t)n <= max);
        for (ssize_t i = 0; i < n; i++) {
            assert_true(ranges[i].start >= before && ranges[i].start < ranges[i].end && ranges[i].end <= end);
            before = ranges[i].end;
            for (uint64_t a = ranges[i].start; a < ranges[i].end; a += page)
                seen |= UINT64_C(1) << ((a - start) / page);
        }
    }
    return seen;
}

static void both(const char *at, uint64_t wanted) {
    for (int no_scan = 0; no_scan < 2; no_scan++)
        for (size_t max = 1; max <= PAGES; max += 21) { /* with room for one range, and for all */
            struct uma_presence presence;
            assert_int_equal(uma_presence_open(getpid(), &presence, NULL), 0);
            presence.no_scan = no_scan;
            assert_true(bits(&presence, at, max) == wanted);
            uma_presence_close(&presence);
        }
}

/* One page of a mapping without those that a fault maps along. */
static void touch(const volatile char *at) {
    (void)at[0];
}

static char *map(int protection, int flags) {
    char *at = mmap(NULL, PAGES * page, protection, flags, file, 0);
    assert_true(at != MAP_FAILED);
    (void)madvise(at, PAGES * page, MADV_RANDOM);
    return at;
}

static void test_shared(void **state) {
    (void)state;
    char *at = map(PROT_READ | PROT_WRITE, MAP_SHARED);
    both(at, 0);
    (void)memset(at, 1, PAGES * page);
    both(at, UINT64_MAX);
    assert_int_equal(madvise(at + 8 * page, 8 * page, MADV_DONTNEED), 0);
    assert_int_equal(madvise(at + 40 * page, page, MADV_DONTNEED), 0);
    both(at, ~UINT64_C(0xff00) & ~(UINT64_C(1) << 40));
    assert_int_equal(munmap(at, PAGES * page), 0);
}

static void test_private_copies_are_not_the_files(void **state) {
    (void)state;
    char *at = map(PROT_READ | PROT_WRITE, MAP_PRIVATE);
    for (size_t i = 0; i < PAGES; i++)
        touch(at + i * page);
    both(at, UINT64_MAX);
    at[3 * page] = 'x';
    at[63 * page] = 'y';
    both(at, ~(UINT64_C(1) << 3) & ~(UINT64_C(1) << 63));
    assert_int_equal(munmap(at, PAGES * page), 0);
}

static void test_anonymous_is_no_file(void **state) {
    (void)state;
    char *at = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    (void)memset(at, 1, PAGES * page / 2);
    touch(at + (PAGES - 1) * page); /* the page of zeros */
    both(at, 0);
    assert_int_equal(munmap(at, PAGES * page), 0);
    both(at, 0); /* a hole */
}

static void test_a_process_that_is_not_there(void **state) {
    (void)state;
    struct uma_presence presence = { .fd = -1 };
    struct uma_error err;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(uma_presence_open(child, &presence, &err), -ESRCH);
    assert_int_equal(presence.fd, -1);
    uma_presence_close(&presence);
}

static void test_a_process_that_ended_meanwhile(void **state) {
    (void)state;
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    char *at = map(PROT_READ, MAP_SHARED);
    pid_t child = fork();
    if (child == 0) {
        (void)close(gate[1]);
        char c;
        _exit(read(gate[0], &c, 1) != 0);
    }
    for (int no_scan = 0; no_scan < 2; no_scan++) {
        struct uma_presence presence;
        assert_int_equal(uma_presence_open(child, &presence, NULL), 0);
        presence.no_scan = no_scan;
        if (no_scan) {
            (void)close(gate[1]);
            assert_int_equal(waitpid(child, NULL, 0), child);
            struct uma_address_range range;
            uint64_t until, start = (uint64_t)(uintptr_t)at;
            assert_int_equal(uma_presence_read(&presence, start, start + page, &range, 1, &until, NULL), -ESRCH);
        }
        uma_presence_close(&presence);
    }
    (void)close(gate[0]);
    assert_int_equal(munmap(at, PAGES * page), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_private_copies_are_not_the_files),
        cmocka_unit_test(test_anonymous_is_no_file),
        cmocka_unit_test(test_a_process_that_is_not_there),
        cmocka_unit_test(test_a_process_that_ended_meanwhile),
    };
    return cmocka_run_group_tests(tests, make_file, drop_file);
}
