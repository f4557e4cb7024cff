/* SPDX-License-Identifier: MIT */
/* /proc/PID/stat and status of a job's process. */
#include "job/tree.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_tree_process process = { 0 };
    uint64_t ticks;
    char *copy = malloc(size ? size : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (uma_tree_stat_parse(copy, size, &process, &ticks) == 0 && (process.pid <= 0 || process.name[sizeof(process.name) - 1] != '\0'))
        abort();
    uma_tree_status_parse(copy, size, &process);
    free(copy);
    return 0;
}
