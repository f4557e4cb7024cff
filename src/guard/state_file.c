/* SPDX-License-Identifier: MIT */
#include "guard/state_file.h"

#include "base/cleanup.h"
#include "guard/ring_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>

#define MAGIC 0x3154535447414d55ull
enum { ENTRY = (int)sizeof(struct uma_guard_held), PLACE = (int)sizeof(struct uma_guard_state_head) + 2 * UMA_GUARD_HELD_MAX * ENTRY };

/* FNV-1a, not checksum.h: it is 29 KiB each time, at a fourth of that time, and what it finds is a guard that was killed while it wrote. */
static uint64_t fnv(uint64_t hash, const void *data, size_t n) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): it does not follow the boot id into the head */
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return hash;
}

static uint64_t checksum(const struct uma_guard_state_head *head, const struct uma_guard_held *stopped,
                         const struct uma_guard_held *ended) {
    const size_t from = offsetof(struct uma_guard_state_head, boot);
    uint64_t hash = fnv(0xcbf29ce484222325ull ^ head->number, (const char *)head + from, sizeof(*head) - from);
    hash = fnv(hash, stopped, head->n_stopped * sizeof(*stopped));
    return fnv(hash, ended, head->n_ended * sizeof(*ended));
}

int uma_guard_state_open(struct uma_guard_state_file *file, const char *path) {
    struct stat info;
    *file = (struct uma_guard_state_file){ .fd = -1 };
    uma_guard_boot_id(file->boot); /* also with --root: the state is of the processes that run here */
    _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &info) != 0)
        return -errno;
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)))
        return -EPERM; /* whose words would be believed */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return -errno; /* EWOULDBLOCK: of a guard that lives */
    int r = posix_fallocate(fd, 0, 2 * (off_t)PLACE);
    if (r != 0)
        return -r;
    file->fd = TAKE_FD(fd);
    return 0;
}

void uma_guard_state_close(struct uma_guard_state_file *file) {
    uma_cleanup_close(&file->fd);
    file->fd = -1;
}

bool uma_guard_state_head_fine(const struct uma_guard_state_head *head, size_t available) {
    return head->magic == MAGIC && head->size == sizeof(*head) && head->n_stopped <= UMA_GUARD_HELD_MAX &&
           head->n_ended <= UMA_GUARD_HELD_MAX && available >= sizeof(*head) + (size_t)(head->n_stopped + head->n_ended) * ENTRY &&
           head->state.n_braked <= UMA_GUARD_BRAKED;
}

/* Reads the lists of one place into the actor's. */
static bool read_place(const struct uma_guard_state_file *file, int place, struct uma_guard_state_head *head,
                       struct uma_guard_actor *actor) {
    off_t at = (off_t)place * PLACE;
    if (pread(file->fd, head, sizeof(*head), at) != (ssize_t)sizeof(*head) || !uma_guard_state_head_fine(head, PLACE))
        return false;
    size_t stopped = head->n_stopped * sizeof(actor->stopped.list[0]), ended = head->n_ended * sizeof(actor->ended.list[0]);
    at += (off_t)sizeof(*head);
    return pread(file->fd, actor->stopped.list, stopped, at) == (ssize_t)stopped &&
           pread(file->fd, actor->ended.list, ended, at + (off_t)stopped) == (ssize_t)ended &&
           checksum(head, actor->stopped.list, actor->ended.list) == head->checksum;
}

bool uma_guard_state_read(struct uma_guard_state_file *file, struct uma_guard_state *ret_state, struct uma_guard_actor *actor) {
    struct uma_guard_state_head head;
    uint64_t newest = 0;
    int place = -1;
    if (file->fd < 0)
        return false;
    for (int i = 0; i < 2; i++)
        if (read_place(file, i, &head, actor) && head.number > newest) {
            newest = head.number;
            place = i;
        }
    actor->stopped.n = actor->ended.n = 0;
    file->number = newest;
    if (place < 0 || !read_place(file, place, &head, actor) || memcmp(head.boot, file->boot, sizeof(head.boot)) != 0 || head.dry_run != 0)
        return false;
    actor->stopped.n = head.n_stopped;
    actor->ended.n = head.n_ended;
    *ret_state = head.state;
    return true;
}

int uma_guard_state_write(struct uma_guard_state_file *file, const struct uma_guard_state *state, const struct uma_guard_actor *actor,
                          int64_t now) {
    struct uma_guard_state_head head = { .magic = MAGIC,
                                         .size = sizeof(head),
                                         .number = file->number + 1,
                                         .time = now,
                                         .n_stopped = actor->stopped.n,
                                         .n_ended = actor->ended.n,
                                         .dry_run = actor->dry_run,
                                         .state = *state };
    if (file->fd < 0)
        return 0;
    memcpy(head.boot, file->boot, sizeof(head.boot));
    head.checksum = checksum(&head, actor->stopped.list, actor->ended.list);
    size_t stopped = head.n_stopped * sizeof(actor->stopped.list[0]), ended = head.n_ended * sizeof(actor->ended.list[0]);
    /* NOLINTBEGIN(performance-no-int-to-ptr): only their const goes, which struct iovec has no room for */
    const struct iovec parts[] = { { &head, sizeof(head) },
                                   { (void *)(uintptr_t)actor->stopped.list, stopped },
                                   { (void *)(uintptr_t)actor->ended.list, ended } };
    /* NOLINTEND(performance-no-int-to-ptr) */
    ssize_t n = pwritev(file->fd, parts, ELEMENTS(parts), (off_t)(head.number % 2) * PLACE);
    if (n != (ssize_t)(sizeof(head) + stopped + ended)) {
        file->failed++;
        return n < 0 ? -errno : -ENOSPC;
    }
    file->number++;
    return 0;
}
