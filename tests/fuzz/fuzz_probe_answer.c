/* SPDX-License-Identifier: MIT */
/* The probe's answer: any bytes may come over the socket. */
#include "base/units.h"
#include "observe/gpu_probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_arena *arena = uma_arena_new(32 * UMA_MIB);
    struct uma_error err = { 0 };
    struct uma_gpus gpus = { 0 };
    if (arena && uma_probe_answer_parse(data, size, arena, &gpus, &err) == 0) {
        uma_gpus_make_stale(&gpus);
        for (size_t i = 0; i < gpus.n; i++)
            for (size_t j = 1; j < gpus.list[i].n_processes; j++)
                if (gpus.list[i].processes[j - 1].pid >= gpus.list[i].processes[j].pid)
                    __builtin_trap(); /* ascending, and each once */
    }
    (void)uma_arena_free(arena);
    return 0;
}
