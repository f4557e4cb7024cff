/* SPDX-License-Identifier: MIT */
#include "guard/link.h"

#include "base/units.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A datagram socket can be connected again and again; to a helper that ended it says so once, with the next message. */
static int join(struct uma_guard_link *link, int64_t now) {
    if (link->fd < 0)
        return -ENOTCONN;
    if (link->connected)
        return 0;
    if (link->tried && now - link->tried < UMA_GUARD_LINK_PAUSE_NS)
        return -ENOTCONN;
    link->tried = now;
    if (connect(link->fd, (const struct sockaddr *)&link->address, sizeof(link->address)) < 0)
        return errno == ENOENT || errno == ECONNREFUSED ? -ENOTCONN : -errno;
    link->connected = true;
    return 0;
}

int uma_guard_link_open(struct uma_guard_link *link, const char *path, int64_t now) {
    size_t length = strlen(path);
    *link = (struct uma_guard_link){ .fd = -1, .address = { .sun_family = AF_UNIX } };
    if (length >= sizeof(link->address.sun_path))
        return -ENAMETOOLONG;
    memcpy(link->address.sun_path, path, length + 1);
    link->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (link->fd < 0)
        return -errno;
    (void)join(link, now);
    return 0;
}

bool uma_guard_link_there(struct uma_guard_link *link) {
    link->connected = link->fd >= 0 && connect(link->fd, (const struct sockaddr *)&link->address, sizeof(link->address)) == 0;
    return link->connected;
}

void uma_guard_link_close(struct uma_guard_link *link) {
    if (link->fd >= 0)
        (void)close(link->fd);
    link->fd = -1;
    link->connected = false;
}

static int deliver(struct uma_guard_link *link, const struct uma_guard_message *message) {
    ssize_t n = send(link->fd, message, sizeof(*message), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n == (ssize_t)sizeof(*message))
        return 0;
    return n < 0 ? -errno : -EMSGSIZE;
}

int uma_guard_link_send(struct uma_guard_link *link, struct uma_guard_message *message, int64_t now) {
    message->magic = UMA_GUARD_MESSAGE_MAGIC;
    if (message->time == 0)
        message->time = uma_now_ns();
    int r = join(link, now);
    if (r == 0)
        r = deliver(link, message);
    if (r == -ECONNREFUSED || r == -ECONNRESET || r == -EPIPE || (r == -ENOTCONN && link->connected)) { /* that helper is gone */
        link->connected = false;
        r = join(link, now);
        if (r == 0)
            r = deliver(link, message);
    }
    if (r == 0)
        link->sent++;
    else
        link->lost++;
    return r;
}
