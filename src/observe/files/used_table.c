/* SPDX-License-Identifier: MIT */
#include "observe/files/used_table.h"

#include <string.h>

struct uma_used_item {
    struct uma_used_file file;
    enum uma_used_way way;
    int32_t last_mapped, last_open; /* processes, 0 none: they come one after another */
};

struct uma_used_pair {
    int32_t number, pid;
    bool mapped;
};

void uma_used_table_done(struct uma_used_table *table) {
    uma_intern_done(&table->keys);
    free(table->items);
    free(table->pairs);
    *table = (struct uma_used_table){ 0 };
}

/* Room for one more; false without memory. */
static bool grow(void **list, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity)
        return true;
    size_t wanted = *capacity ? *capacity * 2 : 256;
    void *larger = realloc(*list, wanted * size);
    if (!larger)
        return false;
    *list = larger;
    *capacity = wanted;
    return true;
}

static int32_t find_or_add(struct uma_used_table *table, uint64_t device, uint64_t inode, bool *ret_new) {
    uint64_t key[2] = { device, inode };
    int32_t number = uma_intern_find(&table->keys, (const char *)key, sizeof(key));
    *ret_new = number < 0;
    if (number >= 0)
        return number;
    if (!grow((void **)&table->items, table->n, &table->capacity, sizeof(*table->items)))
        return -1;
    uint64_t *kept = uma_arena_alloc(table->arena, sizeof(key));
    if (!kept)
        return -1;
    (void)memcpy(kept, key, sizeof(key));
    number = uma_intern_add(&table->keys, (const char *)kept, sizeof(key), UMA_USED_FILES_MAX);
    if (number >= 0)
        table->items[table->n++] = (struct uma_used_item){ 0 };
    return number;
}

int32_t uma_used_table_put(struct uma_used_table *table, uint64_t device, uint64_t inode, const struct uma_used_file *file,
                           enum uma_used_way way) {
    bool is_new;
    int32_t number = find_or_add(table, device, inode, &is_new);
    if (number < 0) {
        table->cut = true;
        return -1;
    }
    struct uma_used_item *item = &table->items[number];
    if (!is_new && way <= item->way)
        return number;
    char *path = uma_arena_strndup(table->arena, file->path, strlen(file->path));
    const char *shown = file->shown == file->path ? path : uma_arena_strndup(table->arena, file->shown, strlen(file->shown));
    if (!path || !shown) { /* a new one has its number, and is left out of the results for want of a path */
        table->cut = true;
        return is_new ? -1 : number;
    }
    size_t n_mapped_by = item->file.n_mapped_by, n_open_by = item->file.n_open_by;
    item->file = *file;
    item->file.path = path;
    item->file.shown = shown;
    item->file.n_mapped_by = n_mapped_by;
    item->file.n_open_by = n_open_by;
    item->way = way;
    return number;
}

void uma_used_table_use(struct uma_used_table *table, int32_t number, int32_t pid, bool mapped) {
    struct uma_used_item *item = &table->items[number];
    int32_t *last = mapped ? &item->last_mapped : &item->last_open;
    if (*last == pid)
        return;
    if (table->n_pairs == UMA_USED_PAIRS_MAX ||
        !grow((void **)&table->pairs, table->n_pairs, &table->pairs_capacity, sizeof(*table->pairs))) {
        table->cut = true;
        return;
    }
    *last = pid;
    *(mapped ? &item->file.n_mapped_by : &item->file.n_open_by) += 1;
    table->pairs[table->n_pairs++] = (struct uma_used_pair){ number, pid, mapped };
}

int uma_used_table_finish(struct uma_used_table *table, struct uma_used_files *ret_files) {
    struct uma_used_file *list = uma_arena_array(table->arena, table->n, sizeof(*list));
    int32_t *pids = uma_arena_array(table->arena, table->n_pairs, sizeof(*pids));
    if (!list || !pids)
        return -ENOMEM;
    for (size_t i = 0; i < table->n; i++) {
        struct uma_used_file *file = &table->items[i].file;
        file->mapped_by = pids;
        file->open_by = pids + file->n_mapped_by;
        pids += file->n_mapped_by + file->n_open_by;
        file->n_mapped_by = file->n_open_by = 0;
    }
    for (size_t i = 0; i < table->n_pairs; i++) {
        struct uma_used_file *file = &table->items[table->pairs[i].number].file;
        if (table->pairs[i].mapped)
            file->mapped_by[file->n_mapped_by++] = table->pairs[i].pid;
        else
            file->open_by[file->n_open_by++] = table->pairs[i].pid;
    }
    size_t n = 0;
    for (size_t i = 0; i < table->n; i++)
        if (table->items[i].file.path)
            list[n++] = table->items[i].file;
    ret_files->n = n;
    ret_files->list = list;
    ret_files->cut |= table->cut;
    return 0;
}
