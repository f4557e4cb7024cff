/* SPDX-License-Identifier: MIT */
/*
 * gpu_file.h - GPU bytes per process, from the guard's helper to the guard through a shared file (/run/umactl-guard/gpu): the helper asks the driver by way of the probe process, which may hang, and the
 * guard reads what stands there with its age, and never waits. A sequence lock: the writer makes `sequence` odd, writes, makes it even; the reader copies and compares. A file of another size, magic or owner is no file.
 * The owner is root or the reader's own user, and nobody else may write: the file is mapped, and who could cut it short could end its readers.
 *
 * How the two agree without a data race: all after `sequence` is moved in relaxed atomic words, never by memcpy(3) (gpu_file.c).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UMA_GUARD_GPU_MAX = 256 }; /* processes with GPU memory; the largest are kept */
/* Older figures of the driver are called old: the helper asks every 2 s at the least, and five questions in a row without an answer are no chance. */
#define UMA_GUARD_GPU_OLD_NS INT64_C(10000000000)
#define UMA_GUARD_GPU_MAGIC 0x31555047474d5530ull

struct uma_guard_gpu_entry {
    int32_t pid;
    uint32_t reserved_;
    uint64_t start; /* clock ticks, as the writer saw it right after the answer; 0: it could not */
    uint64_t bytes;
};

struct uma_guard_gpu_shared { /* the file */
    uint64_t magic;
    _Atomic uint32_t sequence;
    uint32_t n;
    int64_t asked,
        answered; /* CLOCK_MONOTONIC: the last question, and the question that the entries answer. asked > answered for long: the driver hangs */
    uint64_t total; /* of all processes, listed here or not */
    struct uma_guard_gpu_entry list[UMA_GUARD_GPU_MAX];
};

struct uma_guard_gpu { /* the reader's copy */
    bool known;
    uint32_t n;
    int64_t asked, answered;
    uint64_t total;
    struct uma_guard_gpu_entry list[UMA_GUARD_GPU_MAX];
};

struct uma_guard_gpu_reader {
    const struct uma_guard_gpu_shared *shared; /* NULL: no file yet */
    int fd;
    const char *path; /* the caller's, kept */
    int64_t tried;    /* when it was last looked for */
};
/* Never fails: without a file nothing is known, and uma_guard_gpu_read() looks for it again, at most once a second; so it does for a file that another writer put in its place. */
void uma_guard_gpu_reader_open(struct uma_guard_gpu_reader *reader, const char *path);
void uma_guard_gpu_reader_close(struct uma_guard_gpu_reader *reader);
/* A consistent copy; false: there is none (no file, or the writer died in the middle): *ret_gpu.known is false. Bounded: a few tries. */
bool uma_guard_gpu_read(struct uma_guard_gpu_reader *reader, struct uma_guard_gpu *ret_gpu);

struct uma_guard_gpu_writer {
    struct uma_guard_gpu_shared *shared;
    int fd;
};
/*
 * Takes over the file that is there, when it is one of ours and no other writer holds it (its readers go on with it), and makes a new one in its place otherwise, mode 0644, so that a writer that hangs is in
 * nobody's way. -errno.
 */
int uma_guard_gpu_writer_open(struct uma_guard_gpu_writer *writer, const char *path);
void uma_guard_gpu_writer_close(struct uma_guard_gpu_writer *writer);
void uma_guard_gpu_asked(struct uma_guard_gpu_writer *writer, int64_t now);
/* `list` of `n` (the largest are kept, in no order), answering the question of `asked`. */
void uma_guard_gpu_write(struct uma_guard_gpu_writer *writer, const struct uma_guard_gpu_entry *list, size_t n, uint64_t total,
                         int64_t asked);
