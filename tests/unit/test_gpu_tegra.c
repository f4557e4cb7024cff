/* SPDX-License-Identifier: MIT */
/* A Jetson from its device tree, devfreq, thermal zone and nvmap's client list. */
#include "test.h"

#include "gpu_folder.h"

#include "base/units.h"
#include "observe/gpu_vendor.h"

static void orin(struct folder *f) {
    static const char compatible[] = "nvidia,p3737-0000+p3701-0005\0nvidia,p3701-0005\0nvidia,tegra234";
    static const char model[] = "NVIDIA Jetson AGX Orin Developer Kit";
    folder_put_n(f, "proc/device-tree/compatible", compatible, sizeof(compatible));
    folder_put_n(f, "proc/device-tree/model", model, sizeof(model));
    folder_put(f, "sys/class/devfreq/15340000.vic/cur_freq", "115200000\n");
    folder_put(f, "sys/class/devfreq/17000000.gpu/cur_freq", "930750000\n");
    folder_put(f, "sys/class/devfreq/17000000.gpu/max_freq", "1300500000\n");
    folder_put(f, "sys/class/devfreq/17000000.gpu/device/load", "873\n");
    folder_put(f, "sys/class/thermal/thermal_zone0/type", "cpu-thermal\n");
    folder_put(f, "sys/class/thermal/thermal_zone0/temp", "99000\n");
    folder_put(f, "sys/class/thermal/thermal_zone1/type", "gpu-thermal\n");
    folder_put(f, "sys/class/thermal/thermal_zone1/temp", "54250\n");
    f->snapshot.meminfo.nvmap_mem_used = (struct uma_u64){ 3221225472, UMA_KNOWN };
}

static void agx(void **state) {
    struct folder *f = *state;
    orin(f);
    folder_put(f, "sys/kernel/debug/nvmap/iovmm/clients",
               "CLIENT                        PROCESS      PID        SIZE\n"
               "user                   python3 train      2211   3000000K\n"
               "user                       gnome-shell      1523    112344K\n"
               "user                   python3 train      2211     12M\n"
               "total                                            3112344K\n");
    const struct uma_gpus *gpus = folder_read(f);
    assert_int_equal(gpus->n, 1);
    assert_int_equal(gpus->source.validity, UMA_KNOWN);
    const struct uma_gpu *gpu = &gpus->list[0];
    assert_string_equal(gpu->vendor, "tegra");
    assert_string_equal(gpu->name, "NVIDIA Jetson AGX Orin Developer Kit");
    assert_int_equal(gpu->unified, UMA_YES);
    assert_true(gpu->utilization.value == 0.873);
    assert_int_equal(gpu->sm_hertz.value, 930750000);
    assert_int_equal(gpu->sm_max_hertz.value, 1300500000);
    assert_true(gpu->celsius.value == 54.25);
    assert_int_equal(gpu->memory_used.value, 3221225472);
    assert_int_equal(gpu->memory_total.validity, UMA_ABSENT);
    assert_int_equal(gpu->processes_validity, UMA_KNOWN);
    assert_int_equal(gpu->n_processes, 2);
    assert_int_equal(gpu->processes[0].pid, 1523);
    assert_int_equal(gpu->processes[0].bytes.value, 112344 * UMA_KIB);
    assert_int_equal(gpu->processes[1].bytes.value, 3000000 * UMA_KIB + 12 * UMA_MIB);
}

static void older_paths_and_sentinels(void **state) {
    struct folder *f = *state;
    orin(f);
    folder_put(f, "sys/devices/gpu.0/load", "1200\n");
    folder_put(f, "sys/class/thermal/thermal_zone1/temp", "-2147483648\n");
    f->snapshot.meminfo.nvmap_mem_used = (struct uma_u64){ 0, UMA_ABSENT };
    const struct uma_gpus *gpus = folder_read(f);
    assert_int_equal(gpus->list[0].utilization.validity, UMA_MALFORMED); /* more than the whole */
    assert_int_equal(gpus->list[0].celsius.validity, UMA_MALFORMED);
    assert_int_equal(gpus->list[0].memory_used.validity, UMA_ABSENT); /* Thor has no such line */
    assert_int_equal(gpus->list[0].processes_validity, UMA_ABSENT);
}

static void another_arm_board(void **state) {
    struct folder *f = *state;
    static const char compatible[] = "raspberrypi,5-model-b\0brcm,bcm2712";
    folder_put_n(f, "proc/device-tree/compatible", compatible, sizeof(compatible));
    folder_put(f, "proc/device-tree/model", "Raspberry Pi 5 Model B");
    assert_int_equal(folder_read(f)->n, 0);
}

static void clients(void **state) {
    (void)state;
    struct uma_arena *arena = uma_arena_new(UMA_MIB);
    size_t n = 99;
    struct uma_gpu_process *list = NULL;
    static const char odd[] =
        "user 5 x\nuser a 0 5K\nuser a 7 99999999999999999999K\nuser a 8 5G\n9 10K\nuser b 11 4096\nuser c 12 1K trailing\n"
        "user d 99999999999 1K\nuser e 13 2k";
    assert_int_equal(uma_nvmap_clients_parse(odd, sizeof(odd) - 1, arena, &n, &list, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(list[0].pid, 11);
    assert_int_equal(list[0].bytes.value, 4096);
    assert_int_equal(list[1].pid, 13);
    assert_int_equal(list[1].bytes.value, 2048);
    assert_int_equal(uma_nvmap_clients_parse("", 0, arena, &n, &list, NULL), 0);
    assert_int_equal(n, 0);
    (void)uma_arena_free(arena);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = { T(agx), T(older_paths_and_sentinels), T(another_arm_board), cmocka_unit_test(clients) };
    return cmocka_run_group_tests_name("gpu_tegra", tests, NULL, NULL);
}
