/* SPDX-License-Identifier: MIT */
/* problems_gpu.c - the GPU and its driver: stuck power, heat, locked clocks, no answer. Only for a GPU on the pool. */
#include "account/problems.h"
#include "account/values.h"

#include <math.h>
#include <string.h>

/* Reasons that explain a low clock by themselves. HW_SLOWDOWN alone may be a passing state change, but then this moment proves nothing. */
#define POWER_OR_HEAT                                                                                                                      \
    (UMA_REASON_SW_POWER_CAP | UMA_REASON_HW_SLOWDOWN | UMA_REASON_SW_THERMAL | UMA_REASON_HW_THERMAL | UMA_REASON_HW_POWER_BRAKE)

/* Below this the clock of an idle GPU is low by design and says nothing: hasso5703/dgx-spark-qwen38 issue 8 read 2223 MHz at 0 %. */
static const double LOADED = 0.9;

static bool is_nvidia(const struct uma_gpu *gpu) {
    return gpu->vendor && strcmp(gpu->vendor, "nvidia") == 0;
}

static const char *gpu_name(const struct uma_gpu *gpu) {
    return gpu->name ? gpu->name : "GPU";
}

static const char *megahertz(struct uma_problem_site *site, uint64_t hertz) {
    return uma_problem_decimal(site, (double)hertz / 1e6, 0);
}

static bool loaded(const struct uma_gpu *gpu) {
    return uma_within(gpu->utilization, LOADED, 1);
}

/*
 * Power delivery stuck low (USB-PD): full load, cool, no reason given, 480 to 890 MHz and 5 to 30 W where a healthy GB10 has 2.3 to
 * 2.5 GHz and 80 to 100 W (model-serving-minefield trap 124; hoesing/spark-gpu-throttle-check). All of it must hold: a wedged GPU shows
 * 96 % at 16 to 27 W at a normal clock (eugr issue 260), and a clock locked by hand says so.
 */
static bool power_stuck(struct uma_problem_site *site, const struct uma_gpu *gpu) {
    if (!is_nvidia(gpu) || !loaded(gpu) || !uma_usable(gpu->sm_hertz.validity) || !uma_within(gpu->watts, 0, 30) ||
        !uma_usable(gpu->throttle_reasons.validity))
        return false;
    uint64_t reasons = gpu->throttle_reasons.value, hertz = gpu->sm_hertz.value, max = uma_or(gpu->sm_max_hertz, 0);
    if ((reasons & (POWER_OR_HEAT | UMA_REASON_APPLICATIONS_CLOCKS | UMA_REASON_GPU_IDLE)) != 0)
        return false;
    if (hertz >= 1000000000 && hertz >= max / 2)
        return false;
    uma_problem_add(site, "power-stuck", UMA_CRITICAL,
                    "the GPU is held at a fraction of its power without saying why: likely its power supply's negotiation",
                    "sudo poweroff, then unplug the power supply at both ends for a minute",
                    "%s is %s %% busy at %s MHz and %s W with no throttle reason set (healthy: 2300 to 2500 MHz, 80 to 100 W); software "
                    "settings have not helped, taking the mains away has",
                    gpu_name(gpu), uma_problem_decimal(site, gpu->utilization.value * 100, 0), megahertz(site, hertz),
                    uma_problem_decimal(site, gpu->watts.value, 1));
    return true;
}

/* "; 173.4 s throttled by heat since the driver was loaded", or nothing where the counters are not known. */
static const char *throttled_by_heat(struct uma_problem_site *site, const struct uma_gpu *gpu) {
    double seconds = 0;
    bool known = false;
    const enum uma_throttle counters[] = { UMA_THROTTLE_SW_THERMAL, UMA_THROTTLE_HW_THERMAL };
    for (size_t i = 0; i < ELEMENTS(counters); i++) {
        if (!uma_within(gpu->throttle_seconds[counters[i]], 0, 1e10))
            continue;
        known = true;
        seconds += gpu->throttle_seconds[counters[i]].value;
    }
    return known ? uma_problem_text(site, "; %s s throttled by heat since the driver was loaded", uma_problem_decimal(site, seconds, 1))
                 : "";
}

/*
 * A lock of the clock that takes heat away: a tenth below what the GPU runs at under the heat, on a round hundred as owners choose them,
 * or 0.7 of its maximum (2100 of 3003 MHz, the usual lock) when the clock is not known. Locks of 2000 and 2100 MHz took
 * 10 C away and no speed (MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x issue 146); below 1000 MHz work stops being work, and a lock is no help.
 */
static const char *cooler(struct uma_problem_site *site, const struct uma_gpu *gpu) {
    uint64_t hundred = 100000000, least = 10 * hundred, hertz = uma_or(gpu->sm_hertz, 0);
    uint64_t lock = hertz > 0 ? hertz / 10 * 9 : uma_or(gpu->sm_max_hertz, 3003000000) / 10 * 7;
    lock = lock / hundred * hundred;
    lock = lock < least ? least : lock;
    if (!is_nvidia(gpu) || (hertz > 0 && lock >= hertz))
        return is_nvidia(gpu) ? "see: nvidia-smi -q -d TEMPERATURE,PERFORMANCE" : "see: sensors";
    const char *which = site->snapshot->gpus.n > 1 ? uma_problem_text(site, "-i %d ", (int)gpu->index) : "";
    return uma_problem_text(site, "sudo nvidia-smi %s-lgc 0,%s", which, megahertz(site, lock));
}

/*
 * Heat limits the GPU now when a thermal reason is set or the margin to its limit is at most 3 C (the limit itself differs by unit: 94 and
 * 96 C seen). The counters alone are
 * no problem of now: they run since the driver was loaded, which may be months (173 s: ollama issue 13552, all reasons clear). HW_SLOWDOWN alone is reported for other causes too (nvml.h) and is not looked at.
 */
static void thermal(struct uma_problem_site *site, const struct uma_gpu *gpu) {
    uint64_t reasons = uma_or(gpu->throttle_reasons, 0);
    bool hw = (reasons & UMA_REASON_HW_THERMAL) != 0, sw = (reasons & UMA_REASON_SW_THERMAL) != 0;
    bool close = uma_within(gpu->limit_margin_celsius, -50, 3);
    if (!hw && !sw && !close)
        return;
    const char *celsius =
        uma_within(gpu->celsius, -50, 200) ? uma_problem_text(site, " at %s C", uma_problem_decimal(site, gpu->celsius.value, 0)) : "";
    const char *margin =
        uma_within(gpu->limit_margin_celsius, -50, 200)
            ? uma_problem_text(site, ", %s C below its limit", uma_problem_decimal(site, gpu->limit_margin_celsius.value, 0))
            : "";
    const char *cause = hw ? ", hardware thermal slowdown active" : sw ? ", software thermal slowdown active" : "";
    uma_problem_add(site, "thermal", hw ? UMA_CRITICAL : UMA_WARNING, "heat limits the GPU now", cooler(site, gpu), "%s%s%s%s%s",
                    gpu_name(gpu), celsius, margin, cause, throttled_by_heat(site, gpu));
}

/*
 * A clock limited by hand (nvidia-smi -lgc), often on purpose against heat: an info, so that a slow run is not searched for elsewhere.
 * GB10's own default is 2418 of 3003 MHz, and plateaus at 2164 to 2190 MHz were seen without a lock: only below 0.7 of the maximum
 * (2102 MHz; the usual locks are 2100 and 2000), under load, and with the driver's word for it or a clock on a round hundred.
 */
static void clock_locked(struct uma_problem_site *site, const struct uma_gpu *gpu) {
    uint64_t reasons = uma_or(gpu->throttle_reasons, 0), hertz = uma_or(gpu->sm_hertz, 0), max = uma_or(gpu->sm_max_hertz, 0);
    if (!is_nvidia(gpu) || !loaded(gpu) || hertz == 0 || max == 0 || !uma_usable(gpu->throttle_reasons.validity) ||
        (reasons & (POWER_OR_HEAT | UMA_REASON_GPU_IDLE)) != 0)
        return;
    bool said = (reasons & (UMA_REASON_APPLICATIONS_CLOCKS | UMA_REASON_DISPLAY_CLOCKS)) != 0, round = hertz % 100000000 == 0;
    if ((double)hertz >= 0.7 * (double)max || !(said || round))
        return;
    uma_problem_add(site, "clock-locked", UMA_INFO, "the GPU's clock is limited by a setting", "sudo nvidia-smi -rgc",
                    "%s is %s %% busy at %s MHz of %s with no power or thermal reason%s", gpu_name(gpu),
                    uma_problem_decimal(site, gpu->utilization.value * 100, 0), megahertz(site, hertz), megahertz(site, max),
                    said ? "; the driver says that a clock setting is the cause" : "; a round clock under load is a lock's");
}

/* A board sensor near its critical trip (104.8 C on a Spark) stops the machine; 5 C is a few seconds of load. Trips below 60 C are
 * nonsense. */
static void board_hot(struct uma_problem_site *site) {
    const struct uma_thermal_zone *hottest = NULL;
    double least = 5;
    for (size_t i = 0; i < site->snapshot->heat.n_zones; i++) {
        const struct uma_thermal_zone *z = &site->snapshot->heat.zones[i];
        if (!uma_within(z->critical_celsius, 60, 150) || !uma_within(z->celsius, 0, z->critical_celsius.value + 20))
            continue;
        double margin = z->critical_celsius.value - z->celsius.value;
        if (margin <= least) {
            hottest = z;
            least = margin;
        }
    }
    if (hottest)
        uma_problem_add(site, "thermal", UMA_CRITICAL, "a sensor of the board is about to switch the machine off", "see: sensors",
                        "thermal zone %d (%s) is at %s C, its critical trip is %s C", (int)hottest->id, hottest->type ? hottest->type : "?",
                        uma_problem_decimal(site, hottest->celsius.value, 1),
                        uma_problem_decimal(site, hottest->critical_celsius.value, 1));
}

/* What a library that is there and does not start needs, by NVML's error that the probe tells (nvml.h: nvmlReturn_t). */
static const char *starter(const char *detail) {
    if (strstr(detail, "(code 18)")) /* the module of the old driver runs until it is loaded anew */
        return "sudo reboot";
    return strstr(detail, "(code 9)") ? "sudo modprobe nvidia" : "see: nvidia-smi";
}

static const char *provider(const struct uma_snapshot *s) {
    return s->platform.in_container == UMA_YES ? "start the container with --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility"
                                               : "see: ldconfig -p | grep libnvidia-ml";
}

/* No answer, because the library is not there or does not start. On a Jetson NVML is there only from Thor on. */
static void nvml_silent(struct uma_problem_site *site) {
    const struct uma_snapshot *s = site->snapshot;
    const struct uma_source *source = &s->gpus.source;
    bool failed = source->validity == UMA_FAILED || source->validity == UMA_MALFORMED || source->validity == UMA_DENIED;
    if (!(failed || source->validity == UMA_ABSENT) || s->platform.name == UMA_PLATFORM_JETSON || !uma_nvidia_evident(s))
        return;
    const char *detail = source->detail ? source->detail : failed ? "no reason given" : "libnvidia-ml.so.1 was not found";
    bool there = failed || strstr(detail, "does not start"); /* the probe's words (gpu_nvml.c) for a driver that is not loaded, too */
    uma_problem_add(site, "nvml-absent", UMA_WARNING,
                    there ? "NVIDIA's management library is there and does not start: what the GPU holds is not known"
                          : "NVIDIA's management library is missing: what the GPU holds is not known",
                    there ? starter(detail) : provider(s), "%s%s; %s",
                    s->platform.driver ? "the kernel driver is loaded: " : "this machine has an NVIDIA GPU",
                    s->platform.driver ? s->platform.driver : "", detail);
}

static void nvml(struct uma_problem_site *site) {
    const struct uma_snapshot *s = site->snapshot;
    for (size_t i = 0; i < s->gpus.n; i++)
        if (is_nvidia(&s->gpus.list[i]) && !s->gpus.hung)
            return;
    if (!s->gpus.hung) {
        nvml_silent(site);
        return;
    }
    /* nvidia-smi blocked 491 to 737 s while a host was on its way to a freeze (MiaAI-Lab DeepSeek-v4.1 issue 23) */
    bool short_of = uma_usable(site->account->headroom.budget.validity) && site->account->headroom.budget.value == 0;
    uma_problem_add(site, "nvml-hung", short_of ? UMA_CRITICAL : UMA_WARNING,
                    "the GPU driver does not answer: GPU figures are missing or old", "see: journalctl -k -g 'NVRM|Xid'", "NVML: %s",
                    s->gpus.source.detail ? s->gpus.source.detail : "no answer in time");
}

void uma_problems_gpu(struct uma_problem_site *site) {
    nvml(site);
    board_hot(site);
    for (size_t i = 0; i < site->snapshot->gpus.n; i++) {
        const struct uma_gpu *gpu = &site->snapshot->gpus.list[i];
        if (!uma_gpu_in_pool(site->snapshot, gpu) || site->snapshot->gpus.source.validity == UMA_STALE)
            continue; /* an old moment's clock and power say nothing about this one */
        if (!power_stuck(site, gpu))
            clock_locked(site, gpu);
        thermal(site, gpu);
    }
}
