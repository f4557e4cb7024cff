/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/files/maps.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(64 * UMA_MIB);
    struct uma_error err = { 0 };
    struct uma_mapping *m = NULL;
    size_t n = 0;
    if (!arena)
        return 0;
    int r = uma_maps_parse((const char *)data, size, "maps", arena, &n, &m, &err);
    if (r < 0)
        return r == -ENOMEM && err.text[0] ? 0 : (abort(), 0);
    size_t lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n' || i + 1 == size;
    if (n + (size_t)r > lines)
        abort(); /* more than there is */
    for (size_t i = 0; i < n; i++)
        if (m[i].start >= m[i].end || !m[i].path || m[i].path[0] != '/' || strlen(m[i].path) > size)
            abort();
    return 0;
}
