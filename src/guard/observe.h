/* SPDX-License-Identifier: MIT */
/*
 * observe.h - one reading of the machine, taken from files that are kept open and read with pread(2) into a buffer that is there from the start: no allocation, no open, no lock. A file that
 * fails is unknown in this reading and opened anew, at most once a second. `prefix`: "" for this machine, a folder in tests. Not thread-safe.
 */
#pragma once

#include "guard/reading.h"

enum { UMA_GUARD_OBSERVE_BUFFER = 65536 }; /* /proc/zoneinfo of a machine with 20 processors has about 30 KB; what is longer is unknown */

struct uma_guard_observer {
    const char *prefix;
    int meminfo, vmstat, pressure, zoneinfo, buddyinfo; /* -1: not open */
    int64_t tried;                                      /* when opening was last tried */
    int64_t asleep;     /* CLOCK_BOOTTIME less CLOCK_MONOTONIC at the last reading: it grows where the machine slept */
    uint64_t page_size; /* of this machine */
    bool before;        /* the last reading knew /proc/meminfo */
    char buffer[UMA_GUARD_OBSERVE_BUFFER];
};

/*
 * What is read, because each file costs time (meminfo 3.3, pressure 2.1, vmstat 10.2, zoneinfo 11.9 us a read): FAR: meminfo and pressure; NEAR: and vmstat, whose differences say who waits, and
 * zoneinfo, whose lists are part of the headroom; ALL: and buddyinfo.
 */
enum uma_guard_look { UMA_GUARD_LOOK_FAR, UMA_GUARD_LOOK_NEAR, UMA_GUARD_LOOK_ALL };

void uma_guard_observer_open(struct uma_guard_observer *observer, const char *prefix);
void uma_guard_observer_close(struct uma_guard_observer *observer);
/*
 * 0; -errno: not even /proc/meminfo could be read (ret_reading has its times and knows nothing). `gap` is set in the first reading, after one that failed, and where the machine slept in between; a stop
 * of the guard itself is for the caller to see. What comes from elsewhere (gpu_bytes, driver_refusals) is the caller's to fill.
 */
int uma_guard_observe(struct uma_guard_observer *observer, enum uma_guard_look look, struct uma_guard_reading *ret_reading);

/* The parsers, pure: true when the text was one. At most `n` bytes are looked at; what is not there is not known. */
bool uma_guard_meminfo_parse(const char *text, size_t n, struct uma_guard_reading *reading);
bool uma_guard_vmstat_parse(const char *text, size_t n, struct uma_guard_reading *reading);
bool uma_guard_pressure_parse(const char *text, size_t n, struct uma_guard_reading *reading);
bool uma_guard_zoneinfo_parse(const char *text, size_t n, uint64_t page_size, struct uma_guard_reading *reading);
bool uma_guard_buddyinfo_parse(const char *text, size_t n, struct uma_guard_reading *reading);
