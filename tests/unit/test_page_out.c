/* SPDX-License-Identifier: MIT */
/* Paging out a child's mapping: its file pages leave it, its private copies stay as they are, and what may not be done is said. */
#include "test.h"

#include "act/page_out.h"
#include "observe/files/presence.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 512 };

/* A child that maps a file, has read it all and written one page of its private mapping; it says on demand whether that page is still as it was. */
struct child {
    pid_t pid;
    int pidfd, to, from;
    char *at;
};

static size_t page;

static void child_runs(char *at, int from, int to) {
    (void)memset(at + 7 * page, 'x', page); /* first: where one entry maps all, writing a part of it unmaps the rest */
    volatile unsigned sum = 0;
    for (size_t i = 0; i < PAGES; i++)
        sum = sum + (unsigned char)at[i * page];
    char c = 'r';
    while (write(to, &c, 1) == 1 && read(from, &c, 1) == 1) {
        c = 'y';
        for (size_t i = 0; i < page; i++)
            if (at[7 * page + i] != 'x')
                c = 'n';
        for (size_t i = 0; i < PAGES; i++)
            if (i != 7 && at[i * page] != (char)(i % 100))
                c = 'n';
    }
    _exit(0);
}

static struct child begin(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
    char name[] = "page-out-XXXXXX"; /* in the build folder: /tmp may be memory */
    int file = mkstemp(name);
    assert_true(file >= 0);
    (void)unlink(name);
    char *text = calloc(PAGES, page);
    assert_non_null(text);
    for (size_t i = 0; i < PAGES; i++)
        text[i * page] = (char)(i % 100);
    assert_int_equal(write(file, text, PAGES * page), (ssize_t)(PAGES * page));
    assert_int_equal(fsync(file), 0);
    free(text);
    struct child child = { .at = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) };
    assert_true(child.at != MAP_FAILED);
    int down[2], up[2];
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    child.pid = fork();
    if (child.pid == 0) {
        (void)close(down[1]);
        (void)close(up[0]);
        child_runs(child.at, down[0], up[1]);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    (void)close(file);
    child.to = down[1];
    child.from = up[0];
    child.pidfd = (int)syscall(434 /* pidfd_open */, child.pid, 0u);
    char c;
    assert_int_equal(read(child.from, &c, 1), 1);
    return child;
}

static bool intact(const struct child *child) {
    char c = '?';
    assert_int_equal(write(child->to, &c, 1), 1);
    assert_int_equal(read(child->from, &c, 1), 1);
    return c == 'y';
}

static void end(struct child *child) {
    (void)close(child->to);
    (void)close(child->from);
    (void)waitpid(child->pid, NULL, 0);
    if (child->pidfd >= 0)
        (void)close(child->pidfd);
    (void)munmap(child->at, PAGES * page);
}

static uint64_t present(const struct child *child) {
    struct uma_presence presence;
    assert_int_equal(uma_presence_open(child->pid, &presence, NULL), 0);
    struct uma_address_range ranges[PAGES];
    uint64_t start = (uint64_t)(uintptr_t)child->at, until, bytes = 0;
    ssize_t n = uma_presence_read(&presence, start, start + PAGES * page, ranges, PAGES, &until, NULL);
    for (ssize_t i = 0; i < n; i++)
        bytes += ranges[i].end - ranges[i].start;
    uma_presence_close(&presence);
    return bytes;
}

static void test_pages_leave_and_copies_stay(void **state) {
    (void)state;
    struct child child = begin();
    struct uma_error err = { 0 };
    int r = uma_page_out_allowed(child.pid, &err);
    if (r < 0) {
        assert_true(r == -EPERM || r == -ENOSYS || r == -EACCES);
        assert_true(err.text[0]);
        end(&child);
        SKIP_BECAUSE(err.text);
    }
    assert_int_equal(present(&child), (PAGES - 1) * page);
    /* Many ranges, a hole that is not mapped among them: what can be done is. */
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    struct iovec ranges[3] = { { child.at, 256 * page }, { (void *)page, page }, { child.at + 256 * page, 256 * page } };
    ssize_t done = uma_page_out(child.pidfd, ranges, 3, &err);
    assert_true(done >= (ssize_t)(PAGES * page));
    uint64_t left = present(&child);
    assert_true(left <= 16 * page); /* some may be on their way to a list of the kernel's */
    assert_true(intact(&child));
    end(&child);
    assert_true(uma_page_out_allowed(child.pid, &err) == -ESRCH);
}

static void test_without_the_right(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    struct child child = begin();
    if (geteuid() != 0) {
        end(&child);
        SKIP_BECAUSE("only root can give a right up");
    }
    pid_t other = fork();
    if (other == 0) {
        struct uma_error err = { 0 };
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
            _exit(77);
        struct iovec range = { child.at, page };
        int r = uma_page_out_allowed(child.pid, &err);
        bool said = strstr(err.text, "ptrace") != NULL;
        _exit(r == -EACCES && said && uma_page_out(child.pidfd, &range, 1, &err) == -EACCES ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
    end(&child);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_leave_and_copies_stay),
        cmocka_unit_test(test_without_the_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
