/* SPDX-License-Identifier: MIT */
/* problems_cache.c - page cache that keeps CUDA programs from starting: how much, of which models, and what to evict first. */
#include "account/cached_models.h"
#include "account/problems.h"
#include "account/values.h"

#include <string.h>

static bool nvidia_unified(const struct uma_problem_site *site) {
    enum uma_platform_name name = site->snapshot->platform.name;
    return site->share->nvidia || (uma_problem_unified(site) && (name == UMA_PLATFORM_DGX_SPARK || name == UMA_PLATFORM_JETSON));
}

/* The largest holder of GPU memory, for evidence that names it; NULL when none. */
static const struct uma_holder *largest_on_gpu(const struct uma_problem_site *site) {
    const struct uma_holder *largest = NULL;
    for (size_t i = 0; i < site->account->n_holders; i++) {
        const struct uma_holder *h = &site->account->holders[i];
        if (uma_or(h->gpu_bytes, 0) > (largest ? largest->gpu_bytes.value : 0))
            largest = h;
    }
    return largest;
}

static const char *holder_text(struct uma_problem_site *site) {
    const struct uma_holder *gpu = largest_on_gpu(site);
    if (!gpu)
        return "";
    return uma_problem_text(site, "; %s of GPU memory is held by %s (%s, pid %d%s%s)", uma_problem_bytes(site, gpu->gpu_bytes.value),
                            gpu->name ? gpu->name : gpu->kind, gpu->kind, (int)gpu->pid, gpu->model ? ", " : "",
                            gpu->model ? gpu->model : "");
}

/* ---- which models ------------------------------------------------------------------------------------------- */

/*
 * relatime writes a read's time only when the last one is a day old or older than the last write (fs/inode.c, relatime_need_update): within a day a file may
 * have been used since, so only a fresh time is told to the minute.
 */
static const char *used_text(struct uma_problem_site *site, int64_t used_ns) {
    int64_t now = site->snapshot->time_ns, minute = 60 * (int64_t)1000000000, age = now - used_ns;
    if (used_ns <= 0 || now <= 0 || age < 0)
        return "";
    if (age < 2 * minute)
        return ", used a minute ago";
    if (age < 60 * minute)
        return uma_problem_text(site, ", used %lld minutes ago", (long long)(age / minute));
    if (age < 1440 * minute)
        return ", used within a day";
    if (age < 2880 * minute)
        return ", not used for a day";
    return uma_problem_text(site, ", not used for %lld days", (long long)(age / minute / 1440));
}

static const char *users_text(struct uma_problem_site *site, const struct uma_cached_model *model) {
    if (!uma_cached_in_use(model))
        return "";
    int32_t pid = model->mapped_by > 0 ? model->mapped_by : model->open_by;
    const struct uma_process *process = uma_process_find(site->index, pid);
    return uma_problem_text(site, ", in use: %s by %.60s, pid %d", model->mapped_by > 0 ? "mapped" : "open",
                            process && process->name ? process->name : "a process", (int)pid);
}

/* "98.7 GiB of it are Qwen/Qwen3-32B (17 files, used 3 minutes ago)": as many as matter, three at most. */
static const char *models_text(struct uma_problem_site *site, const struct uma_cached_model *models, size_t n, uint64_t cache) {
    enum { SHOWN = 3 };
    const char *text = "";
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const struct uma_cached_model *m = &models[i];
        if (m->resident < cache / 16)
            break;
        const char *files = !m->is_model ? "" : m->n_files > 1 ? uma_problem_text(site, ", %zu files", m->n_files) : ", 1 file";
        const char *about = uma_problem_text(site, "%s%s%s", files, used_text(site, m->used_ns), users_text(site, m));
        text = uma_problem_text(site, "%s%s%s %s %.160s%s%s%s", text, i ? ", " : "; ", uma_problem_bytes(site, m->resident),
                                i ? "are" : "of it are", m->name, *about ? " (" : "", *about ? about + 2 : "", *about ? ")" : "");
    }
    return text;
}

/* A list that says little of the cache says so, and why. */
static const char *rest_text(struct uma_problem_site *site, const struct uma_page_cache *cache) {
    uint64_t total = uma_or(cache->total, 0), hidden = uma_or(cache->unreadable, 0);
    if (!uma_usable(cache->explained.validity) || cache->explained.value >= total / 4 * 3)
        return "";
    const char *why = hidden > 0 ? uma_problem_text(site, ": the kernel does not tell this user of %llu files", (unsigned long long)hidden)
                      : !cache->complete ? ": there was no time to look at all"
                                         : "";
    return uma_problem_text(site, "; the files of only %s of it are known%s", uma_problem_bytes(site, cache->explained.value), why);
}

/* ---- the problem -------------------------------------------------------------------------------------------- */

struct starved {
    uint64_t total, now, credit; /* MemTotal, MemFree, what reclaim can take from the cache */
};

/*
 * cudaMemGetInfo reports MemFree (unsloth PR 10704), so a program that gates on it refuses to start beside page cache that an allocation
 * would have dropped. Not every cache is a problem: it is when less than an eighth is left to see (a start at the usual 0.9 fails long
 * before) and at least a quarter of the machine, and three times what is free, can be dropped. A server at its thin steady state has
 * little of either.
 */
static bool starves(const struct starved *s) {
    return s->now < s->total / 8 && s->credit >= s->total / 4 && s->credit / 3 >= s->now;
}

static bool cures(const void *userdata, uint64_t evicted) {
    const struct starved *s = userdata;
    return !starves(&(struct starved){ s->total, uma_add(s->now, evicted), uma_sub(s->credit, evicted) });
}

/* Less than a sixteenth of the machine, half of what counts as seeing almost nothing, is not worth a command. */
static const char *remedy_text(struct uma_problem_site *site, const struct uma_cached_model *models, size_t n, const struct starved *s) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_cached_remedy(&text, &site->snapshot->page_cache, models, n, s->total / 16, cures, s);
    const char *copy = text.failed ? NULL : uma_arena_strndup(site->arena, text.data, text.length);
    site->failed = site->failed || !copy;
    return copy ? copy : "";
}

void uma_problems_cache(struct uma_problem_site *site) {
    const struct uma_headroom *h = &site->account->headroom;
    if (!nvidia_unified(site) || !uma_usable(h->total.validity) || !uma_usable(h->now.validity) ||
        !uma_usable(h->reclaimable_cache.validity))
        return;
    const struct starved s = { h->total.value, h->now.value, h->reclaimable_cache.value };
    if (!starves(&s))
        return;
    const struct uma_ledger *l = &site->account->ledger;
    uint64_t cache =
        uma_add(l->bytes[UMA_LEDGER_CACHE_CLEAN], uma_add(l->bytes[UMA_LEDGER_CACHE_DIRTY], l->bytes[UMA_LEDGER_CACHE_MAPPED]));
    struct uma_cached_model *models = NULL;
    size_t n = 0;
    if (uma_cached_models_build(&site->snapshot->page_cache, site->arena, &n, &models) < 0) {
        site->failed = true;
        return;
    }
    uma_problem_add(site, UMA_PROBLEM_CACHE_STARVES_CUDA, UMA_WARNING, "page cache makes CUDA programs see almost no free memory",
                    remedy_text(site, models, n, &s),
                    "MemFree, which cudaMemGetInfo reports, is %s; %s are available; page cache has %s%s%s%s",
                    uma_problem_bytes(site, s.now), uma_problem_bytes(site, uma_add(s.now, s.credit)), uma_problem_bytes(site, cache),
                    models_text(site, models, n, cache), rest_text(site, &site->snapshot->page_cache), holder_text(site));
}
