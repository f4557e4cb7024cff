/* SPDX-License-Identifier: MIT */
/*
 * feed.h - who has the GPU's memory, asked of the driver by way of the probe process and written where the guard reads it (guard/gpu_file.h). A thread of its own: a driver that hangs costs this thread a
 * deadline and nobody else anything. While it hangs the last answer stays, and the time of the last question moves on.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct uma_helper_feed;
/* `path`: of the shared file. */
int uma_helper_feed_start(const char *path, struct uma_helper_feed **ret_feed, struct uma_error *err);
/* The machine is near its floor until then (CLOCK_MONOTONIC): ask more often. */
void uma_helper_feed_near(struct uma_helper_feed *feed, int64_t until_ns);
/* Asks the thread to end and removes the file. Waits at most a moment for a driver that hangs. NULL. */
struct uma_helper_feed *uma_helper_feed_stop(struct uma_helper_feed *feed);
