/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/gpu_vendor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_arena *arena = uma_arena_new(UMA_MIB);
    size_t n = 0;
    struct uma_gpu_process *list = NULL;
    if (arena && uma_nvmap_clients_parse((const char *)data, size, arena, &n, &list, NULL) == 0)
        for (size_t i = 0; i < n; i++)
            if (list[i].pid <= 0 || (i && list[i - 1].pid >= list[i].pid))
                __builtin_trap();
    (void)uma_arena_free(arena);
    return 0;
}
