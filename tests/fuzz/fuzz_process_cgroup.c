/* SPDX-License-Identifier: MIT */
#include "observe/process.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int version = -1;
    const char *path = NULL, *text = (const char *)data;
    size_t n = 0;
    int r = uma_process_cgroup_parse(text, size, "cgroup", &version, &path, &n, NULL);
    if (r < 0 && (version != -1 || path))
        abort();
    if (r == 0 && (version < 0 || version > 2 || n == 0 || path < text || path + n > text + size || path[0] != '/'))
        abort();
    return 0;
}
