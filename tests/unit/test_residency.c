/* SPDX-License-Identifier: MIT */
/* Linked with --wrap=syscall: what a kernel refuses is played here; what it answers is its own. */
#include "test.h"

#include "folder.h"

#include "observe/files/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

enum { CACHESTAT = 451, FACCESSAT2 = 439, KIB = 1024 };

static int cachestat_code, capget_code, faccessat_code; /* 0: the kernel is asked */
static unsigned cachestat_calls;

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
    cachestat_calls += number == CACHESTAT;
    int code = number == CACHESTAT ? cachestat_code : number == SYS_capget ? capget_code : number == FACCESSAT2 ? faccessat_code : 0;
    if (code != 0) {
        errno = code;
        return -1;
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

static struct folder folder;
static int fd = -1;
static struct stat st;
static uint64_t page;

static int set_up(void **state) {
    (void)state;
    char path[256], block[4096];
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (folder_new(&folder) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/file", folder.path);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    memset(block, 'x', sizeof(block));
    for (int i = 0; i < 256; i++)
        if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
            return -1;
    return write(fd, block, 100) == 100 && fstat(fd, &st) == 0 ? 0 : -1; /* all of it is resident: just written */
}

static int tear_down(void **state) {
    (void)state;
    (void)close(fd);
    folder_done(&folder);
    return 0;
}

static int ask_the_kernel(void **state) {
    (void)state;
    cachestat_code = capget_code = faccessat_code = 0;
    return 0;
}

static struct uma_residency ask(uint64_t offset, uint64_t length) {
    struct uma_residency r;
    uma_residency_read(fd, &st, UMA_FILESYSTEM_LOCAL, offset, length, &r);
    return r;
}

static void expect_resident(uint64_t offset, uint64_t length, uint64_t pages) {
    struct uma_residency r = ask(offset, length);
    assert_int_equal(r.resident.validity, UMA_KNOWN);
    assert_int_equal(r.resident.value, pages * page);
    assert_null(r.why);
}

static void ranges(void) {
    uint64_t all = ((uint64_t)st.st_size + page - 1) / page;
    expect_resident(0, 0, all);
    expect_resident(0, 1, 1);
    expect_resident(page - 1, 2, 2); /* each page that is touched */
    expect_resident(page, page, 1);
    expect_resident(page, 0, all - 1);
    expect_resident(0, UINT64_MAX, all);
    expect_resident(page, UINT64_MAX, all - 1); /* beyond 2^64: to the end */
    expect_resident((uint64_t)st.st_size + page, 0, 0);
    expect_resident((uint64_t)st.st_size + page, 5, 0);
    expect_resident((uint64_t)st.st_size - 1, 100 * page, 1);
}

static bool has_cachestat(void) {
    return ask(0, 0).means == UMA_RESIDENCY_CACHESTAT;
}

static void by_cachestat(void **state) {
    (void)state;
    if (!has_cachestat())
        SKIP_BECAUSE("this kernel has no cachestat(2)");
    ranges();
    struct uma_residency r = ask(0, 0);
    assert_int_equal(r.dirty.validity, UMA_KNOWN);
    assert_int_equal(r.writeback.validity, UMA_KNOWN);
    assert_true(r.dirty.value <= r.resident.value && r.writeback.value <= r.dirty.value);
}

static void fallback(int code) {
    cachestat_code = code;
    ranges();
    struct uma_residency r = ask(0, 0);
    assert_int_equal(r.means, UMA_RESIDENCY_MINCORE);
    assert_int_equal(r.dirty.validity, UMA_UNKNOWN);
    assert_int_equal(r.writeback.validity, UMA_UNKNOWN);
}

static void missing(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    fallback(ENOSYS);
}

/* A filter of system calls answers EPERM too: the file is ours, so that the kernel itself would not. */
static void filtered(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    fallback(EPERM);
}

static void expect_unknown(enum uma_filesystem_kind kind, enum uma_validity validity) {
    struct uma_residency r = { .resident = { 7, UMA_KNOWN } };
    uma_residency_read(fd, &st, kind, 0, 0, &r);
    assert_int_equal(r.resident.validity, validity);
    assert_int_equal(r.resident.value, 0);
    assert_int_equal(r.dirty.validity, validity);
    assert_int_equal(r.means, UMA_RESIDENCY_NONE);
    assert_non_null(r.why);
}

/* mincore(2) would say that all is resident: it is not asked. */
static void not_ours(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    struct stat own = st;
    st.st_uid = geteuid() + 1;
    capget_code = EPERM;
    faccessat_code = EACCES;
    assert_false(uma_residency_mincore_truthful(fd, &st));
    for (cachestat_code = EPERM; cachestat_code; cachestat_code = cachestat_code == EPERM ? ENOSYS : 0)
        expect_unknown(UMA_FILESYSTEM_LOCAL, UMA_DENIED);
    expect_unknown(UMA_FILESYSTEM_OVERLAY, UMA_DENIED);
    faccessat_code = 0; /* writable: believed, but for an overlay's file only through its owner */
    assert_true(uma_residency_mincore_truthful(fd, &st));
    cachestat_code = ENOSYS;
    assert_int_equal(ask(0, 0).means, UMA_RESIDENCY_MINCORE);
    st = own;
    faccessat_code = EACCES;
    assert_true(uma_residency_mincore_truthful(fd, &st));
}

/* cachestat(2) says 0 of any overlay file: it is not asked where that is known. */
static void overlay(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    struct uma_residency r;
    cachestat_calls = 0;
    uma_residency_read(fd, &st, UMA_FILESYSTEM_OVERLAY, 0, 0, &r);
    assert_int_equal(cachestat_calls, 0);
    assert_int_equal(r.means, UMA_RESIDENCY_MINCORE);
    assert_int_equal(r.resident.value, ((uint64_t)st.st_size + page - 1) / page * page);
    assert_int_equal(r.dirty.validity, UMA_UNKNOWN);
}

static void other_answers(void **state) {
    (void)state;
    cachestat_code = EOPNOTSUPP;
    expect_unknown(UMA_FILESYSTEM_MEMORY, UMA_ABSENT); /* hugetlbfs */
    cachestat_code = EIO;
    expect_unknown(UMA_FILESYSTEM_LOCAL, UMA_FAILED);
    struct stat own = st;
    st.st_mode = S_IFDIR;
    expect_unknown(UMA_FILESYSTEM_LOCAL, UMA_ABSENT);
    st = own;
}

static void empty(void **state) {
    (void)state;
    struct stat own = st;
    st.st_size = 0;
    cachestat_code = EPERM;
    struct uma_residency r = ask(0, 0);
    assert_int_equal(r.resident.validity, UMA_KNOWN);
    assert_int_equal(r.resident.value, 0);
    assert_int_equal(r.dirty.validity, UMA_KNOWN);
    st = own;
}

/* Page by page through 8 EiB would take centuries. */
static void enormous(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    struct stat own = st;
    st.st_size = INT64_MAX;
    cachestat_code = ENOSYS;
    expect_unknown(UMA_FILESYSTEM_LOCAL, UMA_UNKNOWN);
    expect_resident(0, 64 * KIB, 64 * KIB / page); /* a part of it is fine */
    st = own;
}

/* A file that was shortened since it was looked at: no SIGBUS, and what is gone is not there. */
static void shortened(void **state) {
    SKIP_UNDER_EMULATION();
    (void)state;
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    for (int i = 0; i < 2; i++) {
        expect_resident(0, 0, 1);
        cachestat_code = ENOSYS;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(by_cachestat, ask_the_kernel), cmocka_unit_test_setup(missing, ask_the_kernel),
        cmocka_unit_test_setup(filtered, ask_the_kernel),     cmocka_unit_test_setup(not_ours, ask_the_kernel),
        cmocka_unit_test_setup(overlay, ask_the_kernel),      cmocka_unit_test_setup(other_answers, ask_the_kernel),
        cmocka_unit_test_setup(empty, ask_the_kernel),        cmocka_unit_test_setup(enormous, ask_the_kernel),
        cmocka_unit_test_setup(shortened, ask_the_kernel),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
