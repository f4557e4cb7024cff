/* SPDX-License-Identifier: MIT */
/*
 * problems.h - what is wrong, each with what was measured and one command that helps, or "see: " and one that looks closer. A normal state is no problem: a
 * thin steady state of a server, page cache after a download, SW_POWER_CAP at about 90 W, counters that only say something was once so.
 * Problems of a GPU are those of a GPU on the pool; a machine without one has none of them. Texts hold names as the machine has them:
 * whoever prints them escapes. Pure.
 */
#pragma once

#include "account/gpu_share.h"
#include "account/holders.h"
#include "base/arena.h"
#include "uma.h"

/* Whoever shows this one reads which files hold the page cache first, where he can: uma_observer_read_page_cache(). */
#define UMA_PROBLEM_CACHE_STARVES_CUDA "cache-starves-cuda"

/* What the checks look at, and where they put what they find. */
struct uma_problem_site {
    const struct uma_snapshot *snapshot;
    const struct uma_gpu_share *share;
    const struct uma_process_index *index;
    struct uma_account *account; /* everything but the problems is filled */
    struct uma_arena *arena;
    bool failed; /* out of memory */
};

/* Fills account->problems, most severe first. 0 or -ENOMEM. */
int uma_problems_build(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, const struct uma_process_index *index,
                       struct uma_account *account, struct uma_arena *arena);

/* The checks by theme. */
void uma_problems_memory(struct uma_problem_site *site);
void uma_problems_cache(struct uma_problem_site *site); /* one of memory, which calls it in its place */
void uma_problems_gpu(struct uma_problem_site *site);
void uma_problems_jobs(struct uma_problem_site *site);

/* `evidence` is a format; all strings end up in the account's arena or are static. A 33rd problem is dropped. */
void uma_problem_add(struct uma_problem_site *site, const char *id, enum uma_severity severity, const char *summary, const char *remedy,
                     const char *evidence, ...) UMA_PRINTF(6, 7);
/* Texts for evidence and remedies, in the arena; never NULL. Independent of the locale. */
const char *uma_problem_bytes(struct uma_problem_site *site, uint64_t bytes);                  /* "3.3 GiB" */
const char *uma_problem_decimal(struct uma_problem_site *site, double value, unsigned digits); /* "19.5" */
const char *uma_problem_text(struct uma_problem_site *site, const char *format, ...) UMA_PRINTF(2, 3);
/* Does a GPU draw on this machine's pool? By the driver's answer, or by what the platform is when the driver gives none. */
bool uma_problem_unified(const struct uma_problem_site *site);
/* A PSI ratio when it is known, else 0. */
double uma_problem_pressure(struct uma_f64 ratio);
