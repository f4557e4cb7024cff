/* SPDX-License-Identifier: MIT */
/*
 * Keeping memory free while a job loads: when MemFree falls below the line, what is least valuable goes first. Weights that nobody has open are worth a read from
 * disk some day, if that; what the job has copied was asked to stay within a window by who follows; what it has still to read is
 * worth a read from disk now, and goes last.
 */
#include "act/evict_file.h"
#include "base/units.h"
#include "cache/follow_others.h"
#include "cache/follow_parts.h"

/* Unread parts are taken back in pieces: MemFree says after each whether more is needed. */
#define UNREAD_PIECE (64 * UMA_MIB)
/* And at most this often: what was evicted there is read from disk again soon. */
#define UNREAD_EVERY_NS (INT64_C(100) * 1000000)

/* Do the file's last `chunks` lie behind where reading was last seen? Whether anything of them is resident is not asked: dropping nothing costs nothing. */
static bool is_ahead(const struct uma_followed *file, size_t chunks) {
    return chunks < file->state->n_chunks && file->state->front < file->state->n_chunks - chunks;
}

/* From the end of the file that has most to read still. */
static void evict_unread(struct uma_follower *f) {
    if (f->now_ns < f->unread_ns)
        return;
    f->unread_ns = f->now_ns + UNREAD_EVERY_NS;
    size_t piece = MAX_OF((size_t)(UNREAD_PIECE / f->window.chunk), (size_t)1);
    struct uma_followed *best = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < f->n_files; i++) {
        struct uma_followed *file = f->files[i];
        if (file->ignored || !is_ahead(file, file->unread_taken + piece))
            continue;
        uint64_t unread = (uint64_t)(file->state->n_chunks - file->unread_taken - file->state->front) * f->window.chunk;
        if (!best || unread > most) {
            best = file;
            most = unread;
        }
    }
    if (!best)
        return;
    best->unread_taken += piece;
    uint64_t from = (uint64_t)(best->state->n_chunks - best->unread_taken) * f->window.chunk;
    if (uma_evict_range(best->fd, from, (uint64_t)piece * f->window.chunk) == 0)
        f->report.means |= UMA_FOLLOW_FADVISE;
}

/* A file that the job has, or one beside it, which it may open next. */
static bool is_of_job(void *userdata, const struct uma_cached_file *file) {
    const struct uma_follower *f = userdata;
    for (size_t i = 0; i < f->n_files; i++)
        if (!f->files[i]->ignored && ((f->files[i]->st.st_ino == file->inode && f->files[i]->st.st_dev == file->device) ||
                                      uma_follow_is_beside(file, f->files[i]->shown)))
            return true;
    return false;
}

void uma_follow_keep_free(struct uma_follower *f) {
    uint64_t line = f->options->keep_free;
    if (f->free >= line) {
        uma_follow_press(&f->window, false);
        return;
    }
    uint64_t lacking = line - f->free;
    bool reading = false;
    if (!f->others)
        f->others = uma_follow_others_new();
    if (f->others) {
        uint64_t gone = uma_follow_others_evict(f->others, lacking, f->now_ns, is_of_job, f, &reading);
        f->report.kept_free_bytes += gone;
        f->report.means |= gone ? UMA_FOLLOW_FADVISE : 0u;
        lacking -= MIN_OF(lacking, gone);
    }
    uma_follow_press(&f->window, lacking > 0);
    if (f->window.held && lacking) {
        uint64_t keep = f->window.limit == UINT64_MAX ? 0 : MIN_OF(f->window.now, f->window.held);
        uint64_t target = MAX_OF(keep, f->window.held - MIN_OF(f->window.held, lacking));
        uint64_t gone = uma_follow_evict(f, target);
        lacking -= MIN_OF(lacking, gone);
    }
    if (lacking && !reading)
        evict_unread(f);
}

void uma_follow_keep_free_end(struct uma_follower *f) {
    f->others = uma_follow_others_free(f->others);
}
