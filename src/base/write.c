/* SPDX-License-Identifier: MIT */
#include "base/write.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

int uma_write_all(int fd, const char *data, size_t length) {
    while (length > 0) {
        ssize_t n = write(fd, data, length);
        if (n > 0) {
            data += n;
            length -= (size_t)n;
        } else if (n == 0) {
            return -ENOSPC; /* write(2) gives 0 for a regular file only when nothing more fits */
        } else if (errno == EAGAIN) {
            struct pollfd p = { .fd = fd, .events = POLLOUT };
            (void)poll(&p, 1, -1);
        } else if (errno != EINTR)
            return -errno;
    }
    return 0;
}
