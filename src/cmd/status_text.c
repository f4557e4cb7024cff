/* SPDX-License-Identifier: MIT */
/*
 * The text of `umactl status`: the budget first, then where the bytes are, who holds them, what other programs say, heat, and what is
 * wrong. On a terminal it fits one screen: what matters least is folded, step by step, until it does.
 */
#include "cmd/status.h"

#include "account/gpu_share.h"
#include "account/headroom.h"
#include "base/units.h"
#include "cmd/layout.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* How much is folded: level 0 folds nothing that a screen should have, the last one fits 80 x 24 whatever the machine. */
struct fold {
    size_t ledger_rows, holders, notes, problems;
    size_t evidence; /* problems whose evidence is shown, beside that of critical ones */
    bool evidence_critical, remedies, gaps;
    unsigned cut; /* lines of the evidence after those, 0: none of it */
};
static const struct fold folds[] = {
    { UMA_LEDGER_KINDS, 20, 8, UMA_PROBLEMS_MAX, UMA_PROBLEMS_MAX, true, true, true, 0 },
    { 8, 6, 4, UMA_PROBLEMS_MAX, UMA_PROBLEMS_MAX, true, true, true, 0 },
    { 7, 4, 3, UMA_PROBLEMS_MAX, UMA_PROBLEMS_MAX, true, true, true, 0 },
    { 7, 4, 3, UMA_PROBLEMS_MAX, UMA_PROBLEMS_MAX, true, true, false, 0 },
    { 6, 4, 2, UMA_PROBLEMS_MAX, UMA_PROBLEMS_MAX, true, true, false, 0 },
    { 6, 4, 2, UMA_PROBLEMS_MAX, 0, true, true, false, 0 },
    { 5, 3, 1, 4, 0, true, true, false, 0 },
    { 5, 3, 1, 3, 0, false, true, false, 0 },
    { 4, 3, 0, 3, 0, false, true, false, 0 },
    { 3, 2, 0, 3, 0, false, false, false, 0 },
};
/* A file, a pipe, and --all. */
static const struct fold everything = { UMA_LEDGER_KINDS, SIZE_MAX, SIZE_MAX, UMA_PROBLEMS_MAX, UMA_PROBLEMS_MAX, true, true, true, 0 };

struct page {
    struct uma_text *text;
    const struct uma_snapshot *snapshot;
    const struct uma_account *account;
    const struct uma_claims *claims;
    const struct uma_status_style *style;
    const struct fold *fold;
    bool complete; /* nothing is folded, no list cut */
};

/* Below this a row reads 0.0 GiB: on a terminal it goes into the row of small ones. */
#define SMALL_ROW (UMA_GIB / 20)

enum { GPUS_SHOWN = 4 }; /* in one line of a terminal */

static void heading(const struct page *p, const char *s) {
    uma_layout_ink(p->text, p->style, UMA_INK_BOLD);
    uma_text_append(p->text, s);
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
}

static void dim(const struct page *p, const char *s) {
    uma_layout_ink(p->text, p->style, UMA_INK_DIM);
    uma_text_append(p->text, s);
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
}

static void gap(const struct page *p) {
    if (p->fold->gaps)
        uma_text_char(p->text, '\n');
}

/* ---- the budget --------------------------------------------------------------------------------------------- */

/* "spark-1, dgx-spark, 2026-11-29 21:03:55", right-aligned on the headline; where that does not fit, as much of it as does. */
static void whose(const struct page *p) {
    enum { DATE_AND_TIME, TIME, NEITHER };
    const struct uma_platform *platform = &p->snapshot->platform;
    time_t seconds = (time_t)(p->snapshot->time_ns / 1000000000);
    struct tm local;
    bool has_time = p->snapshot->time_ns > 0 && localtime_r(&seconds, &local);
    for (int stamped = has_time ? DATE_AND_TIME : NEITHER; stamped <= NEITHER; stamped++) {
        _cleanup_text_ struct uma_text t = { 0 };
        if (platform->host) {
            (void)uma_text_safe(&t, platform->host, 24);
            uma_text_append(&t, ", ");
        }
        uma_text_append(&t, uma_platform_text(platform->name));
        char stamp[48] = "";
        if ((stamped == DATE_AND_TIME && strftime(stamp, sizeof stamp, ", %Y-%m-%d %H:%M:%S", &local) > 0) ||
            (stamped == TIME && strftime(stamp, sizeof stamp, ", %H:%M:%S", &local) > 0))
            uma_text_append(&t, stamp);
        size_t width = uma_text_columns(t.data ? t.data : "");
        if (!t.data || uma_layout_column(p->text) + 2 + width > p->style->columns)
            continue;
        uma_layout_to_column(p->text, p->style->columns - width);
        dim(p, t.data);
        break;
    }
    uma_text_char(p->text, '\n');
}

static void term(const struct page *p, const char *sign, struct uma_u64 value, const char *what) {
    uma_text_append(p->text, sign);
    uma_layout_gib_column(p->text, value, 0);
    uma_text_append(p->text, what);
}

/* "= 101.0 available - 6.8 reserve + 0.0 driver pools (GiB)": the sum a person can check. */
static void formula(const struct page *p) {
    const struct uma_headroom *h = &p->account->headroom;
    uma_text_append(p->text, "  = ");
    term(p, "", h->available,
         h->hugetlb_rule          ? " in free huge pages"
         : h->available_estimated ? " available (estimated: no MemAvailable)"
                                  : " available");
    term(p, " - ", h->reserve, " reserve");
    term(p, " - ", h->reserved, " reserved");
    /* unknown pools (there is no evidence either way) are not part of the sum, so not of the formula */
    if (uma_usable(h->driver_pools.validity) && h->driver_pools.value > 0)
        term(p, " + ", h->driver_pools, " driver pools");
    uma_text_append(p->text, " (GiB)");
    /* the GPU's own limit (GTT) is told where it decides */
    uint64_t pool = h->available.value - MIN_OF(h->available.value, h->reserve.value + h->reserved.value);
    if (uma_usable(h->gpu_limit.validity) && h->gpu_limit.value < pool)
        term(p, ", GPU limit ", h->gpu_limit, "");
    uma_text_char(p->text, '\n');
}

static void vector_item(const struct page *p, const char *what, const char *value) {
    size_t need = strlen(what) + 1 + strlen(value), at = uma_layout_column(p->text);
    if (at > 2 && at + 2 + need > p->style->columns)
        uma_text_append(p->text, "\n  ");
    else if (at > 2)
        uma_text_append(p->text, "  ");
    dim(p, what);
    uma_text_printf(p->text, " %s", value);
}

static void vector_gib(const struct page *p, const char *what, struct uma_u64 value) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_layout_gib_column(&t, value, 0);
    if (uma_usable(value.validity))
        uma_text_append(&t, " GiB");
    vector_item(p, what, t.data ? t.data : "?");
}

/* MemFree as the kernel has it: what it counts and nobody can have is told beside, for the ledger's row has less. */
static void now_item(const struct page *p) {
    const struct uma_headroom *h = &p->account->headroom;
    _cleanup_text_ struct uma_text t = { 0 };
    if (!uma_usable(h->now.validity) || !uma_usable(h->cma_lost.validity) || h->cma_lost.value < SMALL_ROW) {
        vector_gib(p, "now", h->now);
        return;
    }
    uma_text_gib(&t, h->now.value);
    uma_text_append(&t, ", ");
    uma_layout_gib(&t, h->cma_lost.value);
    uma_text_append(&t, " of it lost to CMA");
    vector_item(p, "now", t.data ? t.data : "?");
}

static void vector_line(const struct page *p) {
    const struct uma_headroom *h = &p->account->headroom;
    const struct uma_pressure *pressure = &p->snapshot->memory_pressure;
    uma_text_append(p->text, "  ");
    now_item(p);
    vector_gib(p, "reclaimable", h->reclaimable_cache);
    _cleanup_text_ struct uma_text block = { 0 };
    uma_layout_bytes(&block, h->largest_free_block);
    vector_item(p, "largest block", block.data ? block.data : "?");
    vector_gib(p, "swap free", h->swap_free);
    if (uma_usable(pressure->some.avg10.validity) && pressure->some.avg10.value >= 0.0005) {
        _cleanup_text_ struct uma_text t = { 0 };
        struct uma_f64 percent = pressure->some.avg10;
        percent.value *= 100;
        uma_layout_number(&t, percent, 1);
        uma_text_append(&t, " %");
        vector_item(p, "memory pressure", t.data ? t.data : "?");
    }
    uma_text_char(p->text, '\n');
}

/* A GPU with memory of its own: the budget is the system's, and a CUDA job asks for the other. */
static void own_gpu_memory(const struct page *p) {
    _cleanup_text_ struct uma_text t = { 0 };
    size_t n = 0;
    for (size_t i = 0; i < p->snapshot->gpus.n && (p->complete || n < GPUS_SHOWN); i++) {
        const struct uma_gpu *gpu = &p->snapshot->gpus.list[i];
        if ((gpu->unified != UMA_NO && gpu->numa_node <= 0) || !uma_usable(gpu->memory_free.validity))
            continue;
        uma_text_append(&t, n++ ? "; " : gpu->numa_node > 0 ? "GPU memory (HBM) is its own part of that: " : "GPU memory is separate: ");
        uma_layout_gib(&t, gpu->memory_free.value);
        uma_text_append(&t, " of ");
        uma_layout_gib_column(&t, gpu->memory_total, 0);
        uma_text_printf(&t, " GiB free on %s", gpu->name ? gpu->name : "GPU");
    }
    if (n == 0)
        return;
    uma_text_append(p->text, "  ");
    uma_layout_wrap(p->text, p->style, t.data ? t.data : "?", 2, p->complete ? 0 : 2);
}

static void budget(const struct page *p) {
    const struct uma_headroom *h = &p->account->headroom;
    bool known = uma_usable(h->budget.validity);
    if (!known) {
        uma_layout_ink(p->text, p->style, UMA_INK_RED);
        uma_text_append(p->text, "What a new job can have is unknown");
    } else {
        uma_layout_ink(p->text, p->style, UMA_INK_BOLD);
        uma_text_append(p->text, "A new job can have ");
        uma_text_gib(p->text, h->budget.value);
        uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
        uma_text_append(p->text, " of ");
        uma_layout_gib_column(p->text, h->total, 0);
        uma_text_append(p->text, " GiB");
    }
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
    whose(p);
    if (known)
        formula(p);
    else {
        const struct uma_source *source = &p->snapshot->meminfo.source;
        uma_text_append(p->text, "  ");
        _cleanup_text_ struct uma_text t = { 0 };
        const char *path = source->path ? source->path : "proc/meminfo";
        const char *detail = source->detail ? source->detail : uma_validity_name(source->validity);
        if (strncmp(detail, path, strlen(path)) != 0) /* a complaint about a place in it begins with its name */
            uma_text_printf(&t, "%s: ", path);
        uma_text_append(&t, detail);
        uma_layout_wrap(p->text, p->style, t.data ? t.data : "?", 2, 2);
    }
    _cleanup_text_ struct uma_text note = { 0 };
    if (known && uma_headroom_note(&note, p->account)) {
        uma_text_append(p->text, "  ");
        uma_layout_wrap(p->text, p->style, note.data ? note.data : "?", 2, 2);
    }
    own_gpu_memory(p);
    vector_line(p);
}

/* ---- the ledger --------------------------------------------------------------------------------------------- */

static const char *const row_texts[UMA_LEDGER_KINDS] = {
    [UMA_LEDGER_FREE] = "free",
    [UMA_LEDGER_FREE_PERCPU_LISTS] = "free, parked per CPU",
    [UMA_LEDGER_CACHE_CLEAN] = "file cache, clean",
    [UMA_LEDGER_CACHE_DIRTY] = "file cache, unwritten",
    [UMA_LEDGER_CACHE_MAPPED] = "file cache, mapped",
    [UMA_LEDGER_SHMEM] = "shared memory, tmpfs",
    [UMA_LEDGER_ANON] = "program memory",
    [UMA_LEDGER_SLAB_RECLAIMABLE] = "slab, reclaimable",
    [UMA_LEDGER_SLAB] = "slab",
    [UMA_LEDGER_KERNEL] = "kernel",
    [UMA_LEDGER_HUGETLB] = "huge pages",
    [UMA_LEDGER_PINNED] = "pinned for devices",
    [UMA_LEDGER_GPU] = "GPU, by process",
    [UMA_LEDGER_DRIVER_POOLS] = "GPU driver pools",
    [UMA_LEDGER_CMA_LOST] = "lost to CMA",
    [UMA_LEDGER_UNEXPLAINED] = "unexplained",
};

static void ledger_row(const struct page *p, const char *what, uint64_t bytes, size_t bar) {
    const struct uma_ledger *ledger = &p->account->ledger;
    _cleanup_text_ struct uma_text percent = { 0 };
    struct uma_f64 share = { (double)bytes / (double)ledger->total * 100, UMA_KNOWN };
    uma_layout_number(&percent, share, 1);
    uma_text_printf(p->text, "  %-22s", what);
    uma_layout_gib_column(p->text, (struct uma_u64){ bytes, UMA_KNOWN }, 9);
    uma_text_printf(p->text, "%8s  ", percent.data ? percent.data : "?");
    uma_layout_ink(p->text, p->style, UMA_INK_CYAN);
    uma_layout_bar(p->text, p->style, bytes, ledger->total, bar);
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
    uma_text_char(p->text, '\n');
}

/* Which rows are shown: the largest `rows`, without those that would read 0.0. Returns how many are not shown. */
static unsigned ledger_choose(const struct uma_ledger *ledger, size_t rows, bool all, bool shown[UMA_LEDGER_KINDS]) {
    size_t n = 0;
    unsigned hidden = 0;
    for (int i = 0; i < UMA_LEDGER_KINDS; i++) {
        shown[i] = ledger->bytes[i] >= (all ? 1 : SMALL_ROW);
        n += shown[i];
    }
    for (; n > rows; n--) {
        int smallest = -1;
        for (int i = 0; i < UMA_LEDGER_KINDS; i++)
            if (shown[i] && (smallest < 0 || ledger->bytes[i] < ledger->bytes[smallest]))
                smallest = i;
        shown[smallest] = false;
    }
    for (int i = 0; i < UMA_LEDGER_KINDS; i++)
        hidden += !shown[i] && ledger->bytes[i] > 0;
    return hidden;
}

static void ledger(const struct page *p) {
    const struct uma_ledger *ledger = &p->account->ledger;
    if (!ledger->known)
        return;
    gap(p);
    _cleanup_text_ struct uma_text title = { 0 };
    uma_text_printf(&title, "%-24s%9s%8s", "WHERE IT IS", "GiB", "%");
    heading(p, title.data ? title.data : "");
    uma_text_char(p->text, '\n');
    bool shown[UMA_LEDGER_KINDS];
    unsigned hidden = ledger_choose(ledger, p->fold->ledger_rows, p->complete, shown);
    uint64_t rest = 0;
    size_t bar = p->style->columns > 44 ? MIN_OF((size_t)p->style->columns - 44, (size_t)60) : 1;
    for (int i = 0; i < UMA_LEDGER_KINDS; i++) {
        if (shown[i])
            ledger_row(p, i == UMA_LEDGER_GPU && ledger->gpu_whole ? "GPU, driver's total" : row_texts[i], ledger->bytes[i], bar);
        else
            rest += ledger->bytes[i];
    }
    if (hidden > 0) {
        char what[32];
        (void)snprintf(what, sizeof what, hidden == 1 ? "%u smaller row" : "%u smaller rows", hidden);
        ledger_row(p, what, rest, bar);
    }
}

static void holders(const struct page *p) {
    struct uma_holders_shown shown = { p->fold->holders, p->fold->notes, p->complete };
    gap(p);
    uma_status_holders(p->text, p->snapshot, p->account, p->style, &shown);
}

/* ---- views and heat ----------------------------------------------------------------------------------------- */

static void views(const struct page *p) {
    const struct uma_views *v = &p->account->views;
    bool cuda = uma_nvidia_evident(p->snapshot);
    gap(p);
    heading(p, "OTHERS SAY  ");
    _cleanup_text_ struct uma_text t = { 0 };
    if (v->nvidia_smi_text || v->nvidia_smi.validity != UMA_ABSENT) {
        uma_text_append(&t, "nvidia-smi ");
        if (v->nvidia_smi_text && !uma_usable(v->nvidia_smi.validity))
            uma_text_append(&t, v->nvidia_smi_text);
        else {
            uma_layout_gib_column(&t, v->nvidia_smi, 0);
            uma_text_append(&t, uma_usable(v->nvidia_smi.validity) ? " free" : "");
        }
        uma_text_append(&t, ", ");
    }
    if (cuda) {
        uma_text_append(&t, "cudaMemGetInfo ");
        uma_layout_gib_column(&t, v->cuda_mem_get_info, 0);
        uma_text_append(&t, ", ");
    }
    uma_text_append(&t, "free ");
    uma_layout_gib_column(&t, v->free_free, 0);
    uma_text_append(&t, " (available ");
    uma_layout_gib_column(&t, v->free_available, 0);
    uma_text_append(&t, ")");
    uma_layout_wrap(p->text, p->style, t.data ? t.data : "?", 12, 2);
    /* Why they differ, where they do: cudaMemGetInfo is MemFree on unified machines (CUDA reference, cuMemGetInfo: free "according to the
     * OS"; measured in unslothai/unsloth#10704), so file cache counts as used there. With memory of its own, a GPU tells of that. */
    if (!cuda || !uma_usable(v->cuda_mem_get_info.validity) || !uma_usable(v->free_available.validity) ||
        !uma_usable(v->free_free.validity))
        return;
    _cleanup_text_ struct uma_text why = { 0 };
    if (v->cuda_mem_get_info.value != v->free_free.value)
        uma_text_append(&why, "nvidia-smi and cudaMemGetInfo tell of the GPU's own memory");
    else if (v->free_available.value < v->free_free.value + UMA_GIB)
        return;
    else {
        uma_text_append(&why, "cudaMemGetInfo is MemFree: ");
        uma_text_gib(&why, v->free_available.value - v->cuda_mem_get_info.value);
        uma_text_append(&why, " of cache count as used there");
    }
    uma_text_pad(p->text, 12);
    uma_layout_ink(p->text, p->style, UMA_INK_DIM);
    uma_layout_wrap(p->text, p->style, why.data ? why.data : "?", 12, p->fold->gaps ? 0 : 1);
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
}

static void heat(const struct page *p) {
    heading(p, "HEAT        ");
    _cleanup_text_ struct uma_text t = { 0 };
    uma_status_heat_text(&t, p->snapshot, p->complete ? UMA_GPUS_MAX : GPUS_SHOWN);
    uma_layout_wrap(p->text, p->style, t.data ? t.data : "?", 12, p->fold->gaps ? 0 : 2);
}

/* ---- problems ----------------------------------------------------------------------------------------------- */

/* `lines` of its evidence (0: as many as it takes) where that is shown. */
static void problem_row(const struct page *p, const struct uma_problem *problem, bool evidence, unsigned lines) {
    static const enum uma_ink inks[] = { UMA_INK_PLAIN, UMA_INK_YELLOW, UMA_INK_RED };
    bool critical = problem->severity == UMA_CRITICAL;
    uma_layout_ink(p->text, p->style, inks[MIN_OF((unsigned)problem->severity, 2u)]);
    uma_text_printf(p->text, "%-12s", uma_severity_name(problem->severity));
    uma_layout_wrap(p->text, p->style, problem->summary ? problem->summary : problem->id, 12, p->fold->evidence_critical ? 0 : 1);
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
    if (problem->evidence && (evidence || (critical && p->fold->evidence_critical))) {
        uma_text_pad(p->text, 12);
        uma_layout_wrap(p->text, p->style, problem->evidence, 12, lines);
    }
    if (problem->remedy && p->fold->remedies && (p->fold->evidence_critical || problem->severity != UMA_INFO)) {
        uma_text_pad(p->text, 9);
        uma_text_append(p->text, p->style->utf8 ? "→  " : "-> ");
        uma_layout_wrap(p->text, p->style, problem->remedy, 12, p->fold->evidence_critical ? 0 : 1);
    }
}

static void problems(const struct page *p) {
    const struct uma_account *a = p->account;
    gap(p);
    if (a->n_problems == 0) {
        heading(p, "PROBLEMS    ");
        uma_layout_ink(p->text, p->style, UMA_INK_GREEN);
        uma_text_append(p->text, a->ledger.known ? "none found" : "none found in what could be read");
        uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
        uma_text_char(p->text, '\n');
        return;
    }
    size_t n = MIN_OF(a->n_problems, p->fold->problems);
    for (size_t i = 0; i < n; i++)
        problem_row(p, &a->problems[i], i < p->fold->evidence || (i == p->fold->evidence && p->fold->cut),
                    i < p->fold->evidence ? 0 : p->fold->cut);
    if (n < a->n_problems)
        uma_text_printf(p->text, "            and %zu more: umactl status --all\n", a->n_problems - n);
}

/* ---- the page ----------------------------------------------------------------------------------------------- */

static void page(const struct page *p) {
    budget(p);
    if (p->claims->n > 0) {
        gap(p);
        uma_status_reservations(p->text, p->claims, p->style, p->fold->holders);
    }
    ledger(p);
    holders(p);
    views(p);
    heat(p);
    problems(p);
}

static bool fits(struct page *p, const struct fold *fold, struct uma_text *attempt) {
    uma_text_reset(attempt);
    p->text = attempt;
    p->fold = fold;
    page(p);
    return p->complete || uma_layout_lines(attempt) < p->style->rows; /* one row for the prompt */
}

/* The first level that fits, then as much of the evidence as the lines have room for that are left. */
static void fold_to_fit(struct page *p, struct uma_text *text) {
    size_t level = 0;
    while (!fits(p, &folds[level], text) && level + 1 < ELEMENTS(folds) && !text->failed)
        level++;
    struct fold fold = folds[level];
    size_t most = MIN_OF(p->account->n_problems, fold.problems);
    while (fold.evidence < most && !text->failed) {
        fold.evidence++;
        if (!fits(p, &fold, text)) {
            fold.evidence--;
            break;
        }
    }
    (void)fits(p, &fold, text);
    if (fold.evidence < most && uma_layout_lines(text) + 1 < p->style->rows) {
        fold.cut = p->style->rows - 1 - (unsigned)uma_layout_lines(text);
        if (!fits(p, &fold, text)) {
            fold.cut = 0;
            (void)fits(p, &fold, text);
        }
    }
    p->fold = NULL;
}

void uma_status_text(struct uma_text *text, const struct uma_snapshot *snapshot, const struct uma_account *account,
                     const struct uma_claims *claims, const struct uma_status_style *style) {
    struct page p = { NULL, snapshot, account, claims, style, &everything, style->all || style->rows == 0 };
    _cleanup_text_ struct uma_text attempt = { 0 };
    if (p.complete)
        (void)fits(&p, &everything, &attempt);
    else
        fold_to_fit(&p, &attempt);
    if (!style->all)
        uma_layout_clip(&attempt, style->columns);
    if (!style->utf8)
        uma_layout_ascii(&attempt);
    uma_text_append_n(text, attempt.data ? attempt.data : "", attempt.length);
    text->failed = text->failed || attempt.failed;
}
