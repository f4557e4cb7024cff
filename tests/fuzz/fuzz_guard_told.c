/* SPDX-License-Identifier: MIT */
/* What whoever listens at the guard's socket answers: values stay in their bounds, and are pieces of the answer. */
#include "cmd/guard.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[] = { "pid", "braked", "headroom", "", "a" };
    static struct uma_guard_told told;
    char into[16];
    size_t n = size < UMA_GUARD_ANSWER_MAX ? size : UMA_GUARD_ANSWER_MAX;
    memset(&told, 0, sizeof(told));
    memcpy(told.text, data, n);
    for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
        for (unsigned i = 0; uma_guard_told_value(&told, keys[k], i, into, sizeof(into)); i++)
            if (!memchr(into, '\0', sizeof(into)) || strchr(into, '\n') || !strstr(told.text, into) || i > n)
                abort();
    return 0;
}
