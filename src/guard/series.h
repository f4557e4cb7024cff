/* SPDX-License-Identifier: MIT */
/*
 * series.h - a history of a machine as text, for the decision to be run over it: measured by somebody else, or made by hand. CSV: lines that begin with # are comments; the first other line names the columns, with commas between them; then
 * a row for each reading. Names and numbers are bounded, so that nothing in a file makes a value that no machine has.
 *
 *   seconds                       of the reading, with a fraction; each later than the one before (needed)
 *   total, available              bytes (needed); free (available, where it is not there), anon, shmem, cache, dirty, swap_total, swap_free, per_cpu, gpu
 *   allocstall, compact_stall, compact_fail, pgscan_direct, pgsteal_direct, pswpin, pswpout, refault_file    counters of /proc/vmstat
 *   psi_some, psi_full            seconds waited since the beginning
 *   refusals                      of the driver, since the beginning
 *   gap                           1: the reading before is not its neighbour
 *   NAME.anon, NAME.shmem, NAME.swap, NAME.gpu    of a process of that name, whose tree it is: at most 16 of them
 *                               (anon, shmem and gpu of the machine are theirs together where no column says so)
 *
 * A size is a number and B, KiB, MiB or GiB, with or without a fraction; where the number stands alone it is that of the column: `available` are bytes, `available_MiB` MiB. An empty field is what it was in the row before (in the first 0), but a process that is
 * not there: its fields are all "-".
 */
#pragma once

#include "base/error.h"
#include "guard/reading.h"

/* Calls `each` for every row, with the time since the first in place of the real time; stops when it returns non-zero, and returns that. -errno with a message that names the line. */
int uma_guard_series_parse(const char *text, size_t length, const char *name,
                           int (*each)(void *userdata, const struct uma_guard_view *view, int64_t real_time), void *userdata,
                           struct uma_error *err);
/* The same of a file of at most 64 MiB. */
int uma_guard_series_read(const char *path, int (*each)(void *userdata, const struct uma_guard_view *view, int64_t real_time),
                          void *userdata, struct uma_error *err);
