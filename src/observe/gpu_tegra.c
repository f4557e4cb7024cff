/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA Tegra (Jetson): the GPU shares the pool and, before Thor, has no NVML. The model comes from the device tree, the load from the
 * GPU's driver in tenths of a percent, the clock from devfreq, the temperature from the thermal zone that is named after the GPU, the
 * device's memory from NvMapMemUsed of /proc/meminfo (CUDA for Tegra application note) and, where debugfs may be read, each process's from
 * nvmap's client list. Names of the devfreq devices: jetson_stats (jtop/core/gpu.py) lists gv11b, gp10b, ga10b and gpu; Nano has
 * 57000000.gpu, Thor gpu-gpc-0.
 */
#include "base/units.h"
#include "observe/gpu_vendor.h"
#include "observe/lines.h"
#include "observe/source.h"

#include <stdio.h>
#include <string.h>

#define CLIENTS "sys/kernel/debug/nvmap/iovmm/clients"

static bool is_tegra(struct uma_root *root) {
    _cleanup_text_ struct uma_text text = { 0 };
    /* a list of NUL-terminated names, most special first: "nvidia,p3737-0000+p3701-0005", "nvidia,tegra234" */
    if (uma_root_read(root, "proc/device-tree/compatible", 4096, &text, NULL) == 0 && memmem(text.data, text.length, "nvidia,tegra", 12))
        return true;
    return uma_root_read_line(root, "proc/device-tree/model", 256, &text, NULL) == 0 && strstr(text.data, "Jetson");
}

static int each_devfreq(void *userdata, const char *name) {
    struct uma_gpu_reader *reader = userdata;
    static const char *const units[] = { "gpu", "gv11b", "gp10b", "ga10b", "gm20b" };
    const char *dot = strrchr(name, '.');
    bool found = strncmp(name, "gpu-gpc-0", 9) == 0;
    for (size_t i = 0; i < ELEMENTS(units) && dot; i++)
        found = found || strcmp(dot + 1, units[i]) == 0;
    if (!found || strlen(name) > 64)
        return 0;
    (void)snprintf(reader->tegra_devfreq, sizeof(reader->tegra_devfreq), "sys/class/devfreq/%s", name);
    return 1;
}

static int each_zone(void *userdata, const char *name) {
    struct uma_gpu_reader *reader = userdata;
    uint64_t number = 0;
    char path[64];
    _cleanup_text_ struct uma_text type = { 0 };
    if (strncmp(name, "thermal_zone", 12) != 0 || uma_parse_u64_all(name + 12, &number) < 0 || number > 255)
        return 0;
    (void)snprintf(path, sizeof(path), "sys/class/thermal/thermal_zone%u/type", (unsigned)number);
    if (uma_root_read_line(reader->root, path, 64, &type, NULL) < 0 || strncasecmp(type.data, "gpu", 3) != 0)
        return 0; /* "GPU-therm" of older kernels, "gpu-thermal" of newer ones */
    reader->tegra_zone = (int)number;
    return 1;
}

static void look(struct uma_gpu_reader *reader) {
    reader->tegra_looked_ns = uma_monotonic_ns();
    reader->tegra_devfreq[0] = reader->tegra_load[0] = '\0';
    reader->tegra_zone = -1;
    reader->tegra = is_tegra(reader->root);
    if (!reader->tegra)
        return;
    (void)uma_root_list(reader->root, "sys/class/devfreq", 256, each_devfreq, reader, NULL);
    (void)uma_root_list(reader->root, "sys/class/thermal", 256, each_zone, reader, NULL);
    static const char *const loads[] = { "sys/devices/gpu.0/load", "sys/devices/platform/gpu.0/load" };
    for (size_t i = 0; i < ELEMENTS(loads) && !reader->tegra_load[0]; i++)
        if (uma_root_exists(reader->root, loads[i]))
            (void)snprintf(reader->tegra_load, sizeof(reader->tegra_load), "%s", loads[i]);
    if (!reader->tegra_load[0] && reader->tegra_devfreq[0])
        (void)snprintf(reader->tegra_load, sizeof(reader->tegra_load), "%s/device/load", reader->tegra_devfreq);
}

static struct uma_f64 read_fraction(struct uma_gpu_reader *reader, const char *path, double divisor, double least, double most) {
    int64_t value = 0;
    int r = uma_root_read_i64(reader->root, path, &value, NULL);
    if (r < 0)
        return uma_no_f64(uma_validity_of_errno(r));
    double scaled = (double)value / divisor;
    return scaled >= least && scaled <= most ? uma_known_f64(scaled) : uma_no_f64(UMA_MALFORMED);
}

static struct uma_u64 read_hertz(struct uma_gpu_reader *reader, const char *file) {
    char path[192];
    (void)snprintf(path, sizeof(path), "%s/%s", reader->tegra_devfreq, file);
    struct uma_f64 hertz = reader->tegra_devfreq[0] ? read_fraction(reader, path, 1, 0, 1e11) : uma_no_f64(UMA_ABSENT);
    return (struct uma_u64){ .value = (uint64_t)hertz.value, .validity = hertz.validity };
}

/* ---- nvmap's clients ---------------------------------------------------------------------------------------- */

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The last word before `end`; *ret_end is its end. */
static const char *last_word(const char *start, const char *end, const char **ret_end) {
    while (end > start && is_space(end[-1]))
        end--;
    *ret_end = end;
    while (end > start && !is_space(end[-1]))
        end--;
    return end;
}

/* "user  my program  1523  11234K" */
static bool take_client(const char *line, const char *end, struct uma_gpu_process *ret_process) {
    const char *size_end, *pid_end;
    const char *size = last_word(line, end, &size_end), *pid = last_word(line, size, &pid_end);
    uint64_t bytes = 0, number = 0, unit = 1;
    const char *rest = uma_parse_u64(size, size_end, &bytes);
    if (!rest || uma_parse_u64(pid, pid_end, &number) != pid_end || pid == line || number == 0 || number > UMA_PID_MAX)
        return false;
    if (rest < size_end && (*rest == 'K' || *rest == 'k'))
        unit = UMA_KIB;
    else if (rest < size_end && (*rest == 'M' || *rest == 'm'))
        unit = UMA_MIB;
    else if (rest != size_end)
        return false;
    if (bytes > (1ull << 56) / unit)
        return false;
    *ret_process = (struct uma_gpu_process){ .pid = (int32_t)number, .bytes = uma_known_u64(bytes * unit), .compute = true };
    return true;
}

static int by_pid(const void *left, const void *right) {
    const struct uma_gpu_process *l = left, *r = right;
    return (l->pid > r->pid) - (l->pid < r->pid);
}

int uma_nvmap_clients_parse(const char *text, size_t length, struct uma_arena *arena, size_t *ret_n, struct uma_gpu_process **ret_list,
                            struct uma_error *err) {
    struct uma_gpu_process *list = uma_arena_array(arena, UMA_GPU_PROCESSES_MAX, sizeof(*list));
    if (!list)
        return uma_error_set(err, ENOMEM, "%s", CLIENTS);
    size_t n = 0, kept = 0;
    const char *end = text + length;
    for (const char *line = text; line < end && n < UMA_GPU_PROCESSES_MAX;) {
        const char *stop = uma_line_end(line, end);
        n += take_client(line, stop, &list[n]);
        line = stop + 1;
    }
    qsort(list, n, sizeof(*list), by_pid);
    for (size_t i = 0; i < n; i++) {
        if (kept && list[kept - 1].pid == list[i].pid)
            list[kept - 1].bytes.value += list[i].bytes.value; /* at most 4096 x 2^56 */
        else
            list[kept++] = list[i];
    }
    *ret_n = kept;
    *ret_list = list;
    return 0;
}

static void read_processes(struct uma_gpu_reader *reader, struct uma_arena *arena, struct uma_gpu *gpu) {
    _cleanup_text_ struct uma_text text = { 0 };
    int r = uma_root_read(reader->root, CLIENTS, UMA_MIB, &text, NULL);
    if (r >= 0)
        r = uma_nvmap_clients_parse(text.data, text.length, arena, &gpu->n_processes, &gpu->processes, NULL);
    gpu->processes_validity = r < 0 ? uma_validity_of_errno(r) : UMA_KNOWN;
}

static void collect(struct uma_gpu_reader *reader, struct uma_snapshot *snapshot, struct uma_gpus *ret_gpus) {
    if (uma_gpu_look_again(reader, reader->tegra_looked_ns))
        look(reader);
    struct uma_gpu *gpu = reader->tegra ? uma_arena_alloc(snapshot->arena, sizeof(*gpu)) : NULL;
    if (!gpu)
        return;
    uma_gpu_blank(gpu, "tegra", 0);
    gpu->unified = UMA_YES;
    _cleanup_text_ struct uma_text model = { 0 };
    if (uma_root_read(reader->root, "proc/device-tree/model", 256, &model, NULL) >= 0)
        gpu->name = uma_arena_utf8(snapshot->arena, model.data, strcspn(model.data, "\n"));
    if (reader->tegra_load[0])
        gpu->utilization = read_fraction(reader, reader->tegra_load, 1000, 0, 1);
    gpu->sm_hertz = read_hertz(reader, "cur_freq");
    gpu->sm_max_hertz = read_hertz(reader, "max_freq");
    if (reader->tegra_zone >= 0) {
        char path[64];
        (void)snprintf(path, sizeof(path), "sys/class/thermal/thermal_zone%d/temp", reader->tegra_zone);
        gpu->celsius = read_fraction(reader, path, 1000, -100, 300);
    }
    gpu->memory_used = snapshot->meminfo.nvmap_mem_used;
    read_processes(reader, snapshot->arena, gpu);
    *ret_gpus = (struct uma_gpus){ .n = 1, .list = gpu };
    uma_source_ok(&ret_gpus->source, "proc/device-tree");
}

const struct uma_gpu_vendor uma_gpu_vendor_tegra = { "tegra", NULL, collect };
