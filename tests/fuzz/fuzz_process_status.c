/* SPDX-License-Identifier: MIT */
#include "observe/process.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_process p = { .pid = 7 };
    struct uma_error err = { 0 };
    int r = uma_process_status_parse((const char *)data, size, "status", &p, &err);
    if ((r < 0) != (err.text[0] != '\0') || p.pid != 7)
        abort();
    if (r == 0 && (p.rss.validity == UMA_UNKNOWN || p.swap.validity == UMA_UNKNOWN || (p.rss.value && p.rss.validity != UMA_KNOWN)))
        abort(); /* every field says what became of it */
    return 0;
}
