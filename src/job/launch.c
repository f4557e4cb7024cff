/* SPDX-License-Identifier: MIT */
#include "job/launch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

struct report {
    int cgroup_errno, limit_errno, exec_errno;
};

int uma_exec_status(int exec_errno) {
    return exec_errno == ENOENT ? 127 : 126;
}

/* Between fork and exec: only async-signal-safe calls. */
static _Noreturn void become_job(const struct uma_launch *launch, pid_t umactl, int report_fd) {
    struct report report = { 0 };
    (void)setpgid(0, 0);
    if (launch->die_with_umactl) {
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != umactl) /* it was gone before the line above */
            _exit(125);
    }
    if (launch->scope->procs_fd >= 0 && write(launch->scope->procs_fd, "0", 1) != 1)
        report.cgroup_errno = errno;
    /* the last of them is the one it stays in, where both are of one hierarchy */
    if (launch->limit_scope && write(launch->limit_scope->procs_fd, "0", 1) != 1)
        report.limit_errno = errno;
    if (launch->terminal->fd >= 0 && launch->terminal->eager && tcgetpgrp(launch->terminal->fd) == launch->terminal->own_group)
        (void)tcsetpgrp(launch->terminal->fd, getpid()); /* SIGTTOU is still ignored */
    report.exec_errno = launch->limit_needed ? report.limit_errno : 0;
    if (report.cgroup_errno || report.limit_errno)
        (void)!write(report_fd, &report, sizeof(report));
    if (report.exec_errno)
        _exit(uma_exec_status(report.exec_errno));
    uma_signals_restore(launch->signals);
    if (launch->environment)
        (void)execvpe(launch->argv[0], launch->argv, launch->environment);
    else
        (void)execvp(launch->argv[0], launch->argv);
    report.exec_errno = errno;
    (void)!write(report_fd, &report, sizeof(report));
    _exit(uma_exec_status(report.exec_errno));
}

int uma_job_launch(const struct uma_launch *launch, struct uma_launched *ret_launched, struct uma_error *err) {
    struct uma_launched launched = { 0 };
    int ends[2];
    pid_t umactl = getpid();
    if (pipe2(ends, O_CLOEXEC) < 0)
        return uma_error_set(err, errno, "pipe");
    _cleanup_close_ int read_end = ends[0];
    _cleanup_close_ int write_end = ends[1];
    pid_t pid = fork();
    if (pid < 0)
        return uma_error_set(err, errno, "fork");
    if (pid == 0)
        become_job(launch, umactl, write_end);
    (void)close(TAKE_FD(write_end));
    (void)setpgid(pid, pid); /* both sides do it, whoever comes first; EACCES after exec is fine */
    struct report report;
    for (;;) {
        ssize_t n = read(read_end, &report, sizeof(report));
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof(report))
            break; /* closed by exec */
        launched.cgroup_errno = report.cgroup_errno;
        launched.limit_errno = report.limit_errno;
        launched.exec_errno = report.exec_errno;
    }
    launched.pid = pid;
    if (launch->terminal->fd >= 0 && launch->terminal->eager && tcgetpgrp(launch->terminal->fd) == pid)
        launch->terminal->given = true;
    if (launched.exec_errno) {
        (void)waitpid(pid, NULL, 0);
        uma_terminal_take(launch->terminal, pid);
    }
    *ret_launched = launched;
    return 0;
}
