/* SPDX-License-Identifier: MIT */
#include "observe/files/mounts.h"

#include "base/units.h"
#include "observe/lines.h"
#include "observe/mountinfo.h"

#include <string.h>
#include <sys/sysmacros.h>

enum {
    TABLE_MAX = 64 << 20, /* UMA_MOUNTS_MAX overlays of 4 KiB of layers each */
    LAYERS_MAX = 4096,    /* of one overlay; fs/overlayfs/params.h allows 500 */
    COVERS_MAX = 64,      /* mounts on top of one another along one path that are told apart */
};

/*
 * Types by what touching a file of theirs means. Names as in /proc/filesystems and mount(8); local ones (ext4, xfs, btrfs, zfs, squashfs, erofs, vfat, ...)
 * are not listed, being what is left.
 */
enum uma_filesystem_kind uma_filesystem_kind_of(const char *type) {
    static const struct {
        const char *type;
        enum uma_filesystem_kind kind;
    } types[] = {
        { "tmpfs", UMA_FILESYSTEM_MEMORY },      { "ramfs", UMA_FILESYSTEM_MEMORY },
        { "rootfs", UMA_FILESYSTEM_MEMORY }, /* the initramfs */
        { "devtmpfs", UMA_FILESYSTEM_MEMORY },   { "hugetlbfs", UMA_FILESYSTEM_MEMORY },
        { "overlay", UMA_FILESYSTEM_OVERLAY },   { "overlayfs", UMA_FILESYSTEM_OVERLAY }, /* before it was merged */
        { "aufs", UMA_FILESYSTEM_OVERLAY },      { "nfs", UMA_FILESYSTEM_NETWORK },
        { "nfs4", UMA_FILESYSTEM_NETWORK },      { "cifs", UMA_FILESYSTEM_NETWORK },
        { "smb3", UMA_FILESYSTEM_NETWORK },      { "smbfs", UMA_FILESYSTEM_NETWORK },
        { "9p", UMA_FILESYSTEM_NETWORK },        { "afs", UMA_FILESYSTEM_NETWORK },
        { "coda", UMA_FILESYSTEM_NETWORK },      { "ncpfs", UMA_FILESYSTEM_NETWORK },
        { "ceph", UMA_FILESYSTEM_NETWORK },      { "lustre", UMA_FILESYSTEM_NETWORK },
        { "gpfs", UMA_FILESYSTEM_NETWORK },      { "beegfs", UMA_FILESYSTEM_NETWORK },
        { "fhgfs", UMA_FILESYSTEM_NETWORK },     { "wekafs", UMA_FILESYSTEM_NETWORK },
        { "panfs", UMA_FILESYSTEM_NETWORK },     { "orangefs", UMA_FILESYSTEM_NETWORK },
        { "pvfs2", UMA_FILESYSTEM_NETWORK },     { "gfs2", UMA_FILESYSTEM_NETWORK },   /* a lock of another node is waited for */
        { "ocfs2", UMA_FILESYSTEM_NETWORK },     { "vboxsf", UMA_FILESYSTEM_NETWORK }, /* the host of a virtual machine answers */
        { "prl_fs", UMA_FILESYSTEM_NETWORK },    { "virtiofs", UMA_FILESYSTEM_FUSE },
        { "fuse", UMA_FILESYSTEM_FUSE },         { "fuseblk", UMA_FILESYSTEM_FUSE },
        { "autofs", UMA_FILESYSTEM_PSEUDO }, /* looking into it mounts something */
        { "proc", UMA_FILESYSTEM_PSEUDO },       { "sysfs", UMA_FILESYSTEM_PSEUDO },
        { "cgroup", UMA_FILESYSTEM_PSEUDO },     { "cgroup2", UMA_FILESYSTEM_PSEUDO },
        { "cpuset", UMA_FILESYSTEM_PSEUDO },     { "devpts", UMA_FILESYSTEM_PSEUDO },
        { "mqueue", UMA_FILESYSTEM_PSEUDO },     { "bpf", UMA_FILESYSTEM_PSEUDO },
        { "debugfs", UMA_FILESYSTEM_PSEUDO },    { "tracefs", UMA_FILESYSTEM_PSEUDO },
        { "securityfs", UMA_FILESYSTEM_PSEUDO }, { "selinuxfs", UMA_FILESYSTEM_PSEUDO },
        { "smackfs", UMA_FILESYSTEM_PSEUDO },    { "apparmorfs", UMA_FILESYSTEM_PSEUDO },
        { "configfs", UMA_FILESYSTEM_PSEUDO },   { "pstore", UMA_FILESYSTEM_PSEUDO },
        { "efivarfs", UMA_FILESYSTEM_PSEUDO },   { "binfmt_misc", UMA_FILESYSTEM_PSEUDO },
        { "fusectl", UMA_FILESYSTEM_PSEUDO },    { "nsfs", UMA_FILESYSTEM_PSEUDO },
        { "pidfs", UMA_FILESYSTEM_PSEUDO },      { "pipefs", UMA_FILESYSTEM_PSEUDO },
        { "sockfs", UMA_FILESYSTEM_PSEUDO },     { "rpc_pipefs", UMA_FILESYSTEM_PSEUDO },
        { "nfsd", UMA_FILESYSTEM_PSEUDO },       { "resctrl", UMA_FILESYSTEM_PSEUDO },
        { "binder", UMA_FILESYSTEM_PSEUDO },     { "functionfs", UMA_FILESYSTEM_PSEUDO },
        { "xenfs", UMA_FILESYSTEM_PSEUDO },
    };
    for (size_t i = 0; i < ELEMENTS(types); i++)
        if (strcmp(type, types[i].type) == 0)
            return types[i].kind;
    return strncmp(type, "fuse.", 5) == 0 ? UMA_FILESYSTEM_FUSE : UMA_FILESYSTEM_LOCAL; /* "fuse.sshfs" */
}

/* ---- one line ---- */

static const char *text_of(struct uma_arena *arena, struct uma_mount_field field) {
    char *text = uma_arena_alloc(arena, field.n + 1);
    if (text)
        (void)uma_mount_unescape(field, text);
    return text;
}

static bool number(struct uma_mount_field field, uint64_t max, uint64_t *ret_value) {
    const char *end = field.s + field.n;
    uint64_t v;
    if (uma_parse_u64(field.s, end, &v) != end || v > max)
        return false;
    *ret_value = v;
    return true;
}

static bool numbers(const struct uma_mount_line *line, struct uma_mount *mount) {
    const char *end = line->device.s + line->device.n;
    uint64_t id, parent;
    if (!number(line->id, INT32_MAX, &id) || !number(line->parent, INT32_MAX, &parent) ||
        uma_parse_device(line->device.s, end, &mount->major, &mount->minor) != end)
        return false;
    mount->id = (int32_t)id;
    mount->parent = (int32_t)parent;
    return true;
}

/* The next word of a comma-separated list; a comma within a name is \054 or, before 4.4, "\,". */
static bool next_option(const char **at, const char *end, struct uma_mount_field *ret_option) {
    if (*at >= end)
        return false;
    const char *s = *at;
    while (s < end && *s != ',')
        s += *s == '\\' && s + 1 < end && s[1] == ',' ? 2 : 1;
    *ret_option = (struct uma_mount_field){ *at, (size_t)(s - *at) };
    *at = s < end ? s + 1 : end;
    return true;
}

static bool value_of(struct uma_mount_field option, const char *key, struct uma_mount_field *ret_value) {
    size_t n = strlen(key);
    if (option.n <= n || memcmp(option.s, key, n) != 0 || option.s[n] != '=')
        return false;
    *ret_value = (struct uma_mount_field){ option.s + n + 1, option.n - n - 1 };
    return true;
}

static bool is_single_layer(struct uma_mount_field option, struct uma_mount_field *ret_value) {
    return value_of(option, "lowerdir+", ret_value) || value_of(option, "datadir+", ret_value);
}

/*
 * Cut a text of layers in place: ':' between two, "::" before data-only ones, and a backslash before what is meant as it is
 * (Documentation/filesystems/overlayfs.rst).
 */
static uint32_t cut_layers(char *text, const char **layers, uint32_t room) {
    uint32_t n = 0;
    for (char *in = text, *out = text, *start = text;; in++) {
        if (*in == '\\' && in[1]) {
            *out++ = *++in;
        } else if (*in && *in != ':') {
            *out++ = *in;
        } else {
            bool last = !*in;
            *out++ = '\0'; /* never beyond `in` */
            if (*start && n < room)
                layers[n++] = start;
            if (last)
                return n;
            start = out = in + 1;
        }
    }
}

/* How many layers there are at most. */
static size_t layers_in(struct uma_mount_field options) {
    size_t n = 0;
    struct uma_mount_field option, value;
    for (const char *at = options.s, *end = at + options.n; next_option(&at, end, &option);) {
        n += is_single_layer(option, &value);
        if (value_of(option, "lowerdir", &value)) {
            n++;
            for (size_t i = 0; i < value.n; i++)
                n += value.s[i] == ':';
        }
    }
    return MIN_OF(n, (size_t)LAYERS_MAX);
}

static int overlay_layers(struct uma_mount_field options, struct uma_arena *arena, struct uma_mount *mount) {
    uint32_t room = (uint32_t)layers_in(options);
    const char **lower = uma_arena_array(arena, room, sizeof(*lower));
    if (!lower)
        return -ENOMEM;
    struct uma_mount_field option, value;
    for (const char *at = options.s, *end = at + options.n; next_option(&at, end, &option);) {
        bool several = value_of(option, "lowerdir", &value), upper = !several && value_of(option, "upperdir", &value);
        if (!several && !upper && !is_single_layer(option, &value))
            continue;
        char *text = uma_arena_alloc(arena, value.n + 1);
        if (!text)
            return -ENOMEM;
        (void)uma_mount_unescape(value, text);
        if (upper)
            mount->upper = text;
        else if (several)
            mount->n_lower += cut_layers(text, lower + mount->n_lower, room - mount->n_lower);
        else if (*text && mount->n_lower < room)
            lower[mount->n_lower++] = text;
    }
    mount->lower = lower;
    return 0;
}

/* 1: a mount; 0: not one; -ENOMEM. */
static int parse_line(const char *line, const char *end, struct uma_arena *arena, struct uma_mount *mount) {
    struct uma_mount_line l;
    *mount = (struct uma_mount){ 0 };
    if (memchr(line, '\0', (size_t)(end - line))) /* no name has one */
        return 0;
    if (!uma_mountinfo_line(line, end, &l) || !numbers(&l, mount) || l.point.n == 0 || l.point.s[0] != '/' || l.type.n == 0)
        return 0;
    mount->root = text_of(arena, l.root);
    mount->point = text_of(arena, l.point);
    mount->type = text_of(arena, l.type);
    mount->source = text_of(arena, l.source);
    if (!mount->root || !mount->point || !mount->type || !mount->source)
        return -ENOMEM;
    mount->kind = uma_filesystem_kind_of(mount->type);
    mount->read_only = uma_list_has(l.flags.s, l.flags.s + l.flags.n, "ro") || uma_list_has(l.options.s, l.options.s + l.options.n, "ro");
    int r = mount->kind == UMA_FILESYSTEM_OVERLAY ? overlay_layers(l.options, arena, mount) : 0;
    return r < 0 ? r : 1;
}

/* ---- the table ---- */

static size_t lines_in(const char *text, size_t length) {
    size_t n = 0;
    for (const char *s = text, *end = text + length; s < end && n < UMA_MOUNTS_MAX; s = uma_line_end(s, end) + 1)
        n++;
    return n;
}

int uma_mounts_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_mounts *ret_mounts,
                     struct uma_error *err) {
    struct uma_mounts mounts = { .list = uma_arena_array(arena, lines_in(text, length), sizeof(*mounts.list)) };
    if (!mounts.list)
        return uma_error_set(err, ENOMEM, "%s", file);
    int skipped = 0;
    unsigned number_of_line = 0, first_bad = 0;
    for (const char *line = text, *end = text + length; line < end;) {
        const char *stop = uma_line_end(line, end);
        number_of_line++;
        /* the last layer of a line without its newline may be half a name */
        bool room = stop < end && mounts.n < UMA_MOUNTS_MAX;
        int r = room ? parse_line(line, stop, arena, &mounts.list[mounts.n]) : 0;
        if (r < 0)
            return uma_error_set(err, -r, "%s:%u", file, number_of_line);
        if (r > 0) {
            mounts.n++;
        } else if (stop > line) {
            skipped += skipped < INT32_MAX;
            first_bad = first_bad ? first_bad : number_of_line;
        }
        line = stop + 1;
    }
    if (skipped > 0 && mounts.n == 0)
        return uma_error_text(err, EINVAL, "%s:%u: not a line of a mount table", file, first_bad);
    *ret_mounts = mounts;
    return skipped;
}

int uma_mounts_read(struct uma_root *root, pid_t pid, struct uma_arena *arena, struct uma_mounts *ret_mounts, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    char path[64] = "proc/self/mountinfo";
    if (pid != 0)
        (void)snprintf(path, sizeof(path), "proc/%d/mountinfo", (int)pid);
    int r = uma_root_read_unrecorded(root, path, TABLE_MAX, &text, err);
    return r < 0 ? r : uma_mounts_parse(text.data ? text.data : "", text.length, path, arena, ret_mounts, err);
}

/* ---- which mount ---- */

static bool lies_on(const char *path, const struct uma_mount *mount, size_t *ret_length) {
    size_t n = strlen(mount->point);
    while (n > 0 && mount->point[n - 1] == '/')
        n--;
    if (strncmp(path, mount->point, n) != 0 || (path[n] != '\0' && path[n] != '/'))
        return false;
    *ret_length = n;
    return true;
}

/* Those along the path, at most COVERS_MAX: each with the length of its point. */
struct cover {
    const struct uma_mount *mount;
    size_t length;
    bool used;
};

/*
 * The next mount of a walk along the path: of those on `parent` the first that is met, which has the shortest point; on the same point the last (the kernel
 * lists a mount after the one it was put on). With `parent` NULL the first of all: one whose parent this view does not show.
 */
static struct cover *next_cover(struct cover *covers, size_t n, const struct uma_mount *parent) {
    struct cover *best = NULL;
    for (size_t i = 0; i < n; i++) {
        struct cover *c = &covers[i];
        bool next = parent ? c->mount->parent == parent->id : true;
        for (size_t k = 0; !parent && next && k < n; k++)
            next = covers[k].mount->id != c->mount->parent || k == i; /* its own parent: the root of the first namespace */
        if (next && !c->used && (!best || c->length <= best->length))
            best = c;
    }
    return best;
}

const struct uma_mount *uma_mounts_of_path(const struct uma_mounts *mounts, const char *path) {
    struct cover covers[COVERS_MAX];
    const struct uma_mount *longest = NULL, *at = NULL;
    size_t n = 0, length, length_of_longest = 0;
    for (size_t i = 0; i < mounts->n; i++) {
        if (!lies_on(path, &mounts->list[i], &length))
            continue;
        if (n < COVERS_MAX)
            covers[n] = (struct cover){ &mounts->list[i], length, false };
        n++;
        if (!longest || length >= length_of_longest) {
            longest = &mounts->list[i];
            length_of_longest = length;
        }
    }
    if (n <= 1 || n > COVERS_MAX)
        return longest;
    for (struct cover *c; (c = next_cover(covers, n, at)); at = c->mount)
        c->used = true; /* a table may claim a circle */
    return at ? at : longest;
}

const struct uma_mount *uma_mounts_of_device(const struct uma_mounts *mounts, dev_t device) {
    const struct uma_mount *found = NULL;
    for (size_t i = 0; i < mounts->n; i++) {
        const struct uma_mount *m = &mounts->list[i];
        if (m->major != major(device) || m->minor != minor(device))
            continue;
        if (strcmp(m->root, "/") == 0)
            return m;
        found = found ? found : m;
    }
    return found;
}
