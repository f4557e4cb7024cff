/* SPDX-License-Identifier: MIT */
#include "valve/ask.h"

#include "valve/gate.h"
#include "valve/process.h"
#include "valve/room.h"
#include "valve/say.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

/* One line a second says what a thousand would. */
#define TELL_NS ((uint64_t)1000000000)
/* Storage of the thread, of the kind that needs no allocation in a preloaded library. */
static _Thread_local __attribute__((tls_model("initial-exec"))) unsigned depth;

bool uma_valve_inside(void) {
    return depth > 0;
}

void uma_valve_enter(void) {
    depth++;
}

void uma_valve_leave(void) {
    depth--;
}

static uint64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- telling ---- */

/* Who of the job has most. */
static void say_holders(struct uma_valve_line *line, const struct uma_valve_account *account) {
    enum { HOLDERS = 3 };
    uint64_t below = UINT64_MAX;
    uint32_t n = atomic_load(&account->n_slots), last = UINT32_MAX;
    for (unsigned i = 0; i < HOLDERS; i++) {
        uint64_t most = 0;
        uint32_t which = UINT32_MAX, whose = 0;
        for (uint32_t s = 0; s < n && s < UMA_VALVE_SLOTS; s++) {
            uint64_t bytes = atomic_load(&account->slots[s].used) + atomic_load(&account->slots[s].overhead);
            bool next = bytes < below || (bytes == below && last != UINT32_MAX && s > last);
            uint32_t pid = atomic_load(&account->slots[s].pid);
            if (pid && !(pid & UMA_VALVE_FREEING) && next && bytes > most) {
                most = bytes;
                which = s;
                whose = pid;
            }
        }
        if (which == UINT32_MAX)
            return;
        uma_valve_say(line, i == 0 ? "; held by " : ", ");
        uma_valve_say_n(line, account->slots[which].name, sizeof(account->slots[which].name));
        uma_valve_say(line, " (");
        uma_valve_say_number(line, whose);
        uma_valve_say(line, ") ");
        uma_valve_say_bytes(line, most);
        below = most;
        last = which;
    }
}

static void say_refusal(struct uma_valve_process *process, const char *call, const struct uma_valve_question *q, bool ceiling) {
    struct uma_valve_line line = { 0 };
    uint64_t now = now_ns(), told = atomic_load(&process->told_ns);
    if ((told && now - told < TELL_NS) || !atomic_compare_exchange_strong(&process->told_ns, &told, now)) {
        (void)atomic_fetch_add(&process->untold, 1);
        return;
    }
    uma_valve_say(&line, call);
    uma_valve_say(&line, " of ");
    uma_valve_say_bytes(&line, q->size);
    uma_valve_say(&line, " answered with out of memory to ");
    uma_valve_say_n(&line, process->slot->name, sizeof(process->slot->name));
    uma_valve_say(&line, " (");
    uma_valve_say_number(&line, (uint64_t)getpid());
    uma_valve_say(&line, "): the job has ");
    uma_valve_say_bytes(&line, q->used);
    if (ceiling) {
        uma_valve_say(&line, " of its limit of ");
        uma_valve_say_bytes(&line, q->ceiling);
    } else {
        uma_valve_say(&line, "; the machine has ");
        uma_valve_say_bytes(&line, q->available);
        uma_valve_say(&line, " available, of which ");
        uma_valve_say_bytes(&line, q->floor);
        uma_valve_say(&line, " stay with it");
        if (q->reserved) {
            uma_valve_say(&line, " and ");
            uma_valve_say_bytes(&line, q->reserved);
            uma_valve_say(&line, " are reserved by others");
        }
    }
    say_holders(&line, process->account);
    uint64_t untold = atomic_exchange(&process->untold, 0);
    if (untold) {
        uma_valve_say(&line, " (and ");
        uma_valve_say_number(&line, untold);
        uma_valve_say(&line, " more since the last line)");
    }
    uma_valve_say_end(&line);
}

static void raise_event(struct uma_valve_process *process, enum uma_valve_event_kind kind, const struct uma_valve_question *q,
                        uint64_t evicted) {
    struct uma_valve_event event = { .time_ns = now_ns(),
                                     .size = q->size,
                                     .used = q->used,
                                     .ceiling = q->ceiling,
                                     .available = q->available,
                                     .free = q->free,
                                     .floor = q->floor,
                                     .reserved = q->reserved,
                                     .evicted = evicted,
                                     .pid = (uint32_t)getpid(),
                                     .kind = kind };
    uma_valve_account_tell(process->account, &event);
}

/* ---- asking ---- */

static void look(struct uma_valve_process *process, struct uma_valve_question *q) {
    struct uma_valve_reading machine;
    q->reserved = uma_valve_reserved(&process->reserved); /* before the machine: see there */
    q->known = uma_valve_process_read(process, &machine);
    if (!q->known)
        return;
    uint64_t under_way = uma_valve_account_under_way(process->account);
    q->available = machine.available;
    q->free = machine.free;
    q->under_way = under_way > q->size ? under_way - q->size : 0; /* this call's are in it */
    q->floor = atomic_load_explicit(&process->account->floor, memory_order_relaxed);
}

static uint64_t make_room(struct uma_valve_process *process, struct uma_valve_question *q) {
    uint64_t evicted = uma_valve_make_room(process, q->size + UMA_VALVE_SLACK);
    if (evicted > 0)
        raise_event(process, UMA_VALVE_MADE_ROOM, q, evicted);
    return evicted;
}

/* By a clock of some milliseconds, which costs next to nothing. */
static uint64_t coarse_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static bool time_to_look(struct uma_valve_process *process, uint64_t size) {
    uint64_t unlooked = atomic_fetch_add(&process->unlooked, size) + size;
    if (size < UMA_VALVE_LOOK && unlooked < UMA_VALVE_LOOK)
        return false;
    uint64_t now = coarse_ns();
    if (size < UMA_VALVE_LOOK && unlooked < atomic_load(&process->may_unlooked) &&
        now - atomic_load(&process->looked_ns) < UMA_VALVE_LOOK_NS)
        return false;
    atomic_store(&process->unlooked, 0);
    atomic_store(&process->looked_ns, now);
    return true;
}

/* The call's bytes are counted. False: the machine cannot give them. */
static bool machine_can(struct uma_valve_process *process, struct uma_valve_question *q) {
    if (!q->unified || !time_to_look(process, q->size))
        return true;
    look(process, q);
    enum uma_valve_answer answer = uma_valve_judge(q);
    if (answer == UMA_VALVE_MAKE_ROOM && make_room(process, q) > 0) {
        look(process, q);
        answer = uma_valve_judge(q);
    }
    atomic_store(&process->may_unlooked, uma_valve_unlooked(q));
    return answer == UMA_VALVE_PASS || answer == UMA_VALVE_MAKE_ROOM;
}

static bool refuse(struct uma_valve_process *process, const char *call, const struct uma_valve_question *q, bool ceiling) {
    (void)atomic_fetch_add(&process->slot->refused, 1);
    raise_event(process, ceiling ? UMA_VALVE_REFUSED_CEILING : UMA_VALVE_REFUSED_FLOOR, q, 0);
    say_refusal(process, call, q, ceiling);
    return false;
}

bool uma_valve_ask(const char *call, uint64_t size, struct uma_valve_ticket *ret_ticket) {
    *ret_ticket = (struct uma_valve_ticket){ .call = call };
    struct uma_valve_process *process = size > 0 ? uma_valve_process() : NULL;
    if (!process)
        return true;
    int before = errno;
    struct uma_valve_question q = { .size = size, .unified = uma_valve_process_unified(process) };
    q.ceiling = atomic_load_explicit(&process->account->ceiling, memory_order_relaxed);
    bool granted = uma_valve_account_take(process->account, process->slot, size, &q.used);
    if (!granted && uma_valve_pools_look(process))
        granted = uma_valve_account_take(process->account, process->slot, size, &q.used);
    if (!granted)
        (void)refuse(process, call, &q, true);
    else if (!machine_can(process, &q)) {
        uma_valve_account_untake(process->slot, size);
        granted = refuse(process, call, &q, false);
    }
    if (granted) {
        (void)atomic_fetch_add(&process->calls_under_way, 1);
        (void)atomic_fetch_add_explicit(&process->calls_begun, 1, memory_order_relaxed);
        ret_ticket->process = process;
        ret_ticket->size = size;
    }
    errno = before;
    return granted;
}

bool uma_valve_ask_again(struct uma_valve_ticket *ticket) {
    struct uma_valve_process *process = ticket->process;
    if (!process || ticket->retried || !uma_valve_process_unified(process))
        return false;
    int before = errno;
    ticket->retried = true;
    struct uma_valve_question q = { .size = ticket->size, .unified = true, .used = uma_valve_account_used(process->account) };
    q.ceiling = atomic_load(&process->account->ceiling);
    look(process, &q);
    bool again = make_room(process, &q) > 0;
    if (again)
        raise_event(process, UMA_VALVE_RETRIED, &q, 0);
    errno = before;
    return again;
}

static void give_back(struct uma_valve_slot *slot, const struct uma_valve_holding *holding) {
    if (uma_valve_is_managed(holding))
        (void)atomic_fetch_sub(&slot->untouched, holding->size);
    uma_valve_account_give_back(slot, holding->size);
}

void uma_valve_given(struct uma_valve_ticket *ticket, enum uma_valve_kind kind, uint64_t key, uint64_t given, uint32_t context) {
    struct uma_valve_process *process = ticket->process;
    if (!process)
        return;
    bool managed = kind == UMA_VALVE_MANAGED;
    struct uma_valve_holding holding = {
        .key = key, .size = given, .context = context, .kind = (uint16_t)(managed ? UMA_VALVE_DEVICE : kind), .users = 1, .other = managed
    };
    uint64_t before = 0;
    if (managed)
        (void)atomic_fetch_add(&process->slot->untouched, given);
    uma_valve_account_taken(process->slot, ticket->size, given);
    if (!uma_valve_held_put(process->held, &holding, &before))
        give_back(process->slot, &holding); /* its free would not be known: better not counted than counted for good */
    else
        uma_valve_account_give_back(process->slot, before);
    uma_valve_account_note_most(process->account);
    (void)atomic_fetch_sub(&process->calls_under_way, 1);
}

void uma_valve_not_given(struct uma_valve_ticket *ticket) {
    if (!ticket->process)
        return;
    uma_valve_account_untake(ticket->process->slot, ticket->size);
    (void)atomic_fetch_sub(&ticket->process->calls_under_way, 1);
}

/* ---- giving back ---- */

bool uma_valve_freeing(enum uma_valve_kind kind, uint64_t key, struct uma_valve_holding *ret_holding) {
    struct uma_valve_process *process = key ? uma_valve_process() : NULL;
    return process && uma_valve_held_take(process->held, kind, key, ret_holding);
}

void uma_valve_freed(const struct uma_valve_holding *holding) {
    struct uma_valve_process *process = uma_valve_process();
    if (!process)
        return;
    (void)atomic_fetch_add_explicit(&process->calls_begun, 1, memory_order_relaxed);
    give_back(process->slot, holding);
}

void uma_valve_not_freed(const struct uma_valve_holding *holding) {
    struct uma_valve_process *process = uma_valve_process();
    uint64_t before = 0;
    if (process && !uma_valve_held_put(process->held, holding, &before))
        give_back(process->slot, holding);
    else if (process)
        uma_valve_account_give_back(process->slot, before);
}
