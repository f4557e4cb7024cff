/* SPDX-License-Identifier: MIT */
/* Recognition of engines from hostile argument lists: NUL-separated arguments, as in /proc/PID/cmdline; the last one is an environment
 * variable. */
#include "account/holder_kinds.h"
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new((size_t)4 << 20);
    const char *argv[UMA_CMDLINE_MAX];
    struct uma_process p = { .pid = 2, .name = "fuzz", .argv = argv };
    size = size < UMA_CMDLINE_MAX ? size : UMA_CMDLINE_MAX;
    if (!arena)
        return 0;
    for (size_t at = 0; at < size;) {
        size_t n = strnlen((const char *)data + at, size - at);
        argv[p.argc++] = uma_arena_utf8(arena, (const char *)data + at, n);
        at += n + 1;
    }
    if (p.argc > 1) {
        p.env = &argv[p.argc - 1];
        p.envc = 1;
    }
    struct uma_program program;
    uma_program_recognise(&p, (struct uma_u64){ (uint64_t)128 << 30, UMA_KNOWN }, arena, &program);
    if (uma_usable(program.cap.fraction.validity) && !(program.cap.fraction.value > 0 && program.cap.fraction.value <= 1))
        abort();
    if (program.cap.present && !program.cap.source)
        abort();
    return 0;
}
