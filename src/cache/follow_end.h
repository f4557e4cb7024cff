/* SPDX-License-Identifier: MIT */
/*
 * follow_end.h - is loading over? A function of how far each weight file was read, of whether it is still open or mapped, and of when anything last moved.
 *
 * A file is finished when 99 % of it were read (padding and tensors that nobody asks for remain), or when it was closed and unmapped again after at
 * least 2 % (a rank of 16 reads a sixteenth), or when it is used in place. A file of which less was read and that was closed was only
 * looked into: engines read all headers first, and seconds or minutes later the tensors. Loading is over when some file is finished, none is in between, no
 * shard of a numbered set is missing, and for 2 s nothing moved and no file was new (between two shards an engine
 * converts for tenths of a second). What does not get there is given up as idle after 30 s without movement: one shard of 5 GB off a slow network file system.
 */
#pragma once

#include "cache/follow_decide.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UMA_FOLLOW_SETTLED_NS (INT64_C(2) * 1000000000)
#define UMA_FOLLOW_IDLE_NS (INT64_C(30) * 1000000000)

enum uma_follow_progress { UMA_FOLLOW_GOES_ON, UMA_FOLLOW_IS_LOADED, UMA_FOLLOW_IS_IDLE, UMA_FOLLOW_IS_IN_PLACE };

struct uma_follow_file_name {
    const struct uma_follow_file *file;
    const char *name; /* path or last part of it */
};
/* `last_ns`: when a file was last new; the files tell when they last grew. */
enum uma_follow_progress uma_follow_judge(const struct uma_follow_file_name *files, size_t n, int64_t last_ns, int64_t now_ns);

/* "model-00002-of-00017.safetensors" is 2 of 17. False when the name says no such thing. */
bool uma_follow_shard_parse(const char *name, uint32_t *ret_number, uint32_t *ret_of);
