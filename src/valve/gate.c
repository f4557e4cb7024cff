/* SPDX-License-Identifier: MIT */
#include "valve/gate.h"

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* Of the machine's, beyond what must stay. */
static uint64_t machine_room(const struct uma_valve_question *q) {
    uint64_t stays = !q->floor ? 0 : q->floor < UINT64_MAX - UMA_VALVE_MARGIN ? q->floor + UMA_VALVE_MARGIN : UINT64_MAX;
    return less(less(less(q->available, q->under_way), stays), q->reserved);
}

enum uma_valve_answer uma_valve_judge(const struct uma_valve_question *q) {
    if (q->size > q->ceiling || q->used > q->ceiling - q->size)
        return UMA_VALVE_OVER_CEILING;
    if (!q->unified || !q->known)
        return UMA_VALVE_PASS;
    if (q->size > machine_room(q))
        return UMA_VALVE_UNDER_FLOOR;
    uint64_t free = less(q->free, q->under_way);
    return free < q->size || free - q->size < UMA_VALVE_SLACK ? UMA_VALVE_MAKE_ROOM : UMA_VALVE_PASS;
}

uint64_t uma_valve_room(const struct uma_valve_question *q) {
    uint64_t room = less(q->ceiling, q->used);
    uint64_t machine = q->known ? machine_room(q) : UINT64_MAX;
    return q->unified && machine < room ? machine : room;
}

uint64_t uma_valve_unlooked(const struct uma_valve_question *q) {
    const uint64_t most = (uint64_t)256 << 20;
    if (!q->known)
        return UMA_VALVE_LOOK;
    uint64_t room = machine_room(q), free = less(less(q->free, q->under_way), UMA_VALVE_SLACK);
    uint64_t share = less(free < room ? free : room, q->size) / 64;
    return share < UMA_VALVE_LOOK ? UMA_VALVE_LOOK : share > most ? most : share;
}

uint64_t uma_valve_default_floor(uint64_t total) {
    const uint64_t least = (uint64_t)512 << 20, most = (uint64_t)4 << 30, share = total / 32;
    return share < least ? least : share > most ? most : share;
}
