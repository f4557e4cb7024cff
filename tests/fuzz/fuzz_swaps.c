/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    size_t n = 0;
    struct uma_swap *swaps = NULL;
    struct uma_error err = { 0 };
    if (!arena)
        return 0;
    int r = uma_swaps_parse((const char *)data, size, "swaps", arena, &n, &swaps, &err);
    if ((r != 0 && err.text[0] == 0) || n > UMA_SWAPS_MAX)
        abort();
    for (size_t i = 0; i < n; i++)
        if (swaps[i].used > swaps[i].size || !swaps[i].path || !swaps[i].type)
            abort();
    return 0;
}
