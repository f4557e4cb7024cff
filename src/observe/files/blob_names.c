/* SPDX-License-Identifier: MIT */
/*
 * Ollama's manifests lie exactly four deep: manifests/HOST/NAMESPACE/NAME/TAG (docs of ollama/ollama, server/modelpath.go). No link is followed below the store, only
 * regular files are opened, and each is at most UMA_OLLAMA_MANIFEST_MAX.
 */
#include "observe/files/stores.h"

#include "base/text.h"
#include "observe/files/ollama_manifest.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { LEVELS = 4 }; /* HOST NAMESPACE NAME TAG */
/* Of one store: four levels of folders that hold nothing must end as well. */
enum { ENTRIES_MAX = 65536 };
/* Names and what points to them: a name is at most 4 x 255 bytes. */
enum { NAMES_BYTES_MAX = 8 << 20 };

struct entry {
    char digest[65];
    const char *name;
};

struct uma_blob_names {
    struct uma_arena *arena;
    struct entry *entries; /* by digest once `add` is over; each once */
    size_t n, capacity;
    unsigned manifests;
};

struct uma_blob_names *uma_blob_names_new(void) {
    struct uma_blob_names *names = calloc(1, sizeof(*names));
    if (!names)
        return NULL;
    names->arena = uma_arena_new(NAMES_BYTES_MAX);
    return names->arena ? names : uma_blob_names_free(names);
}

struct uma_blob_names *uma_blob_names_free(struct uma_blob_names *names) {
    if (!names)
        return NULL;
    (void)uma_arena_free(names->arena);
    free(names->entries);
    free(names);
    return NULL;
}

/*
 * A blob may have several names: "llama3.1:8b" and "llama3.1:latest" are one, and what is made FROM it shares it. The one that says most: no "latest", then the
 * shortest, then the first by letter, whatever order the folders are in.
 */
static int by_digest_then_name(const void *a, const void *b) {
    const struct entry *x = a, *y = b;
    int order = strcmp(x->digest, y->digest);
    if (order)
        return order;
    bool x_latest = uma_ends_with(x->name, ":latest"), y_latest = uma_ends_with(y->name, ":latest");
    if (x_latest != y_latest)
        return x_latest - y_latest;
    size_t n = strlen(x->name), m = strlen(y->name);
    return n != m ? (n > m) - (n < m) : strcmp(x->name, y->name);
}

static int by_digest(const void *key, const void *entry) {
    return strcmp(key, ((const struct entry *)entry)->digest);
}

const char *uma_blob_names_of(const struct uma_blob_names *names, const char *digest_hex) {
    const struct entry *found = names->n ? bsearch(digest_hex, names->entries, names->n, sizeof(*names->entries), by_digest) : NULL;
    return found ? found->name : NULL;
}

static int add_entry(struct uma_blob_names *names, const char *digest, const char *name) {
    if (names->n == names->capacity) {
        size_t capacity = MAX_OF(names->capacity * 2, (size_t)64);
        struct entry *grown = reallocarray(names->entries, capacity, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        names->entries = grown;
        names->capacity = capacity;
    }
    struct entry *entry = &names->entries[names->n++];
    (void)memcpy(entry->digest, digest, sizeof(entry->digest));
    entry->name = name;
    return 0;
}

/* As Ollama prints it (DisplayShortest of types/model/name.go): its own registry and namespace are left out. */
static const char *name_of(const char *const parts[LEVELS], struct uma_arena *arena) {
    _cleanup_text_ struct uma_text name = { 0 };
    if (strcasecmp(parts[0], "registry.ollama.ai") != 0)
        uma_text_printf(&name, "%s/%s/", parts[0], parts[1]);
    else if (strcasecmp(parts[1], "library") != 0)
        uma_text_printf(&name, "%s/", parts[1]);
    uma_text_printf(&name, "%s:%s", parts[2], parts[3]);
    return name.failed ? NULL : uma_arena_utf8(arena, name.data, name.length);
}

static int read_manifest(int folder, const char *name, struct uma_text *into) {
    _cleanup_close_ int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size > UMA_OLLAMA_MANIFEST_MAX)
        return -EINVAL;
    uma_text_reset(into);
    if (!uma_text_reserve(into, UMA_OLLAMA_MANIFEST_MAX))
        return -ENOMEM;
    while (into->length < UMA_OLLAMA_MANIFEST_MAX) {
        ssize_t n = read(fd, into->data + into->length, UMA_OLLAMA_MANIFEST_MAX - into->length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        into->length += (size_t)n;
    }
    return 0;
}

struct reading {
    struct uma_blob_names *names;
    DIR *levels[LEVELS];
    const char *parts[LEVELS];
    char part[LEVELS][256]; /* NAME_MAX and the NUL */
    size_t depth;
    struct uma_text text;
    int passed_over;
};

static void reading_done(struct reading *r) {
    while (r->depth > 0)
        (void)closedir(r->levels[--r->depth]);
    uma_text_done(&r->text);
}
#define _cleanup_reading_ _cleanup_(reading_done)

static int add_manifest(struct reading *r) {
    struct uma_ollama_layer layers[UMA_OLLAMA_LAYERS_MAX];
    size_t n = 0;
    int e = read_manifest(dirfd(r->levels[LEVELS - 1]), r->parts[LEVELS - 1], &r->text);
    if (e == 0)
        e = uma_ollama_manifest_parse(r->parts[LEVELS - 1], r->text.data ? r->text.data : "", r->text.length, layers, &n, NULL);
    if (e == -ENOMEM)
        return e;
    if (e < 0) {
        r->passed_over++;
        return 0;
    }
    const char *name = name_of(r->parts, r->names->arena);
    for (size_t i = 0; name && i < n && e == 0; i++)
        e = add_entry(r->names, layers[i].digest, name);
    return name ? e : -ENOMEM;
}

/* Put the folder on top; what cannot be opened is passed over. */
static void enter(struct reading *r, int at, const char *name) {
    _cleanup_close_ int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream) {
        r->passed_over += errno != ENOENT && errno != ENOTDIR; /* nothing was ever pulled; a file that strayed in (.DS_Store) */
        return;
    }
    (void)TAKE_FD(fd);
    r->levels[r->depth++] = stream;
}

static int read_all(struct reading *r) {
    for (unsigned entries = 0; r->depth > 0 && entries < ENTRIES_MAX && r->names->manifests < UMA_BLOB_MANIFESTS_MAX;) {
        size_t level = r->depth - 1;
        const struct dirent *e = readdir(r->levels[level]);
        if (!e) {
            (void)closedir(r->levels[--r->depth]);
            continue;
        }
        if (e->d_name[0] == '.') /* no part of a name begins with a dot */
            continue;
        entries++;
        (void)snprintf(r->part[level], sizeof(r->part[level]), "%s", e->d_name);
        r->parts[level] = r->part[level];
        if (level + 1 < LEVELS) {
            enter(r, dirfd(r->levels[level]), e->d_name);
            continue;
        }
        r->names->manifests++;
        int result = add_manifest(r);
        if (result < 0)
            return result;
    }
    return 0;
}

int uma_blob_names_add(struct uma_blob_names *names, const char *store, struct uma_error *err) {
    _cleanup_reading_ struct reading r = { .names = names };
    _cleanup_close_ int fd = open(store, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return uma_error_set(err, errno, "%s", store);
    enter(&r, fd, "manifests");
    int result = read_all(&r);
    if (names->n > 0)
        qsort(names->entries, names->n, sizeof(*names->entries), by_digest_then_name);
    size_t kept = 0;
    for (size_t i = 0; i < names->n; i++)
        if (i == 0 || strcmp(names->entries[i].digest, names->entries[kept - 1].digest) != 0)
            names->entries[kept++] = names->entries[i];
    names->n = kept;
    return result < 0 ? uma_error_set(err, -result, "%s/manifests", store) : r.passed_over;
}
