/* SPDX-License-Identifier: MIT */
/* One datagram to the guard, one back. Whoever wants an answer has a socket of its own in the same folder (guard/control.h). */
#include "cmd/guard.h"

#include "base/units.h"
#include "guard/sender.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The guard looks at its socket whenever it wakes, at the latest after a second; three of them, and something is wrong. */
enum { ANSWER_MS = 3000 };

static int address_of(const char *folder, const char *name, struct sockaddr_un *ret_address, struct uma_error *err) {
    *ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int n = snprintf(ret_address->sun_path, sizeof(ret_address->sun_path), "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof(ret_address->sun_path)
               ? 0
               : uma_error_text(err, ENAMETOOLONG, "%.128s: the name is too long for a socket", folder);
}

static int explain(int code, const char *folder, struct uma_error *err) {
    switch (code) {
    case ENOENT:
    case ECONNREFUSED:
        return uma_error_text(err, code, "no guard runs here (nobody listens at %s/" UMA_GUARD_CONTROL_NAME ")", folder);
    case EACCES:
    case EPERM:
        return uma_error_text(err, code, "%s/" UMA_GUARD_CONTROL_NAME ": the guard speaks only to root and to the user that it runs as",
                              folder);
    case EAGAIN:
    case ETIMEDOUT:
        return uma_error_text(err, ETIMEDOUT, "%s/" UMA_GUARD_CONTROL_NAME ": the guard does not answer", folder);
    default:
        return uma_error_set(err, code, "%s/" UMA_GUARD_CONTROL_NAME, folder);
    }
}

static int receive(int fd, uid_t user, struct uma_guard_told *ret_told) {
    int64_t until = uma_monotonic_ns() + ANSWER_MS * INT64_C(1000000);
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    for (;;) {
        int64_t left = until - uma_monotonic_ns();
        struct pollfd wait = { .fd = fd, .events = POLLIN };
        if (left <= 0)
            return -ETIMEDOUT;
        if (poll(&wait, 1, (int)(left / 1000000) + 1) <= 0)
            continue;
        struct iovec part = { ret_told->text, UMA_GUARD_ANSWER_MAX };
        struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        if (n < 0 || !uma_guard_sent_by(&message, user)) /* the socket is there for anybody who can reach the folder */
            continue;
        ret_told->text[n] = '\0';
        return 0;
    }
}

int uma_guard_ask_it(const char *run_folder, const char *question, struct uma_guard_told *ret_told, struct uma_error *err) {
    const int yes = 1;
    struct sockaddr_un guard, own;
    struct stat st;
    char name[32];
    (void)snprintf(name, sizeof(name), "ask-%ld", (long)getpid());
    int r = address_of(run_folder, UMA_GUARD_CONTROL_NAME, &guard, err);
    if (r >= 0)
        r = address_of(run_folder, name, &own, err);
    if (r < 0)
        return r;
    if (stat(guard.sun_path, &st) < 0)
        return explain(errno, run_folder, err);
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof(yes)) < 0)
        return uma_error_set(err, errno, "a socket to ask the guard with");
    (void)unlink(own.sun_path);
    mode_t before = umask(0); /* the guard may be another user */
    r = bind(fd, (const struct sockaddr *)&own, sizeof(own)) < 0 ? -errno : 0;
    (void)umask(before);
    if (r < 0)
        return explain(-r, run_folder, err);
    if (connect(fd, (const struct sockaddr *)&guard, sizeof(guard)) < 0 || send(fd, question, strlen(question), MSG_NOSIGNAL) < 0)
        r = -errno;
    else
        r = receive(fd, st.st_uid, ret_told);
    (void)unlink(own.sun_path);
    return r < 0 ? explain(-r, run_folder, err) : 0;
}

bool uma_guard_told_value(const struct uma_guard_told *told, const char *key, unsigned i, char *into, size_t size) {
    size_t n = strlen(key);
    for (const char *line = told->text; *line;) {
        size_t length = strcspn(line, "\n");
        if (length > n && line[n] == '=' && memcmp(line, key, n) == 0 && i-- == 0) {
            size_t value = MIN_OF(length - n - 1, size - 1);
            memcpy(into, line + n + 1, value);
            into[value] = '\0';
            return true;
        }
        line += length + (line[length] == '\n');
    }
    return false;
}
