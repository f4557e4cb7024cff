/* SPDX-License-Identifier: MIT */
/*
 * self_test.h - the whole path from a reading to a signal once at the start, on nobody: so that every file is known to be readable, every page of code and stack has been touched, and what cannot work is said now and not when it is
 * needed. Only then is the process locked into memory.
 */
#pragma once

#include "guard/loop.h"

/* 0; -errno: the path does not work (said): the machine has no guard. */
int uma_guard_self_test(struct uma_guard_loop *loop);
/* Locks what there is and what will be touched, and asks to be run before others. What is not permitted is said, and left. */
void uma_guard_lock(struct uma_guard_loop *loop);
