/* SPDX-License-Identifier: MIT */
#include "guard/helper/socket.h"

#include "base/cleanup.h"
#include "guard/sender.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LOCK_NAME UMA_GUARD_SOCKET_NAME ".lock"

enum { LOCK_WAIT_MS = 500 };
enum { TURN_MAX = 256 /* datagrams in one go: whoever floods the socket must not keep the rest from its turn */ };

/* Where others could put a name in place of ours, the guard would speak to them. */
static int check_folder(const char *folder, struct uma_error *err) {
    struct stat st;
    if (stat(folder, &st) < 0)
        return uma_error_set(err, errno, "%.255s", folder);
    if (!S_ISDIR(st.st_mode))
        return uma_error_set(err, ENOTDIR, "%.255s", folder);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return uma_error_text(err, EPERM, "%.255s: belongs to user %u, expected root or this user", folder, (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return uma_error_text(err, EPERM, "%.255s: others may write it (mode %04o), expected 0755", folder, (unsigned)(st.st_mode & 07777));
    return 0;
}

static int take_lock(const char *folder, struct uma_error *err) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/" LOCK_NAME, folder) >= (int)sizeof(path))
        return uma_error_set(err, ENAMETOOLONG, "%.255s", folder);
    _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return uma_error_set(err, errno, "%.255s", path);
    int r = flock(fd, LOCK_EX | LOCK_NB);
    /* one that was killed while it started a program leaves the lock to that for the moment until it is executed */
    for (int waited = 0; r < 0 && errno == EWOULDBLOCK && waited < LOCK_WAIT_MS; waited += 20) {
        (void)poll(NULL, 0, 20);
        r = flock(fd, LOCK_EX | LOCK_NB);
    }
    if (r < 0)
        return errno == EWOULDBLOCK ? uma_error_text(err, EBUSY, "%.255s: another helper is there", folder)
                                    : uma_error_set(err, errno, "%.255s", path);
    return TAKE_FD(fd);
}

static int bind_to(int fd, const struct sockaddr_un *address, struct uma_error *err) {
    (void)unlink(address->sun_path); /* of one that was killed: the lock says that it is gone */
    mode_t before = umask(0177);     /* connecting takes the right to write (unix(7)); no thread is there yet */
    int r = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
    (void)umask(before);
    return r < 0 ? uma_error_set(err, -r, "%.107s", address->sun_path) : 0;
}

int uma_helper_socket_open(struct uma_helper_socket *ret_socket, const char *folder, struct uma_error *err) {
    struct uma_helper_socket s = { .fd = -1, .lock = -1, .address.sun_family = AF_UNIX };
    int on = 1;
    *ret_socket = s;
    if (snprintf(s.address.sun_path, sizeof(s.address.sun_path), "%s/" UMA_GUARD_SOCKET_NAME, folder) >= (int)sizeof(s.address.sun_path))
        return uma_error_set(err, ENAMETOOLONG, "%.128s", folder);
    int r = check_folder(folder, err);
    if (r < 0)
        return r;
    _cleanup_close_ int lock = take_lock(folder, err);
    if (lock < 0)
        return lock;
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        return uma_error_set(err, errno, "a socket");
    r = bind_to(fd, &s.address, err);
    if (r < 0)
        return r;
    struct stat st;
    if (stat(s.address.sun_path, &st) < 0)
        return uma_error_set(err, errno, "%.107s", s.address.sun_path);
    s.device = st.st_dev;
    s.inode = st.st_ino;
    s.fd = TAKE_FD(fd);
    s.lock = TAKE_FD(lock);
    *ret_socket = s;
    return 0;
}

bool uma_helper_socket_reachable(const struct uma_helper_socket *s) {
    struct stat st;
    return lstat(s->address.sun_path, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode;
}

void uma_helper_socket_close(struct uma_helper_socket *s) {
    if (s->fd >= 0) {
        if (uma_helper_socket_reachable(s)) /* else it is another's */
            (void)unlink(s->address.sun_path);
        (void)close(TAKE_FD(s->fd));
    }
    if (s->lock >= 0)
        (void)close(TAKE_FD(s->lock)); /* its file stays: removing it would let two have a lock */
}

int uma_helper_socket_receive(struct uma_helper_socket *s, struct uma_guard_message *ret_message) {
    for (int i = 0; i < TURN_MAX; i++) {
        union { /* no room for descriptors: the kernel closes what is passed */
            char bytes[CMSG_SPACE(sizeof(struct ucred))];
            struct cmsghdr align;
        } control;
        char data[sizeof(*ret_message) + 1];
        struct iovec part = { .iov_base = data, .iov_len = sizeof(data) };
        struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(s->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0)
            return 0;
        if (!(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && uma_guard_sent_by(&header, geteuid()) &&
            uma_guard_message_fine(data, (size_t)n)) {
            memcpy(ret_message, data, sizeof(*ret_message));
            return 1;
        }
        s->refused++;
    }
    return 0;
}
