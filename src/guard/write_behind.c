/* SPDX-License-Identifier: MIT */
#include "guard/write_behind.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/*
 * The guard locks its memory, stacks included, and has 2 MiB in all. The thread calls pwrite(2), fdatasync(2) and what waits on a condition: under 2 KiB of frames. The C library keeps its own data there too, and with a signal's frame of
 * the largest vector state (about 11 KiB) 64 KiB is ample.
 */
enum { STACK_BYTES = 64 * 1024, PLACES_MOST = 64 };

struct piece {
    uint64_t offset, ticket;
    size_t length;
};

struct uma_guard_write_behind {
    int fd;
    size_t size, places;
    pthread_t id;
    pthread_mutex_t lock; /* of all below; never held over a call to the disk */
    pthread_cond_t work, done;
    uint32_t first, n; /* pieces that wait, from `first` on; the one being written is among them until it is written */
    bool writing, stop, ended;
    uint64_t syncing;          /* written, and not known to be on disk */
    uint64_t ticket, finished; /* the newest given; the newest that is on disk or failed */
    int result;                /* of the newest finished */
    struct uma_guard_kept kept;
    struct piece pieces[PLACES_MOST];
    uint8_t *data;
};

static int write_piece(int fd, const uint8_t *data, size_t length, uint64_t offset) {
    size_t at = 0;
    while (at < length) {
        ssize_t r = pwrite(fd, data + at, length - at, (off_t)(offset + at));
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? -errno : -EIO;
        at += (size_t)r;
    }
    return 0;
}

static int sync_file(int fd) {
    int r = 0;
    do
        r = fdatasync(fd);
    while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : 0;
}

/* Under the lock, which it gives up for the calls. Writes what waits, at most all places once, and syncs it with one call. */
static void write_batch(struct uma_guard_write_behind *w) {
    uint64_t written = 0, failed = 0, newest = 0;
    int result = 0;
    for (size_t i = 0; i < w->places && w->n > 0; i++) {
        struct piece piece = w->pieces[w->first];
        const uint8_t *data = w->data + w->first * w->size;
        w->writing = true;
        (void)pthread_mutex_unlock(&w->lock);
        int r = write_piece(w->fd, data, piece.length, piece.offset);
        (void)pthread_mutex_lock(&w->lock);
        w->writing = false;
        w->first = (w->first + 1) % (uint32_t)w->places;
        w->n--;
        if (piece.ticket > newest) { /* one that replaced another is before older ones */
            newest = piece.ticket;
            result = r;
        }
        if (r < 0) {
            failed++;
            w->kept.error = -r;
        } else {
            written++;
        }
    }
    w->syncing = written;
    (void)pthread_mutex_unlock(&w->lock);
    int r = written ? sync_file(w->fd) : 0;
    (void)pthread_mutex_lock(&w->lock);
    if (r < 0) { /* none of them is known to be on disk */
        w->kept.error = -r;
        failed += written;
        written = 0;
        result = result < 0 ? result : r;
    }
    w->syncing = 0;
    w->kept.written += written;
    w->kept.failed += failed;
    if (newest > w->finished) {
        w->finished = newest;
        w->result = result;
    }
    (void)pthread_cond_broadcast(&w->done);
}

static void *work(void *userdata) {
    struct uma_guard_write_behind *w = userdata;
    (void)pthread_mutex_lock(&w->lock);
    while (w->n > 0 || !w->stop) {
        if (w->n > 0)
            write_batch(w);
        else
            (void)pthread_cond_wait(&w->work, &w->lock);
    }
    w->ended = true;
    (void)pthread_cond_broadcast(&w->done);
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void release(struct uma_guard_write_behind *w) {
    (void)pthread_cond_destroy(&w->work);
    (void)pthread_cond_destroy(&w->done);
    (void)pthread_mutex_destroy(&w->lock);
    (void)close(w->fd);
    free(w->data);
    free(w);
}

static int start_thread(struct uma_guard_write_behind *w) {
    pthread_attr_t attributes;
    sigset_t all, before;
    int r = pthread_attr_init(&attributes);
    if (r)
        return -r;
    long least = sysconf(_SC_THREAD_STACK_MIN);
    size_t stack = least > STACK_BYTES ? (size_t)least : STACK_BYTES;
    (void)pthread_attr_setstacksize(&attributes, stack);
    (void)sigfillset(
        &all); /* signals are for the guard's own thread; one of a file too large (SIGXFSZ) is then an error of the write alone */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&w->id, &attributes, work, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return -r;
}

struct uma_guard_write_behind *uma_guard_write_behind_open(int fd, size_t size, size_t places) {
    struct uma_guard_write_behind *w = calloc(1, sizeof(*w));
    uint8_t *data = places > 0 && places <= PLACES_MOST ? calloc(places, size) : NULL;
    if (!w || !data) {
        free(w);
        free(data);
        (void)close(fd);
        return NULL;
    }
    w->fd = fd;
    w->size = size;
    w->places = places;
    w->data = data;
    w->kept.open = true;
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    (void)pthread_mutexattr_init(&mutex);
    /* the guard may run before all others: the thread that holds the lock is then lent its turn */
    (void)pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_INHERIT);
    (void)pthread_condattr_init(&condition);
    (void)pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&w->lock, &mutex);
    (void)pthread_cond_init(&w->work, &condition);
    (void)pthread_cond_init(&w->done, &condition);
    (void)pthread_mutexattr_destroy(&mutex);
    (void)pthread_condattr_destroy(&condition);
    if (start_thread(w) < 0) {
        release(w);
        return NULL;
    }
    return w;
}

static struct timespec later(int64_t wait_ns) {
    int64_t at = uma_monotonic_ns() + wait_ns;
    return (struct timespec){ .tv_sec = (time_t)(at / UMA_SECOND_NS), .tv_nsec = (long)(at % UMA_SECOND_NS) };
}

void uma_guard_write_behind_close(struct uma_guard_write_behind *w, int64_t wait_ns) {
    if (!w)
        return;
    struct timespec until = later(wait_ns);
    (void)pthread_mutex_lock(&w->lock);
    w->stop = true;
    (void)pthread_cond_signal(&w->work);
    int r = 0;
    while (!w->ended && r == 0)
        r = pthread_cond_timedwait(&w->done, &w->lock, &until);
    bool ended = w->ended;
    (void)pthread_mutex_unlock(&w->lock);
    if (!ended) {
        (void)pthread_detach(w->id); /* in a call that does not return: what it uses stays */
        return;
    }
    (void)pthread_join(w->id, NULL);
    release(w);
}

/* Under the lock. The place in the queue of a piece for that place of the file, which is not being written; else a new one; -1: none is free. */
static int find_place(struct uma_guard_write_behind *w, uint64_t offset) {
    for (uint32_t i = w->writing ? 1 : 0; i < w->n; i++) {
        uint32_t at = (w->first + i) % (uint32_t)w->places;
        if (w->pieces[at].offset == offset)
            return (int)at;
    }
    if (w->n == w->places)
        return -1;
    return (int)((w->first + w->n++) % (uint32_t)w->places);
}

int uma_guard_write_behind_put(struct uma_guard_write_behind *w, uint64_t offset, const void *data, size_t length, uint64_t *ret_ticket) {
    if (length > w->size)
        return -EMSGSIZE;
    (void)pthread_mutex_lock(&w->lock);
    int at = find_place(w, offset);
    if (at < 0) {
        w->kept.lost++;
        (void)pthread_mutex_unlock(&w->lock);
        return -EAGAIN;
    }
    memcpy(w->data + (size_t)at * w->size, data, length);
    w->pieces[at] = (struct piece){ .offset = offset, .ticket = ++w->ticket, .length = length };
    *ret_ticket = w->ticket;
    (void)pthread_cond_signal(&w->work);
    (void)pthread_mutex_unlock(&w->lock);
    return 0;
}

int uma_guard_write_behind_wait(struct uma_guard_write_behind *w, uint64_t ticket, int64_t wait_ns) {
    struct timespec until = later(wait_ns);
    (void)pthread_mutex_lock(&w->lock);
    int r = 0;
    while (w->finished < ticket && r == 0)
        r = pthread_cond_timedwait(&w->done, &w->lock, &until);
    if (w->finished >= ticket)
        r = -w->result;
    else
        w->kept.late++;
    (void)pthread_mutex_unlock(&w->lock);
    return -r;
}

void uma_guard_write_behind_kept(struct uma_guard_write_behind *w, struct uma_guard_kept *ret_kept) {
    (void)pthread_mutex_lock(&w->lock);
    *ret_kept = w->kept;
    ret_kept->waiting = w->n + w->syncing;
    (void)pthread_mutex_unlock(&w->lock);
}
