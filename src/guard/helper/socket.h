/* SPDX-License-Identifier: MIT */
/*
 * socket.h - the helper's end of the socket in the run folder. One helper at a time: a lock beside the socket says so, and goes with the process. Only root and this user may send: the socket's mode says so
 * to the kernel, and the sender's credentials, which the kernel adds, to whoever receives.
 */
#pragma once

#include "base/error.h"
#include "guard/message.h"

#include <sys/un.h>

struct uma_helper_socket {
    int fd, lock; /* -1: none */
    struct sockaddr_un address;
    uint64_t device, inode; /* of its name */
    uint64_t refused;       /* datagrams that were no messages, or of others */
};

/* -EBUSY: there is another helper; -EPERM: others may write the folder; other -errno. */
int uma_helper_socket_open(struct uma_helper_socket *ret_socket, const char *folder, struct uma_error *err);
/* The name goes, too. */
void uma_helper_socket_close(struct uma_helper_socket *socket);
/* Does its name still lead to it? Who takes the run folder away (a service manager that stops the guard's unit) leaves a helper that nobody can reach. */
bool uma_helper_socket_reachable(const struct uma_helper_socket *socket);
/* 1: a message; 0: none now; what is none of ours is counted and passed over. */
int uma_helper_socket_receive(struct uma_helper_socket *socket, struct uma_guard_message *ret_message);
