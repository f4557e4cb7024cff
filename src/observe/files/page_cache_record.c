/* SPDX-License-Identifier: MIT */
/* page_cache_record.c - the list of files that was recorded with a folder: a folder has no page cache of its own. */
#include "observe/files/page_cache.h"

#include "base/text.h"
#include "observe/snapshot_json.h"
#include "observe/source.h"

#include <errno.h>

/* 65,536 files with long paths fit; what this program records has 256. */
#define RECORD_MAX (64 * 1024 * 1024)

void uma_page_cache_recorded(struct uma_root *root, struct uma_arena *arena, struct uma_page_cache *ret_cache) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    struct uma_page_cache cache = { 0 };
    int r = uma_root_read_unrecorded(root, UMA_PAGE_CACHE_RECORD, RECORD_MAX, &text, &err);
    if (r == -ENOENT || r == -ENOTDIR) { /* not asked is not missing */
        *ret_cache = (struct uma_page_cache){ .source.detail = "which files hold the page cache was not recorded with this folder" };
        return;
    }
    if (r > 0)
        r = uma_error_text(&err, EINVAL, "%s/%s: longer than %d bytes", uma_root_name(root), UMA_PAGE_CACHE_RECORD, RECORD_MAX);
    if (r == 0)
        r = uma_page_cache_parse(text.data ? text.data : "", text.length, UMA_PAGE_CACHE_RECORD, arena, &cache, &err);
    if (r < 0) {
        cache = (struct uma_page_cache){ 0 };
        uma_source_failed(&cache.source, arena, UMA_PAGE_CACHE_RECORD, r, &err);
    }
    *ret_cache = cache;
}
