/* SPDX-License-Identifier: MIT */
/* AMD from sysfs and fdinfo: a Strix Halo, two cards, what is missing, and hostile files. */
#include "test.h"

#include "gpu_folder.h"

#include "base/units.h"
#include "observe/gpu_vendor.h"

static struct uma_process processes[] = {
    { .pid = 2, .state = 'S', .kernel_thread = true },
    { .pid = 900, .state = 'S' },
    { .pid = 901, .state = 'S' },
    { .pid = 902, .state = 'Z' },
};

static void with_processes(struct folder *f) {
    f->snapshot.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = ELEMENTS(processes), .list = processes };
}

/* 96 GiB of GTT and a 4 GiB carve-out, as ROCm users report of a 128 GB Strix Halo. */
static void strix_halo(struct folder *f) {
    folder_put(f, "sys/class/drm/card1/device/vendor", "0x1002\n");
    folder_put(f, "sys/class/drm/card1/device/device", "0x1586\n");
    folder_put(f, "sys/class/drm/card1/device/uevent", "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_SLOT_NAME=0000:c5:00.0\n");
    folder_put(f, "sys/class/drm/card1/device/mem_info_gtt_total", "103079215104\n");
    folder_put(f, "sys/class/drm/card1/device/mem_info_gtt_used", "64424509440\n");
    folder_put(f, "sys/class/drm/card1/device/mem_info_vram_total", "4294967296\n");
    folder_put(f, "sys/class/drm/card1/device/mem_info_vram_used", "312000512\n");
    folder_put(f, "sys/class/drm/card1/device/gpu_busy_percent", "97\n");
    folder_put(f, "sys/class/drm/card1/device/pp_dpm_sclk", "0: 600Mhz \n1: 1100Mhz *\n2: 2900Mhz \n");
    folder_put(f, "sys/class/drm/card1/device/hwmon/hwmon3/name", "acpitz\n");
    folder_put(f, "sys/class/drm/card1/device/hwmon/hwmon7/name", "amdgpu\n");
    folder_put(f, "sys/class/drm/card1/device/hwmon/hwmon7/temp1_input", "61000\n");
    folder_put(f, "sys/class/drm/card1/device/hwmon/hwmon7/power1_average", "84025000\n");
    folder_put(f, "sys/class/drm/card1/device/hwmon/hwmon7/freq1_input", "2876000000\n");
    folder_put(f, "sys/class/drm/card1-DP-1/status", "connected\n");
    folder_put(f, "sys/class/drm/renderD128/device/vendor", "0x1002\n");
    folder_put(f, "proc/900/fdinfo/5",
               "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-client-id:\t26\ndrm-pdev:\t0000:c5:00.0\ndrm-memory-vram:\t2048 KiB\n"
               "drm-memory-gtt:\t60000000 KiB\ndrm-resident-gtt:\t1 KiB\ndrm-engine-gfx:\t0 ns\ndrm-engine-compute:\t123456789 ns\n");
    folder_put(f, "proc/900/fdinfo/6", "drm-driver:\tamdgpu\ndrm-client-id:\t26\ndrm-pdev:\t0000:c5:00.0\ndrm-memory-gtt:\t60000000 KiB\n");
    folder_put(f, "proc/900/fdinfo/7", "drm-driver:\tamdgpu\ndrm-client-id:\t27\ndrm-pdev:\t0000:c5:00.0\ndrm-memory-gtt:\t4 MiB\n");
    folder_put(f, "proc/900/fdinfo/1", "pos:\t0\nflags:\t02\n");
    /* forked: it still has the parent's client, and one of its own in the newer words */
    folder_put(f, "proc/901/fdinfo/5", "drm-driver:\tamdgpu\ndrm-client-id:\t26\ndrm-pdev:\t0000:c5:00.0\ndrm-memory-gtt:\t60000000 KiB\n");
    folder_put(f, "proc/901/fdinfo/8", "drm-driver:\tamdgpu\ndrm-client-id:\t28\ndrm-pdev:\t0000:c5:00.0\ndrm-resident-gtt:\t300 KiB\n");
    folder_put(f, "proc/901/fdinfo/9", "drm-driver:\ti915\ndrm-client-id:\t1\ndrm-pdev:\t0000:00:02.0\ndrm-memory-gtt:\t9 KiB\n");
    folder_put(f, "proc/2/fdinfo/3", "drm-driver:\tamdgpu\ndrm-client-id:\t99\ndrm-pdev:\t0000:c5:00.0\ndrm-memory-gtt:\t7 KiB\n");
}

static void one(void **state) {
    struct folder *f = *state;
    strix_halo(f);
    with_processes(f);
    const struct uma_gpus *gpus = folder_read(f);
    assert_int_equal(gpus->n, 1);
    assert_int_equal(gpus->source.validity, UMA_KNOWN);
    assert_string_equal(gpus->source.path, "sys/class/drm");
    const struct uma_gpu *gpu = &gpus->list[0];
    assert_string_equal(gpu->vendor, "amd");
    assert_string_equal(gpu->name, "AMD GPU 1002:1586");
    assert_string_equal(gpu->pci, "0000:c5:00.0");
    assert_int_equal(gpu->numa_node, -1);
    assert_int_equal(gpu->gtt_total.value, 103079215104);
    assert_int_equal(gpu->gtt_used.value, 64424509440);
    assert_int_equal(gpu->vram_total.value, 4294967296);
    assert_int_equal(gpu->vram_used.value, 312000512);
    assert_int_equal(gpu->memory_total.validity, UMA_ABSENT);
    assert_true(gpu->utilization.value == 0.97);
    assert_int_equal(gpu->memory_utilization.validity, UMA_ABSENT);
    assert_true(gpu->celsius.value == 61);
    assert_true(gpu->watts.value == 84.025);
    assert_int_equal(gpu->watts_instant.validity, UMA_ABSENT);
    assert_int_equal(gpu->sm_hertz.value, 2876000000);
    assert_int_equal(gpu->sm_max_hertz.value, 2900000000);
    assert_int_equal(gpu->throttle_seconds[0].validity, UMA_ABSENT);
    assert_int_equal(gpu->processes_validity, UMA_KNOWN);
    assert_int_equal(gpu->n_processes, 2);
    assert_int_equal(gpu->processes[0].pid, 900);
    assert_int_equal(gpu->processes[0].bytes.value, 60000000 * UMA_KIB + 4 * UMA_MIB); /* client 26 once */
    assert_true(gpu->processes[0].compute);
    assert_int_equal(gpu->processes[1].pid, 901);
    assert_int_equal(gpu->processes[1].bytes.value, 300 * UMA_KIB); /* 26 is the parent's */
    assert_false(gpu->processes[1].compute);
}

static void without_processes(void **state) {
    struct folder *f = *state;
    strix_halo(f);
    const struct uma_gpus *gpus = folder_read(f);
    assert_int_equal(gpus->list[0].processes_validity, UMA_UNKNOWN); /* not "none" */
}

static void two_and_another(void **state) {
    struct folder *f = *state;
    strix_halo(f);
    folder_put(f, "sys/class/drm/card0/device/vendor", "0x10de\n");
    folder_put(f, "sys/class/drm/card10/device/vendor", "0x1002\n");
    folder_put(f, "sys/class/drm/card10/device/uevent", "PCI_SLOT_NAME=0000:03:00.0\n");
    folder_put(f, "sys/class/drm/card10/device/product_name", "Radeon \x1b[31m\xff\n");
    folder_put(f, "sys/class/drm/card10/device/gpu_busy_percent", "250\n");
    folder_put(f, "sys/class/drm/card10/device/mem_info_vram_total", "-1\n");
    folder_put(f, "sys/class/drm/card10/device/mem_info_gtt_total", "lots\n");
    folder_put(f, "proc/901/fdinfo/11", "drm-driver:\tamdgpu\ndrm-client-id:\t26\ndrm-pdev:\t0000:03:00.0\ndrm-memory-gtt:\t5 KiB\n");
    with_processes(f);
    const struct uma_gpus *gpus = folder_read(f);
    assert_int_equal(gpus->n, 2);
    assert_string_equal(gpus->list[1].name, "Radeon \x1b[31m\\xff");
    assert_int_equal(gpus->list[1].index, 1);
    assert_int_equal(gpus->list[1].utilization.validity, UMA_MALFORMED);
    assert_int_equal(gpus->list[1].vram_total.validity, UMA_MALFORMED);
    assert_int_equal(gpus->list[1].gtt_total.validity, UMA_MALFORMED);
    assert_int_equal(gpus->list[1].celsius.validity, UMA_ABSENT);
    assert_int_equal(gpus->list[0].n_processes, 2);
    assert_int_equal(gpus->list[1].n_processes, 1); /* the same client number on another card is another client */
    assert_int_equal(gpus->list[1].processes[0].bytes.value, 5 * UMA_KIB);
}

static void none(void **state) {
    struct folder *f = *state;
    folder_put(f, "sys/class/drm/card0/device/vendor", "0x10de\n");
    const struct uma_gpus *gpus = folder_read(f);
    assert_int_equal(gpus->n, 0);
    assert_int_equal(gpus->source.validity, UMA_UNKNOWN); /* nobody could be asked in a folder */
}

static void fdinfo(void **state) {
    (void)state;
    struct uma_drm_client c = { .pdev = "untouched" };
    static const char not_drm[] = "pos:\t0\ndrm-client-id:\t4\n";
    assert_int_equal(uma_drm_fdinfo_parse(not_drm, sizeof(not_drm) - 1, &c), -ENOENT);
    assert_string_equal(c.pdev, "untouched");
    static const char odd[] =
        "drm-driver: amdgpu\r\ndrm-client-id:x\ndrm-memory-gtt:\t99999999999999999999 KiB\ndrm-resident-gtt:\t12 MiB\n"
        "drm-engine-compute:\tlater\ndrm-pdev:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\ndrm-\ndrm-driver";
    assert_int_equal(uma_drm_fdinfo_parse(odd, sizeof(odd) - 1, &c), 0);
    assert_string_equal(c.driver, "amdgpu");
    assert_int_equal(strlen(c.pdev), sizeof(c.pdev) - 1);
    assert_int_equal(c.id.validity, UMA_MALFORMED);
    assert_int_equal(c.gtt.value, 12 * UMA_MIB);
    assert_int_equal(c.compute_ns.validity, UMA_MALFORMED);
    static const char bytes[] = "drm-driver:\tamdgpu\ndrm-memory-gtt:\t8192\n";
    assert_int_equal(uma_drm_fdinfo_parse(bytes, sizeof(bytes) - 1, &c), 0);
    assert_int_equal(c.gtt.value, 8192);
    assert_int_equal(c.id.validity, UMA_UNKNOWN);
    static const char odd_unit[] = "drm-driver:\tamdgpu\ndrm-memory-gtt:\t8192 furlongs\n";
    assert_int_equal(uma_drm_fdinfo_parse(odd_unit, sizeof(odd_unit) - 1, &c), 0);
    assert_int_equal(c.gtt.validity, UMA_MALFORMED);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, folder_setup, folder_teardown)
    const struct CMUnitTest tests[] = { T(one), T(without_processes), T(two_and_another), T(none), cmocka_unit_test(fdinfo) };
    return cmocka_run_group_tests_name("gpu_amd", tests, NULL, NULL);
}
