/* SPDX-License-Identifier: MIT */
/* The processes of the job, and the cheap numbers that say whether anything moved. */
#include "base/units.h"
#include "cache/follow_parts.h"
#include "observe/lines.h"
#include "observe/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* New processes load nothing in their first quarter of a second: starting Python takes that long. */
#define CHILDREN_EVERY_NS (INT64_C(250) * 1000000)
/* Shared memory needs the dearer status file; it grows by whole tensors. */
#define SHMEM_EVERY_NS (INT64_C(200) * 1000000)

enum { SMALL_FILE_MAX = 4096, CHILDREN_MAX = 65536, TASKS_MAX = 65536 };

static int open_proc(pid_t pid, const char *name) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A small file, whole and NUL-terminated. Its length, or -errno. */
static ssize_t read_small(int fd, char text[SMALL_FILE_MAX]) {
    ssize_t n;
    do
        n = pread(fd, text, SMALL_FILE_MAX - 1, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    text[n] = '\0';
    return n;
}

/* ---- who belongs to it --------------------------------------------------------------------------------------- */

static struct uma_follow_process *find(struct uma_follower *f, pid_t pid) {
    for (size_t i = 0; i < f->n_processes; i++)
        if (f->processes[i].pid == pid && !f->processes[i].gone)
            return &f->processes[i];
    return NULL;
}

static int add(struct uma_follower *f, pid_t pid) {
    struct uma_follow_process *slot = NULL;
    for (size_t i = 0; i < f->n_processes && !slot; i++)
        if (f->processes[i].gone)
            slot = &f->processes[i];
    if (!slot) {
        if (f->n_processes == UMA_FOLLOW_PROCESSES_MAX)
            return -EMFILE;
        slot = &f->processes[f->n_processes];
    }
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0u); /* -1 before 5.3 and under some filters: its end is then seen in statm */
    if (pidfd < 0 && errno == ESRCH)
        return -ESRCH;
    int statm = open_proc(pid, "statm");
    if (statm < 0) {
        int code = errno;
        if (pidfd >= 0)
            (void)close(pidfd);
        return code == ENOENT ? -ESRCH : -code;
    }
    *slot = (struct uma_follow_process){ .pid = pid, .pidfd = pidfd, .statm = statm, .io = open_proc(pid, "io"), .presence = { .fd = -1 } };
    if (slot == &f->processes[f->n_processes])
        f->n_processes++;
    return 0;
}

static void forget(struct uma_follow_process *process) {
    if (process->gone)
        return;
    if (process->pidfd >= 0)
        (void)close(process->pidfd);
    (void)close(process->statm);
    if (process->io >= 0)
        (void)close(process->io);
    uma_presence_close(&process->presence);
    free(process->mappings);
    free(process->descriptors);
    *process = (struct uma_follow_process){ .gone = true, .pidfd = -1, .statm = -1, .io = -1, .presence = { .fd = -1 } };
}

static bool has_ended(const struct uma_follow_process *process) {
    struct pollfd poll_fd = { .fd = process->pidfd, .events = POLLIN };
    return poll(&poll_fd, 1, 0) > 0;
}

/* 0, or why following that process would wait for nothing for ever. */
static int refuse(const struct uma_follower *f, struct uma_error *err) {
    pid_t pid = f->options->pid;
    if (pid == getpid())
        return uma_error_text(err, EINVAL, "process %d is umactl itself, which loads no weights", (int)pid);
    _cleanup_close_ int fd = open_proc(pid, "stat");
    char text[SMALL_FILE_MAX];
    ssize_t n = fd < 0 ? -1 : read_small(fd, text);
    struct uma_process process = { 0 };
    if (n > 0 && uma_process_stat_parse(text, (size_t)n, "stat", f->arena, &process, NULL) >= 0 && process.kernel_thread)
        return uma_error_text(err, EINVAL, "process %d is a thread of the kernel, which loads no weights", (int)pid);
    return 0;
}

int uma_follow_job_begin(struct uma_follower *f, struct uma_error *err) {
    f->processes = calloc(UMA_FOLLOW_PROCESSES_MAX, sizeof *f->processes);
    if (!f->processes)
        return uma_error_set(err, ENOMEM, "following a job");
    int r = refuse(f, err);
    if (r < 0)
        return r;
    r = add(f, f->options->pid);
    if (r < 0)
        return uma_error_set(err, -r, "process %d", (int)f->options->pid);
    uma_follow_job_list(f);
    return 0;
}

/* "children" of one thread: numbers with blanks between them (CONFIG_PROC_CHILDREN). */
static void add_children(struct uma_follower *f, const char *path) {
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    char text[SMALL_FILE_MAX];
    ssize_t n = read_small(fd, text); /* a thread with more than some 500 children is a server, not a loader */
    if (n <= 0)
        return;
    const char *end = text + n;
    for (const char *at = text; at < end;) {
        uint64_t pid;
        const char *after = uma_parse_u64(at, end, &pid);
        if (!after)
            return;
        /* This program too may be a child of the job: of a shell that is followed. It has every weight file open. */
        if (pid > 0 && pid <= INT32_MAX && (pid_t)pid != getpid() && !find(f, (pid_t)pid))
            (void)add(f, (pid_t)pid);
        at = after + strspn(after, " \n");
    }
}

static void list_children(struct uma_follower *f, pid_t pid) {
    char path[96];
    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    _cleanup_closedir_ DIR *tasks = opendir(path);
    if (!tasks)
        return;
    size_t n = 0;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL && n < TASKS_MAX; n++) {
        uint64_t thread;
        if (uma_parse_u64_all(entry->d_name, &thread) < 0)
            continue;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)thread);
        add_children(f, path);
    }
}

void uma_follow_job_list(struct uma_follower *f) {
    if (f->now_ns < f->children_ns)
        return;
    f->children_ns = f->now_ns + CHILDREN_EVERY_NS;
    for (size_t i = 0; i < f->n_processes; i++) {
        struct uma_follow_process *process = &f->processes[i];
        if (!process->gone && has_ended(process))
            forget(process);
        if (!process->gone)
            list_children(f, process->pid); /* what it adds is looked at later in this loop, or at the next listing */
    }
}

bool uma_follow_job_over(const struct uma_follower *f) {
    for (size_t i = 0; i < f->n_processes; i++)
        if (!f->processes[i].gone)
            return false;
    return true;
}

void uma_follow_job_end(struct uma_follower *f) {
    for (size_t i = 0; i < f->n_processes; i++)
        forget(&f->processes[i]);
    free(f->processes);
    f->processes = NULL;
    f->n_processes = 0;
}

/* ---- what moved ---------------------------------------------------------------------------------------------- */

static void read_shmem(struct uma_follow_process *process) {
    _cleanup_close_ int fd = open_proc(process->pid, "status");
    char text[SMALL_FILE_MAX];
    ssize_t n = fd >= 0 ? read_small(fd, text) : -1;
    struct uma_u64 kib = n > 0 ? uma_lines_number(text, (size_t)n, "RssShmem") : uma_no_u64(UMA_FAILED);
    if (uma_usable(kib.validity))
        process->shmem = kib.value * UMA_KIB;
}

/* statm: pages of size, resident, shared (file pages and shared memory) */
static bool read_statm(struct uma_follower *f, struct uma_follow_process *process) {
    char text[SMALL_FILE_MAX];
    ssize_t n = read_small(process->statm, text);
    if (n <= 0 || strncmp(text, "0 ", 2) == 0) { /* a zombie has no memory, and all zeros */
        if (n > 0 || n == -ESRCH)
            forget(process);
        return false;
    }
    uint64_t value[3], page = (uint64_t)sysconf(_SC_PAGESIZE);
    const char *at = text, *end = text + n;
    for (size_t i = 0; i < ELEMENTS(value); i++, at += *at == ' ') {
        at = uma_parse_u64(at, end, &value[i]);
        if (!at)
            return false;
    }
    if (f->now_ns - process->shmem_ns >= SHMEM_EVERY_NS) {
        process->shmem_ns = f->now_ns;
        read_shmem(process);
    }
    process->size = value[0] * page;
    process->anon = (value[1] - MIN_OF(value[1], value[2])) * page;
    uint64_t shared = value[2] * page, file = shared - MIN_OF(shared, process->shmem);
    uint64_t now = file + process->paged_out, before = process->file_rss;
    process->file_rss = file;
    process->paged_out = 0;
    if (now > before)
        process->unexplained_rss += now - before;
    return now != before;
}

/* io: rchar, bytes that read(2) and its kin gave, from the page cache or not. Other things are read too: it is only a hint. */
bool uma_follow_job_read_io(struct uma_follow_process *process) {
    char text[SMALL_FILE_MAX];
    ssize_t n = process->io >= 0 ? read_small(process->io, text) : -1;
    struct uma_u64 rchar = n > 0 ? uma_lines_number(text, (size_t)n, "rchar") : uma_no_u64(UMA_FAILED);
    if (!uma_usable(rchar.validity))
        return false;
    uint64_t before = process->rchar; /* 0 at first: all that it ever read may have been weights */
    process->rchar = rchar.value;
    if (rchar.value <= before)
        return false;
    process->unexplained_rchar += rchar.value - before;
    return true;
}

bool uma_follow_job_read(struct uma_follower *f) {
    bool moved = false;
    for (size_t i = 0; i < f->n_processes; i++) {
        struct uma_follow_process *process = &f->processes[i];
        if (process->gone)
            continue;
        if (has_ended(process)) {
            forget(process);
            continue;
        }
        bool a = read_statm(f, process), b = !process->gone && uma_follow_job_read_io(process);
        moved = moved || a || b;
    }
    return moved;
}
