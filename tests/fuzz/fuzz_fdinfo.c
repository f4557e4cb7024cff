/* SPDX-License-Identifier: MIT */
#include "observe/files/maps.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_fdinfo info = { .mount_id = -7 };
    int r = uma_fdinfo_parse((const char *)data, size, &info);
    if (r == 0 ? info.mount_id < -1 || info.position > INT64_MAX : r != -EINVAL || info.mount_id != -7)
        abort();
    return 0;
}
