/* SPDX-License-Identifier: MIT */
#include "guard/last_resort.h"

#include "base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>

int uma_guard_last_resort_allow(struct uma_guard_last_resort *resort, bool wanted) {
    if (!wanted) {
        uma_cleanup_close(&resort->fd);
        resort->fd = -1;
        return 0;
    }
    if (resort->fd < 0)
        resort->fd = open("/proc/sysrq-trigger", O_WRONLY | O_CLOEXEC);
    return resort->fd < 0 ? -errno : 0;
}

static int trigger(const struct uma_guard_last_resort *resort, char key) {
    return pwrite(resort->fd, &key, 1, 0) == 1 ? 0 : -errno;
}

int uma_guard_last_resort_use(struct uma_guard_last_resort *resort, const char **ret_what) {
    /* s and u only begin their work; a second is what a disk that still answers needs for the most of it, and one that does not is not waited for */
    const struct timespec pause = { .tv_sec = 1 };
    *ret_what = resort->used == 0 ? "the kernel's OOM killer" : "sync, read-only, restart";
    if (resort->fd < 0)
        return -EPERM;
    if (resort->used++ == 0)
        return trigger(resort, 'f');
    (void)trigger(resort, 's');
    (void)nanosleep(&pause, NULL);
    (void)trigger(resort, 'u');
    (void)nanosleep(&pause, NULL);
    return trigger(resort, 'b');
}
