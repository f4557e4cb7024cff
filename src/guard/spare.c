/* SPDX-License-Identifier: MIT */
#include "guard/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Opened, not duplicated: a duplicate takes a number of this process, and no place in the machine's table (ENFILE). */
void uma_guard_spare_fill(struct uma_guard_spare *spare) {
    while (spare->n < UMA_GUARD_SPARES) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return;
        spare->fds[spare->n++] = fd;
    }
}

bool uma_guard_spare_give(struct uma_guard_spare *spare, int code) {
    if ((code != -EMFILE && code != -ENFILE) || spare->n == 0)
        return false;
    while (spare->n > 0)
        (void)close(spare->fds[--spare->n]);
    return true;
}
