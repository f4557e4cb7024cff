/* SPDX-License-Identifier: MIT */
/*
 * advise_parts.h - what the files of rules share: the readings, a list to add to, and words for numbers. Each file is one group of settings; each rule
 * adds at most one piece of advice per thing it is about, and every piece says what was read, whatever the verdict. Pure; the list is bounded.
 */
#pragma once

#include "account/values.h"
#include "cache/advise.h"

struct uma_advise_site {
    const struct uma_tuning *tuning;
    const struct uma_snapshot *snapshot;
    struct uma_arena *arena;
    struct uma_advice_list list;
    bool failed;          /* out of memory */
    struct uma_u64 total; /* MemTotal */
    struct uma_u64 page;  /* bytes */
    bool unified;         /* not known to have memory of the GPU's own */
    bool settings;        /* there are some: one that is absent then is one that this kernel does not have */
};

/* A new piece, verdict ok; never NULL (past the limit it is a scratch one that is not kept). Strings are kept as they are. */
struct uma_advice *uma_advise_add(struct uma_advise_site *site, const char *id, const char *subject);
/*
 * One about a number that may be unknown: then its verdict says so and the result is NULL; nothing is added for a setting that this kernel does not have.
 * `path` below the root.
 */
struct uma_advice *uma_advise_number(struct uma_advise_site *site, const char *id, const char *path, struct uma_u64 value);
/* `recommended` for advice->path, and the command that sets it. */
void uma_advise_set(struct uma_advise_site *site, struct uma_advice *advice, enum uma_verdict verdict, const char *recommended);
/* In the arena; "" when out of memory. */
const char *uma_advise_text(struct uma_advise_site *site, const char *format, ...) UMA_PRINTF(2, 3);
const char *uma_advise_bytes(struct uma_advise_site *site, uint64_t bytes);

#define UMA_ADVISE_EVIDENCE(advice, array)                                                                                                 \
    do {                                                                                                                                   \
        (advice)->evidence = (array);                                                                                                      \
        (advice)->n_evidence = ELEMENTS(array);                                                                                            \
    } while (0)

void uma_advise_free_memory(struct uma_advise_site *site); /* advise_memory.c: watermarks, compaction, huge pages, overcommit */
void uma_advise_huge_pages(struct uma_advise_site *site);  /* advise_huge_pages.c */
void uma_advise_disks(struct uma_advise_site *site);       /* advise_disks.c: writing back, reading ahead */
void uma_advise_swap(struct uma_advise_site *site);        /* advise_swap.c */
void uma_advise_driver(struct uma_advise_site *site);      /* advise_driver.c: driver, command line, limits */
void uma_advise_loaders(struct uma_advise_site *site);     /* advise_loaders.c: flags of what runs */
