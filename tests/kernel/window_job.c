/* SPDX-License-Identifier: MIT */
/*
 * window_job.c - a program under the preloaded helper, for test_window.py: it does to its mappings what lines of standard input say, answers each with a line, and knows
 * at any time what every byte of them must be.
 *
 * A file of the test holds at each offset that is a multiple of 8 the offset itself, so that a page in the wrong place is seen as well as a lost one.
 *
 *   map PATH r|w shared|private   "ADDRESS LENGTH" of slot 0, 1, ...: opened and mapped whole; "w" with PROT_WRITE
 *   touch SLOT                    read every page
 *   write SLOT FIRST COUNT        write into COUNT pages from FIRST
 *   poke SLOT FIRST COUNT         the same through /proc/self/mem, as a debugger does to a mapping that is not writable
 *   protect SLOT r|w FIRST COUNT  mprotect
 *   check SLOT                    "ok", or where it is wrong
 *   anonymous SLOT FIRST COUNT    anonymous memory mapped over pages of it, and written
 *   move SLOT                     mremap to another address: "ADDRESS LENGTH"
 *   unmap SLOT                    munmap
 *   lock SLOT                     mlock
 *   threads                       how many this process has
 *   descriptors                   how many it has open
 *   close                         close every descriptor from 3 on
 *   fork                          the child answers from here on, "PID"; the parent waits and ends as it does
 *   run PROGRAM ARGUMENT...       exec
 *   last                          main() ends by pthread_exit(3), no thread is left
 *   exit N
 *   stress PATH SECONDS           threads that map, write, unmap and reuse addresses; "RANGES" first: one address range that holds it all
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))
#define WORD UINT64_C(0x9e3779b97f4a7c15) /* what a write changes a word by */

enum { SLOTS = 32, PAGES = 1 << 16 };

struct slot {
    char *start;
    size_t length;
    unsigned char written[PAGES];
};
static struct slot slots[SLOTS];
static unsigned n_slots;

static _Noreturn void fail(const char *what) {
    (void)printf("failed: %s: %s\n", what, strerror(errno));
    (void)fflush(stdout);
    exit(99);
}

static uint64_t word_of(const struct slot *s, size_t offset) {
    return offset + (s->written[offset / PAGE] ? WORD * s->written[offset / PAGE] : 0);
}

static uint64_t read_word(const char *at) {
    uint64_t word;
    (void)memcpy(&word, at, sizeof(word));
    return word;
}

static void map(const char *path, bool writable, bool shared) {
    struct slot *s = &slots[n_slots];
    struct stat st;
    int fd = open(path, (writable && shared ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (n_slots == SLOTS || fd < 0 || fstat(fd, &st) < 0)
        fail(path);
    s->length = (size_t)st.st_size;
    errno = 77; /* what worked leaves errno alone */
    s->start = mmap(NULL, s->length, PROT_READ | (writable ? PROT_WRITE : 0), shared ? MAP_SHARED : MAP_PRIVATE, fd, 0);
    if (s->start == MAP_FAILED || errno != 77)
        fail("mmap");
    (void)close(fd);
    (void)printf("%lu %zu\n", (unsigned long)(uintptr_t)s->start, s->length);
    n_slots++;
}

static void touch(const struct slot *s) {
    volatile char sum = 0;
    for (size_t at = 0; at < s->length; at += PAGE)
        sum = (char)(sum + s->start[at]);
    (void)printf("ok\n");
}

static void change(struct slot *s, size_t first, size_t count, int mem) {
    for (size_t page = first; page < first + count; page++) {
        s->written[page]++;
        for (size_t at = page * PAGE; at < (page + 1) * PAGE; at += 8) {
            uint64_t word = word_of(s, at);
            if (mem < 0)
                (void)memcpy(s->start + at, &word, sizeof(word));
            else if (pwrite(mem, &word, sizeof(word), (off_t)(uintptr_t)(s->start + at)) != (ssize_t)sizeof(word))
                fail("/proc/self/mem");
        }
    }
    (void)printf("ok\n");
}

static void check(const struct slot *s) {
    for (size_t at = 0; at < s->length; at += 8)
        if (read_word(s->start + at) != word_of(s, at)) {
            (void)printf("wrong at %zu: %lx, not %lx\n", at, (unsigned long)read_word(s->start + at), (unsigned long)word_of(s, at));
            return;
        }
    (void)printf("ok\n");
}

static void put_anonymous(struct slot *s, size_t first, size_t count) {
    if (mmap(s->start + first * PAGE, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        fail("mmap");
    change(s, first, count, -1);
}

static void move(struct slot *s) {
    char *place = mmap(NULL, s->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        fail("mmap");
    s->start = mremap(s->start, s->length, s->length, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (s->start == MAP_FAILED)
        fail("mremap");
    (void)printf("%lu %zu\n", (unsigned long)(uintptr_t)s->start, s->length);
}

static void count_threads(void) {
    struct stat st;
    if (stat("/proc/self/task", &st) < 0)
        fail("/proc/self/task");
    (void)printf("%lu\n", (unsigned long)st.st_nlink - 2);
}

static void count_descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    (void)printf("%d\n", n);
}

static void fork_here(void) {
    pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0) {
        (void)printf("%d\n", (int)getpid());
        return;
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

/* ---- stress ---------------------------------------------------------------------------------------------------- */

struct worker {
    pthread_t thread;
    const char *path;
    char *start; /* an address range of this worker's own, used again and again */
    size_t length;
    unsigned seed;
    unsigned long rounds;
    char wrong[160];
};
static atomic_bool stop;

static bool holds(struct worker *w, uint64_t add, const char *what) {
    for (size_t at = 0; at < w->length; at += PAGE) {
        size_t offset = at + (size_t)rand_r(&w->seed) % PAGE / 8 * 8;
        if (read_word(w->start + offset) != offset + add) {
            (void)snprintf(w->wrong, sizeof(w->wrong), "%s: wrong at %zu: %lx", what, offset, (unsigned long)read_word(w->start + offset));
            return false;
        }
    }
    return true;
}

static void fill(struct worker *w, uint64_t add) {
    for (size_t at = 0; at < w->length; at += 8) {
        uint64_t word = at + add;
        (void)memcpy(w->start + at, &word, sizeof(word));
    }
}

/* One address range is in turn a mapping that is only read, one that is written through mprotect, anonymous memory, and a hole that libc may fill. */
static bool turn(struct worker *w, int fd) {
    int kind = rand_r(&w->seed) % 4;
    bool shared = kind == 0 && rand_r(&w->seed) % 2;
    if (kind < 3) {
        int protection = kind == 2 ? PROT_READ | PROT_WRITE : PROT_READ;
        if (mmap(w->start, w->length, protection, (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED, fd, 0) == MAP_FAILED)
            return false;
        if (!holds(w, 0, "read"))
            return false;
        if (kind == 0)
            return true;
        if (kind == 1 && mprotect(w->start, w->length, PROT_READ | PROT_WRITE) < 0)
            return false;
        fill(w, WORD);
        if (kind == 1 && mprotect(w->start, w->length, PROT_READ) < 0)
            return false;
        return holds(w, WORD, kind == 1 ? "written through mprotect" : "written private");
    }
    if (mmap(w->start, w->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return false;
    fill(w, 3 * WORD);
    return holds(w, 3 * WORD, "anonymous");
}

static void *work(void *userdata) {
    struct worker *w = userdata;
    int fd = open(w->path, O_RDONLY | O_CLOEXEC);
    for (; !atomic_load(&stop) && !w->wrong[0]; w->rounds++)
        if (!turn(w, fd) && !w->wrong[0])
            (void)snprintf(w->wrong, sizeof(w->wrong), "%s", strerror(errno));
    (void)close(fd);
    return NULL;
}

static void stress(const char *path, double seconds) {
    enum { WORKERS = 3 };
    static struct worker workers[WORKERS];
    size_t length = (size_t)4 << 20;
    char *all = mmap(NULL, WORKERS * length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        fail("mmap");
    (void)printf("%lu %zu\n", (unsigned long)(uintptr_t)all, WORKERS * length);
    (void)fflush(stdout);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){ .path = path, .start = all + i * length, .length = length, .seed = i + 1 };
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            fail("pthread_create");
    }
    struct timespec t = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    (void)nanosleep(&t, NULL);
    atomic_store(&stop, true);
    unsigned long rounds = 0;
    const char *wrong = NULL;
    for (unsigned i = 0; i < WORKERS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        rounds += workers[i].rounds;
        if (workers[i].wrong[0])
            wrong = workers[i].wrong;
    }
    if (wrong)
        (void)printf("%s\n", wrong);
    else
        (void)printf("ok %lu\n", rounds);
}

/* ---- commands -------------------------------------------------------------------------------------------------- */

static void run_program(char *arguments) {
    char *argv[16] = { 0 };
    unsigned n = 0;
    for (char *word = strtok(arguments, " "); word && n < 15; word = strtok(NULL, " "))
        argv[n++] = word;
    (void)execv(argv[0], argv);
    fail(argv[0]);
}

static void on_slot(const char *command, struct slot *s, const char *rest) {
    char how[16] = "";
    size_t first = 0, count = 0;
    if (strcmp(command, "protect") == 0)
        (void)sscanf(rest, "%*u %15[rw] %zu %zu", how, &first, &count);
    else
        (void)sscanf(rest, "%*u %zu %zu", &first, &count);
    if (strcmp(command, "touch") == 0) {
        touch(s);
    } else if (strcmp(command, "write") == 0) {
        change(s, first, count, -1);
    } else if (strcmp(command, "poke") == 0) {
        int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
        change(s, first, count, mem);
        (void)close(mem);
    } else if (strcmp(command, "protect") == 0) {
        if (mprotect(s->start + first * PAGE, count * PAGE, PROT_READ | (how[0] == 'w' ? PROT_WRITE : 0)) < 0)
            fail("mprotect");
        (void)printf("ok\n");
    } else if (strcmp(command, "check") == 0) {
        check(s);
    } else if (strcmp(command, "anonymous") == 0) {
        put_anonymous(s, first, count);
    } else if (strcmp(command, "move") == 0) {
        move(s);
    } else if (strcmp(command, "unmap") == 0) {
        (void)printf("%s\n", munmap(s->start, s->length) == 0 ? "ok" : "failed");
    } else if (strcmp(command, "lock") == 0) {
        (void)printf("%s\n", mlock(s->start, s->length) == 0 ? "ok" : strerror(errno));
    } else {
        fail(command);
    }
}

int main(void) {
    char line[4096];
    while (fgets(line, sizeof(line), stdin)) {
        char command[32], a[2048] = "", b[32] = "", c[32] = "";
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%31s %2047s %31s %31s", command, a, b, c) < 1)
            continue;
        if (strcmp(command, "map") == 0)
            map(a, b[0] == 'w', strcmp(c, "shared") == 0);
        else if (strcmp(command, "threads") == 0)
            count_threads();
        else if (strcmp(command, "descriptors") == 0)
            count_descriptors();
        else if (strcmp(command, "close") == 0)
            (void)printf("%s\n", close_range(3, ~0U, 0) == 0 ? "ok" : strerror(errno));
        else if (strcmp(command, "fork") == 0)
            fork_here();
        else if (strcmp(command, "run") == 0)
            run_program(line + 4);
        else if (strcmp(command, "last") == 0)
            pthread_exit(NULL);
        else if (strcmp(command, "exit") == 0)
            return (int)strtoul(a, NULL, 10);
        else if (strcmp(command, "stress") == 0)
            stress(a, strtod(b, NULL));
        else
            on_slot(command, &slots[strtoul(a, NULL, 10) % SLOTS], line + strlen(command) + 1);
        (void)fflush(stdout);
    }
    return 0;
}
