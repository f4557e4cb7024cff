/* SPDX-License-Identifier: MIT */
/* /proc/PID/cgroup as the guard reads it: a path that it accepts never leads out of the folder of control groups. */
#include "guard/group.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    if (!uma_guard_group_path_parse((const char *)data, size, path, sizeof(path)))
        return 0;
    if (strlen(path) >= sizeof(path) || path[0] == '/' || path[0] == '\0' || strstr(path, "/../") || strncmp(path, "../", 3) == 0)
        abort();
    return 0;
}
