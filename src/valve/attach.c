/* SPDX-License-Identifier: MIT */
/*
 * The account of a job is found by its environment (a process that holds it open), or among the files that this user's processes have open (a memfd whose name has the job's token), or made. Looking and making is done under a
 * lock on the valve's own library file, which every process of the job has loaded, so that two that begin at once do not make two: no file is made for it, and none is left.
 */
#include "valve/call.h"
#include "valve/digits.h"
#include "valve/libc_old.h"
#include "valve/numbers.h"
#include "valve/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif
#ifndef MFD_ALLOW_SEALING
#define MFD_ALLOW_SEALING 2U
#endif

#define ALONE "alone" /* no token */
enum { NAME_MAX_LENGTH = 64, HIGH = 500 /* programs close and reuse low numbers */, LOCK_TRIES = 200, LOCK_PAUSE_NS = 10000000 };

static struct uma_valve_account *map(int fd, uint64_t inode) {
    struct uma_valve_statx st;
    if (!uma_valve_stat(fd, "", UMA_VALVE_AT_EMPTY_PATH, &st) || (inode && st.ino != inode) || st.size < sizeof(struct uma_valve_account))
        return NULL;
    void *at = mmap(NULL, sizeof(struct uma_valve_account), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (uma_valve_account_valid(at, st.size))
        return at;
    (void)munmap(at, sizeof(struct uma_valve_account));
    return NULL;
}

static char *put(char *at, const char *text) {
    size_t n = strlen(text);
    (void)memcpy(at, text, n + 1);
    return at + n;
}

/* "PID:START:FD:INODE" */
static bool parse(const char *s, uint64_t ret[4]) {
    for (int i = 0; i < 4; i++) {
        char *end;
        if (*s < '0' || *s > '9')
            return false;
        errno = 0;
        ret[i] = strtoull(s, &end, 10);
        if (errno != 0 || *end != (i < 3 ? ':' : '\0'))
            return false;
        s = end + 1;
    }
    return true;
}

static struct uma_valve_account *named(int *ret_fd) {
    const char *variable = getenv(UMA_VALVE_ACCOUNT_VARIABLE);
    uint64_t is[4];
    char path[64];
    if (!variable || !parse(variable, is) || is[0] > UINT32_MAX || is[2] > INT32_MAX || uma_valve_start_time((uint32_t)is[0]) != is[1])
        return NULL;
    (void)uma_valve_put_number(put(uma_valve_put_number(put(path, "/proc/"), is[0]), "/fd/"), is[2]);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* it may be anything by now */
    struct uma_valve_account *account = fd >= 0 ? map(fd, is[3]) : NULL;
    if (!account && fd >= 0)
        (void)close(fd);
    *ret_fd = fd;
    return account;
}

/* ---- among the files that others have open ---- */

struct search {
    const char *wanted; /* the memfd's name */
    struct uma_valve_account *account;
    int fd;
};

static bool visit_file(int folder, const char *name, void *userdata) {
    struct search *search = userdata;
    char link[NAME_MAX_LENGTH + 32];
    size_t length = strlen(search->wanted);
    ssize_t n = readlinkat(folder, name, link, sizeof(link) - 1);
    if (n <= 0)
        return false;
    link[n] = '\0';
    if (strncmp(link, "/memfd:", 7) != 0 || strncmp(link + 7, search->wanted, length) != 0 || link[7 + length] != ' ')
        return false;
    search->fd = openat(folder, name, O_RDWR | O_CLOEXEC);
    search->account = search->fd >= 0 ? map(search->fd, 0) : NULL;
    if (!search->account && search->fd >= 0)
        (void)close(search->fd);
    return search->account != NULL;
}

static bool visit_process(int proc, const char *name, void *userdata) {
    struct uma_valve_statx st;
    char path[NAME_MAX_LENGTH];
    if (strlen(name) > 20 || !uma_valve_stat(proc, name, 0, &st) || st.uid != geteuid())
        return false;
    (void)put(put(path, name), "/fd");
    int folder = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return false;
    bool found = uma_valve_each_number(folder, visit_file, userdata);
    (void)close(folder);
    return found;
}

static struct uma_valve_account *search(const char *wanted, int *ret_fd) {
    struct search search = { .wanted = wanted, .fd = -1 };
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0)
        return NULL;
    if (uma_valve_each_number(proc, visit_process, &search))
        *ret_fd = search.fd;
    (void)close(proc);
    return search.account;
}

/* ---- or a new one ---- */

/* Where there is no descriptor to be had, or no memfd (seccomp): memory that nobody else finds. */
static struct uma_valve_account *make(const char *name, const struct uma_valve_settings *settings, uint64_t floor, int *ret_fd) {
    const size_t size = sizeof(struct uma_valve_account);
    int fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t)size) < 0) {
        (void)close(fd);
        fd = -1;
    }
    if (fd >= 0)
        (void)fcntl(fd, F_ADD_SEALS, UMA_VALVE_ACCOUNT_SEALS);
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (at == MAP_FAILED) {
        if (fd >= 0)
            (void)close(fd);
        return NULL;
    }
    uma_valve_account_begin(at, settings->ceiling, floor);
    *ret_fd = fd;
    return at;
}

/* However it was come by: where the program does not expect its own next file. */
static int move_away(int fd) {
    int high = fd >= 0 && fd < HIGH ? fcntl(fd, F_DUPFD_CLOEXEC, HIGH) : -1;
    if (high < 0)
        return fd;
    (void)close(fd);
    return high;
}

/* Held until it is closed. -1: without, for want of a name or because somebody else holds it for seconds. */
static int lock_library(void) {
    Dl_info info;
    if (!uma_valve_dladdr((const void *)lock_library, &info) || !info.dli_fname)
        return -1;
    int fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
        struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
        if (i == LOCK_TRIES) {
            (void)close(fd);
            return -1;
        }
        (void)syscall(SYS_nanosleep, &pause, NULL);
    }
    return fd;
}

struct uma_valve_account *uma_valve_account_attach(const struct uma_valve_settings *settings, uint64_t floor, int *ret_fd) {
    char name[NAME_MAX_LENGTH];
    struct uma_valve_account *account = named(ret_fd);
    if (account) {
        *ret_fd = move_away(*ret_fd);
        return account;
    }
    (void)put(put(name, UMA_VALVE_ACCOUNT_NAME), settings->token[0] ? settings->token : ALONE);
    int lock = settings->token[0] ? lock_library() : -1;
    if (settings->token[0])
        account = search(name, ret_fd);
    if (!account)
        account = make(name, settings, floor, ret_fd);
    if (lock >= 0)
        (void)close(lock);
    if (account)
        *ret_fd = move_away(*ret_fd);
    return account;
}

struct uma_valve_account *uma_valve_account_alone(const struct uma_valve_settings *settings, uint64_t floor, int *ret_fd) {
    struct uma_valve_account *account = make(UMA_VALVE_ACCOUNT_NAME ALONE, settings, floor, ret_fd);
    if (account)
        *ret_fd = move_away(*ret_fd);
    return account;
}

void uma_valve_account_leave(struct uma_valve_account *account, int fd) {
    (void)munmap(account, sizeof(*account));
    if (fd >= 0)
        (void)close(fd);
}
