/* SPDX-License-Identifier: MIT */
/*
 * select.h - which files of a listing are meant: a model by its name, all models, files above a size. Pure. Files that are memory (tmpfs) and the caches of block
 * devices are never among them: neither can be evicted as a file.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "uma.h"

struct uma_cache_selection {
    const char *const *models; /* as people say them */
    size_t n_models;
    bool all_models;
    uint64_t larger_than; /* apparent size, a filter on the above, or alone; 0: none */
};

/*
 * In the order of the listing, each file once, in the arena. A name is looked for as it is, then without regard to case, then as the part behind the
 * last "/" and as an Ollama name without ":latest", then as one without any tag. -ENOENT: no such model; -ENOTUNIQ: several are meant; err lists
 * what there is.
 */
int uma_cache_select(const struct uma_page_cache *cache, const struct uma_cache_selection *selection, struct uma_arena *arena,
                     size_t *ret_n, const struct uma_cached_file ***ret_files, struct uma_error *err);
