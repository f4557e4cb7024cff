/* SPDX-License-Identifier: MIT */
#include "cmd/cache.h"

#include "base/units.h"
#include "observe/process.h"

#include <stdio.h>
#include <string.h>

const char *uma_cache_utf8(struct uma_text *text, const char *path) {
    uma_text_reset(text);
    for (size_t i = 0, n = strlen(path); i < n;) {
        size_t step = uma_utf8_sequence(path + i, n - i);
        if (step)
            uma_text_append_n(text, path + i, step);
        else
            uma_text_printf(text, "\\x%02x", (unsigned char)path[i]);
        i += step ? step : 1;
    }
    return text->data ? text->data : "";
}

void uma_cache_bytes_json(struct uma_json *json, const char *key, const char *path) {
    size_t i = 0, n = path ? strlen(path) : 0;
    for (size_t step; i < n && (step = uma_utf8_sequence(path + i, n - i)) > 0; i += step)
        ;
    if (i == n) {
        uma_json_null(json, key);
        return;
    }
    _cleanup_text_ struct uma_text digits = { 0 };
    for (i = 0; i < n; i++)
        uma_text_printf(&digits, "%02x", (unsigned char)path[i]);
    uma_json_string(json, key, digits.data);
}

static const char *process_name(const struct uma_processes *processes, int32_t pid) {
    const struct uma_process *process = uma_processes_find(processes, pid);
    return process ? process->name : NULL;
}

static void user_text(struct uma_text *text, const struct uma_processes *processes, int32_t pid) {
    const char *name = process_name(processes, pid);
    if (name) {
        (void)uma_text_safe(text, name, 0);
        uma_text_char(text, ' ');
    }
    uma_text_printf(text, "%d", pid);
}

void uma_cache_users_text(struct uma_text *text, const struct uma_processes *processes, const int32_t *pids, size_t n, size_t columns) {
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        _cleanup_text_ struct uma_text one = { 0 };
        user_text(&one, processes, pids[i]);
        size_t width = uma_text_columns(one.data ? one.data : "") + (i ? 2 : 0);
        char more[24] = ""; /* what must still fit behind it */
        if (i + 1 < n)
            (void)snprintf(more, sizeof more, " +%zu", n - i - 1);
        size_t room = strlen(more);
        if (columns && i > 0 && used + width + room > columns) {
            uma_text_printf(text, " +%zu", n - i);
            return;
        }
        uma_text_append(text, i ? ", " : "");
        if (columns && i == 0 && width + room > columns && columns > room) {
            /* the number says who it is; the name gives way */
            _cleanup_text_ struct uma_text number = { 0 };
            uma_text_printf(&number, "%d", pids[0]);
            const char *name = process_name(processes, pids[0]);
            if (name && number.length + 2 < columns - room) {
                (void)uma_text_safe(text, name, columns - room - number.length - 1);
                uma_text_char(text, ' ');
            }
            uma_text_append(text, number.data ? number.data : "?");
            width = columns - room;
        } else
            uma_text_append(text, one.data ? one.data : "?");
        used += width;
    }
}

void uma_cache_name_text(struct uma_text *text, const char *name, size_t columns) {
    _cleanup_text_ struct uma_text safe = { 0 };
    size_t width = uma_text_safe(&safe, name, 0);
    if (columns == 0 || width <= columns) {
        uma_text_append(text, safe.data ? safe.data : "");
        return;
    }
    /* leave out from the front until the rest and the sign of the cut fit; by what is escaped as one, never within it */
    while (*name && width + 1 > columns) {
        size_t step = uma_utf8_sequence(name, strnlen(name, 4));
        char one[8] = { 0 };
        step = step ? step : 1;
        (void)memcpy(one, name, step);
        uma_text_reset(&safe);
        width -= MIN_OF(width, uma_text_safe(&safe, one, 0));
        name += step;
    }
    uma_text_append(text, "…");
    (void)uma_text_safe(text, name, 0);
}

void uma_cache_age_text(struct uma_text *text, int64_t used_ns, int64_t now_ns) {
    enum { MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR, YEAR = 365 * DAY };
    if (used_ns <= 0 || now_ns <= 0) {
        uma_text_char(text, '?');
        return;
    }
    int64_t s = MAX_OF(now_ns - used_ns, (int64_t)0) / UMA_SECOND_NS;
    if (s < 2 * MINUTE)
        uma_text_printf(text, "%d s", (int)s);
    else if (s < 2 * HOUR)
        uma_text_printf(text, "%d min", (int)(s / MINUTE));
    else if (s < 2 * DAY)
        uma_text_printf(text, "%d h", (int)(s / HOUR));
    else if (s < 2 * (int64_t)YEAR)
        uma_text_printf(text, "%d d", (int)(s / DAY));
    else
        uma_text_printf(text, "%d y", (int)(s / YEAR));
}

void uma_cache_seconds_text(struct uma_text *text, double seconds) {
    if (seconds >= 1)
        uma_text_duration(text, seconds);
    else {
        uma_text_fixed(text, seconds * 1000, seconds < 0.01 ? 1 : 0);
        uma_text_append(text, " ms");
    }
}

void uma_cache_percent_text(struct uma_text *text, struct uma_u64 part, struct uma_u64 whole) {
    if (!uma_usable(part.validity) || !uma_usable(whole.validity)) {
        uma_text_append(text, part.validity == UMA_ABSENT || whole.validity == UMA_ABSENT ? "-" : "?");
        return;
    }
    if (whole.value == 0) {
        uma_text_char(text, '-');
        return;
    }
    /* whole pages of a file that ends within one are more than its size */
    double percent = MIN_OF((double)part.value / (double)whole.value, 1.0) * 100;
    if (part.value > 0 && percent < 1)
        uma_text_append(text, "<1");
    else if (part.value < whole.value && percent > 99)
        uma_text_append(text, ">99");
    else
        uma_text_printf(text, "%d", (int)(percent + 0.5));
}

const char *uma_cache_unknown_reason(enum uma_validity validity) {
    switch (validity) {
    case UMA_KNOWN:
    case UMA_STALE:
        return NULL;
    case UMA_DENIED:
        return "the kernel tells it only to the file's owner and to whoever may write it";
    case UMA_ABSENT:
        return "it has no page cache";
    case UMA_FAILED:
        return "it could not be opened or measured";
    default:
        return "it was not looked at";
    }
}
