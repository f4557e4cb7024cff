/* SPDX-License-Identifier: MIT */
/* The processes of a test: a guard that may touch only what is below this program, and a child that grows. */
#include "cmd/guard_test.h"

#include "base/units.h"
#include "base/write.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD "grows-for-test" /* at most 15 letters; not "umactl...", which is protected */

static volatile sig_atomic_t ended_by;

static void take_signal(int number) {
    ended_by = number;
}

/* ---- the folder --------------------------------------------------------------------------------------------- */

int uma_guard_test_begin(struct uma_guard_test *test, struct uma_error *err) {
    const struct sigaction action = { .sa_handler = take_signal };
    const char *tmp = getenv("TMPDIR");
    /* a socket's path has 107 letters */
    (void)snprintf(test->folder, sizeof(test->folder), "%s/umactl-guard-test-XXXXXX",
                   tmp && *tmp == '/' && strlen(tmp) < 48 ? tmp : "/tmp");
    if (!mkdtemp(test->folder))
        return uma_error_set(err, errno, "%s", test->folder);
    (void)snprintf(test->run_folder, sizeof(test->run_folder), "%s/run", test->folder);
    (void)snprintf(test->state_folder, sizeof(test->state_folder), "%s/state", test->folder);
    (void)snprintf(test->policy, sizeof(test->policy), "%s/guard.conf", test->folder);
    (void)snprintf(test->log, sizeof(test->log), "%s/log", test->folder);
    if (mkdir(test->run_folder, 0700) < 0 || mkdir(test->state_folder, 0700) < 0)
        return uma_error_set(err, errno, "%s", test->folder);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL); /* its terminal was closed */
    (void)sigaction(SIGQUIT, &action, NULL);
    return 0;
}

/* Files alone are in these folders. */
static void remove_files(const char *folder) {
    _cleanup_closedir_ DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
}

/* Ended within two seconds, or killed. */
static void reap(pid_t pid) {
    if (pid <= 0)
        return;
    (void)kill(pid, SIGTERM);
    (void)kill(pid, SIGCONT);
    for (int i = 0; i < 200; i++) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return;
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    }
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

void uma_guard_test_end(struct uma_guard_test *test) {
    uma_cleanup_close(&test->go);
    if (test->child > 0) {
        (void)kill(test->child, SIGKILL);
        (void)waitpid(test->child, NULL, 0);
    }
    reap(test->guard);
    test->guard = test->child = 0;
    test->go = -1;
    if (!test->run_folder[0]) /* nothing was made */
        return;
    remove_files(test->run_folder);
    remove_files(test->state_folder);
    (void)rmdir(test->run_folder);
    (void)rmdir(test->state_folder);
    remove_files(test->folder);
    (void)rmdir(test->folder);
}

/*
 * Half of what is available is the floor, and the horizon is as long as it can be: a fall that would take minutes is danger, so that little has to be taken, and the machine stays far from where it could come to harm.
 */
int uma_guard_test_policy(const struct uma_guard_test *test, enum uma_guard_test_rung rung, struct uma_error *err) {
    char text[512];
    bool stop = rung == UMA_GUARD_TEST_BRAKE; /* and nobody is ended yet, though others on the machine may grow */
    int n = snprintf(text, sizeof(text),
                     "[Floor]\nFloor=%llu\nHorizon=%d\n"
                     "[Brake]\nBrakeMost=2\nBrakeRelease=1\nBrakeTimes=1000\n"
                     "[Warn]\nWarn=no\n[Room]\nRoom=no\n"
                     "[Kill]\nTerminate=%s\nKill=%s\nReleaseWait=5\n"
                     "[Victims]\nNoBrake=%s\n",
                     (unsigned long long)test->floor, UMA_GUARD_TEST_HORIZON, rung == UMA_GUARD_TEST_TERM ? "yes" : "no",
                     stop ? "no" : "yes", stop ? "" : CHILD);
    _cleanup_close_ int fd = open(test->policy, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    int r = fd < 0 ? -errno : fchmod(fd, 0644) < 0 ? -errno : uma_write_all(fd, text, (size_t)n);
    return r < 0 ? uma_error_set(err, -r, "%s", test->policy) : 0;
}

/* ---- processes ---------------------------------------------------------------------------------------------- */

/* In a child: it does not outlive this program. */
static void die_with(pid_t parent) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C is for this program, which ends them in order */
    (void)signal(SIGQUIT, SIG_IGN);
    (void)signal(SIGTERM, SIG_DFL);
    if (getppid() != parent)
        _exit(1);
}

int uma_guard_test_start_guard(struct uma_guard_test *test, const char *program, struct uma_error *err) {
    char within[32];
    pid_t own = getpid();
    (void)snprintf(within, sizeof(within), "%ld", (long)own);
    _cleanup_close_ int log = open(test->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return uma_error_set(err, errno, "%s", test->log);
    test->guard = fork();
    if (test->guard < 0) {
        test->guard = 0;
        return uma_error_set(err, errno, "a process for uma-guard");
    }
    if (test->guard == 0) {
        die_with(own);
        (void)dup2(log, STDOUT_FILENO);
        (void)dup2(log, STDERR_FILENO);
        (void)unsetenv("NOTIFY_SOCKET"); /* it is not the service that this program may be a part of */
        (void)unsetenv("WATCHDOG_USEC");
        (void)execl(program, "uma-guard", "--policy", test->policy, "--run-folder", test->run_folder, "--state-folder", test->state_folder,
                    "--within", within, (char *)NULL);
        _exit(127);
    }
    return 0;
}

/* A fiftieth of a second's growth every 20 ms, each page written to. */
static _Noreturn void grow(uint64_t speed, uint64_t most) {
    size_t step = (size_t)(speed / 50);
    for (uint64_t taken = 0; taken + step <= most; taken += step) {
        char *memory = mmap(NULL, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            break;
        (void)madvise(memory, step, MADV_HUGEPAGE);
        memset(memory, 1, step);
        (void)nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    for (;;)
        (void)pause();
}

int uma_guard_test_start_child(struct uma_guard_test *test, bool deaf, struct uma_error *err) {
    int ends[2];
    pid_t own = getpid();
    if (pipe2(ends, O_CLOEXEC) < 0)
        return uma_error_set(err, errno, "a pipe");
    test->child = fork();
    if (test->child < 0) {
        int code = errno;
        test->child = 0;
        (void)close(ends[0]);
        (void)close(ends[1]);
        return uma_error_set(err, code, "a child that grows");
    }
    if (test->child == 0) {
        char byte;
        (void)close(ends[1]);
        die_with(own);
        if (deaf)
            (void)signal(SIGTERM, SIG_IGN);
        (void)prctl(PR_SET_NAME, CHILD);
        if (read(ends[0], &byte, 1) != 1)
            _exit(0);
        grow(test->speed, test->most);
    }
    (void)close(ends[0]);
    uma_cleanup_close(&test->go);
    test->go = ends[1];
    return 0;
}

void uma_guard_test_let_grow(struct uma_guard_test *test) {
    (void)!write(test->go, "g", 1);
}

enum uma_guard_test_event uma_guard_test_wait(struct uma_guard_test *test, double seconds, int *ret_signal) {
    int64_t until = uma_monotonic_ns() + (int64_t)(seconds * 1e9);
    while (!(test->interrupted = ended_by != 0) && uma_monotonic_ns() < until) {
        int status;
        pid_t r = waitpid(test->child, &status, WNOHANG | WUNTRACED | WCONTINUED);
        if (r == 0) {
            (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
            continue;
        }
        if (r < 0)
            return UMA_GUARD_TEST_NOTHING;
        if (WIFSTOPPED(status))
            return UMA_GUARD_TEST_STOPPED;
        if (WIFCONTINUED(status))
            return UMA_GUARD_TEST_GOES_ON;
        test->child = 0;
        *ret_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        return UMA_GUARD_TEST_ENDED;
    }
    return UMA_GUARD_TEST_NOTHING;
}
