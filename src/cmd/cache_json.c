/* SPDX-License-Identifier: MIT */
/* The document of `umactl cache`: every file that was found, and the models that they make. */
#include "cmd/cache.h"

static const char *const kinds[UMA_CACHED_KINDS] = {
    [UMA_CACHED_FILE] = "file",
    [UMA_CACHED_MEMORY] = "memory",
    [UMA_CACHED_BLOCK_DEVICE] = "block_device",
};

static void pids_json(struct uma_json *json, const char *key, const struct uma_pid *pids, size_t n) {
    uma_json_begin_array(json, key, true);
    for (size_t i = 0; i < n; i++)
        uma_json_signed(json, NULL, pids[i].pid);
    uma_json_end_array(json);
}

void uma_cache_file_json(struct uma_json *json, const struct uma_cached_file *file) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_json_begin_object(json, NULL, true);
    uma_json_string(json, "path", uma_cache_utf8(&text, file->path ? file->path : ""));
    uma_cache_bytes_json(json, "path_bytes", file->path);
    uma_json_string(json, "model", file->model ? uma_cache_utf8(&text, file->model) : NULL);
    uma_json_u64(json, "size", file->size);
    uma_json_u64(json, "resident", file->resident);
    uma_json_u64(json, "dirty", file->dirty);
    pids_json(json, "mapped_by", file->mapped_by, file->n_mapped_by);
    uma_json_string(json, "kind", kinds[file->kind]);
    uma_json_string(json, "filesystem", file->filesystem ? uma_cache_utf8(&text, file->filesystem) : NULL);
    uma_json_string(json, "container", file->container ? uma_cache_utf8(&text, file->container) : NULL);
    uma_json_bool(json, "deleted", file->deleted);
    pids_json(json, "open_by", file->open_by, file->n_open_by);
    uma_json_time(json, "used", file->used_ns);
    uma_json_string(json, "unknown",
                    uma_usable(file->resident.validity) ? NULL
                    : file->why                         ? file->why
                                                        : uma_cache_unknown_reason(file->resident.validity));
    uma_json_string(json, "shown", file->shown ? uma_cache_utf8(&text, file->shown) : NULL);
}

static void group_json(struct uma_json *json, const struct uma_cached_group *group) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_json_begin_object(json, NULL, true);
    uma_json_string(json, "model", uma_cache_utf8(&text, group->name));
    uma_json_u64(json, "size", group->size);
    uma_json_u64(json, "resident", group->resident);
    uma_json_u64(json, "dirty", group->dirty);
    uma_json_begin_array(json, "mapped_by", true);
    for (size_t i = 0; i < group->n_mapped_by; i++)
        uma_json_signed(json, NULL, group->mapped_by[i]);
    uma_json_end_array(json);
    uma_json_unsigned(json, "files", group->n_files);
    uma_json_bool(json, "partly_unknown", group->partly);
    uma_json_time(json, "used", group->used_ns);
    uma_json_end_object(json);
}

static void models_json(struct uma_json *json, const struct uma_snapshot *snapshot) {
    size_t n = 0;
    struct uma_cached_group *groups = NULL;
    if (uma_page_cache_group(&snapshot->page_cache, snapshot->arena, &n, &groups) < 0) {
        uma_json_null(json, "models");
        return;
    }
    uma_json_begin_array(json, "models", false);
    for (size_t i = 0; i < n; i++)
        if (groups[i].is_model)
            group_json(json, &groups[i]);
    uma_json_end_array(json);
}

static void counts_json(struct uma_json *json, const struct uma_cache_listing *listing) {
    const struct uma_page_cache_counts *c = &listing->counts;
    if (listing->recorded) {
        uma_json_null(json, "searched");
        return;
    }
    uma_json_begin_object(json, "searched", true);
    uma_json_unsigned(json, "files", c->files_seen);
    uma_json_unsigned(json, "folders", c->folders);
    uma_json_unsigned(json, "processes", c->processes);
    uma_json_unsigned(json, "processes_denied", c->processes_denied);
    uma_json_unsigned(json, "denied", c->denied);
    uma_json_unsigned(json, "vanished", c->vanished);
    uma_json_unsigned(json, "links_outside", c->links_outside);
    uma_json_unsigned(json, "mounts_skipped", c->mounts_skipped);
    uma_json_double(json, "seconds", listing->seconds);
    uma_json_end_object(json);
}

void uma_cache_json(struct uma_json *json, const struct uma_cache_listing *listing, const struct uma_cache_view *view) {
    const struct uma_page_cache *cache = &listing->snapshot.page_cache;
    const struct uma_ledger *ledger = &listing->account.ledger;
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "schema", "umactl.cache/1");
    uma_json_u64(json, "page_cache", cache->total);
    uma_json_u64(json, "explained", cache->explained);
    uma_json_begin_array(json, "files", false);
    for (size_t i = 0; i < cache->n_files; i++) {
        uma_cache_file_json(json, &cache->files[i]);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
    models_json(json, &listing->snapshot);
    enum uma_validity known = ledger->known ? UMA_KNOWN : UMA_UNKNOWN;
    uma_json_u64(json, "droppable", (struct uma_u64){ ledger->bytes[UMA_LEDGER_CACHE_CLEAN], known });
    uma_json_u64(json, "dirty", (struct uma_u64){ ledger->bytes[UMA_LEDGER_CACHE_DIRTY], known });
    uma_json_u64(json, "mapped", (struct uma_u64){ ledger->bytes[UMA_LEDGER_CACHE_MAPPED], known });
    uma_json_u64(json, "unknown_files", cache->unreadable);
    uma_json_u64(json, "left_out", cache->left_out);
    uma_json_bool(json, "complete", cache->complete);
    uma_json_bool(json, "interrupted", view->interrupted);
    counts_json(json, listing);
    uma_json_time(json, "time", listing->snapshot.time_ns);
    uma_json_string(json, "host", listing->snapshot.platform.host);
    uma_json_end_object(json);
}
