/* SPDX-License-Identifier: MIT */
/* The processes of a soak: one with threads, one that lives for some calls, and one whose children begin and are killed. */
#include "soak.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static unsigned count_mappings(void) {
    unsigned n = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    for (int c; f && (c = fgetc(f)) != EOF;)
        n += c == '\n';
    if (f)
        (void)fclose(f);
    return n;
}

/* ---- a worker: a process with threads that uses CUDA ---- */

struct worker {
    uint64_t random;
    struct soak_actor actors[SOAK_THREADS];
    void (*books)(struct fake_books *);
    void (*refuse)(uint64_t nth, uint64_t n);
    CUcontext primary;
    unsigned steps; /* of a round */
};

static void map_account(void) {
    const char *name = getenv("UMA_SOAK_ACCOUNT");
    char path[64];
    unsigned pid = 0, fd = 0;
    unsigned long long start;
    if (!name || sscanf(name, "%u:%llu:%u:", &pid, &start, &fd) != 3)
        soak_give_up("UMA_SOAK_ACCOUNT");
    (void)snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        _exit(0); /* the supervisor has ended */
    soak_account = mmap(NULL, sizeof(*soak_account), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (soak_account == MAP_FAILED)
        soak_give_up("the account");
}

static struct uma_valve_slot *own_slot(void) {
    for (unsigned i = 0; i < UMA_VALVE_SLOTS; i++)
        if (atomic_load(&soak_account->slots[i].pid) == (uint32_t)getpid())
            return &soak_account->slots[i];
    return NULL;
}

/* The program again, as `what`. In the child of a process with threads: nothing but what may be called there. */
void soak_execute(const char *what, uint64_t seed) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
    char *const arguments[] = { (char *)"valve_soak", (char *)(uintptr_t)what, text, NULL };
    (void)execv("/proc/self/exe", arguments);
    _exit(127);
}

static void wait_for(pid_t child, bool killed) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (killed ? !WIFSIGNALED(status) && !WIFEXITED(status) : !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        soak_failed("a child ended with status %x", (unsigned)status);
}

static void fork_something(struct soak_actor *a) {
    unsigned which = soak_below(&a->random, 4);
    uint64_t seed = soak_random(&a->random);
    pid_t child = -1;
    if (which == 3) {
        char text[24];
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
        char *const arguments[] = { (char *)"valve_soak", (char *)"short", text, NULL };
        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0)
            child = -1;
    } else
        child = fork();
    if (child == 0) {
        if (which == 1)
            _exit(soak_refused_as_child(a) ? 0 : 1);
        if (which == 2)
            soak_execute("short", seed);
        _exit(0);
    }
    if (child < 0) {
        soak_failed("fork: %s", strerror(errno));
        return;
    }
    (void)atomic_fetch_add(which >= 2 ? &soak_control->execs : &soak_control->forks, 1);
    wait_for(child, false);
}

struct round {
    pthread_t thread;
    struct worker *worker;
    struct soak_actor *actor;
    pthread_barrier_t *start;
};

static void *run_thread(void *argument) {
    struct round *round = argument;
    struct soak_actor *a = round->actor;
    (void)pthread_barrier_wait(round->start);
    CUresult r = a->api.cuCtxSetCurrent(a->own ? a->own : a->primary);
    if (r != CUDA_SUCCESS)
        soak_failed("cuCtxSetCurrent answered %d", r);
    for (unsigned i = 0; i < round->worker->steps && !atomic_load_explicit(&soak_control->stop, memory_order_relaxed); i++) {
        soak_step(a);
        if (soak_below(&a->random, 500) == 0)
            fork_something(a);
        if (soak_below(&a->random, 200) == 0)
            round->worker->refuse(1 + soak_below(&a->random, 20), 1 + soak_below(&a->random, 3));
    }
    soak_count(a);
    return NULL;
}

static void run_round(struct worker *w) {
    pthread_barrier_t start;
    struct round rounds[SOAK_THREADS];
    if (pthread_barrier_init(&start, NULL, SOAK_THREADS) != 0)
        soak_give_up("a barrier");
    for (unsigned i = 0; i < SOAK_THREADS; i++) {
        rounds[i] = (struct round){ .worker = w, .actor = &w->actors[i], .start = &start };
        errno = pthread_create(&rounds[i].thread, NULL, run_thread, &rounds[i]);
        if (errno != 0)
            soak_give_up("a thread");
    }
    for (unsigned i = 0; i < SOAK_THREADS; i++)
        (void)pthread_join(rounds[i].thread, NULL);
    (void)pthread_barrier_destroy(&start);
    (void)atomic_fetch_add(&soak_control->rounds, 1);
}

/* No thread is in a call: what the valve says that this process has is what the driver has given. */
static void compare_books(struct worker *w) {
    static const enum fake_kind kinds[] = { FAKE_KIND_DEVICE, FAKE_KIND_HOST,  FAKE_KIND_HANDLE, FAKE_KIND_POOL,
                                            FAKE_KIND_GRAPH,  FAKE_KIND_ARRAY, FAKE_KIND_MIPMAP };
    struct fake_books books;
    for (unsigned i = 0; i < SOAK_THREADS; i++)
        soak_look(&w->actors[i]);
    w->books(&books);
    uint64_t held = 0;
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (w->actors[0].unified || kinds[i] != FAKE_KIND_HOST) /* of a discrete device's limit the machine's memory is no part */
            held += books.bytes[kinds[i]];
    const struct uma_valve_slot *slot = own_slot();
    if (!slot)
        soak_failed("no slot in the account");
    else if (atomic_load(&slot->used) != held || atomic_load(&slot->under_way) != 0)
        soak_failed("the account has %llu and %llu under way, the driver gave %llu", (unsigned long long)atomic_load(&slot->used),
                    (unsigned long long)atomic_load(&slot->under_way), (unsigned long long)held);
}

static bool begin_worker(struct worker *w, uint64_t seed) {
    const char *fake = getenv("UMA_FAKE_CUDA");
    w->random = seed | 1;
    for (unsigned i = 0; i < SOAK_THREADS; i++) {
        struct soak_actor *a = &w->actors[i];
        a->random = soak_random(&w->random) | 1;
        a->ceiling = atomic_load(&soak_account->ceiling);
        a->unified = !fake || !strstr(fake, "integrated:0");
        a->reuse = fake && strstr(fake, "reuse");
        if (!soak_open(a))
            return false;
    }
    w->books = (void (*)(struct fake_books *))dlsym(w->actors[0].handle, "uma_fake_cuda_books");
    w->refuse = (void (*)(uint64_t, uint64_t))dlsym(w->actors[0].handle, "uma_fake_cuda_refuse");
    CUresult r = w->actors[0].api.cuInit(0);
    /* a job at its ceiling refuses a context as anything else */
    while (r == CUDA_SUCCESS && (r = w->actors[0].api.cuDevicePrimaryCtxRetain(&w->primary, 0)) == CUDA_ERROR_OUT_OF_MEMORY) {
        if (atomic_load(&soak_control->stop))
            _exit(0);
        soak_pause_us(2000);
        r = CUDA_SUCCESS;
    }
    if (r != CUDA_SUCCESS)
        soak_failed("the beginning answered %d", r);
    for (unsigned i = 0; i < SOAK_THREADS; i++)
        w->actors[i].primary = w->primary;
    return r == CUDA_SUCCESS;
}

static void end_worker(struct worker *w) {
    struct fake_books books;
    (void)w->actors[0].api.cuCtxSetCurrent(w->primary);
    w->refuse(0, 0);
    for (unsigned i = 0; i < SOAK_THREADS; i++) {
        struct soak_actor *a = &w->actors[i];
        (void)a->api.cuCtxSetCurrent(w->primary);
        soak_give_all(a);
        soak_count(a);
    }
    CUresult r;
    while ((r = w->actors[0].api.cuDevicePrimaryCtxRelease_v2(0)) == FAKE_UNKNOWN)
        ;
    if (r != CUDA_SUCCESS)
        soak_failed("cuDevicePrimaryCtxRelease answered %d", r);
    w->books(&books);
    for (unsigned i = 0; i < FAKE_KINDS; i++)
        if (books.bytes[i])
            soak_failed("at the end the driver's books have %lld bytes of kind %u", (long long)books.bytes[i], i);
    const struct uma_valve_slot *slot = own_slot();
    if (!slot || slot->used || slot->under_way || slot->overhead)
        soak_failed("at the end the account has %llu, %llu under way, %llu of contexts and code", slot ? (unsigned long long)slot->used : 0,
                    slot ? (unsigned long long)slot->under_way : 0, slot ? (unsigned long long)slot->overhead : 0);
    for (unsigned i = 0; i < SOAK_THREADS; i++)
        soak_close(&w->actors[i]);
}

/* Threads' stacks and the allocator's arenas come and go; a mapping that is lost with each call would be thousands. */
enum { MAPPINGS_MORE = 64, ROUNDS_WARM = 2 };

static int run_worker(uint64_t seed) {
    static struct worker w;
    unsigned rounds = 3 + (unsigned)(seed % 6), files = 0, mappings = 0;
    if (!begin_worker(&w, seed))
        return 1;
    for (unsigned i = 0; i < rounds && !atomic_load(&soak_control->stop); i++) {
        w.steps = 200 + soak_below(&w.random, 2000);
        run_round(&w);
        (void)w.actors[0].api.cuCtxSetCurrent(w.primary);
        compare_books(&w);
        if (i + 1 == ROUNDS_WARM) {
            files = soak_count_files();
            mappings = count_mappings();
        }
    }
    if (files && soak_count_files() != files)
        soak_failed("%u descriptors, and %u after some rounds", soak_count_files(), files);
    if (mappings && count_mappings() > mappings + MAPPINGS_MORE)
        soak_failed("%u mappings, and %u after some rounds", mappings, count_mappings());
    end_worker(&w);
    return 0;
}

/* A process that lives for some calls and ends without giving anything back. */
static int run_short(uint64_t seed, unsigned steps) {
    static struct worker w;
    if (!begin_worker(&w, seed))
        return 1;
    (void)w.actors[0].api.cuCtxSetCurrent(w.primary);
    for (unsigned i = 0; i < steps && !atomic_load(&soak_control->stop); i++)
        soak_step(&w.actors[0]);
    soak_count(&w.actors[0]);
    return 0;
}

/* Children that begin CUDA themselves, some with threads at once, some killed in the middle of it. This process has no threads and does not use CUDA. */
static int run_nursery(uint64_t seed) {
    uint64_t random = seed | 1;
    for (unsigned i = 0; i < 40 && !atomic_load(&soak_control->stop); i++) {
        unsigned which = soak_below(&random, 3), us = 500 + soak_below(&random, 30000);
        uint64_t child_seed = soak_random(&random);
        pid_t child = fork();
        if (child < 0)
            soak_give_up("fork");
        if (child == 0) {
            static struct worker w;
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (which == 0)
                _exit(run_short(child_seed, 100));
            if (!begin_worker(&w, child_seed))
                _exit(1);
            w.steps = which == 1 ? UINT32_MAX : 50;
            run_round(&w);
            _exit(0);
        }
        (void)atomic_fetch_add(&soak_control->forks, 1);
        if (which == 1) {
            soak_pause_us(us);
            (void)kill(child, SIGKILL);
            (void)atomic_fetch_add(&soak_control->kills, 1);
        }
        wait_for(child, which == 1);
    }
    return 0;
}

int soak_process(const char *control, int argc, char *argv[]) {
    soak_control = mmap(NULL, sizeof(*soak_control), PROT_READ | PROT_WRITE, MAP_SHARED, (int)strtol(control, NULL, 10), 0);
    if (soak_control == MAP_FAILED || argc != 3)
        return 2;
    map_account();
    uint64_t seed = strtoull(argv[2], NULL, 10);
    if (strcmp(argv[1], "nursery") == 0)
        return run_nursery(seed);
    return strcmp(argv[1], "worker") == 0 ? run_worker(seed) : run_short(seed, 200);
}
