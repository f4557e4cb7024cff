/* SPDX-License-Identifier: MIT */
#include "observe/tuning.h"

#include "observe/files/mounts.h"
#include "observe/lines.h"
#include "observe/source.h"

#include <stdio.h>
#include <string.h>

/* A setting is at most a page; a kernel's command line at most COMMAND_LINE_SIZE, 4096 on the largest (arch setup.h). */
enum { SETTING_BYTES_MAX = 4096, NAME_MAX_LENGTH = 64, LIST_MAX = 1024, MOUNTS_BYTES_MAX = 64 * 1024 };

struct reader {
    struct uma_root *root;
    struct uma_arena *arena;
    struct uma_text text; /* the file last read */
};

/* ---- single files ------------------------------------------------------------------------------------------- */

static struct uma_u64 read_number(struct reader *r, const char *path) {
    uint64_t v;
    int e = uma_root_read(r->root, path, SETTING_BYTES_MAX, &r->text, NULL);
    if (e < 0)
        return uma_no_u64(uma_validity_of_errno(e));
    const char *s = r->text.data ? r->text.data : "", *end = s + r->text.length;
    while (end > s && (end[-1] == '\n' || uma_is_blank(end[-1])))
        end--;
    if (end - s > 2 && s[0] == '0' && s[1] == 'x') { /* lru_gen/enabled: 0x0007 */
        v = 0;
        for (const char *p = s + 2; p < end; p++) {
            static const char digits[] = "0123456789abcdef";
            const char *d = memchr(digits, *p, sizeof digits - 1);
            if (!d || v >> 56)
                return uma_no_u64(UMA_MALFORMED);
            v = v << 4 | (uint64_t)(d - digits);
        }
        return uma_known_u64(v);
    }
    return uma_whole_u64(s, end, &v) ? uma_known_u64(v) : uma_no_u64(UMA_MALFORMED);
}

static int keep(struct reader *r, const char *s, size_t n, const char **ret, struct uma_error *err) {
    *ret = uma_arena_utf8(r->arena, s, MIN_OF(n, (size_t)NAME_MAX_LENGTH));
    return *ret ? 0 : uma_error_set(err, ENOMEM, "reading the settings");
}

static int read_choice(struct reader *r, const char *path, struct uma_choice *ret, struct uma_error *err) {
    const char *start;
    size_t length;
    int e = uma_root_read(r->root, path, SETTING_BYTES_MAX, &r->text, NULL);
    if (e < 0 || !r->text.data || !uma_choice_parse(r->text.data, r->text.length, &start, &length)) {
        *ret = (struct uma_choice){ NULL, e < 0 ? uma_validity_of_errno(e) : UMA_MALFORMED };
        return 0;
    }
    ret->validity = UMA_KNOWN;
    return keep(r, start, length, &ret->selected, err);
}

static enum uma_truth read_truth(struct reader *r, const char *path) {
    if (uma_root_read(r->root, path, SETTING_BYTES_MAX, &r->text, NULL) < 0 || r->text.length == 0)
        return UMA_MAYBE;
    char c = r->text.data[0];
    return c == 'Y' || c == 'y' || c == '1' ? UMA_YES : c == 'N' || c == 'n' || c == '0' ? UMA_NO : UMA_MAYBE;
}

/* What else stands there (keys of disks, addresses) is nobody's business and is not recorded. */
static int read_command_line(struct reader *r, struct uma_tuning *t, struct uma_error *err) {
    const struct {
        const char *name, **ret;
    } words[] = { { "kho", &t->kho }, { "init_on_alloc", &t->init_on_alloc }, { "transparent_hugepage", &t->transparent_hugepage } };
    _cleanup_text_ struct uma_text kept = { 0 };
    int e = uma_root_read_unrecorded(r->root, "proc/cmdline", SETTING_BYTES_MAX, &r->text, NULL);
    t->command_line = e < 0 ? uma_validity_of_errno(e) : UMA_KNOWN;
    if (e < 0)
        return 0;
    for (size_t i = 0; i < ELEMENTS(words); i++) {
        const char *start;
        size_t length;
        if (!r->text.data || !uma_command_line_find(r->text.data, r->text.length, words[i].name, &start, &length))
            continue;
        e = keep(r, start, length, words[i].ret, err);
        if (e < 0)
            return e;
        uma_text_printf(&kept, "%s%s=%s", kept.length ? " " : "", words[i].name, *words[i].ret);
    }
    uma_text_char(&kept, '\n');
    return uma_root_record(r->root, "proc/cmdline", kept.data, kept.length, err);
}

static int read_nvidia(struct reader *r, struct uma_tuning *t, struct uma_error *err) {
    int e = uma_root_read_unrecorded(r->root, "proc/driver/nvidia/params", 16 * SETTING_BYTES_MAX, &r->text, NULL);
    if (e < 0) {
        t->nvidia_pools = uma_no_u64(uma_validity_of_errno(e));
        return 0;
    }
    t->nvidia_pools = uma_nvidia_pools_parse(r->text.data ? r->text.data : "", r->text.length);
    if (t->nvidia_pools.validity != UMA_KNOWN)
        return 0;
    char line[64];
    int n = snprintf(line, sizeof line, "EnableSystemMemoryPools: %llu\n", (unsigned long long)t->nvidia_pools.value);
    return uma_root_record(r->root, "proc/driver/nvidia/params", line, (size_t)n, err);
}

static int read_single_files(struct reader *r, struct uma_tuning *t, struct uma_error *err) {
#define UMA_X(field, file) t->field = read_number(r, "proc/sys/vm/" file);
    UMA_VM_SETTINGS(UMA_X)
#undef UMA_X
    int e = read_choice(r, "sys/kernel/mm/transparent_hugepage/enabled", &t->thp_enabled, err);
    if (e >= 0)
        e = read_choice(r, "sys/kernel/mm/transparent_hugepage/defrag", &t->thp_defrag, err);
    if (e >= 0)
        e = read_choice(r, "sys/kernel/mm/transparent_hugepage/shmem_enabled", &t->thp_shmem, err);
    t->khugepaged_defrag = read_number(r, "sys/kernel/mm/transparent_hugepage/khugepaged/defrag");
    t->lru_gen_enabled = read_number(r, "sys/kernel/mm/lru_gen/enabled");
    t->lru_gen_min_ttl_ms = read_number(r, "sys/kernel/mm/lru_gen/min_ttl_ms");
    t->zswap = read_truth(r, "sys/module/zswap/parameters/enabled");
    if (e >= 0)
        e = read_command_line(r, t, err);
    if (e >= 0)
        e = read_nvidia(r, t, err);
    int limits = uma_root_read(r->root, "proc/self/limits", SETTING_BYTES_MAX, &r->text, NULL);
    t->memlock =
        limits < 0 ? uma_no_u64(uma_validity_of_errno(limits)) : uma_memlock_parse(r->text.data ? r->text.data : "", r->text.length);
    return e;
}

/* ---- disks -------------------------------------------------------------------------------------------------- */

struct name_list {
    struct uma_arena *arena;
    const char *prefix; /* only names that begin so */
    const char *names[LIST_MAX];
    size_t n;
};

static int add_name(void *userdata, const char *name) {
    struct name_list *list = userdata;
    if (strncmp(name, list->prefix, strlen(list->prefix)) != 0 || strlen(name) > NAME_MAX_LENGTH || list->n == LIST_MAX)
        return 0;
    const char *copy = uma_arena_strndup(list->arena, name, NAME_MAX_LENGTH);
    if (!copy)
        return -ENOMEM;
    list->names[list->n++] = copy;
    return 0;
}

/* "259:2" of a dev file. */
static bool read_device(struct reader *r, const char *path, uint32_t *ret_major, uint32_t *ret_minor) {
    return uma_root_read(r->root, path, NAME_MAX_LENGTH, &r->text, NULL) >= 0 && r->text.length > 0 &&
           uma_parse_device(r->text.data, r->text.data + r->text.length, ret_major, ret_minor);
}

/*
 * What starts the machine is not what models are read from. Memory, network and pseudo file systems have no disk here; btrfs has device
 * numbers of its own, so there the source's name tells.
 */
static bool mount_counts(const struct uma_mount *m) {
    return m->kind == UMA_FILESYSTEM_LOCAL && strncmp(m->point, "/boot", 5) != 0 && strncmp(m->point, "/snap/", 6) != 0;
}

static const struct uma_mount *mount_of(const struct uma_mounts *mounts, uint32_t major_number, uint32_t minor_number, const char *name) {
    const struct uma_mount *best = NULL;
    for (size_t i = 0; i < mounts->n; i++) {
        const struct uma_mount *m = &mounts->list[i];
        bool same = m->major == major_number && m->minor == minor_number;
        if (!same && m->major == 0 && m->source && strncmp(m->source, "/dev/", 5) == 0)
            same = strcmp(m->source + 5, name) == 0;
        if (same && mount_counts(m) && (!best || strlen(m->point) < strlen(best->point)))
            best = m;
    }
    return best;
}

/* What the disk itself or one of its partitions is mounted as, the shortest; NULL when nothing of it is. */
static int mount_of_disk(struct reader *r, const struct uma_mounts *mounts, const char *disk, struct name_list *parts,
                         const struct uma_mount **ret_mount, struct uma_error *err) {
    char path[256];
    uint32_t major_number, minor_number;
    const struct uma_mount *best = NULL;
    (void)snprintf(path, sizeof path, "sys/block/%s/dev", disk);
    if (read_device(r, path, &major_number, &minor_number))
        best = mount_of(mounts, major_number, minor_number, disk);
    (void)snprintf(path, sizeof path, "sys/block/%s", disk);
    *parts = (struct name_list){ .arena = r->arena, .prefix = disk };
    if (uma_root_list(r->root, path, LIST_MAX, add_name, parts, err) == -ENOMEM)
        return uma_error_set(err, ENOMEM, "reading %s", path);
    for (size_t i = 0; i < parts->n; i++) {
        (void)snprintf(path, sizeof path, "sys/block/%s/%s/dev", disk, parts->names[i]);
        const struct uma_mount *m =
            read_device(r, path, &major_number, &minor_number) ? mount_of(mounts, major_number, minor_number, parts->names[i]) : NULL;
        if (m && (!best || strlen(m->point) < strlen(best->point)))
            best = m;
    }
    *ret_mount = best;
    return 0;
}

/*
 * A capture has of the mount table what its other readers need (cgroup_mount.c), not where everything lies on this machine: the lines that say which disk is
 * mounted where are kept beside it, in the same form.
 */
static const char mounts_record[] = "umactl/mountinfo";

static void escape(struct uma_text *text, const char *s) {
    for (; *s; s++)
        if (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\\')
            uma_text_printf(text, "\\%03o", (unsigned)*s);
        else
            uma_text_char(text, *s);
}

static void mount_line(struct uma_text *lines, const struct uma_mount *m) {
    uma_text_printf(lines, "%d 1 %u:%u / ", (int)m->id, m->major, m->minor);
    escape(lines, m->point);
    uma_text_append(lines, " rw - ");
    escape(lines, m->type);
    uma_text_char(lines, ' ');
    escape(lines, m->source && *m->source ? m->source : "none");
    uma_text_append(lines, " rw\n");
}

static int mounts_read(struct reader *r, struct uma_mounts *ret_mounts, struct uma_error *err) {
    if (!uma_root_is_live(r->root) && uma_root_read_unrecorded(r->root, mounts_record, MOUNTS_BYTES_MAX, &r->text, NULL) >= 0)
        return uma_mounts_parse(r->text.data ? r->text.data : "", r->text.length, mounts_record, r->arena, ret_mounts, err);
    return uma_mounts_read(r->root, 0, r->arena, ret_mounts, err);
}

static void read_zram(struct reader *r, const char *name, struct uma_tuning *t) {
    char path[256];
    uint64_t stored, used;
    (void)snprintf(path, sizeof path, "sys/block/%s/mm_stat", name);
    struct uma_zram *z = &t->zrams[t->n_zrams++];
    z->name = name;
    int e = uma_root_read(r->root, path, SETTING_BYTES_MAX, &r->text, NULL);
    enum uma_validity why = e < 0 ? uma_validity_of_errno(e) : UMA_MALFORMED;
    bool known = e >= 0 && r->text.data && uma_zram_stat_parse(r->text.data, r->text.length, &stored, &used);
    z->stored = known ? uma_known_u64(stored) : uma_no_u64(why);
    z->memory_used = known ? uma_known_u64(used) : uma_no_u64(why);
}

static int read_disk(struct reader *r, const struct uma_mounts *mounts, const char *name, struct name_list *parts, struct uma_tuning *t,
                     struct uma_text *lines, struct uma_error *err) {
    char path[256];
    const struct uma_mount *mount = NULL;
    int e = mount_of_disk(r, mounts, name, parts, &mount, err);
    if (e < 0 || !mount)
        return e;
    struct uma_disk disk = { .name = name, .mount = mount->point };
    mount_line(lines, mount);
    (void)snprintf(path, sizeof path, "sys/block/%s/queue/read_ahead_kb", name);
    disk.read_ahead = read_number(r, path);
    if (disk.read_ahead.validity == UMA_KNOWN && disk.read_ahead.value <= UMA_COUNT_MAX / 1024)
        disk.read_ahead.value *= 1024;
    else if (disk.read_ahead.validity == UMA_KNOWN)
        disk.read_ahead = uma_no_u64(UMA_MALFORMED);
    (void)snprintf(path, sizeof path, "sys/block/%s/queue/rotational", name);
    disk.rotational = read_truth(r, path);
    t->disks[t->n_disks++] = disk;
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_disks(struct reader *r, struct uma_tuning *t, struct uma_error *err) {
    struct uma_mounts mounts = { 0 };
    struct name_list *lists = uma_arena_array(r->arena, 2, sizeof *lists);
    t->disks = uma_arena_array(r->arena, UMA_DISKS_MAX, sizeof *t->disks);
    t->zrams = uma_arena_array(r->arena, UMA_ZRAMS_MAX, sizeof *t->zrams);
    if (!lists || !t->disks || !t->zrams)
        return uma_error_set(err, ENOMEM, "reading the disks");
    struct name_list *names = &lists[0], *parts = &lists[1];
    *names = (struct name_list){ .arena = r->arena, .prefix = "" };
    int e = uma_root_list(r->root, "sys/block", LIST_MAX, add_name, names, NULL);
    if (e == -ENOMEM)
        return uma_error_set(err, ENOMEM, "reading the disks");
    t->disks_validity = e < 0 ? uma_validity_of_errno(e) : UMA_KNOWN;
    if (e < 0)
        return 0;
    e = mounts_read(r, &mounts, NULL);
    if (e == -ENOMEM)
        return uma_error_set(err, ENOMEM, "reading the mounts");
    if (e < 0)
        t->disks_validity = uma_validity_of_errno(e);
    _cleanup_text_ struct uma_text lines = { 0 };
    qsort(names->names, names->n, sizeof names->names[0], by_name); /* the file system's order is nobody's */
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->names[i];
        if (strncmp(name, "zram", 4) == 0) {
            if (t->n_zrams < UMA_ZRAMS_MAX)
                read_zram(r, name, t);
        } else if (strncmp(name, "loop", 4) != 0 && strncmp(name, "ram", 3) != 0 && t->n_disks < UMA_DISKS_MAX) {
            e = read_disk(r, &mounts, name, parts, t, &lines, err);
            if (e < 0)
                return e;
        }
    }
    if (lines.failed)
        return uma_error_set(err, ENOMEM, "reading the disks");
    return uma_root_record(r->root, mounts_record, lines.data ? lines.data : "", lines.length, err);
}

int uma_tuning_read(struct uma_root *root, struct uma_arena *arena, struct uma_tuning *ret_tuning, struct uma_error *err) {
    struct reader reader = { .root = root, .arena = arena };
    struct uma_tuning tuning = { 0 };
    int e = read_single_files(&reader, &tuning, err);
    if (e >= 0)
        e = read_disks(&reader, &tuning, err);
    uma_text_done(&reader.text);
    if (e < 0)
        return e;
    *ret_tuning = tuning;
    return 0;
}
