/* SPDX-License-Identifier: MIT */
#include "observe/snapshot_fields.h"

#include "base/cleanup.h"

#include <math.h>

/* One word each, for documents; uma_validity_name() has the words for people. */
const char *const uma_validity_words[UMA_VALIDITY_MAX] = {
    [UMA_UNKNOWN] = "unknown",         [UMA_KNOWN] = "known",         [UMA_STALE] = "stale",
    [UMA_ABSENT] = "absent",           [UMA_UNLIMITED] = "unlimited", [UMA_DENIED] = "denied",
    [UMA_UNSUPPORTED] = "unsupported", [UMA_MALFORMED] = "malformed", [UMA_FAILED] = "failed",
};

const char *const uma_platform_words[UMA_PLATFORM_MAX] = {
    [UMA_PLATFORM_GENERIC] = "generic",       [UMA_PLATFORM_DGX_SPARK] = "dgx-spark", [UMA_PLATFORM_JETSON] = "jetson",
    [UMA_PLATFORM_STRIX_HALO] = "strix-halo", [UMA_PLATFORM_GH200] = "gh200",
};

static const char *const sensor_words[UMA_SENSOR_CURRENT + 1] = {
    [UMA_SENSOR_TEMPERATURE] = "temperature", [UMA_SENSOR_POWER] = "power",     [UMA_SENSOR_ENERGY] = "energy", [UMA_SENSOR_FAN] = "fan",
    [UMA_SENSOR_VOLTAGE] = "voltage",         [UMA_SENSOR_CURRENT] = "current",
};

static const char *const cached_words[UMA_CACHED_KINDS] = {
    [UMA_CACHED_FILE] = "file",
    [UMA_CACHED_MEMORY] = "memory",
    [UMA_CACHED_BLOCK_DEVICE] = "block_device",
};

/* The offset of a member, which does not compile when the member is not of that type. */
#define AT(member, type)                                                                                                                   \
    (offsetof(struct S, member) + 0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((struct S *)0)->member), type) ? 1 : -1]))
#define PUT(member_, type_, c_type, ...)                                                                                                   \
    { .name = #member_, .type = UMA_FIELD_##type_, .offset = AT(member_, c_type), __VA_ARGS__ }
#define U64(member) PUT(member, U64, struct uma_u64)
#define I64(member) PUT(member, I64, struct uma_i64)
#define F64(member) PUT(member, F64, struct uma_f64)
#define UINT64(member) PUT(member, UINT64, uint64_t, .high = INT64_MAX)
#define INT64(member) PUT(member, INT64, int64_t, .low = INT64_MIN, .high = INT64_MAX)
#define UINT32(member) PUT(member, UINT32, uint32_t, .high = UINT32_MAX)
#define INT32(member, from, to) PUT(member, INT32, int32_t, .low = (from), .high = (to))
#define BOOL(member) PUT(member, BOOL, bool)
#define TRUTH(member) PUT(member, TRUTH, enum uma_truth)
#define STRING(member, kind) PUT(member, STRING, const char *, .privacy = UMA_PRIVACY_##kind)
#define NAME(member) PUT(member, NAME, char[16], .privacy = UMA_PRIVACY_OPEN)
#define WORD(member, c_type, table) PUT(member, WORD, c_type, .words = (table), .max = ELEMENTS(table))
#define OBJECT(member, c_type, table) PUT(member, OBJECT, c_type, .of = &(table))
#define LIST(member, count, c_type, table, most)                                                                                           \
    PUT(member, LIST, c_type *, .count_offset = AT(count, size_t), .of = &(table), .max = (most))
#define STRINGS(member, count, kind, most)                                                                                                 \
    PUT(member, STRINGS, const char *const *, .count_offset = AT(count, uint32_t), .privacy = UMA_PRIVACY_##kind, .max = (most))
#define FIELDS(table, list_, line)                                                                                                         \
    { .name = (table), .size = sizeof(struct S), .n = ELEMENTS(list_), .list = (list_), .one_line = (line) }

/* `#define S` names the struct that a table is about; each table redefines it. */
#define S uma_source
static const struct uma_field source_list[] = {
    { .name = "state",
      .type = UMA_FIELD_WORD,
      .offset = AT(validity, enum uma_validity),
      .words = uma_validity_words,
      .max = UMA_VALIDITY_MAX },
    { .name = "time", .type = UMA_FIELD_TIME, .offset = AT(time_ns, int64_t) },
    STRING(path, TEXT),
    STRING(detail, TEXT),
};
static const struct uma_fields source_fields = FIELDS("source", source_list, true);
#undef S
#define SOURCE(member) OBJECT(member, struct uma_source, source_fields)

#define S uma_platform
static const struct uma_field platform_list[] = {
    SOURCE(source),
    WORD(name, enum uma_platform_name, uma_platform_words),
    TRUTH(unified),
    STRING(evidence, TEXT),
    STRING(host, HOST),
    STRING(kernel, OPEN),
    STRING(architecture, OPEN),
    STRING(product, OPEN),
    STRING(board, OPEN),
    STRING(vendor, OPEN),
    STRING(firmware, OPEN),
    STRING(firmware_date, OPEN),
    STRING(cpu, OPEN),
    STRING(driver, OPEN),
    STRING(dgx_release, OPEN),
    STRING(os, OPEN),
    STRING(boot_id, UUID),
    STRING(self_cgroup, PATH),
    TRUTH(in_container),
    F64(uptime_seconds),
    U64(cpus),
};
static const struct uma_fields platform_fields = FIELDS("platform", platform_list, false);
#undef S

#define S uma_meminfo
static const struct uma_field meminfo_list[] = {
    SOURCE(source),
#define UMA_X(field, key) U64(field),
    UMA_MEMINFO_FIELDS(UMA_X)
#undef UMA_X
        PUT(other, NAMED, struct uma_named_u64 *, .count_offset = AT(n_other, size_t), .max = UMA_MEMINFO_OTHER_MAX),
};
static const struct uma_fields meminfo_fields = FIELDS("meminfo", meminfo_list, false);
#undef S

#define S uma_vmstat
static const struct uma_field vmstat_list[] = { SOURCE(source),
#define UMA_X(field, key) U64(field),
                                                UMA_VMSTAT_FIELDS(UMA_X)
#undef UMA_X
};
static const struct uma_fields vmstat_fields = FIELDS("vmstat", vmstat_list, false);
#undef S

#define S uma_pressure_line
static const struct uma_field pressure_line_list[] = { F64(avg10), F64(avg60), F64(avg300), F64(total_seconds) };
static const struct uma_fields pressure_line_fields = FIELDS("pressure_line", pressure_line_list, true);
#undef S

#define S uma_pressure
static const struct uma_field pressure_list[] = {
    SOURCE(source),
    OBJECT(some, struct uma_pressure_line, pressure_line_fields),
    OBJECT(full, struct uma_pressure_line, pressure_line_fields),
};
static const struct uma_fields pressure_fields = FIELDS("pressure", pressure_list, false);
#undef S

#define S uma_zone
static const struct uma_field zone_list[] = {
    INT32(node, 0, INT32_MAX),
    NAME(name),
    U64(free_pages),
    U64(boost_pages),
    U64(min_pages),
    U64(low_pages),
    U64(high_pages),
    U64(spanned_pages),
    U64(present_pages),
    U64(managed_pages),
    U64(cma_pages),
    U64(pcp_pages),
    PUT(blocks, NUMBERS, uint64_t[UMA_ORDERS_MAX], .count_offset = AT(n_orders, uint32_t), .max = UMA_ORDERS_MAX),
};
static const struct uma_fields zone_fields = FIELDS("zone", zone_list, true);
#undef S

#define S uma_zones
static const struct uma_field zones_list[] = {
    SOURCE(zoneinfo),
    SOURCE(buddyinfo),
    U64(page_size),
    LIST(zones, n_zones, struct uma_zone, zone_fields, UMA_ZONES_MAX),
};
static const struct uma_fields zones_fields = FIELDS("zones", zones_list, false);
#undef S

#define S uma_swap
static const struct uma_field swap_list[] = { STRING(path, PATH), STRING(type, OPEN), UINT64(size), UINT64(used), INT64(priority) };
static const struct uma_fields swap_fields = FIELDS("swap", swap_list, true);
#undef S

#define S uma_node
static const struct uma_field node_list[] = {
    INT32(id, 0, INT32_MAX), TRUTH(has_cpu), U64(mem_total), U64(mem_free), U64(file_pages), U64(anon_pages), U64(shmem), U64(slab),
};
static const struct uma_fields node_fields = FIELDS("node", node_list, true);
#undef S

#define S uma_process
static const struct uma_field process_list[] = {
    INT32(pid, 1, UMA_PID_MAX),
    INT32(ppid, 0, UMA_PID_MAX),
    PUT(uid, UINT32, uint32_t, .high = UINT32_MAX, .privacy = UMA_PRIVACY_USER),
    UINT32(threads),
    PUT(state, CHARACTER, char),
    BOOL(kernel_thread),
    BOOL(cmdline_cut),
    UINT64(start_ticks),
    STRING(name, PROGRAM),
    STRINGS(argv, argc, ARGUMENTS, UMA_CMDLINE_MAX),
    STRINGS(env, envc, ARGUMENTS, UMA_SNAPSHOT_ENV_MAX),
    U64(rss),
    U64(rss_anon),
    U64(rss_file),
    U64(rss_shmem),
    U64(swap),
    U64(pinned),
    U64(locked),
    U64(hugetlb),
    U64(majfaults),
    F64(cpu_seconds),
    I64(oom_score_adj),
    INT32(cgroup, -1, UMA_CGROUPS_MAX - 1),
    INT32(container, -1, UMA_CONTAINERS_MAX - 1),
};
static const struct uma_fields process_fields = FIELDS("process", process_list, true);
#undef S

#define S uma_processes
static const struct uma_field processes_list[] = {
    SOURCE(source),
    UINT64(vanished),
    UINT64(denied),
    LIST(list, n, struct uma_process, process_fields, UMA_PROCESSES_MAX),
};
static const struct uma_fields processes_fields = FIELDS("processes", processes_list, false);
#undef S

#define S uma_dmem
static const struct uma_field dmem_list[] = { STRING(region, OPEN), U64(current), U64(max) };
static const struct uma_fields dmem_fields = FIELDS("dmem", dmem_list, true);
#undef S

#define S uma_cgroup
static const struct uma_field cgroup_list[] = {
    SOURCE(source),
    INT32(version, 0, 2),
    STRING(path, PATH),
    STRING(unit, UNIT),
    U64(memory_current),
    U64(memory_peak),
    U64(memory_max),
    U64(memory_high),
    U64(memory_low),
    U64(memory_min),
    U64(swap_current),
    U64(swap_max),
    U64(anon),
    U64(file),
    U64(shmem),
    U64(events_high),
    U64(events_max),
    U64(events_oom),
    U64(events_oom_kill),
    U64(effective_max),
    STRING(effective_max_path, PATH),
    PUT(dmem, ARRAY, struct uma_dmem[UMA_DMEM_MAX], .count_offset = AT(n_dmem, uint32_t), .of = &dmem_fields, .max = UMA_DMEM_MAX),
};
static const struct uma_fields cgroup_fields = FIELDS("cgroup", cgroup_list, true);
#undef S

#define S uma_container
static const struct uma_field container_list[] = {
    STRING(runtime, OPEN), STRING(id, CONTAINER), STRING(name, CONTAINER), STRING(image, IMAGE), STRING(pod, CONTAINER),
};
static const struct uma_fields container_fields = FIELDS("container", container_list, true);
#undef S

#define S uma_thermal_zone
static const struct uma_field thermal_zone_list[] = { INT32(id, 0, INT32_MAX), STRING(type, OPEN), F64(celsius), F64(critical_celsius) };
static const struct uma_fields thermal_zone_fields = FIELDS("thermal_zone", thermal_zone_list, true);
#undef S

#define S uma_sensor
static const struct uma_field sensor_list[] = {
    STRING(chip, OPEN),  INT32(hwmon, 0, INT32_MAX),
    STRING(label, OPEN), WORD(kind, enum uma_sensor_kind, sensor_words),
    F64(value),          F64(max),
    F64(critical),
};
static const struct uma_fields sensor_fields = FIELDS("sensor", sensor_list, true);
#undef S

#define S uma_cpu
static const struct uma_field cpu_list[] = {
    INT32(id, 0, INT32_MAX), STRING(core, OPEN), U64(midr), U64(hertz), U64(min_hertz), U64(max_hertz),
};
static const struct uma_fields cpu_fields = FIELDS("cpu", cpu_list, true);
#undef S

#define S uma_heat
static const struct uma_field heat_list[] = {
    SOURCE(thermal),
    SOURCE(hwmon),
    SOURCE(cpufreq),
    STRING(cpufreq_driver, OPEN),
    STRING(cpufreq_governor, OPEN),
    LIST(zones, n_zones, struct uma_thermal_zone, thermal_zone_fields, UMA_THERMAL_ZONES_MAX),
    LIST(sensors, n_sensors, struct uma_sensor, sensor_fields, UMA_SENSORS_MAX),
    LIST(cpus, n_cpus, struct uma_cpu, cpu_fields, UMA_CPUS_MAX),
};
static const struct uma_fields heat_fields = FIELDS("heat", heat_list, false);
#undef S

#define S uma_gpu_process
/* The driver may answer 0 for a process of a PID namespace that it does not show. */
static const struct uma_field gpu_process_list[] = { INT32(pid, 0, UMA_PID_MAX), U64(bytes), BOOL(compute) };
static const struct uma_fields gpu_process_fields = FIELDS("gpu_process", gpu_process_list, true);
#undef S

#define S uma_gpu
/* throttle_seconds is an array by enum uma_throttle; in the document an object with the names of uma_throttle_name(). */
#define THROTTLE(key, i)                                                                                                                   \
    { .name = (key), .type = UMA_FIELD_F64, .offset = (i) * sizeof(struct uma_f64) }
static const struct uma_field throttle_list[UMA_THROTTLE_MAX] = {
    THROTTLE("sw_power_cap", UMA_THROTTLE_SW_POWER_CAP),     THROTTLE("sync_boost", UMA_THROTTLE_SYNC_BOOST),
    THROTTLE("sw_thermal", UMA_THROTTLE_SW_THERMAL),         THROTTLE("hw_thermal", UMA_THROTTLE_HW_THERMAL),
    THROTTLE("hw_power_brake", UMA_THROTTLE_HW_POWER_BRAKE),
};
static const struct uma_fields throttle_fields = {
    .name = "throttle_seconds",
    .size = sizeof(struct uma_f64[UMA_THROTTLE_MAX]),
    .n = UMA_THROTTLE_MAX,
    .list = throttle_list,
    .one_line = true,
};
static const struct uma_field gpu_list[] = {
    STRING(vendor, OPEN),
    INT32(index, 0, INT32_MAX),
    STRING(name, OPEN),
    STRING(uuid, UUID),
    STRING(pci, OPEN),
    TRUTH(unified),
    INT32(numa_node, -1, INT32_MAX),
    U64(memory_total),
    U64(memory_used),
    U64(memory_free),
    U64(container_used),
    U64(container_limit),
    U64(gtt_total),
    U64(gtt_used),
    U64(vram_total),
    U64(vram_used),
    F64(celsius),
    F64(limit_margin_celsius),
    F64(watts),
    F64(watts_instant),
    F64(joules),
    F64(limit_watts),
    U64(sm_hertz),
    U64(sm_max_hertz),
    U64(memory_hertz),
    F64(utilization),
    F64(memory_utilization),
    I64(pstate),
    U64(throttle_reasons),
    OBJECT(throttle_seconds, struct uma_f64[UMA_THROTTLE_MAX], throttle_fields),
    WORD(processes_validity, enum uma_validity, uma_validity_words),
    LIST(processes, n_processes, struct uma_gpu_process, gpu_process_fields, UMA_GPU_PROCESSES_MAX),
};
static const struct uma_fields gpu_fields = FIELDS("gpu", gpu_list, false);
#undef S

#define S uma_gpus
static const struct uma_field gpus_list[] = {
    SOURCE(source), BOOL(hung), F64(latency_seconds), STRING(driver, OPEN), LIST(list, n, struct uma_gpu, gpu_fields, UMA_GPUS_MAX),
};
const struct uma_fields uma_gpus_fields = FIELDS("gpus", gpus_list, false);
#undef S

#define S uma_pid
static const struct uma_field pid_list[] = { INT32(pid, 1, UMA_PID_MAX) };
static const struct uma_fields pid_fields = FIELDS("pid", pid_list, true);
#undef S

#define S uma_cached_file
static const struct uma_field cached_file_list[] = {
    STRING(path, FILE),
    STRING(shown, FILE),
    STRING(model, MODEL),
    STRING(filesystem, OPEN),
    STRING(container, CONTAINER),
    WORD(kind, enum uma_cached_kind, cached_words),
    BOOL(deleted),
    UINT64(device),
    UINT64(inode),
    U64(size),
    U64(resident),
    U64(dirty),
    { .name = "used", .type = UMA_FIELD_TIME, .offset = AT(used_ns, int64_t) },
    LIST(mapped_by, n_mapped_by, struct uma_pid, pid_fields, UMA_CACHED_PIDS_MAX),
    LIST(open_by, n_open_by, struct uma_pid, pid_fields, UMA_CACHED_PIDS_MAX),
};
static const struct uma_fields cached_file_fields = FIELDS("cached_file", cached_file_list, true);
#undef S

#define S uma_page_cache
static const struct uma_field page_cache_list[] = {
    SOURCE(source),
    U64(total),
    U64(explained),
    U64(unreadable),
    U64(left_out),
    BOOL(complete),
    LIST(files, n_files, struct uma_cached_file, cached_file_fields, UMA_SNAPSHOT_CACHED_FILES_MAX),
};
const struct uma_fields uma_page_cache_fields = FIELDS("page_cache", page_cache_list, false);
#undef S

#define S uma_snapshot
static const struct uma_field snapshot_list[] = {
    { .name = "time", .type = UMA_FIELD_TIME, .offset = AT(time_ns, int64_t) },
    OBJECT(platform, struct uma_platform, platform_fields),
    OBJECT(meminfo, struct uma_meminfo, meminfo_fields),
    OBJECT(vmstat, struct uma_vmstat, vmstat_fields),
    OBJECT(memory_pressure, struct uma_pressure, pressure_fields),
    OBJECT(cpu_pressure, struct uma_pressure, pressure_fields),
    OBJECT(io_pressure, struct uma_pressure, pressure_fields),
    OBJECT(zones, struct uma_zones, zones_fields),
    SOURCE(swaps_source),
    LIST(swaps, n_swaps, struct uma_swap, swap_fields, UMA_SWAPS_MAX),
    SOURCE(nodes_source),
    LIST(nodes, n_nodes, struct uma_node, node_fields, UMA_NODES_MAX),
    OBJECT(processes, struct uma_processes, processes_fields),
    LIST(cgroups, n_cgroups, struct uma_cgroup, cgroup_fields, UMA_CGROUPS_MAX),
    LIST(containers, n_containers, struct uma_container, container_fields, UMA_CONTAINERS_MAX),
    OBJECT(heat, struct uma_heat, heat_fields),
    OBJECT(gpus, struct uma_gpus, uma_gpus_fields),
    OBJECT(page_cache, struct uma_page_cache, uma_page_cache_fields),
};
const struct uma_fields uma_snapshot_fields = FIELDS("snapshot", snapshot_list, false);
#undef S

size_t uma_field_count(const struct uma_field *field, const void *object) {
    const char *at = (const char *)object + field->count_offset;
    size_t n = field->type == UMA_FIELD_LIST || field->type == UMA_FIELD_NAMED ? *(const size_t *)(const void *)at
                                                                               : *(const uint32_t *)(const void *)at;
    return MIN_OF(n, (size_t)field->max);
}

enum uma_validity uma_field_validity(const struct uma_field *field, const void *object) {
    const void *at = (const char *)object + field->offset;
    enum uma_validity v;
    bool fits = true;
    if (field->type == UMA_FIELD_U64) {
        v = ((const struct uma_u64 *)at)->validity;
        fits = ((const struct uma_u64 *)at)->value <= (uint64_t)INT64_MAX;
    } else if (field->type == UMA_FIELD_I64)
        v = ((const struct uma_i64 *)at)->validity;
    else {
        v = ((const struct uma_f64 *)at)->validity;
        fits = isfinite(((const struct uma_f64 *)at)->value);
    }
    if ((unsigned)v >= UMA_VALIDITY_MAX)
        return UMA_UNKNOWN;
    return uma_usable(v) && !fits ? UMA_MALFORMED : v;
}
