/* SPDX-License-Identifier: MIT */
#include "valve/entries.h"

#include "test.h"

static void exported(void **state) {
    (void)state;
    assert_int_equal(uma_valve_entry_exported("cuMemAlloc_v2"), UMA_VALVE_cuMemAlloc_v2);
    assert_int_equal(uma_valve_entry_exported("nvmlDeviceGetMemoryInfo"), UMA_VALVE_nvmlDeviceGetMemoryInfo);
    static const char *const others[] = { "cuMemAlloc", "cuInit", "cudaMalloc", "malloc", "", "c", "cu", "cuMemAlloc_v2x", "nvmlInit_v2" };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(uma_valve_entry_exported(others[i]), UMA_VALVE_N_ENTRIES);
    assert_int_equal(uma_valve_entry_exported(NULL), UMA_VALVE_N_ENTRIES);
    for (int i = 0; i < UMA_VALVE_N_ENTRIES; i++)
        assert_int_equal(uma_valve_entry_exported(uma_valve_entry_name((enum uma_valve_entry)i)), i);
}

/* As the runtime asks: without suffix, with the version that it was built for. */
static void asked(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int version;
        unsigned long long flags;
        int entry;
    } cases[] = {
        { "cuMemAlloc", 3020, 0, UMA_VALVE_cuMemAlloc_v2 },
        { "cuMemAlloc", 13000, 1, UMA_VALVE_cuMemAlloc_v2 },
        { "cuMemAlloc", 3010, 0, UMA_VALVE_N_ENTRIES }, /* sizes of 32 bits */
        { "cuMemAlloc_v2", 12000, 0, UMA_VALVE_cuMemAlloc_v2 },
        { "cuGetProcAddress", 11030, 0, UMA_VALVE_cuGetProcAddress },
        { "cuGetProcAddress", 11080, 0, UMA_VALVE_cuGetProcAddress },
        { "cuGetProcAddress", 12000, 0, UMA_VALVE_cuGetProcAddress_v2 },
        { "cuGetProcAddress_v2", 12000, 0, UMA_VALVE_cuGetProcAddress_v2 },
        { "cuCtxCreate", 3020, 0, UMA_VALVE_cuCtxCreate_v2 },
        { "cuCtxCreate", 11040, 0, UMA_VALVE_cuCtxCreate_v3 },
        { "cuCtxCreate", 12040, 0, UMA_VALVE_cuCtxCreate_v3 },
        { "cuCtxCreate", 13000, 0, UMA_VALVE_cuCtxCreate_v4 },
        { "cuGraphAddNode", 12020, 0, UMA_VALVE_cuGraphAddNode },
        { "cuGraphAddNode", 13000, 0, UMA_VALVE_cuGraphAddNode_v2 },
        { "cuGraphLaunch", 12000, 0, UMA_VALVE_cuGraphLaunch },
        { "cuGraphLaunch", 12000, 2, UMA_VALVE_cuGraphLaunch_ptsz },
        { "cuCtxDestroy", 3000, 0, UMA_VALVE_cuCtxDestroy },
        { "cuCtxDestroy", 4000, 0, UMA_VALVE_cuCtxDestroy_v2 },
        { "cuDevicePrimaryCtxReset", 7000, 0, UMA_VALVE_cuDevicePrimaryCtxReset },
        { "cuDevicePrimaryCtxReset", 12000, 0, UMA_VALVE_cuDevicePrimaryCtxReset_v2 },
        { "cuMemAllocAsync", 12000, 0, UMA_VALVE_cuMemAllocAsync },
        { "cuMemAllocAsync", 12000, 1, UMA_VALVE_cuMemAllocAsync },
        { "cuMemAllocAsync", 12000, 2, UMA_VALVE_cuMemAllocAsync_ptsz },
        { "cuMemFreeAsync", 12000, 2, UMA_VALVE_cuMemFreeAsync_ptsz },
        { "cuMemAlloc", 12000, 2, UMA_VALVE_cuMemAlloc_v2 },
        { "cuMemAllocAsync_ptsz", 12000, 0, UMA_VALVE_cuMemAllocAsync_ptsz },
        { "cuMemGetInfo", 12000, 0, UMA_VALVE_cuMemGetInfo_v2 },
        { "cuInit", 12000, 0, UMA_VALVE_N_ENTRIES },
        { "cuLaunchKernel", 12000, 2, UMA_VALVE_N_ENTRIES },
        { NULL, 12000, 0, UMA_VALVE_N_ENTRIES },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(uma_valve_entry_asked(cases[i].name, cases[i].version, cases[i].flags), cases[i].entry);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(exported), cmocka_unit_test(asked) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
