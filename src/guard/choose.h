/* SPDX-License-Identifier: MIT */
/*
 * choose.h - who is it? The trees of processes with what they hold and what they grew by during the fall, who of them explains it, and who would be the victim. Pure.
 *
 * Growth decides over size: a large server that stands still is neither stopped nor ended for a small program that grows. What a tree seems to have grown by is never more than what the machine as a whole
 * grew by of that kind: pages that a fork shares, and shared memory that many processes touch, are counted once per process by the kernel, and take nothing.
 */
#pragma once

#include "guard/danger.h"

enum { UMA_GUARD_TREES = 512 }; /* that are looked at; the largest and the fastest growing are kept where there are more */

struct uma_guard_tree {
    int32_t root;     /* index in the table */
    int32_t envelope; /* -1: none */
    uint32_t
        flags; /* of its processes together: protected, no brake, avoid, prefer, warns, holds a GPU if one of them does; stopped, exiting if all of them are */
    uint32_t n; /* processes */
    uint64_t gpu, anon, shmem, swap;
    int64_t growth;     /* bytes, over the fall */
    int64_t gpu_growth; /* of them on the GPU */
    double gpu_rate;    /* bytes per second between the last two answers of the driver */
    uint64_t youngest;  /* start of its root */
    bool gpu_known;     /* of one of them at least */
    bool gpu_new;       /* the last answer is the first that one of them is in */
    bool seen;          /* it was there before the fall, so that the growth is a difference */
    bool culprit;       /* explains the fall, or a good part of it */
    bool expected;      /* grows inside what it declared */
    double score;       /* as a victim */
};

struct uma_guard_fall {
    bool measured; /* there is a table from before it */
    bool guess;    /* the driver took the memory, and its last answer is too old to say for whom: the culprit is only the likeliest */
    bool expected; /* all who explain it are inside what they declared */
    int64_t bytes, span_ns;
    int64_t anon, shmem,
        other; /* its parts: private memory with what was swapped, shared memory, and what is neither (the driver's, the kernel's) */
    int64_t explained, on_gpu; /* by the growth of trees; of that on the GPU, as of the driver's last answer */
    uint32_t n_culprits;
};

/* The trees of a table. At most UMA_GUARD_TREES; the number there are. */
size_t uma_guard_trees(const struct uma_guard_view *view, struct uma_guard_tree *ret_trees);
/* Keeps the table in the state's past, when it is a new one. */
void uma_guard_past_add(struct uma_guard_state *state, const struct uma_guard_view *view, uint64_t headroom,
                        const struct uma_guard_tree *trees, size_t n);
/* Fills growth, culprit and expected of the trees; the trees that explain the fall come first, the largest part first. */
void uma_guard_explain(const struct uma_guard_state *state, const struct uma_guard_view *view, const struct uma_guard_danger *danger,
                       struct uma_guard_tree *trees, size_t n, struct uma_guard_fall *ret_fall);
/* Index of the tree to end; -1: nobody may be, or would help. `anybody`: where nobody grew and nobody is suspected, the largest. Fills their scores. */
int uma_guard_choose_victim(const struct uma_guard_state *state, const struct uma_guard_view *view, const struct uma_guard_danger *danger,
                            const struct uma_guard_fall *fall, bool anybody, struct uma_guard_tree *trees, size_t n);
/* The best by score, for the trail. */
void uma_guard_candidates(const struct uma_guard_view *view, const struct uma_guard_fall *fall, const struct uma_guard_tree *trees,
                          size_t n, struct uma_guard_decision *decision);
static inline uint64_t uma_guard_tree_held(const struct uma_guard_tree *tree) {
    return tree->gpu + tree->anon + tree->shmem + tree->swap;
}

/* Index of the tree that most likely takes what the driver's last answer does not show, and that neither stands nor has one of the flags in `spared`; -1: none. `speed`: bytes per second of the fall. */
int uma_guard_most_suspect(const struct uma_guard_state *state, const struct uma_guard_view *view, const struct uma_guard_tree *trees,
                           size_t n, double speed, uint32_t spared);
