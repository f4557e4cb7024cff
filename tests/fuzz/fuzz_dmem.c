/* SPDX-License-Identifier: MIT */
/* dmem.capacity, dmem.max and dmem.current of a control group: a limit is only confirmed by a number that is not above it. */
#include "observe/dmem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_dmem_reading reading = { 0 };
    for (int file = UMA_DMEM_CAPACITY; file <= UMA_DMEM_CURRENT; file++)
        uma_dmem_parse((const char *)data, size, (enum uma_dmem_file)file, &reading);
    if (uma_dmem_agrees(&reading, 1 << 20) == UMA_YES && (!reading.nvidia || reading.unlimited || reading.max.value > 1 << 20))
        __builtin_trap();
    return 0;
}
