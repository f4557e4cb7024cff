/* SPDX-License-Identifier: MIT */
#include "valve/overhead.h"

#include "valve/process.h"

/* A PyTorch process holds 0.69 GiB of context and code after first use; what a difference says beyond this was somebody else's. */
#define MOST ((uint64_t)2 << 30)

bool uma_valve_make_begin(const char *call, uint64_t least, struct uma_valve_making *ret_making) {
    struct uma_valve_reading machine = { 0 };
    struct uma_valve_ticket ticket;
    *ret_making = (struct uma_valve_making){ .process = uma_valve_process() };
    struct uma_valve_process *process = ret_making->process;
    if (!process)
        return true;
    if (!uma_valve_ask(call, least, &ticket))
        return false;
    uma_valve_not_given(&ticket); /* it is measured instead */
    bool alone = atomic_fetch_add(&process->calls_under_way, 1) == 0;
    ret_making->begun = atomic_load(&process->calls_begun);
    ret_making->known = alone && uma_valve_process_read(process, &machine);
    ret_making->free = machine.free;
    return true;
}

static uint64_t taken(const struct uma_valve_making *making) {
    struct uma_valve_reading machine;
    struct uma_valve_process *process = making->process;
    bool alone = atomic_fetch_sub(&process->calls_under_way, 1) == 1 && atomic_load(&process->calls_begun) == making->begun;
    /* whether the memory is the machine's can be asked now at the latest: the driver was initialised */
    if (!alone || !making->known || !uma_valve_process_unified(process) || !uma_valve_process_read(process, &machine))
        return 0;
    uint64_t bytes = making->free > machine.free ? making->free - machine.free : 0;
    return bytes <= MOST ? bytes : 0;
}

void uma_valve_make_end(const struct uma_valve_making *making, enum uma_valve_kind kind, uint64_t key, uint32_t context) {
    struct uma_valve_process *process = making->process;
    if (!process)
        return;
    struct uma_valve_holding holding = { .key = key, .size = taken(making), .context = context, .kind = (uint16_t)kind };
    uint64_t before = 0;
    if (!key || !uma_valve_held_put(process->held, &holding, &before))
        return;
    (void)atomic_fetch_add(&process->slot->overhead, holding.size);
    (void)atomic_fetch_sub(&process->slot->overhead, before);
}

bool uma_valve_overhead_ending(enum uma_valve_kind kind, uint64_t key, struct uma_valve_holding *ret_holding) {
    struct uma_valve_process *process = key ? uma_valve_process() : NULL;
    return process && uma_valve_held_take(process->held, kind, key, ret_holding);
}

void uma_valve_overhead_ended(const struct uma_valve_holding *holding) {
    struct uma_valve_process *process = uma_valve_process();
    if (process)
        (void)atomic_fetch_sub(&process->slot->overhead, holding->size);
}

void uma_valve_overhead_stays(const struct uma_valve_holding *holding) {
    struct uma_valve_process *process = uma_valve_process();
    uint64_t before = 0;
    if (process && (!uma_valve_held_put(process->held, holding, &before) || before))
        (void)atomic_fetch_sub(&process->slot->overhead, before ? before : holding->size);
}
