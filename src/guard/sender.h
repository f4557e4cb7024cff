/* SPDX-License-Identifier: MIT */
/* sender.h - who sent a datagram, as the kernel says (SO_PASSCRED, unix(7)): a socket's mode alone says nothing once somebody has changed it. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

/* Was it root, or this user? False also where the kernel's word does not come with it. */
bool uma_guard_sent_by(struct msghdr *message, uid_t user);
