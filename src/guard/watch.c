/* SPDX-License-Identifier: MIT */
#include "guard/watch.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

/* Stalls of a tenth of a short window; who has no CAP_SYS_RESOURCE may ask for windows of whole multiples of 2 s alone (kernel/sched/psi.c, since 6.5), where a tenth comes late, but sees a slow slide.
 * They only wake: on these machines pressure stays at 0 until next to nothing is left (shared facts, 7), so a level and its rate decide. */
static const char short_some[] = "some 50000 500000", short_full[] = "full 25000 500000";
static const char long_some[] = "some 200000 2000000", long_full[] = "full 100000 2000000";

static int add(const struct uma_guard_watch *watch, int fd, uint32_t events, uint32_t what) {
    struct epoll_event event = { .events = events, .data.u32 = what };
    return epoll_ctl(watch->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int open_trigger(const char *words) {
    _cleanup_close_ int fd = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || write(fd, words, strlen(words) + 1) < 0)
        return -1;
    return TAKE_FD(fd);
}

static void open_triggers(struct uma_guard_watch *watch) {
    const char *words[2][2] = { { short_some, long_some }, { short_full, long_full } };
    for (unsigned i = 0; i < 2; i++)
        for (unsigned k = 0; k < 2 && watch->pressure[i] < 0; k++)
            if ((watch->pressure[i] = open_trigger(words[i][k])) >= 0)
                watch->pressure_note = k == 0 ? "windows of 0.5 s" : "windows of 2 s";
    for (unsigned i = 0; i < 2; i++)
        if (watch->pressure[i] >= 0)
            (void)add(watch, watch->pressure[i], EPOLLPRI, UMA_GUARD_WOKE_PRESSURE);
}

int uma_guard_watch_open(struct uma_guard_watch *watch, const char *prefix) {
    sigset_t signals;
    *watch = (struct uma_guard_watch){
        .epoll = -1, .timer = -1, .signals = -1, .control = -1, .victim = -1, .pressure = { -1, -1 }, .pressure_note = "none"
    };
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGHUP);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGUSR1);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) != 0)
        return -errno;
    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    watch->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (watch->epoll < 0 || watch->timer < 0 || watch->signals < 0)
        return -errno;
    int r = add(watch, watch->timer, EPOLLIN, UMA_GUARD_WOKE_TIMER);
    if (r == 0)
        r = add(watch, watch->signals, EPOLLIN, UMA_GUARD_WOKE_SIGNAL);
    if (prefix[0] == '\0')
        open_triggers(watch);
    return r;
}

void uma_guard_watch_close(struct uma_guard_watch *watch) {
    int *fds[] = {
        &watch->victim, &watch->control, &watch->signals, &watch->timer, &watch->pressure[0], &watch->pressure[1], &watch->epoll
    };
    for (size_t i = 0; i < ELEMENTS(fds); i++) {
        uma_cleanup_close(fds[i]);
        *fds[i] = -1;
    }
}

int uma_guard_watch_control(struct uma_guard_watch *watch, int fd) {
    watch->control = fd;
    return add(watch, fd, EPOLLIN, UMA_GUARD_WOKE_CONTROL);
}

void uma_guard_watch_victim(struct uma_guard_watch *watch, int32_t pid) {
    uma_cleanup_close(&watch->victim); /* leaves the set by being closed: it is nowhere else */
    watch->victim = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0u) : -1;
    if (watch->victim >= 0) /* once: it stays readable */
        (void)add(watch, watch->victim, EPOLLIN | EPOLLONESHOT, UMA_GUARD_WOKE_VICTIM);
}

void uma_guard_watch_arm(struct uma_guard_watch *watch, int64_t at) {
    at = MAX_OF(at, 1); /* 0 would disarm it */
    const struct itimerspec when = { .it_value = { .tv_sec = at / UMA_SECOND_NS, .tv_nsec = at % UMA_SECOND_NS } };
    (void)timerfd_settime(watch->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

uint32_t uma_guard_watch_wait(struct uma_guard_watch *watch) {
    struct epoll_event events[8];
    uint32_t woke = 0;
    uint64_t times;
    int n = epoll_wait(watch->epoll, events, ELEMENTS(events), -1);
    for (int i = 0; i < n; i++)
        woke |= events[i].data.u32;
    if (woke & UMA_GUARD_WOKE_TIMER)
        (void)!read(watch->timer, &times, sizeof(times));
    return woke;
}

int uma_guard_watch_signal(struct uma_guard_watch *watch) {
    struct signalfd_siginfo info;
    return read(watch->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}
