/* SPDX-License-Identifier: MIT */
/*
 * heat_machine.h - what the tests of the heat readers share: a folder with a heat reader on it, and the parts of a DGX Spark as folders.
 * The Spark's numbers are those of public reports: seven acpitz zones, loaded 63.6/48.7/49.8/49.6/63.6/50.7/52.8 C, one critical trip each
 * (104.8 C); NVMe Composite crit 84.85, max 82.85, Sensor 1 max 65261.85; CPUs 0-4,10-14 Cortex-A725, 5-9,15-19 Cortex-X925.
 */
#pragma once

#include "folder.h"
#include "observe/heat.h"

struct heat_machine {
    struct folder folder;
    struct uma_root *root;
    struct uma_heat_reader *reader;
    struct uma_snapshot snapshot;
};

static inline int heat_setup(void **state) {
    struct heat_machine *m = calloc(1, sizeof(*m));
    if (!m || folder_new(&m->folder) < 0 || uma_root_open(m->folder.path, NULL, &m->root, NULL) < 0 ||
        uma_snapshot_init(&m->snapshot) < 0 || !(m->reader = uma_heat_reader_new(m->root)))
        return -1;
    *state = m;
    return 0;
}

static inline int heat_teardown(void **state) {
    struct heat_machine *m = *state;
    (void)uma_heat_reader_free(m->reader);
    (void)uma_root_close(m->root);
    uma_snapshot_done(&m->snapshot);
    folder_done(&m->folder);
    free(m);
    return 0;
}

static inline const struct uma_heat *heat_read(struct heat_machine *m) {
    uma_snapshot_reset(&m->snapshot);
    uma_heat_read(m->reader, &m->snapshot);
    return &m->snapshot.heat;
}

static inline const struct uma_sensor *heat_sensor(const struct uma_heat *heat, const char *chip, const char *label) {
    for (size_t i = 0; i < heat->n_sensors; i++)
        if (heat->sensors[i].chip && strcmp(heat->sensors[i].chip, chip) == 0 && strcmp(heat->sensors[i].label, label) == 0)
            return &heat->sensors[i];
    return NULL;
}

#define HWMON "sys/class/hwmon/hwmon%d/"

static inline void spark_zones(const struct folder *f, const int *milli) {
    for (int i = 0; i < 7; i++) {
        folder_text(f, "acpitz\n", "sys/class/thermal/thermal_zone%d/type", i);
        folder_number(f, milli[i], "sys/class/thermal/thermal_zone%d/temp", i);
        folder_text(f, "critical\n", "sys/class/thermal/thermal_zone%d/trip_point_0_type", i);
        folder_number(f, 104800, "sys/class/thermal/thermal_zone%d/trip_point_0_temp", i);
    }
    folder_text(f, "Processor\n", "sys/class/thermal/cooling_device0/type");
}

static inline void spark_nvme(const struct folder *f, int hwmon) {
    folder_text(f, "nvme\n", HWMON "name", hwmon);
    folder_text(f, "Composite\n", HWMON "temp1_label", hwmon);
    folder_number(f, 38850, HWMON "temp1_input", hwmon);
    folder_number(f, 82850, HWMON "temp1_max", hwmon);
    folder_number(f, 84850, HWMON "temp1_crit", hwmon);
    folder_text(f, "Sensor 1\n", HWMON "temp2_label", hwmon);
    folder_number(f, 47850, HWMON "temp2_input", hwmon);
    folder_number(f, 65261850, HWMON "temp2_max", hwmon);
    folder_number(f, -273150, HWMON "temp2_min", hwmon);
}

static inline void spark_mlx5(const struct folder *f, int hwmon) {
    folder_text(f, "mlx5\n", HWMON "name", hwmon);
    folder_text(f, "asic\n", HWMON "temp1_label", hwmon);
    folder_number(f, 51000, HWMON "temp1_input", hwmon);
    folder_number(f, 105000, HWMON "temp1_crit", hwmon);
    folder_number(f, 60000, HWMON "temp1_highest", hwmon);
    folder_text(f, "", HWMON "temp1_reset_history", hwmon);
}

static inline void spark_cpus(const struct folder *f) {
    folder_text(f, "0-19\n", "sys/devices/system/cpu/online");
    for (int i = 0; i < 20; i++) {
        bool big = i % 10 >= 5;
        folder_text(f, big ? "0x00000000410fd850\n" : "0x00000000410fd871\n", "sys/devices/system/cpu/cpu%d/regs/identification/midr_el1",
                    i);
        folder_text(f, "cppc_cpufreq\n", "sys/devices/system/cpu/cpu%d/cpufreq/scaling_driver", i);
        folder_text(f, "performance\n", "sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", i);
        folder_number(f, big ? 3900000 : 2860000, "sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", i);
        folder_number(f, big ? 1378000 : 338000, "sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_min_freq", i);
        folder_number(f, 7332000, "sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i);
    }
}
