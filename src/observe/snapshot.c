/* SPDX-License-Identifier: MIT */
/* The life of a snapshot, and the words for what its fields hold. */
#include "base/arena.h"
#include "base/cleanup.h"
#include "observe/snapshot_fields.h"

#include <errno.h>
#include <string.h>

/*
 * The most that one reading may hold. A document of 256 MiB (the limit of uma_snapshot_parse) is at most that much text plus the
 * structures around it, and 131,072 processes with ordinary command lines take about 200 MiB. A reader that meets the limit keeps what it
 * has and says so in its source.
 */
enum { SNAPSHOT_ARENA_MAX = 512 * 1024 * 1024 };

int uma_snapshot_init(struct uma_snapshot *ret_snapshot) {
    struct uma_arena *arena = uma_arena_new(SNAPSHOT_ARENA_MAX);
    if (!arena)
        return -ENOMEM;
    *ret_snapshot = (struct uma_snapshot){ .arena = arena };
    return 0;
}

void uma_snapshot_reset(struct uma_snapshot *snapshot) {
    struct uma_arena *arena = snapshot->arena;
    uma_arena_reset(arena);
    *snapshot = (struct uma_snapshot){ .arena = arena };
}

void uma_snapshot_done(struct uma_snapshot *snapshot) {
    (void)uma_arena_free(snapshot->arena);
    *snapshot = (struct uma_snapshot){ 0 };
}

static const char *word(const char *const *words, size_t n, unsigned i) {
    return i < n ? words[i] : "unknown";
}

const char *uma_validity_name(enum uma_validity validity) {
    static const char *const names[UMA_VALIDITY_MAX] = {
        [UMA_UNKNOWN] = "unknown",
        [UMA_KNOWN] = "known",
        [UMA_STALE] = "stale",
        [UMA_ABSENT] = "absent",
        [UMA_UNLIMITED] = "unlimited",
        [UMA_DENIED] = "not permitted",
        [UMA_UNSUPPORTED] = "not supported",
        [UMA_MALFORMED] = "malformed",
        [UMA_FAILED] = "failed",
    };
    return word(names, ELEMENTS(names), (unsigned)validity);
}

const char *uma_platform_text(enum uma_platform_name name) {
    return word(uma_platform_words, ELEMENTS(uma_platform_words), (unsigned)name);
}

const char *uma_throttle_name(enum uma_throttle throttle) {
    static const char *const names[UMA_THROTTLE_MAX] = {
        [UMA_THROTTLE_SW_POWER_CAP] = "sw_power_cap",     [UMA_THROTTLE_SYNC_BOOST] = "sync_boost",
        [UMA_THROTTLE_SW_THERMAL] = "sw_thermal",         [UMA_THROTTLE_HW_THERMAL] = "hw_thermal",
        [UMA_THROTTLE_HW_POWER_BRAKE] = "hw_power_brake",
    };
    return word(names, ELEMENTS(names), (unsigned)throttle);
}
