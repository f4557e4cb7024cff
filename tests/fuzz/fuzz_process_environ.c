/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/process.h"
#include "observe/secrets.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_process p = { 0 };
    if (!arena || uma_process_environ_parse((const char *)data, size, arena, &p) < 0)
        return 0;
    for (uint32_t i = 0; i < p.envc; i++) {
        const char *equals = strchr(p.env[i], '=');
        if (!equals || uma_secrets_name(p.env[i], (size_t)(equals - p.env[i])))
            abort(); /* a secret, or not a variable */
    }
    return 0;
}
