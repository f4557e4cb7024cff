/* SPDX-License-Identifier: MIT */
/*
 * page_out.h - take pages out of another process's mapping and memory: process_madvise(2) with MADV_PAGEOUT (5.10), the only call that does so from outside. It reclaims; it
 * never loses data: a dirty page is written first, a private copy would go to swap. It takes pages that one process alone maps, from files that the caller
 * owns or may write, and needs CAP_SYS_NICE and the right to ptrace-read the process. MADV_DONTNEED is never used here: in a private
 * writable mapping it would lose what was written.
 */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Can this process page out of `pid` at all? 0; -EPERM: no CAP_SYS_NICE; -EACCES: not to be ptrace-read; -ENOSYS: kernel or seccomp; err says it in words. */
int uma_page_out_allowed(pid_t pid, struct uma_error *err);
/* Ranges of the process behind pidfd. Returns the bytes that the kernel looked at (not what left memory: measure that), or -errno; ranges that are gone or locked are passed over. */
ssize_t uma_page_out(int pidfd, const struct iovec *ranges, size_t n, struct uma_error *err);
