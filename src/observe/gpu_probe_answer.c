/* SPDX-License-Identifier: MIT */
/* From the bytes of an answer to struct uma_gpus. The probe is ours, but a library that it loaded may have written over its memory: trust
 * nothing. */
#include "observe/gpu_probe.h"
#include "observe/gpu_probe_protocol.h"
#include "observe/nvml_abi.h"

#include <string.h>

/* A number beyond these is a driver's sentinel or a broken register, not a reading: no GPU draws 100 kW, clocks 100 GHz or addresses 2^56
 * bytes. */
#define BYTES_MOST (1ull << 56)
#define MILLIWATTS_MOST 100000000ull
#define MEGAHERTZ_MOST 100000ull
#define CELSIUS_LEAST (-100)
#define CELSIUS_MOST 300
#define PERCENT_MOST 100ull
#define SECONDS_MOST 3200000000ull /* a century */

static enum uma_validity validity_of(uint32_t wire) {
    return wire < UMA_VALIDITY_MAX && wire != UMA_STALE ? (enum uma_validity)wire : UMA_MALFORMED;
}

static struct uma_u64 unsigned_of(const struct probe_value *value, uint64_t most, uint64_t scale) {
    enum uma_validity validity = validity_of(value->validity);
    if (validity == UMA_KNOWN && value->bits > most)
        validity = UMA_MALFORMED;
    return (struct uma_u64){ .value = validity == UMA_KNOWN ? value->bits * scale : 0, .validity = validity };
}

static struct uma_f64 fraction_of(const struct probe_value *value, uint64_t most, double divisor) {
    struct uma_u64 whole = unsigned_of(value, most, 1);
    return (struct uma_f64){ .value = (double)whole.value / divisor, .validity = whole.validity };
}

static struct uma_f64 celsius_of(const struct probe_value *value) {
    enum uma_validity validity = validity_of(value->validity);
    int64_t celsius = (int64_t)value->bits;
    if (validity == UMA_KNOWN && (celsius < CELSIUS_LEAST || celsius > CELSIUS_MOST))
        validity = UMA_MALFORMED;
    return (struct uma_f64){ .value = validity == UMA_KNOWN ? (double)celsius : 0, .validity = validity };
}

static const char *text_of(const char *s, size_t size, struct uma_arena *arena) {
    size_t n = strnlen(s, size);
    return n ? uma_arena_utf8(arena, s, n) : NULL;
}

static void convert_numbers(const struct probe_gpu *from, struct uma_gpu *gpu) {
    const struct probe_value *v = from->numbers;
    gpu->memory_total = unsigned_of(&v[PROBE_MEMORY_TOTAL], BYTES_MOST, 1);
    gpu->memory_used = unsigned_of(&v[PROBE_MEMORY_USED], BYTES_MOST, 1);
    gpu->memory_free = unsigned_of(&v[PROBE_MEMORY_FREE], BYTES_MOST, 1);
    gpu->container_used = unsigned_of(&v[PROBE_CONTAINER_USED], BYTES_MOST, 1);
    gpu->container_limit = unsigned_of(&v[PROBE_CONTAINER_LIMIT], BYTES_MOST, 1);
    gpu->celsius = celsius_of(&v[PROBE_CELSIUS]);
    gpu->limit_margin_celsius = celsius_of(&v[PROBE_LIMIT_MARGIN]);
    gpu->watts = fraction_of(&v[PROBE_POWER], MILLIWATTS_MOST, 1e3);
    gpu->watts_instant = fraction_of(&v[PROBE_POWER_INSTANT], MILLIWATTS_MOST, 1e3);
    gpu->limit_watts = fraction_of(&v[PROBE_POWER_LIMIT], MILLIWATTS_MOST, 1e3);
    gpu->joules = fraction_of(&v[PROBE_ENERGY], UINT64_MAX / 2, 1e3);
    gpu->sm_hertz = unsigned_of(&v[PROBE_SM_CLOCK], MEGAHERTZ_MOST, 1000000);
    gpu->sm_max_hertz = unsigned_of(&v[PROBE_SM_CLOCK_MAX], MEGAHERTZ_MOST, 1000000);
    gpu->memory_hertz = unsigned_of(&v[PROBE_MEMORY_CLOCK], MEGAHERTZ_MOST, 1000000);
    gpu->utilization = fraction_of(&v[PROBE_UTILIZATION], PERCENT_MOST, 100);
    gpu->memory_utilization = fraction_of(&v[PROBE_MEMORY_UTILIZATION], PERCENT_MOST, 100);
    struct uma_u64 pstate = unsigned_of(&v[PROBE_PSTATE], NVML_PSTATE_LAST, 1);
    gpu->pstate = (struct uma_i64){ .value = (int64_t)pstate.value, .validity = pstate.validity };
    if (v[PROBE_PSTATE].validity == UMA_KNOWN && v[PROBE_PSTATE].bits == NVML_PSTATE_UNKNOWN)
        gpu->pstate.validity = UMA_UNKNOWN;
    gpu->throttle_reasons = unsigned_of(&v[PROBE_REASONS], UINT64_MAX, 1);
    for (int i = 0; i < UMA_THROTTLE_MAX; i++)
        gpu->throttle_seconds[i] = fraction_of(&v[PROBE_THROTTLE + i], SECONDS_MOST * 1000000000ull, 1e9);
}

static int by_pid(const void *left, const void *right) {
    const struct uma_gpu_process *l = left, *r = right;
    return (l->pid > r->pid) - (l->pid < r->pid);
}

/* A process with a compute and a graphics context stands in both lists, with the same bytes: one entry, the larger figure. */
static size_t merge_processes(struct uma_gpu_process *list, size_t n) {
    qsort(list, n, sizeof(*list), by_pid);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct uma_gpu_process *last = kept ? &list[kept - 1] : NULL;
        if (!last || last->pid != list[i].pid) {
            list[kept++] = list[i];
            continue;
        }
        last->compute = last->compute || list[i].compute;
        if (list[i].bytes.validity == UMA_KNOWN && (last->bytes.validity != UMA_KNOWN || list[i].bytes.value > last->bytes.value))
            last->bytes = list[i].bytes;
    }
    return kept;
}

static int convert_processes(const uint8_t *data, const struct probe_gpu *from, struct uma_arena *arena, struct uma_gpu *gpu,
                             struct uma_error *err) {
    gpu->processes_validity = validity_of(from->processes_validity);
    gpu->processes = uma_arena_array(arena, from->n_processes, sizeof(*gpu->processes));
    if (!gpu->processes)
        return uma_error_set(err, ENOMEM, "nvml: the probe's answer");
    size_t n = 0;
    for (uint32_t i = 0; i < from->n_processes; i++) {
        struct probe_process process;
        (void)memcpy(&process, data + i * sizeof(process), sizeof(process));
        if (process.pid <= 0 || process.pid > UMA_PID_MAX)
            continue; /* no process has it; drivers list a client that is just ending as 0 */
        gpu->processes[n++] = (struct uma_gpu_process){
            .pid = process.pid,
            .bytes = unsigned_of(&process.bytes, BYTES_MOST, 1),
            .compute = process.compute != 0,
        };
    }
    gpu->n_processes = n ? merge_processes(gpu->processes, n) : 0;
    return 0;
}

static int convert_gpu(const struct probe_gpu *from, uint32_t index, struct uma_arena *arena, struct uma_gpu *gpu, struct uma_error *err) {
    *gpu = (struct uma_gpu){
        .vendor = "nvidia",
        .index = (int32_t)index,
        .name = text_of(from->name, sizeof(from->name), arena),
        .uuid = text_of(from->uuid, sizeof(from->uuid), arena),
        .pci = text_of(from->pci, sizeof(from->pci), arena),
        .unified = from->unified <= UMA_NO ? (enum uma_truth)from->unified : UMA_MAYBE,
        .numa_node = from->numa_node >= 0 && from->numa_node <= INT16_MAX ? from->numa_node : -1,
        .gtt_total = { .validity = UMA_ABSENT },
        .gtt_used = { .validity = UMA_ABSENT },
        .vram_total = { .validity = UMA_ABSENT },
        .vram_used = { .validity = UMA_ABSENT },
    };
    if ((!gpu->name && from->name[0]) || (!gpu->uuid && from->uuid[0]) || (!gpu->pci && from->pci[0]))
        return uma_error_set(err, ENOMEM, "nvml: the probe's answer");
    convert_numbers(from, gpu);
    return 0;
}

/* What the source as a whole is worth. */
static void conclude(const struct probe_answer *answer, struct uma_arena *arena, struct uma_gpus *gpus) {
    gpus->source = (struct uma_source){ .validity = UMA_KNOWN, .path = "nvml" };
    if (answer->state == PROBE_READ)
        return;
    const char *text = text_of(answer->detail, sizeof(answer->detail), arena);
    const char *what = "NVML cannot count the GPUs";
    gpus->source.validity = UMA_FAILED;
    switch (answer->state) {
    case PROBE_NO_LIBRARY:
        gpus->source.validity = UMA_ABSENT;
        what = "NVIDIA's library cannot be loaded";
        break;
    case PROBE_NOT_NVML:
        what = "this is not NVIDIA's library";
        break;
    case PROBE_INIT_FAILED:
        what = "NVML does not start";
        break;
    default:
        break;
    }
    if (answer->state == PROBE_INIT_FAILED &&
        (answer->code == NVML_DRIVER_NOT_LOADED || answer->code == NVML_LIBRARY_NOT_FOUND || answer->code == NVML_GPU_NOT_FOUND))
        gpus->source.validity = UMA_ABSENT;
    if (answer->code == NVML_NO_PERMISSION || answer->code == NVML_OPERATING_SYSTEM)
        gpus->source.validity = UMA_DENIED;
    if (answer->code)
        gpus->source.detail = uma_arena_printf(arena, "%s: %s (code %d)", what, text ? text : "no reason given", (int)answer->code);
    else
        gpus->source.detail = uma_arena_printf(arena, "%s: %s", what, text ? text : "no reason given");
}

int uma_probe_answer_parse(const uint8_t *data, size_t length, struct uma_arena *arena, struct uma_gpus *ret_gpus, struct uma_error *err) {
    struct probe_answer answer;
    if (length < sizeof(answer) || length > PROBE_LENGTH_MAX)
        return uma_error_text(err, EPROTO, "nvml: an answer of %zu bytes", length);
    (void)memcpy(&answer, data, sizeof(answer));
    if (answer.state > PROBE_COUNT_FAILED)
        return uma_error_text(err, EPROTO, "nvml: an answer in the unknown state %u", answer.state);
    if (answer.n_gpus > UMA_GPUS_MAX || answer.n_processes > (uint32_t)UMA_GPUS_MAX * UMA_GPU_PROCESSES_MAX)
        return uma_error_text(err, EPROTO, "nvml: an answer with %u GPUs and %u processes", answer.n_gpus, answer.n_processes);
    size_t gpus_at = sizeof(answer), processes_at = gpus_at + answer.n_gpus * sizeof(struct probe_gpu);
    if (length != processes_at + answer.n_processes * sizeof(struct probe_process))
        return uma_error_text(err, EPROTO, "nvml: an answer of %zu bytes for %u GPUs and %u processes", length, answer.n_gpus,
                              answer.n_processes);
    struct uma_gpus gpus = { .driver = text_of(answer.driver, sizeof(answer.driver), arena), .n = answer.n_gpus };
    gpus.list = uma_arena_array(arena, gpus.n, sizeof(*gpus.list));
    if (!gpus.list)
        return uma_error_set(err, ENOMEM, "nvml: the probe's answer");
    uint32_t left = answer.n_processes;
    for (uint32_t i = 0; i < answer.n_gpus; i++) {
        struct probe_gpu gpu;
        (void)memcpy(&gpu, data + gpus_at + i * sizeof(gpu), sizeof(gpu));
        if (gpu.n_processes > left || gpu.n_processes > UMA_GPU_PROCESSES_MAX)
            return uma_error_text(err, EPROTO, "nvml: GPU %u with %u processes", i, gpu.n_processes);
        int r = convert_gpu(&gpu, i, arena, &gpus.list[i], err);
        if (r == 0)
            r = convert_processes(data + processes_at, &gpu, arena, &gpus.list[i], err);
        if (r < 0)
            return r;
        left -= gpu.n_processes;
        processes_at += gpu.n_processes * sizeof(struct probe_process);
    }
    if (left)
        return uma_error_text(err, EPROTO, "nvml: an answer with %u processes of no GPU", left);
    conclude(&answer, arena, &gpus);
    *ret_gpus = gpus;
    return 0;
}

static void stale(enum uma_validity *validity) {
    if (*validity == UMA_KNOWN)
        *validity = UMA_STALE;
}

void uma_gpus_make_stale(struct uma_gpus *gpus) {
    for (size_t i = 0; i < gpus->n; i++) {
        struct uma_gpu *gpu = &gpus->list[i];
        enum uma_validity *all[] = {
            &gpu->memory_total.validity,
            &gpu->memory_used.validity,
            &gpu->memory_free.validity,
            &gpu->container_used.validity,
            &gpu->container_limit.validity,
            &gpu->gtt_total.validity,
            &gpu->gtt_used.validity,
            &gpu->vram_total.validity,
            &gpu->vram_used.validity,
            &gpu->celsius.validity,
            &gpu->limit_margin_celsius.validity,
            &gpu->watts.validity,
            &gpu->watts_instant.validity,
            &gpu->joules.validity,
            &gpu->limit_watts.validity,
            &gpu->sm_hertz.validity,
            &gpu->sm_max_hertz.validity,
            &gpu->memory_hertz.validity,
            &gpu->utilization.validity,
            &gpu->memory_utilization.validity,
            &gpu->pstate.validity,
            &gpu->throttle_reasons.validity,
            &gpu->processes_validity,
        };
        for (size_t j = 0; j < ELEMENTS(all); j++)
            stale(all[j]);
        for (int j = 0; j < UMA_THROTTLE_MAX; j++)
            stale(&gpu->throttle_seconds[j].validity);
        for (size_t j = 0; j < gpu->n_processes; j++)
            stale(&gpu->processes[j].bytes.validity);
    }
}
