/* SPDX-License-Identifier: MIT */
/*
 * journal.h - one structured entry of the journal for each action, in its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one datagram, never waited for. Without a journal nothing happens: the trail has the same. No allocation.
 *
 *   journalctl UMA_GUARD_ACTION=brake -o verbose
 */
#pragma once

#include "guard/decide.h"

#define UMA_GUARD_JOURNAL_SOCKET "/run/systemd/journal/socket"
enum { UMA_GUARD_JOURNAL_MOST = 2048 }; /* bytes of an entry: a thousand of fields, and a message */

struct uma_guard_journal_entry {
    const char *message; /* for people; hostile names in it are escaped by whoever made it */
    int priority;        /* of syslog(3) */
    const struct uma_guard_action *action;
    const struct uma_guard_candidate *whom; /* NULL: nobody */
    const struct uma_guard_evidence *evidence;
    int32_t result; /* 0 or -errno */
    uint32_t n_processes;
    int64_t took_ns;
    bool dry_run;
};

/* The datagram, into `buffer`. Its length; 0: it has no room. Names go as they are, in the form that takes any byte. Pure. */
size_t uma_guard_journal_format(char *buffer, size_t size, const struct uma_guard_journal_entry *entry);

/* A socket for it; -errno. */
int uma_guard_journal_open(void);
/* To the socket of that path. 0; -errno: the entry is lost (-EAGAIN: the journal is behind, -ENOENT or -ECONNREFUSED: there is none). A journal that began anew is found again. */
int uma_guard_journal_send(int fd, const char *path, const struct uma_guard_journal_entry *entry);
