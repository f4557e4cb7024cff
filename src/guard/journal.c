/* SPDX-License-Identifier: MIT */
#include "guard/journal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct datagram {
    char *at, *end;
    bool full;
};

static void put(struct datagram *d, const char *data, size_t n) {
    if ((size_t)(d->end - d->at) < n) {
        d->full = true;
        return;
    }
    memcpy(d->at, data, n);
    d->at += n;
}

/* A value with a newline in it would end there and begin a field of its own: it goes with its length before it. */
static void put_field(struct datagram *d, const char *name, const char *value) {
    size_t n = strlen(value);
    put(d, name, strlen(name));
    if (!strchr(value, '\n')) {
        put(d, "=", 1);
    } else {
        char length[8];
        for (size_t i = 0; i < sizeof(length); i++)
            length[i] = (char)((uint64_t)n >> (8 * i));
        put(d, "\n", 1);
        put(d, length, sizeof(length));
    }
    put(d, value, n);
    put(d, "\n", 1);
}

static void put_number(struct datagram *d, const char *name, int64_t value) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    put_field(d, name, text);
}
static void put_size(struct datagram *d, const char *name, uint64_t value) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    put_field(d, name, text);
}
/* Whole units: printing a fraction may allocate. What is not a number, or none of 64 bits, is left out. */
static void put_rounded(struct datagram *d, const char *name, double value) {
    if (isfinite(value) && fabs(value) < 9e18)
        put_number(d, name, (int64_t)value);
}

static void put_whom(struct datagram *d, const struct uma_guard_candidate *whom) {
    char name[UMA_GUARD_NAME_MAX + 1] = "";
    memcpy(name, whom->name, UMA_GUARD_NAME_MAX);
    put_field(d, "UMA_GUARD_NAME", name);
    put_size(d, "UMA_GUARD_ANON", whom->anon);
    put_size(d, "UMA_GUARD_SWAP", whom->swap);
    if (whom->gpu_known)
        put_size(d, "UMA_GUARD_GPU", whom->gpu);
    put_number(d, "UMA_GUARD_GROWTH", whom->growth);
}

size_t uma_guard_journal_format(char *buffer, size_t size, const struct uma_guard_journal_entry *entry) {
    struct datagram d = { .at = buffer, .end = buffer + size };
    put_field(&d, "MESSAGE", entry->message);
    put_number(&d, "PRIORITY", entry->priority < 0 || entry->priority > 7 ? 4 : entry->priority);
    put_field(&d, "SYSLOG_IDENTIFIER", "uma-guard");
    put_field(&d, "UMA_GUARD_ACTION", uma_guard_action_word(entry->action->kind));
    put_field(&d, "UMA_GUARD_REASON", uma_guard_reason_word(entry->action->reason));
    put_number(&d, "UMA_GUARD_DRY_RUN", entry->dry_run);
    put_number(&d, "UMA_GUARD_RESULT", entry->result);
    if (entry->action->pid) {
        put_number(&d, "UMA_GUARD_PID", entry->action->pid);
        put_number(&d, "UMA_GUARD_PROCESSES", entry->n_processes);
        put_number(&d, "UMA_GUARD_TOOK_USEC", entry->took_ns / 1000);
    }
    put_size(&d, "UMA_GUARD_BYTES", entry->action->bytes);
    if (entry->whom)
        put_whom(&d, entry->whom);
    put_size(&d, "UMA_GUARD_HEADROOM", entry->evidence->headroom);
    put_size(&d, "UMA_GUARD_FLOOR", entry->evidence->floor);
    put_rounded(&d, "UMA_GUARD_RATE", entry->evidence->rate);
    put_rounded(&d, "UMA_GUARD_TIME_TO_FLOOR_USEC", entry->evidence->time_to_floor * 1e6);
    return d.full ? 0 : (size_t)(d.at - buffer);
}

int uma_guard_journal_open(void) {
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd < 0 ? -errno : fd;
}

int uma_guard_journal_send(int fd, const char *path, const struct uma_guard_journal_entry *entry) {
    char buffer[UMA_GUARD_JOURNAL_MOST];
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t length = uma_guard_journal_format(buffer, sizeof(buffer), entry), n = strlen(path);
    if (length == 0)
        return -EMSGSIZE;
    if (n >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, n);
    return sendto(fd, buffer, length, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}
