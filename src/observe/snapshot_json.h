/* SPDX-License-Identifier: MIT */
/* snapshot_json.h - the parts of the snapshot document that other readers need by themselves. The whole is in uma.h. */
#pragma once

#include "base/arena.h"
#include "base/json_write.h"
#include "uma.h"

/*
 * Times in documents are seconds with six decimals at most. Below 2^33 s (the year 2242) a double's steps are smaller than a
 * microsecond, so that any JSON reader gives back the same microsecond.
 */
#define UMA_TIME_MAX_SECONDS 8589934592ull

/* The "gpus" object alone, as a document: written to and read from UMA_GPU_RECORD. */
void uma_gpus_write(struct uma_json *json, const char *key, const struct uma_gpus *gpus);
int uma_gpus_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_gpus *ret_gpus,
                   struct uma_error *err);
/* The same of "page_cache": UMA_PAGE_CACHE_RECORD. The files come back in the order that uma_page_cache.h promises. */
void uma_page_cache_write(struct uma_json *json, const char *key, const struct uma_page_cache *cache);
int uma_page_cache_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_page_cache *ret_cache,
                         struct uma_error *err);
