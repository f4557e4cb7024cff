/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_meminfo meminfo;
    struct uma_error err = { 0 };
    if (!arena)
        return 0;
    int r = uma_meminfo_parse((const char *)data, size, "meminfo", arena, &meminfo, &err);
    if (r != 0 && err.text[0] == 0)
        abort(); /* a refusal, or a malformed field, without a reason */
    /* without MemTotal there is a complaint, and MemFree at least */
    if (r >= 0 && meminfo.mem_total.validity != UMA_KNOWN && (r == 0 || meminfo.mem_free.validity != UMA_KNOWN))
        abort();
    if (r >= 0 && meminfo.n_other > UMA_MEMINFO_OTHER_MAX)
        abort();
    struct uma_node node = { 0 };
    (void)uma_node_meminfo_parse((const char *)data, size, "node", &node, NULL);
    return 0;
}
