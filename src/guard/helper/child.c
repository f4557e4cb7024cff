/* SPDX-License-Identifier: MIT */
#include "guard/helper/child.h"

#include "base/cleanup.h"
#include "base/write.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { END_WAIT_MS = 200 /* for a child that was killed: it ends within a few, unless it hangs in the kernel, and then it is init's */ };

/* Where programs are on every distribution. PATH is not asked: a unit's may lead anywhere. */
static const char *const folders[] = { "/usr/bin", "/bin", "/usr/local/bin" };

bool uma_helper_program_find(const char *name, char *ret_path, size_t size) {
    for (size_t i = 0; i < ELEMENTS(folders); i++)
        if (snprintf(ret_path, size, "%s/%s", folders[i], name) < (int)size && access(ret_path, X_OK) == 0)
            return true;
    return false;
}

int uma_helper_text_file(const char *data, size_t length, struct uma_error *err) {
    _cleanup_close_ int fd = memfd_create("uma-guard-helper", MFD_CLOEXEC);
    if (fd < 0)
        return uma_error_set(err, errno, "memory for a notification");
    int r = uma_write_all(fd, data, length);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    return r < 0 ? uma_error_set(err, -r, "memory for a notification") : TAKE_FD(fd);
}

/* Between fork and exec: only async-signal-safe calls. */
static _Noreturn void become(const struct uma_helper_program *program, pid_t helper) {
    sigset_t none;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != helper)
        _exit(127);
    for (int signo = 1; signo < 65; signo++)
        (void)signal(signo, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* out of the way of the numbers that they get */
    int in = program->in >= 0 ? fcntl(program->in, F_DUPFD_CLOEXEC, 10) : open("/dev/null", O_RDONLY);
    int extra = program->extra >= 0 ? fcntl(program->extra, F_DUPFD_CLOEXEC, 10) : -1;
    if (in < 0 || dup2(in, 0) < 0 || dup2(2, 1) < 0 || (program->extra >= 0 && (extra < 0 || dup2(extra, 3) < 0)))
        _exit(127);
    if (extra < 0)
        (void)close(3);
#ifdef SYS_close_range
    (void)syscall(SYS_close_range, 4u, ~0u,
                  0u); /* 5.9; before, only ours go by themselves, and what the helper was started with stays open */
#endif
    if (program->as_other && (setgroups(0, NULL) < 0 || setresgid(program->gid, program->gid, program->gid) < 0 ||
                              setresuid(program->uid, program->uid, program->uid) < 0))
        _exit(127);
    (void)execve(program->path, (char *const *)program->argv,
                 (char *const *)program->environment); /* not const for historical reasons only */
    _exit(127);
}

int uma_helper_child_start(const struct uma_helper_program *program, int64_t ends_ns, struct uma_helper_child *ret_child,
                           struct uma_error *err) {
    pid_t helper = getpid(), pid = fork();
    if (pid < 0)
        return uma_error_set(err, errno, "starting %s", program->path);
    if (pid == 0)
        become(program, helper);
    (void)setpgid(pid, pid); /* both sides do it, whoever comes first */
    *ret_child = (struct uma_helper_child){ .pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0), .ends_ns = ends_ns };
    return 0;
}

int uma_helper_child_check(struct uma_helper_child *child, int64_t now_ns, int *ret_status) {
    int status = 0;
    siginfo_t info = { 0 };
    if (child->pid == 0)
        return 0;
    /* looked at first and reaped last: until then its number, and that of its group, is nobody else's */
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
        if (now_ns >= child->ends_ns && !child->killed) {
            (void)kill(-child->pid, SIGKILL);
            (void)kill(child->pid, SIGKILL);
            child->killed = true;
        }
        return 0;
    }
    (void)kill(-child->pid, SIGKILL); /* what it left behind in its group */
    pid_t pid = waitpid(child->pid, &status, WNOHANG);
    if (child->pidfd >= 0)
        (void)close(child->pidfd);
    *child = (struct uma_helper_child){ .pidfd = -1, .killed = child->killed };
    *ret_status = pid < 0 ? 0 : status;
    return 1;
}

void uma_helper_child_end(struct uma_helper_child *child) {
    int status;
    if (child->pid == 0)
        return;
    child->ends_ns = 0;
    for (int waited = 0; uma_helper_child_check(child, 1, &status) == 0 && waited < END_WAIT_MS; waited += 10)
        (void)poll(NULL, 0, 10);
}
