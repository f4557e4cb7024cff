/* SPDX-License-Identifier: MIT */
/* What a user may leave where jobs ask to be warned: a file's name, a file's bytes; and what the kernel says of a process, whose name is anybody's. */
#include "guard/notify_policy.h"
#include "guard/warn_marker.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A name that is accepted is the one that umactl would write. */
static void name(const char *text) {
    int32_t pid;
    uint64_t start;
    char again[64];
    if (!uma_guard_warn_name_parse(text, &pid, &start))
        return;
    (void)snprintf(again, sizeof(again), UMA_GUARD_WARN_NAME "%" PRId32 "-%" PRIu64, pid, start);
    if (pid <= 0 || strcmp(again, text) != 0)
        abort();
}

/* What goes into another program's file has nothing that ends a word there. */
static void notify(const char *text) {
    if ((uma_guard_notify_command_fine(text) || uma_guard_notify_webhook_fine(text)) && strpbrk(text, "\"\\\n\r '"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_guard_warn_mark mark;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    name(text);
    notify(text);
    if (size == sizeof(mark)) {
        memcpy(&mark, data, sizeof(mark));
        if (uma_guard_warn_mark_fine(data, size, mark.pid, mark.start) && (mark.signal < 34 || mark.signal > 64))
            abort();
    }
    for (int signo = 0; signo <= 65; signo++)
        if (uma_guard_signal_awaited(text, size, signo) && (signo < 1 || signo > 64))
            abort();
    free(text);
    return 0;
}
