/* SPDX-License-Identifier: MIT */
/* folder.h - a machine as a folder under the temporary directory, made file by file for one test and removed after it. */
#pragma once

#include "base/cleanup.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct folder {
    char path[128];
};

static inline int folder_new(struct folder *f) {
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(f->path, sizeof(f->path), "%s/umactl-test-XXXXXX", tmp && strlen(tmp) < 64 ? tmp : "/tmp");
    return mkdtemp(f->path) ? 0 : -1;
}

static inline int folder_drop_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* The folder below f, or f itself for "". */
static inline void folder_drop(const struct folder *f, const char *path) {
    char whole[512];
    (void)snprintf(whole, sizeof(whole), "%s/%s", f->path, path);
    (void)nftw(whole, folder_drop_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void folder_done(struct folder *f) {
    if (f->path[0])
        folder_drop(f, "");
}
#define _cleanup_folder_ _cleanup_(folder_done)

/* Write a file, making the folders above it. */
static inline void folder_put_n(const struct folder *f, const char *path, const char *data, size_t n) {
    char whole[512];
    (void)snprintf(whole, sizeof(whole), "%s/%s", f->path, path);
    for (char *slash = whole + strlen(f->path) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(whole, 0700);
        *slash = '/';
    }
    (void)remove(whole);
    FILE *file = fopen(whole, "w");
    if (!file || fwrite(data, 1, n, file) != n || fclose(file) != 0) {
        (void)fprintf(stderr, "%s: cannot write\n", whole);
        abort();
    }
}

static inline void folder_put(const struct folder *f, const char *path, const char *text) {
    folder_put_n(f, path, text, strlen(text));
}

/* The whole content as malloc'ed text, or NULL when there is no such file. At most 1 MiB of it. */
static inline char *folder_get(const struct folder *f, const char *path, size_t *ret_length) {
    char whole[512];
    (void)snprintf(whole, sizeof(whole), "%s/%s", f->path, path);
    _cleanup_fclose_ FILE *file = fopen(whole, "re");
    enum { MAX = 1024 * 1024 };
    char *text = file ? malloc(MAX + 1) : NULL;
    if (!text)
        return NULL;
    size_t n = fread(text, 1, MAX, file);
    text[n] = '\0';
    if (ret_length)
        *ret_length = n;
    return text;
}

/* A number and a newline, as sysfs prints. The path comes from a format. */
UMA_PRINTF(3, 4) static inline void folder_number(const struct folder *f, long long number, const char *format, ...) {
    char path[256], text[32];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(path, sizeof(path), format, ap);
    va_end(ap);
    (void)snprintf(text, sizeof(text), "%lld\n", number);
    folder_put(f, path, text);
}

UMA_PRINTF(3, 4) static inline void folder_text(const struct folder *f, const char *text, const char *format, ...) {
    char path[256];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(path, sizeof(path), format, ap);
    va_end(ap);
    folder_put(f, path, text);
}
