/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/cgroup.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mounts(const char *text, size_t size, bool short_form) {
    struct uma_cgroup_mounts m = { 0 };
    if (uma_cgroup_mounts_parse(text, size, short_form, &m) == 0) {
        const struct uma_cgroup_mount *both[] = { &m.memory_v1, &m.unified };
        for (size_t i = 0; i < ELEMENTS(both); i++) {
            if (both[i]->base && (both[i]->base[0] == '/' ? strncmp(both[i]->base, "/../", 4) == 0 : strcmp(both[i]->base, "..") == 0))
                abort();
            /* a mount of that very path (a namespace's view) gives its own base, ""; nothing may climb from it */
            const char *below = uma_cgroup_path_below(both[i], "/a/../../b");
            if (below && strstr(below, ".."))
                abort();
        }
    }
    uma_cgroup_mounts_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_cgroup cg = { 0 };
    if (!arena)
        return 0;
    struct uma_u64 v = uma_cgroup_number_parse(text, size);
    if (v.validity == UMA_UNKNOWN || (v.value && v.validity != UMA_KNOWN))
        abort();
    (void)uma_cgroup_keyed_parse(text, size, "oom_kill");
    (void)uma_cgroup_dmem_parse(text, size, false, arena, &cg);
    (void)uma_cgroup_dmem_parse(text, size, true, arena, &cg);
    if (cg.n_dmem > UMA_DMEM_MAX)
        abort();
    mounts(text, size, false);
    mounts(text, size, true);
    return 0;
}
