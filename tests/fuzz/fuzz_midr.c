/* SPDX-License-Identifier: MIT */
/* MIDR_EL1 and CPU lists: the smallest texts of the heat reader. */
#include "observe/cpu_core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t midr;
    int32_t ids[16];
    if (uma_midr_parse((const char *)data, size, &midr) == 0) {
        if (midr > UINT32_MAX)
            __builtin_trap();
        (void)uma_midr_core_name(midr);
    }
    int n = uma_cpu_list_parse((const char *)data, size, 16, ids);
    for (int i = 1; i < n && i < 16; i++)
        if (ids[i] <= ids[i - 1])
            __builtin_trap();
    if (n == 0 || n > 65536)
        __builtin_trap();
    return 0;
}
