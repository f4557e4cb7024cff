/* SPDX-License-Identifier: MIT */
#include "cache/follow_end.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

enum { UNREAD_SHARE = 100, LOOKED_INTO_SHARE = 50 }; /* a hundredth may stay unread; less than a fiftieth read was only looked into */

enum state { UNTOUCHED, LOOKED_INTO, LOADING, FINISHED };

static enum state state_of(const struct uma_follow_file *file) {
    if (file->in_place || file->read >= file->size - file->size / UNREAD_SHARE)
        return FINISHED;
    if (file->read < file->size / LOOKED_INTO_SHARE)
        return file->read ? LOOKED_INTO : UNTOUCHED;
    return file->in_use ? LOADING : FINISHED;
}

/* The digits that end at `end`; NULL when there are none, or too many. */
static const char *digits_before(const char *name, const char *end, uint32_t *ret_value) {
    const char *start = end;
    while (start > name && start[-1] >= '0' && start[-1] <= '9')
        start--;
    uint64_t value = 0;
    if (end - start > 6 || uma_parse_u64(start, end, &value) != end)
        return NULL;
    *ret_value = (uint32_t)value;
    return start;
}

bool uma_follow_shard_parse(const char *name, uint32_t *ret_number, uint32_t *ret_of) {
    const char *of = NULL;
    for (const char *at = strstr(name, "-of-"); at; at = strstr(at + 1, "-of-"))
        of = at;
    if (!of)
        return false;
    const char *end = of + strlen("-of-");
    while (*end >= '0' && *end <= '9')
        end++;
    uint32_t total, number;
    if (!digits_before(of, end, &total) || !digits_before(name, of, &number) || number > total || total == 0)
        return false;
    *ret_number = number;
    *ret_of = total;
    return true;
}

static int by_total(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/*
 * Some set says "of 17" and fewer than 17 files of it were seen. Sets of the same size in one job are counted together: they cover for each other. Asked at every
 * judgement while the job loads: each name is parsed once, and what they say is sorted.
 */
static bool shard_missing(const struct uma_follow_file_name *files, size_t n) {
    _cleanup_free_
    uint32_t *totals = calloc(n + 1, sizeof *totals);
    if (!totals)
        return true; /* not known to be complete */
    size_t n_totals = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t number;
        n_totals += uma_follow_shard_parse(files[i].name, &number, &totals[n_totals]);
    }
    qsort(totals, n_totals, sizeof *totals, by_total);
    for (size_t i = 0, seen; i < n_totals; i += seen) {
        for (seen = 1; i + seen < n_totals && totals[i + seen] == totals[i];)
            seen++;
        if (seen < totals[i])
            return true;
    }
    return false;
}

enum uma_follow_progress uma_follow_judge(const struct uma_follow_file_name *files, size_t n, int64_t last_ns, int64_t now_ns) {
    bool some_finished = false, some_between = false;
    uint64_t finished = 0, in_place = 0;
    for (size_t i = 0; i < n; i++) {
        const struct uma_follow_file *file = files[i].file;
        enum state state = state_of(file);
        last_ns = MAX_OF(last_ns, file->moved_ns);
        some_finished = some_finished || state == FINISHED;
        some_between = some_between || state == LOADING || state == LOOKED_INTO || (state == UNTOUCHED && file->in_use);
        if (state == FINISHED) {
            finished += file->size;
            in_place += file->in_place ? file->size : 0;
        }
    }
    int64_t still = now_ns - last_ns;
    if (still < UMA_FOLLOW_SETTLED_NS)
        return UMA_FOLLOW_GOES_ON;
    if (some_finished && !some_between && !shard_missing(files, n))
        return in_place > finished / 2 ? UMA_FOLLOW_IS_IN_PLACE : UMA_FOLLOW_IS_LOADED;
    bool begun = some_finished;
    for (size_t i = 0; i < n && !begun; i++)
        begun = state_of(files[i].file) == LOADING;
    return begun && still >= UMA_FOLLOW_IDLE_NS ? UMA_FOLLOW_IS_IDLE : UMA_FOLLOW_GOES_ON;
}
