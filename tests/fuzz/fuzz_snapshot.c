/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a snapshot document: refused with a message, or taken; and what was taken is written as a document that is taken again
 * and written the same; redacted, it is a document too. The dictionary is tests/fuzz/snapshot.dict.
 */
#include "base/error.h"
#include "observe/snapshot_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *__asan_default_options(void);

/* The sanitizer keeps 256 MiB of freed memory by default, half of what ./dev fuzz allows a parser; a JSON tree of 1 MB needs 150 MiB
 * itself. */
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
    return "quarantine_size_mb=32";
}

static void gpus(const uint8_t *data, size_t size) {
    struct uma_arena *arena = uma_arena_new(16 * 1024 * 1024);
    struct uma_gpus list;
    struct uma_error err = { 0 };
    if (!arena)
        return;
    int r = uma_gpus_parse((const char *)data, size, "fuzz", arena, &list, &err);
    if (r > 0 || (r < 0 && err.code != r))
        abort();
    (void)uma_arena_free(arena);
}

static void page_cache(const uint8_t *data, size_t size) {
    struct uma_arena *arena = uma_arena_new(64 * 1024 * 1024);
    struct uma_page_cache cache;
    struct uma_error err = { 0 };
    if (!arena)
        return;
    int r = uma_page_cache_parse((const char *)data, size, "fuzz", arena, &cache, &err);
    if (r > 0 || (r < 0 && err.code != r))
        abort();
    for (size_t i = 1; r == 0 && i < cache.n_files; i++) /* the promised order */
        if (uma_usable(cache.files[i].resident.validity) &&
            (!uma_usable(cache.files[i - 1].resident.validity) || cache.files[i - 1].resident.value < cache.files[i].resident.value))
            abort();
    (void)uma_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_snapshot s, again;
    struct uma_error err = { 0 };
    _cleanup_free_
    char *first = NULL, *second = NULL;
    size_t n = 0, m = 0;
    gpus(data, size);
    page_cache(data, size);
    int r = uma_snapshot_parse((const char *)data, size, "fuzz", &s, &err);
    if (r < 0) {
        if (err.code != r || !err.text[0])
            abort();
        return 0;
    }
    if (uma_snapshot_format(&s, &first, &n, &err) < 0)
        abort();
    /* 1 MB of {"pid":N} is written as 40 MB: true to the limits, but the rest would be about time and not about errors */
    if (n > 4 * 1024 * 1024) {
        uma_snapshot_done(&s);
        return 0;
    }
    if (uma_snapshot_parse(first, n, "again", &again, &err) < 0 || uma_snapshot_format(&again, &second, &m, &err) < 0 || n != m ||
        memcmp(first, second, n) != 0)
        abort();
    uma_snapshot_done(&again);
    free(first);
    first = NULL;
    if (uma_snapshot_redact(&s, &err) < 0 || uma_snapshot_format(&s, &first, &n, &err) < 0 ||
        uma_snapshot_parse(first, n, "redacted", &again, &err) < 0)
        abort();
    uma_snapshot_done(&again);
    uma_snapshot_done(&s);
    return 0;
}
