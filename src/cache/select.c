/* SPDX-License-Identifier: MIT */
#include "cache/select.h"

#include "base/text.h"

#include <string.h>
#include <strings.h>

/* How sure a name is meant, surest first. */
enum match { MATCH_EXACT, MATCH_CASE, MATCH_PART, MATCH_UNTAGGED, MATCH_NONE };

static const char *behind_slash(const char *s) {
    const char *slash = strrchr(s, '/');
    return slash ? slash + 1 : s;
}

/* strcasecmp(3) follows the locale, which main() never sets for its classes but a library may: ASCII alone is compared without case. */
static bool same_n(const char *a, size_t n_a, const char *b, size_t n_b) {
    if (n_a != n_b)
        return false;
    for (size_t i = 0; i < n_a; i++) {
        char x = a[i], y = b[i];
        x = x >= 'A' && x <= 'Z' ? (char)(x - 'A' + 'a') : x;
        y = y >= 'A' && y <= 'Z' ? (char)(y - 'A' + 'a') : y;
        if (x != y)
            return false;
    }
    return true;
}

static bool same(const char *a, const char *b) {
    return same_n(a, strlen(a), b, strlen(b));
}

/* The name without a tag: "llama3.1" of "llama3.1:8b". */
static size_t untagged(const char *name) {
    const char *colon = strrchr(name, ':');
    return colon ? (size_t)(colon - name) : strlen(name);
}

static enum match match_of(const char *said, const char *model) {
    if (strcmp(said, model) == 0)
        return MATCH_EXACT;
    if (same(said, model))
        return MATCH_CASE;
    const char *part = behind_slash(model);
    size_t n = strlen(said);
    bool latest = uma_ends_with(model, ":latest");
    if (same(said, part) || (latest && (same_n(said, n, model, untagged(model)) || same_n(said, n, part, untagged(part)))))
        return MATCH_PART;
    if (same_n(said, n, model, untagged(model)) || same_n(said, n, part, untagged(part)))
        return MATCH_UNTAGGED;
    return MATCH_NONE;
}

static bool is_listed(const struct uma_cached_file *file) {
    return file->kind == UMA_CACHED_FILE && file->model;
}

static bool contains_word(const char *text, const char *word) {
    size_t n = strlen(word);
    for (const char *s = text; strlen(s) >= n; s++)
        if (same_n(s, n, word, n))
            return true;
    return false;
}

/* ---- what there is ------------------------------------------------------------------------------------------ */

/* `"a", "b" and 3 more`: names that `wanted` accepts, each once, as many as an error's text has room for. */
struct names {
    struct uma_text text;
    const char *listed[16];
    size_t n, more;
};

static void names_add(struct names *names, const char *name) {
    enum { ROOM = 300 }; /* of an error's text, beside the rest of the sentence */
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->listed[i], name) == 0)
            return;
    if (names->n == ELEMENTS(names->listed) || names->text.length + strlen(name) + 4 > ROOM) {
        names->more++;
        return;
    }
    uma_text_printf(&names->text, "%s\"%s\"", names->n ? ", " : "", name);
    names->listed[names->n++] = name;
}

static void names_end(struct names *names) {
    if (names->more > 0) /* files, not models: each of a model's files that had no room counts */
        uma_text_append(&names->text, " and more");
}

static int unknown_model(const struct uma_page_cache *cache, const char *said, struct uma_error *err) {
    struct names names = { 0 };
    for (int pass = 0; pass < 2 && names.n == 0; pass++)
        for (size_t i = 0; i < cache->n_files; i++)
            if (is_listed(&cache->files[i]) && (pass == 1 || contains_word(cache->files[i].model, behind_slash(said))))
                names_add(&names, cache->files[i].model);
    names_end(&names);
    int r;
    if (names.n == 0)
        r = uma_error_text(err, ENOENT, "no model \"%.100s\": the listing has no models at all", said);
    else
        r = uma_error_text(err, ENOENT, "no model \"%.100s\" in the listing, which has %s", said, names.text.data ? names.text.data : "?");
    uma_text_done(&names.text);
    return r;
}

static int several_models(const struct uma_page_cache *cache, const char *said, enum match match, struct uma_error *err) {
    struct names names = { 0 };
    for (size_t i = 0; i < cache->n_files; i++)
        if (is_listed(&cache->files[i]) && match_of(said, cache->files[i].model) == match)
            names_add(&names, cache->files[i].model);
    names_end(&names);
    int r = uma_error_text(err, ENOTUNIQ, "\"%.100s\" may be %s: say which", said, names.text.data ? names.text.data : "?");
    uma_text_done(&names.text);
    return r;
}

/* ---- choosing ----------------------------------------------------------------------------------------------- */

/* The one name of the listing that is meant. */
static int model_find(const struct uma_page_cache *cache, const char *said, const char **ret_model, struct uma_error *err) {
    enum match best = MATCH_NONE;
    const char *model = NULL;
    bool several = false;
    for (size_t i = 0; i < cache->n_files; i++) {
        if (!is_listed(&cache->files[i]))
            continue;
        enum match m = match_of(said, cache->files[i].model);
        if (m < best) {
            best = m;
            model = cache->files[i].model;
            several = false;
        } else if (m == best && m != MATCH_NONE)
            several |= strcmp(model, cache->files[i].model) != 0;
    }
    if (!model)
        return unknown_model(cache, said, err);
    if (several)
        return several_models(cache, said, best, err);
    *ret_model = model;
    return 0;
}

static bool is_chosen(const struct uma_cached_file *file, const struct uma_cache_selection *selection, const char *const *models) {
    if (file->kind != UMA_CACHED_FILE)
        return false;
    if (selection->larger_than && !(uma_usable(file->size.validity) && file->size.value > selection->larger_than))
        return false;
    if (selection->all_models)
        return file->model;
    for (size_t i = 0; i < selection->n_models; i++)
        if (file->model && strcmp(file->model, models[i]) == 0)
            return true;
    return selection->n_models == 0;
}

int uma_cache_select(const struct uma_page_cache *cache, const struct uma_cache_selection *selection, struct uma_arena *arena,
                     size_t *ret_n, const struct uma_cached_file ***ret_files, struct uma_error *err) {
    const char **models = uma_arena_array(arena, selection->n_models, sizeof(*models));
    const struct uma_cached_file **files = uma_arena_array(arena, cache->n_files, sizeof(void *));
    if (!models || !files)
        return uma_error_set(err, ENOMEM, "choosing files");
    for (size_t i = 0; i < selection->n_models; i++) {
        int r = model_find(cache, selection->models[i], &models[i], err);
        if (r < 0)
            return r;
    }
    size_t n = 0;
    for (size_t i = 0; i < cache->n_files; i++)
        if (is_chosen(&cache->files[i], selection, models))
            files[n++] = &cache->files[i];
    *ret_n = n;
    *ret_files = files;
    return 0;
}
