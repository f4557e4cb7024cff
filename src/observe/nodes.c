/* SPDX-License-Identifier: MIT */
#include "observe/nodes.h"

#include "observe/lines.h"
#include "observe/memory.h"
#include "observe/source.h"

#include <stdio.h>

#define NODE_FOLDER "sys/devices/system/node"
/* A node's meminfo is below 2 KiB, a list of ids has at most 8 characters for each of UMA_NODES_MAX nodes. */
enum { NODE_MEMINFO_MAX = 65536, ID_LIST_MAX = 4096 };

void uma_nodes_reader_init(struct uma_nodes_reader *reader) {
    *reader = (struct uma_nodes_reader){ .online_kept = -1 };
}

static void forget_slots(struct uma_nodes_reader *reader) {
    for (size_t i = 0; i < reader->n; i++)
        uma_root_forget(&reader->slots[i].kept);
    reader->n = 0;
    reader->listed = false;
}

void uma_nodes_reader_done(struct uma_nodes_reader *reader) {
    forget_slots(reader);
    free(reader->slots);
    uma_root_forget(&reader->online_kept);
    uma_text_done(&reader->online);
}

enum uma_truth uma_id_list_has(const char *text, size_t length, int32_t id) {
    const char *end = text + length, *p = text;
    while (end > p && (uma_is_blank(end[-1]) || end[-1] == '\n'))
        end--;
    enum uma_truth found = UMA_NO;
    while (p < end) {
        uint64_t from, to;
        p = uma_parse_u64(p, end, &from);
        to = from;
        if (p && p < end && *p == '-')
            p = uma_parse_u64(p + 1, end, &to);
        if (!p || (p < end && *p != ',') || to < from)
            return UMA_MAYBE;
        if ((uint64_t)id >= from && (uint64_t)id <= to)
            found = UMA_YES;
        p += p < end;
    }
    return found;
}

/* readdir's callback: "node12" and nothing else. */
static int add_slot(void *userdata, const char *name) {
    struct uma_nodes_reader *reader = userdata;
    uint64_t id;
    const char *end = name + strlen(name);
    if (strncmp(name, "node", 4) != 0 || uma_parse_u64(name + 4, end, &id) != end || id > INT32_MAX || reader->n == UMA_NODES_MAX)
        return 0;
    struct uma_node_slot *slot = &reader->slots[reader->n++];
    *slot = (struct uma_node_slot){ .id = (int32_t)id, .kept = -1 };
    (void)snprintf(slot->path, sizeof(slot->path), NODE_FOLDER "/node%d/meminfo", slot->id);
    return 0;
}

static int by_id(const void *a, const void *b) {
    const struct uma_node_slot *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Besides the nodes the folder holds a dozen files; so this many entries are every node that is kept. */
static int list_nodes(struct uma_nodes_reader *reader, struct uma_root *root, struct uma_error *err) {
    forget_slots(reader);
    if (!reader->slots && !(reader->slots = calloc(UMA_NODES_MAX, sizeof(*reader->slots))))
        return uma_error_set(err, ENOMEM, NODE_FOLDER);
    int r = uma_root_list(root, NODE_FOLDER, (size_t)UMA_NODES_MAX + 64, add_slot, reader, err);
    if (r < 0)
        return r;
    qsort(reader->slots, reader->n, sizeof(*reader->slots), by_id);
    reader->listed = true;
    return 0;
}

/* List the folder the first time, and again when the kernel's own list of nodes has changed. */
static int find_nodes(struct uma_nodes_reader *reader, struct uma_root *root, struct uma_text *scratch, struct uma_error *err) {
    int r = uma_root_read_kept(root, NODE_FOLDER "/online", ID_LIST_MAX, &reader->online_kept, scratch, NULL);
    size_t n = r < 0 ? 0 : scratch->length;
    if (reader->listed && n == reader->online.length && (n == 0 || memcmp(scratch->data, reader->online.data, n) == 0))
        return 0;
    r = list_nodes(reader, root, err);
    if (r < 0)
        return r;
    uma_text_reset(&reader->online);
    if (n)
        uma_text_append_n(&reader->online, scratch->data, n);
    r = uma_root_read(root, NODE_FOLDER "/has_cpu", ID_LIST_MAX, scratch, NULL);
    for (size_t i = 0; i < reader->n; i++)
        reader->slots[i].has_cpu = r != 0 ? UMA_MAYBE : uma_id_list_has(scratch->data, scratch->length, reader->slots[i].id);
    return 0;
}

void uma_nodes_read(struct uma_nodes_reader *reader, struct uma_root *root, struct uma_text *scratch, struct uma_snapshot *snapshot) {
    struct uma_error err = { 0 };
    snapshot->n_nodes = 0;
    snapshot->nodes = NULL;
    int r = find_nodes(reader, root, scratch, &err);
    if (r >= 0 && !(snapshot->nodes = uma_arena_array(snapshot->arena, reader->n, sizeof(*snapshot->nodes))))
        r = uma_error_set(&err, ENOMEM, NODE_FOLDER);
    if (r < 0 || !snapshot->nodes) {
        uma_source_failed(&snapshot->nodes_source, snapshot->arena, NODE_FOLDER, r, &err);
        return;
    }
    struct uma_error first = { 0 };
    for (size_t i = 0; i < reader->n; i++) {
        struct uma_node_slot *slot = &reader->slots[i];
        struct uma_node node = { .id = slot->id, .has_cpu = slot->has_cpu };
        struct uma_error why = { 0 };
        r = uma_root_read_kept(root, slot->path, NODE_MEMINFO_MAX, &slot->kept, scratch, &why);
        if (r >= 0)
            r = uma_node_meminfo_parse(scratch->data, scratch->length, slot->path, &node, &why);
        if (r != 0 && first.code == 0)
            first = why;
        if (r >= 0 || r == -EINVAL)
            snapshot->nodes[snapshot->n_nodes++] = node; /* one that is there but cannot be read is kept, with unknown fields */
    }
    uma_source_ok(&snapshot->nodes_source, NODE_FOLDER);
    if (first.code)
        snapshot->nodes_source.detail = uma_arena_utf8(snapshot->arena, first.text, sizeof(first.text));
}
