/* SPDX-License-Identifier: MIT */
/*
 * A series (guard/series.h) through the decision. Its rows are seconds apart, where a guard looks every 10 ms near its floor: between two rows it is as if memory went evenly, and the guard looks when it would have, and takes a table when it
 * wants one. Where a series says nothing of anybody it is as if one program had all that is taken, so that what would have been done to it, and when, can be told.
 */
#include "cmd/guard_replay.h"

#include "base/units.h"
#include "guard/series.h"

#include <string.h>

enum { PROCESSES_MOST = 16 }; /* of a series */
/* As uma-guard's (loop.c): not sooner, and not later. Bounds the work too: a series is at most a million seconds long. */
#define LOOK_LEAST (5 * UMA_MILLISECOND_NS)
#define LOOK_MOST UMA_SECOND_NS
/* What follows the first action of an episode is not decided, so that how fine its end is told is all that hangs on it. */
#define LOOK_EPISODE (100 * UMA_MILLISECOND_NS)

struct row {
    struct uma_guard_reading reading;
    size_t n;
    struct uma_guard_process list[PROCESSES_MOST];
};

struct table {
    int64_t time; /* 0: none yet */
    size_t n;
    struct uma_guard_process list[PROCESSES_MOST];
};

struct series {
    struct uma_guard_replaying replaying;
    bool any;
    struct row from, to, now; /* the row before, this one, and what is between */
    struct table table;
    int64_t offset; /* of the rows' time to the one that the reader counts in */
};

/* ---- between two rows ------------------------------------------------------------------------------------------ */

static uint64_t between(uint64_t from, uint64_t to, double share) {
    return from <= to ? from + (uint64_t)((double)(to - from) * share) : from - (uint64_t)((double)(from - to) * share);
}

/* All numbers from `total` to the GPU's: uint64_t, one behind the other. */
static void reading_between(const struct series *s, double share, struct uma_guard_reading *ret_now) {
    enum { FIRST = offsetof(struct uma_guard_reading, total), BEHIND = offsetof(struct uma_guard_reading, gpu_age_ns) };
    *ret_now = s->from.reading;
    for (size_t at = FIRST; at < BEHIND; at += sizeof(uint64_t)) {
        uint64_t from, to;
        memcpy(&from, (const char *)&s->from.reading + at, sizeof(from));
        memcpy(&to, (const char *)&s->to.reading + at, sizeof(to));
        from = between(from, to, share);
        memcpy((char *)ret_now + at, &from, sizeof(from));
    }
    ret_now->known = s->from.reading.known & s->to.reading.known;
    ret_now->gap = 0;
}

static const struct uma_guard_process *find(const struct uma_guard_process *list, size_t n, int32_t pid) {
    for (size_t i = 0; i < n; i++)
        if (list[i].pid == pid)
            return &list[i];
    return NULL;
}

/* Who is not in the next row any more has what it had; who is new there comes with it. */
static void processes_between(const struct series *s, double share, struct row *ret_now) {
    ret_now->n = s->from.n;
    for (size_t i = 0; i < s->from.n; i++) {
        const struct uma_guard_process *to = find(s->to.list, s->to.n, s->from.list[i].pid);
        struct uma_guard_process *p = &ret_now->list[i];
        *p = s->from.list[i];
        if (!to)
            continue;
        p->anon = between(p->anon, to->anon, share);
        p->shmem = between(p->shmem, to->shmem, share);
        p->swap = between(p->swap, to->swap, share);
        p->gpu = between(p->gpu, to->gpu, share);
    }
}

/* ---- tables -------------------------------------------------------------------------------------------------------- */

static uint64_t held(const struct uma_guard_process *p) {
    return p->anon + p->shmem + p->swap + p->gpu;
}

/* As uma-guard takes one: what each has now, and what it grew by since the table before. */
static bool take_table(void *userdata, struct uma_guard_view *view) {
    struct series *s = userdata;
    struct table before = s->table;
    int64_t passed = view->now->time - before.time;
    if (s->now.n == 0)
        return false;
    s->table = (struct table){ .time = view->now->time, .n = s->now.n };
    memcpy(s->table.list, s->now.list, s->now.n * sizeof(s->now.list[0]));
    for (size_t i = 0; i < s->table.n; i++) {
        struct uma_guard_process *p = &s->table.list[i];
        const struct uma_guard_process *was = before.time != 0 ? find(before.list, before.n, p->pid) : NULL;
        p->tree = (int32_t)i;
        p->grown_ns = was ? passed : 0;
        p->grown = was ? (int64_t)(held(p) - held(was)) : 0;
        p->gpu_grown_ns = was && p->gpu_known ? passed : 0;
        p->gpu_grown = p->gpu_grown_ns ? (int64_t)(p->gpu - was->gpu) : 0;
    }
    view->processes = s->table.list;
    view->n_processes = s->table.n;
    view->processes_time = s->table.time;
    return true;
}

/* One program that has all that is taken. Its name is empty: nobody said it. */
static void add_taker(struct row *row) {
    row->reading.anon = row->reading.total - row->reading.available;
    row->n = 1;
    row->list[0] = (struct uma_guard_process){ .pid = UMA_GUARD_TAKER, .start = 1, .uid = 1000, .envelope = -1, .anon = row->reading.anon };
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static void look(struct series *s) {
    struct uma_guard_view view = { .now = &s->now.reading };
    if (s->table.time != 0) {
        view.processes = s->table.list;
        view.n_processes = s->table.n;
        view.processes_time = s->table.time;
    }
    (void)uma_guard_replay_next(&s->replaying, &view, s->now.reading.time - s->offset);
}

/* When it looks again after a look. */
static int64_t pause_of(const struct series *s) {
    return s->replaying.in_episode ? LOOK_EPISODE : MIN_OF(MAX_OF(s->replaying.decision.wake_ns, LOOK_LEAST), LOOK_MOST);
}

static int each(void *userdata, const struct uma_guard_view *view, int64_t real) {
    struct series *s = userdata;
    s->offset = view->now->time - real;
    s->to.reading = *view->now;
    s->to.n = MIN_OF(view->n_processes, (size_t)PROCESSES_MOST);
    if (s->to.n > 0)
        memcpy(s->to.list, view->processes, s->to.n * sizeof(s->to.list[0]));
    else if (view->processes_time == 0 && view->now->anon == 0 && view->now->shmem == 0 && !(view->now->known & UMA_GUARD_KNOWS_GPU)) {
        add_taker(&s->to);
        s->replaying.result->one_took_all = true;
    }
    int64_t end = s->to.reading.time, length = end - s->from.reading.time;
    bool whole = s->any && !s->to.reading.gap;
    for (int64_t at = s->from.reading.time + pause_of(s); whole && at < end; at += pause_of(s)) {
        double share = (double)(at - s->from.reading.time) / (double)length;
        reading_between(s, share, &s->now.reading);
        processes_between(s, share, &s->now);
        s->now.reading.time = s->now.reading.boot = at;
        look(s);
    }
    s->now = s->to;
    look(s);
    s->from = s->to;
    s->any = true;
    return 0;
}

int uma_guard_replay_series(const char *path, const struct uma_guard_policy *policy, struct uma_guard_replay *ret_replay,
                            struct uma_error *err) {
    _cleanup_free_
    struct series *s = calloc(1, sizeof(*s));
    if (!s)
        return uma_error_set(err, ENOMEM, "replaying %.400s", path);
    memset(ret_replay, 0, sizeof(*ret_replay));
    s->replaying = (struct uma_guard_replaying){ .given = policy, .result = ret_replay, .take_table = take_table, .userdata = s };
    s->replaying.since = INT64_MIN;
    return uma_guard_series_read(path, each, s, err);
}
