/* SPDX-License-Identifier: MIT */
/* What is read out of a cgroup path, and the runtimes' files. */
#include "base/units.h"
#include "observe/container.h"
#include "observe/process.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void files(const char *text, size_t size, struct uma_arena *arena) {
    const char *name = NULL, *image = NULL, *home = NULL;
    size_t n = 0;
    (void)uma_docker_config_parse(text, size, arena, &name, &image);
    (void)uma_oci_config_parse(text, size, arena, &name, &image);
    (void)uma_podman_list_parse(text, size, "0123456789abcdef", arena, &name, &image);
    if (uma_passwd_home(text, size, 1000, &home, &n) == 0 && (home < text || home + n > text + size || home[0] != '/'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(8 * UMA_MIB);
    char *path = arena ? uma_arena_strndup(arena, (const char *)data, size) : NULL;
    struct uma_container c = { 0 };
    if (!path)
        return 0;
    if (uma_container_identify(path, arena, &c) == 0) {
        bool named = strcmp(c.runtime, "lxc") == 0 || strcmp(c.runtime, "systemd-nspawn") == 0;
        if (!c.id || (!named && !uma_container_id_valid(c.id, strlen(c.id))))
            abort(); /* such an id becomes part of a path */
    }
    (void)uma_cgroup_unit(path, arena);
    files((const char *)data, size, arena);
    return 0;
}
