/* SPDX-License-Identifier: MIT */
/*
 * heat.h - temperatures, power, fans and clocks that the kernel shows without a GPU driver: thermal zones, hwmon chips, cpufreq.
 *
 * What a consumer may rely on
 *   - hwmon chips are known by name, channels by label; hwmonN only tells chips of one name apart and moves between boots. Order is by
 *     hwmonN, kind, channel, so it is stable within a boot.
 *   - What is beyond the physics (65261.85 C, -273.15 C, all-ones registers) is UMA_MALFORMED, never a number. A sensor that is asleep or a
 *     core that is idle (EAGAIN, ENODATA) is UMA_FAILED, never 0. Nothing of the kind on this machine: the source is UMA_ABSENT.
 *   - A power channel's `max` is the cap in force (powerN_cap, read each time) where there is one, else powerN_max. For spbm's "syspl1"
 *     that is the system power limit which a GB10 lowers when its power supply delivers less.
 *   - Energy (joules) comes from counters that wrap. spbm's firmware counts u32 millijoules: every 4,294,967 J, some 12 hours at 100 W. A
 *     difference below zero is a wrap or a reset; which of the two, only the time between the readings can tell.
 *   - acpi_fan's value is not revolutions on GB10 boxes but an ACPI state 0..3: such a channel is labelled "fanN (ACPI state)" and its
 *     value is UMA_UNSUPPORTED. No Spark reports revolutions.
 *   - acpitz stands both among the zones and among the hwmon chips: one source, shown twice by the kernel. It runs about 15 C above the
 *     die.
 *   - CPU clocks on GB10 come from cpuinfo_avg_freq or not at all.
 *
 * Cost: the first reading discovers (names, labels, limits), later ones read values through descriptors that stay open, and discover again
 * when something vanished, was renumbered, or a minute has passed. The kernel's own work comes on top: an nvme temperature is an admin
 * command to the drive (at most one a second), an mlx5 one a firmware query, an acpitz one an ACPI method.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

struct uma_heat_reader;
/* `root` must outlive it. NULL: out of memory. */
struct uma_heat_reader *uma_heat_reader_new(struct uma_root *root);
struct uma_heat_reader *uma_heat_reader_free(struct uma_heat_reader *reader);
/* Fills snapshot->heat; strings go into the snapshot's arena. Never fails as a whole: each source says how it went. */
void uma_heat_read(struct uma_heat_reader *reader, struct uma_snapshot *snapshot);
