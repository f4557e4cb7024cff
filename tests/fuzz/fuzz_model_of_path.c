/* SPDX-License-Identifier: MIT */
/* The path of a file: whatever its bytes, a model's name is text, bounded, and only the path's. */
#include "base/arena.h"
#include "base/text.h"
#include "observe/files/stores.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *path = malloc(size + 1);
    struct uma_arena *arena = uma_arena_new((size_t)1 << 20);
    if (!path || !arena)
        abort();
    if (size)
        (void)memcpy(path, data, size);
    path[size] = '\0';
    const char *model = uma_model_of_path(path, NULL, arena);
    if (model && (!*model || strlen(model) > 8192))
        __builtin_trap();
    for (size_t i = 0, n = model ? strlen(model) : 0; i < n;) {
        size_t step = uma_utf8_sequence(model + i, n - i);
        if (!step)
            __builtin_trap();
        i += step;
    }
    if (uma_is_weight_file(path) && (!*path || path[strlen(path) - 1] == '/'))
        __builtin_trap();
    (void)uma_arena_free(arena);
    free(path);
    return 0;
}
