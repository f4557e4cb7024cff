/* SPDX-License-Identifier: MIT */
/* guard_machine.h - processes as files below a folder's proc/, as the guard reads them. */
#pragma once

#include "guard/processes.h"

#include "folder.h"

#include <inttypes.h>

/* In memory where there is some: thousands of small files. */
static inline int guard_folder_new(struct folder *f) {
    (void)snprintf(f->path, sizeof(f->path), "/dev/shm/umactl-test-XXXXXX");
    return mkdtemp(f->path) ? 0 : folder_new(f);
}

struct made_process {
    int pid, parent;
    const char *name;           /* NULL: "job" */
    uint64_t start;             /* 0: 1000 + pid */
    uint64_t anon, shmem, swap; /* MiB */
    char state;                 /* 0: S */
    int session, terminal;      /* session 0: its own */
    uint32_t flags, uid;
    const char *cgroup, *cmdline; /* NULL: none */
    uint64_t faults;
    bool no_status;
};

#define MIB_BYTES (UINT64_C(1) << 20)

static inline void put_process(const struct folder *f, const struct made_process *p) {
    char path[64], text[512];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), resident = (p->anon + p->shmem) * MIB_BYTES / page;
    int n = snprintf(text, sizeof(text),
                     "%d (%s) %c %d %d %d %d -1 %" PRIu32 " %" PRIu64 " 0 0 0 0 0 0 0 20 0 1 0 %" PRIu64 " 99999 %" PRIu64
                     " 18446744073709551615 0\n",
                     p->pid, p->name ? p->name : "job", p->state ? p->state : 'S', p->parent, p->pid, p->session ? p->session : p->pid,
                     p->terminal, p->flags, p->faults, p->start ? p->start : 1000 + (uint64_t)p->pid, resident);
    (void)snprintf(path, sizeof(path), "proc/%d/stat", p->pid);
    folder_put_n(f, path, text, (size_t)n);
    if (!p->no_status) {
        (void)snprintf(text, sizeof(text),
                       "Name:\tx\nUid:\t%" PRIu32 "\t%" PRIu32 "\t0\t0\nGroups:\t\nVmRSS:\t1 kB\nRssAnon:\t%8" PRIu64
                       " kB\nRssFile:\t0 kB\nRssShmem:\t%8" PRIu64 " kB\nVmSwap:\t%8" PRIu64 " kB\n",
                       p->uid, p->uid, p->anon * 1024, p->shmem * 1024, p->swap * 1024);
        (void)snprintf(path, sizeof(path), "proc/%d/status", p->pid);
        folder_put(f, path, text);
    }
    if (p->cgroup) {
        (void)snprintf(path, sizeof(path), "proc/%d/cgroup", p->pid);
        folder_put(f, path, p->cgroup);
    }
    if (p->cmdline) { /* words with spaces between them */
        size_t length = strlen(p->cmdline);
        memcpy(text, p->cmdline, length + 1);
        for (size_t i = 0; i < length; i++)
            text[i] = text[i] == ' ' ? '\0' : text[i];
        (void)snprintf(path, sizeof(path), "proc/%d/cmdline", p->pid);
        folder_put_n(f, path, text, length + 1);
    }
}

static inline void drop_process(const struct folder *f, int pid) {
    char path[64];
    (void)snprintf(path, sizeof(path), "proc/%d", pid);
    folder_drop(f, path);
}

/* By pid alone; NULL. */
static inline const struct uma_guard_process *process_of(const struct uma_guard_processes *table, int pid) {
    for (size_t i = 0; i < table->n; i++)
        if (table->list[i].pid == pid)
            return &table->list[i];
    return NULL;
}

static inline int root_of(const struct uma_guard_processes *table, int pid) {
    const struct uma_guard_process *p = process_of(table, pid);
    return p ? table->list[p->tree].pid : -1;
}
