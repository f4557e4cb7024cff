/* SPDX-License-Identifier: MIT */
/* Also the masking of secrets: twice is once, and what is kept is valid UTF-8. */
#include "base/units.h"
#include "observe/process.h"
#include "observe/secrets.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    _cleanup_text_ struct uma_text once = { 0 }, twice = { 0 };
    struct uma_process p = { 0 };
    if (!arena)
        return 0;
    if (uma_process_cmdline_parse((const char *)data, size, false, arena, &p) == 0 && p.argc > 0) {
        size_t total = 0;
        for (uint32_t i = 0; i < p.argc; i++) {
            size_t n = strlen(p.argv[i]);
            total += n + 1;
            for (size_t at = 0; at < n;) {
                size_t step = uma_utf8_sequence(p.argv[i] + at, n - at);
                if (!step)
                    abort();
                at += step;
            }
        }
        if (total > 4 * UMA_CMDLINE_MAX + 1) /* each byte may have become \xHH */
            abort();
    }
    uma_secrets_mask((const char *)data, size, &once);
    if (!once.data)
        return 0;
    uma_secrets_mask(once.data, once.length, &twice);
    if (!once.failed && !twice.failed && (once.length != twice.length || memcmp(once.data, twice.data, once.length) != 0))
        abort();
    return 0;
}
