/* SPDX-License-Identifier: MIT */
#include "observe/gpu.h"

#include "base/units.h"
#include "observe/gpu_vendor.h"
#include "observe/snapshot_json.h"
#include "observe/source.h"

#include <string.h>

/* The recorded answer of a folder: 64 GPUs with 4096 processes each fit. */
#define RECORD_MAX (64 * UMA_MIB)

static void ask_nvidia(struct uma_gpu_reader *reader) {
    if (reader->probe)
        uma_probe_ask(reader->probe);
}

static void collect_nvidia(struct uma_gpu_reader *reader, struct uma_snapshot *snapshot, struct uma_gpus *ret_gpus) {
    if (reader->probe)
        uma_probe_collect(reader->probe, snapshot->arena, ret_gpus);
}

static const struct uma_gpu_vendor nvidia = { "nvidia", ask_nvidia, collect_nvidia };
static const struct uma_gpu_vendor *const vendors[] = { &nvidia, &uma_gpu_vendor_amd, &uma_gpu_vendor_tegra };

bool uma_gpu_look_again(const struct uma_gpu_reader *reader, int64_t looked_ns) {
    return looked_ns == 0 || !uma_root_is_live(reader->root) || uma_monotonic_ns() - looked_ns > (int64_t)(UMA_GPU_LOOK_AGAIN * 1e9);
}

void uma_gpu_blank(struct uma_gpu *gpu, const char *vendor, int32_t index) {
    const struct uma_u64 no = { .validity = UMA_ABSENT };
    const struct uma_f64 none = { .validity = UMA_ABSENT };
    *gpu = (struct uma_gpu){
        .vendor = vendor,
        .index = index,
        .numa_node = -1,
        .memory_total = no,
        .memory_used = no,
        .memory_free = no,
        .container_used = no,
        .container_limit = no,
        .gtt_total = no,
        .gtt_used = no,
        .vram_total = no,
        .vram_used = no,
        .celsius = none,
        .limit_margin_celsius = none,
        .watts = none,
        .watts_instant = none,
        .joules = none,
        .limit_watts = none,
        .sm_hertz = no,
        .sm_max_hertz = no,
        .memory_hertz = no,
        .utilization = none,
        .memory_utilization = none,
        .pstate = { .validity = UMA_ABSENT },
        .throttle_reasons = no,
        .processes_validity = UMA_ABSENT,
    };
    for (int i = 0; i < UMA_THROTTLE_MAX; i++)
        gpu->throttle_seconds[i] = none;
}

struct uma_gpu_reader *uma_gpu_reader_new(struct uma_root *root, const struct uma_observe_options *options) {
    struct uma_gpu_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return NULL;
    *reader = (struct uma_gpu_reader){ .root = root, .tegra_zone = -1 };
    const char *library = options && options->nvml ? options->nvml : secure_getenv("UMACTL_NVML");
    if (library && !library[0])
        library = NULL;
    /* a folder is another machine: this machine's driver says nothing about it */
    if (!library && !uma_root_is_live(root))
        return reader;
    reader->probe = uma_probe_new(library, options ? options->gpu_deadline : 0, options && options->keep_probe);
    if (reader->probe)
        return reader;
    free(reader);
    return NULL;
}

struct uma_gpu_reader *uma_gpu_reader_free(struct uma_gpu_reader *reader) {
    if (!reader)
        return NULL;
    (void)uma_probe_free(reader->probe);
    free(reader);
    return NULL;
}

void uma_gpu_ask(struct uma_gpu_reader *reader) {
    for (size_t i = 0; i < ELEMENTS(vendors); i++)
        if (vendors[i]->ask)
            vendors[i]->ask(reader);
}

/* Put what one vendor found behind what is there. */
static void join(struct uma_gpus *gpus, const struct uma_gpus *found, struct uma_arena *arena) {
    if (found->n == 0)
        return;
    size_t room = MIN_OF(found->n, (size_t)UMA_GPUS_MAX - gpus->n);
    struct uma_gpu *list = uma_arena_array(arena, gpus->n + room, sizeof(*list));
    if (!list)
        return;
    if (gpus->n)
        (void)memcpy(list, gpus->list, gpus->n * sizeof(*list));
    (void)memcpy(list + gpus->n, found->list, room * sizeof(*list));
    /* where there is no NVML, the source is that of what there is */
    if (gpus->source.validity == UMA_ABSENT)
        gpus->source = found->source;
    gpus->list = list;
    gpus->n += room;
}

/* The answer that was recorded with the folder. False when there is none, and the folder's own files are to be read. */
static bool use_record(struct uma_gpu_reader *reader, struct uma_snapshot *snapshot) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    int r = uma_root_read_unrecorded(reader->root, UMA_GPU_RECORD, RECORD_MAX, &text, &err);
    if (r == -ENOENT || r == -ENOTDIR)
        return false;
    if (r > 0)
        r = uma_error_text(&err, EINVAL, "%s/%s: longer than %llu bytes", uma_root_name(reader->root), UMA_GPU_RECORD, RECORD_MAX);
    if (r == 0)
        r = uma_gpus_parse(text.data, text.length, UMA_GPU_RECORD, snapshot->arena, &snapshot->gpus, &err);
    if (r < 0) {
        snapshot->gpus = (struct uma_gpus){ 0 };
        uma_source_failed(&snapshot->gpus.source, snapshot->arena, UMA_GPU_RECORD, r, &err);
    }
    return true;
}

void uma_gpu_collect(struct uma_gpu_reader *reader, struct uma_snapshot *snapshot) {
    if (!uma_root_is_live(reader->root) && !reader->probe && use_record(reader, snapshot))
        return;
    struct uma_gpus gpus = { .source = { .validity = UMA_ABSENT, .time_ns = uma_now_ns(), .path = "nvml" } };
    if (!reader->probe)
        gpus.source.detail = "no answer was recorded with this folder";
    for (size_t i = 0; i < ELEMENTS(vendors); i++) {
        struct uma_gpus found = { .source = { .validity = UMA_ABSENT } };
        /* a Jetson whose NVML answers has told more than sysfs would, about the same GPU */
        if (vendors[i] == &uma_gpu_vendor_tegra && gpus.n > 0)
            continue;
        vendors[i]->collect(reader, snapshot, &found);
        if (vendors[i] == &nvidia && reader->probe)
            gpus = found;
        else
            join(&gpus, &found, snapshot->arena);
    }
    /* A folder without a record says nothing about the library of the machine it is of: not asked is not missing. */
    if (!reader->probe && gpus.n == 0)
        gpus.source.validity = UMA_UNKNOWN;
    snapshot->gpus = gpus;
}
