/* SPDX-License-Identifier: MIT */
/* names.c - the words of the contract for the enumerations of an account; those of a reading are in observe/snapshot.c. A value outside its
 * enumeration has the name "unknown". */
#include "base/cleanup.h"
#include "uma.h"

static const char *name_of(const char *const *names, size_t n, unsigned value) {
    return value < n && names[value] ? names[value] : "unknown";
}

const char *uma_ledger_kind_name(enum uma_ledger_kind kind) {
    static const char *const names[UMA_LEDGER_KINDS] = { [UMA_LEDGER_FREE] = "free",
                                                         [UMA_LEDGER_FREE_PERCPU_LISTS] = "free_percpu_lists",
                                                         [UMA_LEDGER_CACHE_CLEAN] = "cache_clean",
                                                         [UMA_LEDGER_CACHE_DIRTY] = "cache_dirty",
                                                         [UMA_LEDGER_CACHE_MAPPED] = "cache_mapped",
                                                         [UMA_LEDGER_SHMEM] = "shmem",
                                                         [UMA_LEDGER_ANON] = "anon",
                                                         [UMA_LEDGER_SLAB_RECLAIMABLE] = "slab_reclaimable",
                                                         [UMA_LEDGER_SLAB] = "slab",
                                                         [UMA_LEDGER_KERNEL] = "kernel",
                                                         [UMA_LEDGER_HUGETLB] = "hugetlb",
                                                         [UMA_LEDGER_PINNED] = "pinned",
                                                         [UMA_LEDGER_GPU] = "gpu",
                                                         [UMA_LEDGER_DRIVER_POOLS] = "driver_pools",
                                                         [UMA_LEDGER_CMA_LOST] = "cma_lost",
                                                         [UMA_LEDGER_UNEXPLAINED] = "unexplained" };
    return name_of(names, ELEMENTS(names), (unsigned)kind);
}

const char *uma_severity_name(enum uma_severity severity) {
    static const char *const names[] = { [UMA_INFO] = "info", [UMA_WARNING] = "warning", [UMA_CRITICAL] = "critical" };
    return name_of(names, ELEMENTS(names), (unsigned)severity);
}

const char *uma_role_name(enum uma_role role) {
    return role == UMA_ROLE_SERVE ? "serve" : role == UMA_ROLE_TRAIN ? "train" : NULL;
}
