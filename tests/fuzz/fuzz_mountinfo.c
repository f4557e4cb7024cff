/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/files/mounts.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct uma_mounts *mounts, const struct uma_mount *m) {
    if (m->id < 0 || m->parent < 0 || m->point[0] != '/' || !m->type[0] || m->kind != uma_filesystem_kind_of(m->type))
        abort();
    if (m->kind != UMA_FILESYSTEM_OVERLAY && (m->n_lower || m->upper))
        abort();
    for (uint32_t i = 0; i < m->n_lower; i++)
        if (!m->lower[i][0])
            abort();
    /* whatever covers what, something lies on each point that is there, and it is along the path */
    const struct uma_mount *on = uma_mounts_of_path(mounts, m->point);
    size_t n = on ? strlen(on->point) : 0;
    while (n > 0 && on->point[n - 1] == '/')
        n--;
    if (!on || strncmp(on->point, m->point, n) != 0 || (m->point[n] != '\0' && m->point[n] != '/'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(16 * UMA_MIB);
    struct uma_mounts mounts = { 0 };
    struct uma_error err = { 0 };
    if (!arena)
        return 0;
    int r = uma_mounts_parse((const char *)data, size, "mountinfo", arena, &mounts, &err);
    if (r < 0) {
        if (mounts.list || err.code != r || !err.text[0])
            abort();
        return 0;
    }
    if (mounts.n > UMA_MOUNTS_MAX)
        abort();
    for (size_t i = 0; i < mounts.n && i < 256; i++)
        check(&mounts, &mounts.list[i]);
    return 0;
}
