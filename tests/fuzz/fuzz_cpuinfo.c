/* SPDX-License-Identifier: MIT */
/* /proc/cpuinfo: bounded memory, valid UTF-8 names. */
#include "observe/platform.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(64 * 1024);
    struct uma_cpuinfo info;
    if (!arena || uma_cpuinfo_parse((const char *)data, size, arena, &info) < 0 || !info.name)
        return 0;
    size_t n = strlen(info.name);
    for (size_t i = 0, step; i < n; i += step)
        if ((step = uma_utf8_sequence(info.name + i, n - i)) == 0)
            __builtin_trap();
    return 0;
}
