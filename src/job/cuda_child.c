/* SPDX-License-Identifier: MIT */
#include "job/cuda_child.h"

#include "base/units.h"
#include "valve/settings.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

extern char **environ;

enum {
    PROCS_FD = 3, /* umactl-cuda's own */
    ENVIRONMENT_MAX = 8192,
    GRACE = 50 /* milliseconds for a process that was just killed to be over */
};

static bool is_ours(const char *entry) {
    return strncmp(entry, "LD_PRELOAD=", 11) == 0 || strncmp(entry, "UMACTL_VALVE=", 13) == 0 ||
           strncmp(entry, "UMACTL_VALVE_ACCOUNT=", 21) == 0;
}

/* umactl's own, but with the valve of this test or without any. The strings are umactl's and the caller's. */
static int make_environment(char *preload, char *settings, char **list, struct uma_error *err) {
    size_t n = 0;
    for (char **entry = environ; *entry; entry++) {
        if (is_ours(*entry))
            continue;
        if (n == ENVIRONMENT_MAX - 3)
            return uma_error_text(err, E2BIG, "too many variables in the environment");
        list[n++] = *entry;
    }
    if (preload)
        list[n++] = preload;
    list[n++] = settings;
    list[n] = NULL;
    return 0;
}

static int set_up(const struct uma_cuda_child_options *options, int fd, posix_spawn_file_actions_t *actions,
                  posix_spawnattr_t *attributes) {
    sigset_t all, none;
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    int r = posix_spawn_file_actions_adddup2(actions, fd, STDIN_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(actions, fd, STDOUT_FILENO);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0); /* the valve tells its refusals */
    if (r == 0 && options->procs >= 0)
        r = posix_spawn_file_actions_adddup2(actions, options->procs, PROCS_FD);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(attributes, &all);
    if (r == 0)
        r = posix_spawnattr_setsigmask(attributes, &none);
    if (r == 0)
        r = posix_spawnattr_setpgroup(attributes, 0);
    return r ? r : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
}

static int spawn(const char *path, const struct uma_cuda_child_options *options, int fd, char **list, pid_t *ret_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char parent[16], name[] = "umactl-cuda", enter[] = "enter";
    (void)snprintf(parent, sizeof(parent), "%d", (int)getpid());
    char *argv[] = { name, parent, options->procs >= 0 ? enter : NULL, NULL };
    int r = posix_spawn_file_actions_init(&actions);
    if (r != 0)
        return r;
    r = posix_spawnattr_init(&attributes);
    if (r == 0) {
        r = set_up(options, fd, &actions, &attributes);
        if (r == 0)
            r = posix_spawn(ret_pid, path, &actions, &attributes, argv, list);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return r;
}

int uma_cuda_child_start(const struct uma_cuda_child_options *options, struct uma_cuda_child *ret_child, struct uma_error *err) {
    char path[PATH_MAX], preload[PATH_MAX + 16], settings[256];
    int pair[2];
    _cleanup_free_
    char **list = calloc(ENVIRONMENT_MAX, sizeof(*list));
    pid_t pid = 0;
    int r = list ? uma_probe_program_find("umactl-cuda", "UMACTL_CUDA", path, err) : uma_error_set(err, ENOMEM, "umactl-cuda");
    if (r < 0)
        return r;
    (void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", options->valve ? options->valve : "");
    (void)snprintf(settings, sizeof(settings), UMA_VALVE_VARIABLE "=%s", options->valve ? options->settings : "off");
    r = make_environment(options->valve ? preload : NULL, settings, list, err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return uma_error_set(err, errno, "a socket for umactl-cuda");
    _cleanup_close_ int ours = pair[0], theirs = pair[1];
    r = spawn(path, options, theirs, list, &pid);
    if (r != 0)
        return uma_error_set(err, r, "%s", path);
    *ret_child = (struct uma_cuda_child){ .process = { .pid = pid, .pidfd = -1 }, .fd = TAKE_FD(ours) };
    return 0;
}

/* One line, without its newline. */
static int read_line(struct uma_cuda_child *child, double seconds, char *into, size_t size, struct uma_error *err) {
    int64_t until = uma_monotonic_ns() + (int64_t)(seconds * UMA_SECOND_NS);
    for (size_t n = 0; n < size - 1;) {
        int64_t left = until - uma_monotonic_ns();
        struct pollfd wait = { .fd = child->fd, .events = POLLIN };
        if (left <= 0)
            return uma_error_text(err, ETIMEDOUT, "CUDA did not answer within %.0f s", seconds);
        if (poll(&wait, 1, (int)MIN_OF(left / 1000000 + 1, 1000)) <= 0)
            continue;
        ssize_t k = recv(child->fd, into + n, 1, MSG_DONTWAIT); /* a line is a dozen bytes */
        if (k == 0 || (k < 0 && errno != EINTR && errno != EAGAIN))
            return uma_error_text(err, EPIPE, "umactl-cuda ended before it answered");
        if (k > 0 && into[n] == '\n') {
            into[n] = '\0';
            return 0;
        }
        n += k > 0;
    }
    return uma_error_text(err, EPROTO, "umactl-cuda's answer is not one");
}

static int ask(struct uma_cuda_child *child, const char *question, double seconds, char *answer, size_t size, struct uma_error *err) {
    if (child->fd < 0)
        return uma_error_text(err, EPIPE, "umactl-cuda has ended");
    (void)send(child->fd, question, strlen(question), MSG_NOSIGNAL); /* where it is gone already, that is read below */
    int r = read_line(child, seconds, answer, size, err);
    if (r < 0)
        uma_cuda_child_end(child);
    return r;
}

static int code_of(const char *s, int *ret_code, struct uma_error *err) {
    int64_t code;
    if (uma_parse_i64_all(s, &code) < 0 || code < -1 || code > 100000)
        return uma_error_text(err, EPROTO, "umactl-cuda's answer is not one");
    *ret_code = (int)code;
    return 0;
}

int uma_cuda_child_begin(struct uma_cuda_child *child, char ret_step[16], int *ret_code, struct uma_error *err) {
    char line[64];
    int r = ask(child, "begin\n", UMA_CUDA_CHILD_BEGIN, line, sizeof(line), err);
    if (r < 0)
        return r;
    char *code = strrchr(line, ' ');
    if (strncmp(line, "begin ", 6) != 0 || !code || code < line + 6 || code - (line + 6) >= 16)
        return uma_error_text(err, EPROTO, "umactl-cuda's answer is not one");
    *code = '\0';
    r = code_of(code + 1, ret_code, err);
    if (r >= 0)
        (void)snprintf(ret_step, 16, "%.15s", line + 6);
    return r;
}

int uma_cuda_child_take(struct uma_cuda_child *child, uint64_t bytes, int *ret_code, struct uma_error *err) {
    char line[64], question[40];
    (void)snprintf(question, sizeof(question), "take %llu\n", (unsigned long long)bytes);
    int r = ask(child, question, UMA_CUDA_CHILD_TAKE, line, sizeof(line), err);
    if (r < 0)
        return r;
    return strncmp(line, "take ", 5) == 0 ? code_of(line + 5, ret_code, err)
                                          : uma_error_text(err, EPROTO, "umactl-cuda's answer is not one");
}

void uma_cuda_child_end(struct uma_cuda_child *child) {
    uma_cleanup_close(&child->fd);
    child->fd = -1;
    uma_probe_kill(&child->process);
    (void)uma_probe_reap_within(&child->process, GRACE, NULL);
}
