/* SPDX-License-Identifier: MIT */
#include "observe/gpu_vendor.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_drm_client client;
    if (uma_drm_fdinfo_parse((const char *)data, size, &client) == 0 &&
        (!memchr(client.driver, '\0', sizeof(client.driver)) || !memchr(client.pdev, '\0', sizeof(client.pdev)) || !client.driver[0]))
        __builtin_trap();
    return 0;
}
