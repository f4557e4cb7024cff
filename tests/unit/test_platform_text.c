/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/platform.h"

#include <errno.h>
#include <string.h>

static void release(void **state) {
    (void)state;
    static const char dgx[] = "DGX_NAME=\"DGX Spark\"\r\nDGX_PRETTY_NAME=\"NVIDIA DGX Spark\"\nDGX_SWBUILD_DATE=\"2025-09-10-13-50-03\"\n"
                              "DGX_SWBUILD_VERSION=\"7.2.3\"\nDGX_SERIAL_NUMBER=\"0000000000000\"\n\nDGX_OTA_VERSION=\"7.3.1\"\n"
                              "DGX_OTA_DATE=\"Wed Nov 19 05:05:30 PM CET 2025\"\n\nDGX_OTA_VERSION=\"7.5.0\"\nDGX_OTA_DATE=\"Wed Jul 15\"";
    static const struct {
        const char *text, *key, *value; /* NULL: no such key */
    } cases[] = {
        { dgx, "DGX_SWBUILD_VERSION", "7.2.3" },
        { dgx, "DGX_OTA_VERSION", "7.5.0" }, /* the newest update stands last */
        { dgx, "DGX_NAME", "DGX Spark" },
        { dgx, "DGX_OTA_DATE", "Wed Jul 15" },
        { dgx, "DGX_OTA", NULL },
        { "A=1\n", "A", "1" },
        { "  export A=1 # comment\n", "A", "1" },
        { "#A=1\n", "A", NULL },
        { "A =1\n", "A", NULL },
        { "A='x \"$y'\n", "A", "x \"$y" },
        { "A=\"say \\\"hi\\\" \\$5 \\\\\"\n", "A", "say \"hi\" $5 \\" },
        { "A=\"not closed\n", "A", "not closed" },
        { "A=\n", "A", NULL },
        { "A=\"\"\n", "A", NULL },
        { "A", "A", NULL },
        { "A=", "A", NULL },
        { "A=x\\", "A", "x\\" },
        { "", "A", NULL },
        { "A=1\nA=\n", "A", NULL },
    };
    _cleanup_text_ struct uma_text value = { 0 };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        int r = uma_release_value(cases[i].text, strlen(cases[i].text), cases[i].key, &value);
        assert_int_equal(r, cases[i].value ? 0 : -ENOENT);
        if (cases[i].value)
            assert_string_equal(value.data, cases[i].value);
    }
    char huge[10000] = "A=";
    (void)memset(huge + 2, 'x', sizeof(huge) - 2);
    assert_int_equal(uma_release_value(huge, sizeof(huge), "A", &value), 0);
    assert_int_equal(value.length, 256);
}

static void nvidia(void **state) {
    (void)state;
    static const struct {
        const char *text, *version;
    } cases[] = {
        { "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build  (dvs-builder@host)  Tue Sep 23 09:55:41 UTC 2025\n"
          "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n",
          "580.95.05" },
        { "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\r\n", "535.104.05" },
        { "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  540.4.0  Release Build\n", "540.4.0" },
        { "NVRM version: 610.43", "610.43" },
        { "GCC version: gcc version 13.3.0\n", NULL },
        { "NVRM version:", NULL },
        { "NVRM version: 580\n", NULL },
        { "NVRM version: 580. .95 5..8 580.95.05a\n", NULL },
        { "NVRM version: 1111111111111111111111111111111111111111.1\n", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        const char *version = NULL;
        size_t length = 0;
        int r = uma_nvidia_version_parse(cases[i].text, strlen(cases[i].text), &version, &length);
        assert_int_equal(r, cases[i].version ? 0 : -EINVAL);
        if (cases[i].version) {
            assert_int_equal(length, strlen(cases[i].version));
            assert_memory_equal(version, cases[i].version, length);
        }
    }
}

#define ARM(n, part)                                                                                                                       \
    "processor\t: " n "\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\n"    \
    "CPU part\t: " part "\nCPU revision\t: 1\n\n"

static void cpuinfo(void **state) {
    (void)state;
    static const struct {
        const char *text, *name, *architecture;
        uint32_t processors;
    } cases[] = {
        { ARM("0", "0xd87") ARM("1", "0xd85") ARM("2", "0xd85") ARM("3", "0xd87"), "Cortex-A725 x2, Cortex-X925 x2", "aarch64", 4 },
        { "processor\t: 0\nmodel name\t: ARMv8 Processor rev 1 (v8l)\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd42\n",
          "Cortex-A78AE x1", "aarch64", 1 },
        { "processor\t: 0\nCPU implementer\t: 0x61\nCPU architecture: 8\nCPU part\t: 0x022\n", "Arm implementer 0x61 part 0x022", "aarch64",
          1 },
        { "processor\t: 0\nmodel name\t: ARMv8 Processor rev 0 (v8l)\nCPU implementer\t: 0x4e\nCPU architecture: 8\nCPU part\t: 0x004\n",
          "ARMv8 Processor rev 0 (v8l)", "aarch64", 1 },
        { "processor\t: 0\r\nvendor_id\t: AuthenticAMD\r\nmodel name\t: AMD RYZEN AI MAX+ 395 w/ Radeon 8060S\r\nflags\t\t: fpu lm nx\r\n\r\n"
          "processor\t: 1\r\nmodel name\t: other\r\n",
          "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "x86_64", 2 },
        { "processor\t: 0\nflags\t\t: fpu lahf_lm\n", NULL, NULL, 1 },
        { "processor\t: 0\nCPU architecture: 7\nCPU implementer\t: 0x41\nCPU part\t: 0xd03\n", "Cortex-A53 x1", NULL, 1 },
        { "model name\t:\n", NULL, NULL, 0 },
        { "no colon\n:\n : \n", NULL, NULL, 0 },
        { "", NULL, NULL, 0 },
    };
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_cpuinfo info;
        assert_int_equal(uma_cpuinfo_parse(cases[i].text, strlen(cases[i].text), arena, &info), 0);
        if (cases[i].name)
            assert_string_equal(info.name, cases[i].name);
        else
            assert_null(info.name);
        if (cases[i].architecture)
            assert_string_equal(info.architecture, cases[i].architecture);
        else
            assert_null(info.architecture);
        assert_int_equal(info.processors, cases[i].processors);
    }
}

static void many_kinds(void **state) {
    (void)state;
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_append(&t, "CPU implementer : 0x41\n");
    for (int i = 0; i < 100000; i++)
        uma_text_printf(&t, "CPU part : 0x%03x\n", i % 4096);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_cpuinfo info;
    assert_int_equal(uma_cpuinfo_parse(t.data, t.length, arena, &info), 0);
    assert_non_null(info.name);
    assert_true(uma_arena_used(arena) < 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(release), cmocka_unit_test(nvidia), cmocka_unit_test(cpuinfo),
                                        cmocka_unit_test(many_kinds) };
    return cmocka_run_group_tests_name("platform_text", tests, NULL, NULL);
}
