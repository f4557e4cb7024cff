/* SPDX-License-Identifier: MIT */
#include "base/text.h"
#include "base/units.h"
#include "observe/process.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_process p = { .pid = -7 };
    struct uma_error err = { 0 };
    if (!arena)
        return 0;
    int r = uma_process_stat_parse((const char *)data, size, "stat", arena, &p, &err);
    if (r < 0 && (err.text[0] == '\0' || p.pid != -7 || p.name))
        abort(); /* refused without a reason, or half filled */
    if (r == 0 && (!p.name || p.pid < 0 || p.ppid < 0 || p.majfaults.validity != UMA_KNOWN || !(p.cpu_seconds.value >= 0)))
        abort();
    return 0;
}
