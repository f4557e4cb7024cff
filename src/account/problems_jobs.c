/* SPDX-License-Identifier: MIT */
/* problems_jobs.c - the jobs on the pool: memory that an ended one has not given back, limits that do not bind, two that do not fit. */
#include "account/holder_kinds.h"
#include "account/problems.h"
#include "account/values.h"
#include "base/units.h"

#include <string.h>

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.@:-"

static const char *holder_name(const struct uma_holder *h) {
    return h->name ? h->name : "?";
}

/*
 * The driver lists a process that has ended: its memory is on its way back, which took 2 to 5 s for 92 GB and once four minutes
 * (engine-preflight; model-serving-minefield trap 81). A start now would be refused or fail.
 */
static void memory_releasing(struct uma_problem_site *site) {
    uint64_t bytes = 0;
    size_t n = 0;
    const struct uma_holder *first = NULL;
    for (size_t i = 0; i < site->account->n_holders; i++) {
        const struct uma_holder *h = &site->account->holders[i];
        if (!h->exited)
            continue;
        first = first ? first : h;
        n++;
        bytes = uma_add(bytes, uma_or(h->gpu_bytes, 0));
    }
    if (!first || bytes < 64 * UMA_MIB)
        return;
    const char *others = n > 1 ? uma_problem_text(site, " and %zu more", n - 1) : "";
    /* nine tenths: the rest may go to others meanwhile, and a wait for the last byte would never end */
    uint64_t wanted = uma_add(bytes / 10 * 9, uma_or(site->account->headroom.budget, 0)) / UMA_GIB;
    uma_problem_add(site, "memory-releasing", bytes >= UMA_GIB ? UMA_WARNING : UMA_INFO,
                    "memory of a program that has ended is not back yet: wait for it",
                    uma_problem_text(site, "umactl require --bytes %lluG --wait 5m", (unsigned long long)(wanted > 0 ? wanted : 1)),
                    "the driver still lists %s for pid %d (%s)%s, which has ended", uma_problem_bytes(site, bytes), (int)first->pid,
                    holder_name(first), others);
}

/* NVIDIA's own per-container limit, where a library and driver have it, does count CUDA memory. */
static bool driver_limits(const struct uma_snapshot *s) {
    for (size_t i = 0; i < s->gpus.n; i++)
        if (uma_or(s->gpus.list[i].container_limit, 0) > 0)
            return true;
    return false;
}

/* Names as the runtimes and systemd allow them, so that a command can have one as it is. */
static bool plain(const char *name) {
    return name && name[0] && name[0] != '-' && strlen(name) <= 128 && name[strspn(name, PLAIN)] == '\0';
}

static const char *runtime_of(const struct uma_problem_site *site, const struct uma_holder *h) {
    const struct uma_process *p = uma_process_find(site->index, h->pid);
    bool known = p && p->container >= 0 && (size_t)p->container < site->snapshot->n_containers;
    return known ? site->snapshot->containers[p->container].runtime : NULL;
}

/* Whole GiB that a start of the same job takes from the pool: no limit of a cgroup keeps it to less. */
static unsigned long long gib_needed(uint64_t gpu, uint64_t anon) {
    return (unsigned long long)((uma_add(gpu, anon) + UMA_GIB - 1) / UMA_GIB);
}

/*
 * The limit cannot be made to count, and cutting the engine's own fraction to the limit would only keep it from starting. What helps is to
 * let measured memory decide at its next start instead of the limit.
 */
static const char *gated_start(struct uma_problem_site *site, const struct uma_holder *h) {
    unsigned long long need = gib_needed(uma_or(h->gpu_bytes, 0), uma_or(h->anon_bytes, 0));
    const char *runtime = runtime_of(site, h);
    bool starts = runtime && (strcmp(runtime, "docker") == 0 || strcmp(runtime, "podman") == 0);
    if (h->container && starts && plain(h->container))
        return uma_problem_text(site, "umactl require --bytes %lluG && %s start %s", need, runtime, h->container);
    const char *end = !h->container && plain(h->unit) ? strrchr(h->unit, '.') : NULL;
    if (end && strcmp(end, ".service") == 0 && strncmp(h->unit, "user@", 5) != 0)
        return uma_problem_text(site, "umactl require --bytes %lluG && sudo systemctl start %s", need, h->unit);
    return uma_problem_text(site, "umactl run --need %lluG -- JOB", need);
}

/* What does cap it, when something does. */
static const char *engine_cap(struct uma_problem_site *site, const struct uma_holder *h) {
    if (h->cap.present && uma_usable(h->cap.bytes.validity))
        return uma_problem_text(site, "; what caps it is its own option: %s, %s", uma_problem_bytes(site, h->cap.bytes.value),
                                h->cap.source ? h->cap.source : "?");
    return "; only an option of the program itself could cap it";
}

/*
 * The driver takes its pages without __GFP_ACCOUNT: no cgroup counts or limits them (nv-vm.c; 12 GiB of cudaMalloc under MemoryMax=8G
 * raised memory.current by 0.4: model-serving-minefield issue 57; AMD's GTT likewise: legacy-rocm-build issue 6370). Reported for the
 * largest such process: as a warning when it holds more than its limit, as an info in a container, where people count on the limit.
 */
static void container_limit_not_cuda(struct uma_problem_site *site) {
    uint64_t total = uma_or(site->account->headroom.total, 0);
    const struct uma_holder *worst = NULL;
    if (!site->share->any || total == 0 || driver_limits(site->snapshot))
        return;
    for (size_t i = 0; i < site->account->n_holders; i++) {
        const struct uma_holder *h = &site->account->holders[i];
        uint64_t gpu = uma_or(h->gpu_bytes, 0);
        if (h->exited || gpu < UMA_GIB || h->container_limit.validity != UMA_KNOWN || h->container_limit.value >= total)
            continue;
        if ((gpu > h->container_limit.value || h->container) && (!worst || gpu > worst->gpu_bytes.value))
            worst = h;
    }
    if (!worst)
        return;
    uint64_t limit = worst->container_limit.value, gpu = worst->gpu_bytes.value;
    const char *where = worst->container ? worst->container : worst->unit ? worst->unit : "its cgroup";
    uma_problem_add(site, "container-limit-not-cuda", gpu > limit ? UMA_WARNING : UMA_INFO,
                    "a container's or service's memory limit does not count GPU memory", gated_start(site, worst),
                    "%s (pid %d) holds %s of GPU memory under the %s limit of %s%s", holder_name(worst), (int)worst->pid,
                    uma_problem_bytes(site, gpu), uma_problem_bytes(site, limit), where, engine_cap(site, worst));
}

/* ---- two heavy jobs ----------------------------------------------------------------------------------------- */

struct job {
    const char *container;
    const struct uma_holder *first; /* its largest process */
    uint64_t gpu, envelope;         /* now, and what it may grow to when that is known */
    uint64_t anon;                  /* of its processes on the GPU: they take it from the same pool */
    int32_t root;                   /* the oldest process that is still part of the job */
    bool capped;
};

/* Workers, engine and launcher are one job: up the parents as long as they are engines, launchers or Python. */
static int32_t job_root(struct uma_problem_site *site, int32_t pid) {
    const struct uma_process *p = uma_process_find(site->index, pid);
    for (int i = 0; p && i < UMA_ANCESTORS_MAX; i++) {
        struct uma_program program;
        const struct uma_process *parent = p->ppid > 1 && p->ppid != p->pid ? uma_process_find(site->index, p->ppid) : NULL;
        if (!parent)
            break;
        uma_program_recognise(parent, site->account->headroom.total, site->arena, &program);
        if (!program.kind && !program.python)
            break;
        p = parent;
    }
    return p ? p->pid : pid;
}

static bool siblings(const struct uma_problem_site *site, const struct uma_holder *a, const struct uma_holder *b) {
    const struct uma_process *x = uma_process_find(site->index, a->pid), *y = uma_process_find(site->index, b->pid);
    return x && y && x->ppid == y->ppid && x->ppid > 1 && strcmp(a->kind, b->kind) == 0; /* ranks of one launcher that is not known */
}

static struct job *job_of(struct uma_problem_site *site, struct job *jobs, size_t *n, const struct uma_holder *h) {
    int32_t root = job_root(site, h->pid);
    for (size_t i = 0; i < *n; i++)
        if (jobs[i].root == root || (h->container && jobs[i].container && strcmp(h->container, jobs[i].container) == 0) ||
            siblings(site, h, jobs[i].first))
            return &jobs[i];
    jobs[*n] = (struct job){ .root = root, .container = h->container, .first = h };
    return &jobs[(*n)++];
}

static size_t collect_jobs(struct uma_problem_site *site, struct job jobs[UMA_HOLDERS_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < site->account->n_holders; i++) {
        const struct uma_holder *h = &site->account->holders[i];
        if (h->exited || uma_or(h->gpu_bytes, 0) == 0)
            continue;
        struct job *job = job_of(site, jobs, &n, h);
        uint64_t cap = h->cap.present ? uma_or(h->cap.bytes, 0) : 0;
        job->gpu = uma_add(job->gpu, h->gpu_bytes.value);
        job->anon = uma_add(job->anon, uma_or(h->anon_bytes, 0));
        job->envelope = cap > job->envelope ? cap : job->envelope;
        job->capped |= h->cap.present && h->role == UMA_ROLE_SERVE;
    }
    return n;
}

/*
 * Two jobs that each hold an eighth of the machine: they share its bandwidth (93.9 to 35.6-40 TFLOP/s measured beside another), and the
 * one that still grows can end both. Servers that are all capped and whose caps fit together are somebody's plan, and so is a small
 * fine-tuning beside a server (under 4 GB was seen fine): neither is reported.
 */
static void two_heavy_jobs(struct uma_problem_site *site) {
    struct job jobs[UMA_HOLDERS_MAX];
    const struct job *heavy[2] = { 0 };
    uint64_t total = uma_or(site->account->headroom.total, 0), together = 0;
    size_t n_heavy = 0;
    bool all_capped = true;
    if (!site->share->any || total == 0)
        return;
    size_t n = collect_jobs(site, jobs);
    for (size_t i = 0; i < n; i++) {
        if (jobs[i].gpu < total / 8)
            continue;
        if (n_heavy < 2)
            heavy[n_heavy] = &jobs[i];
        n_heavy++;
        together = uma_add(together, jobs[i].envelope > jobs[i].gpu ? jobs[i].envelope : jobs[i].gpu);
        all_capped &= jobs[i].capped;
    }
    bool too_much = together > uma_sub(total, uma_or(site->account->headroom.reserve, 0));
    if (n_heavy < 2 || (all_capped && !too_much))
        return;
    uma_problem_add(site, "two-heavy-jobs", UMA_WARNING,
                    "two heavy jobs share the pool: each slows the other, and the one that grows can end both",
                    uma_problem_text(site, "umactl run --wait 2h --need %lluG -- JOB", gib_needed(heavy[1]->gpu, heavy[1]->anon)),
                    "%s (%s, pid %d) holds %s and %s (%s, pid %d) %s of GPU memory; with their caps %s of %s", holder_name(heavy[0]->first),
                    heavy[0]->first->kind, (int)heavy[0]->first->pid, uma_problem_bytes(site, heavy[0]->gpu), holder_name(heavy[1]->first),
                    heavy[1]->first->kind, (int)heavy[1]->first->pid, uma_problem_bytes(site, heavy[1]->gpu),
                    uma_problem_bytes(site, together), uma_problem_bytes(site, total));
}

void uma_problems_jobs(struct uma_problem_site *site) {
    memory_releasing(site);
    container_limit_not_cuda(site);
    two_heavy_jobs(site);
}
