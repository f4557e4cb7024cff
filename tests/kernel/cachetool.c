/* SPDX-License-Identifier: MIT */
/*
 * cachetool residency FILE [OFFSET LENGTH]
 * cachetool evict FILE [write|leave-dirty] [stop-after=N]
 * cachetool again FILE SECONDS          both, over and over, opening the file anew each time
 *
 * What the program's own functions say about one file, as a line of JSON: for tests that know the truth from elsewhere. CACHETOOL_KIND=local: takes the file
 * system for a local one, whatever the mount table says.
 */
#include "act/evict_file.h"
#include "base/units.h"
#include "observe/files/mounts.h"
#include "observe/files/open_file.h"
#include "observe/files/residency.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t stops_left = INT64_MAX;

static bool stop(void *userdata) {
    (void)userdata;
    return stops_left-- <= 0;
}

static const char *number(char *into, size_t size, struct uma_u64 v) {
    static const char *const words[UMA_VALIDITY_MAX] = { "unknown",     "",          "stale", "absent", "unlimited", "denied",
                                                         "unsupported", "malformed", "failed" };
    if (v.validity == UMA_KNOWN)
        (void)snprintf(into, size, "%llu", (unsigned long long)v.value);
    else
        (void)snprintf(into, size, "\"%s\"", words[v.validity]);
    return into;
}

static void print_residency(const struct uma_residency *r) {
    static const char *const means[] = { "none", "cachestat", "mincore" };
    char a[32], b[32], c[32];
    (void)printf("{\"resident\": %s, \"dirty\": %s, \"writeback\": %s, \"means\": \"%s\"}", number(a, sizeof(a), r->resident),
                 number(b, sizeof(b), r->dirty), number(c, sizeof(c), r->writeback), means[r->means]);
}

static void print_receipt(int r, const struct uma_evict_receipt *receipt) {
    char a[32], b[32], c[32];
    (void)printf("{\"result\": %d, \"evicted\": %s, \"kept\": %s, \"written\": %s, \"synced\": %s, \"stopped\": %s, \"before\": ", r,
                 number(a, sizeof(a), receipt->evicted), number(b, sizeof(b), receipt->kept), number(c, sizeof(c), receipt->written),
                 receipt->synced ? "true" : "false", receipt->stopped ? "true" : "false");
    print_residency(&receipt->before);
    (void)printf(", \"after\": ");
    print_residency(&receipt->after);
    (void)puts("}");
}

/* A device, too: uma_open_file_at() is for files alone. */
static int open_any(const char *name, struct stat *st) {
    int fd = uma_open_file_at(AT_FDCWD, name, true, st);
    if (fd == -ENXIO && stat(name, st) == 0 && S_ISBLK(st->st_mode))
        fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd;
}

static enum uma_filesystem_kind kind_of(int fd) {
    _cleanup_root_ struct uma_root *root = NULL;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(64 * UMA_MIB);
    struct uma_mounts mounts;
    struct stat st;
    char link[32], path[PATH_MAX];
    const char *forced = getenv("CACHETOOL_KIND");
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n <= 0 || (forced && strcmp(forced, "local") == 0) || !arena || uma_root_open(NULL, NULL, &root, NULL) < 0 ||
        uma_mounts_read(root, 0, arena, &mounts, NULL) < 0)
        return UMA_FILESYSTEM_LOCAL;
    path[n] = '\0';
    /* "/memfd:x (deleted)" names no place */
    const struct uma_mount *mount = stat(path, &st) == 0 ? uma_mounts_of_path(&mounts, path) : NULL;
    return mount ? mount->kind : UMA_FILESYSTEM_LOCAL;
}

static int again(const char *name, double seconds) {
    int64_t end = uma_monotonic_ns() + (int64_t)(seconds * (double)UMA_SECOND_NS);
    uint64_t rounds = 0, vanished = 0, failures = 0;
    struct uma_evict_options options = { .stop = stop };
    for (; uma_monotonic_ns() < end; rounds++) {
        struct stat st;
        _cleanup_close_ int fd = open_any(name, &st);
        if (fd < 0) {
            vanished += fd == -ENOENT;
            failures += fd != -ENOENT;
            continue;
        }
        struct uma_residency r;
        struct uma_evict_receipt receipt;
        options.dirty = (enum uma_evict_dirty)(rounds % 3);
        uma_residency_read(fd, &st, rounds & 1 ? UMA_FILESYSTEM_OVERLAY : UMA_FILESYSTEM_LOCAL, 0, 0, &r);
        failures += r.resident.validity != UMA_KNOWN;
        failures += uma_evict_file(fd, &st, UMA_FILESYSTEM_LOCAL, &options, &receipt, NULL) < 0;
    }
    (void)printf("{\"rounds\": %llu, \"vanished\": %llu, \"failures\": %llu}\n", (unsigned long long)rounds, (unsigned long long)vanished,
                 (unsigned long long)failures);
    return 0;
}

static int usage(void) {
    (void)fputs("usage: cachetool residency FILE [OFFSET LENGTH] | evict FILE [write|leave-dirty] [stop-after=N] | again FILE SECONDS\n",
                stderr);
    return 2;
}

int main(int argc, char **argv) {
    struct stat st;
    double seconds;
    if (argc < 3)
        return usage();
    if (strcmp(argv[1], "again") == 0)
        return argc == 4 && uma_parse_f64_all(argv[3], &seconds) == 0 ? again(argv[2], seconds) : usage();
    _cleanup_close_ int fd = open_any(argv[2], &st);
    if (fd < 0) {
        (void)printf("{\"result\": %d}\n", fd);
        return 0;
    }
    if (strcmp(argv[1], "residency") == 0) {
        uint64_t offset = 0, length = 0;
        if (argc > 4 && (uma_parse_u64_all(argv[3], &offset) < 0 || uma_parse_u64_all(argv[4], &length) < 0))
            return usage();
        struct uma_residency r;
        uma_residency_read(fd, &st, kind_of(fd), offset, length, &r);
        print_residency(&r);
        (void)puts("");
        return 0;
    }
    struct uma_evict_options options = { .stop = stop };
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "write") == 0)
            options.dirty = UMA_EVICT_WRITE;
        else if (strcmp(argv[i], "leave-dirty") == 0)
            options.dirty = UMA_EVICT_LEAVE_DIRTY;
        else if (strncmp(argv[i], "stop-after=", 11) != 0 || uma_parse_i64_all(argv[i] + 11, &stops_left) < 0)
            return usage();
    }
    struct uma_evict_receipt receipt;
    struct uma_error err = { 0 };
    int r = uma_evict_file(fd, &st, kind_of(fd), &options, &receipt, &err);
    if (r < 0)
        (void)fprintf(stderr, "%s\n", err.text);
    print_receipt(r, &receipt);
    return 0;
}
