/* SPDX-License-Identifier: MIT */
#include "observe/gpu_probe_start.h"

#include "observe/gpu_probe_protocol.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#ifndef UMACTL_LIBEXECDIR
#define UMACTL_LIBEXECDIR "/usr/libexec"
#endif

extern char **environ;

int uma_probe_program_find(const char *name, const char *variable, char ret_path[PATH_MAX], struct uma_error *err) {
    const char *named = secure_getenv(variable);
    if (named && named[0]) {
        if (snprintf(ret_path, PATH_MAX, "%s", named) >= PATH_MAX)
            return uma_error_set(err, ENAMETOOLONG, "%s", variable);
        /* asked here, because a spawn cannot tell everywhere: under user-mode emulation it only ends with status 127 */
        return access(ret_path, X_OK) == 0 ? 0 : uma_error_set(err, errno, "%s (named by %s)", named, variable);
    }
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    while (n > 0 && self[n - 1] != '/')
        n--;
    if (n > 0 && snprintf(ret_path, PATH_MAX, "%.*s%s", (int)n, self, name) < PATH_MAX && access(ret_path, X_OK) == 0)
        return 0;
    (void)snprintf(ret_path, PATH_MAX, "%s/%s", UMACTL_LIBEXECDIR, name);
    if (access(ret_path, X_OK) == 0)
        return 0;
    return uma_error_text(err, ENOENT, "%s is neither beside the program nor %s (%s names another place)", name, ret_path, variable);
}

/* The child's descriptors: the socket on PROBE_FD and nothing of ours on the standard ones (a library may print). */
static int set_actions(posix_spawn_file_actions_t *actions, int fd) {
    int r = posix_spawn_file_actions_adddup2(actions, fd, PROBE_FD); /* first: fd may itself be 0, 1 or 2 */
    for (int i = 0; i < PROBE_FD && r == 0; i++)
        r = posix_spawn_file_actions_addopen(actions, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
    return r;
}

/* Default signals, and a process group of its own: Ctrl-C at the terminal is for the job, the last reading after it still needs the
 * probe. */
static int set_attributes(posix_spawnattr_t *attributes) {
    sigset_t all, none;
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    int r = posix_spawnattr_setsigdefault(attributes, &all);
    if (r == 0)
        r = posix_spawnattr_setsigmask(attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setpgroup(attributes, 0);
    if (r == 0)
        r = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    return r;
}

static int spawn(const char *path, const char *library, int fd, pid_t *ret_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char parent[16];
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    char name[] = "umactl-probe";
    char *argv[] = { name, parent, NULL, NULL };
    (void)memcpy(&argv[2], &library, sizeof(library)); /* argv is not const for historical reasons only; nothing writes to it */
    int r = posix_spawn_file_actions_init(&actions);
    if (r != 0)
        return r;
    r = posix_spawnattr_init(&attributes);
    if (r == 0) {
        r = set_actions(&actions, fd);
        if (r == 0)
            r = set_attributes(&attributes);
        if (r == 0)
            r = posix_spawn(ret_pid, path, &actions, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return r;
}

int uma_probe_start(const char *library, struct uma_probe_process *ret_process, int *ret_fd, struct uma_error *err) {
    char path[PATH_MAX];
    int r = uma_probe_program_find("umactl-probe", "UMACTL_PROBE", path, err);
    if (r < 0)
        return r;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return uma_error_set(err, errno, "a socket for umactl-probe");
    _cleanup_close_ int ours = pair[0], theirs = pair[1];
    if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
        return uma_error_set(err, errno, "a socket for umactl-probe");
    pid_t pid = 0;
    r = spawn(path, library, theirs, &pid);
    if (r != 0)
        return uma_error_set(err, r, "%s", path);
    int pidfd = -1;
#ifdef SYS_pidfd_open
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* close-on-exec by itself */
#endif
    *ret_process = (struct uma_probe_process){ .pid = pid, .pidfd = pidfd };
    *ret_fd = TAKE_FD(ours);
    return 0;
}

void uma_probe_kill(const struct uma_probe_process *process) {
    if (process->pid <= 0)
        return;
#ifdef SYS_pidfd_send_signal
    if (process->pidfd >= 0 && (syscall(SYS_pidfd_send_signal, process->pidfd, SIGKILL, NULL, 0) == 0 || errno == ESRCH))
        return;
#endif
    (void)kill(process->pid, SIGKILL);
}

bool uma_probe_reap(struct uma_probe_process *process, int *status) {
    int found = -1;
    if (process->pid > 0) {
        pid_t r;
        do
            r = waitpid(process->pid, &found, WNOHANG);
        while (r < 0 && errno == EINTR);
        if (r == 0)
            return false;
        if (r < 0)
            found = -1; /* somebody else waited for it, or SIGCHLD is ignored */
    }
    if (status)
        *status = found;
    uma_cleanup_close(&process->pidfd);
    *process = (struct uma_probe_process){ .pid = 0, .pidfd = -1 };
    return true;
}

bool uma_probe_reap_within(struct uma_probe_process *process, int milliseconds, int *status) {
    if (uma_probe_reap(process, status))
        return true;
    if (process->pidfd >= 0) {
        (void)poll(&(struct pollfd){ .fd = process->pidfd, .events = POLLIN }, 1, milliseconds);
        return uma_probe_reap(process, status);
    }
    for (int i = 0; i < milliseconds; i++) {
        (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        if (uma_probe_reap(process, status))
            return true;
    }
    return false;
}
