/* SPDX-License-Identifier: MIT */
#include "account/cached_models.h"

#include "account/values.h"
#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

/* ---- what belongs together ---------------------------------------------------------------------------------- */

static const char *name_of(const struct uma_cached_file *file) {
    return file->model ? file->model : file->path;
}

/* Models before plain files, then by name: those that belong together stand together. */
static int by_name(const void *a, const void *b) {
    const struct uma_cached_file *p = *(const struct uma_cached_file *const *)a, *q = *(const struct uma_cached_file *const *)b;
    if (!p->model != !q->model)
        return p->model ? -1 : 1;
    int c = strcmp(name_of(p), name_of(q));
    return c ? c : (p > q) - (p < q);
}

static int by_size(const void *a, const void *b) {
    const struct uma_cached_model *p = a, *q = b;
    int c = (p->resident < q->resident) - (p->resident > q->resident);
    if (c == 0)
        c = q->is_model - p->is_model;
    return c ? c : strcmp(p->name, q->name);
}

static int32_t first_pid(int32_t before, size_t n, const struct uma_pid *list) {
    return before > 0 || n == 0 ? before : list[0].pid;
}

static void add(struct uma_cached_model *model, const struct uma_cached_file *file) {
    model->name = !file->model && file->shown ? file->shown : name_of(file);
    model->path = file->model ? NULL : file->path;
    model->is_model = file->model != NULL;
    model->n_files++;
    model->resident = uma_add(model->resident, file->resident.value);
    model->used_ns = file->used_ns > model->used_ns ? file->used_ns : model->used_ns;
    model->mapped_by = first_pid(model->mapped_by, file->n_mapped_by, file->mapped_by);
    model->open_by = first_pid(model->open_by, file->n_open_by, file->open_by);
}

int uma_cached_models_build(const struct uma_page_cache *cache, struct uma_arena *arena, size_t *ret_n,
                            struct uma_cached_model **ret_models) {
    const struct uma_cached_file **files = uma_arena_array(arena, cache->n_files, sizeof(void *));
    struct uma_cached_model *models = uma_arena_array(arena, cache->n_files, sizeof(*models));
    if (!files || !models)
        return -ENOMEM;
    size_t n = 0, n_models = 0;
    for (size_t i = 0; i < cache->n_files; i++) {
        const struct uma_cached_file *f = &cache->files[i];
        if (f->kind == UMA_CACHED_FILE && name_of(f) && uma_or(f->resident, 0) > 0)
            files[n++] = f;
    }
    if (n > 1)
        qsort(files, n, sizeof(void *), by_name);
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && files[i]->model && files[i - 1]->model && strcmp(files[i]->model, files[i - 1]->model) == 0;
        n_models += !same;
        add(&models[n_models - 1], files[i]);
    }
    if (n_models > 1)
        qsort(models, n_models, sizeof(*models), by_size);
    *ret_n = n_models;
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
            uma_text_append(text, "'\\''");
        else
            uma_text_char(text, *s);
    }
    uma_text_char(text, '\'');
    return true;
}

static void evict_one(struct uma_text *text, const struct uma_cached_model *model) {
    _cleanup_text_ struct uma_text word = { 0 };
    if (!uma_shell_word(&word, model->is_model ? model->name : model->path))
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
