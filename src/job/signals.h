/* SPDX-License-Identifier: MIT */
/*
 * signals.h - umactl stands between a job and whoever signals it. Everything that can be forwarded is taken through a signalfd; what umactl has to set
 * differently for itself is given back to the job as umactl found it, so that nohup, a shell's '&' and a harness' masks reach the job unchanged.
 */
#pragma once

#include "base/error.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum { UMA_SIGNALS_KEPT = 4 };

struct uma_signals {
    int fd; /* signalfd, non-blocking */
    sigset_t inherited_mask;
    struct sigaction inherited[UMA_SIGNALS_KEPT]; /* of those umactl changes */
};

/* Block what is forwarded and open the signalfd. Call before any thread or child. */
int uma_signals_take(struct uma_signals *ret_signals, struct uma_error *err);
/* One more that is taken through it. Before any thread or child, too; the job has it as umactl inherited it. */
int uma_signals_add(struct uma_signals *signals, int signo, struct uma_error *err);
/* In the child, before exec: mask and dispositions as umactl inherited them. Async-signal-safe. */
void uma_signals_restore(const struct uma_signals *signals);
/* True for signals that go on to the job: all that umactl takes but SIGCHLD. */
bool uma_signal_forwarded(int signo);
/* Stop umactl itself as the terminal's stop would: false when the kernel discards that (an orphaned process group has nobody to continue it). */
bool uma_signals_stop_self(void);
/* "SIGKILL", or "signal 42". */
const char *uma_signal_name(int signo, char buffer[32]);
