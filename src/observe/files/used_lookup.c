/* SPDX-License-Identifier: MIT */
/*
 * A descriptor's magic link leads to the file itself and walks no path; map_files does the same for mappings, but for root alone. A name is better to have, as it outlives
 * the process: it is looked up once, without following links, and taken when it is the same file.
 */
#include "observe/files/used_lookup.h"

#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

/* Different names in different views that are remembered; what is beyond is looked at each time. */
enum { KNOWN_MAX = 1 << 20 };
/* Identities of files that could not be looked at and whose device no table tells: no dev_t has this bit (include/linux/kdev_t.h: 32 bits). */
#define NO_DEVICE (UINT64_C(1) << 62)

void uma_used_lookup_done(struct uma_used_lookup *l) {
    uma_file_views_done(&l->views);
    uma_used_table_done(&l->table);
    l->keys = uma_arena_free(l->keys);
    uma_intern_done(&l->known);
    free(l->known_file);
    uma_text_done(&l->unescaped);
    uma_text_done(&l->path);
    uma_text_done(&l->key);
    uma_text_done(&l->shown);
}

/* ---- names that are left out -------------------------------------------------------------------------------------- */

/* By the name alone, before anything is asked: what is nearly all of a process's descriptors, and never a file with page cache. */
bool uma_used_is_uninteresting(const char *path) {
    if (path[0] != '/') /* socket:[1], pipe:[1], anon_inode:[eventpoll] */
        return true;
    if (uma_path_is_below(path, "/dev")) /* "/dev/zero (deleted)": shared memory without a name */
        return !uma_path_is_below(path, "/dev/shm") && !uma_path_is_below(path, "/dev/hugepages");
    return uma_path_is_below(path, "/proc") || uma_path_is_below(path, "/sys") || strcmp(path, "/[aio]" UMA_DELETED_SUFFIX) == 0 ||
           strcmp(path, "/[aio]") == 0 || strncmp(path, "/anon_hugepage", sizeof("/anon_hugepage") - 1) == 0;
}

/* ---- what is known already ---------------------------------------------------------------------------------------- */

/* The key of a name that this process uses. `by`: of fdinfo or of maps; `place` is their mount or device. */
static void make_key(struct uma_used_lookup *l, char by, uint64_t place, uint64_t inode, const char *path) {
    const uint64_t numbers[3] = { (uint64_t)l->view, place, inode };
    uma_text_reset(&l->key);
    uma_text_char(&l->key, by);
    uma_text_append_n(&l->key, (const char *)numbers, sizeof(numbers));
    uma_text_append(&l->key, path);
}

static bool find_known(const struct uma_used_lookup *l, int32_t *ret_number) {
    int32_t i = l->key.failed ? -1 : uma_intern_find(&l->known, l->key.data, l->key.length);
    if (i >= 0)
        *ret_number = l->known_file[i];
    return i >= 0;
}

/* Remembering saves time and nothing else: without room for it, all is looked at again. */
static void remember(struct uma_used_lookup *l, int32_t number) {
    if (l->key.failed)
        return;
    if (l->known.n == l->known_capacity) {
        size_t capacity = l->known_capacity ? l->known_capacity * 2 : 1024;
        int32_t *larger = realloc(l->known_file, capacity * sizeof(*larger));
        if (!larger)
            return;
        l->known_file = larger;
        l->known_capacity = capacity;
    }
    char *key = uma_arena_alloc(l->keys, l->key.length);
    if (!key)
        return;
    (void)memcpy(key, l->key.data, l->key.length);
    int32_t i = uma_intern_add(&l->known, key, l->key.length, KNOWN_MAX);
    if (i >= 0)
        l->known_file[i] = number;
}

static uint64_t hash_of(const char *text) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

/* ---- where a file can be reached ---------------------------------------------------------------------------------- */

/* A path that /proc showed, and what its file must be. */
struct named {
    const char *text; /* as shown, " (deleted)" and all */
    bool suffix;      /* it ends so */
    int view;
    const struct uma_mount *mount; /* NULL: not known */
    bool is_shm;
};

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* The path for opening: the inner path itself in this process's view, else below the process's root. */
static const char *reach_by_name(struct uma_used_lookup *l, const struct uma_file_view *view, const char *inner) {
    if (view->own)
        return inner;
    uma_text_reset(&l->path);
    uma_text_printf(&l->path, "/proc/%d/root%s", (int)l->pid, inner);
    return l->path.failed ? inner : l->path.data;
}

/* The inner path, less the suffix: for people. */
static const char *show(struct uma_used_lookup *l, const struct uma_file_view *view, const struct named *named) {
    const char *inner = uma_file_view_inner(view, named->text);
    uma_text_reset(&l->shown);
    uma_text_append_n(&l->shown, inner ? inner : named->text,
                      strlen(inner ? inner : named->text) - (named->suffix ? sizeof(UMA_DELETED_SUFFIX) - 1 : 0));
    return l->shown.failed ? named->text : l->shown.data;
}

static struct uma_used_file file_of(const struct uma_used_lookup *l, const struct named *named) {
    return (struct uma_used_file){
        .pid = l->pid,
        .other_view = !l->views.list[named->view]->own,
        .mount = named->mount,
        .mount_id = named->mount ? named->mount->id : -1,
        .kind = named->is_shm  ? UMA_FILESYSTEM_MEMORY
                : named->mount ? named->mount->kind
                               : UMA_FILESYSTEM_LOCAL,
    };
}

/* Put a file that `st` is known of: by its name when that leads to it (`by_name`), else by the magic link `magic`. */
static int32_t put_looked_at(struct uma_used_lookup *l, const struct named *named, const struct stat *st, bool by_name, const char *magic,
                             enum uma_used_way magic_way) {
    const struct uma_file_view *view = l->views.list[named->view];
    struct uma_used_file file = file_of(l, named);
    file.device = st->st_dev;
    file.inode = st->st_ino;
    file.size = st->st_size > 0 ? (uint64_t)st->st_size : 0;
    file.looked_at = true;
    if (by_name) {
        file.shown = uma_file_view_inner(view, named->text);
        file.path = reach_by_name(l, view, file.shown);
        return uma_used_table_put(&l->table, st->st_dev, st->st_ino, &file, view->own ? UMA_USED_BY_NAME : UMA_USED_BY_VIEW);
    }
    file.shown = show(l, view, named);
    file.path = magic;
    file.deleted = st->st_nlink == 0;
    return uma_used_table_put(&l->table, st->st_dev, st->st_ino, &file, magic_way);
}

/* Put a file that must not, or cannot, be looked at. `magic`: NULL where it has a name. */
static int32_t put_numbers(struct uma_used_lookup *l, const struct named *named, uint64_t device, uint64_t inode, uint64_t key_device,
                           bool may_hang, const char *magic) {
    const struct uma_file_view *view = l->views.list[named->view];
    struct uma_used_file file = file_of(l, named);
    file.device = device;
    file.inode = inode;
    file.may_hang = may_hang;
    file.deleted = named->suffix;
    file.shown = show(l, view, named);
    const char *inner = uma_file_view_inner(view, named->text);
    file.path = magic && (named->suffix || !inner) ? magic : inner ? reach_by_name(l, view, file.shown) : file.shown;
    /* before 5.14 fdinfo has no inode: then the name must do */
    return uma_used_table_put(&l->table, key_device, inode ? inode : hash_of(named->text), &file, UMA_USED_BY_NUMBERS);
}

/* ---- descriptors -------------------------------------------------------------------------------------------------- */

/* A descriptor that leads to a path not seen before. */
static int32_t resolve_open(struct uma_used_lookup *l, int descriptors, const char *number, const char *text,
                            const struct uma_fdinfo *info) {
    struct named named = { .text = text, .suffix = uma_ends_with(text, UMA_DELETED_SUFFIX), .view = l->view };
    named.mount = uma_file_views_mount(&l->views, l->view, info->mount_id, &named.view);
    named.is_shm = !named.mount && l->shm_mount >= 0 && info->mount_id == l->shm_mount;
    if (named.mount && named.mount->kind == UMA_FILESYSTEM_PSEUDO)
        return UMA_USED_NOT_A_FILE;
    char magic[48];
    (void)snprintf(magic, sizeof(magic), "/proc/%d/fd/%.20s", (int)l->pid, number);
    if (named.mount ? uma_mount_may_hang(named.mount) : !named.is_shm) {
        uint64_t device = named.mount ? makedev(named.mount->major, named.mount->minor) : 0;
        return put_numbers(l, &named, device, info->inode, device ? device : NO_DEVICE | (uint32_t)info->mount_id, true, magic);
    }
    struct stat st, by_name;
    if (fstatat(descriptors, number, &st, 0) < 0)
        return UMA_USED_GONE;
    if (!S_ISREG(st.st_mode))
        return UMA_USED_NOT_A_FILE;
    const struct uma_file_view *view = l->views.list[named.view];
    const char *inner = uma_file_view_inner(view, text);
    /* through this process's root only into its own view: of a descriptor that was passed on the name is tried here or not at all */
    bool same = st.st_nlink > 0 && inner && (view->own || named.view == l->view) && uma_file_view_stat(view, l->folder, inner, &by_name) &&
                is_same(&st, &by_name);
    return put_looked_at(l, &named, &st, same, magic, UMA_USED_BY_OPEN);
}

int32_t uma_used_lookup_open(struct uma_used_lookup *l, int descriptors, const char *number, const char *text,
                             const struct uma_fdinfo *info) {
    /* before 5.14 fdinfo has no inode: then all deleted files of a name, and all memfds, look the same */
    bool by_key = info->inode != 0 || !uma_ends_with(text, UMA_DELETED_SUFFIX);
    int32_t file;
    make_key(l, 'o', (uint64_t)(uint32_t)info->mount_id, info->inode, text);
    if (by_key && find_known(l, &file))
        return file;
    file = resolve_open(l, descriptors, number, text, info);
    if (by_key && file != UMA_USED_GONE)
        remember(l, file);
    return file;
}

/* ---- mappings ----------------------------------------------------------------------------------------------------- */

/* stat(2) of a file on it may say another device than maps: btrfs has one for each subvolume, overlayfs one for each layer. */
static bool has_other_devices(const struct uma_mount *mount) {
    return mount->kind == UMA_FILESYSTEM_OVERLAY || strcmp(mount->type, "btrfs") == 0;
}

static bool is_mapped_file(const struct uma_mapping *m, const struct uma_mount *mount, const struct stat *st) {
    return st->st_ino == m->inode && (st->st_dev == makedev(m->major, m->minor) || has_other_devices(mount));
}

/* A mapping of a name not seen before; `text` as maps has it, unescaped, with its suffix. */
static int32_t resolve_mapped(struct uma_used_lookup *l, const struct uma_mapping *m, const char *text) {
    const struct uma_file_view *view = l->views.list[l->view];
    const dev_t device = makedev(m->major, m->minor);
    struct named named = { .text = text, .suffix = m->deleted, .view = l->view };
    named.is_shm = l->shm_mount >= 0 && device == l->shm_device;
    const char *inner = named.is_shm ? NULL : uma_file_view_inner(view, text);
    const struct uma_mount *on = inner ? uma_mounts_of_path(&view->mounts, inner) : NULL;
    if (!named.is_shm)
        named.mount = on && makedev(on->major, on->minor) == device ? on : uma_file_views_device(&l->views, l->view, device);
    if (named.mount && named.mount->kind == UMA_FILESYSTEM_PSEUDO)
        return UMA_USED_NOT_A_FILE;
    char magic[80];
    (void)snprintf(magic, sizeof(magic), "/proc/%d/map_files/%llx-%llx", (int)l->pid, (unsigned long long)m->start,
                   (unsigned long long)m->end);
    bool may_hang = named.mount && uma_mount_may_hang(named.mount);
    struct stat st;
    if (!may_hang && on && uma_file_view_stat(view, l->folder, inner, &st) && is_mapped_file(m, on, &st)) {
        named.mount = on;
        return S_ISREG(st.st_mode) ? put_looked_at(l, &named, &st, true, NULL, UMA_USED_BY_NAME) : UMA_USED_NOT_A_FILE;
    }
    if (!may_hang && (named.mount || named.is_shm)) {
        if (fstatat(AT_FDCWD, magic, &st, 0) == 0)
            return S_ISREG(st.st_mode) ? put_looked_at(l, &named, &st, false, magic, UMA_USED_BY_MAPPING) : UMA_USED_NOT_A_FILE;
        if (errno == ENOENT || errno == ESRCH)
            return UMA_USED_GONE;
    }
    may_hang |= !named.mount && !named.is_shm;
    return put_numbers(l, &named, device, m->inode, device ? device : NO_DEVICE, may_hang, magic);
}

int32_t uma_used_lookup_mapping(struct uma_used_lookup *l, const struct uma_mapping *m, const char *raw, size_t n) {
    uma_text_reset(&l->unescaped);
    if (!uma_text_reserve(&l->unescaped, n + sizeof(UMA_DELETED_SUFFIX)))
        return UMA_USED_GONE;
    l->unescaped.length = uma_maps_unescape(raw, n, l->unescaped.data);
    if (m->deleted)
        uma_text_append(&l->unescaped, UMA_DELETED_SUFFIX);
    const char *text = l->unescaped.data;
    int32_t file;
    if (uma_used_is_uninteresting(text))
        return UMA_USED_NOT_A_FILE;
    make_key(l, 'm', makedev(m->major, m->minor), m->inode, text);
    if (!find_known(l, &file)) {
        file = resolve_mapped(l, m, text);
        if (file != UMA_USED_GONE)
            remember(l, file);
    }
    return file;
}
