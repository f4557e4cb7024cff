/* SPDX-License-Identifier: MIT */
#include "guard/observe.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* A file that could not be opened or read is tried again so often: opening costs memory, and a machine that is short of it is asked for as little as may be. */
#define TRY_EVERY_NS UMA_SECOND_NS
/* CLOCK_BOOTTIME goes on while the machine sleeps and CLOCK_MONOTONIC does not. The two are read within microseconds; a difference that grew by so much was a sleep. */
#define SLEPT_NS (UMA_SECOND_NS / 10)

/* ---- the files --------------------------------------------------------------------------------------------------- */

static void open_one(const struct uma_guard_observer *observer, const char *path, int *fd) {
    char whole[512];
    if (*fd >= 0)
        return;
    int n = snprintf(whole, sizeof(whole), "%s%s", observer->prefix, path);
    if (n > 0 && (size_t)n < sizeof(whole))
        *fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static void open_all(struct uma_guard_observer *observer, int64_t now) {
    observer->tried = now;
    open_one(observer, "/proc/meminfo", &observer->meminfo);
    open_one(observer, "/proc/vmstat", &observer->vmstat);
    open_one(observer, "/proc/pressure/memory", &observer->pressure);
    open_one(observer, "/proc/zoneinfo", &observer->zoneinfo);
    open_one(observer, "/proc/buddyinfo", &observer->buddyinfo);
}

static bool any_closed(const struct uma_guard_observer *observer) {
    return observer->meminfo < 0 || observer->vmstat < 0 || observer->pressure < 0 || observer->zoneinfo < 0 || observer->buddyinfo < 0;
}

static void close_one(int *fd) {
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/*
 * The whole file from its beginning. The kernel gives out long files by the page, so that it is read until nothing more comes. 0: it failed, or is longer than the buffer; the descriptor is closed, because
 * one that fails is of a machine's folder that was mounted over, or of a test, and only opening it again helps.
 */
static size_t read_whole(struct uma_guard_observer *observer, int *fd) {
    size_t length = 0;
    while (*fd >= 0 && length < sizeof(observer->buffer)) {
        ssize_t n = pread(*fd, observer->buffer + length, sizeof(observer->buffer) - length, (off_t)length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        if (n == 0 && length > 0)
            return length;
        if (n == 0)
            break;
        length += (size_t)n;
    }
    close_one(fd);
    return 0;
}

/* ---- a reading --------------------------------------------------------------------------------------------------- */

static void read_rest(struct uma_guard_observer *observer, enum uma_guard_look look, struct uma_guard_reading *reading) {
    size_t n = read_whole(observer, &observer->pressure);
    if (n)
        (void)uma_guard_pressure_parse(observer->buffer, n, reading);
    n = look >= UMA_GUARD_LOOK_NEAR ? read_whole(observer, &observer->vmstat) : 0;
    if (n)
        (void)uma_guard_vmstat_parse(observer->buffer, n, reading);
    n = look >= UMA_GUARD_LOOK_NEAR ? read_whole(observer, &observer->zoneinfo) : 0;
    if (n)
        (void)uma_guard_zoneinfo_parse(observer->buffer, n, observer->page_size, reading);
    n = look >= UMA_GUARD_LOOK_ALL ? read_whole(observer, &observer->buddyinfo) : 0;
    if (n)
        (void)uma_guard_buddyinfo_parse(observer->buffer, n, reading);
}

static bool slept(const struct uma_guard_observer *observer, const struct uma_guard_reading *reading) {
    int64_t grew = reading->boot - reading->time - observer->asleep;
    return grew > SLEPT_NS || grew < -SLEPT_NS;
}

int uma_guard_observe(struct uma_guard_observer *observer, enum uma_guard_look look, struct uma_guard_reading *ret_reading) {
    struct uma_guard_reading reading = { .time = uma_monotonic_ns(), .boot = uma_boottime_ns() };
    if (any_closed(observer) && (reading.time - observer->tried >= TRY_EVERY_NS || reading.time < observer->tried))
        open_all(observer, reading.time);
    size_t n = read_whole(observer, &observer->meminfo);
    bool read = n > 0 && uma_guard_meminfo_parse(observer->buffer, n, &reading);
    reading.gap = !read || !observer->before || slept(observer, &reading);
    observer->before = read;
    observer->asleep = reading.boot - reading.time;
    if (read)
        read_rest(observer, look, &reading);
    *ret_reading = reading;
    return read ? 0 : n > 0 ? -EBADMSG : -EIO;
}

void uma_guard_observer_open(struct uma_guard_observer *observer, const char *prefix) {
    long page = sysconf(_SC_PAGESIZE);
    observer->prefix = prefix ? prefix : "";
    observer->meminfo = observer->vmstat = observer->pressure = observer->zoneinfo = observer->buddyinfo = -1;
    observer->before = false;
    observer->asleep = 0;
    observer->page_size = page > 0 ? (uint64_t)page : 4096;
    open_all(observer, uma_monotonic_ns());
}

void uma_guard_observer_close(struct uma_guard_observer *observer) {
    close_one(&observer->meminfo);
    close_one(&observer->vmstat);
    close_one(&observer->pressure);
    close_one(&observer->zoneinfo);
    close_one(&observer->buddyinfo);
}
