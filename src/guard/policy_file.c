/* SPDX-License-Identifier: MIT */
/* Which files there are, and reading them; what a line of one means is in policy_parse.c. Without an allocation: getdents64(2) and a buffer of two lines. */
#include "guard/policy_parse.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#define DROP_IN_ENDING ".conf"
#define DROP_IN_FOLDER UMA_GUARD_POLICY_NAME ".d"

enum { NAME_MOST = 128 }; /* of a drop-in; longer ones are refused */

struct drop_in {
    char name[NAME_MOST];
    bool vendor;
};

struct load {
    const char *prefix;
    struct uma_guard_policy policy; /* so far */
    struct uma_guard_notify notify;
    struct uma_guard_policy_sources *sources;
    uint32_t n_files;
    struct drop_in drop_ins[UMA_GUARD_POLICY_FILES];
    uint32_t n_drop_ins;
};

/* ---- one file ----------------------------------------------------------------------------------------------- */

/* Whoever may write the policy has the guard end what he likes. */
static int check_owner(const char *path, const struct stat *st, struct uma_error *err) {
    if (geteuid() != 0)
        return 0;
    if (st->st_uid != 0)
        return uma_error_text(err, EPERM, "%.255s: belongs to user %u, expected root: it says whom the guard ends", path,
                              (unsigned)st->st_uid);
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return uma_error_text(err, EPERM, "%.255s: others than root may write it (mode %04o), expected 0644", path,
                              (unsigned)(st->st_mode & 07777));
    return 0;
}

/* What is left in the buffer after the last newline is the beginning of a line that goes on. */
static int parse_lines(struct uma_guard_policy_parser *parser, char *buffer, size_t *have, bool at_end, struct uma_error *err) {
    size_t at = 0;
    while (at < *have) {
        const char *end = memchr(buffer + at, '\n', *have - at);
        if (!end && !at_end && *have - at <= UMA_GUARD_POLICY_LINE)
            break;
        size_t n = end ? (size_t)(end - (buffer + at)) : *have - at;
        int r = uma_guard_policy_parse_line(parser, buffer + at, n, err);
        if (r < 0)
            return r;
        at += MIN_OF(n + 1, *have - at);
    }
    memmove(buffer, buffer + at, *have - at);
    *have -= at;
    return 0;
}

static int parse_fd(int fd, struct uma_guard_policy_parser *parser, struct uma_error *err) {
    char buffer[2 * UMA_GUARD_POLICY_LINE];
    size_t have = 0, total = 0;
    for (;;) {
        ssize_t n = read(fd, buffer + have, sizeof(buffer) - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return uma_error_set(err, errno, "%.255s", parser->name);
        have += (size_t)n;
        total += (size_t)n;
        if (total > UMA_GUARD_POLICY_BYTES)
            return uma_error_text(err, EFBIG, "%.255s: more than %d bytes", parser->name, UMA_GUARD_POLICY_BYTES);
        int r = parse_lines(parser, buffer, &have, n == 0, err);
        if (r < 0 || n == 0)
            return r;
    }
}

/* 1: read; 0: there is none; -errno. A link to /dev/null is an empty file. */
static int load_file(struct load *load, const char *path, struct uma_error *err) {
    struct stat st;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) /* a link to what is gone, or not mounted, is no wish to have the defaults */
        return lstat(path, &st) < 0 ? 0 : uma_error_text(err, ENOENT, "%.255s: a link to a file that is not there", path);
    if (fd < 0 || fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%.255s", path);
    if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
        return 1;
    if (!S_ISREG(st.st_mode))
        return uma_error_text(err, EINVAL, "%.255s: not a file", path);
    int r = check_owner(path, &st, err);
    if (r < 0)
        return r;
    if (load->sources)
        (void)snprintf(load->sources->files[load->n_files], UMA_GUARD_POLICY_PATH, "%.255s", path);
    load->n_files++;
    struct uma_guard_policy_parser parser = {
        .name = path, .section = -1, .policy = &load->policy, .notify = &load->notify, .sources = load->sources
    };
    r = parse_fd(fd, &parser, err);
    return r < 0 ? r : 1;
}

/* ---- the standard places ------------------------------------------------------------------------------------ */

/* 0, or -ENAMETOOLONG. */
static int join(char *into, size_t size, const char *prefix, const char *folder, const char *name, struct uma_error *err) {
    int n = snprintf(into, size, "%s%s/%s", prefix, folder, name);
    return n > 0 && (size_t)n < size ? 0 : uma_error_text(err, ENAMETOOLONG, "%.128s%s/%.64s: the name is too long", prefix, folder, name);
}

/* Sorted by name, each once: whoever comes first (the administrator's) keeps the name. */
static int insert_drop_in(struct load *load, const char *folder, const char *name, bool vendor, struct uma_error *err) {
    uint32_t at = 0;
    if (strlen(name) >= NAME_MOST)
        return uma_error_text(err, ENAMETOOLONG, "%.128s/%.64s...: the name is longer than %d letters", folder, name, NAME_MOST - 1);
    while (at < load->n_drop_ins && strcmp(load->drop_ins[at].name, name) < 0)
        at++;
    if (at < load->n_drop_ins && strcmp(load->drop_ins[at].name, name) == 0)
        return 0;
    if (load->n_drop_ins >= UMA_GUARD_POLICY_FILES - 1) /* one is the main file */
        return uma_error_text(err, E2BIG, "%.255s: more than %d files", folder, UMA_GUARD_POLICY_FILES - 1);
    memmove(&load->drop_ins[at + 1], &load->drop_ins[at], (load->n_drop_ins - at) * sizeof(load->drop_ins[0]));
    load->drop_ins[at] = (struct drop_in){ .vendor = vendor };
    memcpy(load->drop_ins[at].name, name, strlen(name) + 1);
    load->n_drop_ins++;
    return 0;
}

struct linux_dirent64 { /* getdents64(2) */
    uint64_t d_ino;
    int64_t d_off;
    uint16_t d_reclen;
    uint8_t d_type;
    char d_name[];
};

static int list_drop_ins(struct load *load, const char *place, bool vendor, struct uma_error *err) {
    char folder[UMA_GUARD_POLICY_PATH], buffer[4096] __attribute__((aligned(8)));
    struct stat st;
    int r = join(folder, sizeof(folder), load->prefix, place, DROP_IN_FOLDER, err);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0)
        return uma_error_set(err, errno, "%.255s", folder);
    r = check_owner(folder, &st, err);
    while (r >= 0) {
        long n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
        if (n < 0)
            return uma_error_set(err, errno, "%.255s", folder);
        if (n == 0)
            break;
        for (long at = 0; at < n && r >= 0;) {
            const struct linux_dirent64 *entry = (const void *)(buffer + at);
            size_t length = strlen(entry->d_name), ending = strlen(DROP_IN_ENDING);
            at += entry->d_reclen;
            /* a hidden one is what an editor left behind */
            if (entry->d_name[0] != '.' && length > ending && strcmp(entry->d_name + length - ending, DROP_IN_ENDING) == 0)
                r = insert_drop_in(load, folder, entry->d_name, vendor, err);
        }
    }
    return r;
}

static int load_place(struct load *load, const char *place, const char *name, struct uma_error *err) {
    char path[UMA_GUARD_POLICY_PATH];
    int r = join(path, sizeof(path), load->prefix, place, name, err);
    return r < 0 ? r : load_file(load, path, err);
}

static int load_standard(struct load *load, struct uma_error *err) {
    char name[sizeof(DROP_IN_FOLDER) + 1 + NAME_MOST];
    int r = load_place(load, UMA_GUARD_POLICY_ADMIN, UMA_GUARD_POLICY_NAME, err);
    if (r == 0)
        r = load_place(load, UMA_GUARD_POLICY_VENDOR, UMA_GUARD_POLICY_NAME, err);
    if (r >= 0)
        r = list_drop_ins(load, UMA_GUARD_POLICY_ADMIN, false, err);
    if (r >= 0)
        r = list_drop_ins(load, UMA_GUARD_POLICY_VENDOR, true, err);
    for (uint32_t i = 0; i < load->n_drop_ins && r >= 0; i++) {
        (void)snprintf(name, sizeof(name), "%s/%s", DROP_IN_FOLDER, load->drop_ins[i].name);
        r = load_place(load, load->drop_ins[i].vendor ? UMA_GUARD_POLICY_VENDOR : UMA_GUARD_POLICY_ADMIN, name, err);
    }
    return r;
}

/* What no single line can be blamed for. */
static int check_whole(const struct uma_guard_policy *policy, struct uma_error *err) {
    if (policy->floor && policy->hard_floor > policy->floor)
        return uma_error_text(err, EINVAL, "the policy: HardFloor (%llu bytes) is above Floor (%llu bytes)",
                              (unsigned long long)policy->hard_floor, (unsigned long long)policy->floor);
    return 0;
}

/* Into a zeroed `load`. */
static int load_all(struct load *load, const char *file, struct uma_error *err) {
    uma_guard_policy_default(&load->policy);
    int r = file ? load_file(load, file, err) : load_standard(load, err);
    if (r == 0 && file)
        r = uma_error_set(err, ENOENT, "%.255s", file);
    return r < 0 ? r : check_whole(&load->policy, err);
}

int uma_guard_policy_load_sources(const char *prefix, const char *file, struct uma_guard_policy *ret_policy,
                                  struct uma_guard_policy_sources *ret_sources, struct uma_error *err) {
    struct load load = { .prefix = prefix, .sources = ret_sources };
    if (ret_sources)
        memset(ret_sources, 0, sizeof(*ret_sources));
    int r = load_all(&load, file, err);
    if (r < 0)
        return r;
    if (ret_sources) {
        ret_sources->n_files = load.n_files;
        ret_sources->notify = load.notify;
    }
    *ret_policy = load.policy;
    return 0;
}

int uma_guard_policy_load(const char *prefix, const char *file, struct uma_guard_policy *ret_policy, struct uma_error *err) {
    return uma_guard_policy_load_sources(prefix, file, ret_policy, NULL, err);
}

int uma_guard_notify_load(const char *prefix, const char *file, struct uma_guard_notify *ret_notify, struct uma_error *err) {
    struct load load = { .prefix = prefix };
    int r = load_all(&load, file, err);
    if (r >= 0)
        *ret_notify = load.notify;
    return r < 0 ? r : 0;
}
