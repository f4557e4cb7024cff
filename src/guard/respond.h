/* SPDX-License-Identifier: MIT */
/* respond.h - from a decision to what is done and written down: the decision into the trail, the state into its file, the actions, a receipt of each, words to the helper and the log. */
#pragma once

#include "guard/loop.h"

/* Does all actions of loop->decision. `looked`: when the reading was taken that it stands on. */
void uma_guard_respond(struct uma_guard_loop *loop, int64_t looked);
/* Lets one tree go on that was stopped, or all (0), because somebody asked for it; they are not stopped again for ten minutes. How many processes. */
uint32_t uma_guard_let_go(struct uma_guard_loop *loop, int32_t pid, bool excuse);
/* After a new policy: lets go whom it says not to stop. */
void uma_guard_let_go_spared(struct uma_guard_loop *loop);
/* Stops again whoever was missed in trees that were stopped within the last second; lets go whom nobody holds stopped any more, and who could not be told. */
void uma_guard_check_stopped(struct uma_guard_loop *loop, int64_t now);
