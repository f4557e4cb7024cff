/* SPDX-License-Identifier: MIT */
#include "window/release.h"

#include "window/maps.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT /* Linux 5.4; libc's headers may be older */
#define MADV_PAGEOUT 21
#endif

/* Bits of an entry (Documentation/admin-guide/mm/pagemap.rst). */
#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define OF_FILE (UINT64_C(1) << 61) /* a page of a file or shared memory, not a private copy */

enum {
    PIECE_PAGES = 2048
}; /* 8 MiB of 4 KiB pages: what is looked at, released and, for dropping, locked at a time; some hundred microseconds */

struct piece {
    uint64_t start;
    unsigned pages;
    uint64_t entries[PIECE_PAGES];
};

static bool is_private_copy(uint64_t entry) {
    return (entry & SWAPPED) || ((entry & PRESENT) && !(entry & OF_FILE));
}

/* Does the kernel's view of the piece hold a page of the file that is mapped here? */
static bool is_mapped(uint64_t entry) {
    return (entry & PRESENT) && (entry & OF_FILE);
}

static int look(const struct window_release *r, struct piece *p) {
    size_t size = p->pages * sizeof(p->entries[0]), got = 0;
    while (got < size) {
        ssize_t n = pread(r->pagemap_fd, (char *)p->entries + got, size - got, (off_t)(p->start / r->page * sizeof(p->entries[0]) + got));
        if (n <= 0)
            return n < 0 ? errno : ENODATA;
        got += (size_t)n;
    }
    return 0;
}

static unsigned count(const struct piece *p, bool (*is)(uint64_t entry)) {
    unsigned n = 0;
    for (unsigned i = 0; i < p->pages; i++)
        n += is(p->entries[i]);
    return n;
}

/* madvise(2) on every run of pages with at least one of the file's in it, and no private copy. 0, or the errno. */
static int advise(const struct window_release *r, const struct piece *p, int advice) {
    int error = 0;
    for (unsigned i = 0; i < p->pages; i++) {
        unsigned begin = i, mapped = 0;
        for (; i < p->pages && !is_private_copy(p->entries[i]); i++)
            mapped += is_mapped(p->entries[i]);
        if (!mapped)
            continue;
        uint64_t start = p->start + begin * r->page;
        void *address;
        (void)memcpy(&address, &start, sizeof(address)); /* a number that the kernel gave becomes an address again */
        if (madvise(address, (i - begin) * r->page, advice) < 0 && !error)
            error = errno;
    }
    return error;
}

/* Is the piece inside a mapping that was made read-only, that nobody changed since, and that is still what the kernel has there? Under the lock. */
static bool may_drop(const struct window_release *r, const struct piece *p) {
    uint64_t end = p->start + p->pages * r->page;
    const struct window_mapping *m = window_book_find(r->book, p->start, end);
    struct window_area area;
    return m && window_maps_area(r->maps_fd, p->start, &area) && area.start <= p->start && end <= area.end && area.file && !area.writable &&
           area.shared == (m->shared != 0) && area.offset + (p->start - area.start) == m->offset + (p->start - m->start);
}

/* Drop what the piece maps from the page table; the file still has it. False: that may not be done here. */
static bool drop(const struct window_release *r, struct piece *p, int *ret_error) {
    if (!window_lock_by_helper(r->lock))
        return false;
    bool may = may_drop(r, p);
    if (may) {
        int error = look(r, p);
        *ret_error = error ? error : advise(r, p, MADV_DONTNEED);
    }
    window_unlock(r->lock);
    return may;
}

static void note(struct window_released *to, enum uma_window_refusal refusal, int error) {
    if (to->refusal != UMA_WINDOW_OK)
        return;
    to->refusal = refusal;
    to->error = error;
}

/* What madvise(2) says: EINVAL for locked, huge TLB and device mappings, ENOMEM for a hole. */
static void note_error(struct window_released *to, int error) {
    note(to, error == EINVAL ? UMA_WINDOW_LOCKED : error == ENOMEM ? UMA_WINDOW_NOT_MAPPED : UMA_WINDOW_FAILED, error);
}

static void release_piece(const struct window_release *r, const struct window_area *area, struct piece *p, struct window_released *to) {
    int error = look(r, p);
    unsigned before = error ? 0 : count(p, is_mapped);
    /* Never loses anything, whatever changes meanwhile; does nothing, without an error, for a file that the user neither owns nor may write (mm/madvise.c). */
    if (!error)
        error = advise(r, p, MADV_PAGEOUT);
    if (!error)
        error = look(r, p);
    if (error) {
        note_error(to, error);
        return;
    }
    unsigned left = count(p, is_mapped), copies = count(p, is_private_copy);
    to->released += (p->pages - left - copies) * r->page;
    if (!left)
        return;
    if (area->writable) {
        /* Pages that another processor still holds in its batch for the LRU lists (31 at most: PAGEVEC_SIZE of mm/swap.c) are passed over, and go another time. */
        if (left < before)
            return;
        note(to, area->shared ? UMA_WINDOW_FAILED : UMA_WINDOW_PRIVATE_WRITABLE, EPERM);
        return;
    }
    if (!drop(r, p, &error))
        note(to, UMA_WINDOW_FAILED, EPERM);
    else if (error)
        note_error(to, error);
    else
        to->released += left * r->page;
}

void window_release_range(const struct window_release *r, struct uma_window_range range, struct window_released *ret_released) {
    struct window_released to = { .refusal = UMA_WINDOW_OK };
    struct piece p = { 0 };
    uint64_t end = range.start + range.length;
    if (range.length == 0 || end < range.start || range.start % r->page != 0 || range.length % r->page != 0) {
        note(&to, UMA_WINDOW_FAILED, EINVAL);
        *ret_released = to;
        return;
    }
    for (uint64_t at = range.start; at < end;) {
        struct window_area area;
        if (!window_maps_area(r->maps_fd, at, &area) || area.start >= end) {
            note(&to, UMA_WINDOW_NOT_MAPPED, ENOMEM);
            break;
        }
        uint64_t stop = area.end < end ? area.end : end;
        if (area.start > at || !area.file)
            note(&to, UMA_WINDOW_NOT_MAPPED, ENOMEM);
        at = area.start > at ? area.start : at;
        for (; area.file && at < stop; at += p.pages * r->page) {
            uint64_t pages = (stop - at) / r->page;
            p.start = at;
            p.pages = pages < PIECE_PAGES ? (unsigned)pages : PIECE_PAGES;
            release_piece(r, &area, &p, &to);
        }
        at = stop;
    }
    *ret_released = to;
}
