/* SPDX-License-Identifier: MIT */
/*
 * fuse_file MOUNTPOINT BYTES [hang]
 *
 * A file system in this process with one file, "file", read-only, of 'x'; its cache survives closing (FOPEN_KEEP_CACHE). It speaks the kernel's protocol
 * (linux/fuse.h) itself, so that no package is needed. Says "ready" when it is mounted and serves until its standard input ends. With `hang` it answers
 * nothing: whoever touches a file of it waits until the end. Exit status 77: this machine does not allow it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROOT = FUSE_ROOT_ID, THE_FILE = 2, WRITE_MAX = 1 << 17, ROOM = WRITE_MAX + FUSE_MIN_READ_BUFFER, READ_MAX = 1 << 20, DAY = 86400 };

static int device = -1;
static unsigned long long bytes;
static char content[READ_MAX];

static void reply(unsigned long long unique, int error, void *data, size_t n) {
    struct fuse_out_header head = { .len = (unsigned)(sizeof(head) + n), .error = -error, .unique = unique };
    struct iovec parts[] = { { &head, sizeof(head) }, { data, n } };
    if (writev(device, parts, n ? 2 : 1) < 0 && errno != ENOENT) /* ENOENT: whoever asked was interrupted */
        perror("fuse_file: reply");
}

static struct fuse_attr attributes(unsigned long long node) {
    bool file = node == THE_FILE;
    return (struct fuse_attr){ .ino = node,
                               .size = file ? bytes : 0,
                               .blocks = file ? bytes / 512 : 0,
                               .mode = file ? S_IFREG | 0644 : S_IFDIR | 0755,
                               .nlink = file ? 1 : 2,
                               .uid = geteuid(),
                               .gid = getegid(),
                               .blksize = 4096 };
}

static void init(unsigned long long unique, const struct fuse_init_in *in) {
    struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
                                 .minor = FUSE_KERNEL_MINOR_VERSION,
                                 .max_readahead = in->max_readahead,
                                 .max_background = 16,
                                 .congestion_threshold = 12,
                                 .max_write = WRITE_MAX };
    reply(unique, 0, &out, sizeof(out));
}

static void lookup(unsigned long long unique, unsigned long long node, const char *name) {
    if (node != ROOT || strcmp(name, "file") != 0) {
        reply(unique, ENOENT, NULL, 0);
        return;
    }
    struct fuse_entry_out out = { .nodeid = THE_FILE, .entry_valid = DAY, .attr_valid = DAY, .attr = attributes(THE_FILE) };
    reply(unique, 0, &out, sizeof(out));
}

static void read_file(unsigned long long unique, const struct fuse_read_in *in) {
    unsigned long long left = in->offset < bytes ? bytes - in->offset : 0, n = in->size < left ? in->size : left;
    reply(unique, 0, content, n < READ_MAX ? (size_t)n : READ_MAX);
}

static void serve(const char *request) {
    const struct fuse_in_header *head = (const void *)request;
    const void *body = request + sizeof(*head);
    struct fuse_attr_out attr = { .attr_valid = DAY, .attr = attributes(head->nodeid) };
    struct fuse_open_out open_out = { .open_flags = FOPEN_KEEP_CACHE };
    struct fuse_statfs_out fs = { .st = { .bsize = 4096, .namelen = 255, .frsize = 4096 } };
    switch (head->opcode) {
    case FUSE_INIT:
        init(head->unique, body);
        return;
    case FUSE_LOOKUP:
        lookup(head->unique, head->nodeid, body);
        return;
    case FUSE_GETATTR:
        reply(head->unique, 0, &attr, sizeof(attr));
        return;
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        reply(head->unique, 0, &open_out, sizeof(open_out));
        return;
    case FUSE_READ:
        read_file(head->unique, body);
        return;
    case FUSE_STATFS:
        reply(head->unique, 0, &fs, sizeof(fs));
        return;
    case FUSE_READDIR: /* nobody here lists it */
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
        reply(head->unique, 0, NULL, 0);
        return;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: /* these have no reply */
        return;
    default:
        reply(head->unique, ENOSYS, NULL, 0);
    }
}

static int mount_at(const char *point) {
    char options[128];
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    (void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other", device, geteuid(), getegid());
    return device < 0 ? -1 : mount("fuse_file", point, "fuse", MS_NOSUID | MS_NODEV, options);
}

int main(int argc, char **argv) {
    char *end = NULL;
    bool hangs = argc == 4 && strcmp(argv[3], "hang") == 0;
    if ((argc != 3 && !hangs) || (bytes = strtoull(argv[2], &end, 10), *end)) {
        (void)fputs("usage: fuse_file MOUNTPOINT BYTES [hang]\n", stderr);
        return 2;
    }
    if (mount_at(argv[1]) < 0) {
        perror("fuse_file: no FUSE here");
        return 77;
    }
    memset(content, 'x', sizeof(content));
    (void)puts("ready");
    (void)fflush(stdout);
    static char request[ROOM] __attribute__((aligned(8)));
    for (;;) {
        struct pollfd waits[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = hangs ? -1 : device, .events = POLLIN } };
        if (poll(waits, 2, -1) < 0)
            break;
        char ignored[64];
        if (waits[0].revents && read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0)
            break;
        if (!waits[1].revents)
            continue;
        ssize_t n = read(device, request, sizeof(request));
        if (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))
            continue;
        if (n < (ssize_t)sizeof(struct fuse_in_header))
            break; /* unmounted */
        serve(request);
    }
    (void)umount2(argv[1], MNT_DETACH);
    return 0;
}
