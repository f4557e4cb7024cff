/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/files/locked.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(64 * UMA_MIB);
    struct uma_error err = { 0 };
    struct uma_locked_file *f = NULL;
    size_t n = 0;
    if (!arena)
        return 0;
    int r = uma_locked_parse((const char *)data, size, arena, &n, &f, &err);
    if (r < 0)
        return r == -ENOMEM && err.text[0] ? 0 : (abort(), 0);
    if (n > size)
        abort();
    for (size_t i = 1; i < n; i++)
        if (f[i].inode == f[i - 1].inode && f[i].major == f[i - 1].major && f[i].minor == f[i - 1].minor)
            abort(); /* those that follow one another are one */
    return 0;
}
