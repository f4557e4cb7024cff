/* SPDX-License-Identifier: MIT */
#include "plan/model/folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_folder_adapter adapter;
    struct uma_error err = { 0 };
    int r = uma_folder_adapter_parse((const char *)data, size, "adapter", &adapter, &err);
    if (r < 0 && err.text[0] == 0)
        abort(); /* a refusal without a reason */
    if (r == 0 && memchr(adapter.base, '\0', sizeof(adapter.base)) == NULL)
        abort();
    return 0;
}
