/* SPDX-License-Identifier: MIT */
#include "guard/helper/warn.h"

#include "base/cleanup.h"
#include "guard/processes_text.h"
#include "guard/warn_marker.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MARKS_MAX =
        65536, /* names that are looked at, some microseconds each: one user must not hide the marks of others behind thousands of false ones */
    DEPTH_MAX = 256, /* parents above a process */
};

/* /proc/PID: who it belongs to. */
static bool owner_of(int32_t pid, uint32_t *ret_uid) {
    char path[32];
    struct stat st;
    (void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &st) < 0)
        return false;
    *ret_uid = st.st_uid;
    return true;
}

static bool is_above(int32_t ancestor, int32_t pid) {
    struct uma_guard_stat stat;
    for (int depth = 0; pid > 0 && depth < DEPTH_MAX; depth++) {
        if (pid == ancestor)
            return true;
        pid = uma_guard_stat_of(pid, &stat) ? stat.parent : 0;
    }
    return false;
}

static void warn_one(int folder, const char *name, int32_t root, struct uma_helper_warned *warned) {
    struct uma_guard_warn_mark mark;
    int32_t pid;
    uint64_t start;
    uint32_t uid;
    if (!uma_guard_warn_name_parse(name, &pid, &start) || !owner_of(pid, &uid) || !uma_guard_warn_marked(folder, pid, start, uid, &mark))
        return;
    if (!is_above(pid, root) && !is_above(root, pid))
        return;
    int r = uma_guard_signal_if_awaited(pid, start, (int)mark.signal);
    if (r == 0)
        warned->told++;
    else if (r != -ESRCH)
        warned->failed++;
}

int uma_helper_warn(const char *folder, int32_t pid, uint64_t start, struct uma_helper_warned *ret_warned, struct uma_error *err) {
    struct uma_helper_warned warned = { 0 };
    if (pid <= 0 || start == 0 || uma_guard_start_of(pid) != start)
        return uma_error_text(err, ESRCH, "process %d is gone", (int)pid);
    _cleanup_closedir_ DIR *dir = opendir(folder);
    if (!dir)
        return uma_error_set(err, errno, "%.255s", folder);
    int n = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        if (strncmp(d->d_name, UMA_GUARD_WARN_NAME, strlen(UMA_GUARD_WARN_NAME)) != 0)
            continue;
        if (++n > MARKS_MAX)
            break;
        warn_one(dirfd(dir), d->d_name, pid, &warned);
    }
    *ret_warned = warned;
    return 0;
}
