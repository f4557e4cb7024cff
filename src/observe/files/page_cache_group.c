/* SPDX-License-Identifier: MIT */
#include "observe/files/page_cache.h"

#include "observe/files/page_cache_order.h"

#include <string.h>

static const char *name_of(const struct uma_cached_file *file) {
    if (file->model)
        return file->model;
    return file->shown ? file->shown : file->path ? file->path : "";
}

/* Files of one group side by side; in a group as they are in the list. A file of no model is alone, whatever it is called. */
static int by_group(const void *a, const void *b) {
    const struct uma_cached_file *p = *(const struct uma_cached_file *const *)a, *q = *(const struct uma_cached_file *const *)b;
    int order = (q->model != NULL) - (p->model != NULL);
    if (order == 0 && p->model)
        order = strcmp(p->model, q->model);
    if (order == 0 && p->model)
        order = (p->kind > q->kind) - (p->kind < q->kind);
    return order ? order : (p > q) - (p < q);
}

static bool same_group(const struct uma_cached_file *p, const struct uma_cached_file *q) {
    return p->model && q->model && p->kind == q->kind && strcmp(p->model, q->model) == 0;
}

/* The sum of what is known; when nothing is, the reason of the first. */
struct sum {
    struct uma_u64 value;
    size_t unknown;
};

static void add(struct sum *sum, struct uma_u64 value, bool first) {
    if (first)
        sum->value = value;
    if (!uma_usable(value.validity)) {
        sum->unknown++;
        return;
    }
    if (first)
        return;
    if (!uma_usable(sum->value.validity))
        sum->value = (struct uma_u64){ 0, UMA_KNOWN };
    if (__builtin_add_overflow(sum->value.value, value.value, &sum->value.value))
        sum->value.value = UINT64_MAX;
}

static int by_pid(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int union_of_pids(struct uma_cached_group *group, struct uma_arena *arena) {
    size_t n = 0, kept = 0;
    for (size_t i = 0; i < group->n_files; i++)
        n += group->files[i]->n_mapped_by;
    if (n == 0)
        return 0;
    int32_t *pids = uma_arena_array(arena, n, sizeof(*pids));
    if (!pids)
        return -ENOMEM;
    n = 0;
    for (size_t i = 0; i < group->n_files; i++)
        for (size_t k = 0; k < group->files[i]->n_mapped_by; k++)
            pids[n++] = group->files[i]->mapped_by[k].pid;
    qsort(pids, n, sizeof(*pids), by_pid);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || pids[i] != pids[kept - 1])
            pids[kept++] = pids[i];
    group->mapped_by = pids;
    group->n_mapped_by = kept;
    return 0;
}

static int fill(struct uma_cached_group *group, const struct uma_cached_file **files, size_t n, struct uma_arena *arena) {
    struct sum size = { 0 }, resident = { 0 }, dirty = { 0 };
    *group = (struct uma_cached_group){
        .name = name_of(files[0]), .is_model = files[0]->model != NULL, .kind = files[0]->kind, .n_files = n, .files = files
    };
    for (size_t i = 0; i < n; i++) {
        add(&size, files[i]->size, i == 0);
        add(&resident, files[i]->resident, i == 0);
        add(&dirty, files[i]->dirty, i == 0);
        group->used_ns = MAX_OF(group->used_ns, files[i]->used_ns);
    }
    group->size = size.value;
    group->resident = resident.value;
    group->dirty = dirty.value;
    group->partly = resident.unknown > 0 && resident.unknown < n;
    return union_of_pids(group, arena);
}

static int by_resident(const void *a, const void *b) {
    const struct uma_cached_group *x = a, *y = b;
    int order = uma_larger_first(x->resident, y->resident);
    if (order == 0)
        order = uma_larger_first(x->size, y->size);
    if (order == 0)
        order = strcmp(x->name, y->name);
    return order ? order
                 : (x->files > y->files) - (x->files < y->files); /* all point into one array: the order of equals is the same every time */
}

int uma_page_cache_group(const struct uma_page_cache *cache, struct uma_arena *arena, size_t *ret_n, struct uma_cached_group **ret_groups) {
    size_t n = cache->n_files, n_groups = 0;
    const struct uma_cached_file **files = uma_arena_array(arena, n, sizeof(void *));
    if (!files)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        files[i] = &cache->files[i];
    if (n > 0)
        qsort(files, n, sizeof(void *), by_group);
    for (size_t i = 0; i < n; i++)
        n_groups += i == 0 || !same_group(files[i - 1], files[i]);
    struct uma_cached_group *groups = uma_arena_array(arena, n_groups, sizeof(*groups));
    if (!groups)
        return -ENOMEM;
    for (size_t i = 0, g = 0; i < n; g++) {
        size_t end = i + 1;
        while (end < n && same_group(files[end - 1], files[end]))
            end++;
        int r = fill(&groups[g], files + i, end - i, arena);
        if (r < 0)
            return r;
        i = end;
    }
    if (n_groups > 0)
        qsort(groups, n_groups, sizeof(*groups), by_resident);
    *ret_n = n_groups;
    *ret_groups = groups;
    return 0;
}
