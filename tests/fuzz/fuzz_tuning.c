/* SPDX-License-Identifier: MIT */
/* The small formats of settings: what is found lies within the input and is what it says. */
#include "observe/tuning.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(const char *text, size_t size, const char *start, size_t length) {
    if (start < text || length > size || start + length > text + size)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *start;
    size_t length;
    uint64_t stored, used;
    char *copy = malloc(size ? size : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (uma_choice_parse(copy, size, &start, &length)) {
        inside(copy, size, start, length);
        if (length == 0)
            abort();
    }
    if (uma_command_line_find(copy, size, "kho", &start, &length))
        inside(copy, size, start, length);
    struct uma_u64 pools = uma_nvidia_pools_parse(copy, size), memlock = uma_memlock_parse(copy, size);
    if ((pools.validity != UMA_KNOWN && pools.value) || (memlock.validity != UMA_KNOWN && memlock.value))
        abort();
    (void)uma_zram_stat_parse(copy, size, &stored, &used);
    free(copy);
    return 0;
}
