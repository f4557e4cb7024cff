/* SPDX-License-Identifier: MIT */
#include "guard/declared.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/listing.h"
#include "guard/scan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* A new user's first job is known within so long; its growth takes longer. */
#define LOOK_EVERY_NS UMA_SECOND_NS
/* Names of a folder in which anybody may make files are looked at no further than this: some hundred others at the most are usual in /dev/shm. */
enum { LISTINGS_MAX = 32 /* of 4 KiB, about 70 names each */ };

/* ---- envelopes ---------------------------------------------------------------------------------------------------- */

/* The place to give up for a larger one: the smallest of `uid`, or of all (`uid` NULL). */
static uint32_t smallest(const struct uma_guard_declared *d, const uint32_t *uid) {
    uint32_t least = UMA_GUARD_ENVELOPES;
    for (uint32_t i = 0; i < d->n; i++)
        if ((!uid || d->uids[i] == *uid) && (least == UMA_GUARD_ENVELOPES || d->list[i].need < d->list[least].need))
            least = i;
    return least;
}

static uint32_t number_of(const struct uma_guard_declared *d, uint32_t uid) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n; i++)
        n += d->uids[i] == uid;
    return n;
}

static void add(struct uma_guard_declared *d, const struct uma_reservation *claim, uint32_t uid) {
    uint32_t at = d->n;
    if (number_of(d, uid) >= UMA_GUARD_USER_ENVELOPES)
        at = smallest(d, &uid);
    else if (d->n == UMA_GUARD_ENVELOPES)
        at = smallest(d, NULL);
    if (at < d->n && d->list[at].need >= claim->reserved)
        return;
    if (at == d->n)
        d->n++;
    d->list[at] =
        (struct uma_guard_envelope){ .id = claim->id, .pid = (int32_t)claim->pid, .need = claim->reserved, .taken = claim->taken };
    d->uids[at] = uid;
}

void uma_guard_declared_take(struct uma_guard_declared *declared, const struct uma_reservations *reservations, uint32_t uid,
                             bool (*lives)(void *userdata, unsigned slot), void *userdata) {
    for (uint32_t i = 0; i < MIN_OF(reservations->head.n_used, (uint32_t)UMA_CLAIMS_MAX); i++) {
        const struct uma_reservation *claim = &reservations->claims[i];
        if (claim->id && claim->reserved && claim->pid > 0 && claim->pid <= INT32_MAX && lives(userdata, i))
            add(declared, claim, uid);
    }
}

/* ---- registers ---------------------------------------------------------------------------------------------------- */

static bool lives(void *userdata, unsigned slot) {
    return uma_reservation_lives(*(int *)userdata, slot);
}

static void forget(struct uma_guard_declared *d, uint32_t i) {
    (void)close(d->registers[i].fd);
    d->registers[i] = d->registers[--d->n_registers];
}

/* False: it is none any more. One that was removed counts as long as it has claims: who made them does not know. */
static bool read_register(struct uma_guard_declared *d, struct uma_guard_register *r) {
    const char *why;
    struct stat st;
    uint32_t before = d->n;
    if (!uma_reservations_accept(r->fd, r->uid, &why) || fstat(r->fd, &st) < 0)
        return false;
    if (uma_reservations_read(r->fd, &d->read)) /* else it is being made, or was cut: the next time */
        uma_guard_declared_take(d, &d->read, r->uid, lives, &r->fd);
    return st.st_nlink > 0 || d->n > before;
}

bool uma_guard_register_name(const char *name, size_t length, uint32_t *ret_uid) {
    const size_t prefix = sizeof(UMA_RESERVATIONS_NAME) - 1;
    const char *end = name + length, *digits = name + prefix;
    uint64_t uid;
    if (length <= prefix || memcmp(name, UMA_RESERVATIONS_NAME, prefix) != 0 || (*digits == '0' && length > prefix + 1) ||
        uma_parse_u64(digits, end, &uid) != end || uid > UINT32_MAX)
        return false;
    *ret_uid = (uint32_t)uid;
    return true;
}

static bool is_known(const struct uma_guard_declared *d, const struct stat *st) {
    for (uint32_t i = 0; i < d->n_registers; i++)
        if (d->registers[i].device == st->st_dev && d->registers[i].inode == st->st_ino)
            return true;
    return false;
}

static void find_register(struct uma_guard_declared *d, const char *name, uint32_t uid) {
    struct stat st;
    const char *why;
    if (d->n_registers == UMA_GUARD_REGISTERS || fstatat(d->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        st.st_uid != uid || is_known(d, &st))
        return;
    _cleanup_close_ int fd = openat(d->dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || is_known(d, &st) || !uma_reservations_accept(fd, uid, &why))
        return;
    d->registers[d->n_registers++] =
        (struct uma_guard_register){ .fd = TAKE_FD(fd), .uid = uid, .device = (uint64_t)st.st_dev, .inode = (uint64_t)st.st_ino };
}

static void find_in_names(struct uma_guard_declared *d, long n) {
    long at = 0;
    for (const struct uma_guard_entry *entry; (entry = uma_guard_entry_next(d->names, n, &at));) {
        uint32_t uid;
        if (uma_guard_register_name(entry->name, strlen(entry->name), &uid))
            find_register(d, entry->name, uid);
    }
}

static void look_for_registers(struct uma_guard_declared *d, int64_t now) {
    if (d->looked != 0 && now - d->looked < LOOK_EVERY_NS && now >= d->looked)
        return;
    d->looked = now;
    if (d->dir < 0)
        d->dir = open(d->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir < 0 || lseek(d->dir, 0, SEEK_SET) < 0)
        return;
    for (int i = 0; i < LISTINGS_MAX; i++) {
        long n = uma_guard_list(d->dir, d->names, sizeof(d->names));
        if (n <= 0)
            break;
        find_in_names(d, n);
    }
}

void uma_guard_declared_read(struct uma_guard_declared *declared, int64_t now) {
    look_for_registers(declared, now);
    declared->n = 0;
    for (uint32_t i = 0; i < declared->n_registers;) {
        if (read_register(declared, &declared->registers[i]))
            i++;
        else
            forget(declared, i);
    }
}

void uma_guard_declared_open(struct uma_guard_declared *declared, const char *folder) {
    (void)memset(declared, 0, offsetof(struct uma_guard_declared, read));
    declared->folder = folder ? folder : UMA_RESERVATIONS_FOLDER;
    declared->dir = open(declared->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void uma_guard_declared_close(struct uma_guard_declared *declared) {
    while (declared->n_registers > 0)
        forget(declared, declared->n_registers - 1);
    if (declared->dir >= 0)
        (void)close(declared->dir);
    declared->dir = -1;
    declared->n = 0;
}
