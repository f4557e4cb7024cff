/* SPDX-License-Identifier: MIT */
/*
 * The observer: one root, one reader per source, and the order in which they are asked. The GPU probe is asked first and collected
 * last, so that its answer (milliseconds, or never) costs no time of its own.
 *
 * Times. On a live machine each source has the time at which it was read. A captured folder and a --root reading have one time for all:
 * that of UMA_TIME_RECORD where the folder has it, else the current time (a pasted folder; file times would be those of the paste). So a
 * capture and the reading of its folder are the same document. A stale source keeps its time: how old the answer is, is what it says.
 */
#include "base/root.h"
#include "base/units.h"
#include "observe/files/page_cache.h"
#include "observe/files/page_cache_order.h"
#include "observe/gpu.h"
#include "observe/heat.h"
#include "observe/memory.h"
#include "observe/platform.h"
#include "observe/process.h"
#include "observe/snapshot_json.h"
#include "observe/source.h"
#include "observe/tuning.h"

#include <string.h>

/* Of a snapshot, which nobody waits for; a warm machine with ten thousand model files takes a quarter of it. */
#define PAGE_CACHE_SECONDS 2.0
/* UMA_CACHED_FILES_MAX files with paths of ordinary length. */
#define PAGE_CACHE_BYTES_MAX ((size_t)512 * 1024 * 1024)

struct uma_observer {
    struct uma_observe_options options; /* its strings are this observer's own */
    char *nvml;
    struct uma_root *root;
    struct uma_memory_reader *memory;
    struct uma_process_reader *processes;
    struct uma_heat_reader *heat;
    struct uma_gpu_reader *gpu;
};

struct uma_observer *uma_observer_close(struct uma_observer *observer) {
    if (!observer)
        return NULL;
    if (observer->gpu)
        (void)uma_gpu_reader_free(observer->gpu);
    if (observer->heat)
        (void)uma_heat_reader_free(observer->heat);
    if (observer->processes)
        (void)uma_process_reader_free(observer->processes);
    if (observer->memory)
        (void)uma_memory_reader_free(observer->memory);
    (void)uma_root_close(observer->root);
    free(observer->nvml);
    free(observer);
    return NULL;
}

static void cleanup_observer(struct uma_observer **o) {
    (void)uma_observer_close(*o);
}

int uma_observer_open(const struct uma_observe_options *options, struct uma_observer **ret_observer, struct uma_error *err) {
    _cleanup_(cleanup_observer) struct uma_observer *o = calloc(1, sizeof(*o));
    if (!o)
        return uma_error_set(err, ENOMEM, "opening the machine");
    int r = uma_root_open(options ? options->root : NULL, options ? options->capture : NULL, &o->root, err);
    if (r < 0)
        return r;
    if (options) {
        o->options.gpu_deadline = options->gpu_deadline;
        o->options.keep_probe = options->keep_probe;
        if (options->nvml && !(o->nvml = strdup(options->nvml)))
            return uma_error_set(err, ENOMEM, "opening the machine");
    }
    o->options.nvml = o->nvml;
    o->options.root = uma_root_is_live(o->root) ? NULL : uma_root_name(o->root);
    o->options.capture = uma_root_capture(o->root);
    o->memory = uma_memory_reader_new(o->root);
    o->processes = uma_process_reader_new(o->root);
    o->heat = uma_heat_reader_new(o->root);
    o->gpu = uma_gpu_reader_new(o->root, &o->options);
    if (!o->memory || !o->processes || !o->heat || !o->gpu)
        return uma_error_set(err, ENOMEM, "opening the machine");
    *ret_observer = TAKE_PTR(o);
    return 0;
}

/* ---- time --------------------------------------------------------------------------------------------------- */

/* Seconds with at most six decimals, as uma_json_time() writes them. Integers throughout: a double has no place for nanoseconds. */
static bool time_parse(const char *s, const char *end, int64_t *ret_time_ns) {
    uint64_t seconds, micros = 0;
    const char *p = uma_parse_u64(s, end, &seconds);
    if (!p || seconds > UMA_TIME_MAX_SECONDS)
        return false;
    if (p < end && *p == '.') {
        uint64_t unit = 100000;
        for (p++; p < end && *p >= '0' && *p <= '9'; p++, unit /= 10)
            micros += (uint64_t)(*p - '0') * unit;
    }
    while (p < end && strchr(" \t\r\n", *p))
        p++;
    if (p != end)
        return false;
    *ret_time_ns = (int64_t)(seconds * 1000000000 + micros * 1000);
    return true;
}

static int64_t time_of(const struct uma_observer *o) {
    if (uma_root_is_live(o->root))
        return uma_now_ns();
    _cleanup_text_ struct uma_text text = { 0 };
    int64_t time_ns;
    if (uma_root_read_unrecorded(o->root, UMA_TIME_RECORD, 64, &text, NULL) == 0 &&
        time_parse(text.data, text.data + text.length, &time_ns))
        return time_ns;
    return uma_now_ns();
}

/* ---- the same document from the capture as from the machine --------------------------------------------------- */

/* A message about "DIR/proc/x" is about "/proc/x" of that machine: the folder's own name is no part of the reading. */
static void detail_relative(const struct uma_observer *o, struct uma_arena *arena, const char **detail) {
    const char *name = uma_root_name(o->root);
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == '/')
        n--;
    if (!*detail || n == 0 || !strstr(*detail, name))
        return;
    char *copy = uma_arena_strndup(arena, *detail, strlen(*detail));
    if (!copy)
        return;
    char *out = copy;
    for (const char *in = *detail; *in;) {
        if (strncmp(in, name, n) == 0 && in[n] == '/') {
            in += n;
            while (in[0] == '/' && in[1] == '/')
                in++;
        }
        *out++ = *in++;
    }
    *out = '\0';
    *detail = copy;
}

static void settle_source(const struct uma_observer *o, struct uma_snapshot *s, struct uma_source *source) {
    if (source->time_ns != 0 && source->validity != UMA_STALE)
        source->time_ns = s->time_ns;
    detail_relative(o, s->arena, &source->detail);
}

static void settle(const struct uma_observer *o, struct uma_snapshot *s) {
    struct uma_source *const sources[] = {
        &s->platform.source,     &s->meminfo.source,     &s->vmstat.source,    &s->memory_pressure.source,
        &s->cpu_pressure.source, &s->io_pressure.source, &s->zones.zoneinfo,   &s->zones.buddyinfo,
        &s->swaps_source,        &s->nodes_source,       &s->processes.source, &s->heat.thermal,
        &s->heat.hwmon,          &s->heat.cpufreq,       &s->gpus.source,      &s->page_cache.source,
    };
    for (size_t i = 0; i < ELEMENTS(sources); i++)
        settle_source(o, s, sources[i]);
    for (size_t i = 0; i < s->n_cgroups; i++)
        settle_source(o, s, &s->cgroups[i].source);
    detail_relative(o, s->arena, &s->platform.evidence);
}

/* `failed`: there was no memory to write it. */
static int record_text(struct uma_observer *o, const char *path, const struct uma_text *text, struct uma_error *err) {
    if (text->failed)
        return uma_error_set(err, ENOMEM, "recording %s", path);
    return uma_root_record(o->root, path, text->data, text->length, err);
}

/* What has no file of the machine that could be copied is recorded as the answer that it gave. */
static int record_gpus(struct uma_observer *o, const struct uma_snapshot *s, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_gpus_write(&(struct uma_json){ .text = &text }, NULL, &s->gpus);
    return record_text(o, UMA_GPU_RECORD, &text, err);
}

static int record_page_cache(struct uma_observer *o, const struct uma_snapshot *s, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_page_cache_write(&(struct uma_json){ .text = &text }, NULL, &s->page_cache);
    return record_text(o, UMA_PAGE_CACHE_RECORD, &text, err);
}

/* Settings are no part of a snapshot, but of the machine: to read them under a capture is to record them. */
static int record_settings(struct uma_observer *o, const struct uma_snapshot *s, struct uma_error *err) {
    struct uma_tuning tuning;
    return uma_tuning_read(o->root, s->arena, &tuning, err);
}

static int record(struct uma_observer *o, unsigned what, const struct uma_snapshot *s, struct uma_error *err) {
    int r = what & UMA_READ_GPU ? record_gpus(o, s, err) : 0;
    if (r == 0 && what & UMA_READ_PAGE_CACHE)
        r = record_page_cache(o, s, err);
    if (r == 0 && what & UMA_READ_PLATFORM)
        r = record_settings(o, s, err);
    if (r < 0)
        return r;
    _cleanup_text_ struct uma_text text = { 0 };
    uma_json_time(&(struct uma_json){ .text = &text }, NULL, s->time_ns);
    uma_text_char(&text, '\n');
    return record_text(o, UMA_TIME_RECORD, &text, err);
}

/* ---- the page cache's files ---------------------------------------------------------------------------------- */

/*
 * What is read is cut to what a snapshot keeps: in memory of its own first, which a million files may take. Of it only the answer goes into a capture folder,
 * not the maps and descriptors of every process that it is made of.
 */
static int page_cache_live(double seconds, struct uma_snapshot *s, struct uma_error *err) {
    _cleanup_root_ struct uma_root *root = NULL;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(PAGE_CACHE_BYTES_MAX);
    if (!arena)
        return uma_error_set(err, ENOMEM, "the page cache's files");
    int r = uma_root_open(NULL, NULL, &root, err);
    if (r < 0)
        return r;
    const struct uma_page_cache_request request = {
        .processes = true, .stores = true, .devices = true, .seconds = seconds, .resident_only = true
    };
    struct uma_page_cache cache = { 0 };
    struct uma_page_cache_counts counts = { 0 };
    r = uma_page_cache_read(root, &request, s, arena, &cache, &counts, err);
    uma_cached_files_sort(cache.files, cache.n_files);
    return r < 0 ? r : uma_page_cache_keep(&cache, s->arena, &s->page_cache, err);
}

/* A folder's list is what was kept when it was recorded. */
static void page_cache(struct uma_observer *o, double seconds, struct uma_snapshot *s) {
    struct uma_error err = { 0 };
    s->page_cache = (struct uma_page_cache){ 0 };
    if (!uma_root_is_live(o->root)) {
        uma_page_cache_recorded(o->root, s->arena, &s->page_cache);
        return;
    }
    int r = page_cache_live(seconds, s, &err);
    if (r < 0)
        uma_source_failed(&s->page_cache.source, s->arena, "proc", r, &err);
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* Only the memory sources decide: a machine without GPU, sensors or readable processes is still a machine. */
static int nothing_read(const struct uma_observer *o, const struct uma_snapshot *s, struct uma_error *err) {
    const struct uma_source *const sources[] = { &s->meminfo.source, &s->vmstat.source, &s->zones.zoneinfo, &s->zones.buddyinfo,
                                                 &s->processes.source };
    for (size_t i = 0; i < ELEMENTS(sources); i++)
        if (uma_usable(sources[i]->validity))
            return 0;
    return uma_error_text(err, ENODATA, "%s: nothing of a machine can be read here: %s",
                          uma_root_is_live(o->root) ? "/" : uma_root_name(o->root),
                          s->meminfo.source.detail ? s->meminfo.source.detail : "no proc/meminfo");
}

int uma_observer_read(struct uma_observer *observer, unsigned what, struct uma_snapshot *snapshot, struct uma_error *err) {
    uma_snapshot_reset(snapshot);
    snapshot->time_ns = time_of(observer);
    if (what & UMA_READ_GPU)
        uma_gpu_ask(observer->gpu);
    if (what & UMA_READ_MEMORY)
        uma_memory_read(observer->memory, snapshot);
    if (what & UMA_READ_PROCESSES)
        uma_processes_read(observer->processes, snapshot);
    if (what & UMA_READ_HEAT)
        uma_heat_read(observer->heat, snapshot);
    if (what & UMA_READ_PLATFORM)
        uma_platform_read(observer->root, snapshot);
    if (what & UMA_READ_PAGE_CACHE)
        page_cache(observer, PAGE_CACHE_SECONDS, snapshot);
    if (what & UMA_READ_GPU)
        uma_gpu_collect(observer->gpu, snapshot);
    if (what & (UMA_READ_PLATFORM | UMA_READ_GPU))
        uma_platform_conclude(snapshot);
    int r = what & UMA_READ_MEMORY ? nothing_read(observer, snapshot, err) : 0;
    if (r < 0)
        return r;
    if (!uma_root_is_live(observer->root) || uma_root_capture(observer->root))
        settle(observer, snapshot);
    return uma_root_capture(observer->root) ? record(observer, what, snapshot, err) : 0;
}

int uma_observer_read_page_cache(struct uma_observer *observer, double seconds, struct uma_snapshot *snapshot, struct uma_error *err) {
    page_cache(observer, seconds > 0 ? seconds : PAGE_CACHE_SECONDS, snapshot);
    if (!uma_root_is_live(observer->root) || uma_root_capture(observer->root))
        settle_source(observer, snapshot, &snapshot->page_cache.source);
    return uma_root_capture(observer->root) ? record_page_cache(observer, snapshot, err) : 0;
}
