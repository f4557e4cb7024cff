/* SPDX-License-Identifier: MIT */
/*
 * cached_models.h - what of a snapshot's page cache belongs together, who uses it, and what to evict first. Pure; it never looks at a file. A model's shards are
 * one; a file of no model is one by itself. Memory files (tmpfs) and devices are left out: nobody evicts those.
 */
#pragma once

#include "base/arena.h"
#include "base/text.h"
#include "uma.h"

struct uma_cached_model {
    const char *name; /* the model's, or what the file is called; as the machine has it */
    const char *path; /* of a file of no model: where it can be opened; may be NULL */
    bool is_model;
    size_t n_files; /* with pages in the cache */
    uint64_t resident;
    int64_t used_ns;   /* of the file that was used last, 0 unknown */
    int32_t mapped_by; /* the first process that maps one of these files, 0 none */
    int32_t open_by;   /* likewise has one open */
};

/* Largest first. In the arena. 0 or -ENOMEM. */
int uma_cached_models_build(const struct uma_page_cache *cache, struct uma_arena *arena, size_t *ret_n,
                            struct uma_cached_model **ret_models);
static inline bool uma_cached_in_use(const struct uma_cached_model *model) {
    return model->mapped_by > 0 || model->open_by > 0;
}

/*
 * Append the one command that takes out what helps most, or "see: " and one that looks closer. `worth`: less than these bytes help nobody. What a process maps
 * or has open is not what goes first. Names are quoted for a shell; one that cannot be shown as it is never becomes part of a command.
 */
void uma_cached_remedy(struct uma_text *text, const struct uma_page_cache *cache, const struct uma_cached_model *models, size_t n,
                       uint64_t worth, bool (*cures)(const void *userdata, uint64_t evicted), const void *userdata);
/* s as one word of a POSIX shell. False, and nothing appended, when it cannot be printed as it is (control characters, bidirectional overrides, bytes that are not UTF-8) or is
 * longer than a line that people copy. */
bool uma_shell_word(struct uma_text *text, const char *s);
