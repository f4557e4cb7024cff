/* SPDX-License-Identifier: MIT */
/*
 * gpu_probe.h - the client's side of umactl-probe. It starts the probe, asks it, waits no longer than the deadline, kills one that does not
 * answer and starts the next only after a pause, so that a hanging driver costs one deadline per pause and not one per reading. It never
 * waits for a process to die: one that is stuck in the driver (state D) does not.
 *
 * The probe is a child process: a host program that waits for any child (waitpid(-1)) may see its end, which does no harm here. It dies
 * with the thread that started it (the kernel's rule for PR_SET_PDEATHSIG); the next question then starts another.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "uma.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uma_probe;

/* `library`: what the probe shall load, NULL: the loader's search. `deadline` in seconds, 0: UMA_PROBE_DEADLINE. `keep`: one probe for many
 * questions. Nothing is started. NULL: out of memory. */
struct uma_probe *uma_probe_new(const char *library, double deadline, bool keep);
struct uma_probe *uma_probe_free(struct uma_probe *probe);

/* Seconds that a reading may wait: a healthy answer takes milliseconds, a person waits two seconds gladly. */
#define UMA_PROBE_DEADLINE 2.0
/* Pauses in seconds before a probe that hung or died is started again: doubled each time, from the first to the last, back to the first
 * after an answer. A driver that blocks was seen to block for 8 to 12 minutes, so a minute more or less is not missed. */
#define UMA_PROBE_PAUSE_FIRST 1.0
#define UMA_PROBE_PAUSE_LAST 60.0
/* While there is no library or no driver, a kept probe is asked only this often, in seconds: drivers are not installed by the second. */
#define UMA_PROBE_ABSENT_PAUSE 10.0

/* Ask, starting the probe when needed. Does nothing while an earlier question is open or a pause lasts. Never blocks. */
void uma_probe_ask(struct uma_probe *probe);
/*
 * Wait for the answer until the deadline, counted from uma_probe_ask(), and fill *ret_gpus (all of it, strings and lists in the arena).
 * Past it: the last good answer with every known value marked UMA_STALE, its source's time unchanged, `hung` set; or, when there never was
 * one, an empty list and UMA_FAILED. `detail` says which.
 */
void uma_probe_collect(struct uma_probe *probe, struct uma_arena *arena, struct uma_gpus *ret_gpus);

/* Process id of the running probe, 0: none. For tests. */
int uma_probe_pid(const struct uma_probe *probe);

/*
 * Check an answer (without its header) and turn it into GPUs: counts, lengths, terminators and validities are checked before use, names are
 * made UTF-8, and numbers that physics does not allow become UMA_MALFORMED. Pure. -EPROTO with a reason when it is not an answer.
 * ret_gpus->source says what the probe found: UMA_KNOWN, UMA_ABSENT (no library, no driver), UMA_DENIED or UMA_FAILED with detail; its path
 * is "nvml", its time 0.
 */
int uma_probe_answer_parse(const uint8_t *data, size_t length, struct uma_arena *arena, struct uma_gpus *ret_gpus, struct uma_error *err);
/* Mark all that is known as the last good answer. */
void uma_gpus_make_stale(struct uma_gpus *gpus);
