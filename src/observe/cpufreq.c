/* SPDX-License-Identifier: MIT */
/*
 * cpufreq.c - what kind of core each CPU is and how fast it runs (Documentation/admin-guide/pm/cpufreq.rst).
 *
 * cpuinfo_avg_freq (Linux 6.15) comes first: it is read from the activity monitors at the last ticks, costs next to nothing, and answers
 * EAGAIN for a core that has been idle: then the clock is not known (UMA_FAILED), it is not 0 and not the minimum.
 *
 * scaling_cur_freq is never even opened where it comes from CPPC counters (driver cppc_cpufreq, so every GB10): the driver samples them
 * over 2 microseconds, wakes the core by an interrupt to do so (about 100 us per core), and has answered 7332 MHz for a core that ends at
 * 2860.
 */
#include "observe/cpu_core.h"
#include "observe/heat_parts.h"
#include "observe/platform.h"
#include "observe/source.h"

#include <string.h>

#define FOLDER "sys/devices/system/cpu"

/* No CPU of 2026 sustains 7 GHz; a clock beyond 10 GHz, or beyond twice what the policy calls the maximum (boost clocks above a nominal
 * maximum exist, up to 1.9 times), is a broken counter. */
#define HERTZ_MAX 10000000000ull
enum { BOOST_FACTOR = 2, DISCOVERY_BYTES = 4 * 1024 * 1024 };

struct cpu {
    int32_t id;
    const char *core; /* static */
    struct uma_u64 midr, min, max;
    bool has_policy;
    struct uma_heat_file clock; /* path NULL: no file that could be trusted */
};

struct uma_cpufreq {
    struct uma_arena *arena;
    size_t n;
    struct cpu *cpus;
    const char *online; /* the list at discovery */
    const char *driver;
    bool has_policy;
    struct uma_heat_file online_file, governor_file;
};

struct uma_cpufreq *uma_cpufreq_free(struct uma_heat_files *files, struct uma_cpufreq *cpufreq) {
    if (!cpufreq)
        return NULL;
    for (size_t i = 0; i < cpufreq->n; i++)
        uma_heat_file_close(files, &cpufreq->cpus[i].clock);
    uma_heat_file_close(files, &cpufreq->online_file);
    uma_heat_file_close(files, &cpufreq->governor_file);
    (void)uma_arena_free(cpufreq->arena);
    free(cpufreq);
    return NULL;
}

static struct uma_u64 hertz_of_khz(int64_t khz, struct uma_u64 max) {
    if (khz == 0) /* what drivers answer when they do not know */
        return uma_no_u64(UMA_FAILED);
    if (khz < 0 || (uint64_t)khz > HERTZ_MAX / 1000)
        return uma_no_u64(UMA_MALFORMED);
    uint64_t hertz = (uint64_t)khz * 1000;
    if (max.validity == UMA_KNOWN && hertz > BOOST_FACTOR * max.value)
        return uma_no_u64(UMA_MALFORMED);
    return uma_known_u64(hertz);
}

static struct uma_u64 policy_limit(struct uma_heat_files *files, int32_t id, const char *name) {
    int64_t khz;
    int r = uma_heat_number_once(files, &khz, FOLDER "/cpu%d/cpufreq/%s", id, name);
    return r < 0 ? uma_no_u64(uma_validity_of_errno(r)) : hertz_of_khz(khz, uma_no_u64(UMA_ABSENT));
}

static struct uma_u64 read_midr(struct uma_heat_files *files, int32_t id) {
    uint64_t midr = 0;
    int r = uma_heat_line_once(files, FOLDER "/cpu%d/regs/identification/midr_el1", id);
    if (r == 0)
        r = uma_midr_parse(files->text.data, files->text.length, &midr);
    return r < 0 ? uma_no_u64(uma_validity_of_errno(r)) : uma_known_u64(midr);
}

/* Driver and governor of the first policy; the driver decides which clock can be trusted. */
static int discover_policy(struct uma_heat_files *files, struct uma_cpufreq *cpufreq, int32_t id) {
    cpufreq->has_policy = true;
    if (uma_heat_line_once(files, FOLDER "/cpu%d/cpufreq/scaling_driver", id) == 0)
        cpufreq->driver = uma_heat_name(files, cpufreq->arena);
    return uma_heat_file_init(&cpufreq->governor_file, cpufreq->arena, FOLDER "/cpu%d/cpufreq/scaling_governor", id);
}

/* May scaling_cur_freq be opened? Only with a driver that is known and not CPPC, and never on the GB10's cores or its boxes. */
static bool current_is_trusted(struct uma_heat_files *files, const struct uma_cpufreq *cpufreq) {
    if (!cpufreq->driver || strncmp(cpufreq->driver, "cppc", 4) == 0)
        return false;
    for (size_t i = 0; i < cpufreq->n; i++)
        if (cpufreq->cpus[i].core &&
            (strcmp(cpufreq->cpus[i].core, "Cortex-X925") == 0 || strcmp(cpufreq->cpus[i].core, "Cortex-A725") == 0))
            return false;
    return uma_heat_line_once(files, "sys/class/dmi/id/product_name") < 0 || !uma_platform_is_gb10(files->text.data);
}

static int discover_clock(struct uma_heat_files *files, struct uma_cpufreq *cpufreq, struct cpu *c, bool trusted) {
    int64_t khz;
    if (uma_heat_file_init(&c->clock, cpufreq->arena, FOLDER "/cpu%d/cpufreq/cpuinfo_avg_freq", c->id) < 0)
        return -ENOMEM;
    if (uma_heat_number_read(files, &c->clock, &khz) != -ENOENT)
        return 0;
    c->clock.path = NULL;
    if (!trusted)
        return 0;
    if (uma_heat_file_init(&c->clock, cpufreq->arena, FOLDER "/cpu%d/cpufreq/scaling_cur_freq", c->id) < 0)
        return -ENOMEM;
    if (uma_heat_number_read(files, &c->clock, &khz) == -ENOENT)
        c->clock.path = NULL;
    return 0;
}

/* Only CPUs of which something is known: many virtual machines have neither policies nor MIDR. */
static int discover_cpus(struct uma_heat_files *files, struct uma_cpufreq *cpufreq, const int32_t *ids, size_t n) {
    cpufreq->cpus = uma_arena_array(cpufreq->arena, n, sizeof(*cpufreq->cpus));
    if (!cpufreq->cpus)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        struct cpu c = { .id = ids[i], .midr = read_midr(files, ids[i]), .clock = { .kept = -1 } };
        c.core = c.midr.validity == UMA_KNOWN ? uma_midr_core_name(c.midr.value) : NULL;
        c.max = policy_limit(files, c.id, "cpuinfo_max_freq");
        c.min = policy_limit(files, c.id, "cpuinfo_min_freq");
        c.has_policy = c.max.validity != UMA_ABSENT || c.min.validity != UMA_ABSENT;
        if (c.has_policy && !cpufreq->has_policy && discover_policy(files, cpufreq, c.id) < 0)
            return -ENOMEM;
        if (c.has_policy || c.midr.validity != UMA_ABSENT)
            cpufreq->cpus[cpufreq->n++] = c;
    }
    bool trusted = cpufreq->has_policy && current_is_trusted(files, cpufreq);
    for (size_t i = 0; i < cpufreq->n; i++)
        if (cpufreq->cpus[i].has_policy && discover_clock(files, cpufreq, &cpufreq->cpus[i], trusted) < 0)
            return -ENOMEM;
    return 0;
}

static int discover(struct uma_heat_files *files, struct uma_cpufreq *cpufreq) {
    if (uma_heat_file_init(&cpufreq->online_file, cpufreq->arena, FOLDER "/online") < 0)
        return -ENOMEM;
    int32_t *ids = uma_arena_array(cpufreq->arena, UMA_CPUS_MAX, sizeof(*ids));
    if (!ids)
        return -ENOMEM;
    int n = -EINVAL;
    if (uma_heat_file_read(files, &cpufreq->online_file) == 0) {
        cpufreq->online = uma_heat_identity(files, cpufreq->arena);
        n = uma_cpu_list_parse(files->text.data, files->text.length, UMA_CPUS_MAX, ids);
    }
    if (n < 0) /* a folder made by hand may lack it */
        n = (int)uma_heat_list(files, FOLDER, "cpu", "", UMA_CPUS_MAX, ids);
    return discover_cpus(files, cpufreq, ids, MIN_OF((size_t)n, (size_t)UMA_CPUS_MAX));
}

struct uma_cpufreq *uma_cpufreq_discover(struct uma_heat_files *files) {
    struct uma_cpufreq *cpufreq = calloc(1, sizeof(*cpufreq));
    if (!cpufreq)
        return NULL;
    cpufreq->online_file.kept = cpufreq->governor_file.kept = -1;
    cpufreq->arena = uma_arena_new(DISCOVERY_BYTES);
    int r = cpufreq->arena ? discover(files, cpufreq) : -ENOMEM;
    return r < 0 ? uma_cpufreq_free(files, cpufreq) : cpufreq;
}

/* A CPU was switched on or off: that changes this file and not the device it belongs to. */
static bool online_changed(struct uma_heat_files *files, struct uma_cpufreq *cpufreq) {
    if (uma_heat_file_read(files, &cpufreq->online_file) < 0)
        return cpufreq->online != NULL;
    return !cpufreq->online || strcmp(cpufreq->online, files->text.data) != 0;
}

int uma_cpufreq_read(struct uma_heat_files *files, struct uma_cpufreq *cpufreq, bool last, struct uma_arena *arena, struct uma_heat *heat) {
    struct uma_cpu *out = uma_arena_array(arena, cpufreq->n, sizeof(*out));
    if (!out)
        return -ENOMEM;
    if (online_changed(files, cpufreq) && !last)
        return 1;
    for (size_t i = 0; i < cpufreq->n; i++) {
        struct cpu *c = &cpufreq->cpus[i];
        int64_t khz;
        int r = uma_heat_number_read(files, &c->clock, &khz);
        if (r == -ENOENT && c->clock.path && !last)
            return 1;
        out[i] = (struct uma_cpu){ .id = c->id, .core = c->core, .midr = c->midr, .min_hertz = c->min, .max_hertz = c->max };
        out[i].hertz = r < 0 ? uma_no_u64(uma_validity_of_errno(r)) : hertz_of_khz(khz, c->max);
    }
    heat->n_cpus = cpufreq->n;
    heat->cpus = out;
    heat->cpufreq_driver = cpufreq->driver ? uma_arena_strndup(arena, cpufreq->driver, strlen(cpufreq->driver)) : NULL;
    heat->cpufreq_governor = uma_heat_file_read(files, &cpufreq->governor_file) == 0 ? uma_heat_name(files, arena) : NULL;
    uma_source_ok(&heat->cpufreq, FOLDER);
    if (!cpufreq->has_policy) {
        heat->cpufreq.validity = UMA_ABSENT;
        heat->cpufreq.detail = "this machine shows no CPU clock";
    }
    return 0;
}
