/* SPDX-License-Identifier: MIT */
#include "observe/source.h"

#include "base/units.h"

#include <string.h>

void uma_source_ok(struct uma_source *source, const char *path) {
    *source = (struct uma_source){ .validity = UMA_KNOWN, .time_ns = uma_now_ns(), .path = path };
}

enum uma_validity uma_validity_of_errno(int r) {
    switch (-r) {
    case ENOENT:
    case ENOTDIR:
    case ENODEV:
        return UMA_ABSENT;
    case EACCES:
    case EPERM:
        return UMA_DENIED;
    case EINVAL:
    case ERANGE:
    case EISDIR:
        return UMA_MALFORMED;
    case EOPNOTSUPP:
        return UMA_UNSUPPORTED;
    default:
        return UMA_FAILED;
    }
}

void uma_source_failed(struct uma_source *source, struct uma_arena *arena, const char *path, int r, const struct uma_error *err) {
    *source = (struct uma_source){ .validity = uma_validity_of_errno(r), .time_ns = uma_now_ns(), .path = path };
    if (err && err->text[0])
        source->detail = uma_arena_utf8(arena, err->text, strlen(err->text));
}
