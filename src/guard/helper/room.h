/* SPDX-License-Identifier: MIT */
/*
 * room.h - making room when the guard asks: clean weight files out of the page cache, and compaction where blocks are short. A thread of its own; the newest request counts, and one that came while another
 * was worked on is done after it. Each leaves a receipt in the log.
 */
#pragma once

#include "base/error.h"

#include <stdint.h>

struct uma_helper_room;
int uma_helper_room_start(struct uma_helper_room **ret_room, struct uma_error *err);
/* `order`: blocks wanted, -1: none. Never waits. */
void uma_helper_room_ask(struct uma_helper_room *room, uint64_t bytes, int order);
struct uma_helper_room *uma_helper_room_stop(struct uma_helper_room *room);
