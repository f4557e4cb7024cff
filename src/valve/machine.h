/* SPDX-License-Identifier: MIT */
/*
 * machine.h - the three figures of /proc/meminfo that the valve decides by, read through a file that stays open (3 to 8 us a time). No allocation. The program may close the file or put another
 * in its place, as daemons do: it is looked at each time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct uma_valve_machine {
    int fd;         /* -1: not open */
    uint64_t inode; /* of it */
};

struct uma_valve_reading {
    uint64_t total, free, available, cache; /* bytes; cache: file pages, Active(file) + Inactive(file) */
};

/* False: /proc/meminfo cannot be read, or lacks one of them (MemAvailable: before 3.14). */
bool uma_valve_machine_read(struct uma_valve_machine *machine, struct uma_valve_reading *ret_reading);
/* The text of it, for tests. */
bool uma_valve_machine_parse(const char *text, struct uma_valve_reading *ret_reading);
