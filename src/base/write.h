/* SPDX-License-Identifier: MIT */
/*
 * write.h - all of a text into a descriptor, whatever kind of file that is: interrupted and short writes go on, a full pipe that somebody
 * made non-blocking is waited for. It never raises a signal by itself: with SIGPIPE ignored a closed pipe is -EPIPE.
 */
#pragma once

#include <stddef.h>

/* 0, or -errno: part of it may have been written. */
int uma_write_all(int fd, const char *data, size_t length);
