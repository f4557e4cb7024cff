/* SPDX-License-Identifier: MIT */
/*
 * cgroup.h - limits, usage and events of the cgroups that hold processes; each is read once however many processes it holds.
 * v1 and v2, hybrid hosts, cgroup namespaces. Kernel documents: admin-guide/cgroup-v1/memory.rst, admin-guide/cgroup-v2.rst.
 * Cgroups of small processes get their usage and limits only (the rest stays UMA_UNKNOWN): a desktop or server runs a hundred services,
 * and a full reading of each would cost more than all processes together.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

struct uma_cgroup_reader;
struct uma_cgroup_reader *uma_cgroup_reader_new(struct uma_root *root);
struct uma_cgroup_reader *uma_cgroup_reader_free(struct uma_cgroup_reader *reader);

/* Begin a reading into `snapshot` (its arena gets the strings). */
void uma_cgroups_begin(struct uma_cgroup_reader *reader, struct uma_snapshot *snapshot);
/* A process is in this cgroup (as in /proc/PID/cgroup). The index its entry will have in snapshot->cgroups, or -1 (too many, no memory). */
int32_t uma_cgroups_add(struct uma_cgroup_reader *reader, int version, const char *path, size_t length);
/* It has `bytes` of memory, and `candidate`: it may hold the pool, so that its cgroup is worth a full reading. */
void uma_cgroups_weigh(struct uma_cgroup_reader *reader, int32_t index, uint64_t bytes, bool candidate);
/* Read them all; fills snapshot->cgroups and snapshot->containers. false: some were left out (no memory, beyond UMA_CGROUPS_MAX). */
bool uma_cgroups_finish(struct uma_cgroup_reader *reader);
/* After finish: index into snapshot->containers of the processes of this cgroup, or -1. */
int32_t uma_cgroups_container(const struct uma_cgroup_reader *reader, int32_t index);

/* ---- where the hierarchies are mounted ------------------------------------------------------------------- */

struct uma_cgroup_mount {
    char *base;  /* relative to the root, "sys/fs/cgroup"; NULL: not mounted */
    char *inner; /* which cgroup the mount shows as its root: "/", or a container's own */
};
struct uma_cgroup_mounts {
    struct uma_cgroup_mount memory_v1, unified;
};
/* From the text of /proc/PID/mountinfo, or of /proc/mounts when `short_form`. Replaces what `mounts` held. 0, -ENOENT none, -ENOMEM. */
int uma_cgroup_mounts_parse(const char *text, size_t length, bool short_form, struct uma_cgroup_mounts *mounts);
void uma_cgroup_mounts_done(struct uma_cgroup_mounts *mounts);
/* Find them on the machine under `root`, with the usual places as the fallback. */
void uma_cgroup_mounts_find(struct uma_root *root, struct uma_text *scratch, struct uma_cgroup_mounts *mounts);
/*
 * The folder of cgroup `path` below the mount: the part after `base`, "" or "/a/b"; NULL when the mount does not show it: it is outside
 * of this container or cgroup namespace ("/../x").
 */
const char *uma_cgroup_path_below(const struct uma_cgroup_mount *mount, const char *path);

/* ---- files ----------------------------------------------------------------------------------------------- */

/* "123\n" or "max\n"; v1's 2^62 and beyond is its way to say no limit. */
struct uma_u64 uma_cgroup_number_parse(const char *text, size_t length);
/* "key value" lines (memory.stat, memory.events, memory.oom_control): the value of `key`, or UMA_ABSENT. */
struct uma_u64 uma_cgroup_keyed_parse(const char *text, size_t length, const char *key);
/* dmem.current (`limits` false) or dmem.max: "region value" lines, merged by region. */
int uma_cgroup_dmem_parse(const char *text, size_t length, bool limits, struct uma_arena *arena, struct uma_cgroup *cgroup);
