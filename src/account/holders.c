/* SPDX-License-Identifier: MIT */
#include "account/holders.h"

#include "account/holder_kinds.h"
#include "account/values.h"
#include "base/units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Below this a process is noise in a pool of tens of GiB, whatever it is. */
static const uint64_t LEAST = 64 * UMA_MIB;
/* What a process that is no engine must hold to be worth a line: 0.5 % of the machine, 620 MiB of a Spark. */
enum { OTHER_SHARE = 200 };

/* ---- processes by pid --------------------------------------------------------------------------------------- */

struct pid_slot {
    int32_t pid;
    uint32_t at;
};

static int by_slot(const void *a, const void *b) {
    const struct pid_slot *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static const uint32_t *sorted_order(const struct uma_processes *p, struct uma_arena *arena) {
    struct pid_slot *slots = uma_arena_array(arena, p->n, sizeof(*slots));
    uint32_t *order = uma_arena_array(arena, p->n, sizeof(*order));
    if (!slots || !order)
        return NULL;
    for (size_t i = 0; i < p->n; i++)
        slots[i] = (struct pid_slot){ p->list[i].pid, (uint32_t)i };
    qsort(slots, p->n, sizeof(*slots), by_slot);
    for (size_t i = 0; i < p->n; i++)
        order[i] = slots[i].at;
    return order;
}

int uma_process_index_build(const struct uma_snapshot *snapshot, struct uma_arena *arena, struct uma_process_index *ret_index) {
    const struct uma_processes *p = &snapshot->processes;
    struct uma_process_index index = { .processes = p };
    bool sorted = true;
    for (size_t i = 0; i < p->n; i++) {
        sorted &= i == 0 || p->list[i - 1].pid < p->list[i].pid;
        /* init and kernel threads are root's: where they are hidden (hidepid=2), others are too */
        index.all_visible |= p->list[i].pid == 1 || p->list[i].kernel_thread;
    }
    if (!sorted && !(index.order = sorted_order(p, arena)))
        return -ENOMEM;
    index.all_visible &= p->source.validity == UMA_KNOWN && snapshot->platform.in_container != UMA_YES;
    *ret_index = index;
    return 0;
}

const struct uma_process *uma_process_find(const struct uma_process_index *index, int32_t pid) {
    size_t low = 0, high = index->processes->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct uma_process *p = &index->processes->list[index->order ? index->order[middle] : middle];
        if (p->pid == pid)
            return p;
        if (p->pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- choosing ----------------------------------------------------------------------------------------------- */

struct candidate {
    int32_t pid;
    const struct uma_process *process; /* NULL: only the driver knows it */
    const struct uma_gpu_holder *gpu;
    uint64_t bytes;
};

struct candidates {
    size_t n;
    struct candidate list[2 * UMA_HOLDERS_MAX]; /* half of them may fall to the threshold for others */
};

static bool holds_gpu(const struct uma_gpu_holder *gpu) {
    return gpu && uma_or(gpu->bytes, 1) > 0; /* listed without a figure: holds some */
}

/* Who is kept: GPU holders, however small, before the rest; then the larger; then the smaller pid, so that the list is always the same. */
static bool before(const struct candidate *a, const struct candidate *b) {
    if (holds_gpu(a->gpu) != holds_gpu(b->gpu))
        return holds_gpu(a->gpu);
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes;
    return a->pid < b->pid;
}

static void consider(struct candidates *c, struct candidate one) {
    if (c->n == ELEMENTS(c->list)) {
        if (!before(&one, &c->list[c->n - 1]))
            return;
        c->n--;
    }
    size_t at = c->n++;
    for (; at > 0 && before(&one, &c->list[at - 1]); at--)
        c->list[at] = c->list[at - 1];
    c->list[at] = one;
}

static void choose(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, const struct uma_process_index *index,
                   struct candidates *c) {
    for (size_t i = 0; i < snapshot->processes.n; i++) {
        const struct uma_process *p = &snapshot->processes.list[i];
        const struct uma_gpu_holder *gpu = uma_gpu_share_find(share, p->pid);
        uint64_t bytes = uma_add(gpu ? uma_or(gpu->bytes, 0) : 0, uma_add(uma_or(p->rss_anon, 0), uma_or(p->rss_shmem, 0)));
        if (!p->kernel_thread && (holds_gpu(gpu) || bytes >= LEAST))
            consider(c, (struct candidate){ p->pid, p, gpu, bytes });
    }
    for (size_t i = 0; i < share->n; i++)
        if (holds_gpu(&share->list[i]) && !uma_process_find(index, share->list[i].pid))
            consider(c, (struct candidate){ share->list[i].pid, NULL, &share->list[i], uma_or(share->list[i].bytes, 0) });
}

/* ---- describing --------------------------------------------------------------------------------------------- */

/*
 * Gone, dead, or past the point where the kernel took its memory map (no arguments and no VmRSS line): what the driver still lists for
 * it is being released. A leader that ended while its threads run on is a zombie that is alive.
 */
static bool has_exited(const struct candidate *c, const struct uma_process_index *index) {
    const struct uma_process *p = c->process;
    if (!holds_gpu(c->gpu))
        return false;
    if (!p)
        return index->all_visible;
    if (p->state == 'X' || (p->state == 'Z' && p->threads <= 1))
        return true;
    return p->argc == 0 && p->rss.validity == UMA_ABSENT;
}

static bool is_kind(const char *kind, const char *wanted) {
    return kind && strcmp(kind, wanted) == 0;
}

/* May what a parent was given hold for this child? Workers lose their arguments; plain Python children are its helpers. */
static bool inherits(const struct uma_program *child, const struct uma_program *parent, bool gpu) {
    if (!parent->kind || is_kind(parent->kind, "other") || is_kind(parent->kind, "pytorch"))
        return false;
    if (is_kind(child->kind, parent->kind) || (is_kind(child->kind, "llama.cpp") && is_kind(parent->kind, "ollama")))
        return true;
    return (!child->kind && (child->python || child->worker || gpu)) || is_kind(child->kind, "pytorch");
}

static void adopt(struct uma_program *child, const struct uma_program *parent) {
    child->kind = parent->kind;
    if (child->role == UMA_ROLE_UNKNOWN || is_kind(parent->kind, "ollama"))
        child->role = parent->role;
    if (!child->model)
        child->model = parent->model;
    if (!child->cap.present && !child->cap.source)
        child->cap = parent->cap;
}

/* Nothing a parent could add: but a llama.cpp server can be Ollama's. */
static bool complete(const struct uma_program *program) {
    return program->kind && !is_kind(program->kind, "llama.cpp") && program->model && program->cap.present;
}

static void recognise(const struct candidate *c, const struct uma_process_index *index, struct uma_u64 total, struct uma_arena *arena,
                      struct uma_program *ret_program) {
    struct uma_program program, parent;
    const struct uma_process *p = c->process;
    uma_program_recognise(p, total, arena, &program);
    for (int i = 0; i < UMA_ANCESTORS_MAX && !complete(&program); i++) {
        p = p->ppid > 1 && p->ppid != p->pid ? uma_process_find(index, p->ppid) : NULL;
        if (!p)
            break;
        uma_program_recognise(p, total, arena, &parent);
        if (inherits(&program, &parent, holds_gpu(c->gpu)))
            adopt(&program, &parent);
    }
    if (!program.kind && program.python && holds_gpu(c->gpu))
        program.kind = "pytorch"; /* or another framework: nearly always this one */
    *ret_program = program;
}

/* The container's name where the runtime tells it, else the start of its id, as the runtimes themselves print it. */
static const char *container_name(const struct uma_snapshot *snapshot, int32_t at, struct uma_arena *arena) {
    if (at < 0 || (size_t)at >= snapshot->n_containers)
        return NULL;
    const struct uma_container *c = &snapshot->containers[at];
    if (c->name || !c->id)
        return c->name;
    size_t hex = strspn(c->id, "0123456789abcdef");
    return c->id[hex] == '\0' && hex > 12 ? uma_arena_strndup(arena, c->id, 12) : c->id;
}

static void describe(const struct uma_snapshot *snapshot, const struct candidate *c, const struct uma_process_index *index,
                     struct uma_arena *arena, struct uma_holder *h) {
    const struct uma_process *p = c->process;
    struct uma_program program = { 0 };
    *h = (struct uma_holder){ .pid = c->pid, .kind = "other", .exited = has_exited(c, index) };
    h->gpu_bytes = c->gpu ? c->gpu->bytes : uma_no_u64(UMA_UNKNOWN);
    if (!p)
        return;
    recognise(c, index, snapshot->meminfo.mem_total, arena, &program);
    h->name = p->name;
    h->kind = program.kind ? program.kind : "other";
    h->role = program.role;
    h->model = program.model;
    h->cap = program.cap;
    h->anon_bytes = p->rss_anon;
    h->shmem_bytes = p->rss_shmem;
    h->swap_bytes = p->swap;
    h->container = container_name(snapshot, p->container, arena);
    if (p->cgroup >= 0 && (size_t)p->cgroup < snapshot->n_cgroups) {
        h->unit = snapshot->cgroups[p->cgroup].unit;
        h->container_limit = snapshot->cgroups[p->cgroup].effective_max;
    }
}

uint64_t uma_holder_rank_bytes(const struct uma_holder *h) {
    return uma_add(uma_or(h->gpu_bytes, 0), uma_add(uma_or(h->anon_bytes, 0), uma_or(h->shmem_bytes, 0)));
}

static int largest_first(const void *a, const void *b) {
    const struct uma_holder *x = a, *y = b;
    uint64_t bx = uma_holder_rank_bytes(x), by = uma_holder_rank_bytes(y);
    if (bx != by)
        return bx > by ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

int uma_holders_build(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, const struct uma_process_index *index,
                      struct uma_arena *arena, struct uma_holder **ret_holders, size_t *ret_n) {
    struct candidates *c = uma_arena_alloc(arena, sizeof(*c));
    struct uma_holder *holders = uma_arena_array(arena, UMA_HOLDERS_MAX, sizeof(*holders));
    size_t n = 0;
    if (!c || !holders)
        return -ENOMEM;
    uint64_t others_least = uma_or(snapshot->meminfo.mem_total, 0) / OTHER_SHARE;
    /* nobody's GPU bytes are 0 when the driver was not asked, or tells of the device as a whole only: a complete list alone says so */
    bool none_means_zero = share->listed && snapshot->gpus.source.validity == UMA_KNOWN;
    /* no GPU, and nothing that says that there ought to be one: no such thing as its bytes */
    bool no_gpu = snapshot->gpus.n == 0 && !snapshot->gpus.hung && snapshot->gpus.source.validity != UMA_FAILED &&
                  snapshot->platform.unified != UMA_YES && !uma_nvidia_evident(snapshot);
    choose(snapshot, share, index, c);
    for (size_t i = 0; i < c->n && n < UMA_HOLDERS_MAX; i++) {
        struct uma_holder *h = &holders[n];
        describe(snapshot, &c->list[i], index, arena, h);
        if (!c->list[i].gpu && none_means_zero)
            h->gpu_bytes = uma_known_u64(0);
        else if (!c->list[i].gpu && no_gpu)
            h->gpu_bytes = uma_no_u64(UMA_ABSENT);
        if (holds_gpu(c->list[i].gpu) || !is_kind(h->kind, "other") || h->role != UMA_ROLE_UNKNOWN || c->list[i].bytes >= others_least)
            n++;
    }
    qsort(holders, n, sizeof(*holders), largest_first);
    *ret_holders = holders;
    *ret_n = n;
    return 0;
}
