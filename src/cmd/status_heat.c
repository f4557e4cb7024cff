/* SPDX-License-Identifier: MIT */
/* What status says about heat, in words: one phrase for each GPU, the board's sensor, the names of throttle reasons. */
#include "cmd/status.h"

#include "account/gpu_share.h"
#include "cmd/layout.h"

#include <string.h>

const char *uma_reason_name(uint64_t bit) {
    static const char *const names[] = { "gpu_idle",   "applications_clocks", "sw_power_cap",   "hw_slowdown", "sync_boost", "sw_thermal",
                                         "hw_thermal", "hw_power_brake",      "display_clocks", "board_limit", "reliability" };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (bit == 1ull << i)
            return names[i];
    return NULL;
}

/* acpitz is the firmware's own zone on PCs and on GB10; Tegra names its board zones so (L4T device trees). */
static bool board_zone(const char *type) {
    return type && (strcmp(type, "acpitz") == 0 || strncmp(type, "board", 5) == 0 || strncmp(type, "Tboard", 6) == 0);
}

struct uma_f64 uma_status_board_celsius(const struct uma_snapshot *snapshot) {
    struct uma_f64 hottest = { 0 };
    for (size_t i = 0; i < snapshot->heat.n_zones; i++) {
        const struct uma_thermal_zone *zone = &snapshot->heat.zones[i];
        if (board_zone(zone->type) && uma_usable(zone->celsius.validity) &&
            (!uma_usable(hottest.validity) || zone->celsius.value > hottest.value))
            hottest = zone->celsius;
    }
    return hottest;
}

/* Two or three hold at a time; a driver that sets them all makes no sense, and its words are not worth the screen. */
enum { REASONS_SHOWN = 4 };

static void throttle_text(struct uma_text *t, struct uma_u64 reasons) {
    if (!uma_usable(reasons.validity)) {
        uma_text_append(t, "throttle ?");
        return;
    }
    uint64_t bits = reasons.value & ~UMA_REASON_GPU_IDLE;
    if (!bits)
        uma_text_append(t, "not throttled");
    /* The ordinary state of a GB10 under load, not a fault: 711,320 s of 1,566,985 s of uptime on one of them (ollama#13552). */
    if (bits == UMA_REASON_SW_POWER_CAP) {
        uma_text_append(t, "at its power cap");
        return;
    }
    unsigned n = 0;
    for (unsigned i = 0; i < 64; i++) {
        if (!(bits & 1ull << i) || n++ >= REASONS_SHOWN)
            continue;
        uma_text_append(t, n > 1 ? "+" : "throttled by ");
        const char *name = uma_reason_name(1ull << i);
        if (name)
            uma_text_append(t, name);
        else
            uma_text_printf(t, "0x%llx", 1ull << i);
    }
    if (n > REASONS_SHOWN)
        uma_text_printf(t, " and %u more", n - REASONS_SHOWN);
}

static void gpu_phrase(struct uma_text *t, const struct uma_gpu *gpu, bool stale) {
    /* "NVIDIA GB10" is a GB10: the line is 80 columns long */
    const char *name = gpu->name ? gpu->name : "GPU";
    uma_text_append(t, strncmp(name, "NVIDIA ", 7) == 0 && name[7] ? name + 7 : name);
    uma_text_append(t, stale ? " (old answer) " : " ");
    uma_layout_number(t, gpu->celsius, 0);
    uma_text_append(t, " C");
    if (uma_usable(gpu->limit_margin_celsius.validity)) {
        uma_text_append(t, " (");
        uma_layout_number(t, gpu->limit_margin_celsius, 0);
        uma_text_append(t, " to limit)");
    }
    uma_text_append(t, ", ");
    uma_layout_number(t, gpu->watts, gpu->watts.value < 10 ? 1 : 0);
    uma_text_append(t, " W, ");
    struct uma_f64 mhz = { (double)gpu->sm_hertz.value / 1e6, gpu->sm_hertz.validity };
    uma_layout_number(t, mhz, 0);
    uma_text_append(t, " MHz, ");
    struct uma_f64 percent = { gpu->utilization.value * 100, gpu->utilization.validity };
    uma_layout_number(t, percent, 0);
    uma_text_append(t, " % busy, ");
    throttle_text(t, gpu->throttle_reasons);
}

static void hotter(struct uma_f64 *hottest, struct uma_f64 celsius) {
    if (uma_usable(celsius.validity) && (!uma_usable(hottest->validity) || celsius.value > hottest->value))
        *hottest = celsius;
}

/* The kernel's own names: hwmon chips coretemp and k10temp, thermal zones x86_pkg_temp and cpu-thermal (device trees). */
static struct uma_f64 cpu_celsius(const struct uma_snapshot *snapshot) {
    const struct uma_heat *heat = &snapshot->heat;
    struct uma_f64 hottest = { 0 };
    for (size_t i = 0; i < heat->n_sensors; i++) {
        const struct uma_sensor *s = &heat->sensors[i];
        if (s->kind == UMA_SENSOR_TEMPERATURE && s->chip && (strcmp(s->chip, "coretemp") == 0 || strcmp(s->chip, "k10temp") == 0))
            hotter(&hottest, s->value);
    }
    for (size_t i = 0; i < heat->n_zones; i++) {
        const char *type = heat->zones[i].type;
        if (type && (strcmp(type, "x86_pkg_temp") == 0 || strncmp(type, "cpu", 3) == 0 || strncmp(type, "CPU", 3) == 0))
            hotter(&hottest, heat->zones[i].celsius);
    }
    return hottest;
}

/* Without a GPU's answer. "Asked, and no answer" must not look like "nothing there", and a server is no row of question marks. */
static void no_gpu_phrase(struct uma_text *text, const struct uma_snapshot *snapshot) {
    const struct uma_source *source = &snapshot->gpus.source;
    if (snapshot->gpus.hung || source->validity == UMA_FAILED) {
        uma_text_printf(text, "GPU: ? (%s)", source->detail ? source->detail : "no answer");
        return;
    }
    if (uma_nvidia_evident(snapshot) || snapshot->platform.unified == UMA_YES) {
        uma_text_append(text, source->validity == UMA_UNKNOWN ? "GPU: ? (not asked)" : "no GPU that could be asked");
        return;
    }
    struct uma_f64 cpu = cpu_celsius(snapshot);
    uma_text_append(text, "no GPU seen; CPU ");
    if (uma_usable(cpu.validity)) {
        uma_layout_number(text, cpu, 0);
        uma_text_append(text, " C");
    } else
        uma_text_append(text, "temperature not known");
}

void uma_status_heat_text(struct uma_text *text, const struct uma_snapshot *snapshot, size_t gpus_most) {
    const struct uma_gpus *gpus = &snapshot->gpus;
    if (gpus->n == 0)
        no_gpu_phrase(text, snapshot);
    for (size_t i = 0; i < gpus->n && i < gpus_most; i++) {
        if (i)
            uma_text_append(text, " | ");
        gpu_phrase(text, &gpus->list[i], gpus->source.validity == UMA_STALE);
    }
    if (gpus->n > gpus_most)
        uma_text_printf(text, " | and %zu more", gpus->n - gpus_most);
    struct uma_f64 board = uma_status_board_celsius(snapshot);
    if (uma_usable(board.validity)) {
        uma_text_append(text, "; board ");
        uma_layout_number(text, board, 0);
        uma_text_append(text, " C");
    }
}
