/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"
#include "observe/platform.h"

struct machine {
    struct folder folder;
    struct uma_snapshot snapshot;
};

static int setup(void **state) {
    struct machine *m = calloc(1, sizeof(*m));
    *state = m;
    return m && folder_new(&m->folder) == 0 && uma_snapshot_init(&m->snapshot) == 0 ? 0 : -1;
}

static int teardown(void **state) {
    struct machine *m = *state;
    uma_snapshot_done(&m->snapshot);
    folder_done(&m->folder);
    free(m);
    return 0;
}

static const struct uma_platform *read_from(struct machine *m, const char *root_path, const char *capture) {
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(root_path, capture, &root, NULL), 0);
    uma_snapshot_reset(&m->snapshot);
    uma_platform_read(root, &m->snapshot);
    return &m->snapshot.platform;
}

static const struct uma_platform *read_folder(struct machine *m) {
    return read_from(m, m->folder.path, NULL);
}

static void spark_files(const struct folder *f) {
    static const char *const files[][2] = {
        { "sys/class/dmi/id/product_name", "NVIDIA_DGX_Spark\n" },
        { "sys/class/dmi/id/board_name", "P4242\n" },
        { "sys/class/dmi/id/sys_vendor", "NVIDIA\n" },
        { "sys/class/dmi/id/bios_version", "5.36_0ACUM018\n" },
        { "sys/class/dmi/id/bios_date", "08/21/2025\n" },
        { "sys/class/dmi/id/product_serial", "1234567890123\n" },
        { "proc/sys/kernel/hostname", "spark-1\n" },
        { "proc/sys/kernel/osrelease", "6.17.0-1018-nvidia\n" },
        { "proc/sys/kernel/arch", "aarch64\n" },
        { "proc/sys/kernel/random/boot_id", "b5a1e9d0-0000-4000-8000-000000000001\n" },
        { "proc/uptime", "1566985.31 31000000.00\n" },
        { "proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd87\n\n"
                          "processor\t: 1\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd85\n\n" },
        { "proc/self/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n" },
        { "proc/driver/nvidia/version",
          "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build  (builder)  Tue Sep 23 2025\n" },
        { "sys/devices/system/cpu/online", "0-19\n" },
        { "etc/os-release", "PRETTY_NAME=\"Ubuntu 24.04.3 LTS\"\nNAME=\"Ubuntu\"\n" },
        { "etc/dgx-release", "DGX_NAME=\"DGX Spark\"\nDGX_SWBUILD_VERSION=\"7.2.3\"\nDGX_SERIAL_NUMBER=\"1234567890123\"\n\n"
                             "DGX_OTA_VERSION=\"7.5.0\"\n" },
    };
    for (size_t i = 0; i < ELEMENTS(files); i++)
        folder_put(f, files[i][0], files[i][1]);
}

static void is_spark(const struct uma_platform *p) {
    assert_int_equal(p->source.validity, UMA_KNOWN);
    assert_string_equal(p->source.path, "sys/class/dmi/id/product_name");
    assert_string_equal(p->product, "NVIDIA_DGX_Spark");
    assert_string_equal(p->board, "P4242");
    assert_string_equal(p->vendor, "NVIDIA");
    assert_string_equal(p->firmware, "5.36_0ACUM018");
    assert_string_equal(p->firmware_date, "08/21/2025");
    assert_string_equal(p->host, "spark-1");
    assert_string_equal(p->kernel, "6.17.0-1018-nvidia");
    assert_string_equal(p->architecture, "aarch64");
    assert_string_equal(p->cpu, "Cortex-A725 x1, Cortex-X925 x1");
    assert_string_equal(p->driver, "580.95.05");
    assert_string_equal(p->dgx_release, "7.5.0");
    assert_string_equal(p->os, "Ubuntu 24.04.3 LTS");
    assert_string_equal(p->boot_id, "b5a1e9d0-0000-4000-8000-000000000001");
    assert_string_equal(p->self_cgroup, "/user.slice/user-1000.slice/session-3.scope");
    assert_int_equal(p->in_container, UMA_NO);
    assert_true(p->uptime_seconds.value == 1566985.31);
    assert_int_equal(p->cpus.value, 20);
}

/* And a capture of it is the same machine, without what tells the unit. */
static void spark(void **state) {
    struct machine *m = *state;
    spark_files(&m->folder);
    is_spark(read_folder(m));
    _cleanup_folder_ struct folder copy = { 0 };
    assert_int_equal(folder_new(&copy), 0);
    is_spark(read_from(m, m->folder.path, copy.path));
    is_spark(read_from(m, copy.path, NULL));
    char command[256];
    (void)snprintf(command, sizeof(command), "grep -rq 1234567890123 '%s'", copy.path);
    assert_int_not_equal(system(command), 0);
    (void)snprintf(command, sizeof(command), "grep -rq 1234567890123 '%s'", m->folder.path); /* the search itself works */
    assert_int_equal(system(command), 0);
}

static void nothing(void **state) {
    struct machine *m = *state;
    const struct uma_platform *p = read_folder(m);
    assert_int_equal(p->source.validity, UMA_ABSENT);
    assert_non_null(p->source.detail);
    assert_null(p->product);
    assert_null(p->kernel);
    assert_null(p->architecture); /* not this machine's */
    assert_null(p->host);
    assert_null(p->driver);
    assert_int_equal(p->in_container, UMA_MAYBE);
    assert_int_equal(p->uptime_seconds.validity, UMA_ABSENT);
    assert_int_equal(p->cpus.validity, UMA_ABSENT);
}

static void jetson(void **state) {
    struct machine *m = *state;
    static const char model[] = "NVIDIA Jetson AGX Orin Developer Kit", compatible[] = "nvidia,p3737-0000+p3701-0005\0nvidia,tegra234";
    folder_put_n(&m->folder, "proc/device-tree/model", model, sizeof(model));
    folder_put_n(&m->folder, "proc/device-tree/compatible", compatible, sizeof(compatible));
    folder_put(&m->folder, "proc/version", "Linux version 5.15.148-tegra (build@host) (gcc) #1 SMP PREEMPT\n");
    folder_put(&m->folder, "proc/cpuinfo",
               "processor\t: 0\nmodel name\t: ARMv8 Processor rev 1 (v8l)\nCPU implementer\t: 0x41\n"
               "CPU architecture: 8\nCPU part\t: 0xd42\n");
    folder_put(&m->folder, "proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build\n");
    const struct uma_platform *p = read_folder(m);
    assert_string_equal(p->source.path, "proc/device-tree/model");
    assert_string_equal(p->product, model);
    assert_string_equal(p->board, "nvidia,p3737-0000+p3701-0005 nvidia,tegra234");
    assert_string_equal(p->kernel, "5.15.148-tegra");
    assert_string_equal(p->architecture, "aarch64"); /* told by cpuinfo */
    assert_string_equal(p->cpu, "Cortex-A78AE x1");
    assert_int_equal(p->cpus.value, 1);
}

static void lenovo_and_fillers(void **state) {
    struct machine *m = *state;
    folder_put(&m->folder, "sys/class/dmi/id/sys_vendor", "LENOVO\n");
    folder_put(&m->folder, "sys/class/dmi/id/product_name", "30KL0005GF\n");
    folder_put(&m->folder, "sys/class/dmi/id/product_version", "ThinkStation PGX\n");
    folder_put(&m->folder, "sys/class/dmi/id/board_name", "Default string\n");
    folder_put(&m->folder, "sys/class/dmi/id/bios_version", "  \n");
    const struct uma_platform *p = read_folder(m);
    assert_string_equal(p->product, "ThinkStation PGX (30KL0005GF)");
    assert_null(p->board);
    assert_null(p->firmware);
    folder_put(&m->folder, "sys/class/dmi/id/sys_vendor", "Other\n");
    assert_string_equal(read_folder(m)->product, "30KL0005GF");
}

static void strix_halo(void **state) {
    struct machine *m = *state;
    folder_put(&m->folder, "proc/sys/kernel/osrelease", "6.14.0-37-generic\n");
    folder_put(&m->folder, "proc/cpuinfo", "processor : 0\nmodel name : AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\nflags : fpu lm\n");
    folder_put(&m->folder, "sys/module/amdgpu/initstate", "live\n");
    const struct uma_platform *p = read_folder(m);
    assert_string_equal(p->driver, "amdgpu of Linux 6.14.0-37-generic");
    assert_string_equal(p->architecture, "x86_64");
    folder_put(&m->folder, "sys/module/amdgpu/version", "6.12.12\n");
    assert_string_equal(read_folder(m)->driver, "amdgpu 6.12.12");
    folder_put(&m->folder, "sys/module/nvidia/version", "580.95.05\n");
    assert_string_equal(read_folder(m)->driver, "580.95.05");
}

static void containers(void **state) {
    struct machine *m = *state;
    static const struct {
        const char *path, *text;
        enum uma_truth in_container;
    } cases[] = {
        { "proc/self/cgroup", "0::/\n", UMA_NO },
        { ".dockerenv", "", UMA_YES },
        { "run/.containerenv", "engine=\"podman\"\nname=\"secret\"\n", UMA_YES },
        { "run/systemd/container", "systemd-nspawn\n", UMA_YES },
        { "sys/fs/cgroup/cgroup.type", "domain\n", UMA_YES },
        { "proc/self/cgroup", "0::/system.slice/docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n", UMA_YES },
        { "proc/self/cgroup", "not a cgroup file", UMA_MAYBE },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_folder_ struct folder copy = { 0 };
        assert_int_equal(folder_new(&copy), 0);
        folder_drop(&m->folder, "");
        (void)mkdir(m->folder.path, 0700);
        folder_put(&m->folder, "proc/self/cgroup", "0::/\n");
        folder_put(&m->folder, cases[i].path, cases[i].text);
        if (read_from(m, m->folder.path, copy.path)->in_container != cases[i].in_container)
            fail_msg("%zu: %s", i, cases[i].path);
        assert_int_equal(read_from(m, copy.path, NULL)->in_container, cases[i].in_container);
    }
}

static void hostile(void **state) {
    struct machine *m = *state;
    char huge[300000];
    (void)memset(huge, 'A', sizeof(huge));
    folder_put_n(&m->folder, "sys/class/dmi/id/product_name", huge, sizeof(huge));
    folder_put_n(&m->folder, "etc/dgx-release", huge, sizeof(huge));
    folder_put_n(&m->folder, "etc/os-release", "PRETTY_NAME=\"\xff\x1b[2J\"\n", 20);
    folder_put_n(&m->folder, "proc/cpuinfo", huge, sizeof(huge));
    folder_put_n(&m->folder, "proc/self/cgroup", huge, sizeof(huge));
    folder_put(&m->folder, "proc/uptime", "soon\n");
    folder_put(&m->folder, "sys/devices/system/cpu/online", "all\n");
    const struct uma_platform *p = read_folder(m);
    assert_int_equal(strlen(p->product), 256);
    assert_null(p->dgx_release);
    assert_string_equal(p->os, "\\xff\x1b[2J");
    assert_int_equal(p->uptime_seconds.validity, UMA_MALFORMED);
    assert_int_equal(p->cpus.validity, UMA_MALFORMED);
}

static void this_machine(void **state) {
    struct machine *m = *state;
    const struct uma_platform *p = read_from(m, NULL, NULL);
    assert_int_equal(p->source.validity, UMA_KNOWN);
    assert_non_null(p->kernel);
    assert_non_null(p->architecture);
    assert_true(p->uptime_seconds.validity == UMA_KNOWN && p->uptime_seconds.value > 0);
    assert_true(p->cpus.validity == UMA_KNOWN && p->cpus.value > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(spark, setup, teardown),      cmocka_unit_test_setup_teardown(nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(jetson, setup, teardown),     cmocka_unit_test_setup_teardown(lenovo_and_fillers, setup, teardown),
        cmocka_unit_test_setup_teardown(strix_halo, setup, teardown), cmocka_unit_test_setup_teardown(containers, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile, setup, teardown),    cmocka_unit_test_setup_teardown(this_machine, setup, teardown),
    };
    return cmocka_run_group_tests_name("platform", tests, NULL, NULL);
}
