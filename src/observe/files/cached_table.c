/* SPDX-License-Identifier: MIT */
/*
 * Three parts: the numbers of all files that were seen, the files that are kept in slots that do not move, and, once there are
 * `files_max` of them, a heap of slots with the least valuable on top, which a better one replaces.
 */
#include "observe/files/cached_table.h"

#include "base/values.h"
#include "observe/files/file_ids.h"
#include "observe/files/page_cache_order.h"
#include "observe/intern.h"

#include <string.h>

enum { FIRST_ITEMS = 256 };
/* Seen and not kept. */
#define NOWHERE UINT32_MAX
/* Room for a name and for the names of models, each once. */
#define MODELS_MAX ((size_t)1 << 20)
#define SCRATCH_MAX ((size_t)1 << 20)

struct item {
    struct uma_cached_file file; /* path and shown are these two; lists are below */
    char *path, *shown;
    struct uma_cached_users users;
};

struct uma_cached_table {
    size_t files_max;
    bool resident_only;
    struct uma_file_ids *items_of; /* all files that were seen */
    struct item *items;
    size_t n_items, items_capacity;
    uint32_t *heap; /* NULL until there are files_max items */
    struct uma_cached_sums sums;
    struct uma_arena *lists; /* lists of processes that were made from two */
};
enum { LISTS_MAX = 64 << 20 };

struct uma_cached_table *uma_cached_table_new(size_t files_max, bool resident_only) {
    struct uma_cached_table *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->files_max = MIN_OF(MAX_OF(files_max, (size_t)1), (size_t)NOWHERE - 1);
    t->resident_only = resident_only;
    t->items_of = uma_file_ids_new();
    t->lists = uma_arena_new(LISTS_MAX);
    return t->items_of && t->lists ? t : uma_cached_table_free(t);
}

static void item_done(struct item *item) {
    free(item->path);
    free(item->shown);
    item->path = item->shown = NULL;
    item->file.path = item->file.shown = NULL;
}

static void forget_files(struct uma_cached_table *t) {
    for (size_t i = 0; i < t->n_items; i++)
        item_done(&t->items[i]);
    free(t->items);
    free(t->heap);
    t->items = NULL;
    t->heap = NULL;
    t->n_items = t->items_capacity = 0;
}

struct uma_cached_table *uma_cached_table_free(struct uma_cached_table *table) {
    if (!table)
        return NULL;
    forget_files(table);
    (void)uma_file_ids_free(table->items_of);
    (void)uma_arena_free(table->lists);
    free(table);
    return NULL;
}

const struct uma_cached_sums *uma_cached_table_sums(const struct uma_cached_table *table) {
    return &table->sums;
}

/* ---- which item a file has -------------------------------------------------------------------------------------- */

int uma_cached_table_claim(struct uma_cached_table *table, uint64_t device, uint64_t inode) {
    return uma_file_ids_add(table->items_of, device, inode, NOWHERE);
}

static void point_to(struct uma_cached_table *t, const struct uma_cached_file *file, uint32_t item) {
    uint32_t *item_of = file->inode ? uma_file_ids_find(t->items_of, file->device, file->inode) : NULL;
    if (item_of)
        *item_of = item;
}

/* ---- the heap --------------------------------------------------------------------------------------------------- */

/* Is a less worth keeping than b? */
static bool is_less(const struct uma_cached_file *a, const struct uma_cached_file *b) {
    return uma_cached_file_compare(a, b) > 0;
}

static void sift_down(struct uma_cached_table *t, size_t at) {
    for (;;) {
        size_t least = at, child = 2 * at + 1;
        for (size_t i = child; i < child + 2 && i < t->n_items; i++)
            if (is_less(&t->items[t->heap[i]].file, &t->items[t->heap[least]].file))
                least = i;
        if (least == at)
            return;
        uint32_t other = t->heap[at];
        t->heap[at] = t->heap[least];
        t->heap[least] = other;
        at = least;
    }
}

static int make_heap(struct uma_cached_table *t) {
    t->heap = calloc(t->n_items, sizeof(*t->heap));
    if (!t->heap)
        return -ENOMEM;
    for (size_t i = 0; i < t->n_items; i++)
        t->heap[i] = (uint32_t)i;
    for (size_t i = t->n_items / 2; i-- > 0;)
        sift_down(t, i);
    return 0;
}

/* ---- adding ----------------------------------------------------------------------------------------------------- */

static bool has_pages(const struct uma_cached_file *file) {
    return uma_usable(file->resident.validity) && file->resident.value > 0;
}

static int fill(struct item *item, const struct uma_cached_file *file, const struct uma_cached_users *users) {
    struct item made = { .file = *file };
    char *path = strdup(file->path), *shown = file->shown ? strdup(file->shown) : NULL;
    if (!path || (file->shown && !shown)) {
        free(path);
        free(shown);
        return -ENOMEM;
    }
    made.file.path = made.path = path;
    made.file.shown = made.shown = shown;
    made.file.model = NULL;
    made.file.n_mapped_by = made.file.n_open_by = 0;
    if (users)
        made.users = *users;
    *item = made;
    return 0;
}

static int append(struct uma_cached_table *t, const struct uma_cached_file *file, const struct uma_cached_users *users) {
    if (t->n_items == t->items_capacity) {
        size_t capacity = MIN_OF(MAX_OF(t->items_capacity * 2, (size_t)FIRST_ITEMS), t->files_max);
        struct item *grown = reallocarray(t->items, capacity, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        t->items = grown;
        t->items_capacity = capacity;
    }
    int r = fill(&t->items[t->n_items], file, users);
    if (r == 0)
        point_to(t, file, (uint32_t)t->n_items++);
    return r;
}

static int replace_least(struct uma_cached_table *t, const struct uma_cached_file *file, const struct uma_cached_users *users) {
    struct item *least = &t->items[t->heap[0]], made;
    if (!is_less(&least->file, file)) {
        t->sums.left_out += has_pages(file);
        return 0;
    }
    int r = fill(&made, file, users);
    if (r < 0)
        return r;
    t->sums.left_out += has_pages(&least->file);
    point_to(t, &least->file, NOWHERE);
    item_done(least);
    *least = made;
    point_to(t, file, t->heap[0]);
    sift_down(t, 0);
    return 0;
}

int uma_cached_table_add(struct uma_cached_table *table, const struct uma_cached_file *file, const struct uma_cached_users *users) {
    table->sums.files++;
    if (has_pages(file) && file->kind != UMA_CACHED_MEMORY)
        table->sums.resident += file->resident.value;
    table->sums.unreadable += file->resident.validity == UMA_DENIED;
    if (table->resident_only && file->resident.validity == UMA_KNOWN && file->resident.value == 0)
        return 0;
    if (table->n_items < table->files_max)
        return append(table, file, users);
    if (!table->heap && make_heap(table) < 0)
        return -ENOMEM;
    return replace_least(table, file, users);
}

/* ---- the same file again ---------------------------------------------------------------------------------------- */

/* Two ascending lists as one. */
static int merge(struct uma_arena *arena, size_t *n, const int32_t **list, size_t n_more, const int32_t *more) {
    if (n_more == 0)
        return 0;
    int32_t *all = uma_arena_array(arena, *n + n_more, sizeof(*all));
    if (!all)
        return -ENOMEM;
    size_t i = 0, k = 0, kept = 0;
    while (i < *n || k < n_more) {
        int32_t next = k == n_more || (i < *n && (*list)[i] <= more[k]) ? (*list)[i++] : more[k++];
        if (kept == 0 || all[kept - 1] != next)
            all[kept++] = next;
    }
    *list = all;
    *n = kept;
    return 0;
}

int uma_cached_table_again(struct uma_cached_table *table, uint64_t device, uint64_t inode, const char *path, const char *filesystem,
                           const struct uma_cached_users *users) {
    const uint32_t *item_of = inode ? uma_file_ids_find(table->items_of, device, inode) : NULL;
    if (!item_of || *item_of == NOWHERE)
        return 0;
    struct item *item = &table->items[*item_of];
    if (path && strncmp(item->file.path, "/proc/", 6) == 0 && !item->file.deleted) {
        char *better = strdup(path);
        if (!better)
            return -ENOMEM;
        item_done(item);
        item->file.path = item->path = better;
        item->file.container = NULL;
        item->file.filesystem = filesystem;
    }
    int r = users ? merge(table->lists, &item->users.n_mapped_by, &item->users.mapped_by, users->n_mapped_by, users->mapped_by) : 0;
    return users && r == 0 ? merge(table->lists, &item->users.n_open_by, &item->users.open_by, users->n_open_by, users->open_by) : r;
}

/* ---- the result ------------------------------------------------------------------------------------------------- */

int uma_cached_table_each(const struct uma_cached_table *table, int (*each)(void *userdata, const struct uma_cached_file *file),
                          void *userdata) {
    int r = 0;
    for (size_t i = 0; i < table->n_items && r == 0; i++)
        r = each(userdata, &table->items[i].file);
    return r;
}

static int by_value(const void *a, const void *b, void *items) {
    const struct item *x = &((const struct item *)items)[*(const uint32_t *)a], *y = &((const struct item *)items)[*(const uint32_t *)b];
    return uma_cached_file_compare(&x->file, &y->file);
}

struct writer {
    struct uma_arena *arena, *scratch;
    struct uma_intern models;
};

static void writer_done(struct writer *w) {
    (void)uma_arena_free(w->scratch);
    uma_intern_done(&w->models);
}
#define _cleanup_writer_ _cleanup_(writer_done)

/* One copy of a string that many files share. */
static int copy_once(struct writer *w, const char **string) {
    if (!*string)
        return 0;
    size_t length = strlen(*string);
    int32_t known = w->models.n > 0 ? uma_intern_find(&w->models, *string, length) : -1;
    if (known >= 0 && w->models.entries) {
        *string = w->models.entries[known].key;
        return 0;
    }
    const char *copy = uma_arena_strndup(w->arena, *string, length);
    if (!copy)
        return -ENOMEM;
    (void)uma_intern_add(&w->models, copy, length, MODELS_MAX); /* beyond, each has its own */
    *string = copy;
    return 0;
}

static int copy_pids(struct writer *w, size_t n, const int32_t *pids, size_t *ret_n, struct uma_pid **ret_pids) {
    n = MIN_OF(n, (size_t)UMA_CACHED_PIDS_MAX);
    if (n == 0)
        return 0;
    struct uma_pid *list = uma_arena_array(w->arena, n, sizeof(*list));
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        list[i].pid = pids[i];
    *ret_n = n;
    *ret_pids = list;
    return 0;
}

static int write_file(struct writer *w, struct item *item, struct uma_cached_file *ret_file) {
    struct uma_cached_file file = item->file;
    file.path = uma_arena_strndup(w->arena, item->file.path, strlen(item->file.path));
    if (item->file.shown)
        file.shown = uma_arena_utf8(w->arena, item->file.shown, strlen(item->file.shown));
    if (!file.path || (item->file.shown && !file.shown))
        return -ENOMEM;
    item_done(item); /* so that what is kept is never there twice */
    int r = copy_once(w, &file.model);
    if (r == 0)
        r = copy_once(w, &file.filesystem);
    if (r == 0)
        r = copy_once(w, &file.container);
    if (r == 0)
        r = copy_pids(w, item->users.n_mapped_by, item->users.mapped_by, &file.n_mapped_by, &file.mapped_by);
    if (r == 0)
        r = copy_pids(w, item->users.n_open_by, item->users.open_by, &file.n_open_by, &file.open_by);
    *ret_file = file;
    return r;
}

int uma_cached_table_finish(struct uma_cached_table *table,
                            const char *(*name)(void *userdata, const struct uma_cached_file *file, struct uma_arena *scratch),
                            void *userdata, struct uma_arena *arena, size_t *ret_n, struct uma_cached_file **ret_files) {
    size_t n = table->n_items;
    _cleanup_writer_ struct writer w = { .arena = arena, .scratch = uma_arena_new(SCRATCH_MAX) };
    _cleanup_free_
    uint32_t *order = calloc(MAX_OF(n, (size_t)1), sizeof(*order));
    struct uma_cached_file *files = order && w.scratch ? uma_arena_array(arena, n, sizeof(*files)) : NULL;
    if (!files)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    if (n > 0)
        qsort_r(order, n, sizeof(*order), by_value, table->items);
    for (size_t i = 0; i < n; i++) {
        struct item *item = &table->items[order[i]];
        uma_arena_reset(w.scratch);
        item->file.model = name(userdata, &item->file, w.scratch);
        int r = write_file(&w, item, &files[i]);
        if (r < 0)
            return r;
    }
    forget_files(table);
    *ret_n = n;
    *ret_files = files;
    return 0;
}
