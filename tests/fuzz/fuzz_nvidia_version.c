/* SPDX-License-Identifier: MIT */
/* /proc/driver/nvidia/version: the version lies within the text and is digits and dots. */
#include "observe/platform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *version;
    size_t length;
    if (uma_nvidia_version_parse((const char *)data, size, &version, &length) < 0)
        return 0;
    if (length == 0 || version < (const char *)data || version + length > (const char *)data + size)
        __builtin_trap();
    for (size_t i = 0; i < length; i++)
        if (version[i] != '.' && (version[i] < '0' || version[i] > '9'))
            __builtin_trap();
    return 0;
}
