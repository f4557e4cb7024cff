/* SPDX-License-Identifier: MIT */
#include "valve/process.h"

#include "valve/call.h"
#include "valve/cuda.h"
#include "valve/gate.h"
#include "valve/resolve.h"
#include "valve/say.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define DIGITS_OF(version) #version
#define DIGITS(version) DIGITS_OF(version)
static const char mark[] __attribute__((used)) = UMA_VALVE_MARK DIGITS(UMA_VALVE_VERSION);

enum { NOT_BEGUN, BEGINNING, READY, FAILED };
enum { WAIT_NS = 1000000, WAITS = 2000 /* of a millisecond: the first call of CUDA takes hundreds */ };

static struct uma_valve_settings the_settings;
static _Atomic pid_t settings_reader; /* who is at it */
static _Atomic unsigned settings_read;
static struct uma_valve_process *_Atomic shared;

static void wait_a_little(void) {
    struct timespec pause = { .tv_nsec = WAIT_NS };
    (void)syscall(SYS_nanosleep, &pause, NULL);
}

static void read_settings(void) {
    const char *unknown;
    size_t n;
    uma_valve_settings_parse(getenv(UMA_VALVE_VARIABLE), &the_settings, &unknown, &n);
    atomic_store_explicit(&settings_read, READY, memory_order_release);
    if (unknown) {
        struct uma_valve_line line = { 0 };
        uma_valve_say(&line, UMA_VALVE_VARIABLE ": not understood, passed over: ");
        uma_valve_say_n(&line, unknown, (unsigned)n);
        uma_valve_say_end(&line);
    }
}

/*
 * Others wait for the thread that reads: who went on without a limit would make an account without one. In a child of fork(2) that thread may not be there: then it is read anew.
 */
const struct uma_valve_settings *uma_valve_settings(void) {
    if (atomic_load_explicit(&settings_read, memory_order_acquire) == READY)
        return &the_settings;
    pid_t reader = 0, self = getpid();
    if (atomic_compare_exchange_strong(&settings_reader, &reader, self) ||
        (reader != self && atomic_compare_exchange_strong(&settings_reader, &reader, self)))
        read_settings();
    for (int i = 0; i < WAITS && atomic_load_explicit(&settings_read, memory_order_acquire) != READY; i++)
        wait_a_little();
    static const struct uma_valve_settings none = { .ceiling = UMA_VALVE_NONE };
    return atomic_load_explicit(&settings_read, memory_order_acquire) == READY ? &the_settings : &none;
}

static void tell_failure(const char *what) {
    struct uma_valve_line line = { 0 };
    uma_valve_say(&line, "does nothing in this process: ");
    uma_valve_say(&line, what);
    uma_valve_say(&line, " (error ");
    uma_valve_say_number(&line, (uint64_t)errno);
    uma_valve_say(&line, ")");
    uma_valve_say_end(&line);
}

/* The memory of it, once a process: the kernel empties it in a child. */
static struct uma_valve_process *storage(void) {
    struct uma_valve_process *process = atomic_load_explicit(&shared, memory_order_acquire);
    if (process)
        return process;
    size_t offset = (sizeof(*process) + 63) / 64 * 64, size = offset + uma_valve_held_size();
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (madvise(at, size, MADV_WIPEONFORK) != 0) { /* before 4.14 */
        (void)munmap(at, size);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&shared, &process, at))
        return at;
    (void)munmap(at, size); /* another thread was first */
    return process;
}

/* All slots are taken by processes that live: better held to the job's limit for itself than to none. */
static bool begin_alone(struct uma_valve_process *process, const struct uma_valve_settings *settings) {
    struct uma_valve_line line = { 0 };
    struct uma_valve_settings own = *settings;
    own.ceiling = atomic_load(&process->account->ceiling);
    uint64_t floor = atomic_load(&process->account->floor);
    uma_valve_account_leave(process->account, process->account_fd);
    process->account = uma_valve_account_alone(&own, floor, &process->account_fd);
    process->slot = process->account ? uma_valve_account_join(process->account) : NULL;
    if (!process->slot) {
        tell_failure("no account for it, and the job's is full");
        return false;
    }
    uma_valve_say(&line, "the job's account is full; this process is held to the job's limit by itself");
    uma_valve_say_end(&line);
    return true;
}

static bool begin(struct uma_valve_process *process) {
    const struct uma_valve_settings *settings = uma_valve_settings();
    struct uma_valve_reading machine;
    process->machine.fd = -1;
    process->account_fd = -1;
    uma_valve_reserved_begin(&process->reserved);
    process->held = (struct uma_valve_held *)((char *)process + (sizeof(*process) + 63) / 64 * 64);
    uint64_t floor = settings->floor;
    if (!settings->has_floor)
        floor = uma_valve_machine_read(&process->machine, &machine) ? uma_valve_default_floor(machine.total) : 0;
    process->account = uma_valve_account_attach(settings, floor, &process->account_fd);
    if (!process->account) {
        tell_failure("no account for the job");
        return false;
    }
    process->slot = uma_valve_account_join(process->account);
    return process->slot || begin_alone(process, settings);
}

struct uma_valve_process *uma_valve_process(void) {
    if (uma_valve_settings()->off)
        return NULL;
    struct uma_valve_process *process = storage();
    if (!process)
        return NULL;
    unsigned state = atomic_load_explicit(&process->begun, memory_order_acquire);
    if (state == READY)
        return process;
    if (state == NOT_BEGUN && atomic_compare_exchange_strong(&process->begun, &state, BEGINNING)) {
        int before = errno;
        state = begin(process) ? READY : FAILED;
        atomic_store_explicit(&process->begun, state, memory_order_release);
        errno = before;
    }
    for (int i = 0; state == BEGINNING && i < WAITS; i++) {
        wait_a_little();
        state = atomic_load_explicit(&process->begun, memory_order_acquire);
    }
    return state == READY ? process : NULL;
}

bool uma_valve_process_read(struct uma_valve_process *process, struct uma_valve_reading *ret_reading) {
    if (!uma_valve_spin_lock(&process->meminfo_lock))
        return false;
    bool known = uma_valve_machine_read(&process->machine, ret_reading);
    uma_valve_spin_unlock(&process->meminfo_lock);
    return known;
}

bool uma_valve_process_unified(struct uma_valve_process *process) {
    unsigned unified = atomic_load_explicit(&process->unified, memory_order_relaxed);
    if (unified == UMA_VALVE_NOT_ASKED) {
        CUresult (*ask)(int *, int, CUdevice) = (CUresult(*)(int *, int, CUdevice))uma_valve_real_named("cuDeviceGetAttribute");
        int integrated = 0;
        if (!ask || ask(&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0) != CUDA_SUCCESS)
            return false;
        unified = integrated ? UMA_VALVE_UNIFIED : UMA_VALVE_DISCRETE;
        atomic_store_explicit(&process->unified, unified, memory_order_relaxed);
    }
    return unified == UMA_VALVE_UNIFIED;
}
