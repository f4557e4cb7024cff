/* SPDX-License-Identifier: MIT */
/* Model files made for a test: a temporary folder, texts, safetensors whose data is a hole in the file. Include behind test.h. */
#pragma once

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new folder below $TMPDIR; removed by files_remove. */
static inline char *files_folder(void) {
    const char *base = getenv("TMPDIR");
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/uma-model-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(path));
    return strdup(path);
}

static inline int files_remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void files_remove(char *folder) {
    (void)nftw(folder, files_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

/* "FOLDER/NAME" in a buffer that the next four calls leave alone. */
static inline const char *files_path(const char *folder, const char *name) {
    static char paths[4][PATH_MAX];
    static unsigned next;
    char made[PATH_MAX], *path = paths[next++ % 4];
    (void)snprintf(made, sizeof(made), "%s/%s", folder, name); /* `folder` may be one of the four */
    return strcpy(path, made);
}

/* A file of `length` bytes of text, then a hole up to `size`. */
static inline const char *files_write(const char *folder, const char *name, const void *text, size_t length, uint64_t size) {
    const char *path = files_path(folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), length);
    if (size > length)
        assert_int_equal(ftruncate(fd, (off_t)size), 0);
    (void)close(fd);
    return path;
}

static inline const char *files_text(const char *folder, const char *name, const char *text) {
    return files_write(folder, name, text, strlen(text), 0);
}

static inline void files_make(const char *folder, const char *name) {
    assert_int_equal(mkdir(files_path(folder, name), 0700), 0);
}

/* The folders that the file `name` lies in, as far as they are not there. */
static inline void files_parents(const char *folder, const char *name) {
    char part[512];
    for (const char *slash = name; (slash = strchr(slash, '/')); slash++) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - name), name);
        (void)mkdir(files_path(folder, part), 0700);
    }
}

/* A safetensors file with this header and `data` bytes behind it. */
static inline const char *files_safetensors(const char *folder, const char *name, const char *header, uint64_t data) {
    size_t n = strlen(header);
    char *text = malloc(n + 8);
    assert_non_null(text);
    for (unsigned i = 0; i < 8; i++)
        text[i] = (char)(n >> 8 * i & 0xff);
    (void)memcpy(text + 8, header, n);
    const char *path = files_write(folder, name, text, n + 8, n + 8 + data);
    free(text);
    return path;
}
