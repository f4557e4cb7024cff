/* SPDX-License-Identifier: MIT */
/* snapshot_json.h - the parts of the snapshot document that other readers need by themselves. The whole is in uma.h. */
#pragma once

#include "base/arena.h"
#include "base/json_write.h"
#include "uma.h"

/* The "gpus" object alone, as a document: written to and read from UMA_GPU_RECORD. */
void uma_gpus_write(struct uma_json *json, const char *key, const struct uma_gpus *gpus);
int uma_gpus_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_gpus *ret_gpus,
                   struct uma_error *err);
