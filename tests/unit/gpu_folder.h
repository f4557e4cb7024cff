/* SPDX-License-Identifier: MIT */
/* A machine folder that a test makes file by file and that is removed with it. */
#pragma once

#include "base/root.h"
#include "observe/gpu.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct folder {
    char path[PATH_MAX];
    struct uma_root *root;
    struct uma_gpu_reader *reader;
    struct uma_snapshot snapshot;
};

static inline void folder_put_n(struct folder *f, const char *name, const void *data, size_t n) {
    char path[PATH_MAX + 256];
    (void)snprintf(path, sizeof(path), "%s/%s", f->path, name);
    for (char *slash = path + strlen(f->path) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        (void)mkdir(path, 0700);
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static inline void folder_put(struct folder *f, const char *name, const char *text) {
    folder_put_n(f, name, text, strlen(text));
}

static inline int folder_setup(void **state) {
    struct folder *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    (void)snprintf(f->path, sizeof(f->path), "%s/umactl-folder.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(f->path));
    assert_int_equal(uma_root_open(f->path, NULL, &f->root, NULL), 0);
    assert_int_equal(uma_snapshot_init(&f->snapshot), 0);
    f->reader = uma_gpu_reader_new(f->root, NULL);
    assert_non_null(f->reader);
    *state = f;
    return 0;
}

static int folder_remove(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int folder_teardown(void **state) {
    struct folder *f = *state;
    (void)uma_gpu_reader_free(f->reader);
    (void)uma_root_close(f->root);
    uma_snapshot_done(&f->snapshot);
    (void)nftw(f->path, folder_remove, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

static inline const struct uma_gpus *folder_read(struct folder *f) {
    uma_gpu_ask(f->reader);
    uma_gpu_collect(f->reader, &f->snapshot);
    return &f->snapshot.gpus;
}
