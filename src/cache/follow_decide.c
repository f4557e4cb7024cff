/* SPDX-License-Identifier: MIT */
#include "cache/follow_decide.h"

#include "base/units.h"

#include <stdlib.h>

/* Of the bytes evicted in one pass, a tenth that comes back says that the weights are used where they lie: a copying loader reads each byte once. */
enum { AGAIN_SHARE = 10 };
/* And an absolute floor, a sixteenth of the window and eight chunks: the first few of a pass are no evidence yet, and a guess that was wrong costs as many. */
enum { AGAIN_LEAST_OF_WINDOW = 16, AGAIN_LEAST_CHUNKS = 8 };
#define AGAIN_LEAST_WITHOUT_WINDOW (16 * UMA_MIB)

/*
 * A file that is only read must have been asked for a quarter more than it has for each reader: headers are read twice, and the count is of all
 * that a process reads.
 */
enum { ASKED_MORE_SHARE = 4 };

/* More processes read one file in turn, not at once; the bytes of a chunk that they read fit into 32 bits. */
#define READERS_MAX 1024u
enum { WINDOW_CHUNKS = 16, FAILURES_MAX = 3, LEFT_SHARE = 8 };

void uma_follow_window_begin(struct uma_follow_window *window, uint64_t limit) {
    uint32_t chunk = UMA_FOLLOW_CHUNK_MOST;
    while (limit && chunk > UMA_FOLLOW_CHUNK_LEAST && limit / chunk < WINDOW_CHUNKS)
        chunk /= 2;
    uint64_t most = limit ? limit : UINT64_MAX;
    *window = (struct uma_follow_window){ .limit = most, .now = most, .chunk = chunk };
}

int uma_follow_file_new(const struct uma_follow_window *window, uint64_t size, struct uma_follow_file **ret_file, struct uma_error *err) {
    if (size > UMA_FOLLOW_FILE_MAX)
        return uma_error_text(err, EFBIG, "a file of more than 16 TiB is not followed");
    struct uma_follow_file *file = calloc(1, sizeof *file);
    if (!file)
        return uma_error_set(err, ENOMEM, "following a file");
    file->size = size;
    file->n_chunks = (size_t)((size + window->chunk - 1) / window->chunk);
    file->chunks = calloc(MAX_OF(file->n_chunks, (size_t)1), sizeof *file->chunks);
    if (!file->chunks) {
        free(file);
        return uma_error_set(err, ENOMEM, "following a file");
    }
    for (size_t i = 0; i < file->n_chunks; i++)
        file->chunks[i].file = file;
    *ret_file = file;
    return 0;
}

uint32_t uma_follow_chunk_length(const struct uma_follow_window *window, const struct uma_follow_file *file, size_t index) {
    uint64_t start = (uint64_t)index * window->chunk;
    return start >= file->size ? 0 : (uint32_t)MIN_OF(file->size - start, (uint64_t)window->chunk);
}

static unsigned readers_of(const struct uma_follow_file *file) {
    return MIN_OF(MAX_OF(file->readers, 1u), READERS_MAX);
}

uint64_t uma_follow_unread(const struct uma_follow_window *window, const struct uma_follow_file *file, size_t index) {
    uint64_t readable = (uint64_t)uma_follow_chunk_length(window, file, index) * readers_of(file);
    return readable - MIN_OF(readable, (uint64_t)file->chunks[index].pass);
}

/* ---- the list, oldest growth first --------------------------------------------------------------------------- */

static void list_remove(struct uma_follow_window *window, struct uma_follow_chunk *chunk) {
    if (!chunk->listed)
        return;
    *(chunk->older ? &chunk->older->newer : &window->oldest) = chunk->newer;
    *(chunk->newer ? &chunk->newer->older : &window->newest) = chunk->older;
    chunk->older = chunk->newer = NULL;
    chunk->listed = false;
    window->held -= chunk->held;
}

static void list_append(struct uma_follow_window *window, struct uma_follow_chunk *chunk) {
    chunk->older = window->newest;
    *(window->newest ? &window->newest->newer : &window->oldest) = chunk;
    window->newest = chunk;
    chunk->listed = true;
    window->held += chunk->held;
}

struct uma_follow_file *uma_follow_file_free(struct uma_follow_window *window, struct uma_follow_file *file) {
    if (!file)
        return NULL;
    for (size_t i = 0; i < file->n_chunks; i++)
        list_remove(window, &file->chunks[i]);
    free(file->chunks);
    free(file);
    return NULL;
}

/* ---- what is seen -------------------------------------------------------------------------------------------- */

static void leave_in_place(struct uma_follow_window *window, struct uma_follow_file *file) {
    file->in_place = true;
    for (size_t i = 0; i < file->n_chunks; i++)
        list_remove(window, &file->chunks[i]);
}

static void judge_reuse(struct uma_follow_window *window, struct uma_follow_file *file) {
    if (file->by_count && file->asked / readers_of(file) <= file->size + file->size / ASKED_MORE_SHARE)
        return;
    uint64_t least = window->limit == UINT64_MAX ? AGAIN_LEAST_WITHOUT_WINDOW : window->limit / AGAIN_LEAST_OF_WINDOW;
    least = MAX_OF(least, (uint64_t)window->chunk * AGAIN_LEAST_CHUNKS);
    if (file->pass_again > least && file->pass_again > file->pass_evicted / AGAIN_SHARE)
        leave_in_place(window, file);
}

/*
 * How many of them were not seen before: as many as are more than were held, or as lie outside of where these were. What was seen need not be there now: pages are
 * unmapped by the job, and all of a large folio's when a part of it is paged out (mm/huge_memory.c, unmap_folio).
 */
static uint32_t new_bytes(const struct uma_follow_chunk *chunk, uint32_t bytes, uint32_t low, uint32_t high) {
    if (!chunk->held)
        return bytes;
    uint32_t before = chunk->low > low ? MIN_OF(chunk->low, high) - low : 0;
    uint32_t behind = high > chunk->high ? high - MAX_OF(chunk->high, low) : 0;
    uint32_t more = bytes > chunk->held ? bytes - chunk->held : 0;
    return MAX_OF(more, MIN_OF(bytes, before + behind));
}

uint32_t uma_follow_saw(struct uma_follow_window *window, struct uma_follow_file *file, size_t index, uint32_t bytes, uint32_t low,
                        uint32_t high, int64_t now_ns) {
    if (index >= file->n_chunks || file->in_place)
        return 0;
    struct uma_follow_chunk *chunk = &file->chunks[index];
    uint32_t length = uma_follow_chunk_length(window, file, index);
    high = MIN_OF(high, length);
    if (low >= high)
        return 0;
    bytes = MIN_OF(bytes, high - low);
    uint32_t grown = new_bytes(chunk, bytes, low, high);
    grown = MIN_OF(grown, length - chunk->held);
    if (grown == 0)
        return 0;
    uint32_t once = length - MIN_OF(chunk->pass, length);
    uint32_t first = (uint32_t)MIN_OF((uint64_t)grown, uma_follow_unread(window, file, index));
    list_remove(window, chunk);
    chunk->low = chunk->held ? MIN_OF(chunk->low, low) : low;
    chunk->high = chunk->held ? MAX_OF(chunk->high, high) : high;
    chunk->held += grown;
    chunk->pass += first;
    uint32_t read = MIN_OF(chunk->pass, length);
    if (read > chunk->read) {
        file->read += read - chunk->read;
        chunk->read = read;
    }
    file->held += grown;
    file->again += grown - MIN_OF(grown, once);
    file->pass_again += grown - first;
    file->front = index;
    file->moved_ns = now_ns;
    chunk->failures = 0;
    chunk->retry_ns = 0;
    list_append(window, chunk);
    if (grown > first)
        judge_reuse(window, file);
    return grown;
}

void uma_follow_asked(struct uma_follow_file *const *files, size_t n, uint64_t bytes) {
    bytes = MIN_OF(bytes, UINT64_MAX / 2); /* none reads as much */
    double sizes = 0;
    for (size_t i = 0; i < n; i++) {
        struct uma_follow_file *file = files[i];
        uint64_t all = file->size * readers_of(file), first = MIN_OF(bytes, all - MIN_OF(all, file->asked));
        file->asked += first;
        bytes -= first;
        sizes += (double)file->size;
    }
    for (size_t i = 0; i < n && bytes && sizes > 0; i++) {
        uint64_t share = (uint64_t)((double)bytes * ((double)files[i]->size / sizes));
        files[i]->asked = share > UINT64_MAX - files[i]->asked ? UINT64_MAX : files[i]->asked + share;
    }
}

void uma_follow_pass(struct uma_follow_window *window, struct uma_follow_file *file) {
    file->in_place = false;
    file->pass_evicted = file->pass_again = file->asked = 0;
    file->readers = 0;
    file->front = 0;
    for (size_t i = 0; i < file->n_chunks; i++) {
        struct uma_follow_chunk *chunk = &file->chunks[i];
        chunk->pass = 0; /* what is held may leave before this pass comes to it: reading it then is a first time too */
        chunk->evicted = false;
        chunk->arrived = 0;
        if (chunk->held && !chunk->listed)
            list_append(window, chunk);
    }
}

void uma_follow_closed(struct uma_follow_window *window, struct uma_follow_file *file) {
    file->stuck = 0;
    for (size_t i = 0; i < file->n_chunks && !file->in_place; i++) {
        struct uma_follow_chunk *chunk = &file->chunks[i];
        chunk->failures = 0;
        chunk->retry_ns = 0;
        if (chunk->held && !chunk->listed)
            list_append(window, chunk);
    }
}

/* ---- what is chosen ------------------------------------------------------------------------------------------ */

uint64_t uma_follow_target(const struct uma_follow_window *window, uint64_t grown) {
    if (window->now == UINT64_MAX)
        return UINT64_MAX;
    uint64_t room = grown > UINT64_MAX / 2 ? UINT64_MAX : grown + grown / 2;
    return window->now - MIN_OF(window->now / 2, room);
}

void uma_follow_press(struct uma_follow_window *window, bool pressed) {
    if (window->limit == UINT64_MAX)
        return; /* without a window the caller says how much it wants */
    uint64_t least = window->limit / 4;
    if (pressed)
        window->now = MAX_OF(window->now / 2, least);
    else if (window->now < window->limit)
        window->now = MIN_OF(window->limit, window->now + window->limit / 8);
}

size_t uma_follow_choose(const struct uma_follow_window *window, uint64_t target, int64_t now_ns, struct uma_follow_chunk **ret_chunks,
                         size_t max) {
    size_t n = 0;
    uint64_t held = window->held;
    for (struct uma_follow_chunk *chunk = window->oldest; chunk && held > target && n < max; chunk = chunk->newer) {
        if (chunk->retry_ns > now_ns)
            continue;
        ret_chunks[n++] = chunk;
        held -= chunk->held;
    }
    return n;
}

void uma_follow_evicted(struct uma_follow_window *window, struct uma_follow_chunk *chunk, uint32_t left, int64_t now_ns) {
    struct uma_follow_file *file = chunk->file;
    bool stuck = left > chunk->held / LEFT_SHARE;
    uint32_t gone = stuck ? chunk->held - MIN_OF(left, chunk->held) : chunk->held;
    bool was_listed = chunk->listed;
    list_remove(window, chunk);
    file->held -= gone;
    file->evicted += gone;
    file->pass_evicted += gone;
    chunk->held -= gone;
    chunk->evicted = chunk->evicted || gone > 0;
    if (!stuck) {
        chunk->low = chunk->high = chunk->arrived = 0;
        chunk->left = left;
        chunk->failures = 0;
        return;
    }
    if (chunk->failures == FAILURES_MAX || !was_listed) {
        file->stuck += chunk->held;
        return;
    }
    chunk->retry_ns = now_ns + (UMA_SECOND_NS << chunk->failures);
    chunk->failures++;
    list_append(window, chunk);
}

void uma_follow_give_up(struct uma_follow_window *window, struct uma_follow_chunk *chunk) {
    if (!chunk->listed)
        return;
    list_remove(window, chunk);
    chunk->file->stuck += chunk->held;
}
