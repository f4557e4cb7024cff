/* SPDX-License-Identifier: MIT */
/*
 * state_file.h - what the guard has under way, kept in RUN_FOLDER/state so that one that was killed goes on when it is started again: which trees it stopped (nobody else would let them go), and who is to end. One file of two places that are written in turn,
 * each with a number and a checksum: whatever moment the guard is killed in, one of them is whole. The file has its full size from the start, so that writing takes no memory and no descriptor. Not synced: it is
 * of this boot, which a lost machine does not outlive.
 */
#pragma once

#include "guard/act.h"
#include "guard/decide.h"

struct uma_guard_state_file {
    int fd; /* -1: nothing is kept */
    uint64_t number;
    uint8_t boot[16];
    uint64_t failed; /* writes */
};

/* What is in one place of the file, before its list of held processes. */
struct uma_guard_state_head {
    uint64_t magic, size, number, checksum; /* of all behind it, FNV-1a */
    uint8_t boot[16];
    int64_t time; /* CLOCK_MONOTONIC */
    uint32_t n_stopped, n_ended, dry_run, reserved_;
    struct uma_guard_state state;
};

/* Opens or makes it, for the guard's user alone, and holds it against other guards. -EWOULDBLOCK: one of them has it. -errno: nothing is kept, and writing does nothing. */
int uma_guard_state_open(struct uma_guard_state_file *file, const char *path);
void uma_guard_state_close(struct uma_guard_state_file *file);
/* The newest whole one of this boot, if it was not a dry run's: true, and both are filled. */
bool uma_guard_state_read(struct uma_guard_state_file *file, struct uma_guard_state *ret_state, struct uma_guard_actor *actor);
/* 0; -errno (counted). */
int uma_guard_state_write(struct uma_guard_state_file *file, const struct uma_guard_state *state, const struct uma_guard_actor *actor,
                          int64_t now);

/* Is this the head of a place of `available` bytes in all? Its checksum is looked at by the reader. Pure. */
bool uma_guard_state_head_fine(const struct uma_guard_state_head *head, size_t available);
