/* SPDX-License-Identifier: MIT */
/*
 * What is done for each process, and what it costs (200 processes must not take longer than 30 ms): its folder is opened once; a link tells its mount namespace; each
 * descriptor is one readlink(2), and one fdinfo where the link is a path; maps is read whole. A file is looked at once for each view and name, whoever uses it
 * after that (used_lookup.h).
 */
#include "observe/files/process_files.h"

#include "base/units.h"
#include "observe/files/used_lookup.h"
#include "observe/lines.h"
#include "observe/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { LINK_MAX_BYTES = 4096, FDINFO_MAX = 1024, STAT_MAX = 4096 };
/* A clock is read for each process, and each time so many descriptors or lines were seen: some ms. */
enum { CLOCK_EVERY = 256 };
/* /proc/sys/kernel/pid_max is 4,194,304 at most (include/linux/threads.h, PID_MAX_LIMIT); there are some 60 other names. */
enum { PIDS_MAX = 4194304, NAMES_MAX = PIDS_MAX + 4096 };
/* Names that are remembered while reading: 100 bytes each for a million. */
static const size_t keys_bytes_max = 128 * UMA_MIB;

struct reader {
    int64_t deadline_ns;
    int proc;
    int32_t *pids;
    size_t n_pids, pids_capacity;
    struct uma_text maps;
    struct uma_used_lookup lookup;
    int32_t pid; /* of the process that is being read */
    uint64_t ticks, processes, denied;
};

static void reader_done(struct reader *r) {
    uma_used_lookup_done(&r->lookup);
    free(r->pids);
    uma_text_done(&r->maps);
    uma_cleanup_close(&r->proc);
}
#define _cleanup_reader_ _cleanup_(reader_done)

static bool is_late(const struct reader *r) {
    return r->deadline_ns && uma_monotonic_ns() >= r->deadline_ns;
}
/* The time or the room has run out. */
static bool is_over(struct reader *r) {
    r->lookup.table.cut |= ++r->ticks % CLOCK_EVERY == 0 && is_late(r);
    return r->lookup.table.cut;
}

/* ---- descriptors -------------------------------------------------------------------------------------------------- */

static bool read_fdinfo(const struct reader *r, const char *number, struct uma_fdinfo *ret_info) {
    char name[32], text[FDINFO_MAX];
    (void)snprintf(name, sizeof(name), "fdinfo/%.20s", number);
    _cleanup_close_ int fd = openat(r->lookup.folder, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, sizeof(text));
    return n > 0 && uma_fdinfo_parse(text, (size_t)n, ret_info) == 0;
}

static void read_descriptor(struct reader *r, int descriptors, const char *number) {
    char text[LINK_MAX_BYTES + 1];
    ssize_t n = readlinkat(descriptors, number, text, sizeof(text) - 1);
    bool unnamed = n < 0 && errno == ENAMETOOLONG; /* a path longer than a page (fs/proc/base.c, do_proc_readlink) */
    if (n < 0 && !unnamed)
        return;
    if (unnamed)
        (void)snprintf(text, sizeof(text), "/proc/%d/fd/%.20s", (int)r->lookup.pid, number);
    else
        text[n] = '\0';
    struct uma_fdinfo info;
    if ((!unnamed && uma_used_is_uninteresting(text)) || !read_fdinfo(r, number, &info))
        return;
    int32_t file = uma_used_lookup_open(&r->lookup, descriptors, number, text, &info);
    if (file >= 0)
        uma_used_table_use(&r->lookup.table, file, r->pid, false);
}

static void read_descriptors(struct reader *r) {
    _cleanup_close_ int fd = openat(r->lookup.folder, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    _cleanup_closedir_ DIR *stream = fdopendir(fd);
    if (!stream)
        return;
    TAKE_FD(fd);
    for (const struct dirent *e = readdir(stream); e && !is_over(r); e = readdir(stream))
        if (e->d_name[0] != '.')
            read_descriptor(r, dirfd(stream), e->d_name);
}
/* ---- mappings ----------------------------------------------------------------------------------------------------- */

static void use_mappings(struct reader *r) {
    const char *last = NULL; /* a file's mappings follow one another: its code, data and so on */
    size_t last_length = 0;
    uint64_t last_inode = 0;
    for (const char *line = r->maps.data, *end = line + r->maps.length, *stop; line < end && !is_over(r); line = stop + 1) {
        struct uma_mapping m;
        const char *raw = NULL;
        size_t n = 0;
        stop = uma_line_end(line, end);
        if (stop == end)
            return; /* cut within the line */
        if (uma_maps_line(line, stop, &m, &raw, &n) <= 0)
            continue;
        if (last && m.inode == last_inode && n == last_length && memcmp(raw, last, n) == 0)
            continue;
        int32_t file = uma_used_lookup_mapping(&r->lookup, &m, raw, n);
        if (file >= 0)
            uma_used_table_use(&r->lookup.table, file, r->pid, true);
        last = raw;
        last_length = n;
        last_inode = m.inode;
    }
}

/* ---- processes ---------------------------------------------------------------------------------------------------- */

/* All of a file of the process. seq_file gives about a page at each read(2). */
static int read_whole(const struct reader *r, const char *name, size_t max, struct uma_text *into) {
    uma_text_reset(into);
    _cleanup_close_ int fd = openat(r->lookup.folder, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    enum { STEP = 16384 };
    while (into->length < max) {
        if (!uma_text_reserve(into, STEP))
            return -ENOMEM;
        ssize_t n = read(fd, into->data + into->length, into->capacity - into->length - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        into->length += (size_t)n;
        into->data[into->length] = '\0';
    }
    return 0;
}

/* Not readable for this user: a program's process, or one that has no files anyway? */
static bool is_program(struct reader *r) {
    struct uma_process process = { 0 };
    return read_whole(r, "stat", STAT_MAX, &r->maps) == 0 && r->maps.length > 0 &&
           uma_process_stat_parse(r->maps.data, r->maps.length, "stat", r->lookup.keys, &process, NULL) >= 0 && !process.kernel_thread &&
           process.state != 'Z' && process.state != 'X';
}

/* Read a process by /proc/NUMBER. False: it is there, and has no address space. */
static bool read_through(struct reader *r, int32_t number) {
    char name[16];
    (void)snprintf(name, sizeof(name), "%d", (int)number);
    _cleanup_close_ int folder = openat(r->proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return true;
    r->lookup.folder = folder;
    r->lookup.pid = number;
    int code = read_whole(r, "maps", UMA_MAPS_BYTES_MAX, &r->maps);
    if (code == 0 && r->maps.length == 0)
        return false;
    if (code == 0)
        code = r->lookup.view = uma_file_views_of(&r->lookup.views, folder, number);
    if (code == -EACCES || code == -EPERM)
        r->denied += is_program(r);
    else if (code == -ENOMEM || code == -E2BIG)
        r->lookup.table.cut = true;
    if (code < 0)
        return true;
    r->processes++;
    read_descriptors(r);
    use_mappings(r);
    return true;
}

/*
 * No address space: a kernel thread, a process that has ended, or one whose first thread has ended before the others. These have maps and descriptors still, and
 * /proc/TID, which is not listed, is as good as /proc/PID. Threads are links of the folder task (fs/proc/base.c, proc_task_getattr): two threads, four links.
 */
static void read_process(struct reader *r) {
    char name[32];
    struct stat st;
    (void)snprintf(name, sizeof(name), "%d/task", (int)r->pid);
    if (read_through(r, r->pid) || fstatat(r->proc, name, &st, 0) < 0 || st.st_nlink < 4)
        return;
    _cleanup_close_ int fd = openat(r->proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    if (!stream)
        return;
    TAKE_FD(fd);
    for (const struct dirent *e = readdir(stream); e && !is_over(r); e = readdir(stream)) {
        uint64_t number;
        const char *end = uma_parse_u64(e->d_name, e->d_name + strlen(e->d_name), &number);
        if (end && !*end && number <= INT32_MAX && (int32_t)number != r->pid && read_through(r, (int32_t)number))
            return;
    }
}

static int add_pid(void *userdata, const char *name) {
    struct reader *r = userdata;
    uint64_t pid;
    const char *end = uma_parse_u64(name, name + strlen(name), &pid);
    if (!end || *end || pid == 0 || pid > INT32_MAX || r->n_pids == PIDS_MAX)
        return 0;
    if (r->n_pids == r->pids_capacity) {
        size_t capacity = r->pids_capacity ? r->pids_capacity * 2 : 1024;
        int32_t *pids = realloc(r->pids, capacity * sizeof(*pids));
        if (!pids)
            return -ENOMEM;
        r->pids = pids;
        r->pids_capacity = capacity;
    }
    r->pids[r->n_pids++] = (int32_t)pid;
    return 0;
}

static int ascending(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* The number of this process as this /proc has it; 0 unknown. */
static int32_t find_self(const struct reader *r) {
    char text[16];
    uint64_t pid;
    ssize_t n = readlinkat(r->proc, "self", text, sizeof(text));
    return n > 0 && (size_t)n < sizeof(text) && uma_parse_u64(text, text + n, &pid) == text + n && pid <= INT32_MAX ? (int32_t)pid : 0;
}

/*
 * memfds and System V shared memory lie on a mount of the kernel's own, which no table shows (mm/shmem.c, shm_mnt). A memfd of ours tells which it is; by its name
 * alone a file of a FUSE mount could pass for one.
 */
static void find_shm(struct reader *r) {
    enum { NOEXEC_SEAL = 8 }; /* MFD_NOEXEC_SEAL, since 6.3; asked for where vm.memfd_noexec says so */
    _cleanup_close_ int fd = memfd_create("", MFD_CLOEXEC | NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("", MFD_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    char name[16];
    (void)snprintf(name, sizeof(name), "%d", fd);
    struct uma_fdinfo info;
    r->lookup.folder = openat(r->proc, "self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r->lookup.folder >= 0 && read_fdinfo(r, name, &info)) {
        r->lookup.shm_mount = info.mount_id;
        r->lookup.shm_device = st.st_dev;
    }
    uma_cleanup_close(&r->lookup.folder);
    r->lookup.folder = -1;
}

int uma_used_files_read(struct uma_root *root, int64_t deadline_ns, struct uma_arena *arena, struct uma_used_files *ret_files,
                        struct uma_error *err) {
    if (!uma_root_is_live(root))
        return uma_error_text(err, EOPNOTSUPP, "%s: a recorded machine has no processes to look into", uma_root_name(root));
    _cleanup_reader_ struct reader r = { .deadline_ns = deadline_ns, .proc = -1, .lookup = { .folder = -1, .shm_mount = -1 } };
    r.lookup.table.arena = arena;
    r.lookup.keys = uma_arena_new(keys_bytes_max);
    if (!r.lookup.keys)
        return uma_error_set(err, ENOMEM, "the files that processes use");
    int code = uma_root_open_folder(root, "proc", &r.proc, err);
    if (code >= 0)
        code = uma_root_list(root, "proc", NAMES_MAX, add_pid, &r, err);
    if (code == -ENOMEM)
        return uma_error_set(err, ENOMEM, "/proc");
    if (code >= 0)
        code = uma_file_views_open(root, arena, &r.lookup.views, err);
    if (code < 0)
        return code;
    find_shm(&r);
    if (r.n_pids > 0)
        qsort(r.pids, r.n_pids, sizeof(*r.pids), ascending);
    const int32_t self = find_self(&r);
    for (size_t i = 0; i < r.n_pids && !r.lookup.table.cut; i++) {
        r.pid = r.pids[i];
        r.lookup.table.cut |= is_late(&r);
        if (r.pid != self && !r.lookup.table.cut)
            read_process(&r);
    }
    struct uma_used_files files = { .processes = r.processes, .denied = r.denied };
    if (uma_used_table_finish(&r.lookup.table, &files) < 0)
        return uma_error_set(err, ENOMEM, "the files that processes use");
    *ret_files = files;
    return 0;
}
