/* SPDX-License-Identifier: MIT */
/* settings_folder.h - a folder with files that stand for the kernel's settings, and one beside it for the record of changes. Removed with the test. */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct settings {
    char path[PATH_MAX], state[PATH_MAX + 8];
};

static inline void settings_put(const struct settings *s, const char *name, const char *text) {
    char path[PATH_MAX + 256];
    (void)snprintf(path, sizeof path, "%s/%s", s->path, name);
    for (char *slash = path + strlen(s->path) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        (void)mkdir(path, 0700);
    }
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The content of a file below the folder, "" when there is none. */
static inline const char *settings_get(const struct settings *s, const char *name) {
    static char text[8192];
    char path[PATH_MAX + 256];
    (void)snprintf(path, sizeof path, "%s/%s", s->path, name);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file)
        (void)fclose(file);
    return text;
}

static inline int settings_setup(void **state) {
    struct settings *s = calloc(1, sizeof *s);
    assert_non_null(s);
    (void)snprintf(s->path, sizeof s->path, "%s/umactl-settings.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(s->path));
    (void)snprintf(s->state, sizeof s->state, "%s/state", s->path);
    *state = s;
    return 0;
}

static inline int settings_remove(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline int settings_teardown(void **state) {
    struct settings *s = *state;
    int r = nftw(s->path, settings_remove, 8, FTW_DEPTH | FTW_PHYS);
    free(s);
    return r;
}
