/* SPDX-License-Identifier: MIT */
#include "guard/gpu_file.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The writer is inside for microseconds, and answers ten times a second at the most: a third try that meets it again means that it stopped there. */
enum { READ_TRIES = 4 };

enum { WORDS_AT = 16, WORDS = (sizeof(struct uma_guard_gpu_shared) - WORDS_AT) / sizeof(uint64_t) };
_Static_assert(offsetof(struct uma_guard_gpu_shared, asked) == WORDS_AT, "the words that are moved begin after n");
_Static_assert(sizeof(struct uma_guard_gpu_shared) == WORDS_AT + WORDS * sizeof(uint64_t), "it is whole words");
_Static_assert(sizeof(struct uma_guard_gpu_entry) == 24, "the file is the same for all builds");

/*
 * The sequence lock in C11. The data words are moved by relaxed atomic accesses, so that a reader that meets the writer reads stale or mixed words, and never has a data race. That it then throws them away:
 *  - writer: sequence odd (relaxed), release fence, words (relaxed), sequence even (release);
 *  - reader: sequence s (acquire), words (relaxed), acquire fence, sequence again (relaxed): good when both are the same even number.
 * A reader that saw a word of a later round synchronizes by its acquire fence with the writer's release fence before that word, and so sees the odd number, or a later one, in its second look. A reader that
 * saw the even number by its first, acquiring look has all words of that round or later ones.
 */
static uint64_t load(const uint64_t *word) {
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

// NOLINTNEXTLINE(readability-non-const-parameter): it is written
static void store(uint64_t *word, uint64_t value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

/* Whose it is, what it is, and that nobody else may write it. */
static bool acceptable(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == 0 || st.st_uid == geteuid()) &&
           !(st.st_mode & (S_IWGRP | S_IWOTH)) && st.st_size == (off_t)sizeof(struct uma_guard_gpu_shared);
}

static void unmap(struct uma_guard_gpu_reader *reader) {
    if (reader->shared)
        // NOLINTNEXTLINE(performance-no-int-to-ptr): only its const goes
        (void)munmap((void *)(uintptr_t)reader->shared, sizeof(*reader->shared));
    if (reader->fd >= 0)
        (void)close(reader->fd);
    reader->shared = NULL;
    reader->fd = -1;
}

static void look_for(struct uma_guard_gpu_reader *reader) {
    _cleanup_close_ int fd = open(reader->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || !acceptable(fd))
        return;
    void *map = mmap(NULL, sizeof(struct uma_guard_gpu_shared), PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return;
    unmap(reader);
    reader->shared = map;
    reader->fd = TAKE_FD(fd);
}

/* One that was removed or replaced has no name any more. The old one is kept until there is a new one: what it says has its age. */
static void look_again(struct uma_guard_gpu_reader *reader) {
    int64_t now = uma_monotonic_ns();
    struct stat st;
    if (now - reader->tried < UMA_SECOND_NS && now >= reader->tried)
        return;
    reader->tried = now;
    if (!reader->shared || fstat(reader->fd, &st) < 0 || st.st_nlink == 0)
        look_for(reader);
}

void uma_guard_gpu_reader_open(struct uma_guard_gpu_reader *reader, const char *path) {
    *reader = (struct uma_guard_gpu_reader){ .fd = -1, .path = path, .tried = uma_monotonic_ns() };
    look_for(reader);
}

void uma_guard_gpu_reader_close(struct uma_guard_gpu_reader *reader) {
    unmap(reader);
}

/* False: a writer was there meanwhile. */
static bool copy(const struct uma_guard_gpu_shared *shared, struct uma_guard_gpu *ret_gpu) {
    const uint64_t *from = (const uint64_t *)(const void *)((const char *)shared + WORDS_AT);
    uint32_t before = atomic_load_explicit(&shared->sequence, memory_order_acquire);
    if (before & 1)
        return false;
    uint32_t n = __atomic_load_n(&shared->n, __ATOMIC_RELAXED);
    ret_gpu->n = MIN_OF(n, (uint32_t)UMA_GUARD_GPU_MAX);
    ret_gpu->asked = (int64_t)load(from++);
    ret_gpu->answered = (int64_t)load(from++);
    ret_gpu->total = load(from++);
    uint64_t *into = (uint64_t *)(void *)ret_gpu->list;
    for (size_t i = 0; i < ret_gpu->n * (sizeof(ret_gpu->list[0]) / sizeof(uint64_t)); i++)
        into[i] = load(from++);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&shared->sequence, memory_order_relaxed) == before;
}

bool uma_guard_gpu_read(struct uma_guard_gpu_reader *reader, struct uma_guard_gpu *ret_gpu) {
    look_again(reader);
    ret_gpu->known = false;
    ret_gpu->n = 0;
    if (!reader->shared || __atomic_load_n(&reader->shared->magic, __ATOMIC_ACQUIRE) != UMA_GUARD_GPU_MAGIC)
        return false;
    for (int tries = 0; tries < READ_TRIES; tries++) {
        if (copy(reader->shared, ret_gpu)) {
            ret_gpu->known = ret_gpu->answered != 0; /* else there was a question, and never an answer */
            break;
        }
    }
    return ret_gpu->known;
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */

static int map_for_writing(struct uma_guard_gpu_writer *writer, int fd) {
    void *map = mmap(NULL, sizeof(struct uma_guard_gpu_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    writer->shared = map;
    return 0;
}

/* The file that is there. False: there is none that can be taken over. */
static bool take_over(struct uma_guard_gpu_writer *writer, const char *path) {
    _cleanup_close_ int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || !acceptable(fd) || flock(fd, LOCK_EX | LOCK_NB) < 0 || map_for_writing(writer, fd) < 0)
        return false;
    if (__atomic_load_n(&writer->shared->magic, __ATOMIC_ACQUIRE) != UMA_GUARD_GPU_MAGIC) {
        (void)munmap(writer->shared, sizeof(*writer->shared));
        writer->shared = NULL;
        return false;
    }
    writer->fd = TAKE_FD(fd);
    return true;
}

/* Whole before it has the name: nobody maps one that is still short. */
static int make(struct uma_guard_gpu_writer *writer, const char *path) {
    char temporary[512];
    int n = snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof(temporary))
        return -ENAMETOOLONG;
    (void)unlink(temporary); /* of one that had our number and died */
    _cleanup_close_ int fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    /* every page of it now: a full tmpfs must not be found out by a signal later */
    int r = fchmod(fd, 0644) < 0 ? -errno : -posix_fallocate(fd, 0, (off_t)sizeof(struct uma_guard_gpu_shared));
    if (r == 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
        r = -errno;
    if (r == 0)
        r = map_for_writing(writer, fd);
    if (r == 0) {
        __atomic_store_n(&writer->shared->magic, UMA_GUARD_GPU_MAGIC, __ATOMIC_RELEASE);
        r = rename(temporary, path) < 0 ? -errno : 0;
    }
    if (r < 0) {
        (void)unlink(temporary);
        if (writer->shared)
            (void)munmap(writer->shared, sizeof(*writer->shared));
        writer->shared = NULL;
        return r;
    }
    writer->fd = TAKE_FD(fd);
    return 0;
}

int uma_guard_gpu_writer_open(struct uma_guard_gpu_writer *writer, const char *path) {
    *writer = (struct uma_guard_gpu_writer){ .fd = -1 };
    return take_over(writer, path) ? 0 : make(writer, path);
}

void uma_guard_gpu_writer_close(struct uma_guard_gpu_writer *writer) {
    if (writer->shared)
        (void)munmap(writer->shared, sizeof(*writer->shared));
    if (writer->fd >= 0)
        (void)close(writer->fd);
    *writer = (struct uma_guard_gpu_writer){ .fd = -1 };
}

/* An odd number that is there already is of a writer that died inside: this one writes all of it, or at least says no less than before. */
static uint32_t enter(struct uma_guard_gpu_shared *shared) {
    uint32_t odd = atomic_load_explicit(&shared->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&shared->sequence, odd, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    return odd;
}

static void leave(struct uma_guard_gpu_shared *shared, uint32_t odd) {
    atomic_store_explicit(&shared->sequence, odd + 1, memory_order_release);
}

void uma_guard_gpu_asked(struct uma_guard_gpu_writer *writer, int64_t now) {
    struct uma_guard_gpu_shared *shared = writer->shared;
    if (!shared)
        return;
    uint32_t was = atomic_load_explicit(&shared->sequence, memory_order_relaxed), odd = enter(shared);
    store((uint64_t *)&shared->asked, (uint64_t)now);
    if (was & 1) { /* half an answer of one that died: none */
        store((uint64_t *)&shared->answered, 0);
        __atomic_store_n(&shared->n, 0u, __ATOMIC_RELAXED);
    }
    leave(shared, odd);
}

/* The place of the smallest of those kept. */
static size_t smallest(const struct uma_guard_gpu_entry *kept, size_t n) {
    size_t least = 0;
    for (size_t i = 1; i < n; i++)
        if (kept[i].bytes < kept[least].bytes)
            least = i;
    return least;
}

void uma_guard_gpu_write(struct uma_guard_gpu_writer *writer, const struct uma_guard_gpu_entry *list, size_t n, uint64_t total,
                         int64_t asked) {
    struct uma_guard_gpu_shared *shared = writer->shared;
    struct uma_guard_gpu_entry kept[UMA_GUARD_GPU_MAX];
    size_t n_kept = 0, least = 0;
    if (!shared)
        return;
    for (size_t i = 0; i < n; i++) {
        if (n_kept < UMA_GUARD_GPU_MAX) {
            kept[n_kept++] = list[i];
            least = n_kept == UMA_GUARD_GPU_MAX ? smallest(kept, n_kept) : 0;
        } else if (list[i].bytes > kept[least].bytes) {
            kept[least] = list[i];
            least = smallest(kept, n_kept);
        }
    }
    uint32_t odd = enter(shared);
    store((uint64_t *)&shared->answered, (uint64_t)asked);
    if (shared->asked < asked)
        store((uint64_t *)&shared->asked, (uint64_t)asked);
    store(&shared->total, total);
    __atomic_store_n(&shared->n, (uint32_t)n_kept, __ATOMIC_RELAXED);
    const uint64_t *from = (const uint64_t *)(const void *)kept;
    uint64_t *into = (uint64_t *)(void *)shared->list;
    for (size_t i = 0; i < n_kept * (sizeof(kept[0]) / sizeof(uint64_t)); i++)
        store(&into[i], from[i]);
    leave(shared, odd);
}
