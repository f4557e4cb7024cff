/* SPDX-License-Identifier: MIT */
/* The receipt of `umactl cache evict` for people: what came back, what stays and why, what was left alone; a line for each of the largest. */
#include "cmd/cache_evict.h"

#include "account/cached_models.h"
#include "account/values.h"
#include "base/units.h"
#include "cmd/layout.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_SHOWN = 10, USERS_SHOWN = 8 };
#define DELETED " (deleted)"
/* The lists of idle CPUs go up and down by some MiB of themselves. */
#define LISTS_WORTH_TELLING (16 * UMA_MIB)

struct page {
    struct uma_text *text;
    const struct uma_cache_evict_answer *answer;
    const struct uma_eviction *e;
    const struct uma_status_style *style;
};

/* Names in it are escaped already. */
static void note(const struct page *p, struct uma_text *t) {
    uma_text_append(p->text, "  ");
    uma_layout_wrap_escaped(p->text, p->style, t->data ? t->data : "?", 2, 0);
    uma_text_reset(t);
}

static const char *plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

/* ---- the head ----------------------------------------------------------------------------------------------- */

static void headline(const struct page *p) {
    const struct uma_eviction *e = p->e;
    _cleanup_text_ struct uma_text t = { 0 };
    bool dry = p->answer->options->dry_run;
    if (e->interrupted)
        uma_text_append(&t, "Stopped by a signal. ");
    if (e->n_files == 0)
        uma_text_append(&t,
                        e->walk.links_outside ? "There was nothing to evict but links that lead elsewhere" : "There was nothing to evict");
    else if (e->before == 0 && e->n_unknown == 0)
        uma_text_append(&t, "Nothing is in the cache");
    else if (e->n_failed == e->n_files && e->evicted == 0)
        uma_text_append(&t, "Evicted nothing");
    else if (e->n_unknown == e->n_files)
        uma_text_append(&t, dry ? "Would evict ? (how much is unknown)" : "Evicted ? (how much is unknown)");
    else {
        uma_text_append(&t, dry ? "Would evict up to " : "Evicted ");
        uma_text_bytes(&t, dry ? e->before : e->evicted);
        if (e->n_unknown > 0)
            uma_text_append(&t, " and an unknown amount");
    }
    if (e->n_files > 0)
        uma_text_printf(&t, " of %llu file%s", (unsigned long long)e->n_files, plural(e->n_files));
    uma_text_append(&t, " in ");
    uma_cache_seconds_text(&t, e->seconds);
    uma_layout_ink(p->text, p->style, UMA_INK_BOLD);
    uma_layout_wrap(p->text, p->style, t.data ? t.data : "?", 0, 0);
    uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
}

/* "MemFree 20.5 GiB -> 20.6 GiB (+52.5 MiB)": three digits do not show what a small file gives back. */
static void change_text(struct uma_text *t, const char *what, struct uma_u64 before, struct uma_u64 after) {
    uma_text_append(t, what);
    uma_text_char(t, ' ');
    uma_layout_bytes(t, before);
    uma_text_append(t, " -> ");
    uma_layout_bytes(t, after);
    if (!uma_usable(before.validity) || !uma_usable(after.validity) || before.value == after.value)
        return;
    uma_text_append(t, after.value > before.value ? " (+" : " (-");
    uma_text_bytes(t, after.value > before.value ? after.value - before.value : before.value - after.value);
    uma_text_char(t, ')');
}

static void memory_line(const struct page *p) {
    const struct uma_cache_memory *b = &p->answer->before, *a = &p->answer->after;
    _cleanup_text_ struct uma_text t = { 0 };
    change_text(&t, "MemFree", b->free, a->free);
    change_text(&t, ", page cache", b->page_cache, a->page_cache);
    note(p, &t);
    /* freed pages go to lists of their CPU first, which MemFree does not count */
    bool known = uma_usable(a->percpu_free.validity) && uma_usable(b->percpu_free.validity);
    if (known && a->percpu_free.value > uma_add(b->percpu_free.value, LISTS_WORTH_TELLING)) {
        uma_text_bytes(&t, a->percpu_free.value - b->percpu_free.value);
        uma_text_append(&t, " more is free in lists of the CPUs, which MemFree does not count");
        note(p, &t);
    }
}

/* ---- what stays --------------------------------------------------------------------------------------------- */

struct users {
    int32_t pids[USERS_SHOWN];
    size_t n, more;
};

struct kept {
    uint64_t mapped, locked, dirty, in_use; /* bytes of files, each counted once: as dirty, else as locked, else as mapped */
    struct users mappers, lockers;
};

static void add_users(struct users *users, const int32_t *pids, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool there = false;
        for (size_t k = 0; k < users->n && !there; k++)
            there = users->pids[k] == pids[i];
        if (!there && users->n < USERS_SHOWN)
            users->pids[users->n++] = pids[i];
        else
            users->more += !there;
    }
}

static struct kept kept_of(const struct uma_eviction *e) {
    struct kept kept = { 0 };
    for (size_t i = 0; i < e->n; i++) {
        const struct uma_evicted_file *f = &e->files[i];
        unsigned why = uma_evicted_file_kept(f);
        uint64_t dirty = why & UMA_KEPT_DIRTY ? MIN_OF(uma_or(f->dirty, 0), uma_or(f->after, 0)) : 0;
        uint64_t rest = uma_or(f->after, 0) - dirty, locked = why & UMA_KEPT_LOCKED ? MIN_OF(f->locked, rest) : 0;
        kept.dirty += dirty;
        kept.locked += locked;
        rest -= locked;
        if (why & UMA_KEPT_MAPPED)
            kept.mapped += rest;
        else
            kept.in_use += rest;
        add_users(&kept.lockers, f->locked_by, f->n_locked_by);
        if (rest > 0)
            add_users(&kept.mappers, f->mapped_by, f->n_mapped_by);
    }
    return kept;
}

static void users_line(const struct page *p, uint64_t bytes, const char *why, const struct users *users) {
    _cleanup_text_ struct uma_text t = { 0 };
    if (bytes == 0)
        return;
    uma_text_bytes(&t, bytes);
    uma_text_append(&t, why);
    uma_cache_users_text(&t, &p->answer->processes, users->pids, users->n, 0);
    if (users->more)
        uma_text_append(&t, " and others");
    note(p, &t);
}

static void kept_lines(const struct page *p) {
    const struct uma_eviction *e = p->e;
    _cleanup_text_ struct uma_text t = { 0 };
    struct kept kept = kept_of(e);
    bool dry = p->answer->options->dry_run;
    users_line(p, kept.locked, dry ? " of it is locked in memory, and stays: by " : " kept: locked in memory by ", &kept.lockers);
    users_line(p, kept.mapped, dry ? " of it is in files that are mapped, and what is mapped stays: by " : " kept: mapped by ",
               &kept.mappers);
    if (kept.dirty > 0) {
        uma_text_bytes(&t, kept.dirty);
        uma_text_append(&t, dry ? " of it is dirty and would be written out first" : " kept: dirty, not on storage yet");
        if (!dry && p->answer->options->no_sync)
            uma_text_append(&t, " (--no-sync)");
        note(p, &t);
    }
    if (kept.in_use > 0 && !dry) {
        uma_text_bytes(&t, kept.in_use);
        uma_text_append(&t, !e->mapped_known || e->users_denied
                                ? " kept: mapped or locked by a process that this user cannot look into, or read again meanwhile"
                                : " kept: read again meanwhile, or in use by the kernel");
        note(p, &t);
    }
    if (e->written > 0) {
        uma_text_bytes(&t, e->written);
        uma_text_append(&t, " was dirty and was written out first");
        note(p, &t);
    }
}

static void unknown_lines(const struct page *p) {
    const struct uma_eviction *e = p->e;
    _cleanup_text_ struct uma_text t = { 0 };
    if (e->n_unknown == 0)
        return;
    uma_text_printf(&t, "?: of %llu file%s ", (unsigned long long)e->n_unknown, plural(e->n_unknown));
    uma_text_append(&t, "the kernel tells only the owner, or who may write to it, how much is cached");
    struct uma_u64 before = p->answer->before.free, after = p->answer->after.free;
    if (!p->answer->options->dry_run && uma_usable(before.validity) && uma_usable(after.validity)) {
        uma_text_append(&t, "; MemFree ");
        uma_text_append(&t, after.value >= before.value ? "rose by " : "fell by ");
        uma_text_bytes(&t, after.value >= before.value ? after.value - before.value : before.value - after.value);
    }
    note(p, &t);
}

/* Where it is not told what is dirty, nothing is written, and what is dirty stays without being seen. */
static void dirty_unknown_line(const struct page *p) {
    const struct uma_eviction *e = p->e;
    const struct uma_cache_evict_options *options = p->answer->options;
    _cleanup_text_ struct uma_text t = { 0 };
    if (e->n_dirty_unknown == 0)
        return;
    uma_text_printf(&t, "?: whether all of %llu file%s is on storage is not known %s; ", (unsigned long long)e->n_dirty_unknown,
                    plural(e->n_dirty_unknown), e->n_unknown ? "to this user" : "here");
    uma_text_append(&t, options->dry_run && options->sync      ? "--sync writes it first"
                        : options->dry_run && options->no_sync ? "with --no-sync such a file is left alone"
                                                               : "data that is not written stays: --sync writes it first");
    note(p, &t);
}

/* ---- what was left alone ------------------------------------------------------------------------------------ */

static void count_line(const struct page *p, uint64_t n, const char *one, const char *many) {
    if (n == 0)
        return;
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_printf(&t, "%llu %s", (unsigned long long)n, n == 1 ? one : many);
    note(p, &t);
}

/* "`umactl cache evict WORD`", where that can be written as one. */
static void command_text(struct uma_text *t, const char *before, const char *options, const char *word) {
    _cleanup_text_ struct uma_text quoted = { 0 };
    if (word && uma_shell_word(&quoted, word))
        uma_text_printf(t, "%s`umactl cache evict %s%s`", before, options, quoted.data);
}

static void links_line(const struct page *p) {
    const struct uma_eviction *e = p->e;
    uint64_t n = e->walk.links_outside;
    _cleanup_text_ struct uma_text t = { 0 };
    if (n == 0)
        return;
    uma_text_printf(&t, "%llu %s", (unsigned long long)n,
                    n == 1 ? "link leads out of what was named, and was not followed"
                           : "links lead out of what was named, and were not followed");
    if (e->hub_folder) {
        uma_text_append(&t, ": a snapshot's files are in the folder of its model");
        command_text(&t, "; ", "", e->hub_folder);
        command_text(&t, " or ", "--model ", e->hub_model);
    } else if (e->n_files == 0)
        uma_text_append(&t, n == 1 ? ": name the link itself, or what it leads to" : ": name a link itself, or what it leads to");
    note(p, &t);
}

static void left_alone_lines(const struct page *p) {
    const struct uma_eviction *e = p->e;
    _cleanup_text_ struct uma_text t = { 0 };
    if (e->memory_files > 0) {
        uma_text_printf(&t, "%llu file%s left alone: the pages are the file (tmpfs, memfd), and only removing it frees the ",
                        (unsigned long long)e->memory_files, plural(e->memory_files));
        uma_text_bytes(&t, e->memory_bytes);
        note(p, &t);
    }
    if (e->n_failed > 0) {
        uma_text_printf(&t, "%llu file%s failed, the first: ", (unsigned long long)e->n_failed, plural(e->n_failed));
        (void)uma_text_safe(&t, e->failed_at, 0);
        note(p, &t);
    }
    count_line(p, e->denied + e->walk.denied, "file or folder that this user may not read", "files or folders that this user may not read");
    count_line(p, e->vanished + e->walk.vanished, "file changed or vanished meanwhile", "files changed or vanished meanwhile");
    links_line(p);
    count_line(p, e->walk.mounts_skipped, "mount below was not entered", "mounts below were not entered");
    count_line(p, e->smaller, "file is not larger than that", "files are not larger than that");
    if (e->walk.cut && !e->interrupted) {
        uma_text_append(&t, e->walk.too_many_open ? "incomplete: no more files may be open at a time (ulimit -n)"
                                                  : "incomplete: folders lie too deep");
        note(p, &t);
    }
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

struct row {
    const char *name;
    bool deleted;
    size_t files, unknown;
    uint64_t before, evicted, kept;
};

static const char *name_of(const struct uma_evicted_file *f) {
    return f->model ? f->model : f->shown ? f->shown : f->path;
}

static int by_model(const void *a, const void *b) {
    const struct uma_evicted_file *x = *(const struct uma_evicted_file *const *)a, *y = *(const struct uma_evicted_file *const *)b;
    if (!x->model != !y->model)
        return x->model ? -1 : 1;
    return strcmp(name_of(x), name_of(y));
}

static int by_before(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    if (x->before != y->before)
        return x->before < y->before ? 1 : -1;
    if (x->unknown != y->unknown)
        return x->unknown < y->unknown ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* A row for each model, and for each file that is no model's. malloc'ed. */
static size_t rows_make(const struct uma_eviction *e, struct row **ret_rows) {
    _cleanup_free_
    const struct uma_evicted_file **files = calloc(e->n + 1, sizeof(void *));
    struct row *rows = calloc(e->n + 1, sizeof(*rows));
    size_t n = 0;
    *ret_rows = rows;
    if (!files || !rows)
        return 0;
    for (size_t i = 0; i < e->n; i++)
        files[i] = &e->files[i];
    qsort(files, e->n, sizeof(void *), by_model);
    for (size_t i = 0; i < e->n; i++) {
        const struct uma_evicted_file *f = files[i];
        bool more = i > 0 && f->model && files[i - 1]->model && strcmp(f->model, files[i - 1]->model) == 0;
        struct row *row = &rows[more ? n - 1 : n++];
        row->name = name_of(f);
        row->deleted = !f->model && f->deleted;
        row->files++;
        row->unknown += !uma_usable(f->before.validity);
        row->before += uma_or(f->before, 0);
        row->evicted += uma_or(f->evicted, 0);
        row->kept += uma_or(f->after, 0);
    }
    qsort(rows, n, sizeof(*rows), by_before);
    while (n > 0 && rows[n - 1].before == 0 && rows[n - 1].unknown == 0)
        n--; /* nothing of it was in the cache */
    return n;
}

static void cell(struct uma_text *text, uint64_t bytes, bool is_known) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_layout_bytes(&t, (struct uma_u64){ bytes, is_known ? UMA_KNOWN : UMA_UNKNOWN });
    size_t width = uma_text_columns(t.data ? t.data : "");
    uma_text_pad(text, width < 10 ? 10 - width : 0);
    uma_text_append(text, t.data ? t.data : "?");
}

static void table(const struct page *p) {
    struct row *rows = NULL;
    bool dry = p->answer->options->dry_run;
    size_t n = rows_make(p->e, &rows), shown = MIN_OF(n, (size_t)ROWS_SHOWN);
    if (!rows) {
        p->text->failed = true;
        return;
    }
    if (n > 0) {
        uma_layout_ink(p->text, p->style, UMA_INK_BOLD);
        if (dry)
            uma_text_printf(p->text, "\n%10s%7s  MODEL OR FILE", "resident", "files");
        else
            uma_text_printf(p->text, "\n%10s%10s%10s%7s  MODEL OR FILE", "before", "evicted", "kept", "files");
        uma_layout_ink(p->text, p->style, UMA_INK_PLAIN);
        uma_text_char(p->text, '\n');
    }
    for (size_t i = 0; i < shown; i++) {
        bool is_known = rows[i].unknown < rows[i].files;
        cell(p->text, rows[i].before, is_known);
        if (!dry) {
            cell(p->text, rows[i].evicted, is_known);
            cell(p->text, rows[i].kept, is_known);
        }
        uma_text_printf(p->text, "%7zu  ", rows[i].files);
        /* whoever reads a pipe may look for a name: only a terminal's lines are cut */
        size_t tail = rows[i].deleted ? strlen(DELETED) : 0;
        uma_cache_name_text(p->text, rows[i].name, p->style->rows ? MAX_OF(p->style->columns, 47U + (unsigned)tail) - 39 - tail : 0);
        uma_text_append(p->text, rows[i].deleted ? DELETED : "");
        uma_text_char(p->text, '\n');
    }
    size_t more = n - shown + (p->e->folded_before > 0 ? (size_t)p->e->folded_files : 0);
    if (more > 0) {
        uint64_t bytes = dry ? p->e->folded_before : p->e->folded_evicted;
        for (size_t i = shown; i < n; i++)
            bytes += dry ? rows[i].before : rows[i].evicted;
        uma_text_printf(p->text, "  and %zu more with ", more);
        uma_text_bytes(p->text, bytes);
        uma_text_append(p->text, dry ? "\n" : " evicted\n");
    }
    free(rows);
}

void uma_cache_evict_text(struct uma_text *text, const struct uma_cache_evict_answer *answer, const struct uma_status_style *style) {
    struct page p = { text, answer, &answer->eviction, style };
    headline(&p);
    if (!answer->options->dry_run)
        memory_line(&p);
    kept_lines(&p);
    unknown_lines(&p);
    dirty_unknown_line(&p);
    left_alone_lines(&p);
    table(&p);
}
