/* SPDX-License-Identifier: MIT */
/*
 * Recorded series of memory through the guard's decision (series/NAME.csv; each says where it is from). Between two rows it is as if memory went evenly. One program has what is taken, as the driver tells it every 250 ms.
 *
 * usage: guard-replay FILE...
 *
 * Prints TAP. A file that expects "acts": the program is stopped before headroom is below the floor. "nothing": nobody is touched.
 */
#include "guard/decide.h"
#include "guard/series.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define SECOND INT64_C(1000000000)
#define SPARK (UINT64_C(127600816) * 1024)

enum { ROWS = 2000 };

struct series {
    bool acts;
    size_t n;
    double time[ROWS], available[ROWS], free[ROWS]; /* seconds, bytes; free as available: not told */
};

static int add_row(void *userdata, const struct uma_guard_view *view, int64_t real_time) {
    struct series *s = userdata;
    if (s->n == ROWS || view->now->total != SPARK)
        return -EINVAL;
    s->time[s->n] = (double)real_time / 1e9;
    s->available[s->n] = (double)view->now->available;
    s->free[s->n++] = (double)view->now->free;
    return 0;
}

/* "# expect: acts" is for this test: to the parser it is a comment. */
static int read_series(const char *path, struct series *s) {
    char line[1024];
    struct uma_error err = { 0 };
    FILE *file = fopen(path, "re");
    if (!file)
        return -errno;
    memset(s, 0, sizeof(*s));
    bool told = false;
    while (fgets(line, sizeof(line), file) && line[0] == '#') {
        line[strcspn(line, "\r\n")] = '\0';
        if (strncmp(line, "# expect: ", 10) != 0)
            continue;
        s->acts = strcmp(line + 10, "acts") == 0;
        told = s->acts || strcmp(line + 10, "nothing") == 0;
    }
    (void)fclose(file);
    int r = uma_guard_series_read(path, add_row, s, &err);
    if (r < 0)
        (void)printf("# %s\n", err.text);
    return r == 0 && told && s->n > 1 ? 0 : -EINVAL;
}

static double between(const struct series *s, const double *values, double t) {
    size_t i = 1;
    while (i + 1 < s->n && s->time[i] < t)
        i++;
    double share = (t - s->time[i - 1]) / (s->time[i] - s->time[i - 1]);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return values[i - 1] + (values[i] - values[i - 1]) * share;
}

struct replay {
    const struct series *series;
    struct uma_guard_history history;
    struct uma_guard_state state;
    struct uma_guard_policy policy;
    struct uma_guard_decision decision;
    struct uma_guard_process processes[2];
    int64_t begin, now, table;
    bool acted;
    char touched[160]; /* what was done first */
    double at;         /* headroom then */
};

static uint64_t taken(const struct replay *r, double t) {
    return (uint64_t)((double)SPARK * 0.97 - between(r->series, r->series->available, t));
}

static void take_table(struct replay *r, double t) {
    double answered = (double)(int64_t)(t * 4) / 4; /* every 250 ms */
    r->table = r->now;
    r->processes[0] = (struct uma_guard_process){
        .pid = 100, .start = 1, .envelope = -1, .gpu_known = true, .flags = UMA_GUARD_HOLDS_GPU, .name = "taker"
    };
    r->processes[0].gpu = taken(r, answered);
    r->processes[0].gpu_grown = (int64_t)(taken(r, answered) - taken(r, answered - 0.25));
    r->processes[0].gpu_grown_ns = SECOND / 4;
    r->processes[1] =
        (struct uma_guard_process){ .pid = 200, .start = 2, .tree = 1, .envelope = -1, .anon = 2048 * MIB, .name = "innocent" };
}

static void look(struct replay *r, bool again) {
    double t = (double)(r->now - r->begin) / 1e9 + r->series->time[0], answered = (double)(int64_t)(t * 4) / 4;
    struct uma_guard_reading now = {
        .time = r->now, .boot = r->now, .known = UMA_GUARD_KNOWS_MEMINFO | UMA_GUARD_KNOWS_GPU, .total = SPARK
    };
    now.available = (uint64_t)between(r->series, r->series->available, t);
    double free_bytes = between(r->series, r->series->free, t);
    now.free = free_bytes >= 0 && free_bytes < (double)now.available ? (uint64_t)free_bytes : now.available;
    now.anon = 2048 * MIB;
    now.gpu_bytes = taken(r, answered);
    now.gpu_age_ns = (int64_t)((t - answered) * 1e9);
    if (!again)
        uma_guard_history_add(&r->history, &now);
    struct uma_guard_view view = { .now = &now, .processes = r->table ? r->processes : NULL, .n_processes = 2, .processes_time = r->table };
    uma_guard_decide(&r->state, &r->history, &r->policy, &view, &r->decision);
    for (uint32_t i = 0; i < r->decision.n; i++) {
        const struct uma_guard_action *a = &r->decision.actions[i];
        if (a->kind == UMA_GUARD_ROOM || a->kind == UMA_GUARD_NOTHING || r->acted)
            continue;
        r->acted = true;
        r->at = a->pid == 100 ? (double)now.available : -1; /* another was touched */
        (void)snprintf(r->touched, sizeof(r->touched), "%s of %d at %.1f s with %.2f GiB: %s", uma_guard_action_word(a->kind), a->pid, t,
                       (double)now.available / 1073741824.0, uma_guard_reason_word(a->reason));
    }
    if (r->decision.want_processes && !again) {
        take_table(r, t);
        look(r, true);
    }
}

static bool replay(const char *path, const struct series *s) {
    static struct replay r;
    memset(&r, 0, sizeof(r));
    r.series = s;
    r.begin = r.now = 5000 * SECOND;
    uma_guard_policy_default(&r.policy);
    uma_guard_policy_settle(&r.policy, SPARK);
    int64_t most = (int64_t)((s->time[s->n - 1] - s->time[0]) * 1e9);
    while (r.now - r.begin <= most && !r.acted) {
        look(&r, false);
        r.now += r.decision.wake_ns > 0 ? r.decision.wake_ns : SECOND / 1000;
    }
    bool good = s->acts ? r.acted && r.at >= (double)r.policy.floor : !r.acted;
    const char *name = strrchr(path, '/');
    (void)printf("%s: %s\n", name ? name + 1 : path, r.acted ? r.touched : "nothing was done");
    return good;
}

int main(int argc, char **argv) {
    static struct series s;
    int bad = 0;
    (void)printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        int error = read_series(argv[i], &s);
        if (error < 0) {
            (void)printf("# %s: cannot be read: %s\nnot ok %d\n", argv[i], strerror(-error), i);
            bad++;
            continue;
        }
        (void)printf("# ");
        bool good = replay(argv[i], &s);
        (void)printf("%sok %d %s\n", good ? "" : "not ", i, strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i]);
        bad += !good;
    }
    return bad > 0 || argc < 2;
}
