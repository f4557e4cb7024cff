/* SPDX-License-Identifier: MIT */
/*
 * A path is read from its end: the file's name, the folder it lies in, the folders above that. Work is bounded by COMPONENTS_MAX and NAME_MAX_BYTES whatever the
 * path: what stands further left than that cannot be a part of the name.
 *
 * Layouts, first that fits: the hub (huggingface_hub, "Understand caching"), ModelScope (its cache keeps a '.' in a name as "___"), Ollama's blobs, LM Studio's
 * models/PUBLISHER/REPO/FILE.gguf. What is left are folders that people make, where a folder's name says which model it is, unless it says only
 * which part ("transformer"), which step ("checkpoint-500") or nothing ("models").
 */
#include "observe/files/stores.h"

#include "base/text.h"
#include "observe/files/model_words.h"

#include <string.h>

/* Depth of the deepest layout (a hub's snapshot of a pipeline in a home: 12) and as much again. */
enum { COMPONENTS_MAX = 32 };
/* Of a name that is made here: a folder's name is at most 255 bytes, and four of them are joined at most. */
enum { NAME_BYTES_MAX = 1100 };
/* Folders that say only which part, which are taken into the name; more say nothing new. */
enum { PARTS_MAX = 3 };

struct components {
    struct uma_word list[COMPONENTS_MAX]; /* the last is the file's name */
    size_t n;
    bool cut; /* there are more in front */
};

/* False: no path of a file. */
static bool split(const char *path, struct components *c) {
    struct uma_word from_end[COMPONENTS_MAX];
    const char *end = path + strlen(path);
    c->n = 0;
    c->cut = false;
    if (end == path || end[-1] == '/')
        return false;
    while (end > path && c->n < COMPONENTS_MAX) {
        const char *slash = memrchr(path, '/', (size_t)(end - path));
        const char *begin = slash ? slash + 1 : path;
        size_t length = (size_t)(end - begin);
        if (length > 0 && !(length == 1 && *begin == '.'))
            from_end[c->n++] = (struct uma_word){ begin, length };
        end = slash ? slash : path;
    }
    c->cut = end > path;
    for (size_t i = 0; i < c->n; i++)
        c->list[i] = from_end[c->n - 1 - i];
    return c->n > 0;
}

/* ---- layouts ------------------------------------------------------------------------------------------------------ */

/* "models--ORG--NAME" -> "ORG/NAME". A repository's name has no "--" of its own (validate_repo_id of huggingface_hub). */
static const char *hub_name(struct uma_word rest, struct uma_arena *arena) {
    char name[NAME_BYTES_MAX];
    size_t n = 0;
    for (size_t i = 0; i < rest.length && n < sizeof(name); i++) {
        bool separator = rest.text[i] == '-' && i + 1 < rest.length && rest.text[i + 1] == '-';
        name[n++] = separator ? '/' : rest.text[i];
        i += separator;
    }
    return n ? uma_arena_utf8(arena, name, n) : NULL;
}

enum layout { LAYOUT_NONE, LAYOUT_MODEL, LAYOUT_NO_MODEL };

/* The deepest folder of a hub's cache on the way. */
static enum layout hub(const struct components *c, struct uma_arena *arena, const char **ret_name) {
    for (size_t i = c->n - 1; i-- > 0;) { /* the last is the file */
        struct uma_word word = c->list[i];
        if (uma_word_begins(word, "datasets--") || uma_word_begins(word, "spaces--"))
            return LAYOUT_NO_MODEL;
        if (!uma_word_begins(word, "models--") || word.length == 8)
            continue;
        if (i > 0 && uma_word_is(c->list[i - 1], ".locks"))
            return LAYOUT_NO_MODEL;
        *ret_name = hub_name((struct uma_word){ word.text + 8, word.length - 8 }, arena);
        return LAYOUT_MODEL;
    }
    return LAYOUT_NONE;
}

/* modelscope/hub/[models/]ORG/NAME/FILE; models that are being fetched lie in "._____temp/ORG/NAME". */
static enum layout modelscope(const struct components *c, struct uma_arena *arena, const char **ret_name) {
    for (size_t i = c->n; i-- > 1;) {
        if (!uma_word_is(c->list[i], "hub") || !uma_word_is(c->list[i - 1], "modelscope"))
            continue;
        size_t at = i + 1;
        while (at < c->n && (uma_word_is(c->list[at], "models") || uma_word_is(c->list[at], "._____temp")))
            at++;
        if (at + 2 >= c->n)
            return LAYOUT_NONE;
        if (uma_word_is(c->list[at], "datasets"))
            return LAYOUT_NO_MODEL;
        char name[NAME_BYTES_MAX];
        size_t n = 0;
        for (size_t part = at; part < at + 2; part++) {
            const struct uma_word word = c->list[part];
            for (size_t k = 0; k < word.length && n < sizeof(name) - 1; k++) {
                bool dot = word.length - k >= 3 && memcmp(word.text + k, "___", 3) == 0;
                name[n++] = dot ? '.' : word.text[k];
                k += dot ? 2 : 0;
            }
            if (part == at)
                name[n++] = '/';
        }
        *ret_name = uma_arena_utf8(arena, name, n);
        return LAYOUT_MODEL;
    }
    return LAYOUT_NONE;
}

static const char *joined(const struct uma_word *words, size_t n, struct uma_arena *arena) {
    char name[NAME_BYTES_MAX];
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && length < sizeof(name))
            name[length++] = '/';
        size_t take = MIN_OF(words[i].length, sizeof(name) - length);
        (void)memcpy(name + length, words[i].text, take);
        length += take;
    }
    return length ? uma_arena_utf8(arena, name, length) : NULL;
}

/* ---- folders that people make ------------------------------------------------------------------------------------- */

/* Is the folder at `i` one that says nothing about what lies in it: a top folder ("/tmp"), a home, "Downloads"? */
static bool says_nothing(const struct components *c, size_t i, bool absolute) {
    if (absolute && !c->cut && (i == 0 || (i == 1 && uma_word_is(c->list[0], "home"))))
        return true;
    return uma_word_is_place(c->list[i]);
}

/* A folder of single files, each a model: ComfyUI's and A1111's models/KIND[/...], torch.hub's hub/checkpoints, a folder named just "models". */
static bool in_collection(const struct components *c) {
    size_t folder = c->n - 2;
    if (uma_word_is_collection(c->list[folder]))
        return true;
    for (size_t i = folder; i-- > 0;)
        if (uma_word_is(c->list[i], "models") && uma_word_is_model_kind(c->list[i + 1]))
            return true;
    return false;
}

/* The folder's name, with those above as long as it says only which part; without a folder that has a name, the file's. */
static const char *folder_name(const struct components *c, bool absolute, struct uma_arena *arena) {
    struct uma_word words[PARTS_MAX + 1];
    size_t n = 0, i = c->n - 1;
    while (i-- > 0 && n <= PARTS_MAX) {
        struct uma_word word = c->list[i];
        if (uma_word_is_revision(word)) /* "snapshots/HASH": which copy of it, not which model */
            continue;
        words[PARTS_MAX - n++] = word;
        if (!uma_word_is_part(word) || (absolute && !c->cut && i == 0))
            break;
    }
    if (n == 0)
        return joined(&c->list[c->n - 1], 1, arena);
    return joined(words + (PARTS_MAX + 1 - n), n, arena);
}

static const char *weights_name(const struct components *c, bool absolute, struct uma_arena *arena) {
    struct uma_word file = c->list[c->n - 1], stem = uma_weight_stem(file);
    bool numbered = uma_word_unnumber(&stem), generic = stem.length == 0 || uma_word_is_generic_file(stem);
    if (c->n == 1) /* no folder at all */
        return joined(stem.length ? &stem : &file, 1, arena);
    bool gguf = uma_word_ends(file, ".gguf");
    if (gguf && c->n >= 4 && uma_word_is(c->list[c->n - 4], "models")) /* LM Studio */
        return joined(&c->list[c->n - 3], 2, arena);
    if (generic)
        return folder_name(c, absolute, arena);
    /* A GGUF is a model by itself, and so is a .nemo: several lie in one folder. */
    if (gguf || uma_word_ends(file, ".nemo") || uma_word_ends(file, ".llamafile"))
        return joined(&stem, 1, arena);
    if (in_collection(c) || (!numbered && says_nothing(c, c->n - 2, absolute)))
        return joined(&stem, 1, arena);
    return folder_name(c, absolute, arena);
}

const char *uma_model_of_path(const char *path, const struct uma_blob_names *names, struct uma_arena *arena) {
    struct components c;
    const char *name = NULL;
    if (!split(path, &c))
        return NULL;
    enum layout layout = hub(&c, arena, &name);
    if (layout == LAYOUT_NONE)
        layout = modelscope(&c, arena, &name);
    if (layout != LAYOUT_NONE)
        return name;
    char digest[65];
    if (c.n >= 2 && uma_word_is(c.list[c.n - 2], "blobs") && uma_word_digest(c.list[c.n - 1], digest)) {
        name = names ? uma_blob_names_of(names, digest) : NULL;
        return name ? uma_arena_utf8(arena, name, strlen(name)) : NULL;
    }
    return uma_is_weight_file(path) ? weights_name(&c, path[0] == '/', arena) : NULL;
}

bool uma_is_weight_file(const char *path) {
    struct components c;
    if (!split(path, &c))
        return false;
    struct uma_word file = c.list[c.n - 1];
    char digest[65];
    if (c.n >= 2 && uma_word_is(c.list[c.n - 2], "blobs")) {
        if (uma_word_digest(file, digest))
            return true;
        /* The hub names what git-lfs holds by SHA-256, the small rest by git's SHA-1. */
        if (c.n >= 3 && uma_word_begins(c.list[c.n - 3], "models--") && uma_word_is_sha256(file))
            return true;
    }
    if (uma_word_ends(file, ".pth")) /* Python's own .pth are lists of folders */
        for (size_t i = 0; i + 1 < c.n; i++)
            if (uma_word_is(c.list[i], "site-packages") || uma_word_is(c.list[i], "dist-packages"))
                return false;
    return uma_word_is_weights(file);
}
