/* SPDX-License-Identifier: MIT */
#include "valve/account.h"

#include "valve/call.h"
#include "valve/digits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct uma_valve_slot) == 128, "two lines of 64 bytes, and as much as processors fetch at once");

/* Two that ask at once see each other's bytes: who is refused looks again, after a pause that is not the other's. */
enum { TAKE_TRIES = 4, TAKE_PAUSE_NS = 20000 };

void uma_valve_account_begin(struct uma_valve_account *account, uint64_t ceiling, uint64_t floor) {
    account->size = sizeof(*account);
    atomic_store(&account->ceiling, ceiling);
    atomic_store(&account->floor, floor);
    atomic_thread_fence(memory_order_release);
    account->magic = UMA_VALVE_ACCOUNT_MAGIC;
}

bool uma_valve_account_valid(const struct uma_valve_account *account, uint64_t size) {
    return size >= sizeof(*account) && account->magic == UMA_VALVE_ACCOUNT_MAGIC && account->size == sizeof(*account);
}

/* ---- facts of a process ---- */

/* The field that comes so many later; NULL: there is none. */
static const char *field_after(const char *s, int n) {
    while (s && n-- > 0) {
        s = strchr(s, ' ');
        s = s ? s + 1 : NULL;
    }
    return s;
}

static uint64_t number_at(const char *s) {
    uint64_t value = 0;
    for (; s && *s >= '0' && *s <= '9'; s++)
        value = value * 10 + (uint64_t)(*s - '0');
    return value;
}

uint64_t uma_valve_start_time(uint32_t pid) {
    uint64_t stack;
    return uma_valve_start_of(pid, &stack);
}

uint64_t uma_valve_start_of(uint32_t pid, uint64_t *ret_stack) {
    char path[32] = "/proc/", text[512];
    char *at = uma_valve_put_number(path + strlen(path), pid);
    (void)memcpy(at, "/stat", sizeof("/stat"));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *ret_stack = 0;
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *s = strrchr(text, ')');         /* the name before it may hold anything */
    const char *status = field_after(s, 3 - 2); /* the name is field 2 */
    bool ended = status && (*status == 'Z' || *status == 'X') && number_at(field_after(s, 20 - 2)) <= 1;
    s = field_after(s, 22 - 2);
    *ret_stack = number_at(field_after(s, 28 - 22));
    return ended ? UMA_VALVE_ENDED : number_at(s);
}

uint32_t uma_valve_pid_namespace(void) {
    struct uma_valve_statx pid, time;
    if (!uma_valve_stat(AT_FDCWD, "/proc/self/ns/pid", 0, &pid))
        return 0;
    /* in another time namespace (5.6) everybody's start is another */
    uint32_t clock = uma_valve_stat(AT_FDCWD, "/proc/self/ns/time", 0, &time) ? (uint32_t)time.ino : 0;
    return (uint32_t)pid.ino ^ clock << 16 ^ clock >> 16;
}

/* ---- slots ---- */

static unsigned n_slots(const struct uma_valve_account *account) {
    uint32_t n = atomic_load_explicit(&account->n_slots, memory_order_acquire);
    return n < UMA_VALVE_SLOTS ? n : UMA_VALVE_SLOTS;
}

static struct uma_valve_slot *claim(struct uma_valve_account *account, uint32_t pid) {
    for (unsigned i = 0; i < UMA_VALVE_SLOTS; i++) {
        uint32_t none = 0;
        if (!atomic_compare_exchange_strong(&account->slots[i].pid, &none, pid))
            continue;
        uint32_t n = atomic_load(&account->n_slots);
        while (n <= i && !atomic_compare_exchange_weak(&account->n_slots, &n, i + 1))
            ;
        return &account->slots[i];
    }
    return NULL;
}

/* The slot of this very process before it executed another program: what it had taken went with the old one. */
static struct uma_valve_slot *own(struct uma_valve_account *account, uint32_t pid, uint32_t namespace) {
    for (unsigned i = 0; i < n_slots(account); i++)
        if (atomic_load(&account->slots[i].pid) == pid && account->slots[i].pid_namespace == namespace)
            return &account->slots[i];
    return NULL;
}

static void clear(struct uma_valve_slot *slot) {
    atomic_store(&slot->used, 0);
    atomic_store(&slot->overhead, 0);
    atomic_store(&slot->under_way, 0);
    atomic_store(&slot->untouched, 0);
    atomic_store(&slot->refused, 0);
}

struct uma_valve_slot *uma_valve_account_join(struct uma_valve_account *account) {
    uint32_t pid = (uint32_t)getpid(), namespace = uma_valve_pid_namespace();
    uint64_t stack,
        start = uma_valve_start_of(pid, &stack); /* before a slot is taken: who dies in between leaves one of which nothing is known */
    struct uma_valve_slot *slot = own(account, pid, namespace);
    if (slot)
        clear(slot);
    else
        slot = claim(account, pid);
    if (!slot) {
        (void)uma_valve_account_prune(account);
        slot = claim(account, pid);
    }
    if (!slot)
        return NULL;
    atomic_store(&slot->pid_namespace, namespace);
    (void)memset(slot->name, 0, sizeof(slot->name));
    (void)prctl(PR_GET_NAME, slot->name);
    slot->name[sizeof(slot->name) - 1] = '\0';
    atomic_store(&slot->stack, stack);
    atomic_store(&slot->start_time, start);
    return slot;
}

static bool has_ended(uint32_t pid, uint64_t is) {
    return is == UMA_VALVE_ENDED || (is == 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH); /* 0: none, or one that is hidden */
}

/* `pid`: as it stands in the slot. */
static bool is_dead(const struct uma_valve_slot *slot, uint32_t pid, uint32_t namespace) {
    uint64_t start = atomic_load(&slot->start_time), stack, was = atomic_load(&slot->stack);
    if (pid == 0 || namespace == 0 || atomic_load(&slot->pid_namespace) != namespace)
        return false;
    if (pid & UMA_VALVE_FREEING) { /* who was at it may have died before it was done */
        pid &= ~UMA_VALVE_FREEING;
        return has_ended(pid, uma_valve_start_of(pid, &stack));
    }
    uint64_t is = uma_valve_start_of(pid, &stack);
    if (has_ended(pid, is))
        return true;
    return is != 0 && start != 0 && (is != start || (stack && was && stack != was)); /* start 0: it has not come to write it */
}

uint64_t uma_valve_account_prune(struct uma_valve_account *account) {
    uint32_t namespace = uma_valve_pid_namespace(), own_pid = (uint32_t)getpid();
    uint64_t freed = 0;
    if (uma_valve_start_time(own_pid) == 0)
        return 0; /* no /proc, or another's: everybody would seem dead */
    for (unsigned i = 0; i < n_slots(account); i++) {
        struct uma_valve_slot *slot = &account->slots[i];
        uint32_t pid = atomic_load(&slot->pid);
        if (!is_dead(slot, pid, namespace) || !atomic_compare_exchange_strong(&slot->pid, &pid, own_pid | UMA_VALVE_FREEING))
            continue;
        atomic_store(&slot->start_time, 0);
        freed += atomic_load(&slot->used) + atomic_load(&slot->overhead);
        clear(slot);
        atomic_store(&slot->pid_namespace, 0); /* or the next one's number is looked for there before it has written its own */
        atomic_store(&slot->pid, 0);
    }
    return freed;
}

/* ---- taking ---- */

uint64_t uma_valve_account_used(const struct uma_valve_account *account) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < n_slots(account); i++)
        sum += atomic_load(&account->slots[i].used) + atomic_load(&account->slots[i].overhead);
    return sum;
}

uint64_t uma_valve_account_under_way(const struct uma_valve_account *account) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < n_slots(account); i++)
        sum += atomic_load(&account->slots[i].under_way);
    return sum;
}

bool uma_valve_account_take(struct uma_valve_account *account, struct uma_valve_slot *slot, uint64_t size, uint64_t *ret_used) {
    uint64_t ceiling = atomic_load_explicit(&account->ceiling, memory_order_relaxed), used = 0;
    for (int tries = 0; tries < TAKE_TRIES; tries++) {
        (void)atomic_fetch_add(&slot->under_way, size);
        (void)atomic_fetch_add(&slot->used, size);
        used = uma_valve_account_used(account);
        used -= size < used ? size : used;
        if (size <= ceiling && used <= ceiling - size) {
            *ret_used = used;
            return true;
        }
        uma_valve_account_untake(slot, size);
        if (size > ceiling)
            break;
        if (uma_valve_account_prune(account) == 0 && uma_valve_account_under_way(account) == 0)
            break; /* nobody else is asking: it will not be otherwise the next time */
        struct timespec pause = { .tv_nsec = TAKE_PAUSE_NS * (long)(1 + ((uint32_t)getpid() + (uint32_t)tries * 3) % 7) };
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    *ret_used = used;
    return false;
}

void uma_valve_account_taken(struct uma_valve_slot *slot, uint64_t size, uint64_t given) {
    if (given > size)
        (void)atomic_fetch_add(&slot->used, given - size);
    else
        uma_valve_account_give_back(slot, size - given);
    (void)atomic_fetch_sub(&slot->under_way, size);
}

void uma_valve_account_untake(struct uma_valve_slot *slot, uint64_t size) {
    (void)atomic_fetch_sub(&slot->used, size);
    (void)atomic_fetch_sub(&slot->under_way, size);
}

void uma_valve_account_give_back(struct uma_valve_slot *slot, uint64_t size) {
    (void)atomic_fetch_sub(&slot->used, size);
}

/* What calls have been answered with. One that is asked or answered meanwhile is under way before or after it is read. */
static uint64_t given_to(const struct uma_valve_slot *slot) {
    uint64_t before = atomic_load(&slot->under_way), used = atomic_load(&slot->used), after = atomic_load(&slot->under_way);
    uint64_t under_way = before > after ? before : after;
    return used > under_way ? used - under_way : 0;
}

void uma_valve_account_note_most(struct uma_valve_account *account) {
    uint64_t given = 0, most = atomic_load_explicit(&account->most, memory_order_relaxed);
    for (unsigned i = 0; i < n_slots(account); i++)
        given += given_to(&account->slots[i]);
    while (given > most && !atomic_compare_exchange_weak(&account->most, &most, given))
        ;
}

/* ---- events ---- */

static void copy_event(struct uma_valve_event *to, const struct uma_valve_event *from) {
#define COPY(field) atomic_store_explicit(&to->field, atomic_load_explicit(&from->field, memory_order_relaxed), memory_order_relaxed)
    COPY(time_ns);
    COPY(size);
    COPY(used);
    COPY(ceiling);
    COPY(available);
    COPY(free);
    COPY(floor);
    COPY(reserved);
    COPY(evicted);
    COPY(pid);
    COPY(kind);
#undef COPY
}

void uma_valve_account_tell(struct uma_valve_account *account, const struct uma_valve_event *event) {
    if (event->kind < UMA_VALVE_EVENT_KINDS)
        (void)atomic_fetch_add(&account->counts[event->kind], 1);
    (void)atomic_fetch_add(&account->evicted, event->evicted);
    uint64_t sequence = atomic_fetch_add(&account->next_event, 1) + 1;
    struct uma_valve_event *to = &account->events[sequence % UMA_VALVE_EVENTS];
    atomic_store(&to->sequence, 0);
    copy_event(to, event);
    atomic_store_explicit(&to->sequence, sequence, memory_order_release);
}

unsigned uma_valve_account_events(const struct uma_valve_account *account, uint64_t *after, struct uma_valve_event *ret, unsigned n) {
    uint64_t last = atomic_load(&account->next_event);
    unsigned found = 0;
    if (last > UMA_VALVE_EVENTS && *after < last - UMA_VALVE_EVENTS)
        *after = last - UMA_VALVE_EVENTS;
    while (*after < last && found < n) {
        const struct uma_valve_event *from = &account->events[(*after + 1) % UMA_VALVE_EVENTS];
        uint64_t sequence = atomic_load_explicit(&from->sequence, memory_order_acquire);
        if (sequence == 0 || sequence < *after + 1)
            break; /* being written */
        struct uma_valve_event copy;
        copy_event(&copy, from);
        atomic_thread_fence(memory_order_acquire);
        ++*after;
        if (atomic_load_explicit(&from->sequence, memory_order_relaxed) != *after)
            continue; /* overwritten meanwhile */
        atomic_store(&copy.sequence, sequence);
        ret[found++] = copy;
    }
    return found;
}
