/* SPDX-License-Identifier: MIT */
/* answer.h - what the guard answers who asks it over the control socket (control.h), and tells the service manager. */
#pragma once

#include "guard/loop.h"

/* Takes all questions that wait, and answers them. */
void uma_guard_answer_all(struct uma_guard_loop *loop);
/* One line of what it sees, for the service manager and the log. */
void uma_guard_status_line(const struct uma_guard_loop *loop, struct uma_guard_line *line);
