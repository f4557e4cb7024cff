/* SPDX-License-Identifier: MIT */
/*
 * The text of `umactl cache`: how much page cache there is and what of it is explained, then a row for each model or file, most resident
 * first. What is memory and not cache (tmpfs, memfd) stands apart. Columns that would be empty or do not fit are left out.
 */
#include "cmd/cache.h"

#include "account/values.h"
#include "base/units.h"
#include "cmd/layout.h"
#include "observe/files/page_cache.h"

#include <string.h>

enum {
    NAME_COLUMNS_LEAST = 28, /* a model's name and its owner */
    USERS_COLUMNS_MOST = 24, /* "VLLM::EngineCor 4242 +12" */
    USERS_HEADING = 9,       /* "mapped by" */
    MEMORY_ROWS = 5          /* of files that are memory: beside what was asked */
};

struct page {
    struct uma_text *text;
    const struct uma_cache_listing *listing;
    const struct uma_cache_view *view;
    const struct uma_status_style *style;
    int64_t now_ns;
};

/* Which columns a table has beside resident bytes and the name. */
struct columns {
    bool percent, dirty, size, files, used;
    size_t users, name; /* widths; users 0: none; name 0: as long as it is */
};

/* ---- the head ----------------------------------------------------------------------------------------------- */

static void part(struct uma_text *text, unsigned *n, uint64_t bytes, const char *what) {
    uma_text_append(text, (*n)++ ? ", " : ": ");
    uma_text_bytes(text, bytes);
    uma_text_append(text, what);
}

static void total_line(const struct page *p) {
    const struct uma_page_cache *cache = &p->listing->snapshot.page_cache;
    const struct uma_ledger *ledger = &p->listing->account.ledger;
    _cleanup_text_ struct uma_text t = { 0 };
    unsigned n = 0;
    uma_layout_bytes(&t, cache->total);
    uma_text_append(&t, " of page cache");
    if (ledger->known) {
        part(&t, &n, ledger->bytes[UMA_LEDGER_CACHE_CLEAN], " can be dropped");
        if (ledger->bytes[UMA_LEDGER_CACHE_DIRTY] > 0)
            part(&t, &n, ledger->bytes[UMA_LEDGER_CACHE_DIRTY], " must be written first");
        part(&t, &n, ledger->bytes[UMA_LEDGER_CACHE_MAPPED], " mapped by processes");
    }
    uma_layout_ink(p->text, p->style, UMA_INK_BOLD);
    uma_layout_wrap(p->text, p->style, t.data ? t.data : "?", 0, 0);
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
}

static void explained_line(const struct page *p) {
    const struct uma_page_cache *cache = &p->listing->snapshot.page_cache;
    _cleanup_text_ struct uma_text t = { 0 };
    uint64_t untold = uma_or(cache->unreadable, 0), told = 0;
    for (size_t i = 0; i < cache->n_files; i++)
        told += uma_usable(cache->files[i].resident.validity);
    uma_layout_bytes(&t, cache->explained);
    uma_text_append(&t, " (");
    uma_cache_percent_text(&t, cache->explained, cache->total);
    uma_text_printf(&t, " %%) of it explained by %llu file%s", (unsigned long long)told, told == 1 ? "" : "s");
    if (untold > 0)
        uma_text_printf(&t, ", of %llu %sthe kernel does not tell this user", (unsigned long long)untold, told ? "more " : "");
    if (p->listing->recorded && cache->source.time_ns > 0) {
        uma_text_append(&t, ", as recorded");
    } else if (!p->listing->recorded) {
        uma_text_append(&t, ", looked at in ");
        uma_cache_seconds_text(&t, p->listing->seconds);
    }
    uma_text_append(p->text, "  ");
    uma_layout_wrap(p->text, p->style, t.data ? t.data : "?", 2, 0);
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

static void file_group(struct uma_cached_group *group, const struct uma_cached_file **file, struct uma_arena *arena) {
    const struct uma_cached_file *f = *file;
    *group = (struct uma_cached_group){ .name = f->shown  ? f->shown
                                                : f->path ? f->path
                                                          : "?",
                                        .kind = f->kind,
                                        .n_files = 1,
                                        .files = file,
                                        .size = f->size,
                                        .resident = f->resident,
                                        .dirty = f->dirty,
                                        .used_ns = f->used_ns };
    group->mapped_by = uma_arena_array(arena, f->n_mapped_by, sizeof(*group->mapped_by));
    group->n_mapped_by = group->mapped_by ? f->n_mapped_by : 0;
    for (size_t i = 0; i < group->n_mapped_by; i++)
        group->mapped_by[i] = f->mapped_by[i].pid;
}

/* A row for each file, or for each model. Memory and cache are both among them, never in one row. */
static int rows_make(const struct page *p, size_t *ret_n, struct uma_cached_group **ret_rows) {
    const struct uma_page_cache *cache = &p->listing->snapshot.page_cache;
    struct uma_arena *arena = p->listing->snapshot.arena;
    if (!p->view->files)
        return uma_page_cache_group(cache, arena, ret_n, ret_rows);
    struct uma_cached_group *rows = uma_arena_array(arena, cache->n_files, sizeof(*rows));
    const struct uma_cached_file **pointers = uma_arena_array(arena, cache->n_files, sizeof(void *));
    if (!rows || !pointers)
        return -ENOMEM;
    for (size_t i = 0; i < cache->n_files; i++) {
        pointers[i] = &cache->files[i];
        file_group(&rows[i], &pointers[i], arena);
    }
    *ret_n = cache->n_files;
    *ret_rows = rows;
    return 0;
}

/* A row that says something: what is not in the cache is only counted. */
static bool worth_a_row(const struct uma_cached_group *row) {
    return !uma_usable(row->resident.validity) || row->resident.value > 0;
}

/* Give the name what the others leave; false when that is too little. */
static bool name_fits(const struct page *p, struct columns *c) {
    size_t used = 10 + (c->percent ? 5U : 0U) + (c->dirty ? 10U : 0U) + (c->size ? 10U : 0U) + (c->files ? 7U : 0U) + (c->used ? 8U : 0U) +
                  (c->users ? c->users + 2 : 0) + 2;
    c->name = p->style->columns > used ? p->style->columns - used : 1;
    return c->name >= NAME_COLUMNS_LEAST;
}

static struct columns columns_of(const struct page *p, const struct uma_cached_group *rows, size_t n) {
    struct columns c = { .percent = true, .size = true, .used = true };
    for (size_t i = 0; i < n; i++) {
        _cleanup_text_ struct uma_text users = { 0 };
        uma_cache_users_text(&users, &p->listing->snapshot.processes, rows[i].mapped_by, rows[i].n_mapped_by, USERS_COLUMNS_MOST);
        size_t width = uma_text_columns(users.data ? users.data : "");
        c.users = MAX_OF(c.users, width ? MAX_OF(width, (size_t)USERS_HEADING) : 0);
        c.dirty |= uma_usable(rows[i].dirty.validity) && rows[i].dirty.value > 0;
        c.files |= rows[i].n_files > 1;
    }
    /* what says least goes first on a narrow terminal */
    bool *const leaving[] = { &c.used, &c.files, &c.percent, &c.dirty, &c.size };
    for (size_t i = 0; i < ELEMENTS(leaving) && !name_fits(p, &c); i++)
        *leaving[i] = false;
    if (!name_fits(p, &c) && c.users > USERS_HEADING)
        c.users = USERS_HEADING;
    if (!name_fits(p, &c))
        c.users = 0;
    (void)name_fits(p, &c);
    if (!p->style->rows) /* no terminal: whoever reads it may look for a name */
        c.name = 0;
    return c;
}

static void right(struct uma_text *text, const char *s, size_t width) {
    size_t n = uma_text_columns(s);
    uma_text_pad(text, width > n ? width - n : 0);
    uma_text_append(text, s);
}

static void cell(struct uma_text *text, struct uma_text *scratch, size_t width) {
    right(text, scratch->data ? scratch->data : "?", width);
    uma_text_reset(scratch);
}

static void heading(const struct page *p, const struct columns *c, const char *resident, const char *name) {
    uma_layout_ink(p->text, p->style, UMA_INK_BOLD);
    right(p->text, resident, 10);
    if (c->percent)
        right(p->text, "%", 5);
    if (c->dirty)
        right(p->text, "dirty", 10);
    if (c->size)
        right(p->text, "size", 10);
    if (c->files)
        right(p->text, "files", 7);
    if (c->used)
        right(p->text, "used", 8);
    if (c->users) {
        uma_text_append(p->text, "  mapped by");
        uma_text_pad(p->text, c->users - USERS_HEADING);
    }
    uma_text_append(p->text, "  ");
    (void)uma_text_safe(p->text, name, c->name);
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
    uma_text_char(p->text, '\n');
}

/* The path or model, and what is special about it. */
static void name_cell(const struct page *p, const struct columns *c, const struct uma_cached_group *row) {
    const struct uma_cached_file *f = row->files[0];
    _cleanup_text_ struct uma_text tail = { 0 };
    if (!row->is_model && f->deleted)
        uma_text_append(&tail, " (deleted)");
    if (f->kind == UMA_CACHED_BLOCK_DEVICE)
        uma_text_append(&tail, " (block device)");
    if (f->container) {
        uma_text_append(&tail, " in ");
        (void)uma_text_safe(&tail, f->container, 16);
    }
    if (row->partly)
        uma_text_append(&tail, " (partly unknown)");
    size_t width = uma_text_columns(tail.data ? tail.data : "");
    if (c->name && width + 8 > c->name)
        width = 0;
    uma_cache_name_text(p->text, row->name, c->name ? c->name - width : 0);
    if (width)
        uma_text_append(p->text, tail.data);
    uma_text_char(p->text, '\n');
}

static void row_write(const struct page *p, const struct columns *c, const struct uma_cached_group *row) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_layout_bytes(&t, row->resident);
    cell(p->text, &t, 10);
    if (c->percent) {
        uma_cache_percent_text(&t, row->resident, row->size);
        cell(p->text, &t, 5);
    }
    if (c->dirty) {
        uma_layout_bytes(&t, row->dirty);
        cell(p->text, &t, 10);
    }
    if (c->size) {
        uma_layout_bytes(&t, row->size);
        cell(p->text, &t, 10);
    }
    if (c->files) {
        uma_text_printf(&t, "%zu", row->n_files);
        cell(p->text, &t, 7);
    }
    if (c->used) {
        uma_cache_age_text(&t, row->used_ns, p->now_ns);
        cell(p->text, &t, 8);
    }
    if (c->users) {
        size_t at = uma_layout_column(p->text) + 2;
        uma_text_append(p->text, "  ");
        uma_cache_users_text(p->text, &p->listing->snapshot.processes, row->mapped_by, row->n_mapped_by, c->users);
        uma_layout_to_column(p->text, at + c->users);
    }
    uma_text_append(p->text, "  ");
    name_cell(p, c, row);
}

static void rest_line(const struct page *p, const struct uma_cached_group *rows, size_t from, size_t n) {
    uint64_t bytes = 0;
    size_t unknown = 0;
    for (size_t i = from; i < n; i++) {
        if (uma_usable(rows[i].resident.validity))
            bytes += MIN_OF(rows[i].resident.value, UINT64_MAX - bytes);
        unknown += !uma_usable(rows[i].resident.validity) || rows[i].partly;
    }
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_printf(&t, "and %zu more with ", n - from);
    uma_text_bytes(&t, bytes);
    if (unknown > 0)
        uma_text_printf(&t, " and what is unknown of %zu", unknown);
    uma_text_append(&t, " (--limit N, 0 for all)");
    uma_text_append(p->text, "  ");
    uma_layout_wrap(p->text, p->style, t.data ? t.data : "?", 2, 0);
}

static void table(const struct page *p, const struct uma_cached_group *rows, size_t n, uint64_t limit, const char *resident,
                  const char *name) {
    size_t shown = limit && limit < n ? (size_t)limit : n;
    struct columns c = columns_of(p, rows, shown);
    uma_text_char(p->text, '\n');
    heading(p, &c, resident, name);
    for (size_t i = 0; i < shown; i++)
        row_write(p, &c, &rows[i]);
    if (shown < n)
        rest_line(p, rows, shown, n);
}

/* ---- what must be said beside the rows ---------------------------------------------------------------------- */

static void note(const struct page *p, const char *s) {
    uma_text_append(p->text, "  ");
    uma_layout_wrap(p->text, p->style, s, 2, 0);
}

static void idle_note(const struct page *p, const struct uma_cached_group *rows, size_t n) {
    uint64_t size = 0, files = 0;
    for (size_t i = 0; i < n; i++) {
        size += uma_usable(rows[i].size.validity) ? MIN_OF(rows[i].size.value, UINT64_MAX - size) : 0;
        files += rows[i].n_files;
    }
    if (files == 0)
        return;
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_printf(&t, "nothing of %llu other file%s (", (unsigned long long)files, files == 1 ? "" : "s");
    uma_text_bytes(&t, size);
    uma_text_append(&t, ") is in the cache");
    note(p, t.data ? t.data : "?");
}

static bool is_unmeasured(const struct uma_cached_file *file) {
    enum uma_validity v = file->resident.validity;
    return v != UMA_DENIED && v != UMA_ABSENT && !uma_usable(v);
}

/* The first few by name, and why. */
static void unmeasured_note(const struct page *p, uint64_t n) {
    enum { NAMED = 3 };
    const struct uma_page_cache *cache = &p->listing->snapshot.page_cache;
    _cleanup_text_ struct uma_text t = { 0 };
    uint64_t named = 0;
    uma_text_printf(&t, "?: %llu file%s could not be measured: ", (unsigned long long)n, n == 1 ? "" : "s");
    for (size_t i = 0; i < cache->n_files && named < NAMED; i++) {
        const struct uma_cached_file *f = &cache->files[i];
        if (!is_unmeasured(f))
            continue;
        const char *name = f->shown ? f->shown : f->path, *why = f->why ? f->why : uma_cache_unknown_reason(f->resident.validity);
        uma_text_printf(&t, "%s%s (%s)", named++ ? ", " : "", name ? name : "?", why ? why : "?");
    }
    if (n > named)
        uma_text_printf(&t, " and %llu more", (unsigned long long)(n - named));
    note(p, t.data ? t.data : "?");
}

static void unknown_note(const struct page *p) {
    const struct uma_page_cache *cache = &p->listing->snapshot.page_cache;
    uint64_t denied = 0, other = 0;
    for (size_t i = 0; i < cache->n_files; i++) {
        denied += cache->files[i].resident.validity == UMA_DENIED;
        other += is_unmeasured(&cache->files[i]);
    }
    if (denied > 0) {
        _cleanup_text_ struct uma_text t = { 0 };
        uma_text_printf(&t, "?: of %llu file%s ", (unsigned long long)denied, denied == 1 ? "" : "s");
        uma_text_append(&t, "the kernel tells only the owner, or who may write to it, how much is cached");
        uma_text_append(&t, p->view->privileged ? "" : "; root, or the files' owner, is told");
        note(p, t.data ? t.data : "?");
    }
    if (other > 0)
        unmeasured_note(p, other);
}

static void search_notes(const struct page *p) {
    const struct uma_page_cache *cache = &p->listing->snapshot.page_cache;
    const char *detail = cache->source.detail ? cache->source.detail : "";
    size_t n_why = cache->complete ? 0 : strcspn(detail, ";"); /* the first clause is why not all is there */
    _cleanup_text_ struct uma_text t = { 0 };
    if (p->view->interrupted)
        note(p, "incomplete: stopped by Ctrl-C; this is what was found by then");
    else if (!cache->complete) {
        uma_text_append(&t, "incomplete: ");
        bool late = n_why == strlen(UMA_PAGE_CACHE_LATE) && strncmp(detail, UMA_PAGE_CACHE_LATE, n_why) == 0;
        if (n_why > 0)
            uma_text_append_n(&t, detail, n_why);
        else
            uma_text_append(&t, "not all files are listed");
        if (late && !p->listing->recorded) {
            uma_text_append(&t, " after ");
            uma_text_duration(&t, p->listing->seconds);
            uma_text_append(&t, " (--timeout TIME); this is what was found by then");
        }
        note(p, t.data ? t.data : "?");
        uma_text_reset(&t);
    }
    const char *rest = detail + n_why + (n_why && detail[n_why] ? strlen("; ") : 0);
    if (*rest)
        note(p, rest);
    if (uma_usable(cache->left_out.validity) && cache->left_out.value > 0) {
        uma_text_printf(&t, "%llu smaller files with cache are not in the list", (unsigned long long)cache->left_out.value);
        note(p, t.data ? t.data : "?");
    }
}

/* ---- the page ----------------------------------------------------------------------------------------------- */

/* Three heaps, each in the order it came: cache, memory, and what is only counted. */
struct heaps {
    size_t n_cache, n_memory, n_idle;
    struct uma_cached_group *cache, *memory, *idle;
};

static int heaps_make(const struct page *p, struct heaps *heaps) {
    struct uma_arena *arena = p->listing->snapshot.arena;
    size_t n = 0;
    struct uma_cached_group *rows = NULL;
    int r = rows_make(p, &n, &rows);
    heaps->cache = uma_arena_array(arena, n, sizeof(*rows));
    heaps->memory = uma_arena_array(arena, n, sizeof(*rows));
    heaps->idle = uma_arena_array(arena, n, sizeof(*rows));
    if (r < 0 || !heaps->cache || !heaps->memory || !heaps->idle)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!worth_a_row(&rows[i]))
            heaps->idle[heaps->n_idle++] = rows[i];
        else if (rows[i].kind == UMA_CACHED_MEMORY)
            heaps->memory[heaps->n_memory++] = rows[i];
        else
            heaps->cache[heaps->n_cache++] = rows[i];
    }
    return 0;
}

void uma_cache_text(struct uma_text *text, const struct uma_cache_listing *listing, const struct uma_cache_view *view,
                    const struct uma_status_style *style) {
    struct page p = { text, listing, view, style, listing->snapshot.time_ns };
    struct heaps heaps = { 0 };
    total_line(&p);
    explained_line(&p);
    if (heaps_make(&p, &heaps) < 0) {
        text->failed = true;
        return;
    }
    if (heaps.n_cache > 0)
        table(&p, heaps.cache, heaps.n_cache, view->limit, "resident", view->files ? "FILE" : "MODEL OR FILE");
    if (heaps.n_memory > 0)
        table(&p, heaps.memory, heaps.n_memory, view->limit ? MIN_OF(view->limit, (uint64_t)MEMORY_ROWS) : 0, "memory",
              "FILES THAT ARE MEMORY (tmpfs, memfd)");
    _cleanup_text_ struct uma_text notes = { 0 };
    struct page beside = p;
    beside.text = &notes;
    if (heaps.n_memory > 0)
        note(&beside, "files that are memory are no cache: only removing them frees it");
    idle_note(&beside, heaps.idle, heaps.n_idle);
    unknown_note(&beside);
    search_notes(&beside);
    if (notes.length > 0) {
        uma_text_char(text, '\n');
        uma_text_append(text, notes.data);
    }
    text->failed |= notes.failed;
}
