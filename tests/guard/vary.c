/* SPDX-License-Identifier: MIT */
/*
 * The guard's decision on thousands of machines that only exist on paper (machine.h, kinds.h), in a closed loop, judged by what is true of each.
 *
 * usage: guard-vary [--table N [SEED]] [--one KIND SEED]
 *
 * Without arguments: a test in TAP, some of each kind. --table: N of each kind, as a table for docs/guard.md. --one: what happened in one of them.
 */
#include "guard/kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct verdict {
    bool missed, froze;                    /* the guilty one was not stopped in time; the machine stood still */
    bool innocent_stopped, innocent_ended; /* others were */
    bool false_stop, false_end;            /* somebody was, and nobody was guilty */
    bool asked_room, unkillable, second_end;
    uint32_t stops, ends;
    double at;     /* headroom at the first stop, as a share of the floor */
    double lowest; /* the same at its lowest */
    uint64_t looks, tables;
};

struct run {
    struct trial t;
    struct uma_guard_history history;
    struct uma_guard_state state;
    struct uma_guard_decision decision;
    struct verdict v;
    bool acted, tell;
    int64_t began;
};

static void tell(const struct run *r, const struct uma_guard_action *a, const struct program *p) {
    const struct uma_guard_evidence *e = &r->decision.evidence;
    (void)printf("%8.3f s  %-10s %-40s %-16s %s headroom %.3f of the floor, %.2f GiB/s, signals %x\n",
                 (double)(r->t.m.now - r->began) / 1e9, uma_guard_action_word(a->kind), uma_guard_reason_word(a->reason), p ? p->name : "-",
                 p && p->guilty ? "guilty" : "", (double)e->headroom / (double)e->floor, e->rate / (double)GIB, e->signals);
    for (uint32_t i = 0; a->pid && i < r->decision.n_candidates && i < 3; i++) {
        const struct uma_guard_candidate *c = &r->decision.candidates[i];
        (void)printf("            %-16s %5d gpu %.2f%s anon %.2f swap %.2f GiB, grew %.3f GiB/s, score %.3g, flags %x\n", c->name, c->pid,
                     (double)c->gpu / (double)GIB, c->gpu_known ? "" : "?", (double)c->anon / (double)GIB, (double)c->swap / (double)GIB,
                     (double)c->growth / (double)GIB, c->score, c->flags);
    }
}

static void judge(struct run *r, const struct uma_guard_action *a) {
    const struct program *p = machine_find(&r->t.m, a->pid);
    bool stop = a->kind == UMA_GUARD_BRAKE, end = a->kind == UMA_GUARD_TERM || a->kind == UMA_GUARD_KILL;
    if (r->tell)
        tell(r, a, p);
    r->v.asked_room |= a->kind == UMA_GUARD_ROOM;
    r->v.unkillable |= a->kind == UMA_GUARD_UNKILLABLE;
    r->v.stops += stop;
    r->v.ends += end;
    if (!p || !(stop || end))
        return;
    r->v.innocent_stopped |= stop && !p->guilty && !r->t.healthy;
    r->v.innocent_ended |= end && !p->guilty && !r->t.healthy;
    r->v.false_stop |= stop && r->t.healthy && !r->t.brakes_spared;
    r->v.false_end |= end && r->t.healthy;
    double headroom = machine_available(&r->t.m) + r->t.m.per_cpu;
    if (p->guilty && !r->acted) {
        r->acted = true;
        r->v.at = headroom / (double)r->t.policy.floor;
        r->v.missed = headroom < r->t.must_by;
    }
}

/* The child of a fork: its parent's pages once more, which take nothing. */
static void show_fork(struct machine *m) {
    for (size_t i = 0; i < m->n_table; i++) {
        const struct program *p = machine_find(m, m->table[i].pid);
        bool now = p && p->large && (m->now / SECOND) % 4 == 0;
        if (!now || m->n_table >= MACHINE_PROGRAMS)
            continue;
        struct uma_guard_process child = m->table[i];
        child.parent = child.pid++;
        child.grown = (int64_t)child.anon;
        m->table[m->n_table++] = child;
        return;
    }
}

static void declare(struct machine *m) {
    for (int i = 0; i < m->n; i++)
        if (m->programs[i].envelope >= 0) /* as a job's umactl writes it: what the driver said, and its own pages */
            m->envelope.taken = (uint64_t)(m->programs[i].gpu_said + m->programs[i].anon);
}

static void decide(struct run *r, const struct uma_guard_reading *now) {
    struct machine *m = &r->t.m;
    struct uma_guard_view view = { .now = now,
                                   .processes = m->table_time ? m->table : NULL,
                                   .n_processes = m->n_table,
                                   .processes_time = m->table_time,
                                   .envelopes = &m->envelope,
                                   .n_envelopes = r->t.envelopes };
    uma_guard_decide(&r->state, &r->history, &r->t.policy, &view, &r->decision);
    for (uint32_t i = 0; i < r->decision.n; i++) {
        judge(r, &r->decision.actions[i]);
        if (r->decision.actions[i].pid && !machine_do(m, &r->decision.actions[i]))
            uma_guard_failed(&r->state, &r->decision.actions[i]);
    }
    if (r->state.victim && machine_gone(m, r->state.victim))
        uma_guard_victim_gone(&r->state);
}

static void look(struct run *r) {
    struct machine *m = &r->t.m;
    struct uma_guard_reading now;
    machine_read(m, &now);
    uma_guard_history_add(&r->history, &now);
    if (r->t.envelopes)
        declare(m);
    decide(r, &now);
    r->v.looks++;
    if (!r->decision.want_processes)
        return;
    machine_take_table(m);
    show_fork(m);
    r->v.tables++;
    machine_run(m, m->now + (int64_t)machine_between(m, 1e6, 12e6)); /* that long it took */
    machine_read(m, &now);
    uma_guard_history_add(&r->history, &now);
    decide(r, &now);
}

static void sleep_of_guard(struct run *r) {
    int64_t since = r->t.m.now - r->began;
    if (r->t.sleep_for && since >= r->t.sleep_at) {
        machine_run(&r->t.m, r->t.m.now + r->t.sleep_for);
        r->t.sleep_for = 0;
    }
}

static void run(struct run *r, const struct kind *kind, uint64_t seed) {
    trial_begin(&r->t, seed);
    kind->make(&r->t);
    r->began = r->t.m.now;
    while (r->t.m.now - r->began < r->t.most && !r->t.m.frozen) {
        look(r);
        sleep_of_guard(r);
        int64_t wake = r->decision.wake_ns > 0 ? r->decision.wake_ns : MS;
        machine_run(&r->t.m, r->t.m.now + wake + (int64_t)machine_between(&r->t.m, 0, 1e6));
    }
    r->v.froze = r->t.m.frozen && !r->t.hopeless;
    r->v.lowest = (r->t.m.lowest + r->t.m.per_cpu) / (double)r->t.policy.floor;
    if (!r->t.healthy && !r->acted)
        r->v.missed = true;
    if (r->tell) {
        (void)printf("%s, seed %llu: %.1f GiB, floor %.2f GiB; lowest %.3f of it; %llu looks, %llu tables in %.1f s\n", kind->name,
                     (unsigned long long)seed, r->t.m.total / (double)GIB, (double)r->t.policy.floor / (double)GIB, r->v.lowest,
                     (unsigned long long)r->v.looks, (unsigned long long)r->v.tables, (double)(r->t.m.now - r->began) / 1e9);
        (void)printf("missed %d froze %d innocent stopped %d ended %d false stop %d end %d\n", r->v.missed, r->v.froze,
                     r->v.innocent_stopped, r->v.innocent_ended, r->v.false_stop, r->v.false_end);
    }
}

/* ---- many of them ------------------------------------------------------------------------------------------------------ */

struct sum {
    unsigned n, missed, froze, innocent_stopped, innocent_ended, false_stop, false_end, stopped, ended, room;
    double lowest;
    uint64_t first_bad;
};

static void add(struct sum *s, const struct verdict *v, uint64_t seed) {
    s->n++;
    s->missed += v->missed;
    s->froze += v->froze;
    s->innocent_stopped += v->innocent_stopped;
    s->innocent_ended += v->innocent_ended;
    s->false_stop += v->false_stop;
    s->false_end += v->false_end;
    s->stopped += v->stops > 0;
    s->ended += v->ends > 0;
    s->room += v->asked_room;
    s->lowest = fmin(s->lowest, v->lowest);
    if (!s->first_bad && (v->missed || v->froze || v->innocent_stopped || v->innocent_ended || v->false_stop || v->false_end))
        s->first_bad = seed;
}

static uint64_t seed_of(uint64_t seed, size_t kind, unsigned i) {
    return seed * 1000003 + kind * UINT64_C(1000000007) + i * UINT64_C(7919) + 1;
}

static unsigned wrong_of(const struct sum *s) {
    return s->missed + s->froze + s->innocent_stopped + s->innocent_ended + s->false_stop + s->false_end;
}

static struct sum try_kind(size_t kind, unsigned n, uint64_t seed) {
    static struct run r;
    struct sum s = { .lowest = INFINITY };
    for (unsigned i = 0; i < n; i++) {
        memset(&r, 0, sizeof(r));
        run(&r, &kinds[kind], seed_of(seed, kind, i));
        add(&s, &r.v, seed_of(seed, kind, i));
    }
    return s;
}

static int table(unsigned n, uint64_t seed, const char *only) {
    (void)printf(
        "| kind | machines | missed | froze | innocent stopped | innocent ended | false stop | false end | stopped | ended | room | lowest |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t k = 0; k < n_kinds; k++) {
        if (only && strcmp(only, kinds[k].name) != 0)
            continue;
        struct sum s = try_kind(k, n, seed);
        (void)printf("| %s: %s | %u | %u | %u | %u | %u | %u | %u | %u | %u | %u | %.2f |", kinds[k].name, kinds[k].words, s.n, s.missed,
                     s.froze, s.innocent_stopped, s.innocent_ended, s.false_stop, s.false_end, s.stopped, s.ended, s.room, s.lowest);
        if (s.first_bad)
            (void)fprintf(stderr, " seed %llu", (unsigned long long)s.first_bad);
        (void)printf("\n");
        (void)fflush(stdout);
    }
    return 0;
}

static int one(const char *name, uint64_t seed) {
    static struct run r;
    for (size_t k = 0; k < n_kinds; k++)
        if (strcmp(kinds[k].name, name) == 0) {
            r.tell = true;
            run(&r, &kinds[k], seed);
            return 0;
        }
    (void)fprintf(stderr, "%s: no such kind\n", name);
    return 2;
}

/* Machines that a decision before this one was wrong about. */
static const struct {
    const char *kind, *what;
    uint64_t seed;
} once_wrong[] = {
    { "collapse-from-thin", "nobody was seen to grow, and the large server was ended for its size", UINT64_C(5099095361) },
    { "thin", "it rose for a while and came back to where it had stood: the server was stopped, and in the end terminated",
      UINT64_C(28701165793) },
    { "late-release", "another one, who had just come to the end of his growth, was stopped for the fall of the one that was killed",
      UINT64_C(103211347706) },
    { "late-release", "another one was suspected for the last call of the one that was killed", UINT64_C(18150395654) },
};

static int test_once_wrong(void) {
    int bad = 0;
    for (size_t i = 0; i < sizeof(once_wrong) / sizeof(once_wrong[0]); i++) {
        struct sum s = { 0 };
        for (size_t k = 0; k < n_kinds; k++)
            if (strcmp(kinds[k].name, once_wrong[i].kind) == 0) {
                static struct run r;
                memset(&r, 0, sizeof(r));
                run(&r, &kinds[k], once_wrong[i].seed);
                add(&s, &r.v, once_wrong[i].seed);
            }
        bool wrong = s.n != 1 || wrong_of(&s);
        (void)printf("%sok %zu %s: %s\n", wrong ? "not " : "", n_kinds + i + 1, once_wrong[i].kind, once_wrong[i].what);
        bad += wrong;
    }
    return bad;
}

static int test(unsigned each) {
    int bad = 0;
    (void)printf("1..%zu\n", n_kinds + sizeof(once_wrong) / sizeof(once_wrong[0]));
    for (size_t k = 0; k < n_kinds; k++) {
        struct sum s = try_kind(k, each, 1);
        unsigned wrong = wrong_of(&s);
        (void)printf(
            "%sok %zu %s: %s (%u machines: missed %u, froze %u, innocent stopped %u, ended %u, false stop %u, end %u; first seed %llu)\n",
            wrong ? "not " : "", k + 1, kinds[k].name, kinds[k].words, each, s.missed, s.froze, s.innocent_stopped, s.innocent_ended,
            s.false_stop, s.false_end, (unsigned long long)s.first_bad);
        bad += wrong > 0;
    }
    return bad + test_once_wrong() > 0;
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--table") == 0)
        return table((unsigned)strtoul(argv[2], NULL, 10), argc > 3 ? strtoull(argv[3], NULL, 10) : 1, argc > 4 ? argv[4] : NULL);
    if (argc == 4 && strcmp(argv[1], "--one") == 0)
        return one(argv[2], strtoull(argv[3], NULL, 10));
    if (argc == 3 && strcmp(argv[1], "--each") == 0)
        return test((unsigned)strtoul(argv[2], NULL, 10));
    if (argc == 1)
        return test(12);
    (void)fprintf(stderr, "usage: %s [--each N] [--table N [SEED [KIND]]] [--one KIND SEED]\n", argv[0]);
    return 2;
}
