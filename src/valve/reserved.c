/* SPDX-License-Identifier: MIT */
#include "valve/reserved.h"

#include "valve/call.h"
#include "valve/digits.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HIGH = 500 /* programs close and reuse low numbers */ };
#define ASK_NS ((uint64_t)1000000000)

static uint64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void uma_valve_reserved_begin(struct uma_valve_reserved *reserved) {
    const char *folder = getenv(UMA_RESERVATIONS_FOLDER_VARIABLE);
    uint32_t uid = (uint32_t)geteuid();
    if (!folder || !folder[0])
        folder = UMA_RESERVATIONS_FOLDER;
    bool fits = strlen(folder) < sizeof(reserved->folder); /* else there are none */
    (void)memcpy(reserved->folder, folder, fits ? strlen(folder) + 1 : 0);
    reserved->n_own = uma_own_claims_parse(getenv(UMA_RESERVATION_VARIABLE), reserved->own);
    reserved->n_registers = !fits ? 0 : uid == 0 ? 1 : 2;
    reserved->registers[0].uid = uid;
    for (unsigned i = 0; i < 2; i++)
        reserved->registers[i].fd = -1;
}

static bool is_file(const struct uma_valve_register *r, const struct uma_valve_statx *st) {
    return st->ino == r->inode && st->dev_major == r->device_major && st->dev_minor == r->device_minor;
}

/* Is what has the number still the register? Daemons close all that is open, and then open their own. */
static bool still_ours(const struct uma_valve_register *r) {
    struct uma_valve_statx st;
    return r->fd >= 0 && uma_valve_stat(r->fd, "", UMA_VALVE_AT_EMPTY_PATH, &st) && is_file(r, &st) &&
           st.size == sizeof(struct uma_reservations);
}

static int open_high(const char *path) {
    int low = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int high = low >= 0 ? fcntl(low, F_DUPFD_CLOEXEC, HIGH) : -1;
    if (high >= 0)
        (void)close(low);
    return high >= 0 ? high : low;
}

static char *put(char *at, const char *text) {
    size_t n = strlen(text);
    (void)memcpy(at, text, n + 1);
    return at + n;
}

/* The file that has the name now. What is none is passed over, as one that is not there. */
static void open_anew(struct uma_valve_register *r, const char *folder) {
    char path[UMA_VALVE_RESERVED_FOLDER + sizeof("/" UMA_RESERVATIONS_NAME) + UMA_VALVE_DIGITS];
    struct uma_valve_statx st;
    const char *why;
    (void)uma_valve_put_number(put(put(path, folder), "/" UMA_RESERVATIONS_NAME), r->uid);
    bool there = uma_valve_stat(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, &st);
    if (r->fd >= 0 && there && is_file(r, &st))
        return;
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = there ? open_high(path) : -1;
    if (r->fd < 0)
        return;
    if (!uma_reservations_accept(r->fd, r->uid, &why) || !uma_valve_stat(r->fd, "", UMA_VALVE_AT_EMPTY_PATH, &st)) {
        (void)close(r->fd);
        r->fd = -1;
        return;
    }
    r->inode = st.ino;
    r->device_major = st.dev_major;
    r->device_minor = st.dev_minor;
}

static uint64_t sum(struct uma_valve_reserved *reserved, struct uma_valve_register *r, bool ask) {
    struct uma_reservations *all = &reserved->buffer;
    uint64_t bytes = 0;
    if (r->fd >= 0 && !still_ours(r)) {
        r->fd = -1; /* and another's to close */
        ask = true;
    }
    if (ask)
        open_anew(r, reserved->folder);
    if (r->fd < 0 || !uma_reservations_read(r->fd, all))
        return 0;
    for (unsigned i = 0; i < all->head.n_used; i++) {
        const struct uma_reservation *claim = &all->claims[i];
        uint64_t unspent = uma_reservation_unspent(claim);
        if (unspent == 0 || uma_own_claims_have(reserved->own, reserved->n_own, claim->id))
            continue;
        if (ask || r->ids[i] != claim->id) {
            r->ids[i] = claim->id;
            r->lives[i] = uma_reservation_lives(r->fd, i);
        }
        if (r->lives[i] && __builtin_add_overflow(bytes, unspent, &bytes))
            bytes = UINT64_MAX;
    }
    return bytes;
}

uint64_t uma_valve_reserved(struct uma_valve_reserved *reserved) {
    uint64_t bytes = 0;
    if (!uma_valve_spin_lock(&reserved->lock))
        return atomic_load(&reserved->last);
    uint64_t now = now_ns();
    bool ask = reserved->asked_ns == 0 || now - reserved->asked_ns >= ASK_NS;
    if (ask)
        reserved->asked_ns = now;
    for (unsigned i = 0; i < reserved->n_registers; i++)
        if (__builtin_add_overflow(bytes, sum(reserved, &reserved->registers[i], ask), &bytes))
            bytes = UINT64_MAX;
    atomic_store(&reserved->last, bytes);
    uma_valve_spin_unlock(&reserved->lock);
    return bytes;
}
