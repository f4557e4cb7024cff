/* SPDX-License-Identifier: MIT */
#include "plan/model/folder.h"

#include "base/units.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

void uma_folder_names_done(struct uma_folder_names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct uma_folder_names){ 0 };
}

void uma_folder_list_done(struct uma_folder_list *list) {
    uma_folder_names_done(&list->safetensors);
    uma_folder_names_done(&list->pickles);
    uma_folder_names_done(&list->ggufs);
    uma_folder_names_done(&list->indexes);
}

int uma_folder_names_add(struct uma_folder_names *names, const char *name, size_t length) {
    if (names->count == UMA_FOLDER_NAMES_MAX)
        return -E2BIG;
    if (names->count == names->capacity) {
        size_t capacity = MAX_OF((size_t)64, names->capacity * 2);
        char **more = realloc(names->names, capacity * sizeof(*more));
        if (!more)
            return -ENOMEM;
        names->names = more;
        names->capacity = capacity;
    }
    char *copy = strndup(name, length);
    if (!copy)
        return -ENOMEM;
    names->names[names->count++] = copy;
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void uma_folder_names_sort(struct uma_folder_names *names) {
    if (names->count > 1)
        qsort(names->names, names->count, sizeof(*names->names), by_name);
}

bool uma_folder_names_have(const struct uma_folder_names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->names[i], name) == 0)
            return true;
    return false;
}

/* ---- listing ------------------------------------------------------------------------------------------------ */

static bool begins_with(const char *s, const char *begin) {
    return strncmp(s, begin, strlen(begin)) == 0;
}

static struct uma_folder_names *names_for(struct uma_folder_list *list, const char *name) {
    if (uma_ends_with(name, ".safetensors"))
        return &list->safetensors;
    if (uma_ends_with(name, ".gguf"))
        return &list->ggufs;
    if (uma_ends_with(name, ".bin") && begins_with(name, "pytorch_model"))
        return &list->pickles;
    if (uma_ends_with(name, ".json") && strstr(name, ".safetensors.index"))
        return &list->indexes;
    return NULL;
}

static int list_entry(struct uma_folder_list *list, const char *name) {
    struct uma_folder_names *names = names_for(list, name);
    list->has_config = list->has_config || strcmp(name, "config.json") == 0;
    list->has_adapter_config = list->has_adapter_config || strcmp(name, "adapter_config.json") == 0;
    list->has_snapshots = list->has_snapshots || strcmp(name, "snapshots") == 0;
    return names ? uma_folder_names_add(names, name, strlen(name)) : 0;
}

int uma_folder_list_read(int folder, const char *path, struct uma_folder_list *ret_list, struct uma_error *err) {
    _cleanup_close_ int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return uma_error_set(err, errno, "%s: cannot list it", path);
    (void)TAKE_FD(fd); /* the DIR's now */
    struct uma_folder_list list = { 0 };
    int r = 0;
    for (unsigned n = 0; r == 0; n++) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            r = errno ? uma_error_set(err, errno, "%s: cannot list it", path) : 1;
            break;
        }
        if (n == UMA_FOLDER_ENTRIES_MAX)
            r = uma_error_text(err, E2BIG, "%s: more than %d entries: not a model's folder", path, UMA_FOLDER_ENTRIES_MAX);
        else
            r = list_entry(&list, entry->d_name);
        if (r == -E2BIG && n != UMA_FOLDER_ENTRIES_MAX)
            r = uma_error_text(err, E2BIG, "%s: more than %d weight files of one kind", path, UMA_FOLDER_NAMES_MAX);
        else if (r == -ENOMEM)
            r = uma_error_set(err, ENOMEM, "%s", path);
    }
    if (r < 0) {
        uma_folder_list_done(&list);
        return r;
    }
    uma_folder_names_sort(&list.safetensors);
    uma_folder_names_sort(&list.pickles);
    uma_folder_names_sort(&list.ggufs);
    uma_folder_names_sort(&list.indexes);
    *ret_list = list;
    return 0;
}

/* ---- choosing ----------------------------------------------------------------------------------------------- */

/* "PREFIX-00002-of-00005.safetensors": its part and how many there are. */
static bool numbered(const char *name, uint64_t *ret_part, uint64_t *ret_parts, size_t *ret_prefix) {
    const char *end = name + strlen(name) - strlen(".safetensors");
    const char *of = NULL;
    for (const char *s = name; (s = strstr(s, "-of-")) && s < end; s++)
        of = s;
    if (!of || uma_parse_u64(of + 4, end, ret_parts) != end)
        return false;
    const char *digits = of;
    while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    *ret_prefix = (size_t)(digits - name);
    return uma_parse_u64(digits, of, ret_part) == of;
}

static bool never_weights(const char *name) {
    static const char *const begins[] = { "adapter_", "optimizer", "scheduler", "training_", "trainer_", "random_states", "scaler" };
    for (size_t i = 0; i < ELEMENTS(begins); i++)
        if (begins_with(name, begins[i]))
            return true;
    return false;
}

/* The same weights once more, in another layout or another type. */
static bool second_copy(const char *name) {
    return begins_with(name, "consolidated") || strstr(name, ".fp16.") || strstr(name, ".fp32.") || strstr(name, ".bf16.");
}

bool uma_folder_name_is_numbered(const char *name) {
    uint64_t part = 0, parts = 0;
    size_t prefix = 0;
    return uma_ends_with(name, ".safetensors") && numbered(name, &part, &parts, &prefix) && parts > 1;
}

bool uma_folder_name_is_beside(const char *name) {
    return never_weights(name) || second_copy(name);
}

/* Which parts of the set that `name` belongs to are not there. */
static int check_set(const struct uma_folder_names *names, const char *name, const char *path, struct uma_error *err) {
    uint64_t part = 0, parts = 0, p = 0, n = 0, there = 0;
    size_t prefix = 0, other = 0;
    if (!numbered(name, &part, &parts, &prefix))
        return 0;
    uint64_t wanted = 1;
    bool from_zero = false;
    for (size_t i = 0; i < names->count; i++) { /* sorted, so the parts come in order when their numbers have leading zeros */
        if (!numbered(names->names[i], &p, &n, &other) || n != parts || other != prefix || strncmp(names->names[i], name, prefix) != 0)
            continue;
        from_zero = from_zero || p == 0;
        there++;
        if (p == wanted)
            wanted++;
    }
    if (there >= parts || parts > UMA_FOLDER_NAMES_MAX)
        return 0;
    return uma_error_text(err, ENOENT,
                          "%s: %llu of the %llu files %.*s...-of-%05llu.safetensors are missing, the first of them number %llu", path,
                          (unsigned long long)(parts - there), (unsigned long long)parts, (int)MIN_OF(prefix, (size_t)80), name,
                          (unsigned long long)parts, (unsigned long long)(from_zero ? wanted - 1 : wanted));
}

enum { SETS_MAX = 8 };

int uma_folder_choose(const struct uma_folder_list *list, const char *path, struct uma_folder_names *ret_chosen, struct uma_error *err) {
    const struct uma_folder_names *all = &list->safetensors;
    bool whole = uma_folder_names_have(all, "model.safetensors"), first_copy = false;
    for (size_t i = 0; i < all->count; i++)
        first_copy = first_copy || !(never_weights(all->names[i]) || second_copy(all->names[i]));
    struct uma_folder_names chosen = { 0 };
    uint64_t part = 0, parts = 0, last_parts = 0;
    size_t prefix = 0;
    int r = 0;
    unsigned sets = 0; /* looked through for their missing parts: each takes a pass over all names, and a folder has one or two */
    for (size_t i = 0; i < all->count && r == 0; i++) {
        const char *name = all->names[i];
        if (whole ? strcmp(name, "model.safetensors") != 0 : never_weights(name) || (first_copy && second_copy(name)))
            continue;
        if (!whole && numbered(name, &part, &parts, &prefix) && parts != last_parts && sets++ < SETS_MAX) {
            last_parts = parts;
            r = check_set(all, name, path, err);
        }
        if (r == 0 && uma_folder_names_add(&chosen, name, strlen(name)) < 0)
            r = uma_error_set(err, ENOMEM, "%s", path);
    }
    if (r < 0) {
        uma_folder_names_done(&chosen);
        return r;
    }
    *ret_chosen = chosen;
    return 0;
}
