/* SPDX-License-Identifier: MIT */
/*
 * A soak of the valve: `valve_soak --seconds N [--seed N] [--ceiling MIB]`, before a driver without a GPU, with the valve preloaded or linked in. The supervisor holds the job's soak_account, as `umactl run`
 * does, keeps some processes running that call everything at random from several threads, fork, execute and close the library, kills some of them, and reads the account all the while. At the
 * end it says what was done, and exits with 1 when something was not as it must be.
 */
#include "soak.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
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

enum { WORKERS = 4 };
#define CONTROL_VARIABLE "UMA_SOAK_CONTROL" /* descriptor of struct soak_control */

struct soak_control *soak_control;
struct uma_valve_account *soak_account;
static char token[16]; /* of this soak alone: others may run beside it */

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

void soak_give_up(const char *what) {
    soak_failed("%s: %s", what, strerror(errno));
    exit(2);
}

static uint64_t now_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void soak_pause_us(unsigned us) {
    struct timespec t = { .tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000 };
    (void)nanosleep(&t, NULL);
}

unsigned soak_count_files(void) {
    unsigned n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        (void)closedir(dir);
    return n;
}

/* ---- the supervisor ---- */

struct options {
    unsigned seconds;
    uint64_t seed, ceiling;
};

static int shared_memory(const char *name, size_t size, unsigned flags, void **ret) {
    int fd = memfd_create(name, flags);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0)
        soak_give_up(name);
    *ret = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (*ret == MAP_FAILED)
        soak_give_up(name);
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
    (void)snprintf(token, sizeof(token), "%x", (unsigned)getpid());
    (void)snprintf(text, sizeof(text), "umactl-valve-%s", token);
    fd = shared_memory(text, sizeof(*soak_account), MFD_CLOEXEC, &at);
    soak_account = at;
    uma_valve_account_begin(soak_account, o->ceiling, 0);
    if (fstat(fd, &st) != 0)
        soak_give_up("fstat");
    (void)snprintf(text, sizeof(text), "%d:%llu:%d:%llu", (int)getpid(), (unsigned long long)uma_valve_start_time((uint32_t)getpid()), fd,
                   (unsigned long long)st.st_ino);
    (void)setenv("UMA_SOAK_ACCOUNT", text, 1);
}

/* Each process begins with a scenario of the fake's own, and finds the account by one of the two ways. */
static pid_t start_process(const char *what, uint64_t *random) {
    char fake[200], settings[100];
    unsigned latency = soak_below(random, 4) ? 0 : 20 + soak_below(random, 200);
    bool by_name = soak_below(random, 2), integrated = soak_below(random, 4), reuse = soak_below(random, 2);
    unsigned stubborn = soak_below(random, 2) ? 0 : 2 + soak_below(random, 50);
    uint64_t seed = soak_random(random);
    pid_t child = fork();
    if (child < 0)
        soak_give_up("fork");
    if (child > 0) {
        (void)atomic_fetch_add(&soak_control->processes, 1);
        return child;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(fake, sizeof(fake), "block:%d,latency-us:%u,integrated:%d,stubborn:%u,refuse:7%s", (int)SOAK_BLOCK, latency, integrated,
                   stubborn, reuse ? ",reuse" : "");
    (void)setenv("UMA_FAKE_CUDA", fake, 1);
    (void)snprintf(settings, sizeof(settings), "ceiling:4096,floor:0,token:%s", token); /* what is found has another ceiling */
    (void)setenv("UMACTL_VALVE", settings, 1);
    if (by_name)
        (void)setenv("UMACTL_VALVE_ACCOUNT", getenv("UMA_SOAK_ACCOUNT"), 1);
    soak_execute(what, seed);
    return -1;
}

/* All slots twice: the same, and so a moment's. */
struct figures {
    uint64_t used, under_way;
    unsigned slots;
};

static bool snapshot(struct figures *ret) {
    static uint64_t seen[2][UMA_VALVE_SLOTS * 2];
    uint32_t n = atomic_load(&soak_account->n_slots);
    struct figures f = { 0 };
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < n; i++) {
            seen[pass][2 * i] = atomic_load(&soak_account->slots[i].used);
            seen[pass][2 * i + 1] = atomic_load(&soak_account->slots[i].under_way);
        }
    if (memcmp(seen[0], seen[1], n * 2 * sizeof(seen[0][0])) != 0)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        f.used += seen[0][2 * i];
        f.under_way += seen[0][2 * i + 1];
        f.slots += atomic_load(&soak_account->slots[i].pid) != 0;
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
    uint64_t ceiling = atomic_load(&soak_account->ceiling) + (uint64_t)SOAK_GRAPH * f.slots;
    if (f.used > f.under_way && f.used - f.under_way > ceiling)
        soak_failed("the job has %llu, its ceiling is %llu (%u processes)", (unsigned long long)(f.used - f.under_way),
                    (unsigned long long)ceiling, f.slots);
}

/* As the node's helper, which finds nothing to evict, or little. */
static void help(uint64_t *random) {
    uint32_t asked = atomic_load(&soak_account->asked);
    atomic_store(&soak_account->helper, 1); /* after one who waited too long */
    if (asked == atomic_load(&soak_account->answered))
        return;
    atomic_store(&soak_account->given, soak_below(random, 2) ? 0 : SOAK_MIB);
    atomic_store(&soak_account->answered, asked);
    (void)syscall(SYS_futex, &soak_account->answered, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
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
    atomic_store(&soak_account->helper, 1);
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
        soak_pause_us(500);
    }
    atomic_store(&soak_control->stop, true);
    for (until = now_ms() + 60000; now_ms() < until && (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD);) {
        help(&random);
        soak_pause_us(2000);
    }
    if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD)
        soak_failed("processes do not end");
}

/* All have ended, some without giving back. */
static void check_end(void) {
    (void)uma_valve_account_prune(soak_account);
    unsigned slots = 0;
    for (unsigned i = 0; i < UMA_VALVE_SLOTS; i++)
        slots += atomic_load(&soak_account->slots[i].pid) != 0;
    if (slots || uma_valve_account_used(soak_account) || uma_valve_account_under_way(soak_account))
        soak_failed("at the end %u slots are taken, with %llu bytes and %llu under way", slots,
                    (unsigned long long)uma_valve_account_used(soak_account),
                    (unsigned long long)uma_valve_account_under_way(soak_account));
}

static int run_supervisor(const struct options *o) {
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    prepare(o);
    (void)printf("seed %llu\n", (unsigned long long)o->seed);
    (void)fflush(stdout);
    unsigned files = soak_count_files();
    supervise(o);
    check_end();
    if (soak_count_files() != files)
        soak_failed("%u descriptors, %u at the beginning", soak_count_files(), files);
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
    return soak_process(control, argc, argv);
}
