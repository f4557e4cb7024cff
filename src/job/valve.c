/* SPDX-License-Identifier: MIT */
#include "job/valve.h"

#include "base/thread.h"
#include "base/units.h"
#include "base/values.h"
#include "cache/follow_others.h"
#include "job/preload_library.h"
#include "valve/gate.h"
#include "valve/room.h"
#include "valve/settings.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* How long the thread sleeps when nobody asks: it looks whether it is to stop. */
#define LOOK_NS (UMA_SECOND_NS / 4)
/* A list of idle files that is being read is asked for again after so long. */
enum { LIST_PAUSE_MS = 5 };
/* Events are told one by one up to so many, and beyond that one a second: a program that asks again and again is refused a million times a second, and the record is to stay readable, and small. */
enum { EVENTS_AT_ONCE = 16 };
/* Files are evicted one by one, and the largest take some tens of milliseconds. */
#define STOP_NS UMA_SECOND_NS

struct uma_job_valve {
    struct uma_job_valve_options options;
    struct uma_valve_account *account;
    int fd;
    char token[UMA_JOB_VALVE_TOKEN];
    struct uma_thread thread;
    bool running;
    _Atomic bool stopping;
    struct uma_follow_others *others;
    uint64_t events_seen, event_told; /* their numbers */
    unsigned events_left;             /* how many may be told now */
    int64_t events_paid_ns;           /* until when that was reckoned */
};

/* ---- before the job --------------------------------------------------------------------------------------------- */

int uma_job_valve_limit_parse(const char *s, uint64_t *ret_limit, struct uma_error *err) {
    uint64_t limit;
    int r = uma_parse_size(s, &limit, err);
    if (r >= 0 && limit == 0)
        return uma_error_text(err, EINVAL, "a job that may take nothing cannot use CUDA");
    if (r >= 0)
        *ret_limit = limit;
    return r;
}

int uma_job_valve_report_parse(const char *s, const char **ret_report, struct uma_error *err) {
    static const char *const names[] = { "auto", "pool", "raw" };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(s, names[i]) == 0) {
            *ret_report = names[i];
            return 0;
        }
    return uma_error_text(err, EINVAL, "\"%.64s\" is not one of auto, pool, raw", s);
}

/* A bare number is NVIDIA's: others have their name before it (observe/platform.c). */
static bool is_nvidias(const char *driver) {
    return driver && driver[0] >= '0' && driver[0] <= '9';
}

bool uma_job_valve_wanted(const struct uma_job_valve_options *options, const struct uma_snapshot *before, bool from_folder) {
    if (options->when != UMA_JOB_VALVE_AUTO)
        return options->when == UMA_JOB_VALVE_ALWAYS;
    if (from_folder)
        return false;
    if (is_nvidias(before->platform.driver))
        return true;
    for (size_t i = 0; i < before->gpus.n; i++) {
        const char *vendor = before->gpus.list[i].vendor;
        if (vendor && (strcmp(vendor, "nvidia") == 0 || strcmp(vendor, "tegra") == 0))
            return true;
    }
    return false;
}

void uma_job_valve_settings(const struct uma_job_valve_options *options, struct uma_text *text) {
    uma_text_printf(text, "report:%s", options->report ? options->report : "auto");
    if (options->has_floor)
        uma_text_printf(text, ",floor:%llu", (unsigned long long)options->floor);
    if (options->limit)
        uma_text_printf(text, ",ceiling:%llu", (unsigned long long)options->limit);
}

static int make_account(struct uma_job_valve *valve, uint64_t floor, struct uma_error *err) {
    char name[sizeof(UMA_VALVE_ACCOUNT_NAME) + UMA_JOB_VALVE_TOKEN];
    (void)snprintf(name, sizeof(name), UMA_VALVE_ACCOUNT_NAME "%s", valve->token);
    valve->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (valve->fd < 0 || ftruncate(valve->fd, sizeof(*valve->account)) < 0)
        return uma_error_set(err, errno, "memory for the job's account");
    (void)fcntl(valve->fd, F_ADD_SEALS, UMA_VALVE_ACCOUNT_SEALS);
    void *at = mmap(NULL, sizeof(*valve->account), PROT_READ | PROT_WRITE, MAP_SHARED, valve->fd, 0);
    if (at == MAP_FAILED)
        return uma_error_set(err, errno, "memory for the job's account");
    valve->account = at;
    uma_valve_account_begin(valve->account, valve->options.limit ? valve->options.limit : UMA_VALVE_NONE, floor);
    return 0;
}

int uma_job_valve_token(char ret_token[UMA_JOB_VALVE_TOKEN], struct uma_error *err) {
    uint64_t random;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return uma_error_set(err, errno, "a token for the job");
    (void)snprintf(ret_token, UMA_JOB_VALVE_TOKEN, "%016llx", (unsigned long long)random);
    return 0;
}

/* Processes of the job open it through umactl's own descriptor: nothing of it has a name in a file system. */
static int tell_job(const struct uma_job_valve *valve, struct uma_job_environment *environment, struct uma_error *err) {
    _cleanup_text_ struct uma_text place = { 0 }, settings = { 0 };
    char library[PATH_MAX];
    struct stat st;
    if (fstat(valve->fd, &st) < 0)
        return uma_error_set(err, errno, "the job's account");
    uint32_t pid = (uint32_t)getpid();
    uma_text_printf(&place, "%u:%llu:%d:%llu", pid, (unsigned long long)uma_valve_start_time(pid), valve->fd,
                    (unsigned long long)st.st_ino);
    uma_job_valve_settings(&valve->options, &settings);
    uma_text_printf(&settings, ",token:%s", valve->token); /* for those that cannot reach umactl, or outlive it: they find each other */
    if (place.failed || settings.failed)
        return uma_error_set(err, ENOMEM, "the job's environment");
    int r = uma_library_find(&uma_library_valve, library, err);
    if (r >= 0)
        r = uma_job_environment_set(environment, UMA_VALVE_ACCOUNT_VARIABLE, place.data, err);
    if (r >= 0)
        r = uma_job_environment_set(environment, UMA_VALVE_VARIABLE, settings.data, err);
    return r >= 0 ? uma_job_environment_preload(environment, library, err) : r;
}

static void release(struct uma_job_valve *valve) {
    valve->others = uma_follow_others_free(valve->others);
    if (valve->account)
        (void)munmap(valve->account, sizeof(*valve->account));
    if (valve->fd >= 0)
        (void)close(valve->fd);
    free(valve);
}

/* A unit mistaken, or a limit given as a floor: nothing would be given, and each refusal would look like a full machine. */
static void tell_of_floor(const struct uma_job_valve_options *options, uint64_t total) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (!options->has_floor || !total || options->floor < total)
        return;
    uma_text_append(&text, "--floor: ");
    uma_text_bytes(&text, options->floor);
    uma_text_append(&text, " is all that the machine has (");
    uma_text_bytes(&text, total);
    uma_text_append(&text, "), or more: the job is given nothing by CUDA (--limit N is what it may take)");
    if (!text.failed)
        uma_job_tell("%s", text.data);
}

/* A job inside a job is not let out of the outer one's limit and floor, by a limit of its own or by none. */
static void stay_within(struct uma_job_valve_options *options) {
    struct uma_valve_settings outer;
    const char *unknown;
    size_t length;
    uma_valve_settings_parse(getenv(UMA_VALVE_VARIABLE), &outer, &unknown, &length);
    if (outer.off)
        return;
    if (outer.ceiling != UMA_VALVE_NONE && outer.ceiling > 0 && (!options->limit || options->limit > outer.ceiling)) {
        if (options->limit)
            uma_job_tell("the job that this one is in has a lower limit, which holds here, too");
        options->limit = outer.ceiling;
    }
    if (outer.has_floor && (!options->has_floor || options->floor < outer.floor)) {
        options->has_floor = true;
        options->floor = outer.floor;
    }
}

struct uma_job_valve *uma_job_valve_prepare(const struct uma_job_valve_options *options, uint64_t total,
                                            struct uma_job_environment *environment) {
    struct uma_error err = { 0 };
    struct uma_job_valve *valve = calloc(1, sizeof(*valve));
    if (!valve) {
        uma_job_tell("out of memory: the job runs without the valve");
        return NULL;
    }
    valve->options = *options;
    stay_within(&valve->options);
    valve->fd = -1;
    tell_of_floor(&valve->options, total);
    valve->events_left = EVENTS_AT_ONCE;
    valve->events_paid_ns = uma_monotonic_ns();
    uint64_t floor = valve->options.has_floor ? valve->options.floor : total ? uma_valve_default_floor(total) : 0;
    int r = uma_job_valve_token(valve->token, &err);
    if (r >= 0)
        r = make_account(valve, floor, &err);
    if (r >= 0)
        r = tell_job(valve, environment, &err);
    if (r < 0) {
        uma_job_tell("the valve cannot be used: %s%s", err.text, options->limit ? "" : "; the job runs without it");
        release(valve);
        return NULL;
    }
    return valve;
}

/* ---- making room ------------------------------------------------------------------------------------------------ */

static bool spare_none(void *userdata, const struct uma_cached_file *file) {
    (void)userdata, (void)file;
    return false;
}

static uint64_t make_room(struct uma_job_valve *valve, uint64_t wanted) {
    int64_t until = uma_monotonic_ns() + UMA_VALVE_ROOM_NS;
    uint64_t gone = 0;
    for (bool reading = true; reading && gone < wanted && uma_monotonic_ns() < until;) {
        gone += uma_follow_others_evict(valve->others, wanted - gone, uma_monotonic_ns(), spare_none, NULL, &reading);
        if (reading)
            (void)poll(NULL, 0, LIST_PAUSE_MS);
    }
    return gone;
}

static void help(void *userdata) {
    struct uma_job_valve *valve = userdata;
    struct uma_valve_account *account = valve->account;
    uint32_t seen = atomic_load(&account->answered);
    /* a pause of no length only asks whether to stop */
    while (uma_thread_pause(&valve->thread, 0) && !atomic_load(&valve->stopping)) {
        if (!atomic_load(&account->helper))
            atomic_store(&account->helper, 1); /* somebody waited too long: we are still here */
        uint32_t asked = atomic_load(&account->asked);
        if (asked == seen) {
            struct timespec wait = { .tv_nsec = LOOK_NS };
            (void)syscall(SYS_futex, &account->asked, FUTEX_WAIT, asked, &wait, NULL, 0);
            continue;
        }
        atomic_store(&account->given, make_room(valve, atomic_load(&account->wanted)));
        atomic_store(&account->answered, asked);
        (void)syscall(SYS_futex, &account->answered, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
        seen = asked;
    }
}

void uma_job_valve_start(struct uma_job_valve *valve) {
    if (!valve)
        return;
    valve->others = uma_follow_others_new();
    valve->running = valve->others && uma_thread_start(&valve->thread, help, valve) == 0;
    atomic_store(&valve->account->helper, valve->running);
    if (!valve->running)
        uma_job_tell("the valve makes no room in the page cache: no memory, or no thread");
}

/* ---- what it did ------------------------------------------------------------------------------------------------ */

void uma_job_valve_event_text(const struct uma_valve_event *event, struct uma_text *text) {
    switch ((enum uma_valve_event_kind)event->kind) {
    case UMA_VALVE_REFUSED_CEILING:
        uma_text_bytes(text, event->size);
        uma_text_printf(text, " refused to pid %u: the job has ", event->pid);
        uma_text_bytes(text, event->used);
        uma_text_append(text, " of its limit of ");
        uma_text_bytes(text, event->ceiling);
        break;
    case UMA_VALVE_REFUSED_FLOOR:
        uma_text_bytes(text, event->size);
        uma_text_printf(text, " refused to pid %u: the machine has ", event->pid);
        uma_text_bytes(text, event->available);
        uma_text_append(text, " available, of which ");
        uma_text_bytes(text, event->floor);
        uma_text_append(text, " stay with it");
        if (event->reserved) {
            uma_text_append(text, " and ");
            uma_text_bytes(text, event->reserved);
            uma_text_append(text, " are reserved by others");
        }
        uma_text_append(text, "; the job has ");
        uma_text_bytes(text, event->used);
        break;
    case UMA_VALVE_MADE_ROOM:
        uma_text_bytes(text, event->evicted);
        uma_text_append(text, " of page cache evicted for ");
        uma_text_bytes(text, event->size);
        uma_text_printf(text, " of pid %u", event->pid);
        break;
    case UMA_VALVE_RETRIED:
        uma_text_printf(text, "pid %u asked the driver again for ", event->pid);
        uma_text_bytes(text, event->size);
        break;
    default:
        uma_text_printf(text, "pid %u: event %u", event->pid, event->kind);
        break;
    }
}

static const char *name_of(uint32_t kind) {
    return kind == UMA_VALVE_REFUSED_CEILING || kind == UMA_VALVE_REFUSED_FLOOR ? "refuse" : "evict";
}

static void record(const struct uma_valve_account *account, struct uma_run_valve *run) {
    uint64_t ceiling = atomic_load(&account->ceiling);
    run->used = true;
    run->limit = ceiling == UMA_VALVE_NONE ? uma_no_u64(UMA_UNLIMITED) : uma_known_u64(ceiling);
    run->floor = atomic_load(&account->floor);
    run->most = atomic_load(&account->most);
    run->refused_limit = atomic_load(&account->counts[UMA_VALVE_REFUSED_CEILING]);
    run->refused_floor = atomic_load(&account->counts[UMA_VALVE_REFUSED_FLOOR]);
    run->retried = atomic_load(&account->counts[UMA_VALVE_RETRIED]);
    run->evicted = atomic_load(&account->evicted);
}

static bool may_tell(struct uma_job_valve *valve, int64_t now) {
    int64_t seconds = (now - valve->events_paid_ns) / UMA_SECOND_NS;
    if (seconds > 0) {
        valve->events_left = (unsigned)MIN_OF((int64_t)valve->events_left + seconds, EVENTS_AT_ONCE);
        valve->events_paid_ns += seconds * UMA_SECOND_NS;
    }
    if (valve->events_left == 0)
        return false;
    valve->events_left--;
    return true;
}

static void tell_event(struct uma_job_valve *valve, const struct uma_valve_event *event, struct uma_watch *watch) {
    _cleanup_text_ struct uma_text text = { 0 };
    uint64_t untold = event->sequence - valve->event_told - 1;
    uma_job_valve_event_text(event, &text);
    if (untold > 0)
        uma_text_printf(&text, " (and %llu more since the last one told)", (unsigned long long)untold);
    valve->event_told = event->sequence;
    if (!text.failed)
        uma_watch_event(watch, name_of(event->kind), text.data);
}

void uma_job_valve_check(struct uma_job_valve *valve, struct uma_watch *watch) {
    struct uma_valve_event events[8];
    unsigned n;
    if (!valve)
        return;
    int64_t now = uma_monotonic_ns();
    /* new ones may come as fast as they are read: no more than there is room for */
    for (unsigned seen = 0; seen < UMA_VALVE_EVENTS; seen += n) {
        n = uma_valve_account_events(valve->account, &valve->events_seen, events, ELEMENTS(events));
        if (n == 0)
            break;
        for (unsigned i = 0; i < n; i++)
            if (may_tell(valve, now))
                tell_event(valve, &events[i], watch);
    }
    (void)uma_valve_account_prune(valve->account);
    record(valve->account, &watch->run->valve);
}

struct uma_u64 uma_job_valve_taken(const struct uma_job_valve *valve) {
    if (!valve)
        return (struct uma_u64){ 0 };
    const struct uma_valve_account *account = valve->account;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < UMA_VALVE_SLOTS && i < atomic_load(&account->n_slots); i++) {
        const struct uma_valve_slot *slot = &account->slots[i];
        uint64_t used = atomic_load(&slot->used), not_yet = atomic_load(&slot->under_way) + atomic_load(&slot->untouched);
        sum += atomic_load(&slot->overhead) + (used > not_yet ? used - not_yet : 0);
    }
    return (struct uma_u64){ sum, UMA_KNOWN };
}

struct uma_job_valve *uma_job_valve_stop(struct uma_job_valve *valve, struct uma_watch *watch) {
    if (!valve)
        return NULL;
    atomic_store(&valve->account->helper, 0);
    if (watch)
        uma_job_valve_check(valve, watch);
    atomic_store(&valve->stopping, true);
    (void)atomic_fetch_add(&valve->account->asked, 1); /* whether it sleeps or is about to */
    (void)syscall(SYS_futex, &valve->account->asked, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    if (valve->running && !uma_thread_stop(&valve->thread, STOP_NS))
        return NULL; /* the thread holds it, and both go when the process does */
    atomic_store(&valve->account->helper, 0);
    release(valve);
    return NULL;
}
