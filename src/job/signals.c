/* SPDX-License-Identifier: MIT */
#include "job/signals.h"

#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

/* PIPE: umactl's own stderr may be gone. TTOU: handing the terminal over from the background. XFSZ: a log at the file size limit is an error
 * to tell, not the end. CHLD: an inherited SIG_IGN would lose the job's status (wait(2)). */
static const int kept[UMA_SIGNALS_KEPT] = { SIGPIPE, SIGTTOU, SIGXFSZ, SIGCHLD };

static const int forwarded[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP, SIGALRM };

bool uma_signal_forwarded(int signo) {
    for (size_t i = 0; i < ELEMENTS(forwarded); i++)
        if (forwarded[i] == signo)
            return true;
    return false;
}

static void taken(sigset_t *ret_mask) {
    (void)sigemptyset(ret_mask);
    for (size_t i = 0; i < ELEMENTS(forwarded); i++)
        (void)sigaddset(ret_mask, forwarded[i]);
    (void)sigaddset(ret_mask, SIGCHLD);
}

int uma_signals_take(struct uma_signals *ret_signals, struct uma_error *err) {
    struct uma_signals signals = { .fd = -1 };
    sigset_t mask;
    taken(&mask);
    for (size_t i = 0; i < UMA_SIGNALS_KEPT; i++) {
        struct sigaction action = { .sa_handler = kept[i] == SIGCHLD ? SIG_DFL : SIG_IGN };
        if (sigaction(kept[i], &action, &signals.inherited[i]) < 0)
            return uma_error_set(err, errno, "setting up signals");
    }
    if (sigprocmask(SIG_BLOCK, &mask, &signals.inherited_mask) < 0)
        return uma_error_set(err, errno, "blocking signals");
    signals.fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals.fd < 0)
        return uma_error_set(err, errno, "signalfd");
    *ret_signals = signals;
    return 0;
}

int uma_signals_add(struct uma_signals *signals, int signo, struct uma_error *err) {
    sigset_t mask;
    taken(&mask);
    (void)sigaddset(&mask, signo);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0 || signalfd(signals->fd, &mask, 0) < 0)
        return uma_error_set(err, errno, "taking signal %d", signo);
    return 0;
}

void uma_signals_restore(const struct uma_signals *signals) {
    for (size_t i = 0; i < UMA_SIGNALS_KEPT; i++)
        (void)sigaction(kept[i], &signals->inherited[i], NULL);
    (void)sigprocmask(SIG_SETMASK, &signals->inherited_mask, NULL);
}

bool uma_signals_stop_self(void) {
    struct sigaction by_default = { .sa_handler = SIG_DFL }, before;
    sigset_t stop, old;
    (void)sigaction(SIGTSTP, &by_default, &before);
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTSTP);
    (void)raise(SIGTSTP);
    (void)sigprocmask(SIG_UNBLOCK, &stop, &old); /* stops here, until SIGCONT */
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    (void)sigaction(SIGTSTP, &before, NULL);
    /* Whoever went on after a real stop has a SIGCONT waiting, which is blocked and comes through the signalfd. */
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}

const char *uma_signal_name(int signo, char buffer[32]) {
    const char *name = sigabbrev_np(signo);
    if (name)
        (void)snprintf(buffer, 32, "SIG%s", name);
    else
        (void)snprintf(buffer, 32, "signal %d", signo);
    return buffer;
}
