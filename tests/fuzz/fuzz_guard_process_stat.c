/* SPDX-License-Identifier: MIT */
/* /proc/PID/stat as the guard reads it before a signal. */
#include "guard/tree.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_guard_seen seen;
    if (uma_guard_seen_parse((const char *)data, size, &seen) && (seen.pid <= 0 || seen.parent < 0 || seen.state <= ' '))
        abort();
    return 0;
}
