/* SPDX-License-Identifier: MIT */
/*
 * source.h - filling in `struct uma_source`: when a source was read and how it went. Readers do not fail for one bad source;
 * they say so here and go on.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/root.h"
#include "base/values.h"
#include "uma.h"

/* The source was read now and is good. `path` must outlive the snapshot (a literal, or from its arena). */
void uma_source_ok(struct uma_source *source, const char *path);
/* It was not: r is a negative errno, err->text the reason. ENOENT -> UMA_ABSENT, EACCES/EPERM -> UMA_DENIED, EINVAL -> UMA_MALFORMED,
 * EOPNOTSUPP -> UMA_UNSUPPORTED, else UMA_FAILED. The text is copied into the arena. */
void uma_source_failed(struct uma_source *source, struct uma_arena *arena, const char *path, int r, const struct uma_error *err);
enum uma_validity uma_validity_of_errno(int r);
