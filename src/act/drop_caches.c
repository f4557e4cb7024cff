/* SPDX-License-Identifier: MIT */
#include "act/drop_caches.h"

#include "base/write.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Both files are 0200 or 0644 of root, and writing asks for no capability: in a container they are on a read-only mount. */
static int write_switch(const char *prefix, const char *name, const char *text, struct uma_error *err) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s/proc/sys/vm/%s", prefix, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return uma_error_set(err, ENAMETOOLONG, "%s/proc/sys/vm/%s", prefix, name);
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && (errno == EACCES || errno == EPERM))
        return uma_error_set(err, errno, "%s: only root may write it, as it acts on the whole machine", path);
    if (fd < 0 && errno == EROFS)
        return uma_error_set(err, errno, "%s: it can be written only outside of this container", path);
    if (fd < 0)
        return uma_error_set(err, errno, "%s", path);
    int r = uma_write_all(fd, text, strlen(text));
    return r < 0 ? uma_error_set(err, -r, "%s", path) : 0;
}

int uma_drop_caches(const char *prefix, enum uma_drop what, struct uma_error *err) {
    if (((unsigned)what & ~(unsigned)(UMA_DROP_PAGE_CACHE | UMA_DROP_SLAB)) != 0 || what == 0)
        return uma_error_text(err, EINVAL, "drop_caches: %u is neither page cache nor slab", (unsigned)what);
    char text[] = { (char)('0' + what), '\n', '\0' };
    return write_switch(prefix, "drop_caches", text, err);
}

int uma_compact_memory(const char *prefix, struct uma_error *err) {
    return write_switch(prefix, "compact_memory", "1\n", err);
}

void uma_write_out_all(void) {
    sync();
}
