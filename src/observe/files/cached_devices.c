/* SPDX-License-Identifier: MIT */
#include "observe/files/cached_devices.h"

#include "observe/lines.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

/* Devices of one machine that are mounted; a store of a thousand disks has them in arrays. */
enum { DEVICES_MAX = 1024 };

struct devices {
    dev_t list[DEVICES_MAX];
    size_t n;
};

static bool add(struct devices *devices, dev_t device) {
    for (size_t i = 0; i < devices->n; i++)
        if (devices->list[i] == device)
            return false;
    if (devices->n == DEVICES_MAX || major(device) == 0) /* 0: a file system that has no device */
        return false;
    devices->list[devices->n++] = device;
    return true;
}

/* btrfs and its like number their files by devices of no kind, and say in `source` what they lie on. */
static dev_t device_of(const struct uma_mount *mount) {
    struct stat st;
    if (mount->major != 0)
        return makedev(mount->major, mount->minor);
    bool named = strncmp(mount->source, "/dev/", 5) == 0 && fstatat(AT_FDCWD, mount->source, &st, AT_NO_AUTOMOUNT) == 0;
    return named && S_ISBLK(st.st_mode) ? st.st_rdev : makedev(0, 0);
}

/* "/sys/devices/.../block/sda/sda1" of a device; false: this view of sysfs has none. */
static bool folder_of(dev_t device, char ret_folder[PATH_MAX]) {
    char link[64];
    (void)snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(device), minor(device));
    return realpath(link, ret_folder) != NULL;
}

/* The whole disk of a partition. */
static dev_t whole_of(const char *folder) {
    char path[PATH_MAX + 16], text[32];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/partition", folder);
    if (stat(path, &st) < 0)
        return makedev(0, 0);
    (void)snprintf(path, sizeof(path), "%s/../dev", folder);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));
    uint32_t major_number, minor_number;
    bool is_device = n > 0 && uma_parse_device(text, text + n, &major_number, &minor_number);
    return is_device ? makedev(major_number, minor_number) : makedev(0, 0);
}

/* By its node, and only when that is this device: names in /dev are only names. */
static int open_device(const char *path, dev_t device, struct stat *ret_st) {
    _cleanup_close_ int found = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (found < 0 || fstat(found, ret_st) < 0)
        return -errno;
    if (!S_ISBLK(ret_st->st_mode) || ret_st->st_rdev != device)
        return -ENODEV;
    char again[32];
    (void)snprintf(again, sizeof(again), "/proc/self/fd/%d", found);
    int fd = open(again, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

struct visit {
    int (*each)(void *userdata, const char *path, int fd, const struct stat *st, uint64_t size);
    void *userdata;
};

static int visit(const struct visit *v, dev_t device, const char *folder) {
    char path[PATH_MAX];
    const char *name = strrchr(folder, '/') + 1;
    (void)snprintf(path, sizeof(path), "/dev/%s", name);
    for (char *c = path + 5; (c = strchr(c, '!')); c++) /* sysfs has '!' for the '/' of names such as cciss/c0d0 */
        *c = '/';
    struct stat st = { 0 };
    uint64_t size = 0;
    int opened = open_device(path, device, &st);
    if (opened == -ENOENT || opened == -ENODEV) /* a container's /dev */
        return 0;
    _cleanup_close_ int fd = opened;
    if (fd >= 0 && ioctl(fd, BLKGETSIZE64, &size) < 0)
        size = 0;
    return v->each(v->userdata, path, fd, &st, size);
}

int uma_cached_devices_each(const struct uma_mounts *mounts,
                            int (*each)(void *userdata, const char *path, int fd, const struct stat *st, uint64_t size), void *userdata) {
    struct devices seen = { .n = 0 };
    const struct visit v = { each, userdata };
    char folder[PATH_MAX];
    int r = 0;
    for (size_t i = 0; i < mounts->n && r == 0; i++) {
        if (mounts->list[i].kind != UMA_FILESYSTEM_LOCAL)
            continue;
        dev_t device = device_of(&mounts->list[i]);
        if (!add(&seen, device) || !folder_of(device, folder))
            continue;
        r = visit(&v, device, folder);
        dev_t whole = r == 0 ? whole_of(folder) : makedev(0, 0);
        if (r == 0 && add(&seen, whole) && folder_of(whole, folder))
            r = visit(&v, whole, folder);
    }
    return r;
}
