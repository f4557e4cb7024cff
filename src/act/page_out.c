/* SPDX-License-Identifier: MIT */
#include "act/page_out.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440 /* the same number on every architecture since 5.10 */
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

static ssize_t call(int pidfd, const struct iovec *ranges, size_t n) {
    return syscall(SYS_process_madvise, pidfd, ranges, n, MADV_PAGEOUT, 0u);
}

static int refused(int code, struct uma_error *err) {
    switch (code) {
    case EPERM:
        return uma_error_text(err, code, "paging out mapped pages of another process needs CAP_SYS_NICE");
    case EACCES:
        return uma_error_text(err, code, "this user may not look into the process (ptrace read access)");
    case ENOSYS:
        return uma_error_text(err, code, "the kernel has no process_madvise (5.10), or a filter of system calls hides it");
    default:
        return uma_error_set(err, code, "process_madvise(MADV_PAGEOUT)");
    }
}

int uma_page_out_allowed(pid_t pid, struct uma_error *err) {
    _cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0u);
    if (pidfd < 0) /* 5.3 */
        return errno == ENOSYS || errno == EPERM ? refused(ENOSYS, err) : uma_error_set(err, errno, "process %d", (int)pid);
    /* No ranges: every right is checked and nothing is done (mm/madvise.c, process_madvise). */
    struct iovec none = { 0 };
    if (call(pidfd, &none, 0) < 0)
        return refused(errno, err);
    return 0;
}

/* One range that failed does not end the others: locked ones are EINVAL, holes are ENOMEM. */
static ssize_t one_by_one(int pidfd, const struct iovec *ranges, size_t n, struct uma_error *err) {
    ssize_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        ssize_t done = call(pidfd, &ranges[i], 1);
        if (done >= 0)
            sum += done;
        else if (errno != EINVAL && errno != ENOMEM && errno != EINTR && errno != EAGAIN)
            return refused(errno, err);
    }
    return sum;
}

ssize_t uma_page_out(int pidfd, const struct iovec *ranges, size_t n, struct uma_error *err) {
    ssize_t sum = 0;
    while (n) {
        size_t now = MIN_OF(n, (size_t)IOV_MAX);
        size_t wanted = 0;
        for (size_t i = 0; i < now; i++)
            wanted += ranges[i].iov_len;
        ssize_t done = call(pidfd, ranges, now);
        if (done < 0 ||
            (size_t)done < wanted) /* it stops at the first range that fails, and tells the error only when that was the first */
            done = one_by_one(pidfd, ranges, now, err);
        if (done < 0)
            return done;
        sum += done;
        ranges += now;
        n -= now;
    }
    return sum;
}
