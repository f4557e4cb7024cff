/* SPDX-License-Identifier: MIT */
/*
 * process.h - every process, the cgroups that hold them, the containers those belong to. A process may end at any moment while it is
 * read: that is counted, not an error. Everything a process can set about itself (name, command line, environment) is hostile text.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

struct uma_process_reader;
struct uma_process_reader *uma_process_reader_new(struct uma_root *root);
struct uma_process_reader *uma_process_reader_free(struct uma_process_reader *reader);
/* Fills processes, cgroups and containers of the snapshot. What is read of which process and cgroup, and why: process.c, cgroup.h. */
void uma_processes_read(struct uma_process_reader *reader, struct uma_snapshot *snapshot);

/* By binary search, as readings and documents have their processes by pid. NULL: it is not there. Pure. */
const struct uma_process *uma_processes_find(const struct uma_processes *processes, int32_t pid);

/* /proc/PID/stat: the name is what stands between the first '(' and the LAST ')'. */
int uma_process_stat_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_process *process,
                           struct uma_error *err);
/* /proc/PID/status: Uid, Vm..., Rss..., Threads, HugetlbPages. Sizes whose line is missing become UMA_ABSENT. */
int uma_process_status_parse(const char *text, size_t length, const char *file, struct uma_process *process, struct uma_error *err);
/* /proc/PID/cmdline, at most UMA_CMDLINE_MAX bytes of it; `cut` when there was more. Secrets become *** (secrets.h); empty arguments at the end,
 * which are what a title leaves, are dropped. */
int uma_process_cmdline_parse(const char *text, size_t length, bool cut, struct uma_arena *arena, struct uma_process *process);
/* /proc/PID/environ: keeps only the variables of the list in process_environ.c (caps and rendezvous; never tokens or keys). */
int uma_process_environ_parse(const char *text, size_t length, struct uma_arena *arena, struct uma_process *process);
/* /proc/PID/cgroup: the path under the memory controller (v1) or the unified hierarchy (v2, "0::"). Hybrid hosts have both: v1's memory wins. */
int uma_process_cgroup_parse(const char *text, size_t length, const char *file, int *ret_version, const char **ret_path,
                             size_t *ret_path_length, struct uma_error *err);
/* What container a cgroup path belongs to: Docker, Podman, containerd, CRI-O, LXC, nspawn, Kubernetes. 0 and *ret filled, or -ENOENT. Names need the runtime's files
 * and are filled by the reader. */
int uma_container_identify(const char *cgroup_path, struct uma_arena *arena, struct uma_container *ret_container);
/* systemd unit of a cgroup path, or NULL. */
const char *uma_cgroup_unit(const char *cgroup_path, struct uma_arena *arena);
