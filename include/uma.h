/* SPDX-License-Identifier: MIT */
/*
 * uma.h - the public face of libuma: one reading of a machine whose CPU and GPU share one pool of memory
 * (observe), and what that reading means (account).
 *
 * What it promises
 *   - Unknown is a value. Every number carries a validity; nothing is 0 because it could not be read.
 *   - Units are bytes, seconds, watts, degrees Celsius, hertz and ratios 0..1, unless a name says otherwise
 *     (..._pages, ..._count, ..._ticks).
 *   - Times are nanoseconds of CLOCK_REALTIME, whole microseconds (so that JSON numbers hold them exactly). A field's time is the `time_ns`
 *     of the `struct uma_source` in the same struct: one source is one read(2) of one file, or one answer of the GPU probe.
 *   - Strings are valid UTF-8. A byte that is not is written as the four characters \xHH when it is read. Strings may
 *     hold control characters (a process may be named "a\nb"): whoever prints them escapes them.
 *   - NULL strings are unknown.
 *   - Plain C types throughout, for C++ and ctypes as well: enumerations are as large as int, lists are pointers with a count beside them,
 *     and strings and lists belong to the snapshot or account that they hang on.
 * What it never does
 *   - It never calls NVML in the calling process, never writes to the machine, never decides.
 *
 * Errors: functions return 0 or a positive result, or a negative errno with *err set; output parameters (named ret_...)
 * are untouched on failure. Threads: objects may be used from one thread at a time; distinct objects are independent.
 */
#ifndef UMA_H
#define UMA_H

#include "uma_page_cache.h"
#include "uma_values.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UMA_SNAPSHOT_SCHEMA "umactl.snapshot/1"

/* ---- memory ------------------------------------------------------------------------------------------------- */

/*
 * X(field, key) for every line of /proc/meminfo that umactl gives a meaning to, in the kernel's order
 * (fs/proc/meminfo.c and arch code; NvMapMemUsed is Tegra's; GPUActive/GPUReclaim are TTM's on newest kernels).
 * Lines with "kB" are bytes here (the kernel's kB is 1024); lines without are counts.
 */
#define UMA_MEMINFO_FIELDS(X)                                                                                                              \
    X(mem_total, "MemTotal")                                                                                                               \
    X(mem_free, "MemFree")                                                                                                                 \
    X(mem_available, "MemAvailable")                                                                                                       \
    X(buffers, "Buffers")                                                                                                                  \
    X(cached, "Cached")                                                                                                                    \
    X(swap_cached, "SwapCached")                                                                                                           \
    X(active, "Active")                                                                                                                    \
    X(inactive, "Inactive")                                                                                                                \
    X(active_anon, "Active(anon)")                                                                                                         \
    X(inactive_anon, "Inactive(anon)")                                                                                                     \
    X(active_file, "Active(file)")                                                                                                         \
    X(inactive_file, "Inactive(file)")                                                                                                     \
    X(unevictable, "Unevictable")                                                                                                          \
    X(mlocked, "Mlocked")                                                                                                                  \
    X(swap_total, "SwapTotal")                                                                                                             \
    X(swap_free, "SwapFree")                                                                                                               \
    X(zswap, "Zswap")                                                                                                                      \
    X(zswapped, "Zswapped")                                                                                                                \
    X(dirty, "Dirty")                                                                                                                      \
    X(writeback, "Writeback")                                                                                                              \
    X(anon_pages, "AnonPages")                                                                                                             \
    X(mapped, "Mapped")                                                                                                                    \
    X(shmem, "Shmem")                                                                                                                      \
    X(kreclaimable, "KReclaimable")                                                                                                        \
    X(slab, "Slab")                                                                                                                        \
    X(sreclaimable, "SReclaimable")                                                                                                        \
    X(sunreclaim, "SUnreclaim")                                                                                                            \
    X(kernel_stack, "KernelStack")                                                                                                         \
    X(page_tables, "PageTables")                                                                                                           \
    X(sec_page_tables, "SecPageTables")                                                                                                    \
    X(nfs_unstable, "NFS_Unstable")                                                                                                        \
    X(bounce, "Bounce")                                                                                                                    \
    X(writeback_tmp, "WritebackTmp")                                                                                                       \
    X(commit_limit, "CommitLimit")                                                                                                         \
    X(committed_as, "Committed_AS")                                                                                                        \
    X(vmalloc_total, "VmallocTotal")                                                                                                       \
    X(vmalloc_used, "VmallocUsed")                                                                                                         \
    X(percpu, "Percpu")                                                                                                                    \
    X(hardware_corrupted, "HardwareCorrupted")                                                                                             \
    X(anon_huge_pages, "AnonHugePages")                                                                                                    \
    X(shmem_huge_pages, "ShmemHugePages")                                                                                                  \
    X(file_huge_pages, "FileHugePages")                                                                                                    \
    X(cma_total, "CmaTotal")                                                                                                               \
    X(cma_free, "CmaFree")                                                                                                                 \
    X(unaccepted, "Unaccepted")                                                                                                            \
    X(balloon, "Balloon")                                                                                                                  \
    X(gpu_active, "GPUActive")                                                                                                             \
    X(gpu_reclaim, "GPUReclaim")                                                                                                           \
    X(hugepages_total, "HugePages_Total")                                                                                                  \
    X(hugepages_free, "HugePages_Free")                                                                                                    \
    X(hugepages_rsvd, "HugePages_Rsvd")                                                                                                    \
    X(hugepages_surp, "HugePages_Surp")                                                                                                    \
    X(hugepagesize, "Hugepagesize")                                                                                                        \
    X(hugetlb, "Hugetlb")                                                                                                                  \
    X(direct_map_4k, "DirectMap4k")                                                                                                        \
    X(direct_map_64k, "DirectMap64k")                                                                                                      \
    X(direct_map_2m, "DirectMap2M")                                                                                                        \
    X(direct_map_4m, "DirectMap4M")                                                                                                        \
    X(direct_map_1g, "DirectMap1G")                                                                                                        \
    X(nvmap_mem_used, "NvMapMemUsed")

/* A line that the list above does not name. */
struct uma_named_u64 {
    const char *name;
    uint64_t value;
};

struct uma_meminfo {
    struct uma_source source;
#define UMA_X(field, key) struct uma_u64 field;
    UMA_MEMINFO_FIELDS(UMA_X)
#undef UMA_X
    size_t n_other; /* at most UMA_MEMINFO_OTHER_MAX */
    struct uma_named_u64 *other;
};
#define UMA_MEMINFO_OTHER_MAX 64

/*
 * X(field, key) of /proc/vmstat: counters since boot, in the kernel's own units (events, or pages where the key begins
 * with nr_). `allocstall` is the sum of allocstall_* (per zone since 4.10) or the single older counter;
 * `workingset_refault_file` is the older workingset_refault where that is all there is (before 5.9).
 */
#define UMA_VMSTAT_FIELDS(X)                                                                                                               \
    X(nr_free_pages, "nr_free_pages")                                                                                                      \
    X(nr_kernel_misc_reclaimable, "nr_kernel_misc_reclaimable")                                                                            \
    X(nr_foll_pin_acquired, "nr_foll_pin_acquired")                                                                                        \
    X(nr_foll_pin_released, "nr_foll_pin_released")                                                                                        \
    X(pgpgin, "pgpgin")                                                                                                                    \
    X(pgpgout, "pgpgout")                                                                                                                  \
    X(pswpin, "pswpin")                                                                                                                    \
    X(pswpout, "pswpout")                                                                                                                  \
    X(pgfault, "pgfault")                                                                                                                  \
    X(pgmajfault, "pgmajfault")                                                                                                            \
    X(allocstall, "allocstall")                                                                                                            \
    X(pgscan_kswapd, "pgscan_kswapd")                                                                                                      \
    X(pgscan_direct, "pgscan_direct")                                                                                                      \
    X(pgsteal_kswapd, "pgsteal_kswapd")                                                                                                    \
    X(pgsteal_direct, "pgsteal_direct")                                                                                                    \
    X(compact_stall, "compact_stall")                                                                                                      \
    X(compact_fail, "compact_fail")                                                                                                        \
    X(compact_success, "compact_success")                                                                                                  \
    X(workingset_refault_anon, "workingset_refault_anon")                                                                                  \
    X(workingset_refault_file, "workingset_refault_file")                                                                                  \
    X(oom_kill, "oom_kill")                                                                                                                \
    X(zswpin, "zswpin")                                                                                                                    \
    X(zswpout, "zswpout")

struct uma_vmstat {
    struct uma_source source;
#define UMA_X(field, key) struct uma_u64 field;
    UMA_VMSTAT_FIELDS(UMA_X)
#undef UMA_X
};

/* One "some" or "full" line of a PSI file: ratios of wall time 0..1 over 10, 60 and 300 s, and seconds since boot. */
struct uma_pressure_line {
    struct uma_f64 avg10, avg60, avg300, total_seconds;
};

/* PSI of one resource. validity UMA_ABSENT: no such file; UMA_UNSUPPORTED: built in, but disabled (EOPNOTSUPP). */
struct uma_pressure {
    struct uma_source source;
    struct uma_pressure_line some, full;
};

#define UMA_ORDERS_MAX 32 /* the kernel's MAX_ORDER is 10 or 11 with 4K pages, 13 with 64K; twice that is refused as nonsense */

/* One memory zone: /proc/zoneinfo (pages) joined with /proc/buddyinfo (blocks). All counts are pages. */
struct uma_zone {
    int32_t node;
    char name[16]; /* DMA, DMA32, Normal, HighMem, Movable, Device */
    struct uma_u64 free_pages, boost_pages, min_pages, low_pages, high_pages, spanned_pages, present_pages, managed_pages, cma_pages;
    struct uma_u64 pcp_pages;        /* free pages parked in per-CPU lists: the sum of `count:` over CPUs */
    uint32_t n_orders;               /* 0: not in buddyinfo */
    uint64_t blocks[UMA_ORDERS_MAX]; /* free blocks of 2^order pages */
};
#define UMA_ZONES_MAX 1024

struct uma_zones {
    struct uma_source zoneinfo, buddyinfo;
    struct uma_u64 page_size; /* bytes; from this machine, or inferred in a --root folder from managed pages and MemTotal */
    size_t n_zones;
    struct uma_zone *zones;
};

struct uma_swap {
    const char *path; /* "/swap.img" */
    const char *type; /* "file", "partition" */
    uint64_t size, used;
    int64_t priority;
};
#define UMA_SWAPS_MAX 64

/* One NUMA node. On GH200 the GPU's HBM is one without CPUs. */
struct uma_node {
    int32_t id;
    enum uma_truth has_cpu;
    struct uma_u64 mem_total, mem_free, file_pages, anon_pages, shmem, slab;
};
#define UMA_NODES_MAX 256

/* ---- processes, cgroups, containers ------------------------------------------------------------------------- */

#define UMA_CMDLINE_MAX 8192 /* bytes of a command line that are kept; engines' flags end well before */
#define UMA_PROCESSES_MAX 131072
/* The largest pid that a kernel can give (PID_MAX_LIMIT of 64 bits, include/linux/threads.h): what is beyond it is a folder's or a driver's invention. */
#define UMA_PID_MAX (4 * 1024 * 1024)

struct uma_process {
    int32_t pid, ppid;
    uint32_t uid; /* the real one; UINT32_MAX: unknown */
    uint32_t threads;
    char state; /* R S D Z T t X I, as in /proc/PID/stat */
    bool kernel_thread;
    bool cmdline_cut;     /* longer than UMA_CMDLINE_MAX */
    uint64_t start_ticks; /* clock ticks (USER_HZ, 100/s) after boot; (pid, start_ticks) names one process */
    const char *name;     /* comm, at most 15 bytes on Linux, 63 for kernel threads */
    uint32_t argc;
    const char *const *argv; /* argc strings, as split at NUL; a title that was set over it is one string */
    uint32_t envc;
    /* "NAME=VALUE": only names on the list of variables that matter (process_environ.c), never secrets, and only of processes that may hold
     * the pool (process.c) */
    const char *const *env;
    struct uma_u64 rss, rss_anon, rss_file, rss_shmem, swap, pinned, locked, hugetlb; /* bytes */
    struct uma_u64 majfaults;
    struct uma_f64 cpu_seconds;
    struct uma_i64 oom_score_adj;
    int32_t cgroup;    /* index into snapshot.cgroups, -1 unknown */
    int32_t container; /* index into snapshot.containers, -1 none */
};

struct uma_processes {
    struct uma_source source; /* detail says how many could not be read, and why */
    size_t n;
    struct uma_process *list; /* by pid */
    uint64_t vanished;        /* ended while being read: normal */
    uint64_t denied;          /* had a part that this user may not read */
};

struct uma_dmem {
    const char *region; /* "drm/0000:03:00.0/vram0" */
    struct uma_u64 current, max;
};
#define UMA_DMEM_MAX 8

/* Limits and usage of one cgroup that holds a process. Bytes; counts of events. */
struct uma_cgroup {
    struct uma_source source;
    int32_t version;  /* 1 or 2: which hierarchy its memory controller is on; 0 none */
    const char *path; /* as in /proc/PID/cgroup, "/system.slice/docker-<id>.scope" */
    const char *unit; /* systemd unit of the path, "vllm.service", or NULL */
    struct uma_u64 memory_current, memory_peak, memory_max, memory_high, memory_low, memory_min, swap_current, swap_max;
    struct uma_u64 anon, file, shmem;
    struct uma_u64 events_high, events_max, events_oom, events_oom_kill;
    /* the smallest limit of this cgroup and its parents, and whose it is; UMA_UNLIMITED when none has one */
    struct uma_u64 effective_max;
    const char *effective_max_path;
    uint32_t n_dmem;
    struct uma_dmem dmem[UMA_DMEM_MAX];
};
#define UMA_CGROUPS_MAX 8192

struct uma_container {
    const char *runtime; /* docker, podman, containerd, crio, lxc, systemd-nspawn, kubernetes */
    const char *id;      /* full id as in the cgroup path */
    const char *name;    /* from the runtime's own files where readable, else NULL */
    const char *image;   /* likewise */
    const char *pod;     /* Kubernetes pod uid, or NULL */
};
#define UMA_CONTAINERS_MAX 4096

/* ---- heat, power, clocks ------------------------------------------------------------------------------------ */

struct uma_thermal_zone {
    int32_t id;
    const char *type; /* "acpitz", "gpu-thermal" */
    struct uma_f64 celsius;
    struct uma_f64 critical_celsius; /* the lowest trip of type critical */
};
#define UMA_THERMAL_ZONES_MAX 256

enum uma_sensor_kind {
    UMA_SENSOR_TEMPERATURE,
    UMA_SENSOR_POWER,
    UMA_SENSOR_ENERGY,
    UMA_SENSOR_FAN,
    UMA_SENSOR_VOLTAGE,
    UMA_SENSOR_CURRENT
};

/* One hwmon channel, found by the chip's *name* (numbers move between boots). Celsius, watts, joules, rpm, volts, amperes. */
struct uma_sensor {
    const char *chip;  /* nvme, mlx5, acpitz, spbm, acpi_fan, k10temp, amdgpu ... */
    int32_t hwmon;     /* hwmonN of this boot: tells two chips of one name apart */
    const char *label; /* from *_label, or "temp1" */
    enum uma_sensor_kind kind;
    struct uma_f64 value, max, critical; /* sentinels (beyond what the physics allows) are UMA_MALFORMED, never a number */
};
#define UMA_SENSORS_MAX 1024

struct uma_cpu {
    int32_t id;
    const char *core; /* "Cortex-X925", "Cortex-A725", from MIDR_EL1; NULL elsewhere */
    struct uma_u64 midr;
    struct uma_u64 hertz; /* cpuinfo_avg_freq; scaling_cur_freq only where that is trusted (not on GB10: 7332 MHz seen) */
    struct uma_u64 min_hertz, max_hertz;
};
#define UMA_CPUS_MAX 4096

struct uma_heat {
    struct uma_source thermal, hwmon, cpufreq;
    size_t n_zones;
    struct uma_thermal_zone *zones;
    size_t n_sensors;
    struct uma_sensor *sensors;
    size_t n_cpus;
    struct uma_cpu *cpus;
    const char *cpufreq_driver, *cpufreq_governor; /* of the first policy */
};

/* ---- GPU ---------------------------------------------------------------------------------------------------- */

/* The duration counters, in the order of uma_gpu.throttle_seconds. NVML fields 74, 76, 269, 270, 271. */
enum uma_throttle {
    UMA_THROTTLE_SW_POWER_CAP,
    UMA_THROTTLE_SYNC_BOOST,
    UMA_THROTTLE_SW_THERMAL,
    UMA_THROTTLE_HW_THERMAL,
    UMA_THROTTLE_HW_POWER_BRAKE,
    UMA_THROTTLE_MAX
};

/* Bits of uma_gpu.throttle_reasons: nvml.h 13.3 (nvmlClocksEventReason*); unknown bits are kept and shown as such. */
#define UMA_REASON_GPU_IDLE 0x001ull
#define UMA_REASON_APPLICATIONS_CLOCKS 0x002ull
#define UMA_REASON_SW_POWER_CAP 0x004ull
#define UMA_REASON_HW_SLOWDOWN 0x008ull
#define UMA_REASON_SYNC_BOOST 0x010ull
#define UMA_REASON_SW_THERMAL 0x020ull
#define UMA_REASON_HW_THERMAL 0x040ull
#define UMA_REASON_HW_POWER_BRAKE 0x080ull
#define UMA_REASON_DISPLAY_CLOCKS 0x100ull
#define UMA_REASON_BOARD_LIMIT 0x200ull /* r615 and newer, as is the next */
#define UMA_REASON_RELIABILITY 0x400ull

struct uma_gpu_process {
    int32_t pid;          /* in the host's PID namespace */
    struct uma_u64 bytes; /* unified pool bytes of this process as the driver counts them; cudaMallocManaged is under-reported */
    bool compute;         /* false: graphics only */
};
#define UMA_GPU_PROCESSES_MAX 4096
#define UMA_GPUS_MAX 64

struct uma_gpu {
    const char *vendor; /* nvidia, amd, tegra */
    int32_t index;
    const char *name, *uuid, *pci;
    enum uma_truth unified; /* shares the system's pool */
    int32_t numa_node;      /* the node that is this GPU's own memory (GH200), -1 none */
    /* what the vendor's own device-level query says; on GB10 UMA_UNSUPPORTED, zeros, or MemTotal: all three are real */
    struct uma_u64 memory_total, memory_used, memory_free;
    struct uma_u64 container_used; /* nvmlDeviceGetMemoryLimits_v1 currentUsed of this container, where the library has it */
    struct uma_u64 container_limit;
    struct uma_u64 gtt_total, gtt_used, vram_total, vram_used; /* AMD */
    struct uma_f64 celsius, limit_margin_celsius;
    struct uma_f64 watts, watts_instant, joules, limit_watts;
    struct uma_u64 sm_hertz, sm_max_hertz, memory_hertz;
    struct uma_f64 utilization, memory_utilization; /* 0..1 */
    struct uma_i64 pstate;
    struct uma_u64 throttle_reasons;
    struct uma_f64 throttle_seconds[UMA_THROTTLE_MAX]; /* since driver load; falls back to 0 on a reload */
    enum uma_validity processes_validity;              /* UMA_KNOWN with n_processes 0: asked, and none */
    size_t n_processes;
    struct uma_gpu_process *processes;
};

struct uma_gpus {
    struct uma_source source; /* the probe: UMA_ABSENT no library; UMA_FAILED with detail "no answer within 2.0 s" hung; UMA_STALE */
    bool hung;                /* the deadline passed */
    struct uma_f64 latency_seconds;
    const char *driver; /* "580.95.05" */
    size_t n;
    struct uma_gpu *list;
};

/* ---- platform ----------------------------------------------------------------------------------------------- */

enum uma_platform_name {
    UMA_PLATFORM_GENERIC,
    UMA_PLATFORM_DGX_SPARK,
    UMA_PLATFORM_JETSON,
    UMA_PLATFORM_STRIX_HALO,
    UMA_PLATFORM_GH200,
    UMA_PLATFORM_MAX
};

struct uma_platform {
    struct uma_source source;
    enum uma_platform_name name;
    enum uma_truth unified;
    const char *evidence; /* what `name` and `unified` were read from */
    const char *host, *kernel, *architecture, *product, *board, *vendor, *firmware, *firmware_date, *cpu, *driver;
    const char *dgx_release; /* "7.2.3" of /etc/dgx-release, or NULL */
    const char *os;          /* PRETTY_NAME of /etc/os-release */
    const char *boot_id;
    const char *self_cgroup; /* cgroup path of the reader */
    enum uma_truth in_container;
    struct uma_f64 uptime_seconds;
    struct uma_u64 cpus;
};

/* ---- snapshot ----------------------------------------------------------------------------------------------- */

struct uma_arena;

/* One reading of one machine. Everything it points to lives in its own arena and dies with uma_snapshot_done(). */
struct uma_snapshot {
    int64_t time_ns;
    struct uma_platform platform;
    struct uma_meminfo meminfo;
    struct uma_vmstat vmstat;
    struct uma_pressure memory_pressure, cpu_pressure, io_pressure;
    struct uma_zones zones;
    struct uma_source swaps_source;
    size_t n_swaps;
    struct uma_swap *swaps;
    struct uma_source nodes_source;
    size_t n_nodes;
    struct uma_node *nodes;
    struct uma_processes processes;
    size_t n_cgroups;
    struct uma_cgroup *cgroups;
    size_t n_containers;
    struct uma_container *containers;
    struct uma_heat heat;
    struct uma_gpus gpus;
    struct uma_page_cache page_cache;
    struct uma_arena *arena;
};

/* An empty snapshot that owns an empty arena. 0 or -ENOMEM. */
int uma_snapshot_init(struct uma_snapshot *ret_snapshot);
/* Forget the content, keep the arena's memory for the next reading. */
void uma_snapshot_reset(struct uma_snapshot *snapshot);
/* Free. A zeroed or already freed snapshot is fine. */
void uma_snapshot_done(struct uma_snapshot *snapshot);

/* ---- observe ------------------------------------------------------------------------------------------------ */

/* What to read. */
#define UMA_READ_MEMORY 0x01u    /* meminfo, vmstat, PSI, zones, swaps, nodes: about 50 us */
#define UMA_READ_PROCESSES 0x02u /* processes, their cgroups and containers */
#define UMA_READ_HEAT 0x04u      /* thermal zones, hwmon, cpufreq */
#define UMA_READ_GPU 0x08u       /* the probe's answer */
#define UMA_READ_PLATFORM 0x10u
#define UMA_READ_PAGE_CACHE 0x20u /* which files hold the page cache: opens every open file and every model file, tenths of a second */
#define UMA_READ_ALL 0x1fu        /* all but the page cache's files, which cost more than the rest together */

struct uma_observe_options {
    const char *root;    /* NULL: this machine; else a folder with proc/, sys/, etc/ */
    const char *nvml;    /* path of the NVML library for the probe, NULL: the loader's search */
    double gpu_deadline; /* seconds to wait for the probe; 0: the default, 2.0 */
    const char *capture; /* a folder that gets every file read, so that --root on it gives the same snapshot; NULL: none */
    /* long-running: keep the probe alive between readings, restart it with back-off; it ends with the thread that read first */
    bool keep_probe;
};

struct uma_observer;

/* Open the sources. Ownership of *ret_observer goes to the caller. -ENOENT, -ENOTDIR for a bad root. */
int uma_observer_open(const struct uma_observe_options *options, struct uma_observer **ret_observer, struct uma_error *err);
/*
 * Read `what` into a snapshot that was initialised (it is reset first). Fails only when nothing can be read at all; a source that
 * cannot be read says so in its struct uma_source.
 */
int uma_observer_read(struct uma_observer *observer, unsigned what, struct uma_snapshot *snapshot, struct uma_error *err);
/*
 * Add only which files hold the page cache to a snapshot that was read by this observer (its processes and containers are used, so read those before). Ends
 * after `seconds` (0: the default, 2.0) with what it has by then: `complete` says so. As above, what cannot be read is said in its source.
 */
int uma_observer_read_page_cache(struct uma_observer *observer, double seconds, struct uma_snapshot *snapshot, struct uma_error *err);
/* Close everything and end the probe. NULL is fine. Returns NULL. */
struct uma_observer *uma_observer_close(struct uma_observer *observer);

/* ---- account ------------------------------------------------------------------------------------------------ */

enum uma_ledger_kind {
    UMA_LEDGER_FREE,              /* MemFree less cma_lost */
    UMA_LEDGER_FREE_PERCPU_LISTS, /* free pages in per-CPU lists: neither MemFree nor MemAvailable counts them */
    UMA_LEDGER_CACHE_CLEAN,       /* file cache that reclaim can drop at once */
    UMA_LEDGER_CACHE_DIRTY,       /* Dirty + Writeback */
    UMA_LEDGER_CACHE_MAPPED,      /* file cache that processes map */
    UMA_LEDGER_SHMEM,             /* tmpfs, memfd, shared anonymous */
    UMA_LEDGER_ANON,              /* AnonPages + SwapCached */
    UMA_LEDGER_SLAB_RECLAIMABLE,
    UMA_LEDGER_SLAB,
    UMA_LEDGER_KERNEL, /* stacks, page tables, per-CPU, vmalloc, zswap, bounce */
    UMA_LEDGER_HUGETLB,
    UMA_LEDGER_PINNED,       /* user pages pinned without RSS: io_uring, RDMA, udmabuf */
    UMA_LEDGER_GPU,          /* what the driver attributes to processes, or to itself as a whole where that is more */
    UMA_LEDGER_DRIVER_POOLS, /* kept by the driver after its processes ended: only with evidence */
    UMA_LEDGER_CMA_LOST,
    UMA_LEDGER_UNEXPLAINED,
    UMA_LEDGER_KINDS,
};

struct uma_ledger {
    bool known;     /* false: MemTotal could not be read; every row is 0 */
    uint64_t total; /* MemTotal; the rows sum to it exactly */
    uint64_t bytes[UMA_LEDGER_KINDS];
    uint64_t overcounted; /* bytes that the rows claimed beyond MemTotal (a torn reading) and that were cut */
    bool gpu_whole;       /* the gpu row is more than drivers divide by process: their figure for the device as a whole (GTT, NvMap, TTM) */
};

struct uma_headroom {
    struct uma_u64 total, now, available, reclaimable_cache, driver_pools, reserve, budget, reserved, largest_free_block, swap_free;
    struct uma_u64 hugetlb_available; /* NVIDIA's rule: HugePages_Free x Hugepagesize; reported beside when the guard rejects it */
    bool hugetlb_rule;                /* `available` is hugetlb_available because huge pages are most of the machine */
    bool available_estimated;         /* no MemAvailable (before 3.14): computed as that kernel would have */
    struct uma_u64 cma_lost;
    struct uma_u64 gpu_limit;   /* what the GPU's own limit still allows (GTT), where there is one */
    const char *reserve_reason; /* static text */
    uint32_t n_orders;
    uint64_t free_by_order[UMA_ORDERS_MAX]; /* bytes in free blocks of each order */
};

enum uma_role { UMA_ROLE_UNKNOWN, UMA_ROLE_SERVE, UMA_ROLE_TRAIN };

struct uma_cap {
    bool present;
    struct uma_f64 fraction; /* of what the engine calls total */
    struct uma_u64 bytes;
    const char *source; /* "--gpu-memory-utilization" and whether it stands in the command line, environment or is the default */
};

struct uma_holder {
    int32_t pid;
    const char *name;
    /* vllm sglang ollama llama.cpp trt-llm trl axolotl unsloth torchtune llama-factory megatron nemo comfyui ray pytorch other */
    const char *kind;
    const char *model; /* model named on the command line, or NULL */
    enum uma_role role;
    struct uma_u64 gpu_bytes, anon_bytes, shmem_bytes, swap_bytes;
    struct uma_cap cap;
    const char *container, *unit;
    struct uma_u64 container_limit;
    bool exited; /* the driver still lists it, /proc no longer does (or only as a zombie) */
};

struct uma_views {
    struct uma_u64 nvidia_smi, cuda_mem_get_info, free_free, free_available;
    const char *nvidia_smi_text; /* what a person sees there: "[N/A]", "121 GiB" */
};

enum uma_severity { UMA_INFO, UMA_WARNING, UMA_CRITICAL };

struct uma_problem {
    const char *id; /* static, "cache-starves-cuda" */
    enum uma_severity severity;
    const char *summary, *evidence, *remedy;
};
#define UMA_PROBLEMS_MAX 32

/* What one snapshot means. Pure: the same snapshot gives the same account. Owns its strings in `arena`. */
struct uma_account {
    struct uma_ledger ledger;
    struct uma_headroom headroom;
    size_t n_holders;
    struct uma_holder *holders; /* largest first; only those worth a line, see account/holders.h */
    bool gpu_listed;            /* every GPU on the pool told which processes hold its memory: the holders are all */
    struct uma_views views;
    size_t n_problems;
    struct uma_problem problems[UMA_PROBLEMS_MAX]; /* most severe first */
    struct uma_arena *arena;
};

/* `reserved`: bytes that running jobs declared and have not taken yet (0 when there is no such register). The snapshot must outlive the
 * account. */
int uma_account_build(const struct uma_snapshot *snapshot, uint64_t reserved, struct uma_account *ret_account, struct uma_error *err);
void uma_account_done(struct uma_account *account);

const char *uma_ledger_kind_name(enum uma_ledger_kind kind); /* "free_percpu_lists" */
const char *uma_validity_name(enum uma_validity validity);   /* "not supported" */
const char *uma_platform_text(enum uma_platform_name name);  /* "dgx-spark" */
const char *uma_throttle_name(enum uma_throttle throttle);   /* "sw_power_cap" */
const char *uma_severity_name(enum uma_severity severity);
const char *uma_role_name(enum uma_role role); /* "serve", "train", NULL */

/* ---- snapshots as JSON -------------------------------------------------------------------------------------- */

/* Parse a snapshot document of at most 256 MiB. -EINVAL names the place; a wrong schema is -EPROTO. */
int uma_snapshot_parse(const char *text, size_t length, const char *file_name, struct uma_snapshot *ret_snapshot, struct uma_error *err);
/* Write it as JSON; *ret_text is malloc'ed and NUL-terminated. The text parses back to an equal snapshot. */
int uma_snapshot_format(const struct uma_snapshot *snapshot, char **ret_text, size_t *ret_length, struct uma_error *err);
/* Replace host name, users, paths, addresses, model and container names in place by stable stand-ins, for bug reports. */
int uma_snapshot_redact(struct uma_snapshot *snapshot, struct uma_error *err);

#ifdef __cplusplus
}
#endif
#endif
