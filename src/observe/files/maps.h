/* SPDX-License-Identifier: MIT */
/*
 * maps.h - what the kernel says of the files of one process: the lines of /proc/PID/maps that have a file behind them, and the descriptors' fdinfo. Paths
 * are hostile text and only a hint: " (deleted)" may be a part of a name. Parsers are bounded and linear.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/root.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One line of /proc/PID/maps with a file behind it. */
struct uma_mapping {
    uint64_t start, end, offset; /* bytes */
    uint32_t major, minor;       /* of the superblock (s_dev): on btrfs and overlayfs stat(2) may say another */
    uint64_t inode;
    bool readable, writable, executable, shared;
    bool deleted;     /* the line ends in " (deleted)", which is left out of the path; a file may also be named so */
    const char *path; /* as /proc shows it to this process (proc(5)), unescaped (\012) */
};
#define UMA_MAPPINGS_MAX 262144 /* vm.max_map_count is 65530 by default, 1048576 at most where raised; more are cut and said */
/* 262,144 lines of 73 bytes and a path; what is beyond is cut. */
#define UMA_MAPS_BYTES_MAX (64ull * 1024 * 1024)

/*
 * One line, [line, end) without its newline, as fs/proc/task_mmu.c (show_map_vma) writes it. 1: it has a file; `path` is left NULL, and its text, still
 * escaped, is *ret_path up to `end` less the suffix when `deleted`. 0: it has none (anonymous, heap, stack, vdso, anon_inode:, socket:). -EINVAL: not such
 * a line. Pure; allocates nothing.
 */
int uma_maps_line(const char *line, const char *end, struct uma_mapping *ret_mapping, const char **ret_path, size_t *ret_path_length);
#define UMA_DELETED_SUFFIX " (deleted)"

/* Copy a path of maps, or of mountinfo's kind, with \012 as the newline it stands for; `into` has room for n + 1. Returns the length. */
size_t uma_maps_unescape(const char *path, size_t n, char *into);

/*
 * Pure. Lines without a file are left out, in order else. Returns the number of lines that are not such lines (0: clean) or are beyond
 * UMA_MAPPINGS_MAX, a last one without its newline too; -ENOMEM.
 */
int uma_maps_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, size_t *ret_n,
                   struct uma_mapping **ret_mappings, struct uma_error *err);
/* /proc/PID/maps (pid 0: this process's). -ESRCH gone, -EACCES not this user's. Kernel threads and zombies have no lines. */
int uma_maps_read(struct uma_root *root, pid_t pid, struct uma_arena *arena, size_t *ret_n, struct uma_mapping **ret_mappings,
                  struct uma_error *err);

/* /proc/PID/fdinfo/N. */
struct uma_fdinfo {
    uint64_t position; /* where the next read(2) begins */
    uint32_t flags;    /* O_... of open(2) */
    int32_t mount_id;  /* -1: before 3.15 */
    uint64_t inode;    /* 0: before 5.14 */
};
/* Pure. -EINVAL: no position or no flags. */
int uma_fdinfo_parse(const char *text, size_t length, struct uma_fdinfo *ret_info);
