/* SPDX-License-Identifier: MIT */
/*
 * Evicting what was read: mapped pages are paged out of the processes that map them (MADV_PAGEOUT from outside, or the helper inside), then the same part of the file
 * is dropped from the page cache (POSIX_FADV_DONTNEED), which takes what nobody maps. What that did is measured, not believed.
 */
#include "act/evict_file.h"
#include "act/page_out.h"
#include "base/units.h"
#include "cache/follow_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHUNKS_AT_ONCE = 256, /* 512 MiB with chunks of 2 MiB */
    RANGES_AT_ONCE = 64   /* of one process; what the helper takes in one message */
};

/* A part of one file, whole chunks or the read part of one. */
struct part {
    struct uma_followed *file;
    size_t first, n; /* chunks */
    uint64_t from, to;
    bool scattered; /* of what lies between from and to only some was read */
};

/* ---- which parts ------------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const struct uma_follow_chunk *x = *(struct uma_follow_chunk *const *)a, *y = *(struct uma_follow_chunk *const *)b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x < y ? -1 : x > y;
}

static struct uma_followed *followed_of(const struct uma_follower *f, const struct uma_follow_file *state) {
    for (size_t i = 0; i < f->n_files; i++)
        if (f->files[i]->state == state)
            return f->files[i];
    return NULL;
}

/*
 * Nine tenths between its ends were read: a tensor or several, with the gaps of alignment. Of a file that is only read it is not known where in it they are: all that
 * is there has lain as long.
 */
static bool is_scattered(const struct uma_follow_chunk *chunk) {
    return !chunk->file->by_count && chunk->held < (chunk->high - chunk->low) / 10 * 9;
}

static size_t parts_of(const struct uma_follower *f, struct uma_follow_chunk **chunks, size_t n, struct part *parts) {
    size_t n_parts = 0;
    qsort((void *)chunks, n, sizeof(struct uma_follow_chunk *), by_place);
    for (size_t i = 0; i < n; i++) {
        struct uma_follow_file *state = chunks[i]->file;
        size_t index = (size_t)(chunks[i] - state->chunks);
        uint64_t start = (uint64_t)index * f->window.chunk;
        struct part part = {
            .first = index, .n = 1, .from = start + chunks[i]->low, .to = start + chunks[i]->high, .scattered = is_scattered(chunks[i])
        };
        struct part *last = n_parts ? &parts[n_parts - 1] : NULL;
        if (last && last->file->state == state && last->to == part.from && !last->scattered && !part.scattered) {
            last->n++;
            last->to = part.to;
            continue;
        }
        part.file = last && last->file->state == state ? last->file : followed_of(f, state);
        if (part.file)
            parts[n_parts++] = part;
    }
    /* The end of a folio that reaches out of a chunk stayed when that chunk was evicted: it goes with the next. */
    for (size_t i = 0; i < n_parts; i++) {
        struct part *part = &parts[i];
        if (part->first > 0 && part->from == (uint64_t)part->first * f->window.chunk &&
            part->file->state->chunks[part->first - 1].evicted && !part->file->state->chunks[part->first - 1].held && !part->scattered)
            part->from -= f->window.chunk;
    }
    return n_parts;
}

/* ---- mapped pages ------------------------------------------------------------------------------------------------ */

static void judge_right(struct uma_follower *f, struct uma_follow_process *process) {
    struct uma_error err = { 0 };
    int r = uma_page_out_allowed(process->pid, &err);
    process->page_out = r < 0 ? UMA_FOLLOW_RIGHT_NO : UMA_FOLLOW_RIGHT_YES;
    if (r >= 0 || r == -ESRCH || f->told_rights || (f->options->helpers && uma_follow_helpers_has(f->options->helpers, process->pid)))
        return;
    f->told_rights = true;
    uma_follow_tell(f, "%s: mapped weights stay in memory until the job unmaps them; only what it reads with read(2) is evicted", err.text);
}

/* Page out present pages. Returns whether there was a means to do so. */
static bool page_out(struct uma_follower *f, struct uma_follow_process *process, const struct uma_address_range *ranges, size_t n) {
    if (process->page_out == UMA_FOLLOW_RIGHT_UNKNOWN)
        judge_right(f, process);
    if (process->page_out == UMA_FOLLOW_RIGHT_YES) {
        struct iovec vectors[RANGES_AT_ONCE];
        for (size_t i = 0; i < n; i++)
            // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
            vectors[i] = (struct iovec){ (void *)(uintptr_t)ranges[i].start, (size_t)(ranges[i].end - ranges[i].start) };
        ssize_t r = uma_page_out(process->pidfd, vectors, n, NULL);
        if (r >= 0) {
            f->report.means |= UMA_FOLLOW_PROCESS_MADVISE;
            return true;
        }
        if (r == -ESRCH)
            return true;                              /* it ended: nothing is mapped any more */
        process->page_out = UMA_FOLLOW_RIGHT_UNKNOWN; /* it became another program, or gave up a right */
    }
    if (f->options->helpers && uma_follow_helpers_page_out(f->options->helpers, process->pid, ranges, n) >= 0) {
        f->report.means |= UMA_FOLLOW_HELPER;
        return true;
    }
    return false;
}

/* File pages of the addresses [at, until) that are present. */
static uint64_t present(struct uma_follow_process *process, uint64_t at, uint64_t until) {
    uint64_t bytes = 0;
    while (at < until) {
        struct uma_address_range ranges[RANGES_AT_ONCE];
        uint64_t next;
        ssize_t n = uma_presence_read(&process->presence, at, until, ranges, RANGES_AT_ONCE, &next, NULL);
        if (n < 0 || next <= at)
            break;
        for (ssize_t i = 0; i < n; i++)
            bytes += ranges[i].end - ranges[i].start;
        at = next;
    }
    return bytes;
}

/*
 * Present pages of the file's bytes [from, to) in one process, paged out where `act`, counted either way. Only what is present and the file's is named, so private
 * copies are never touched.
 */
static uint64_t mapped_part(struct uma_follower *f, struct uma_follow_process *process, const struct uma_follow_mapping *mapping,
                            uint64_t from, uint64_t to, bool act, bool *means) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = 0;
    from = MAX_OF(from / page * page, mapping->offset);
    to = MIN_OF((to + page - 1) / page * page, mapping->offset + (mapping->end - mapping->start));
    if (from >= to)
        return 0;
    uint64_t start = mapping->start + (from - mapping->offset), until = mapping->start + (to - mapping->offset);
    if (!act)
        return present(process, start, until);
    for (uint64_t at = start, next; at < until; at = next) {
        struct uma_address_range ranges[RANGES_AT_ONCE];
        ssize_t n = uma_presence_read(&process->presence, at, until, ranges, RANGES_AT_ONCE, &next, NULL);
        if (n < 0 || next <= at)
            break;
        for (ssize_t i = 0; i < n; i++)
            bytes += ranges[i].end - ranges[i].start;
        if (n > 0)
            *means = page_out(f, process, ranges, (size_t)n) && *means;
    }
    process->paged_out += bytes - MIN_OF(bytes, present(process, start, until));
    return bytes;
}

/* The same in all processes. The largest of them: pages that two of them map are one. */
static uint64_t mapped_parts(struct uma_follower *f, const struct uma_followed *file, uint64_t from, uint64_t to, bool act, bool *means,
                             unsigned *ret_mappers) {
    uint64_t most = 0;
    unsigned mappers = 0;
    for (size_t i = 0; i < f->n_processes && file->mapped; i++) {
        struct uma_follow_process *process = &f->processes[i];
        uint64_t bytes = 0;
        for (size_t j = 0; j < process->n_mappings && !process->gone && !process->blind; j++)
            if (process->mappings[j].file == file)
                bytes += mapped_part(f, process, &process->mappings[j], from, to, act, means);
        mappers += bytes > 0;
        most = MAX_OF(most, bytes);
    }
    *ret_mappers = mappers;
    return most;
}

/* ---- one part ---------------------------------------------------------------------------------------------------- */

static void tell_why_stuck(struct uma_follower *f, const struct uma_followed *file, unsigned mappers) {
    if (mappers > 1 && !f->told_shared) {
        f->told_shared = true;
        uma_follow_tell(f,
                        "%.100s: two processes map it, and the kernel pages out only what one maps: it stays until one of them unmaps it",
                        file->shown);
    } else if (!file->owned && !f->told_owner) {
        f->told_owner = true;
        uma_follow_tell(f, "%.100s: this user neither owns nor may write it, so the kernel does not page it out: what is mapped stays",
                        file->shown);
    }
}

/* What is resident of a chunk's read part; where the kernel does not tell: what processes still map. */
static uint32_t left_of(struct uma_follower *f, const struct uma_followed *file, size_t index, bool ask) {
    const struct uma_follow_chunk *chunk = &file->state->chunks[index];
    uint64_t start = (uint64_t)index * f->window.chunk, from = start + chunk->low, length = chunk->high - chunk->low;
    if (ask) {
        struct uma_residency left;
        uma_residency_read(file->fd, &file->st, file->kind, from, length, &left);
        if (uma_usable(left.resident.validity))
            return (uint32_t)MIN_OF(left.resident.value, (uint64_t)chunk->held);
    }
    bool means = true;
    unsigned mappers;
    return (uint32_t)MIN_OF(mapped_parts(f, file, from, from + length, false, &means, &mappers), (uint64_t)chunk->held);
}

static uint64_t evict_part(struct uma_follower *f, const struct part *part) {
    struct uma_followed *file = part->file;
    unsigned mappers = 0;
    bool means = true;
    (void)mapped_parts(f, file, part->from, part->to, true, &means, &mappers);
    if (!part->scattered && uma_evict_range(file->fd, part->from, part->to - part->from) == 0)
        f->report.means |= UMA_FOLLOW_FADVISE;
    struct uma_residency left = { 0 };
    uma_residency_read(file->fd, &file->st, file->kind, part->from, part->to - part->from, &left);
    bool all_gone = uma_usable(left.resident.validity) && left.resident.value == 0;
    uint64_t before = file->state->held, stuck = 0;
    for (size_t i = 0; i < part->n; i++) {
        struct uma_follow_chunk *chunk = &file->state->chunks[part->first + i];
        uint32_t here = all_gone ? 0 : left_of(f, file, part->first + i, uma_usable(left.resident.validity) && !part->scattered);
        stuck += here;
        if (here && !means)
            uma_follow_give_up(&f->window, chunk);
        else
            uma_follow_evicted(&f->window, chunk, here, f->now_ns);
    }
    if (stuck > f->window.chunk / 2 && means)
        tell_why_stuck(f, file, mappers);
    return before - MIN_OF(before, file->state->held);
}

/* A file without a telling name is followed only when it is read from its beginning: what is read in the middle is a database or a data set. */
static bool stays_ignored(struct uma_followed *file) {
    if (file->named || file->state->chunks[0].read || file->ignored)
        return file->ignored;
    file->ignored = true;
    file->state->in_place = true;
    return true;
}

uint64_t uma_follow_evict(struct uma_follower *f, uint64_t target) {
    uint64_t gone = 0;
    while (f->window.held > target) {
        struct uma_follow_chunk *chunks[CHUNKS_AT_ONCE];
        struct part parts[CHUNKS_AT_ONCE];
        size_t n = uma_follow_choose(&f->window, target, f->now_ns, chunks, CHUNKS_AT_ONCE), kept = 0;
        for (size_t i = 0; i < n; i++) {
            struct uma_followed *file = followed_of(f, chunks[i]->file);
            if (file && !stays_ignored(file))
                chunks[kept++] = chunks[i];
            else
                uma_follow_give_up(&f->window, chunks[i]);
        }
        size_t n_parts = parts_of(f, chunks, kept, parts);
        for (size_t i = 0; i < n_parts; i++)
            gone += evict_part(f, &parts[i]);
        if (n == 0)
            break;
    }
    return gone;
}

void uma_follow_evict_rest(struct uma_follower *f) {
    for (size_t i = 0; i < f->n_files; i++)
        if (!f->files[i]->ignored)
            uma_follow_closed(&f->window, f->files[i]->state); /* once more what was stuck: who held it may have ended */
    (void)uma_follow_evict(f, 0);
    for (size_t i = 0; i < f->n_files; i++) {
        struct uma_followed *file = f->files[i];
        const struct uma_follow_file *state = file->state;
        if (file->ignored) /* and has no state */
            continue;
        uint64_t read = state->by_count ? MAX_OF(state->read, state->asked) : state->read;
        if (state->in_place || read < state->size - state->size / 100)
            continue;
        /* Read ahead and never asked for, and ends of folios; pages that anybody maps stay. */
        if (uma_evict_range(file->fd, 0, 0) == 0)
            f->report.means |= UMA_FOLLOW_FADVISE;
    }
}
