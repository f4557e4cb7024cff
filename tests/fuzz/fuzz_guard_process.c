/* SPDX-License-Identifier: MIT */
/* The files of one process as the guard reads them: the first byte says which. */
#include "guard/processes_text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void stat_text(const char *text, size_t n) {
    struct uma_guard_stat s, was;
    memset(&s, 0xee, sizeof(s));
    was = s;
    if (!uma_guard_stat_parse(text, n, &s)) {
        if (memcmp(&s, &was, sizeof(s)) != 0)
            abort();
    } else if (s.pid < 0 || s.parent < 0 || s.session < 0 || memchr(s.name, '\0', sizeof(s.name)) == NULL) {
        abort();
    }
}

static void status_text(const char *text, size_t n, bool whole) {
    struct uma_guard_status s;
    if (uma_guard_status_parse(text, n, whole, &s) &&
        ((!s.known_uid && !s.known_memory) || (!s.known_memory && (s.anon | s.shmem | s.swap))))
        abort();
}

static void cgroup_text(const char *text, size_t n) {
    const char *path;
    size_t length, lines = 0;
    for (const char *at = text; uma_guard_cgroup_next(&at, text + n, &path, &length); lines++)
        if (length == 0 || path[0] != '/' || path < text || path + length > text + n || lines > n)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    switch (data[0]) {
    case 's':
        stat_text(text, size - 1);
        break;
    case 'm':
        status_text(text, size - 1, true);
        status_text(text, size - 1, false);
        break;
    case 'g':
        cgroup_text(text, size - 1);
        break;
    case 'c':
        (void)uma_guard_shell_sits(text, size - 1);
        break;
    default:
        break;
    }
    return 0;
}
