/* SPDX-License-Identifier: MIT */
/*
 * drop_caches.h - what acts on the cache of the whole machine: sync(2), and the two switches vm.drop_caches and vm.compact_memory, which are root's. Dirty pages and
 * pages in use stay.
 */
#pragma once

#include "base/error.h"

/* What is written to /proc/sys/vm/drop_caches (Documentation/admin-guide/sysctl/vm.rst); both together: UMA_DROP_PAGE_CACHE | UMA_DROP_SLAB. */
enum uma_drop { UMA_DROP_PAGE_CACHE = 1, UMA_DROP_SLAB = 2 };

/* `prefix`: "" for this machine, a folder in tests. -EACCES/-EPERM says that root is needed and why; -EROFS that a container shows it read-only; -EINVAL neither of
 * the two is asked for. The call returns when the kernel is done, which with much cache takes seconds. */
int uma_drop_caches(const char *prefix, enum uma_drop what, struct uma_error *err);
int uma_compact_memory(const char *prefix, struct uma_error *err);
/* Write out what is dirty, of all file systems, and wait: sync(2), which tells no errors. Nobody's right is needed. */
void uma_write_out_all(void);
