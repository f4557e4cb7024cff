/* SPDX-License-Identifier: MIT */
/*
 * One reading of the page cache as JSON, for test_page_cache.py: what the library says, without the options and words of the command.
 *
 * usage: page_cache_list [processes] [stores] [devices] [everywhere] [resident-only] [max=N] [seconds=N] [PATH...]
 */
#include "base/json_write.h"
#include "base/units.h"
#include "base/write.h"
#include "observe/files/page_cache.h"

#include <string.h>

static int fail(const struct uma_error *err) {
    (void)fprintf(stderr, "page_cache_list: %s\n", err->text);
    return 1;
}

static void pids(struct uma_json *json, const char *key, const struct uma_pid *list, size_t n) {
    uma_json_begin_array(json, key, true);
    for (size_t i = 0; i < n; i++)
        uma_json_signed(json, NULL, list[i].pid);
    uma_json_end_array(json);
}

static void file(struct uma_json *json, const struct uma_cached_file *f) {
    uma_json_begin_object(json, NULL, true);
    uma_json_string(json, "path", f->path);
    uma_json_string(json, "shown", f->shown);
    uma_json_string(json, "model", f->model);
    uma_json_string(json, "filesystem", f->filesystem);
    uma_json_string(json, "container", f->container);
    uma_json_unsigned(json, "kind", (uint64_t)f->kind);
    uma_json_bool(json, "deleted", f->deleted);
    uma_json_unsigned(json, "device", f->device);
    uma_json_unsigned(json, "inode", f->inode);
    uma_json_u64(json, "size", f->size);
    uma_json_u64(json, "resident", f->resident);
    uma_json_bool(json, "denied", f->resident.validity == UMA_DENIED);
    uma_json_u64(json, "dirty", f->dirty);
    uma_json_time(json, "used", f->used_ns);
    pids(json, "mapped_by", f->mapped_by, f->n_mapped_by);
    pids(json, "open_by", f->open_by, f->n_open_by);
    uma_json_end_object(json);
}

static int write_all(const struct uma_page_cache *cache, const struct uma_page_cache_counts *counts, double seconds,
                     struct uma_arena *arena) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_json json = { .text = &text };
    struct uma_cached_group *groups = NULL;
    size_t n = 0;
    if (uma_page_cache_group(cache, arena, &n, &groups) < 0)
        return 1;
    uma_json_begin_object(&json, NULL, false);
    uma_json_double(&json, "seconds", seconds);
    uma_json_u64(&json, "total", cache->total);
    uma_json_u64(&json, "explained", cache->explained);
    uma_json_u64(&json, "unreadable", cache->unreadable);
    uma_json_u64(&json, "left_out", cache->left_out);
    uma_json_bool(&json, "complete", cache->complete);
    uma_json_string(&json, "detail", cache->source.detail);
    uma_json_unsigned(&json, "seen", counts->files_seen);
    uma_json_unsigned(&json, "links_outside", counts->links_outside);
    uma_json_unsigned(&json, "mounts_skipped", counts->mounts_skipped);
    uma_json_begin_array(&json, "groups", false);
    for (size_t i = 0; i < n; i++) {
        uma_json_begin_object(&json, NULL, true);
        uma_json_string(&json, "name", groups[i].name);
        uma_json_bool(&json, "is_model", groups[i].is_model);
        uma_json_unsigned(&json, "files", groups[i].n_files);
        uma_json_u64(&json, "resident", groups[i].resident);
        uma_json_u64(&json, "size", groups[i].size);
        uma_json_end_object(&json);
    }
    uma_json_end_array(&json);
    uma_json_begin_array(&json, "files", false);
    for (size_t i = 0; i < cache->n_files; i++)
        file(&json, &cache->files[i]);
    uma_json_end_array(&json);
    uma_json_end_object(&json);
    return text.failed || uma_write_all(STDOUT_FILENO, text.data, text.length) < 0;
}

static bool option(struct uma_page_cache_request *request, const char *word) {
    uint64_t number = 0;
    if (strcmp(word, "processes") == 0)
        request->processes = true;
    else if (strcmp(word, "stores") == 0)
        request->stores = true;
    else if (strcmp(word, "devices") == 0)
        request->devices = true;
    else if (strcmp(word, "everywhere") == 0)
        request->everywhere = true;
    else if (strcmp(word, "resident-only") == 0)
        request->resident_only = true;
    else if (strncmp(word, "max=", 4) == 0 && uma_parse_u64_all(word + 4, &number) == 0)
        request->files_max = number;
    else if (strncmp(word, "seconds=", 8) == 0)
        (void)uma_parse_f64_all(word + 8, &request->seconds);
    else
        return false;
    return true;
}

int main(int argc, char **argv) {
    struct uma_page_cache_request request = { 0 };
    struct uma_page_cache_counts counts;
    struct uma_page_cache cache;
    struct uma_error err = { 0 };
    struct uma_snapshot snapshot;
    struct uma_observer *observer = NULL;
    struct uma_observe_options options = { 0 };
    _cleanup_root_ struct uma_root *root = NULL;
    int at = 1;
    while (at < argc && option(&request, argv[at]))
        at++;
    request.paths = (const char *const *)argv + at;
    request.n_paths = (size_t)(argc - at);
    if (uma_snapshot_init(&snapshot) < 0)
        return 1;
    int r = uma_observer_open(&options, &observer, &err);
    if (r >= 0)
        r = uma_observer_read(observer, UMA_READ_PROCESSES, &snapshot, &err);
    if (r >= 0)
        r = uma_root_open(NULL, NULL, &root, &err);
    int64_t start = uma_monotonic_ns();
    if (r >= 0)
        r = uma_page_cache_read(root, &request, &snapshot, snapshot.arena, &cache, &counts, &err);
    int64_t end = uma_monotonic_ns();
    int status = r < 0 ? fail(&err) : write_all(&cache, &counts, (double)(end - start) / (double)UMA_SECOND_NS, snapshot.arena);
    uma_snapshot_done(&snapshot);
    (void)uma_observer_close(observer);
    return status;
}
