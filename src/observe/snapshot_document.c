/* SPDX-License-Identifier: MIT */
/*
 * Documents: the text's size and depth are bounded before jansson builds a tree of it, the schema is checked before its members are, and
 * the parts are checked against each other at the end.
 */
#include "observe/files/page_cache_order.h"
#include "observe/json_tree.h"
#include "observe/snapshot_json.h"
#include "observe/snapshot_parse.h"

#include <string.h>

enum {
    DOCUMENT_MAX = 256 * 1024 * 1024,
    /* The document's own depth is 7; this leaves room for members of later versions and keeps jansson's recursion small. */
    DEPTH_MAX = 64,
    /* What jansson allocates, measured with glibc and rounded up: for each further value, and for a list or an object. */
    VALUE_BYTES = 100,
    LIST_BYTES = 100,
    OBJECT_BYTES = 250,
    /* The tree of a document may take this much: one of UMA_PROCESSES_MAX processes with 45 values each takes 660 MB. */
    TREE_MAX = 1024 * 1024 * 1024,
};

/*
 * Before a tree is built: how deep will it be, and how much will it take? One pass, no memory. It need not be right about a document that
 * is not JSON, that is jansson's to say.
 */
static int check_size(const char *file, const char *text, size_t length, struct uma_error *err) {
    size_t depth = 0, bytes = 0;
    bool string = false;
    for (size_t i = 0; i < length; i++) {
        char ch = text[i];
        if (string) {
            if (ch == '\\')
                i++;
            else if (ch == '"')
                string = false;
        } else if (ch == '"')
            string = true;
        else if (ch == '{' || ch == '[') {
            bytes += (size_t)(ch == '{' ? OBJECT_BYTES : LIST_BYTES);
            if (++depth > DEPTH_MAX)
                return uma_error_text(err, EINVAL, "%s: nested more than %d deep at byte %zu", file, DEPTH_MAX, i);
        } else if ((ch == '}' || ch == ']') && depth > 0)
            depth--;
        else if (ch == ',')
            bytes += VALUE_BYTES;
        if (bytes > TREE_MAX)
            return uma_error_text(err, EFBIG, "%s: too many values: reading it would take more than 1 GiB", file);
    }
    return 0;
}

static int out_of_memory(const char *file, struct uma_error *err) {
    return uma_error_set(err, ENOMEM, "%s: too large to be read", file);
}

static int load(const char *file, const char *text, size_t length, json_t **ret_json, struct uma_error *err) {
    if (length > DOCUMENT_MAX)
        return uma_error_text(err, EFBIG, "%s: %zu bytes, at most %d are read", file, length, DOCUMENT_MAX);
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* the mark that some editors put before UTF-8 */
        text += 3;
        length -= 3;
    }
    size_t blank = 0;
    while (blank < length && strchr(" \t\r\n", text[blank]) && text[blank])
        blank++;
    if (blank == length)
        return uma_error_text(err, EINVAL, "%s: empty: expected a snapshot (made by `umactl snapshot`)", file);
    if (length - blank > 9 && memcmp(text + blank, "MemTotal:", 9) == 0)
        return uma_error_text(err, EINVAL,
                              "%s: this is the text of /proc/meminfo, not a snapshot: put it in DIR/proc/meminfo and use --root DIR", file);
    int r = check_size(file, text, length, err);
    if (r < 0)
        return r;
    json_error_t e;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &e);
    if (!json && json_error_code(&e) == json_error_out_of_memory)
        return out_of_memory(file, err);
    if (!json)
        return uma_error_text(err, EINVAL, "%s:%d:%d: not JSON: %s", file, e.line, e.column, e.text);
    *ret_json = json;
    return 0;
}

/* -EPROTO unless this is a snapshot of this version: what else it is, when that can be told. */
static int check_schema(const char *file, const json_t *json, struct uma_error *err) {
    static const char ours[] = UMA_SNAPSHOT_SCHEMA;
    const char *found = json_string_value(json_object_get(json, "schema"));
    if (!found)
        return uma_error_text(err, EPROTO, "%s: no \"schema\": expected a snapshot with \"%s\" (made by `umactl snapshot`)", file, ours);
    if (strcmp(found, ours) == 0)
        return 0;
    size_t kind = (size_t)(strchr(ours, '/') - ours); /* up to the version */
    if (strncmp(found, ours, kind) == 0 && found[kind] == '/')
        return uma_error_text(err, EPROTO, "%s: a snapshot of another version, \"%.40s\": this umactl reads \"%s\"", file, found, ours);
    if (strncmp(found, "umactl.", 7) == 0)
        return uma_error_text(
            err, EPROTO,
            "%s: this is the output of `umactl %.*s --json`, \"%.40s\": expected a snapshot, \"%s\" (made by `umactl snapshot`)", file,
            (int)MIN_OF(strcspn(found + 7, "/"), (size_t)20), found + 7, found, ours);
    return uma_error_text(err, EPROTO, "%s: the schema is \"%.40s\", expected \"%s\"", file, found, ours);
}

static int by_pid(const void *a, const void *b) {
    const struct uma_process *p = a, *q = b;
    return (p->pid > q->pid) - (p->pid < q->pid);
}

/* What one table cannot say: indexes into other lists, and the order of files and of processes that searches rely on. */
static int check_whole(const char *file, struct uma_snapshot *s, struct uma_error *err) {
    uma_cached_files_sort(s->page_cache.files, s->page_cache.n_files);
    bool sorted = true;
    for (size_t i = 0; i < s->processes.n; i++) {
        const struct uma_process *p = &s->processes.list[i];
        if (p->cgroup >= 0 && (size_t)p->cgroup >= s->n_cgroups)
            return uma_error_text(err, EINVAL, "%s: processes.list[%zu].cgroup: %d, but there are %zu cgroups", file, i, (int)p->cgroup,
                                  s->n_cgroups);
        if (p->container >= 0 && (size_t)p->container >= s->n_containers)
            return uma_error_text(err, EINVAL, "%s: processes.list[%zu].container: %d, but there are %zu containers", file, i,
                                  (int)p->container, s->n_containers);
        sorted = sorted && (i == 0 || p[-1].pid < p->pid);
    }
    if (sorted)
        return 0;
    qsort(s->processes.list, s->processes.n, sizeof(*s->processes.list), by_pid);
    for (size_t i = 1; i < s->processes.n; i++)
        if (s->processes.list[i].pid == s->processes.list[i - 1].pid)
            return uma_error_text(err, EINVAL, "%s: processes.list: two processes have the pid %d", file, (int)s->processes.list[i].pid);
    return 0;
}

int uma_snapshot_parse(const char *text, size_t length, const char *file_name, struct uma_snapshot *ret_snapshot, struct uma_error *err) {
    _cleanup_json_ json_t *json = NULL;
    int r = load(file_name, text, length, &json, err);
    if (r < 0)
        return r;
    r = check_schema(file_name, json, err);
    if (r < 0)
        return r;
    _cleanup_(uma_snapshot_done) struct uma_snapshot s = { 0 };
    if (uma_snapshot_init(&s) < 0)
        return out_of_memory(file_name, err);
    r = uma_fields_parse(&uma_snapshot_fields, json, file_name, s.arena, &s, err);
    if (r < 0)
        return r;
    r = check_whole(file_name, &s, err);
    if (r < 0)
        return r;
    *ret_snapshot = s;
    s = (struct uma_snapshot){ 0 };
    return 0;
}

int uma_gpus_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_gpus *ret_gpus,
                   struct uma_error *err) {
    _cleanup_json_ json_t *json = NULL;
    int r = load(file, text, length, &json, err);
    if (r < 0)
        return r;
    struct uma_gpus gpus = { 0 };
    r = uma_fields_parse(&uma_gpus_fields, json, file, arena, &gpus, err);
    if (r < 0)
        return r;
    *ret_gpus = gpus;
    return 0;
}

int uma_page_cache_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_page_cache *ret_cache,
                         struct uma_error *err) {
    _cleanup_json_ json_t *json = NULL;
    int r = load(file, text, length, &json, err);
    if (r < 0)
        return r;
    struct uma_page_cache cache = { 0 };
    r = uma_fields_parse(&uma_page_cache_fields, json, file, arena, &cache, err);
    if (r < 0)
        return r;
    uma_cached_files_sort(cache.files, cache.n_files);
    *ret_cache = cache;
    return 0;
}
