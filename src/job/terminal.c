/* SPDX-License-Identifier: MIT */
#include "job/terminal.h"

#include "base/units.h"

#include <fcntl.h>
#include <string.h>

/* Is another process in this group? The shell gives each pipeline a group of its own; a script's shell shares its group with what it runs. */
static bool group_is_shared(pid_t group) {
    _cleanup_closedir_ DIR *dir = opendir("/proc");
    if (!dir)
        return false;
    for (struct dirent *d; (d = readdir(dir));) {
        uint64_t pid;
        const char *end = d->d_name + strlen(d->d_name);
        if (uma_parse_u64(d->d_name, end, &pid) != end || pid > INT32_MAX || (pid_t)pid == getpid())
            continue;
        if (getpgid((pid_t)pid) == group)
            return true;
    }
    return false;
}

void uma_terminal_open(struct uma_terminal *ret_terminal) {
    struct uma_terminal terminal = { .fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY), .own_group = getpgrp() };
    if (terminal.fd >= 0) {
        terminal.shared = group_is_shared(terminal.own_group);
        terminal.eager = !terminal.shared || isatty(STDOUT_FILENO);
    }
    *ret_terminal = terminal;
}

/* Is umactl's group in the foreground? */
static bool is_ours(const struct uma_terminal *terminal) {
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == terminal->own_group;
}

bool uma_terminal_give(struct uma_terminal *terminal, pid_t group) {
    if (!is_ours(terminal))
        return terminal->given;
    if (tcsetpgrp(terminal->fd, group) == 0)
        terminal->given = true;
    return terminal->given;
}

void uma_terminal_take(struct uma_terminal *terminal, pid_t group) {
    if (!terminal->given)
        return;
    terminal->given = false;
    /* a shell that ran on meanwhile may have it: then it is not the job's to give back */
    if (tcgetpgrp(terminal->fd) == group)
        (void)tcsetpgrp(terminal->fd, terminal->own_group);
}

void uma_terminal_close(struct uma_terminal *terminal) {
    if (terminal->fd >= 0)
        (void)close(terminal->fd);
    terminal->fd = -1;
}
