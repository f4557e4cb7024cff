/* SPDX-License-Identifier: MIT */
/*
 * Looking which parts of the weight files the job has read. Cheap first: around where reading was last seen; the whole of a file only when what was found
 * does not explain how much was read, and then as rarely as its cost asks (random order, several threads, several files at once).
 *
 * Mapped: a file page that is present in the process was touched (or lies within 64 KiB of one that was, which a fault maps along). Read by read(2): the position in
 * fdinfo moved. Read by pread(2), which moves nothing: a part that was not in memory before becomes resident. In memory before (a warm
 * cache): only the count of bytes read tells, and the file's order is assumed, which the window's distance makes safe for loaders that go
 * through a file roughly in order; where it is wrong, pages come back, which costs reading them again.
 */
#include "base/cleanup.h"
#include "base/units.h"
#include "cache/follow_arrivals.h"
#include "cache/follow_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    URGENT_TIMES = 8,      /* the tolerance, which is a sixteenth of the window */
    RANGES = 512,          /* of one look at a page map */
    FRONT_CHUNKS = 4,      /* looked at ahead of the front at least */
    DESCRIPTORS_CHEAP = 16 /* so many descriptors are looked at in every tick; of more only those that moved lately */
};
#define LATELY_NS UMA_SECOND_NS
/* Twice the 8 MiB of read_ahead_kb that fast disks are given; the default is 128 KiB. */
#define READ_AHEAD_MOST (16 * UMA_MIB)

/* Bytes whose reading is not found that are worth a sweep: a sixteenth of the window; a library or two are loaded in between as well. */
static uint64_t tolerance(const struct uma_follower *f) {
    uint64_t window = f->window.now == UINT64_MAX ? 256 * UMA_MIB : f->window.now;
    return MAX_OF(window / 16, (uint64_t)f->window.chunk);
}

static void explain(uint64_t *unexplained, uint64_t bytes) {
    *unexplained -= MIN_OF(*unexplained, bytes);
}

static uint64_t saw(struct uma_follower *f, struct uma_followed *file, size_t chunk, uint32_t bytes, uint32_t low, uint32_t high) {
    uint64_t grown = uma_follow_saw(&f->window, file->state, chunk, bytes, low, high, f->now_ns);
    f->grown += grown;
    return grown;
}

/* ---- mapped ------------------------------------------------------------------------------------------------------ */

/* Present bytes of one chunk, while the ranges go by. */
struct tally {
    size_t chunk;
    uint32_t bytes, low, high;
    uint64_t grown;
    size_t last; /* the last chunk of which anything is present; SIZE_MAX: none */
};

static void tally_close(struct uma_follower *f, struct uma_follow_mapping *mapping, struct tally *tally) {
    if (!tally->bytes)
        return;
    uint64_t grown = saw(f, mapping->file, tally->chunk, tally->bytes, tally->low, tally->high);
    if (grown) {
        mapping->front = (uint64_t)tally->chunk * f->window.chunk;
        mapping->moved_ns = f->now_ns;
    }
    tally->grown += grown;
    tally->last = tally->chunk;
    tally->bytes = 0;
}

/* File bytes [from, to) are present. */
static void tally_range(struct uma_follower *f, struct uma_follow_mapping *mapping, struct tally *tally, uint64_t from, uint64_t to) {
    to = MIN_OF(to, mapping->file->state->size);
    while (from < to) {
        size_t chunk = (size_t)(from / f->window.chunk);
        uint64_t start = (uint64_t)chunk * f->window.chunk, end = MIN_OF(to, start + f->window.chunk);
        if (chunk != tally->chunk || !tally->bytes) {
            tally_close(f, mapping, tally);
            tally->chunk = chunk;
            tally->low = (uint32_t)(from - start);
        }
        tally->bytes += (uint32_t)(end - from);
        tally->high = (uint32_t)(end - start);
        from = end;
    }
}

/* File bytes [from, to) of a mapping. Returns false when the process's memory is not there any more. */
static bool look_at(struct uma_follower *f, struct uma_follow_process *process, struct uma_follow_mapping *mapping, uint64_t from,
                    uint64_t to, struct tally *ret_tally) {
    struct tally tally = { .last = SIZE_MAX };
    uint64_t end = mapping->offset + (mapping->end - mapping->start);
    from = MAX_OF(from, mapping->offset);
    to = MIN_OF(to, end);
    uint64_t at = from < to ? mapping->start + (from - mapping->offset) : 0,
             until = from < to ? mapping->start + (to - mapping->offset) : 0;
    bool there = true;
    while (at < until) {
        struct uma_address_range ranges[RANGES];
        uint64_t next;
        ssize_t n = uma_presence_read(&process->presence, at, until, ranges, RANGES, &next, NULL);
        if (n < 0 || next <= at) {
            there = false;
            break;
        }
        for (ssize_t i = 0; i < n; i++)
            tally_range(f, mapping, &tally, ranges[i].start - mapping->start + mapping->offset,
                        ranges[i].end - mapping->start + mapping->offset);
        at = next;
    }
    tally_close(f, mapping, &tally);
    *ret_tally = tally;
    return there;
}

/* From the chunk of the front on, for as long as there is something at the end of what was looked at. */
static void look_at_front(struct uma_follower *f, struct uma_follow_process *process, struct uma_follow_mapping *mapping) {
    uint64_t chunk = f->window.chunk, from = mapping->front / chunk * chunk, step = FRONT_CHUNKS * chunk;
    uint64_t size = mapping->file->state->size;
    while (from < size) {
        struct tally tally;
        if (!look_at(f, process, mapping, from, from + step, &tally))
            return;
        explain(&process->unexplained_rss, tally.grown);
        if (tally.last == SIZE_MAX || (tally.last + 2) * chunk < from + step)
            return;
        from += step;
        step *= 2;
    }
}

static void look_mapped(struct uma_follower *f, struct uma_follow_process *process) {
    if (!process->n_mappings || process->blind) {
        process->unexplained_rss = process->size == process->maps_size ? 0 : process->unexplained_rss;
        return;
    }
    for (size_t i = 0; i < process->n_mappings; i++) {
        struct uma_follow_mapping *mapping = &process->mappings[i];
        if (!mapping->file->state->in_place && f->now_ns - mapping->moved_ns < LATELY_NS)
            look_at_front(f, process, mapping);
    }
    /* Past half of the window the cost does not count any more: it is paid once for so many bytes. */
    bool urgent = process->unexplained_rss > URGENT_TIMES * tolerance(f);
    if (process->unexplained_rss < tolerance(f) || !(urgent || uma_follow_due(&process->sweep, f->now_ns)))
        return;
    int64_t began = uma_follow_cost_ns();
    for (size_t i = 0; i < process->n_mappings; i++) {
        struct tally tally;
        if (!process->mappings[i].file->state->in_place && !look_at(f, process, &process->mappings[i], 0, UINT64_MAX, &tally))
            break;
    }
    process->unexplained_rss = 0; /* what a whole look did not find is not in weight files */
    uma_follow_done(&process->sweep, began, 0);
}

/* ---- read -------------------------------------------------------------------------------------------------------- */

/* Bytes [from, to) of the file were read, and lie in the page cache. */
static void saw_range(struct uma_follower *f, struct uma_followed *file, uint64_t from, uint64_t to) {
    uint64_t size = f->window.chunk;
    to = MIN_OF(to, file->state->size);
    while (from < to) {
        size_t chunk = (size_t)(from / size);
        uint64_t start = (uint64_t)chunk * size, end = MIN_OF(to, start + size);
        uint32_t low = (uint32_t)(from - start), high = (uint32_t)(end - start);
        (void)saw(f, file, chunk, high - low, low, high);
        from = end;
    }
}

/* Position of one descriptor. What moved explains that many bytes read; a jump that the bytes read do not cover was a seek. */
static void look_at_position(struct uma_follower *f, struct uma_follow_process *process, struct uma_follow_descriptor *descriptor,
                             uint64_t budget) {
    struct uma_fdinfo info;
    if (!uma_follow_descriptor_read(process, descriptor->number, &info))
        return;
    uint64_t position = info.position, before = descriptor->fresh ? 0 : descriptor->position;
    descriptor->fresh = false;
    descriptor->position = position;
    if (position <= before)
        return;
    descriptor->moved_ns = f->now_ns;
    uint64_t from = before;
    if (position - before > budget)
        from = position - budget;
    saw_range(f, descriptor->file, from, position);
    explain(&process->unexplained_rchar, position - from);
    uint64_t known = MIN_OF(position - from, process->rchar - process->asked);
    uma_follow_asked(&descriptor->file->state, 1, known);
    process->asked += known;
}

/*
 * Chunks of a file that was cold become resident one after the other, the kernel's readahead first: up to twice read_ahead_kb ahead of the reader (mm/readahead.c), which
 * is more than a small window. So residency says where reading may be, and only the count of bytes read says that it has got there.
 */
static void look_at_cold_front(struct uma_follower *f, struct uma_follow_process *process, struct uma_followed *file) {
    size_t n = file->state->n_chunks;
    while (file->read_front < n && process->unexplained_rchar) {
        size_t chunk = file->read_front;
        const struct uma_follow_chunk *state = &file->state->chunks[chunk];
        uint32_t length = uma_follow_chunk_length(&f->window, file->state, chunk), done = MAX_OF(state->high, state->pass);
        if (uma_follow_is_warm(file, chunk) || done >= length) {
            file->read_front++;
            continue;
        }
        uint64_t start = (uint64_t)chunk * f->window.chunk;
        struct uma_residency part;
        uma_residency_read(file->fd, &file->st, file->kind, start + done, length - done, &part);
        if (!uma_usable(part.resident.validity) || part.resident.value == 0)
            return;
        uint64_t bytes = MIN_OF(MIN_OF(part.resident.value, process->unexplained_rchar), (uint64_t)(length - done));
        saw_range(f, file, start + done, start + done + bytes);
        explain(&process->unexplained_rchar, bytes);
        if (done + bytes < length)
            return; /* more of it will come */
        file->read_front++;
    }
}

struct arrivals {
    size_t n, room;
    struct uma_follow_arrival *list;
};

static bool arrival_add(struct arrivals *arrivals, size_t chunk, uint64_t bytes) {
    if (arrivals->n == arrivals->room) {
        size_t wanted = MAX_OF(arrivals->room * 2, (size_t)256);
        void *larger = reallocarray(arrivals->list, wanted, sizeof *arrivals->list);
        if (!larger)
            return false;
        arrivals->list = larger;
        arrivals->room = wanted;
    }
    arrivals->list[arrivals->n++] = (struct uma_follow_arrival){ .chunk = chunk, .bytes = (uint32_t)bytes };
    return true;
}

/*
 * Every cold chunk: halves of which nothing is resident are passed over whole. What stayed when a chunk was evicted has not come since. The stack is deep enough
 * for 8 million chunks.
 */
static void sweep_cold(struct uma_follower *f, struct uma_follow_process *process, struct uma_followed *file) {
    struct span {
        size_t from, to;
    } stack[64] = { { 0, file->state->n_chunks } };
    struct arrivals arrivals = { 0 };
    size_t depth = 1;
    uint64_t size = f->window.chunk;
    while (depth) {
        struct span span = stack[--depth];
        uint64_t start = (uint64_t)span.from * size, end = MIN_OF((uint64_t)span.to * size, file->state->size);
        if (start >= end)
            continue;
        struct uma_residency part;
        uma_residency_read(file->fd, &file->st, file->kind, start, end - start, &part);
        if (!uma_usable(part.resident.validity) || part.resident.value == 0)
            continue;
        if (span.to - span.from > 1) {
            size_t middle = span.from + (span.to - span.from) / 2;
            stack[depth++] = (struct span){ middle, span.to };
            stack[depth++] = (struct span){ span.from, middle };
            continue;
        }
        const struct uma_follow_chunk *chunk = &file->state->chunks[span.from];
        if (uma_follow_is_warm(file, span.from) && !chunk->evicted)
            continue;
        uint64_t bytes = MIN_OF(part.resident.value - MIN_OF(part.resident.value, (uint64_t)chunk->left), end - start);
        if (bytes && !arrival_add(&arrivals, span.from, bytes))
            break;
    }
    f->grown += uma_follow_attribute(&f->window, file->state, arrivals.list, arrivals.n, &process->unexplained_rchar, f->now_ns);
    free(arrivals.list);
}

/* Bytes that nothing else explains, in file order over the chunks that were warm. */
static void assume_read(struct uma_follower *f, struct uma_followed *file, uint64_t *bytes) {
    size_t n = file->state->n_chunks;
    while (*bytes && file->assumed_front < n) {
        size_t chunk = file->assumed_front;
        uint32_t length = uma_follow_chunk_length(&f->window, file->state, chunk);
        const struct uma_follow_chunk *state = &file->state->chunks[chunk];
        uint64_t done = MAX_OF(file->assumed, (uint64_t)state->high);
        if (!uma_follow_is_warm(file, chunk) || state->evicted || done >= length) {
            file->assumed_front++;
            file->assumed = 0;
            continue;
        }
        uint64_t now = MIN_OF(*bytes, length - done);
        uint64_t start = (uint64_t)chunk * f->window.chunk;
        saw_range(f, file, start + done, start + done + now);
        file->assumed = done + now;
        *bytes -= now;
    }
}

/*
 * A file that the job was reading already when it was met: what was read by then lies in memory and is its beginning, as far as can be told. What follows was read
 * ahead, and is in memory because the reader is on its way there: it counts when the reader comes, as what is cold does.
 */
static void catch_up(struct uma_follower *f, struct uma_follow_process *process, struct uma_followed *file) {
    assume_read(f, file, &process->unexplained_rchar);
    if (!file->warm || (!file->assumed_front && !file->assumed))
        return;
    size_t until = MIN_OF(file->assumed_front + (size_t)(READ_AHEAD_MOST / f->window.chunk) + 1, file->state->n_chunks);
    for (size_t i = file->assumed_front; i < until; i++)
        file->warm[i / 32] &= ~(UINT32_C(1) << (i % 32));
}

/* What was asked for since the last look, and moved no position. */
static void share_asked(struct uma_follow_process *process) {
    uint64_t bytes = process->rchar - process->asked;
    if (!bytes)
        return;
    process->asked = process->rchar;
    _cleanup_free_
    struct uma_follow_file **files = calloc(process->n_descriptors, sizeof(struct uma_follow_file *));
    if (!files)
        return; /* it is not concluded then that they are read again */
    for (size_t i = 0; i < process->n_descriptors; i++)
        files[i] = process->descriptors[i].file->state;
    uma_follow_asked(files, process->n_descriptors, bytes);
}

static void look_read(struct uma_follower *f, struct uma_follow_process *process) {
    if (!process->n_descriptors || !process->had_descriptors) /* what it read before is of other files, or of an earlier pass */
        process->asked = process->rchar;
    process->had_descriptors = process->n_descriptors > 0;
    if (!process->n_descriptors) {
        if (process->fds_fresh)
            process->unexplained_rchar = 0;
        return;
    }
    uint64_t budget = process->unexplained_rchar + f->window.chunk;
    for (size_t i = 0; i < process->n_descriptors; i++) {
        struct uma_follow_descriptor *descriptor = &process->descriptors[i];
        if (i < DESCRIPTORS_CHEAP || descriptor->fresh || f->now_ns - descriptor->moved_ns < LATELY_NS || process->fds_fresh)
            look_at_position(f, process, descriptor, budget);
    }
    share_asked(process);
    bool all_new = true;
    for (size_t i = 0; i < process->n_descriptors && process->unexplained_rchar; i++) {
        struct uma_followed *file = process->descriptors[i].file;
        bool new = file->met_ns == f->now_ns;
        all_new = all_new && new;
        if (file->mapped || file->state->in_place)
            continue;
        if (new)
            catch_up(f, process, file);
        else if (file->warm)
            look_at_cold_front(f, process, file);
    }
    if (all_new) /* what was read before a file was met lay in memory then, or was another file */
        process->unexplained_rchar = 0;
    if (process->unexplained_rchar < tolerance(f))
        return;
    bool swept = true, urgent = process->unexplained_rchar > URGENT_TIMES * tolerance(f);
    for (size_t i = 0; i < process->n_descriptors; i++) {
        struct uma_followed *file = process->descriptors[i].file;
        if (file->mapped || !file->warm || file->state->in_place)
            continue;
        if (!urgent && !uma_follow_due(&file->sweep, f->now_ns)) {
            swept = false;
            continue;
        }
        int64_t began = uma_follow_cost_ns();
        sweep_cold(f, process, file);
        uma_follow_done(&file->sweep, began, 0);
    }
    /* Files that are read at the same time share what is left. */
    uint64_t left = process->unexplained_rchar;
    size_t open = process->n_descriptors;
    for (size_t i = 0; i < process->n_descriptors; i++, open--) {
        struct uma_followed *file = process->descriptors[i].file;
        uint64_t share = left / open;
        left -= share;
        if (!file->state->in_place)
            assume_read(f, file, &share);
        left += share;
    }
    process->unexplained_rchar = swept ? 0 : left; /* what a whole look did not find was not in weight files */
}

void uma_follow_look(struct uma_follower *f, struct uma_follow_process *process) {
    look_mapped(f, process);
    look_read(f, process);
}

/* ---- the peaks --------------------------------------------------------------------------------------------------- */

/* A file that the kernel says nothing of to this user makes the peak unknown for good: what the others had before it came would be taken for the whole's. */
static void raise_peak(struct uma_u64 *peak, uint64_t value) {
    if (peak->validity == UMA_DENIED)
        return;
    if (peak->validity != UMA_KNOWN || value > peak->value)
        *peak = (struct uma_u64){ value, UMA_KNOWN };
}

void uma_follow_measure(struct uma_follower *f) {
    uint64_t job = 0, cache = 0, all = 0;
    bool known = true, denied = false;
    for (size_t i = 0; i < f->n_processes; i++)
        job += f->processes[i].gone ? 0 : f->processes[i].anon + f->processes[i].shmem;
    for (size_t i = 0; i < f->n_files; i++) {
        struct uma_followed *file = f->files[i];
        if (file->ignored)
            continue;
        if (uma_follow_due(&file->residency, f->now_ns)) {
            int64_t began = uma_follow_cost_ns();
            struct uma_residency whole;
            uma_residency_read(file->fd, &file->st, file->kind, 0, 0, &whole);
            file->resident = whole.resident;
            file->evicted_then = file->state->evicted;
            uma_follow_done(&file->residency, began, 0);
        }
        known = known && uma_usable(file->resident.validity);
        denied = denied || file->resident.validity == UMA_DENIED;
        const struct uma_follow_file *state = file->state;
        uint64_t missing = state->evicted - MIN_OF(state->evicted, state->again);
        /* Between two readings of a file what was evicted is known and what came is not: the highest is what a fresh reading says. */
        uint64_t resident = file->resident.value - MIN_OF(file->resident.value, state->evicted - file->evicted_then);
        cache += resident;
        all += MIN_OF(resident + missing, state->size);
    }
    if (denied)
        f->report.cache_peak = f->report.peak_with = f->report.peak_without = (struct uma_u64){ 0, UMA_DENIED };
    if (!known)
        return;
    raise_peak(&f->report.cache_peak, cache);
    raise_peak(&f->report.peak_with, job + cache);
    raise_peak(&f->report.peak_without, job + all);
}
