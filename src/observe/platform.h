/* SPDX-License-Identifier: MIT */
/*
 * platform.h - which machine this is: DMI and device tree, kernel, driver, DGX release, and whether CPU and GPU share the pool. Nothing
 * that identifies the single unit is kept or captured (serial numbers are never read; of /etc/dgx-release only the versions are recorded).
 * Reading and concluding are apart: conclusions are a pure function of a snapshot, so a saved one gives the same answer everywhere.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

void uma_platform_read(struct uma_root *root, struct uma_snapshot *snapshot);

/*
 * After the GPUs are known: name, unified and evidence from everything that was read; also gpu.unified where the driver did not say. Pure.
 *
 *   dgx-spark   product name of NVIDIA's or another maker's GB10 box, or a GPU named GB10                    unified
 *   jetson      device tree of a Tegra, a GPU of the Tegra reader, or NvMapMemUsed in meminfo                  unified
 *   strix-halo  CPU "RYZEN AI MAX", or an AMD GPU named 8060S/8050S/8040S/gfx1151                              unified
 *   gh200       GPU GH200, GB200 or GB300, or a Grace CPU (Neoverse-V2) beside a memory node without CPUs      not known, unless the driver
 *   says generic     anything else                                                                                 as its GPUs are
 *
 * "gh200" stands for a layout, not for one part: CPU and GPU reach each other's memory coherently, but there are two memories, and the
 * kernel counts the GPU's as a NUMA node. Whether that is "one pool" is disputed even of the driver's own flag, so it stays UMA_MAYBE.
 * generic: UMA_YES/UMA_NO when a GPU's memory says so, UMA_MAYBE when there is no GPU or it cannot be told.
 */
void uma_platform_conclude(struct uma_snapshot *snapshot);

/* Does this DMI product name belong to a GB10 box (NVIDIA, ASUS, Dell, HP, Lenovo, MSI, Gigabyte, Acer)? */
bool uma_platform_is_gb10(const char *product);

/* ---- parsers: pure, any bytes, never past `length` ------------------------------------------------------------ */

/*
 * The last KEY=VALUE of a shell-like file (os-release(5), /etc/dgx-release: an update appends its DGX_OTA_VERSION below the older ones),
 * unquoted, at most 256 bytes, replacing `into`. 0, -ENOENT: no such key or an empty value, -ENOMEM.
 */
int uma_release_value(const char *text, size_t length, const char *key, struct uma_text *into);

/* The version in /proc/driver/nvidia/version: the first word of the "NVRM version:" line that is only digits and dots. 0 or -EINVAL. */
int uma_nvidia_version_parse(const char *text, size_t length, const char **ret_version, size_t *ret_length);

struct uma_cpuinfo {
    const char *name;         /* "Cortex-A725 x10, Cortex-X925 x10", "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", or NULL */
    const char *architecture; /* static: "aarch64", "x86_64", or NULL when the text does not tell */
    uint32_t processors;
};
/* /proc/cpuinfo of Arm and x86; a cut-off text gives what it holds. 0 or -ENOMEM. */
int uma_cpuinfo_parse(const char *text, size_t length, struct uma_arena *arena, struct uma_cpuinfo *ret_cpuinfo);
