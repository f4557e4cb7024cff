/* SPDX-License-Identifier: MIT */
/* The weight files that the job has mapped or open. */
#include "base/units.h"
#include "cache/follow_parts.h"
#include "observe/files/open_file.h"
#include "observe/files/stores.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A file without a telling name: weights are large, and most libraries and databases smaller or not mapped in one piece. */
#define LARGE (64 * UMA_MIB)
/* Mappings and descriptors are listed anew at most this often, and at least this often when nothing hints that they changed. */
#define LIST_LEAST_NS (INT64_C(40) * 1000000)
#define LIST_MOST_NS UMA_SECOND_NS
/* Loaders that open the file anew for every tensor are in one pass; one that comes back later, or after all was read, begins another. */
#define PASS_APART_NS UMA_SECOND_NS
/* File pages that no known mapping explains: there is a new mapping. */
#define HINT_BYTES (4 * UMA_MIB)
/* Who has read as much as this share of a file, from anywhere, may have read it. */
enum { READER_SHARE = 50 };

/* ---- which files ---------------------------------------------------------------------------------------------- */

/* "libtorch_cuda.so", "libx.so.12": larger than many models, mapped by every process, never copied. */
static bool is_library(const char *path) {
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    const char *so = strstr(name, ".so");
    return so && (so[3] == '\0' || so[3] == '.');
}

/* `path` is `folder` or lies below it. */
static bool lies_in(const char *path, const char *folder) {
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/')
        n--;
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/' || n == 1);
}

/* Where the descriptor leads, without links; where the process has another view, that may be another name, so the file itself is compared too. */
static bool asked_for(const struct uma_follower *f, int fd, const struct stat *st, const char *shown) {
    char link[40], path[4096];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    for (size_t i = 0; i < f->options->n_paths; i++) {
        struct stat other;
        if (lies_in(shown, f->options->paths[i]) || (f->real_paths[i] && lies_in(path, f->real_paths[i])) ||
            (stat(f->options->paths[i], &other) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino))
            return true;
    }
    return false;
}

/* Is it worth opening? `bytes`: size of the file, or of its mapping. */
static bool candidate(const struct uma_follower *f, const char *path, uint64_t bytes) {
    return f->options->n_paths || bytes >= LARGE || uma_is_weight_file(path);
}

static enum uma_filesystem_kind kind_of(struct uma_follower *f, pid_t pid, dev_t device) {
    const struct uma_mount *mount = uma_mounts_of_device(&f->mounts, device);
    if (!mount) { /* mounted since, or in the process's view only */
        struct uma_mounts mounts;
        uma_arena_reset(f->mounts_arena);
        f->mounts = (struct uma_mounts){ 0 };
        if (uma_mounts_read(f->root, pid, f->mounts_arena, &mounts, NULL) >= 0)
            f->mounts = mounts;
        mount = uma_mounts_of_device(&f->mounts, device);
    }
    return mount ? mount->kind : UMA_FILESYSTEM_LOCAL;
}

/* ---- a file's own state ---------------------------------------------------------------------------------------- */

bool uma_follow_is_warm(const struct uma_followed *file, size_t chunk) {
    return !file->warm || (file->warm[chunk / 32] >> (chunk % 32) & 1u);
}

static void set_warm(struct uma_followed *file, size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        file->warm[i / 32] |= UINT32_C(1) << (i % 32);
}

/*
 * Which chunks lay in memory before the job came to them: half of it or more. Asked by halves, as most files are in memory as a whole, or not at all; the stack
 * is deep enough for 8 million chunks.
 */
static void note_warmth(const struct uma_follower *f, struct uma_followed *file) {
    struct uma_residency part;
    uma_residency_read(file->fd, &file->st, file->kind, 0, 0, &part);
    file->resident = part.resident;
    size_t n = file->state->n_chunks;
    file->warm = uma_usable(part.resident.validity) ? calloc(n / 32 + 1, sizeof *file->warm) : NULL;
    struct span {
        size_t from, to;
    } stack[64] = { { 0, n } };
    for (size_t depth = file->warm ? 1 : 0; depth;) {
        struct span span = stack[--depth];
        uint64_t start = (uint64_t)span.from * f->window.chunk, end = MIN_OF((uint64_t)span.to * f->window.chunk, file->state->size);
        uma_residency_read(file->fd, &file->st, file->kind, start, end - start, &part);
        bool known = uma_usable(part.resident.validity);
        if (known && part.resident.value == 0)
            continue;
        if (!known || part.resident.value >= end - start || span.to - span.from == 1) {
            if (!known || part.resident.value >= (end - start) / 2)
                set_warm(file, span.from, span.to);
            continue;
        }
        size_t middle = span.from + (span.to - span.from) / 2;
        stack[depth++] = (struct span){ middle, span.to };
        stack[depth++] = (struct span){ span.from, middle };
    }
}

static struct uma_followed *known(const struct uma_follower *f, dev_t device, ino_t inode) {
    for (size_t i = 0; i < f->n_files; i++)
        if (f->files[i]->st.st_ino == inode && f->files[i]->st.st_dev == device)
            return f->files[i];
    return NULL;
}

static struct uma_followed *file_free(struct uma_follower *f, struct uma_followed *file) {
    if (!file)
        return NULL;
    file->state = uma_follow_file_free(&f->window, file->state);
    if (file->fd >= 0)
        (void)close(file->fd);
    free(file->warm);
    free(file->shown);
    free(file);
    return NULL;
}

/* Takes fd. A file that is not followed is kept too, without a descriptor, so that it is not opened again and again. NULL: out of room. */
static struct uma_followed *file_add(struct uma_follower *f, pid_t pid, int fd, const struct stat *st, const char *shown, bool wanted) {
    _cleanup_close_ int own = fd;
    if (f->n_files == UMA_FOLLOW_FILES_MAX)
        return NULL;
    struct uma_followed *file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    *file = (struct uma_followed){ .fd = -1, .st = *st, .shown = strdup(shown), .ignored = true };
    f->files[f->n_files++] = file;
    file->kind = kind_of(f, pid, st->st_dev);
    if (!file->shown || !wanted || st->st_size <= 0 || file->kind == UMA_FILESYSTEM_MEMORY || file->kind == UMA_FILESYSTEM_PSEUDO)
        return file; /* pages of memory files are the file: there is no second copy that could go */
    if (uma_follow_file_new(&f->window, (uint64_t)st->st_size, &file->state, NULL) < 0)
        return file;
    file->ignored = false;
    file->fd = TAKE_FD(own);
    file->named = f->options->n_paths || uma_is_weight_file(shown);
    file->owned = uma_residency_mincore_truthful(file->fd, st);
    note_warmth(f, file);
    f->newest_ns = file->met_ns = f->now_ns;
    return file;
}

/* ---- mappings --------------------------------------------------------------------------------------------------- */

/* The file behind a mapping. map_files is exact, deleted files too, but needs privilege; a path through the process's root is checked by its inode. */
static int open_mapping(pid_t pid, const struct uma_mapping *m, struct stat *ret_st) {
    char path[4200];
    (void)snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", (int)pid, (unsigned long long)m->start, (unsigned long long)m->end);
    int fd = uma_open_file_at(AT_FDCWD, path, true, ret_st);
    if (fd >= 0 || m->deleted)
        return fd;
    int n = snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, m->path);
    if (n < 0 || (size_t)n >= sizeof path)
        return -ENAMETOOLONG;
    fd = uma_open_file_at(AT_FDCWD, path, true, ret_st);
    if (fd >= 0 && ret_st->st_ino != m->inode) {
        (void)close(fd);
        return -ESTALE;
    }
    return fd;
}

static bool mapping_wanted(const struct uma_follower *f, const struct uma_mapping *m, int fd, const struct stat *st) {
    if (f->options->n_paths)
        return asked_for(f, fd, st, m->path);
    if (uma_is_weight_file(m->path))
        return true;
    uint64_t size = st->st_size > 0 ? (uint64_t)st->st_size : 0;
    return size >= LARGE && m->offset == 0 && m->end - m->start >= size / 10 * 9 && !m->executable && !is_library(m->path) &&
           !(m->shared && m->writable);
}

static struct uma_followed *file_of_mapping(struct uma_follower *f, pid_t pid, const struct uma_mapping *m) {
    for (size_t i = 0; i < f->n_files; i++) {
        struct uma_followed *file = f->files[i];
        if (file->map_inode == m->inode && file->map_major == m->major && file->map_minor == m->minor)
            return file;
    }
    struct stat st;
    int fd = open_mapping(pid, m, &st);
    if (fd < 0)
        return NULL;
    struct uma_followed *file = known(f, st.st_dev, st.st_ino);
    if (file)
        (void)close(fd);
    else
        file = file_add(f, pid, fd, &st, m->path, mapping_wanted(f, m, fd, &st));
    if (file) {
        file->map_major = m->major;
        file->map_minor = m->minor;
        file->map_inode = m->inode;
    }
    return file;
}

static bool room(void **list, size_t n, size_t *have, size_t size) {
    if (n < *have)
        return true;
    if (n >= UMA_FOLLOW_VIEWS_MAX)
        return false;
    size_t wanted = MAX_OF(*have * 2, (size_t)16);
    void *larger = reallocarray(*list, wanted, size);
    if (!larger)
        return false;
    *list = larger;
    *have = wanted;
    return true;
}

/* Where this mapping's reading was, if it was there before. */
static void carry_front(const struct uma_follow_mapping *old, size_t n, struct uma_follow_mapping *mapping) {
    for (size_t i = 0; i < n; i++)
        if (old[i].start == mapping->start && old[i].file == mapping->file && old[i].offset == mapping->offset) {
            mapping->front = old[i].front;
            mapping->moved_ns = old[i].moved_ns;
            return;
        }
}

static void read_mappings(struct uma_follower *f, struct uma_follow_process *process) {
    size_t n = 0;
    struct uma_mapping *mappings = NULL;
    uma_arena_reset(f->arena);
    process->maps_size = process->size;
    process->maps_ns = f->now_ns;
    struct uma_error err = { 0 };
    int r = uma_maps_read(f->root, process->pid, f->arena, &n, &mappings, &err);
    if (r == -EACCES && !f->told_rights) {
        f->told_rights = true;
        uma_follow_tell(f, "process %d cannot be looked into by this user: its mappings are not followed", (int)process->pid);
    }
    if (r < 0)
        return;
    struct uma_follow_mapping *old = process->mappings;
    size_t n_old = process->n_mappings;
    process->mappings = NULL;
    process->n_mappings = process->mappings_room = 0;
    for (size_t i = 0; i < n; i++) {
        const struct uma_mapping *m = &mappings[i];
        if (!m->path || m->path[0] != '/' || !candidate(f, m->path, m->end - m->start))
            continue;
        struct uma_followed *file = file_of_mapping(f, process->pid, m);
        if (!file || file->ignored ||
            !room((void **)&process->mappings, process->n_mappings, &process->mappings_room, sizeof *process->mappings))
            continue;
        struct uma_follow_mapping *mapping = &process->mappings[process->n_mappings++];
        *mapping = (struct uma_follow_mapping){
            .file = file, .start = m->start, .end = m->end, .offset = m->offset, .front = m->offset, .moved_ns = f->now_ns
        };
        carry_front(old, n_old, mapping);
    }
    free(old);
    /* A page map speaks of the program that ran when it was opened; this one may be another by now. */
    uma_presence_close(&process->presence);
    process->blind = false;
    if (process->n_mappings && uma_presence_open(process->pid, &process->presence, NULL) < 0)
        process->blind = true;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

static struct uma_followed *file_of_descriptor(struct uma_follower *f, struct uma_follow_process *process, int folder, const char *name) {
    char target[4096];
    ssize_t n = readlinkat(folder, name, target, sizeof target - 1);
    struct stat st;
    if (n <= 0 || target[0] != '/')
        return NULL;
    target[n] = '\0';
    if (fstatat(folder, name, &st, 0) < 0 || !S_ISREG(st.st_mode) || !candidate(f, target, st.st_size > 0 ? (uint64_t)st.st_size : 0))
        return NULL;
    struct uma_followed *file = known(f, st.st_dev, st.st_ino);
    if (file)
        return file;
    int fd = uma_open_file_at(folder, name, true, &st);
    if (fd < 0)
        return NULL;
    bool wanted = f->options->n_paths ? asked_for(f, fd, &st, target) : !is_library(target);
    (void)uma_follow_job_read_io(process); /* just before it is asked what lies in memory: this much was read from there */
    return file_add(f, process->pid, fd, &st, target, wanted);
}

bool uma_follow_descriptor_read(const struct uma_follow_process *process, int number, struct uma_fdinfo *ret_info) {
    char path[64], text[1024];
    (void)snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)process->pid, number);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    return n > 0 && uma_fdinfo_parse(text, (size_t)n, ret_info) >= 0;
}

static void add_descriptor(struct uma_follow_process *process, struct uma_followed *file, int number,
                           const struct uma_follow_descriptor *old, size_t n_old) {
    struct uma_fdinfo info;
    /* What is written is no load; O_DIRECT leaves nothing behind. */
    if (!uma_follow_descriptor_read(process, number, &info) || (info.flags & O_ACCMODE) == O_WRONLY || (info.flags & O_DIRECT) ||
        !room((void **)&process->descriptors, process->n_descriptors, &process->descriptors_room, sizeof *process->descriptors))
        return;
    struct uma_follow_descriptor *descriptor = &process->descriptors[process->n_descriptors++];
    *descriptor = (struct uma_follow_descriptor){ .file = file, .number = number, .fresh = true };
    for (size_t i = 0; i < n_old; i++)
        if (old[i].number == number && old[i].file == file)
            *descriptor = old[i];
}

static void read_descriptors(struct uma_follower *f, struct uma_follow_process *process) {
    char path[48];
    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)process->pid);
    process->fds_ns = f->now_ns;
    _cleanup_closedir_ DIR *folder = opendir(path);
    if (!folder)
        return;
    struct uma_follow_descriptor *old = process->descriptors;
    size_t n_old = process->n_descriptors;
    process->descriptors = NULL;
    process->n_descriptors = process->descriptors_room = 0;
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        uint64_t number;
        if (uma_parse_u64_all(entry->d_name, &number) < 0 || number > INT32_MAX)
            continue;
        struct uma_followed *file = file_of_descriptor(f, process, dirfd(folder), entry->d_name);
        if (file && !file->ignored)
            add_descriptor(process, file, (int)number, old, n_old);
    }
    free(old);
    process->fds_fresh = true;
}

/* ---- when ------------------------------------------------------------------------------------------------------- */

void uma_follow_files_refresh(struct uma_follower *f, struct uma_follow_process *process) {
    bool hint = process->size != process->maps_size || process->unexplained_rss >= HINT_BYTES;
    int64_t began = uma_follow_cost_ns();
    if ((hint || f->now_ns - process->maps_ns >= LIST_MOST_NS) && uma_follow_due(&process->maps, f->now_ns)) {
        read_mappings(f, process);
        uma_follow_done(&process->maps, began, LIST_LEAST_NS);
    }
    hint = process->unexplained_rchar > 0;
    began = uma_follow_cost_ns();
    process->fds_fresh = false;
    if ((hint || f->now_ns - process->fds_ns >= LIST_MOST_NS) && uma_follow_due(&process->fds, f->now_ns)) {
        read_descriptors(f, process);
        uma_follow_done(&process->fds, began, LIST_LEAST_NS);
    }
}

void uma_follow_files_settle(struct uma_follower *f) {
    for (size_t i = 0; i < f->n_files; i++)
        f->files[i]->mapped = f->files[i]->opened = f->files[i]->readers = 0;
    for (size_t i = 0; i < f->n_processes; i++) {
        const struct uma_follow_process *process = &f->processes[i];
        for (size_t j = 0; j < process->n_mappings; j++)
            process->mappings[j].file->mapped++;
        for (size_t j = 0; j < process->n_descriptors; j++) {
            struct uma_followed *file = process->descriptors[j].file;
            file->opened++;
            /* Each process once, and none that only inherited the descriptor. */
            if (!file->ignored && process->rchar >= file->state->size / READER_SHARE && (!file->readers || file->reader != process->pid)) {
                file->readers++;
                file->reader = process->pid;
            }
        }
    }
    for (size_t i = 0; i < f->n_files; i++) {
        struct uma_followed *file = f->files[i];
        if (file->ignored)
            continue;
        bool used = file->mapped || file->opened;
        bool again = used && !file->state->in_use && file->was_used;
        if (again && (f->now_ns - file->closed_ns >= PASS_APART_NS || file->state->read >= file->state->size - file->state->size / 100)) {
            uma_follow_pass(&f->window, file->state);
            file->read_front = file->assumed_front = 0;
            file->assumed = 0;
            file->unread_taken = 0;
        } else if (!used && file->state->in_use) {
            uma_follow_closed(&f->window, file->state);
            file->closed_ns = f->now_ns;
        }
        file->state->readers = MAX_OF(file->state->readers, file->readers);
        file->state->in_use = used;
        file->state->by_count = !file->mapped;
        file->was_used = file->was_used || used;
    }
}

void uma_follow_files_end(struct uma_follower *f) {
    for (size_t i = 0; i < f->n_files; i++)
        f->files[i] = file_free(f, f->files[i]);
    free(f->files);
    f->files = NULL;
    f->n_files = 0;
}
