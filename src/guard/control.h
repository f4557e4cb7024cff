/* SPDX-License-Identifier: MIT */
/*
 * control.h - the socket that `umactl guard` asks: RUN_FOLDER/control, one datagram with words, one with the answer in lines of key=value. Only root and the guard's own user are heard, as the kernel says who sent; whoever wants an answer binds its
 * own socket to a path in the same folder. Nothing is waited for.
 *
 *   status          what it sees and what it has under way
 *   release         let every tree go on that it stopped, and keep from stopping them for a while
 *   release PID     the same of one tree
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

enum uma_guard_ask { UMA_GUARD_ASK_NOTHING, UMA_GUARD_ASK_STATUS, UMA_GUARD_ASK_RELEASE };

struct uma_guard_question {
    enum uma_guard_ask ask;
    int32_t pid; /* RELEASE: 0 means all */
    struct sockaddr_un from;
    socklen_t from_length;
};

enum { UMA_GUARD_ANSWER_MAX = 2048 };

/* The descriptor; -errno. What is left of a guard before is replaced. */
int uma_guard_control_open(const char *path);
/* 1: a question; 0: none (or one that is not heard: another's, or garbage, which is answered "error=..." where it may ask); negative: -errno. */
int uma_guard_control_read(int fd, struct uma_guard_question *ret_question);
void uma_guard_control_answer(int fd, const struct uma_guard_question *question, const char *text, size_t length);

/* Words to a question. Pure. */
bool uma_guard_question_parse(const char *text, size_t n, enum uma_guard_ask *ret_ask, int32_t *ret_pid);
