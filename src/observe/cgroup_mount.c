/* SPDX-License-Identifier: MIT */
/* Where the cgroup hierarchies with memory are mounted, and which part of the tree such a mount shows. */
#include "observe/cgroup.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "observe/lines.h"
#include "observe/mountinfo.h"

#include <errno.h>
#include <string.h>

/* A host with hundreds of containers has some hundred kB of mounts; cgroups are mounted first and stand at the top. */
enum { MOUNTS_MAX = 1024 * 1024 };

static char *unescape(struct uma_mount_field field) {
    char *out = malloc(field.n + 1);
    if (out)
        (void)uma_mount_unescape(field, out);
    return out;
}

static bool climbs(const char *path) {
    for (const char *at = strstr(path, ".."); at; at = strstr(at + 2, ".."))
        if ((at == path || at[-1] == '/') && (at[2] == '\0' || at[2] == '/'))
            return true;
    return false;
}

static void mount_done(struct uma_cgroup_mount *mount) {
    free(mount->base);
    free(mount->inner);
    *mount = (struct uma_cgroup_mount){ 0 };
}

void uma_cgroup_mounts_done(struct uma_cgroup_mounts *mounts) {
    mount_done(&mounts->memory_v1);
    mount_done(&mounts->unified);
}

/* The usual place wins over others: container tools bind the same tree to further places. */
static int take(struct uma_cgroup_mount *mount, const struct uma_mount_line *line) {
    static const char usual[] = "/sys/fs/cgroup";
    bool here = line->point.n >= sizeof(usual) - 1 && memcmp(line->point.s, usual, sizeof(usual) - 1) == 0;
    bool had = mount->base && strncmp(mount->base, usual + 1, sizeof(usual) - 2) == 0;
    if (mount->base && (had || !here))
        return 0;
    _cleanup_free_
    char *point = unescape(line->point), *inner = unescape(line->root);
    if (!point || !inner)
        return -ENOMEM;
    if (point[0] != '/' || inner[0] != '/' || climbs(point))
        return 0;
    char *base = strdup(point + 1);
    if (!base)
        return -ENOMEM;
    mount_done(mount);
    mount->base = base;
    mount->inner = TAKE_PTR(inner);
    return 0;
}

int uma_cgroup_mounts_parse(const char *text, size_t length, bool short_form, struct uma_cgroup_mounts *mounts) {
    uma_cgroup_mounts_done(mounts);
    for (const char *line = text, *end = text + length; line < end;) {
        const char *line_end = uma_line_end(line, end);
        struct uma_mount_line m;
        if (short_form ? uma_mounts_line(line, line_end, &m) : uma_mountinfo_line(line, line_end, &m)) {
            int r = uma_mount_field_is(m.type, "cgroup2") ? take(&mounts->unified, &m)
                    : uma_mount_field_is(m.type, "cgroup") && uma_list_has(m.options.s, m.options.s + m.options.n, "memory")
                        ? take(&mounts->memory_v1, &m)
                        : 0;
            if (r < 0)
                return r;
        }
        line = line_end + 1;
    }
    return mounts->memory_v1.base || mounts->unified.base ? 0 : -ENOENT;
}

/* Mount tables name users, servers and folders that are nobody's business in a capture: keep the cgroup lines. */
static void record_cgroup_lines(struct uma_root *root, const char *path, const struct uma_text *text) {
    _cleanup_text_ struct uma_text kept = { 0 };
    for (const char *line = text->data, *end = text->data + text->length; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *line_end = newline ? newline + 1 : end;
        if (memmem(line, (size_t)(line_end - line), " cgroup", 7))
            uma_text_append_n(&kept, line, (size_t)(line_end - line));
        line = line_end;
    }
    if (!kept.failed)
        (void)uma_root_record(root, path, kept.data ? kept.data : "", kept.length, NULL);
}

static void use_usual(struct uma_root *root, struct uma_cgroup_mount *mount, const char *base) {
    if (mount->base || !uma_root_exists(root, base))
        return;
    mount->base = strdup(base);
    mount->inner = strdup("/");
    if (!mount->base || !mount->inner)
        mount_done(mount);
}

void uma_cgroup_mounts_find(struct uma_root *root, struct uma_text *scratch, struct uma_cgroup_mounts *mounts) {
    static const struct {
        const char *path;
        bool short_form;
    } tables[] = { { "proc/self/mountinfo", false }, { "proc/mounts", true } };
    uma_cgroup_mounts_done(mounts);
    for (size_t i = 0; i < ELEMENTS(tables); i++) {
        if (uma_root_read_unrecorded(root, tables[i].path, MOUNTS_MAX, scratch, NULL) < 0 ||
            uma_cgroup_mounts_parse(scratch->data, scratch->length, tables[i].short_form, mounts) < 0)
            continue;
        record_cgroup_lines(root, tables[i].path, scratch);
        break;
    }
    /* a folder's table may be that of another view of the machine (a host's files bound into a container) */
    if (mounts->memory_v1.base && !uma_root_exists(root, mounts->memory_v1.base))
        mount_done(&mounts->memory_v1);
    if (mounts->unified.base && !uma_root_exists(root, mounts->unified.base))
        mount_done(&mounts->unified);
    if (mounts->memory_v1.base || mounts->unified.base)
        return;
    use_usual(root, &mounts->memory_v1, "sys/fs/cgroup/memory");
    use_usual(root, &mounts->unified, "sys/fs/cgroup/unified");
    use_usual(root, &mounts->unified, "sys/fs/cgroup");
}

const char *uma_cgroup_path_below(const struct uma_cgroup_mount *mount, const char *path) {
    if (!mount->base || path[0] != '/')
        return NULL;
    size_t n = strlen(mount->inner);
    while (n > 0 && mount->inner[n - 1] == '/')
        n--;
    if (strncmp(path, mount->inner, n) != 0 || (path[n] != '\0' && path[n] != '/'))
        return NULL;
    const char *below = path + n;
    if (climbs(below))
        return NULL;
    return strcmp(below, "/") == 0 ? "" : below;
}
