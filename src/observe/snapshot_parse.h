/* SPDX-License-Identifier: MIT */
/* snapshot_parse.h - from a JSON tree to a struct by its table. snapshot_document.c has loaded and bounded the tree. */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "observe/snapshot_fields.h"

#include <jansson.h>

/* `object` is a zeroed struct of that table; strings and lists go into the arena. -EINVAL names the file and the place in it. */
int uma_fields_parse(const struct uma_fields *fields, const json_t *json, const char *file, struct uma_arena *arena, void *object,
                     struct uma_error *err);
