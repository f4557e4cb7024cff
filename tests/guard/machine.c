/* SPDX-License-Identifier: MIT */
#include "guard/machine.h"

#include <math.h>
#include <string.h>

#define STEP (2 * MS) /* the driver takes 40 MB in it at 20 GB/s */

double machine_random(struct machine *m) { /* splitmix64 */
    uint64_t z = (m->seed += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

double machine_between(struct machine *m, double low, double high) {
    return low + (high - low) * machine_random(m);
}

double machine_between_log(struct machine *m, double low, double high) {
    return exp(machine_between(m, log(low), log(high)));
}

void machine_begin(struct machine *m, uint64_t seed, double total) {
    memset(m, 0, sizeof(*m));
    m->seed = seed;
    m->now = 1000 * SECOND;
    m->total = total;
    m->kernel = total / 64;
    m->cache = total / 20;
    m->noise_size = total / 122 * 0.1; /* 107 MiB in 5 s of 122 GiB */
    m->answer_every = 250 * MS;
    m->answer_delay = 30 * MS;
    m->lowest = total;
}

int machine_program(struct machine *m, const char *name, int parent) {
    int i = 0;
    while (i < m->n && (m->programs[i].used))
        i++;
    if (i == m->n) {
        if (m->n == MACHINE_PROGRAMS)
            return -1;
        m->n++;
    }
    struct program *p = &m->programs[i];
    *p = (struct program){
        .used = true, .alive = true, .pid = 1000 + (int32_t)(m->seed % 7) + 10 * i, .envelope = -1, .start = (uint64_t)(m->now / (10 * MS))
    };
    p->tree = parent < 0 ? i : m->programs[parent].tree;
    p->parent = parent < 0 ? 0 : m->programs[parent].pid;
    strncpy(p->name, name, sizeof(p->name) - 1);
    return i;
}

const struct program *machine_find(const struct machine *m, int32_t pid) {
    for (int i = 0; i < m->n; i++)
        if (m->programs[i].used && m->programs[i].pid == pid)
            return &m->programs[i];
    return NULL;
}

double machine_available(const struct machine *m) {
    double held = m->kernel + m->noise + m->excursion + m->per_cpu;
    for (int i = 0; i < m->n; i++)
        if (m->programs[i].used)
            held += m->programs[i].anon + m->programs[i].shmem + m->programs[i].gpu + m->programs[i].ghost;
    return m->total - held;
}

/* ---- programs ----------------------------------------------------------------------------------------------------- */

static void add(struct program *p, enum memory_kind kind, double bytes) {
    *(kind == OF_GPU ? &p->gpu : kind == OF_ANON ? &p->anon : &p->shmem) += bytes;
}

static double speed(const struct program *p, int64_t now) {
    double t = (double)(now - p->begin) / 1e9;
    if (p->shape == FASTER)
        return p->rate * fmin(1, 0.1 + t);
    if (p->shape == IN_BURSTS)
        return fmod(t, 0.5) < 0.25 ? 2 * p->rate : 0;
    return p->rate;
}

static void take(struct machine *m, struct program *p, double dt) {
    if (p->shape == IN_LUMPS && p->in_call <= 0 && !p->stopped)
        p->in_call = fmin(p->lump, p->amount - p->taken);
    bool stopped = p->stopped && !p->cannot_stop;
    double bytes = speed(p, m->now) * dt;
    if (stopped)
        bytes = fmin(bytes, p->in_call);
    bytes = fmin(bytes, p->amount - p->taken);
    if (bytes <= 0)
        return;
    p->in_call = fmax(0, p->in_call - bytes);
    p->taken += bytes;
    add(p, p->kind, bytes);
    if (p->taken >= p->amount * (1 - 1e-9))
        p->ended = m->now;
}

static void give_back(struct program *p) {
    add(p, p->kind, -p->taken);
    p->taken = 0;
    p->gives_back = false;
    p->amount = 0;
}

static void die(struct machine *m, struct program *p) {
    p->ghost = p->gpu;
    p->ghost_until = m->now + p->late;
    m->swap_used -= p->swap;
    p->anon = p->shmem = p->gpu = p->swap = p->in_call = 0;
    p->alive = false;
}

static void signals(struct machine *m, struct program *p) {
    if (p->stop_at && m->now >= p->stop_at) {
        p->stopped = true;
        p->stop_at = 0;
    }
    if (p->cont_at && m->now >= p->cont_at) {
        p->stopped = false;
        p->cont_at = 0;
    }
    if (p->exit_at && m->now >= p->exit_at && !p->unkillable) {
        p->exit_at = 0;
        die(m, p);
    }
}

static void wander(struct machine *m, struct program *p) {
    if (p->jitter <= 0 || p->stopped)
        return;
    double to = p->jitter * machine_random(m), step = (to - p->wander) / 50;
    p->wander += step;
    add(p, p->kind == OF_SHMEM ? OF_SHMEM : OF_ANON, step);
}

static void program_step(struct machine *m, struct program *p, double dt) {
    if (!p->alive) {
        if (p->ghost > 0 && m->now >= p->ghost_until)
            p->ghost = 0;
        return;
    }
    signals(m, p);
    if (!p->alive)
        return;
    wander(m, p);
    if (p->rate > 0 && m->now >= p->begin && p->taken < p->amount && !p->ended)
        take(m, p, dt);
    if (p->gives_back && p->ended && m->now >= p->ended + p->keep && !p->stopped)
        give_back(p);
}

/* ---- the machine ---------------------------------------------------------------------------------------------------- */

static void spawn(struct machine *m) {
    if (m->spawn_every == 0 || m->now < m->next_spawn)
        return;
    m->next_spawn = m->now + m->spawn_every;
    if (m->programs[0].stopped || !m->programs[0].alive)
        return;
    int i = machine_program(m, "worker", 0);
    if (i < 0)
        return;
    struct program *p = &m->programs[i];
    p->guilty = true;
    p->kind = OF_ANON;
    p->rate = m->spawn_size * 20;
    p->amount = m->spawn_size;
    p->begin = m->now;
}

static void noise_step(struct machine *m) {
    m->noise += (machine_between(m, -1, 1) * m->noise_size - m->noise) / 200;
    if (m->next_excursion && m->now >= m->next_excursion) {
        m->excursion_until = m->now + (int64_t)machine_between(m, 0.5e9, 4e9);
        m->next_excursion = m->now + (int64_t)machine_between(m, 5e9, 40e9);
    }
    double goal = m->now < m->excursion_until ? m->excursion_goal : 0;
    m->excursion += (goal - m->excursion) / 250; /* comes and goes in half a second */
}

static void answer(struct machine *m) {
    if (m->answer_every == 0)
        return;
    if (m->asked == 0 || (m->now >= m->asked + m->answer_every && m->answered_before <= m->asked)) {
        m->asked = m->now;
        for (int i = 0; i < m->n; i++) { /* it answers with what was when it was asked */
            struct program *p = &m->programs[i];
            p->gpu_said_before = p->gpu_said;
            p->said_before = p->said;
            p->gpu_said = p->gpu;
            p->said = p->used && p->alive && p->gpu > 0;
        }
        m->answered_before = m->answered;
        m->answered = m->now;
    }
}

/* Pages are swapped out where there is swap and memory is short; whoever lost them wants them back. */
static void swap_step(struct machine *m, double dt) {
    double available = machine_available(m), want = m->swap_below;
    if (m->swap_total <= m->swap_used || available > want)
        return;
    for (int i = 0; i < m->n; i++) {
        struct program *p = &m->programs[i];
        double bytes = fmin(p->anon / 2, fmin(m->total / 200 * dt, m->swap_total - m->swap_used));
        if (!p->used || !p->alive || bytes <= 0)
            continue;
        p->anon -= bytes;
        p->swap += bytes;
        m->swap_used += bytes;
    }
}

static void stall_step(struct machine *m, double available, double dt) {
    double short_by = 1 - available / (m->total / 256);
    if (short_by <= 0)
        return;
    m->stalls += 400 * short_by * dt;
    if (short_by > 0.5) /* pressure shows last */
        m->pressure += 0.5 * dt * 1e9;
}

void machine_run(struct machine *m, int64_t until) {
    while (m->now < until && !m->frozen) {
        int64_t step = until - m->now < STEP ? until - m->now : STEP;
        double dt = (double)step / 1e9;
        m->now += step;
        spawn(m);
        for (int i = 0; i < m->n; i++)
            if (m->programs[i].used)
                program_step(m, &m->programs[i], dt);
        noise_step(m);
        answer(m);
        swap_step(m, dt);
        m->cache = fmin(m->cache + m->cache_rate * dt, m->total);
        double available = machine_available(m);
        m->lowest = fmin(m->lowest, available);
        m->frozen = available < m->total / 4096;
        stall_step(m, available, dt);
    }
}

/* ---- what the guard sees -------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(double v) {
    return v > 0 ? (uint64_t)v : 0;
}

void machine_read(struct machine *m, struct uma_guard_reading *r) {
    double available = machine_available(m), anon = 0, shmem = 0, gpu = 0;
    for (int i = 0; i < m->n; i++) {
        const struct program *p = &m->programs[i];
        anon += p->used ? p->anon : 0;
        shmem += p->used ? p->shmem : 0;
        gpu += p->said ? p->gpu_said : 0;
    }
    double cache = fmin(m->cache, fmax(available - m->total / 200, 0));
    *r = (struct uma_guard_reading){ .time = m->now,
                                     .boot = m->now,
                                     .known = UMA_GUARD_KNOWS_MEMINFO | UMA_GUARD_KNOWS_VMSTAT | UMA_GUARD_KNOWS_PRESSURE,
                                     .total = bytes_of(m->total),
                                     .free = bytes_of(available - cache),
                                     .available = bytes_of(available),
                                     .anon = bytes_of(anon),
                                     .shmem = bytes_of(shmem),
                                     .cache = bytes_of(cache),
                                     .swap_total = bytes_of(m->swap_total),
                                     .swap_free = bytes_of(m->swap_total - m->swap_used),
                                     .allocstall = bytes_of(m->stalls),
                                     .psi_some = bytes_of(m->pressure),
                                     .psi_full = bytes_of(m->pressure / 4) };
    int64_t answered = m->now - m->asked >= m->answer_delay ? m->answered : m->answered_before;
    if (m->answer_every && answered) {
        r->known |= UMA_GUARD_KNOWS_GPU;
        r->gpu_bytes = bytes_of(gpu);
        r->gpu_age_ns = m->now - answered;
    }
    if (m->per_cpu > 0 && machine_random(m) < 0.7) {
        r->known |= UMA_GUARD_KNOWS_LISTS;
        r->per_cpu = bytes_of(m->per_cpu);
    }
}

static void fill_process(struct machine *m, struct program *p, const int32_t *index, struct uma_guard_process *e) {
    bool late = m->now - m->asked < m->answer_delay;
    double gpu = late ? p->gpu_said_before : p->gpu_said;
    bool listed = late ? p->said_before : p->said, known = m->answer_every && (late ? m->answered_before : m->answered);
    int64_t between = m->answered - m->answered_before;
    *e = (struct uma_guard_process){ .pid = p->pid,
                                     .parent = p->parent,
                                     .tree = index[p->tree],
                                     .envelope = p->envelope,
                                     .flags =
                                         p->flags | (p->envelope >= 0 ? UMA_GUARD_DECLARED : 0u) | (p->stopped ? UMA_GUARD_STOPPED : 0u),
                                     .start = p->start,
                                     .anon = bytes_of(p->anon),
                                     .shmem = bytes_of(p->shmem),
                                     .swap = bytes_of(p->swap),
                                     .gpu = known && listed ? bytes_of(gpu) : 0,
                                     .gpu_known = known };
    double held = p->anon + p->shmem + p->swap + (known && listed ? gpu : 0);
    if (p->table_before) {
        e->grown = (int64_t)(held - p->held_before);
        e->grown_ns = m->now - p->table_before;
    }
    if (known && !late && m->answered_before && between > 0) { /* who is not in a whole answer has nothing there */
        e->gpu_grown = (int64_t)((p->said ? p->gpu_said : 0) - (p->said_before ? p->gpu_said_before : 0));
        e->gpu_grown_ns = between;
    }
    p->held_before = held;
    p->table_before = m->now;
    memcpy(e->name, p->name, sizeof(e->name));
}

void machine_take_table(struct machine *m) {
    int32_t index[MACHINE_PROGRAMS];
    m->n_table = 0;
    for (int i = 0; i < m->n; i++) {
        index[i] = (int32_t)m->n_table;
        m->n_table += m->programs[i].used && m->programs[i].alive;
    }
    for (int i = 0, k = 0; i < m->n; i++)
        if (m->programs[i].used && m->programs[i].alive) {
            fill_process(m, &m->programs[i], index, &m->table[k]);
            if (!m->programs[m->programs[i].tree].alive) /* its root is gone: it stands alone */
                m->table[k].tree = k;
            k++;
        }
    m->table_time = m->now;
}

/* ---- what the guard does ---------------------------------------------------------------------------------------------- */

static void signal_one(struct machine *m, struct program *p, enum uma_guard_action_kind kind) {
    int64_t soon = m->now + (int64_t)machine_between(m, 1e6, 5e6);
    switch (kind) {
    case UMA_GUARD_BRAKE:
        p->stop_at = soon;
        break;
    case UMA_GUARD_RELEASE:
        p->cont_at = soon;
        break;
    case UMA_GUARD_TERM:
        p->cont_at = soon;
        if (!p->ignores_term)
            p->exit_at = m->now + (int64_t)machine_between(m, 0.1e9, 3e9);
        break;
    case UMA_GUARD_KILL:
        p->exit_at = m->now + (int64_t)machine_between(m, 5e6, 200e6);
        break;
    default:
        break;
    }
}

bool machine_do(struct machine *m, const struct uma_guard_action *action) {
    int root = -1;
    for (int i = 0; i < m->n; i++)
        if (m->programs[i].used && m->programs[i].alive && m->programs[i].pid == action->pid && m->programs[i].start == action->start)
            root = i;
    if (root < 0)
        return false;
    for (int i = 0; i < m->n; i++)
        if (m->programs[i].used && m->programs[i].alive && m->programs[i].tree == m->programs[root].tree)
            signal_one(m, &m->programs[i], action->kind);
    return true;
}

bool machine_gone(const struct machine *m, int32_t pid) {
    const struct program *root = machine_find(m, pid);
    if (!root)
        return true;
    for (int i = 0; i < m->n; i++)
        if (m->programs[i].used && m->programs[i].alive && m->programs[i].tree == root->tree)
            return false;
    return true;
}
