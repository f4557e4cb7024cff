/* SPDX-License-Identifier: MIT */
/* umactl's end of the socket that helpers inside a job connect to: src/window/protocol.h. A helper that is slow, wrong or gone is done without. */
#include "base/units.h"
#include "cache/follow_parts.h"
#include "window/protocol.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    HELPERS_MAX = 1024, /* one of each process of the job */
    BACKLOG = 128,      /* processes that start between two looks */
    ANSWER_MS = 1000,   /* a helper waits for the job's memory lock at most; one that takes longer is stopped, in a debugger or wrong */
};

struct helper {
    int fd;
    pid_t pid;
    bool greeted;
};

struct uma_follow_helpers {
    int listening;
    char path[sizeof((struct sockaddr_un *)0)->sun_path];
    size_t n;
    struct helper list[HELPERS_MAX];
};

int uma_follow_helpers_listen(const char *folder, struct uma_follow_helpers **ret_helpers, struct uma_error *err) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int n = snprintf(address.sun_path, sizeof address.sun_path, "%s/helpers", folder);
    if (n < 0 || (size_t)n >= sizeof address.sun_path)
        return uma_error_text(err, ENAMETOOLONG, "%.200s: too long for the path of a socket", folder);
    struct uma_follow_helpers *helpers = calloc(1, sizeof *helpers);
    if (!helpers)
        return uma_error_set(err, ENOMEM, "listening for helpers");
    helpers->listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (helpers->listening < 0 || bind(helpers->listening, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(helpers->listening, BACKLOG) < 0) {
        int code = errno;
        if (helpers->listening >= 0)
            (void)close(helpers->listening);
        free(helpers);
        return uma_error_set(err, code, "%s", address.sun_path);
    }
    (void)memcpy(helpers->path, address.sun_path, sizeof helpers->path);
    *ret_helpers = helpers;
    return 0;
}

const char *uma_follow_helpers_path(const struct uma_follow_helpers *helpers) {
    return helpers->path;
}

struct uma_follow_helpers *uma_follow_helpers_close(struct uma_follow_helpers *helpers) {
    if (!helpers)
        return NULL;
    for (size_t i = 0; i < helpers->n; i++)
        (void)close(helpers->list[i].fd);
    (void)close(helpers->listening);
    (void)unlink(helpers->path);
    free(helpers);
    return NULL;
}

static void drop(struct uma_follow_helpers *helpers, size_t i) {
    (void)close(helpers->list[i].fd);
    helpers->list[i] = helpers->list[--helpers->n];
}

/* The first message of each; those that are gone. A helper says nothing unasked: what comes else is a wrong one, or an answer that came too late. */
static void greet(struct uma_follow_helpers *helpers) {
    for (size_t i = helpers->n; i-- > 0;) {
        struct helper *helper = &helpers->list[i];
        struct uma_window_hello hello;
        ssize_t n = recv(helper->fd, &hello, sizeof hello, MSG_DONTWAIT);
        if (!helper->greeted && n == (ssize_t)sizeof hello && hello.version == UMA_WINDOW_VERSION)
            helper->greeted = true;
        else if (n >= 0 || (errno != EAGAIN && errno != EINTR))
            drop(helpers, i);
    }
}

static bool accept_one(struct uma_follow_helpers *helpers) {
    int fd = accept4(helpers->listening, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return false;
    struct ucred peer = { 0 };
    socklen_t length = sizeof peer;
    /* Only this user's: whoever else found the way in is not believed. A pid of 0 is of a namespace that is not seen from here. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0 || peer.uid != geteuid() || peer.pid <= 0)
        (void)close(fd);
    else
        helpers->list[helpers->n++] = (struct helper){ .fd = fd, .pid = peer.pid };
    return true;
}

void uma_follow_helpers_accept(struct uma_follow_helpers *helpers) {
    greet(helpers); /* room first: a job may start more processes than there are places, one after the other */
    bool more = true;
    while (more && helpers->n < HELPERS_MAX) {
        while (helpers->n < HELPERS_MAX && (more = accept_one(helpers))) {
        }
        greet(helpers);
        if (helpers->n == HELPERS_MAX)
            return; /* all of them live: the others wait */
    }
}

static size_t find(const struct uma_follow_helpers *helpers, pid_t pid) {
    for (size_t i = helpers->n; i-- > 0;) /* the last: after exec(2) a process connects anew */
        if (helpers->list[i].pid == pid && helpers->list[i].greeted)
            return i;
    return SIZE_MAX;
}

bool uma_follow_helpers_has(const struct uma_follow_helpers *helpers, pid_t pid) {
    return find(helpers, pid) != SIZE_MAX;
}

/* One message and its answer. Bytes, or -errno when the helper is not to be talked to any more. */
static ssize_t ask(int fd, const struct uma_window_request *request) {
    if (send(fd, request, sizeof *request, MSG_NOSIGNAL) != (ssize_t)sizeof *request)
        return -EPIPE;
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    int64_t until = uma_monotonic_ns() + ANSWER_MS * INT64_C(1000000);
    int r;
    do
        r = poll(&poll_fd, 1, (int)MAX_OF((until - uma_monotonic_ns()) / 1000000, INT64_C(0)));
    while (r < 0 && errno == EINTR);
    struct uma_window_answer answer;
    if (r <= 0 || recv(fd, &answer, sizeof answer, MSG_DONTWAIT) != (ssize_t)sizeof answer || answer.version != UMA_WINDOW_VERSION ||
        answer.n != request->n)
        return -EPROTO;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < request->n; i++)
        sum += MIN_OF(answer.ranges[i].released, request->ranges[i].length);
    return (ssize_t)sum;
}

ssize_t uma_follow_helpers_page_out(struct uma_follow_helpers *helpers, pid_t pid, const struct uma_address_range *ranges, size_t n) {
    ssize_t sum = 0;
    while (n) {
        size_t i = find(helpers, pid);
        if (i == SIZE_MAX)
            return -ENOTCONN;
        struct uma_window_request request = { .version = UMA_WINDOW_VERSION, .n = (uint32_t)MIN_OF(n, (size_t)UMA_WINDOW_RANGES_MAX) };
        for (uint32_t j = 0; j < request.n; j++)
            request.ranges[j] = (struct uma_window_range){ ranges[j].start, ranges[j].end - ranges[j].start };
        ssize_t r = ask(helpers->list[i].fd, &request);
        if (r < 0) {
            drop(helpers, i);
            return -ENOTCONN;
        }
        sum += r;
        ranges += request.n;
        n -= request.n;
    }
    return sum;
}
