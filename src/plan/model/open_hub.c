/* SPDX-License-Identifier: MIT */
#include "plan/model/open.h"

#include "base/text.h"
#include "observe/files/hub.h"
#include "plan/model/folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A revision is a commit's 40 hexadecimal digits, or what somebody named a local one. */
enum { REVISION_LONGEST = 100 };
/* Snapshots that are looked at; each revision that was ever downloaded leaves one. */
enum { SNAPSHOTS_MAX = 4096 };

char *uma_open_hub_cache(void) {
    for (size_t i = 0; i < UMA_HUB_PLACES; i++) {
        const char *value = getenv(uma_hub_places[i].variable);
        char *path = NULL;
        if (value && *value)
            return asprintf(&path, "%s%s", value, uma_hub_places[i].below) < 0 ? NULL : path;
    }
    return NULL;
}

static bool is_plain_name(const char *name) {
    return *name && *name != '.' && strlen(name) <= REVISION_LONGEST && !strchr(name, '/');
}

static bool is_folder(int at, const char *name) {
    struct stat st;
    return fstatat(at, name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

/* What refs/main says, if there is a snapshot of it. */
static bool main_revision(int folder, int snapshots, char *ret_name, size_t size) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (uma_folder_read_file(folder, "refs/main", "refs/main", REVISION_LONGEST + 1, &text, NULL) < 0)
        return false;
    text.data[strcspn(text.data, " \r\n\t")] = '\0';
    if (!is_plain_name(text.data) || !is_folder(snapshots, text.data))
        return false;
    (void)snprintf(ret_name, size, "%s", text.data);
    return true;
}

static bool newest(int snapshots, char *ret_name, size_t size) {
    _cleanup_close_ int fd = openat(snapshots, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir)
        return false;
    (void)TAKE_FD(fd); /* the DIR's now */
    struct timespec best = { 0 };
    bool found = false;
    const struct dirent *entry;
    for (unsigned n = 0; n < SNAPSHOTS_MAX && (entry = readdir(dir)); n++) {
        struct stat st;
        if (!is_plain_name(entry->d_name) || fstatat(snapshots, entry->d_name, &st, 0) < 0 || !S_ISDIR(st.st_mode))
            continue;
        if (found && (st.st_mtim.tv_sec < best.tv_sec || (st.st_mtim.tv_sec == best.tv_sec && st.st_mtim.tv_nsec <= best.tv_nsec)))
            continue;
        found = true;
        best = st.st_mtim;
        (void)snprintf(ret_name, size, "%s", entry->d_name);
    }
    return found;
}

int uma_open_hub_snapshot(const char *folder, char **ret_path, struct uma_error *err) {
    char name[REVISION_LONGEST + 1];
    _cleanup_close_ int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return uma_error_set(err, errno, "%s: cannot open it", folder);
    _cleanup_close_ int snapshots = openat(fd, "snapshots", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (snapshots < 0)
        return uma_error_set(err, errno, "%s/snapshots: cannot open it", folder);
    if (!main_revision(fd, snapshots, name, sizeof(name)) && !newest(snapshots, name, sizeof(name)))
        return uma_error_text(err, ENOENT, "%s: a hub cache folder without a snapshot: nothing was downloaded", folder);
    _cleanup_free_
    char *below = uma_folder_path(folder, "snapshots");
    char *path = below ? uma_folder_path(below, name) : NULL;
    if (!path)
        return uma_error_set(err, ENOMEM, "%s", folder);
    *ret_path = path;
    return 0;
}

/* "org/name" -> "models--org--name". */
static bool folder_name(const char *name, char *ret_name, size_t size) {
    const char *slash = strchr(name, '/');
    size_t n = strlen(name);
    if (n == 0 || n > 200 || *name == '.' || *name == '/' || name[n - 1] == '/' || (slash && strchr(slash + 1, '/')))
        return false;
    if (strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") != n)
        return false;
    int length = slash ? snprintf(ret_name, size, "models--%.*s--%s", (int)(slash - name), name, slash + 1)
                       : snprintf(ret_name, size, "models--%s", name);
    return length > 0 && (size_t)length < size;
}

int uma_open_hub_find(const char *cache, const char *name, char **ret_path, struct uma_error *err) {
    char inside[256];
    if (!folder_name(name, inside, sizeof(inside)))
        return -ENOENT;
    _cleanup_free_
    char *folder = uma_folder_path(cache, inside);
    if (!folder)
        return uma_error_set(err, ENOMEM, "%s", cache);
    if (!is_folder(AT_FDCWD, folder))
        return -ENOENT;
    return uma_open_hub_snapshot(folder, ret_path, err);
}
