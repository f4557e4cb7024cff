/* SPDX-License-Identifier: MIT */
#include "guard/kinds.h"

#include <string.h>

#define LENGTH(list) (sizeof(list) / sizeof((list)[0]))

/* ---- what stands on every machine ------------------------------------------------------------------------------------ */

static int innocent(struct trial *t, const char *name, double anon, double jitter) {
    int i = machine_program(&t->m, name, -1);
    t->m.programs[i].anon = anon;
    t->m.programs[i].kind = OF_ANON;
    t->m.programs[i].jitter = jitter;
    return i;
}

void trial_begin(struct trial *t, uint64_t seed) {
    static const double sizes[] = { 1, 2, 4, 8, 16, 32, 64, 96, 121.7, 121.7, 121.7, 128, 256, 512 };
    memset(t, 0, sizeof(*t));
    struct machine *m = &t->m;
    machine_begin(m, seed, 1);
    double total = sizes[(size_t)(machine_random(m) * (double)LENGTH(sizes))] * (double)GIB;
    uint64_t rest = m->seed;
    machine_begin(m, rest, total);
    uma_guard_policy_default(&t->policy);
    uma_guard_policy_settle(&t->policy, (uint64_t)total);
    int shell = innocent(t, "sshd", total / 8192, 0);
    m->programs[shell].flags = UMA_GUARD_PROTECTED;
    shell = innocent(t, "bash", total / 8192, 0);
    m->programs[shell].flags = UMA_GUARD_PROTECTED;
    (void)innocent(t, "dockerd", total / 1024, total / 16384);
    (void)innocent(t, "python3", machine_between(m, 0.002, 0.03) * total, total / 4096);
    t->warm = (int64_t)machine_between(m, 6e9, 25e9);
    t->most = 60 * SECOND;
    t->must_by = (double)t->policy.floor;
    t->server = -1;
    if (machine_random(m) < 0.5)
        m->per_cpu = machine_random(m) * (double)t->policy.floor / 8;
    m->swap_below = 0.6 * (double)t->policy.floor;
    if (machine_random(m) < 0.4)
        m->swap_total = total / 8;
}

/* A server that took what it needs long ago. */
static void server(struct trial *t, double share) {
    t->server = machine_program(&t->m, "VLLM::EngineCor", -1);
    struct program *p = &t->m.programs[t->server];
    p->gpu = share * t->m.total;
    p->anon = 0.015 * t->m.total;
    p->kind = OF_ANON;
    p->jitter = t->m.total / 4096;
    p->flags = UMA_GUARD_HOLDS_GPU;
    p->start = 100;
}

static double headroom(const struct trial *t) {
    return machine_available(&t->m) + t->m.per_cpu;
}

/* One that takes memory from the end of the warm-up on. */
static struct program *grower(struct trial *t, enum memory_kind kind, double rate, double amount) {
    struct machine *m = &t->m;
    static const enum shape shapes[] = { STEADILY, FASTER, IN_LUMPS, IN_BURSTS };
    int i = machine_program(m, kind == OF_GPU ? "python3.12" : "stress", -1);
    struct program *p = &m->programs[i];
    p->kind = kind;
    p->shape = shapes[(size_t)(machine_random(m) * 4)];
    p->rate = rate;
    p->amount = amount;
    p->lump = machine_between(m, 0.0005, 0.008) * m->total;
    p->begin = m->now + t->warm;
    p->anon = (double)t->policy.floor / 64;
    p->start = (uint64_t)((m->now + t->warm / 2) / (10 * MS));
    if (kind == OF_GPU)
        p->flags |= UMA_GUARD_HOLDS_GPU;
    if (p->shape == IN_BURSTS && p->rate > 12.5e9)
        p->rate = 12.5e9; /* twice that in a burst */
    p->ignores_term = machine_random(m) < 0.3;
    p->late = (int64_t)machine_between_log(m, 0.01e9, 5e9);
    return p;
}

static double any_rate(struct trial *t) { /* the whole of it in 6.5 s to 4 minutes: 20 to 0.5 GB/s on 128 GB */
    double rate = t->m.total / machine_between_log(&t->m, 6.5, 240);
    return rate < 25e9 ? rate : machine_between_log(&t->m, 2e9, 25e9); /* no faster on larger ones: the driver clears what it takes */
}

static void culprit(struct trial *t, enum memory_kind kind) {
    server(t, machine_between(&t->m, 0.05, 0.6));
    double most = headroom(t) * 1.5, rate = any_rate(t);
    struct program *p = grower(t, kind, rate, most);
    p->guilty = true;
    t->most = (int64_t)((double)t->warm + (most / rate + 45) * 1e9);
}

/* ---- collapses -------------------------------------------------------------------------------------------------------- */

static void collapse_gpu(struct trial *t) {
    culprit(t, OF_GPU);
    t->m.answer_every = (int64_t)machine_between(&t->m, 100e6, 500e6);
}

static void collapse_anon(struct trial *t) {
    culprit(t, OF_ANON);
}

static void collapse_shared(struct trial *t) {
    culprit(t, OF_SHMEM);
}

static void collapse_late_answer(struct trial *t) {
    culprit(t, OF_GPU);
    t->m.answer_every = 2 * SECOND;
    t->m.answer_delay = (int64_t)machine_between(&t->m, 0.1e9, 1.5e9);
}

static void collapse_no_answer(struct trial *t) {
    culprit(t, OF_GPU);
    t->m.answer_every = 0;
}

static void collapse_from_thin(struct trial *t) {
    double level = machine_between(&t->m, 0.4, 0.9) * (double)t->policy.floor;
    server(t, 0.3);
    struct program *p = &t->m.programs[t->server];
    p->gpu += headroom(t) - level;
    t->warm = 60 * SECOND;
    double rate = t->m.total / machine_between_log(&t->m, 60, 600); /* drawn by itself: compilers differ in the order of arguments */
    p = grower(t, machine_random(&t->m) < 0.5 ? OF_GPU : OF_ANON, rate, level * 1.5);
    p->guilty = true;
    p->shape = STEADILY;
    t->m.swap_total = 0;    /* it would take it all */
    t->must_by = level / 8; /* the room there is: it stands below the floor by itself */
    t->most = t->warm + 120 * SECOND;
}

static void leak(struct trial *t) {
    t->m.swap_total = 0; /* the kernel would swap for an hour before it is short */
    server(t, machine_between(&t->m, 0.2, 0.7));
    double rate = (double)t->policy.floor / machine_between_log(&t->m, 30, 400), left = headroom(t) - 1.6 * (double)t->policy.floor;
    struct program *s = &t->m.programs[t->server];
    s->gpu += left; /* near, so that the trial is short */
    struct program *p = grower(t, machine_random(&t->m) < 0.5 ? OF_GPU : OF_ANON, rate, 3.0 * (double)t->policy.floor);
    p->guilty = true;
    p->shape = STEADILY;
    t->must_by = 0.4 * (double)t->policy.floor; /* slower than what the machine wanders by: seen as a drift of half of that */
    t->most = (int64_t)((double)t->warm + 2.5 * (double)t->policy.floor / rate * 1e9);
}

static void storm(struct trial *t) {
    struct machine *m = &t->m;
    uint64_t seed = m->seed;
    double total = m->total;
    struct uma_guard_policy policy = t->policy;
    machine_begin(m, seed, total); /* its root is program 0 */
    t->policy = policy;
    int root = machine_program(m, "make", -1);
    m->programs[root].anon = total / 4096;
    m->programs[root].guilty = true;
    (void)innocent(t, "python3", 0.02 * total, total / 4096);
    server(t, machine_between(m, 0.1, 0.6));
    m->spawn_size = headroom(t) / machine_between(m, 60, 300);
    m->spawn_every = (int64_t)(m->spawn_size / any_rate(t) * 1e9) + 2 * MS;
    m->next_spawn = m->now + t->warm;
    t->most = t->warm + 380 * m->spawn_every + 40 * SECOND;
}

static void tenants(struct trial *t) {
    int which = 5 + (int)(machine_random(&t->m) * 40);
    struct program *p;
    double each = 0.6 * t->m.total / 50;
    for (int i = 0; i < 49; i++)
        (void)innocent(t, "tenant", machine_between(&t->m, 0.2, 1.5) * each, t->m.total / 8192);
    (void)which;
    double rate = any_rate(t), most = headroom(t) * 1.5;
    p = grower(t, OF_ANON, rate, most);
    p->guilty = true;
    t->most = (int64_t)((double)t->warm + (most / rate + 40) * 1e9);
}

static void beside_large(struct trial *t) {
    server(t, 0.05);
    double left = headroom(t) - machine_between(&t->m, 2, 4) * (double)t->policy.floor;
    int large = innocent(t, "redis-server", left, t->m.total / 8192);
    t->m.programs[large].start = 50;
    double rate = any_rate(t), most = headroom(t) * 1.3;
    grower(t, machine_random(&t->m) < 0.5 ? OF_GPU : OF_ANON, rate, most)->guilty = true;
    t->most = (int64_t)((double)t->warm + (most / rate + 40) * 1e9);
}

/* A fork of a large program shows all its pages twice, and takes none. */
static void beside_fork(struct trial *t) {
    beside_large(t);
    int large = 0;
    for (int i = 0; i < t->m.n; i++)
        if (strcmp(t->m.programs[i].name, "redis-server") == 0)
            large = i;
    t->m.programs[large].large = true; /* vary.c adds the child's pages to its table */
}

static void swap_thrash(struct trial *t) {
    t->m.swap_total = t->m.total / 4;
    t->m.swap_below = machine_between(&t->m, 0.2, 1.5) * (double)t->policy.floor;
    server(t, machine_between(&t->m, 0.1, 0.5));
    double rate = any_rate(t), most = headroom(t) + t->m.swap_total * 1.2;
    grower(t, OF_ANON, rate, most)->guilty = true;
    t->must_by = 0.5 * (double)t->policy.floor; /* the kernel makes a slow fall of a fast one, and stands at its own marks meanwhile */
    t->most = (int64_t)((double)t->warm + (most / rate + 40) * 1e9);
}

static void past_envelope(struct trial *t) {
    server(t, machine_between(&t->m, 0.1, 0.5));
    double room = headroom(t) - (double)t->policy.floor, rate = any_rate(t);
    struct program *p = grower(t, OF_GPU, rate, room * 2);
    p->guilty = true;
    p->envelope = 0;
    t->envelopes = true;
    t->m.envelope = (struct uma_guard_envelope){ .id = 1, .pid = p->pid, .need = (uint64_t)(room * machine_between(&t->m, 0.3, 0.95)) };
    t->most = (int64_t)((double)t->warm + (room * 2 / rate + 40) * 1e9);
}

static void late_release(struct trial *t) {
    culprit(t, OF_GPU);
    for (int i = 0; i < t->m.n; i++)
        if (t->m.programs[i].guilty) {
            t->m.programs[i].flags |= UMA_GUARD_NO_BRAKE; /* so that it must be ended */
            t->m.programs[i].late = (int64_t)machine_between_log(&t->m, 2e9, 120e9);
            t->most += t->m.programs[i].late;
        }
    t->must_by = 0;
}

static void unkillable(struct trial *t) {
    culprit(t, OF_GPU);
    for (int i = 0; i < t->m.n; i++)
        if (t->m.programs[i].guilty)
            t->m.programs[i].unkillable = true;
    t->hopeless = true;
}

static void guard_waits(struct trial *t) {
    culprit(t, machine_random(&t->m) < 0.5 ? OF_GPU : OF_ANON);
    t->sleep_for = SECOND;
    t->sleep_at = t->warm + (int64_t)machine_between(&t->m, -2e9, 6e9);
    for (int i = 0; i < t->m.n; i++)
        if (t->m.programs[i].guilty) /* what a second of it does not eat up */
            t->m.programs[i].rate = machine_between_log(&t->m, 0.05, 0.5) * (double)t->policy.floor;
    t->m.programs[t->server].gpu += headroom(t) - machine_between(&t->m, 1.5, 3) * (double)t->policy.floor;
    t->must_by = 0.25 * (double)t->policy.floor;
    t->most = t->warm + 120 * SECOND;
}

/* ---- healthy ------------------------------------------------------------------------------------------------------------ */

static void load_declared(struct trial *t) {
    server(t, machine_between(&t->m, 0.05, 0.4));
    double rate = any_rate(t), spare = (1.02 + machine_random(&t->m)) * (double)t->policy.floor + t->m.total / 96;
    double amount = headroom(t) - spare;
    struct program *p = grower(t, machine_random(&t->m) < 0.7 ? OF_GPU : OF_ANON, rate, amount * 0.98);
    p->envelope = 0;
    t->envelopes = true;
    t->m.envelope = (struct uma_guard_envelope){ .id = 1, .pid = p->pid, .need = (uint64_t)(amount + 0.006 * t->m.total) };
    t->m.answer_every = machine_random(&t->m) < 0.3 ? 2 * SECOND : 250 * MS;
    t->healthy = true;
    t->most = (int64_t)((double)t->warm + (amount / rate + 20) * 1e9);
}

static void load(struct trial *t) { /* ends further from the floor than the horizon and a little */
    server(t, machine_between(&t->m, 0.05, 0.3));
    double rate = any_rate(t), lump = 2 * rate * 0.75 + 0.02 * t->m.total, amount = headroom(t) - (double)t->policy.floor - lump;
    t->healthy = true;
    if (amount <= 0)
        amount = 0.01 * t->m.total;
    (void)grower(t, machine_random(&t->m) < 0.6 ? OF_GPU : OF_ANON, rate, amount);
    t->most = (int64_t)((double)t->warm + (amount / rate + 20) * 1e9);
}

static void load_near(struct trial *t) { /* ends nearer than that, above the floor */
    server(t, machine_between(&t->m, 0.05, 0.3));
    double rate = any_rate(t), amount = headroom(t) - machine_between(&t->m, 1.3, 2) * (double)t->policy.floor;
    t->healthy = t->brakes_spared = true;
    (void)grower(t, machine_random(&t->m) < 0.6 ? OF_GPU : OF_ANON, rate, amount);
    t->most = (int64_t)((double)t->warm + (amount / rate + 120) * 1e9);
}

static void dip(struct trial *t) {
    load(t);
    for (int i = 0; i < t->m.n; i++)
        if (t->m.programs[i].rate > 0) {
            t->m.programs[i].gives_back = true;
            t->m.programs[i].keep = (int64_t)machine_between(&t->m, 0.05e9, 10e9);
        }
}

static void cache(struct trial *t) {
    server(t, machine_between(&t->m, 0.1, 0.7));
    t->m.cache_rate = any_rate(t);
    t->healthy = true;
    t->m.per_cpu = 0;
}

static void thin(struct trial *t) {
    double level = machine_between(&t->m, 0.35, 0.95) * (double)t->policy.floor;
    server(t, 0.3);
    t->m.programs[t->server].gpu += headroom(t) - level;
    t->m.noise_size = t->m.noise_size < level / 16 ? t->m.noise_size : level / 16;
    double wanders = level / 2 < t->m.total / 96 ? level / 2 : t->m.total / 96;
    t->m.excursion_goal = machine_between(&t->m, 0.1, 0.8) * wanders;
    t->m.next_excursion = t->m.now + 40 * SECOND;
    t->healthy = true;
    t->most = 200 * SECOND;
}

static void noise(struct trial *t) {
    double level = machine_between(&t->m, 1.5, 4) * (double)t->policy.floor;
    server(t, 0.3);
    t->m.programs[t->server].gpu += headroom(t) - level;
    t->m.excursion_goal = machine_between(&t->m, 0.2, 1.1) * t->m.total / 96;
    if (t->m.excursion_goal > 0.3 * (level - (double)t->policy.floor))
        t->m.excursion_goal = 0.3 * (level - (double)t->policy.floor);
    t->m.next_excursion = t->m.now + 2 * SECOND;
    t->healthy = true;
    t->most = 200 * SECOND;
}

static void tenants_healthy(struct trial *t) {
    tenants(t);
    for (int i = 0; i < t->m.n; i++)
        if (t->m.programs[i].guilty) {
            t->m.programs[i].guilty = false;
            t->m.programs[i].amount = 0;
        } else if (!(t->m.programs[i].flags & UMA_GUARD_PROTECTED)) {
            t->m.programs[i].jitter = t->m.programs[i].anon * machine_random(&t->m) * 0.2;
        }
    t->healthy = true;
    t->most = 90 * SECOND;
}

const struct kind kinds[] = {
    { "collapse-gpu", "the driver takes it; its answers are fresh", collapse_gpu },
    { "collapse-anon", "private memory", collapse_anon },
    { "collapse-shared", "shared memory", collapse_shared },
    { "collapse-late-answer", "the driver answers every 2 s, late", collapse_late_answer },
    { "collapse-no-answer", "the driver does not answer at all", collapse_no_answer },
    { "collapse-from-thin", "out of a level below the floor", collapse_from_thin },
    { "leak", "slower than the machine wanders", leak },
    { "storm", "a storm of forks, each small", storm },
    { "tenants", "one of 50 tenants", tenants },
    { "beside-large", "a small program beside a large one", beside_large },
    { "beside-fork", "beside a large one that forks", beside_fork },
    { "swap", "into swap until it thrashes", swap_thrash },
    { "past-envelope", "a job that takes more than it declared", past_envelope },
    { "late-release", "it must be ended, and the driver gives back late", late_release },
    { "unkillable", "it cannot be ended", unkillable },
    { "guard-waits", "the scheduler keeps the guard waiting for 1 s", guard_waits },
    { "load-declared", "healthy: a load inside what it declared", load_declared },
    { "load", "healthy: a load that ends well above the floor", load },
    { "load-near", "healthy: a load that ends near the floor", load_near },
    { "dip", "healthy: a load that gives back what it staged", dip },
    { "cache", "healthy: page cache fills free memory", cache },
    { "thin", "healthy: a server that stands below the floor", thin },
    { "noise", "healthy: noise and excursions above the floor", noise },
    { "tenants-healthy", "healthy: 50 tenants that come and go", tenants_healthy },
};
const size_t n_kinds = LENGTH(kinds);
