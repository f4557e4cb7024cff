/* SPDX-License-Identifier: MIT */
#include "guard/trail.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/checksum.h"
#include "guard/ring_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Decisions come at most every 10 ms, each with a receipt or two: so many places hold what comes while a disk takes a twentieth of a second. They are 32 KiB of the guard's memory. */
enum { PLACES = 16 };
#define CLOSE_WAIT_NS INT64_C(2000000000) /* a disk that answers at all has synced by then; systemd's stop timeout is far longer */

_Static_assert(sizeof(struct uma_guard_trail_record) <= UMA_GUARD_TRAIL_PLACE, "a record fits its place");
_Static_assert(offsetof(struct uma_guard_trail_record, checksum) + sizeof(uint32_t) == sizeof(struct uma_guard_trail_record),
               "the sum is of all before it");

struct uma_guard_trail {
    struct uma_guard_write_behind *writer; /* NULL: nothing is kept */
    uint64_t number;                       /* of the newest record */
    uint64_t lost;                         /* without a writer */
    uint8_t boot[16];
};

bool uma_guard_trail_record_fine(const void *data, size_t place) {
    _Alignas(struct uma_guard_trail_record) uint8_t raw[sizeof(struct uma_guard_trail_record)];
    memcpy(raw, data, sizeof(raw));
    const struct uma_guard_trail_record *r = (const void *)raw;
    const struct uma_guard_decision *d = &r->decision;
    if (r->magic != UMA_GUARD_TRAIL_MAGIC || r->checksum != uma_guard_checksum(0, raw, offsetof(struct uma_guard_trail_record, checksum)))
        return false;
    /* a number that no guard reaches would leave none for those after it */
    if (r->number == 0 || r->number >> 48 || r->number % UMA_GUARD_TRAIL_RECORDS != place)
        return false;
    if (r->kind == UMA_GUARD_TRAIL_NONE || r->kind > UMA_GUARD_TRAIL_NOTE || r->dry_run > 1 || r->text[sizeof(r->text) - 1] != '\0')
        return false;
    if (d->n > UMA_GUARD_ACTIONS || d->n_candidates > UMA_GUARD_CANDIDATES || *(const uint8_t *)&d->want_processes > 1)
        return false;
    for (size_t i = 0; i < UMA_GUARD_ACTIONS; i++)
        if ((unsigned)d->actions[i].kind > UMA_GUARD_LAST_RESORT || (unsigned)d->actions[i].reason > UMA_GUARD_NOT_RELEASED)
            return false;
    for (size_t i = 0; i < UMA_GUARD_CANDIDATES; i++)
        if (*(const uint8_t *)&d->candidates[i].gpu_known > 1 || d->candidates[i].name[UMA_GUARD_NAME_MAX - 1] != '\0')
            return false;
    return true;
}

/* The number of the newest record that is there, so that numbers go on. */
static uint64_t newest(int fd) {
    uint64_t number = 0;
    for (size_t i = 0; i < UMA_GUARD_TRAIL_RECORDS; i++) {
        _Alignas(struct uma_guard_trail_record) uint8_t place[UMA_GUARD_TRAIL_PLACE];
        off_t at = UMA_GUARD_TRAIL_START_OF_RECORDS + (off_t)(i * UMA_GUARD_TRAIL_PLACE);
        if (pread(fd, place, sizeof(place), at) != (ssize_t)sizeof(place))
            continue;
        const struct uma_guard_trail_record *record = (const void *)place;
        if (record->number > number && uma_guard_trail_record_fine(place, i))
            number = record->number;
    }
    return number;
}

struct uma_guard_trail *uma_guard_trail_open(const char *folder, const char **ret_note) {
    struct uma_guard_ring_form form = {
        .name = "trail",
        .size = UMA_GUARD_TRAIL_START_OF_RECORDS + (uint64_t)UMA_GUARD_TRAIL_RECORDS * UMA_GUARD_TRAIL_PLACE,
        .head = UMA_GUARD_TRAIL_HEAD,
        .zeroed = true,
    };
    *ret_note = "no folder is named";
    struct uma_guard_trail *trail = calloc(1, sizeof(*trail));
    if (!trail)
        return NULL;
    uma_guard_boot_id(trail->boot);
    /* a guard that counts otherwise, built with other lists or another byte order, has another form */
    uint64_t shape[3] = { UMA_GUARD_TRAIL_MAGIC, sizeof(struct uma_guard_trail_record), UMA_GUARD_TRAIL_RECORDS };
    memcpy(form.head + sizeof(form.head) - sizeof(shape), shape, sizeof(shape));
    int fd = folder ? uma_guard_ring_file_open(folder, &form, ret_note) : -1;
    if (fd < 0)
        return trail;
    trail->number = newest(fd);
    trail->writer = uma_guard_write_behind_open(fd, sizeof(struct uma_guard_trail_record), PLACES);
    if (!trail->writer)
        *ret_note = "there is no memory, or no thread, to write it with";
    return trail;
}

void uma_guard_trail_close(struct uma_guard_trail *trail) {
    if (!trail)
        return;
    uma_guard_write_behind_close(trail->writer, CLOSE_WAIT_NS);
    free(trail);
}

int uma_guard_trail_write(struct uma_guard_trail *trail, struct uma_guard_trail_record *record, bool wait) {
    record->magic = UMA_GUARD_TRAIL_MAGIC;
    record->number = ++trail->number; /* also of what is lost: a reader sees that something is missing */
    record->real = uma_now_ns();
    record->monotonic = uma_monotonic_ns();
    memcpy(record->boot, trail->boot, sizeof(record->boot));
    record->text[sizeof(record->text) - 1] = '\0';
    record->reserved_ = 0;
    record->checksum = uma_guard_checksum(0, record, offsetof(struct uma_guard_trail_record, checksum));
    if (!trail->writer) {
        trail->lost++;
        return -ENODEV;
    }
    uint64_t at = UMA_GUARD_TRAIL_START_OF_RECORDS + record->number % UMA_GUARD_TRAIL_RECORDS * UMA_GUARD_TRAIL_PLACE, ticket;
    int r = uma_guard_write_behind_put(trail->writer, at, record, sizeof(*record), &ticket);
    return r < 0 || !wait ? r : uma_guard_write_behind_wait(trail->writer, ticket, UMA_GUARD_TRAIL_WAIT_NS);
}

void uma_guard_trail_kept(struct uma_guard_trail *trail, struct uma_guard_kept *ret_kept) {
    *ret_kept = (struct uma_guard_kept){ .lost = trail->lost };
    if (trail->writer)
        uma_guard_write_behind_kept(trail->writer, ret_kept);
}
