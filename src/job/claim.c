/* SPDX-License-Identifier: MIT */
#include "job/claim.h"

#include "base/units.h"
#include "valve/reservations.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

/* Others hold the lock for as long as a decision takes: milliseconds, but a hundred may be before us. Who is stopped in the middle must not stop everybody else for good. */
enum { LOCK_SECONDS = 5, LOCK_PAUSE_MS = 2 };
/* The file was removed between opening and locking: once is an accident, again and again is somebody's doing. */
enum { OPEN_TRIES = 4 };

struct uma_claim {
    char path[PATH_MAX];
    int fd, slot; /* -1: none */
    uint64_t id;
};

const char *uma_claims_folder(void) {
    const char *folder = secure_getenv(UMA_RESERVATIONS_FOLDER_VARIABLE);
    return folder && folder[0] ? folder : UMA_RESERVATIONS_FOLDER;
}

/* ---- locks of single bytes -------------------------------------------------------------------------------------- */

static int set_lock(int fd, short type, off_t byte) {
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

static off_t byte_of(int slot) {
    return UMA_CLAIM_LOCKS + (off_t)slot;
}

static off_t place_of(int slot) {
    return (off_t)offsetof(struct uma_reservations, claims) + (off_t)slot * (off_t)sizeof(struct uma_reservation);
}

static int put(int fd, const void *data, size_t size, off_t place, struct uma_error *err) {
    ssize_t n = pwrite(fd, data, size, place);
    if (n < 0)
        return uma_error_set(err, errno, "writing the register of reservations");
    return (size_t)n == size ? 0 : uma_error_set(err, ENOSPC, "writing the register of reservations");
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static int open_or_make(const char *path) {
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    for (int tries = 0;; tries++) {
        int fd = open(path, flags);
        if (fd >= 0 || errno != ENOENT || tries == OPEN_TRIES)
            return fd < 0 ? -errno : fd;
        fd = open(path, flags | O_CREAT | O_EXCL, 0644);
        if (fd >= 0)
            (void)fchmod(fd, 0644); /* other users' gates read it, whatever this user's umask */
        if (fd >= 0 || errno != EEXIST)
            return fd < 0 ? -errno : fd;
    }
}

/* Somebody else's, or something else, is left as it is: not even its size is written. */
static int check_owner(const struct uma_claim *claim, struct uma_error *err) {
    struct stat st;
    if (fstat(claim->fd, &st) < 0)
        return uma_error_set(err, errno, "%s", claim->path);
    if (!S_ISREG(st.st_mode))
        return uma_error_text(err, EUCLEAN, "%s: not a plain file", claim->path);
    if (st.st_uid != geteuid())
        return uma_error_text(err, EPERM, "%s: another user's file stands in the way", claim->path);
    if (st.st_nlink > 1)
        return uma_error_text(err, EUCLEAN, "%s: it has another name, too", claim->path);
    return 0;
}

static int open_file(struct uma_claim *claim, struct uma_error *err) {
    claim->fd = open_or_make(claim->path);
    if (claim->fd < 0) {
        int r = claim->fd;
        claim->fd = -1;
        return r == -ELOOP ? uma_error_text(err, EUCLEAN, "%s: a symbolic link, which is not followed", claim->path)
                           : uma_error_set(err, -r, "%s", claim->path);
    }
    return check_owner(claim, err);
}

int uma_claim_open(const char *folder, struct uma_claim **ret_claim, struct uma_error *err) {
    struct uma_claim *claim = calloc(1, sizeof(*claim));
    if (!claim)
        return uma_error_set(err, ENOMEM, "a reservation");
    claim->fd = claim->slot = -1;
    int n = snprintf(claim->path, sizeof(claim->path), "%s/" UMA_RESERVATIONS_NAME "%u", folder, (unsigned)geteuid());
    int r = n < 0 || (size_t)n >= sizeof(claim->path) ? uma_error_set(err, ENAMETOOLONG, "the register of reservations")
                                                      : open_file(claim, err);
    if (r < 0) {
        (void)uma_claim_close(claim);
        return r;
    }
    *ret_claim = claim;
    return 0;
}

struct uma_claim *uma_claim_close(struct uma_claim *claim) {
    if (!claim)
        return NULL;
    uma_claim_withdraw(claim);
    if (claim->fd >= 0)
        (void)close(claim->fd); /* and every lock with it */
    free(claim);
    return NULL;
}

/* ---- the lock --------------------------------------------------------------------------------------------------- */

/* Others read the file, and a reader's lock keeps us out: then it is no umactl. */
static int tell_held(const struct uma_claim *claim, struct uma_error *err) {
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = UMA_RESERVATIONS_LOCK, .l_len = 1 };
    if (fcntl(claim->fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_RDLCK)
        return uma_error_text(err, EBUSY, "%s: another umactl has held its lock for %d s", claim->path, LOCK_SECONDS);
    if (lock.l_pid > 0)
        return uma_error_text(err, EBUSY, "%s: process %d, which is no umactl, holds a lock on it", claim->path, (int)lock.l_pid);
    return uma_error_text(err, EBUSY, "%s: a process that is no umactl holds a lock on it", claim->path);
}

static int wait_for_lock(struct uma_claim *claim, int64_t until, struct uma_error *err) {
    int r;
    while ((r = set_lock(claim->fd, F_WRLCK, UMA_RESERVATIONS_LOCK)) == -EAGAIN || r == -EACCES) {
        if (uma_monotonic_ns() > until)
            return tell_held(claim, err);
        (void)poll(NULL, 0, LOCK_PAUSE_MS);
    }
    return r < 0 ? uma_error_set(err, -r, "%s: locking it", claim->path) : 0;
}

/* With the lock: the file still has the name, or it is of no use to anybody who comes later. */
static bool is_named(const struct uma_claim *claim) {
    struct stat named, ours;
    return lstat(claim->path, &named) == 0 && fstat(claim->fd, &ours) == 0 && named.st_ino == ours.st_ino && named.st_dev == ours.st_dev;
}

/* An empty one is new; so is one of the right size with no magic number, whose maker was killed in the middle. */
static int begin_file(struct uma_claim *claim, struct uma_error *err) {
    static const struct uma_reservations none;
    struct uma_reservations_head head = { 0 };
    struct uma_reservations all;
    struct stat st;
    if (fstat(claim->fd, &st) < 0)
        return uma_error_set(err, errno, "%s", claim->path);
    bool whole = st.st_size == (off_t)sizeof(all);
    if (whole && uma_reservations_read(claim->fd, &all))
        return 0;
    if (whole && pread(claim->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
        return uma_error_text(err, EIO, "%s: it was cut short", claim->path);
    if ((!whole && st.st_size != 0) || head.magic != 0)
        return uma_error_text(err, EUCLEAN, "%s: damaged, or none of umactl's; remove it when no job runs", claim->path);
    /* its size at once, for whoever looks meanwhile; then every page of it, because a full tmpfs must not be found out later */
    int r =
        ftruncate(claim->fd, sizeof(none)) < 0 ? uma_error_set(err, errno, "%s", claim->path) : put(claim->fd, &none, sizeof(none), 0, err);
    head = (struct uma_reservations_head){ .magic = UMA_RESERVATIONS_MAGIC, .size = sizeof(all) };
    return r < 0 ? r : put(claim->fd, &head, sizeof(head), 0, err);
}

int uma_claim_lock(struct uma_claim *claim, struct uma_error *err) {
    int64_t until = uma_monotonic_ns() + LOCK_SECONDS * UMA_SECOND_NS;
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        int r = wait_for_lock(claim, until, err);
        if (r < 0)
            return r;
        if (is_named(claim) || claim->slot >= 0) {
            r = begin_file(claim, err);
            if (r < 0)
                uma_claim_unlock(claim);
            return r;
        }
        (void)close(claim->fd);
        r = open_file(claim, err);
        if (r < 0)
            return r;
    }
    return uma_error_text(err, EBUSY, "%s: it is removed again and again", claim->path);
}

void uma_claim_unlock(struct uma_claim *claim) {
    (void)set_lock(claim->fd, F_UNLCK, UMA_RESERVATIONS_LOCK);
}

/* ---- the claim -------------------------------------------------------------------------------------------------- */

/* The first slot that nobody holds; from now on we do. -1: none. */
static int hold_slot(int fd) {
    for (int slot = 0; slot < UMA_CLAIMS_MAX; slot++)
        if (set_lock(fd, F_WRLCK, byte_of(slot)) == 0)
            return slot;
    return -1;
}

static int fill(struct uma_claim *claim, uint64_t bytes, const char *name, struct uma_error *err) {
    struct uma_reservations_head head;
    struct uma_reservation slot = { .reserved = bytes, .pid = (uint32_t)getpid() };
    (void)snprintf(slot.name, sizeof(slot.name), "%s", name);
    while (slot.id == 0)
        if (getrandom(&slot.id, sizeof(slot.id), 0) != (ssize_t)sizeof(slot.id))
            return uma_error_set(err, errno, "a number for the reservation");
    /* what a dead owner left seems to live since the slot is held: it goes first */
    static const struct uma_reservation none;
    int r = put(claim->fd, &none, sizeof(none), place_of(claim->slot), err);
    if (r >= 0 && pread(claim->fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
        r = uma_error_set(err, errno ? errno : EIO, "%s", claim->path);
    if (r >= 0 && head.n_used <= (uint32_t)claim->slot) {
        head.n_used = (uint32_t)claim->slot + 1;
        r = put(claim->fd, &head, sizeof(head), 0, err);
    }
    if (r >= 0)
        r = put(claim->fd, &slot, sizeof(slot), place_of(claim->slot), err);
    if (r >= 0)
        claim->id = slot.id;
    return r;
}

int uma_claim_make(struct uma_claim *claim, uint64_t bytes, const char *name, struct uma_error *err) {
    claim->slot = hold_slot(claim->fd);
    if (claim->slot < 0)
        return uma_error_text(err, ENOSPC, "%s: all its %d places are taken by jobs that run", claim->path, UMA_CLAIMS_MAX);
    int r = fill(claim, bytes, name, err);
    if (r < 0)
        uma_claim_withdraw(claim);
    return r;
}

uint64_t uma_claim_id(const struct uma_claim *claim) {
    return claim ? claim->id : 0;
}

void uma_claim_update(struct uma_claim *claim, uint64_t taken) {
    if (claim && claim->slot >= 0)
        (void)!pwrite(claim->fd, &taken, sizeof(taken), place_of(claim->slot) + (off_t)offsetof(struct uma_reservation, taken));
}

uint64_t uma_claim_taken(struct uma_u64 memory, struct uma_u64 device, struct uma_u64 valve) {
    uint64_t given = MAX_OF(uma_usable(device.validity) ? device.value : 0, uma_usable(valve.validity) ? valve.value : 0), sum;
    return __builtin_add_overflow(given, uma_usable(memory.validity) ? memory.value : 0, &sum) ? UINT64_MAX : sum;
}

void uma_claim_withdraw(struct uma_claim *claim) {
    static const uint64_t none;
    if (!claim || claim->slot < 0)
        return;
    (void)!pwrite(claim->fd, &none, sizeof(none), place_of(claim->slot) + (off_t)offsetof(struct uma_reservation, reserved));
    (void)set_lock(claim->fd, F_UNLCK, byte_of(claim->slot));
    claim->slot = -1;
    claim->id = 0;
}
