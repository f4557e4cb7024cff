/* SPDX-License-Identifier: MIT */
#include "account/cached_models.h"

#include "account/values.h"
#include "base/cleanup.h"
#include "observe/files/page_cache.h"

#include <errno.h>
#include <string.h>

/* ---- what belongs together ---------------------------------------------------------------------------------- */

static int32_t first_pid(int32_t before, size_t n, const struct uma_pid *list) {
    return before > 0 || n == 0 ? before : list[0].pid;
}

/* A group of files with pages that can be dropped; false for the others. */
static bool model_of(const struct uma_cached_group *group, struct uma_cached_model *ret_model) {
    if (group->kind != UMA_CACHED_FILE || !*group->name || uma_or(group->resident, 0) == 0)
        return false;
    struct uma_cached_model model = { .name = group->name, .is_model = group->is_model, .resident = group->resident.value };
    for (size_t i = 0; i < group->n_files; i++) {
        const struct uma_cached_file *file = group->files[i];
        if (uma_or(file->resident, 0) == 0)
            continue;
        model.n_files++;
        model.used_ns = MAX_OF(model.used_ns, file->used_ns);
        model.path = group->is_model ? NULL : file->path;
        model.mapped_by = first_pid(model.mapped_by, file->n_mapped_by, file->mapped_by);
        model.open_by = first_pid(model.open_by, file->n_open_by, file->open_by);
    }
    *ret_model = model;
    return true;
}

int uma_cached_models_build(const struct uma_page_cache *cache, struct uma_arena *arena, size_t *ret_n,
                            struct uma_cached_model **ret_models) {
    struct uma_cached_group *groups = NULL;
    size_t n_groups = 0, n = 0;
    int r = uma_page_cache_group(cache, arena, &n_groups, &groups);
    if (r < 0)
        return r;
    struct uma_cached_model *models = uma_arena_array(arena, n_groups, sizeof(*models));
    if (!models)
        return -ENOMEM;
    for (size_t i = 0; i < n_groups; i++) /* they are in order: the most resident first */
        n += model_of(&groups[i], &models[n]);
    *ret_n = n;
    *ret_models = models;
    return 0;
}

/* ---- a command ---------------------------------------------------------------------------------------------- */

bool uma_shell_word(struct uma_text *text, const char *s) {
    enum { WORD_MAX = 512 }; /* a path of a hub's file has about 200 bytes; a problem's text holds 1,024 */
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@+,-";
    size_t n = strnlen(s, WORD_MAX + 1);
    if (n == 0 || n > WORD_MAX)
        return false;
    if (strchr(s, '\\')) /* a byte that is not UTF-8 stands as four characters in a snapshot: what it was called is no longer known */
        return false;
    _cleanup_text_ struct uma_text shown = { 0 };
    (void)uma_text_safe(&shown, s, 0);
    if (shown.failed || strcmp(shown.data, s) != 0)
        return false;
    if (s[0] != '-' && strspn(s, plain) == n) {
        uma_text_append(text, s);
        return true;
    }
    uma_text_char(text, '\'');
    for (; *s; s++) {
        if (*s == '\'')
            uma_text_append(text, "'\"'\"'"); /* no backslash, which text for people shows as two */
        else
            uma_text_char(text, *s);
    }
    uma_text_char(text, '\'');
    return true;
}

static void evict_one(struct uma_text *text, const struct uma_cached_model *model) {
    _cleanup_text_ struct uma_text word = { 0 };
    const char *what = model->is_model ? model->name : model->path;
    if (!what || !uma_shell_word(&word, what))
        uma_text_append(text, model->is_model ? "umactl cache evict --all-models" : "see: umactl cache");
    else if (!model->is_model)
        uma_text_printf(text, "umactl cache evict %s", word.data);
    else /* "=": a name that begins with a dash is no option */
        uma_text_printf(text, "umactl cache evict --model%s%s", model->name[0] == '-' ? "=" : " ", word.data);
}

void uma_cached_remedy(struct uma_text *text, const struct uma_page_cache *cache, const struct uma_cached_model *models, size_t n,
                       uint64_t worth, bool (*cures)(const void *userdata, uint64_t evicted), const void *userdata) {
    const struct uma_cached_model *largest = NULL, *model = NULL;
    uint64_t all_models = 0;
    bool used = false;
    for (size_t i = 0; i < n; i++) {
        used = used || (models[i].is_model && uma_cached_in_use(&models[i]));
        if (uma_cached_in_use(&models[i]))
            continue;
        largest = largest ? largest : &models[i];
        if (!models[i].is_model)
            continue;
        model = model ? model : &models[i];
        all_models = uma_add(all_models, models[i].resident);
    }
    bool one = model && model->resident >= worth;
    bool all = model && all_models > model->resident && all_models >= worth && (!one || (!used && !cures(userdata, model->resident)));
    if (largest && !largest->is_model && largest->resident > all_models && largest->resident >= worth)
        evict_one(text, largest);
    else if (all)
        uma_text_append(text, "umactl cache evict --all-models");
    else if (one)
        evict_one(text, model);
    else /* files of other users are told to root alone */
        uma_text_append(text, uma_or(cache->unreadable, 0) > 0 ? "see: sudo umactl cache" : "see: umactl cache");
}
