/* SPDX-License-Identifier: MIT */
/*
 * A soak of the valve: `valve_soak --seconds N [--seed N] [--ceiling MIB]`, before a driver without a GPU, with the valve preloaded or linked in. The supervisor holds the job's account, as `umactl run`
 * does, keeps some processes running that call everything at random from several threads, fork, execute and close the library, kills some of them, and reads the account all the while. At the
 * end it says what was done, and exits with 1 when something was not as it must be.
 */
#include "soak.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { WORKERS = 4 };
#define CONTROL_VARIABLE "UMA_SOAK_CONTROL" /* descriptor of struct soak_control */
#define TOKEN "50a4"

struct soak_control *soak_control;
static struct uma_valve_account *account;

void soak_failed(const char *format, ...) {
    char text[400];
    va_list list;
    int n = snprintf(text, sizeof(text), "soak: process %d: ", (int)getpid());
    va_start(list, format);
    (void)vsnprintf(text + n, sizeof(text) - (size_t)n, format, list);
    va_end(list);
    (void)fprintf(stderr, "%s\n", text);
    if (soak_control)
        (void)atomic_fetch_add(&soak_control->failures, 1);
}

static void give_up(const char *what) {
    soak_failed("%s: %s", what, strerror(errno));
    exit(2);
}

static uint64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void pause_us(unsigned us) {
    struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };
    (void)nanosleep(&t, NULL);
}

/* Of /proc/self/fd, or the lines of /proc/self/maps. */
static unsigned count_files(void) {
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        (void)closedir(dir);
    return n;
}

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
        give_up("UMA_SOAK_ACCOUNT");
    (void)snprintf(path, sizeof(path), "/proc/%u/fd/%u", pid, fd);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        _exit(0); /* the supervisor has ended */
    account = mmap(NULL, sizeof(*account), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (account == MAP_FAILED)
        give_up("the account");
}

static struct uma_valve_slot *own_slot(void) {
    for (unsigned i = 0; i < UMA_VALVE_SLOTS; i++)
        if (atomic_load(&account->slots[i].pid) == (uint32_t)getpid())
            return &account->slots[i];
    return NULL;
}

/* The program again, as `what`. In the child of a process with threads: nothing but what may be called there. */
static void execute(const char *what, uint64_t seed) {
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
            execute("short", seed);
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
        give_up("a barrier");
    for (unsigned i = 0; i < SOAK_THREADS; i++) {
        rounds[i] = (struct round){ .worker = w, .actor = &w->actors[i], .start = &start };
        errno = pthread_create(&rounds[i].thread, NULL, run_thread, &rounds[i]);
        if (errno != 0)
            give_up("a thread");
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
    struct soak_actor *a = &w->actors[0];
    CUmemoryPool pool = NULL;
    /* the pools are looked at, and keep what they have */
    if (a->api.cuDeviceGetMemPool(&pool, 0) != CUDA_SUCCESS || a->api.cuMemPoolTrimTo(pool, SIZE_MAX) != CUDA_SUCCESS ||
        a->api.cuDeviceGraphMemTrim(0) != CUDA_SUCCESS)
        soak_failed("the pools cannot be looked at");
    for (unsigned i = 0; i < SOAK_THREADS; i++)
        if (w->actors[i].pool && w->actors[i].api.cuMemPoolTrimTo(w->actors[i].pool, SIZE_MAX) != CUDA_SUCCESS)
            soak_failed("a pool cannot be looked at");
    w->books(&books);
    uint64_t held = 0;
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
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
        a->ceiling = atomic_load(&account->ceiling);
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
        pause_us(2000);
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
    CUresult r = w->actors[0].api.cuDevicePrimaryCtxRelease_v2(0);
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
            files = count_files();
            mappings = count_mappings();
        }
    }
    if (files && count_files() != files)
        soak_failed("%u descriptors, and %u after some rounds", count_files(), files);
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
            give_up("fork");
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
            pause_us(us);
            (void)kill(child, SIGKILL);
            (void)atomic_fetch_add(&soak_control->kills, 1);
        }
        wait_for(child, which == 1);
    }
    return 0;
}

/* ---- the supervisor ---- */

struct options {
    unsigned seconds;
    uint64_t seed, ceiling;
};

static int shared_memory(const char *name, size_t size, unsigned flags, void **ret) {
    int fd = memfd_create(name, flags);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        give_up(name);
    *ret = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ret == MAP_FAILED)
        give_up(name);
    return fd;
}

static void prepare(const struct options *o) {
    char text[64];
    struct stat st;
    void *at;
    int fd = shared_memory("soak-control", sizeof(*soak_control), 0, &at);
    soak_control = at;
    (void)snprintf(text, sizeof(text), "%d", fd);
    (void)setenv(CONTROL_VARIABLE, text, 1);
    fd = shared_memory("umactl-valve-" TOKEN, sizeof(*account), MFD_CLOEXEC, &at);
    account = at;
    uma_valve_account_begin(account, o->ceiling, 0);
    if (fstat(fd, &st) != 0)
        give_up("fstat");
    (void)snprintf(text, sizeof(text), "%d:%llu:%d:%llu", (int)getpid(), (unsigned long long)uma_valve_start_time((uint32_t)getpid()), fd,
                   (unsigned long long)st.st_ino);
    (void)setenv("UMA_SOAK_ACCOUNT", text, 1);
}

/* Each process begins with a scenario of the fake's own, and finds the account by one of the two ways. */
static pid_t start_process(const char *what, uint64_t *random) {
    char fake[200];
    unsigned latency = soak_below(random, 4) ? 0 : 20 + soak_below(random, 200);
    bool by_name = soak_below(random, 2), integrated = soak_below(random, 4), reuse = soak_below(random, 2);
    uint64_t seed = soak_random(random);
    pid_t child = fork();
    if (child < 0)
        give_up("fork");
    if (child > 0) {
        (void)atomic_fetch_add(&soak_control->processes, 1);
        return child;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(fake, sizeof(fake), "block:%d,latency-us:%u,integrated:%d,refuse:7%s", (int)SOAK_BLOCK, latency, integrated,
                   reuse ? ",reuse" : "");
    (void)setenv("UMA_FAKE_CUDA", fake, 1);
    (void)setenv("UMACTL_VALVE", "ceiling:4096,floor:0,token:" TOKEN, 1); /* what is found has another ceiling */
    if (by_name)
        (void)setenv("UMACTL_VALVE_ACCOUNT", getenv("UMA_SOAK_ACCOUNT"), 1);
    execute(what, seed);
    return -1;
}

/* All slots twice: the same, and so a moment's. */
struct figures {
    uint64_t used, under_way;
    unsigned slots;
};

static bool snapshot(struct figures *ret) {
    static uint64_t seen[2][UMA_VALVE_SLOTS * 2];
    uint32_t n = atomic_load(&account->n_slots);
    struct figures f = { 0 };
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++) {
            seen[pass][2 * i] = atomic_load(&account->slots[i].used);
            seen[pass][2 * i + 1] = atomic_load(&account->slots[i].under_way);
        }
    if (memcmp(seen[0], seen[1], n * 2 * sizeof(seen[0][0])) != 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        f.used += seen[0][2 * i];
        f.under_way += seen[0][2 * i + 1];
        f.slots += atomic_load(&account->slots[i].pid) != 0;
    }
    *ret = f;
    return true;
}

/* Memory of graphs is taken by a launch, which nobody asks: each process may have so much more. */
static void check_ceiling(void) {
    struct figures f;
    if (!snapshot(&f))
        return;
    (void)atomic_fetch_add(&soak_control->snapshots, 1);
    uint64_t ceiling = atomic_load(&account->ceiling) + (uint64_t)SOAK_GRAPH * f.slots;
    if (f.used > f.under_way && f.used - f.under_way > ceiling)
        soak_failed("the job has %llu, its ceiling is %llu (%u processes)", (unsigned long long)(f.used - f.under_way),
                    (unsigned long long)ceiling, f.slots);
}

/* As the node's helper, which finds nothing to evict, or little. */
static void help(uint64_t *random) {
    uint32_t asked = atomic_load(&account->asked);
    if (asked == atomic_load(&account->answered))
        return;
    atomic_store(&account->given, soak_below(random, 2) ? 0 : SOAK_MIB);
    atomic_store(&account->answered, asked);
    (void)syscall(SYS_futex, &account->answered, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void reap(pid_t workers[WORKERS], bool killed[WORKERS]) {
    int status;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG)) > 0;)
        for (unsigned i = 0; i < WORKERS; i++)
            if (workers[i] == child) {
                if (!killed[i] && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
                    soak_failed("a process ended with status %x", (unsigned)status);
                workers[i] = 0;
            }
}

static void supervise(const struct options *o) {
    pid_t workers[WORKERS] = { 0 };
    bool killed[WORKERS] = { 0 };
    uint64_t random = o->seed | 1, until = now_ms() + (uint64_t)o->seconds * 1000, next_kill = now_ms() + 500;
    atomic_store(&account->helper, 1);
    while (now_ms() < until && atomic_load(&soak_control->failures) == 0) {
        reap(workers, killed);
        for (unsigned i = 0; i < WORKERS; i++)
            if (!workers[i]) {
                killed[i] = false;
                workers[i] = start_process(i == 0 ? "nursery" : "worker", &random);
            }
        for (unsigned i = 0; i < 20; i++)
            check_ceiling();
        help(&random);
        if (now_ms() > next_kill) {
            unsigned i = soak_below(&random, WORKERS);
            next_kill = now_ms() + 200 + soak_below(&random, 2000);
            if (workers[i] && !killed[i]) {
                (void)kill(workers[i], SIGKILL);
                (void)atomic_fetch_add(&soak_control->kills, 1);
                killed[i] = true;
            }
        }
        pause_us(500);
    }
    atomic_store(&soak_control->stop, true);
    for (until = now_ms() + 60000; now_ms() < until && (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD);) {
        help(&random);
        pause_us(2000);
    }
    if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD)
        soak_failed("processes do not end");
}

/* All have ended, some without giving back. */
static void check_end(void) {
    (void)uma_valve_account_prune(account);
    unsigned slots = 0;
    for (unsigned i = 0; i < UMA_VALVE_SLOTS; i++)
        slots += atomic_load(&account->slots[i].pid) != 0;
    if (slots || uma_valve_account_used(account) || uma_valve_account_under_way(account))
        soak_failed("at the end %u slots are taken, with %llu bytes and %llu under way", slots,
                    (unsigned long long)uma_valve_account_used(account), (unsigned long long)uma_valve_account_under_way(account));
}

static int run_supervisor(const struct options *o) {
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    prepare(o);
    (void)printf("seed %llu\n", (unsigned long long)o->seed);
    (void)fflush(stdout);
    unsigned files = count_files();
    supervise(o);
    check_end();
    if (count_files() != files)
        soak_failed("%u descriptors, %u at the beginning", count_files(), files);
    const struct soak_control *c = soak_control;
    (void)printf(
        "calls %llu\nrefused %llu\nmade to fail %llu\nlibrary reopened %llu\nprocesses %llu\nforked %llu\nexecuted %llu\nkilled %llu\nrounds %llu\nsnapshots %llu\nfailures %llu\n",
        (unsigned long long)c->calls, (unsigned long long)c->refused, (unsigned long long)c->failing, (unsigned long long)c->reopened,
        (unsigned long long)c->processes, (unsigned long long)c->forks, (unsigned long long)c->execs, (unsigned long long)c->kills,
        (unsigned long long)c->rounds, (unsigned long long)c->snapshots, (unsigned long long)c->failures);
    return c->failures != 0;
}

static bool parse(int argc, char *argv[], struct options *ret) {
    *ret = (struct options){ .seconds = 15, .seed = 1, .ceiling = (uint64_t)1024 << 20 }; /* a context asks for 256 MiB */
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned long long n = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seconds") == 0)
            ret->seconds = (unsigned)n;
        else if (strcmp(argv[i], "--seed") == 0)
            ret->seed = n;
        else if (strcmp(argv[i], "--ceiling") == 0)
            ret->ceiling = (uint64_t)n << 20;
        else
            return false;
    }
    return argc % 2 == 1;
}

int main(int argc, char *argv[]) {
    struct options o;
    const char *control = getenv(CONTROL_VARIABLE);
    if (!control) {
        if (parse(argc, argv, &o))
            return run_supervisor(&o);
        (void)fprintf(stderr, "usage: valve_soak [--seconds N] [--seed N] [--ceiling MIB]\n");
        return 2;
    }
    soak_control = mmap(NULL, sizeof(*soak_control), PROT_READ | PROT_WRITE, MAP_SHARED, (int)strtol(control, NULL, 10), 0);
    if (soak_control == MAP_FAILED || argc != 3)
        return 2;
    map_account();
    uint64_t seed = strtoull(argv[2], NULL, 10);
    if (strcmp(argv[1], "nursery") == 0)
        return run_nursery(seed);
    return strcmp(argv[1], "worker") == 0 ? run_worker(seed) : run_short(seed, 200);
}
