/* SPDX-License-Identifier: MIT */
#include "guard/helper/room.h"

#include "act/drop_caches.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/units.h"
#include "guard/helper/evict.h"
#include "guard/helper/say.h"
#include "observe/files/page_cache.h"

/* Looking for weight files opens every file in use and every model: tenths of a second, more on a machine that is short of memory. What was found by then is evicted. */
#define LOOK_SECONDS 1.5
/* And evicting ends, whatever the disks do: the guard asks again. */
#define EVICT_NS (5 * UMA_SECOND_NS)
/* At the end, for what is under way. */
#define STOP_NS (UMA_SECOND_NS / 2)

struct uma_helper_room {
    struct uma_thread thread;
    struct uma_observer *observer;
    struct uma_root *root;
    struct uma_snapshot snapshot;
    bool wanted; /* under the thread's lock, as the next two */
    uint64_t bytes;
    int order;
};

static bool is_stopped(void *userdata) {
    struct uma_helper_room *room = userdata;
    (void)pthread_mutex_lock(&room->thread.lock);
    bool stop = room->thread.stop;
    (void)pthread_mutex_unlock(&room->thread.lock);
    return stop;
}

static bool go_on_looking(void *userdata, uint64_t files, uint64_t resident_bytes, const char *at) {
    (void)files;
    (void)resident_bytes;
    (void)at;
    return !is_stopped(userdata);
}

static int look(struct uma_helper_room *room, struct uma_error *err) {
    struct uma_page_cache_request request = {
        .processes = true, .stores = true, .seconds = LOOK_SECONDS, .resident_only = true, .progress = go_on_looking, .userdata = room
    };
    struct uma_page_cache_counts counts = { 0 };
    /* the processes' environments say where model stores are */
    int r = uma_observer_read(room->observer, UMA_READ_MEMORY | UMA_READ_PROCESSES, &room->snapshot, err);
    if (r >= 0)
        r = uma_page_cache_read(room->root, &request, &room->snapshot, room->snapshot.arena, &room->snapshot.page_cache, &counts, err);
    return r;
}

static void compact(struct uma_text *receipt) {
    struct uma_error err = { 0 };
    int64_t start = uma_monotonic_ns();
    if (geteuid() != 0) {
        uma_text_append(receipt, "; compaction is root's");
    } else if (uma_compact_memory("", &err) < 0) {
        uma_text_printf(receipt, "; not compacted: %s", err.text);
    } else {
        uma_text_append(receipt, "; compacted in ");
        uma_text_duration(receipt, (double)(uma_monotonic_ns() - start) / 1e9);
    }
}

static void make_room(struct uma_helper_room *room, uint64_t bytes, int order) {
    _cleanup_text_ struct uma_text receipt = { 0 };
    struct uma_error err = { 0 };
    struct uma_helper_eviction e = { 0 };
    int64_t start = uma_monotonic_ns();
    uma_text_append(&receipt, "room: asked for ");
    uma_text_bytes(&receipt, bytes);
    if (bytes > 0 && look(room, &err) < 0) {
        uma_text_printf(&receipt, ", nothing evicted: %s", err.text);
    } else if (bytes > 0) {
        uma_helper_evict(&room->snapshot.page_cache, bytes, uma_monotonic_ns() + EVICT_NS, is_stopped, room, &e);
        uma_text_append(&receipt, ", evicted ");
        uma_text_bytes(&receipt, e.evicted);
        uma_text_printf(&receipt, " of %llu weight files (", (unsigned long long)e.files);
        uma_text_bytes(&receipt, e.cached);
        uma_text_printf(&receipt, " of %llu were cached) in ", (unsigned long long)e.n_files);
        uma_text_duration(&receipt, (double)(uma_monotonic_ns() - start) / 1e9);
        uma_text_append(&receipt, e.late ? "; the time was over" : room->snapshot.page_cache.complete ? "" : "; there may be more");
    }
    if (order >= 0 && !e.stopped)
        compact(&receipt);
    uma_helper_say(UMA_HELPER_NOTICE, "%s", receipt.data ? receipt.data : "room: out of memory");
}

static void work(void *userdata) {
    struct uma_helper_room *room = userdata;
    for (;;) {
        (void)pthread_mutex_lock(&room->thread.lock);
        while (!room->wanted && !room->thread.stop)
            (void)pthread_cond_wait(&room->thread.wake, &room->thread.lock);
        bool stop = room->thread.stop;
        uint64_t bytes = room->bytes;
        int order = room->order;
        room->wanted = false;
        (void)pthread_mutex_unlock(&room->thread.lock);
        if (stop)
            return;
        make_room(room, bytes, order);
    }
}

static void done(struct uma_helper_room *room) {
    uma_snapshot_done(&room->snapshot);
    (void)uma_observer_close(room->observer);
    (void)uma_root_close(room->root);
    free(room);
}

int uma_helper_room_start(struct uma_helper_room **ret_room, struct uma_error *err) {
    struct uma_observe_options options = { 0 };
    struct uma_helper_room *room = calloc(1, sizeof(*room));
    if (!room)
        return uma_error_set(err, ENOMEM, "making room");
    int r = uma_snapshot_init(&room->snapshot) < 0 ? uma_error_set(err, ENOMEM, "making room") : 0;
    if (r == 0)
        r = uma_root_open(NULL, NULL, &room->root, err);
    if (r == 0)
        r = uma_observer_open(&options, &room->observer, err);
    if (r == 0 && (r = uma_thread_start(&room->thread, work, room)) < 0)
        r = uma_error_set(err, -r, "a thread");
    if (r < 0) {
        done(room);
        return r;
    }
    *ret_room = room;
    return 0;
}

void uma_helper_room_ask(struct uma_helper_room *room, uint64_t bytes, int order) {
    (void)pthread_mutex_lock(&room->thread.lock);
    room->bytes = bytes;
    room->order = order;
    room->wanted = true;
    (void)pthread_cond_broadcast(&room->thread.wake);
    (void)pthread_mutex_unlock(&room->thread.lock);
}

struct uma_helper_room *uma_helper_room_stop(struct uma_helper_room *room) {
    if (room && uma_thread_stop(&room->thread, STOP_NS))
        done(room);
    return NULL;
}
