/* SPDX-License-Identifier: MIT */
/*
 * uma-guard-helper: the process beside uma-guard that does what takes a fork, a driver, a file or a network. One loop: what the guard says, signals, and the one child that tells people; asking the driver
 * and making room have threads of their own, because both may take long.
 */
#include "base/cleanup.h"
#include "base/standard_files.h"
#include "base/units.h"
#include "guard/helper/feed.h"
#include "guard/helper/notify.h"
#include "guard/helper/options.h"
#include "guard/helper/room.h"
#include "guard/helper/say.h"
#include "guard/helper/socket.h"
#include "guard/helper/warn.h"
#include "guard/policy_file.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

struct helper {
    struct uma_helper_options options;
    struct uma_helper_socket socket;
    struct uma_helper_feed *feed;
    struct uma_helper_room *room;
    struct uma_helper_notify notify;
    int signals;
    uint64_t refused_told;
    int64_t refused_at;
    int64_t looked;
    bool ended, unreachable;
};

/* How often the helper looks whether it can be reached: systemd starts it again within a second. */
#define LOOK_NS (5 * UMA_SECOND_NS)
#define REFUSED_TELL_NS (60 * UMA_SECOND_NS) /* a line a minute is enough to find who sends nonsense */

/* ---- what the guard says ---------------------------------------------------------------------------------------- */

static void on_room(struct helper *h, const struct uma_guard_message *m) {
    int order = m->action.order >= 0 ? m->action.order : m->order;
    if (m->dry_run)
        uma_helper_say(UMA_HELPER_NOTICE, "room: would make %llu MiB", (unsigned long long)(m->action.bytes / UMA_MIB));
    else
        uma_helper_room_ask(h->room, m->action.bytes, order);
}

static void on_warn(struct helper *h, const struct uma_guard_message *m) {
    struct uma_helper_warned warned = { 0 };
    struct uma_error err = { 0 };
    if (m->dry_run)
        return;
    if (uma_helper_warn(h->options.warn_folder, m->action.pid, m->action.start, &warned, &err) < 0)
        uma_helper_say(UMA_HELPER_WARNING, "nobody warned: %s", err.text);
    else
        uma_helper_say(UMA_HELPER_NOTICE, "warned %u jobs of the tree of process %d%s", warned.told, (int)m->action.pid,
                       warned.failed ? "; some could not be" : "");
}

static void on_message(struct helper *h, const struct uma_guard_message *m) {
    int64_t now = uma_monotonic_ns();
    uma_helper_feed_near(h->feed, now + UMA_GUARD_NEAR_NS); /* whatever it says, it is near its floor when it says something */
    if (m->action.kind == UMA_GUARD_ROOM)
        on_room(h, m);
    else if (m->action.kind == UMA_GUARD_WARN)
        on_warn(h, m);
    uma_helper_notify_add(&h->notify, m, now);
}

static void on_socket(struct helper *h) {
    struct uma_guard_message m;
    for (int i = 0; i < 64 && uma_helper_socket_receive(&h->socket, &m) > 0; i++)
        on_message(h, &m);
    int64_t now = uma_monotonic_ns();
    if (h->socket.refused == h->refused_told || (h->refused_at && now - h->refused_at < REFUSED_TELL_NS))
        return;
    uma_helper_say(UMA_HELPER_WARNING, "%llu datagrams were no messages of the guard's",
                   (unsigned long long)(h->socket.refused - h->refused_told));
    h->refused_told = h->socket.refused;
    h->refused_at = now;
}

/* ---- signals ---------------------------------------------------------------------------------------------------- */

static int load(const struct helper *h, struct uma_guard_notify *ret_notify) {
    struct uma_error err = { 0 };
    int r = uma_guard_notify_load("", h->options.policy, ret_notify, &err);
    if (r < 0)
        uma_helper_say(UMA_HELPER_ERROR, "%s", err.text);
    return r;
}

static void on_signals(struct helper *h) {
    struct signalfd_siginfo info;
    struct uma_guard_notify policy;
    while (read(h->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGHUP) {
            h->ended = true;
        } else if (load(h, &policy) < 0) {
            uma_helper_say(UMA_HELPER_WARNING, "whom to tell stays as it was");
        } else {
            uma_helper_notify_change(&h->notify, &policy);
            uma_helper_say(UMA_HELPER_INFO, "the policy was read again");
        }
    }
}

static int take_signals(void) {
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGHUP);
    (void)signal(SIGPIPE, SIG_IGN);
    return sigprocmask(SIG_BLOCK, &mask, NULL) < 0 ? -1 : signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static int milliseconds(int64_t until, int64_t now) {
    int64_t ms = (until - now + 999999) / 1000000;
    return (int)MAX_OF(MIN_OF(ms, INT64_C(60000)), INT64_C(0));
}

static void look(struct helper *h, int64_t now) {
    if (now - h->looked < LOOK_NS)
        return;
    h->looked = now;
    if (!uma_helper_socket_reachable(&h->socket)) {
        uma_helper_say(UMA_HELPER_WARNING, "%.107s is gone: the guard cannot reach this helper, which ends", h->socket.address.sun_path);
        h->ended = h->unreachable = true;
    }
}

static void loop(struct helper *h) {
    while (!h->ended) {
        int64_t now = uma_monotonic_ns(), until = uma_helper_notify_turn(&h->notify, now);
        struct pollfd fds[] = { { .fd = h->socket.fd, .events = POLLIN },
                                { .fd = h->signals, .events = POLLIN },
                                { .fd = h->notify.telling ? h->notify.child.pidfd : -1, .events = POLLIN } };
        int n = poll(fds, ELEMENTS(fds), milliseconds(MIN_OF(until, h->looked + LOOK_NS), now));
        if (n > 0 && fds[1].revents)
            on_signals(h);
        if (n > 0 && fds[0].revents && !h->ended)
            on_socket(h);
        look(h, uma_monotonic_ns());
    }
}

static int begin(struct helper *h, struct uma_error *err) {
    char path[PATH_MAX];
    struct uma_guard_notify policy = { 0 };
    h->signals = take_signals();
    if (h->signals < 0)
        return uma_error_set(err, errno, "setting up signals");
    int r = uma_helper_socket_open(&h->socket, h->options.run_folder, err);
    if (r < 0)
        return r;
    if (load(h, &policy) < 0)
        uma_helper_say(UMA_HELPER_WARNING, "nobody is told of actions until the policy is mended and read again (SIGHUP)");
    h->looked = uma_monotonic_ns();
    uma_helper_notify_begin(&h->notify, &policy, h->looked);
    if (snprintf(path, sizeof(path), "%s/" UMA_GUARD_GPU_NAME, h->options.run_folder) >= (int)sizeof(path))
        return uma_error_set(err, ENAMETOOLONG, "%.64s", h->options.run_folder);
    r = uma_helper_feed_start(path, &h->feed, err);
    return r < 0 ? r : uma_helper_room_start(&h->room, err);
}

static void finish(struct helper *h) {
    uma_helper_socket_close(&h->socket);
    uma_helper_notify_end(&h->notify);
    h->room = uma_helper_room_stop(h->room);
    h->feed = uma_helper_feed_stop(h->feed);
    if (h->signals >= 0)
        (void)close(h->signals);
}

int main(int argc, char **argv) {
    static struct helper h = { .socket = { .fd = -1, .lock = -1 }, .notify.child.pidfd = -1, .signals = -1 };
    struct uma_error err = { 0 };
    uma_standard_files_guard();
    int status = uma_helper_options_read(argc, argv, &h.options);
    if (status != UMA_HELPER_GO_ON)
        return status;
    int r = begin(&h, &err);
    if (r < 0)
        uma_helper_say(UMA_HELPER_ERROR, "%s", err.text);
    else
        loop(&h);
    finish(&h);
    return r < 0 || h.unreachable ? 1 : 0;
}
