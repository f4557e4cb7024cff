/* SPDX-License-Identifier: MIT */
/* uma_values.h - what every public header speaks in: errors, and values that may be unknown. Included by uma.h, which says what holds for all. */
#ifndef UMA_VALUES_H
#define UMA_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- errors ------------------------------------------------------------------------------------------------- */

#define UMA_ERROR_TEXT_MAX 512

/* Why a function failed. Caller-owned, usually on the stack; `text` names the file and the place in it. */
struct uma_error {
    int code; /* negative errno, 0 when nothing failed */
    char text[UMA_ERROR_TEXT_MAX];
};

/* ---- values ------------------------------------------------------------------------------------------------- */

enum uma_validity {
    UMA_UNKNOWN = 0, /* not read (yet) */
    UMA_KNOWN,       /* `value` is what the source said */
    UMA_STALE,       /* `value` is the last good answer; the source's time says how old it is */
    UMA_ABSENT,      /* this kernel, driver or machine has no such field */
    UMA_UNLIMITED,   /* a limit that is not set ("max") */
    UMA_DENIED,      /* there, but not for this user */
    UMA_UNSUPPORTED, /* the driver answered that it does not support this (NVML_ERROR_NOT_SUPPORTED) */
    UMA_MALFORMED,   /* there, but not what its format says */
    UMA_FAILED,      /* the read failed or timed out */
    UMA_VALIDITY_MAX,
};

struct uma_u64 {
    uint64_t value;
    enum uma_validity validity;
};

struct uma_i64 {
    int64_t value;
    enum uma_validity validity;
};

struct uma_f64 {
    double value;
    enum uma_validity validity;
};

/* Three-valued truth, for "is this machine unified?". */
enum uma_truth { UMA_MAYBE = 0, UMA_YES, UMA_NO };

/* True when the number may be used: fresh, or the last good one. */
static inline bool uma_usable(enum uma_validity v) {
    return v == UMA_KNOWN || v == UMA_STALE;
}

/* Where a group of fields came from. */
struct uma_source {
    enum uma_validity validity; /* of the source as a whole */
    int64_t time_ns;            /* when it was read; 0: never */
    const char *path;           /* relative to the root, "proc/meminfo"; or "nvml"; NULL: never tried */
    const char *detail;         /* what went wrong and where, or NULL */
};

#endif
