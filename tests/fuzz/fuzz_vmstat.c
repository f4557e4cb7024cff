/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_vmstat vmstat;
    struct uma_error err = { 0 };
    int r = uma_vmstat_parse((const char *)data, size, "vmstat", &vmstat, &err);
    if (r != 0 && err.text[0] == 0)
        abort(); /* a refusal, or a malformed field, without a reason */
    return 0;
}
