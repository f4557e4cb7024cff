/* SPDX-License-Identifier: MIT */
/* os-release and dgx-release: whatever the text, a value is there and bounded, or it is not there. */
#include "observe/platform.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[] = { "PRETTY_NAME", "DGX_OTA_VERSION", "DGX_SWBUILD_VERSION" };
    _cleanup_text_ struct uma_text value = { 0 };
    for (size_t i = 0; i < ELEMENTS(keys); i++)
        if (uma_release_value((const char *)data, size, keys[i], &value) == 0 && (value.length == 0 || value.length > 256))
            __builtin_trap();
    return 0;
}
