/* SPDX-License-Identifier: MIT */
/*
 * A line of maps (fs/proc/task_mmu.c, show_vma_header_prefix and show_map_vma):
 *   START-END rwxp OFFSET MAJOR:MINOR INODE   NAME
 * numbers hexadecimal but for the inode; spaces up to a column, then the name to the end of the line. A name that begins with '/' is a path (d_path); all others
 * are the kernel's words, or a program's in brackets. Only newlines of a path are escaped, as \012 (seq_path(m, path, "\n")); backslashes are not, so a name that really
 * holds "\012" reads as a newline: whoever opens by a path must check what it got.
 */
#include "observe/files/maps.h"

#include "base/text.h"
#include "base/units.h"
#include "observe/lines.h"

#include <limits.h>
#include <string.h>

/* Hexadecimal, at most `most` digits, then `after`; the first character behind that, or NULL. */
static const char *hexadecimal(const char *s, const char *end, unsigned most, char after, uint64_t *ret_value) {
    uint64_t value = 0;
    unsigned digits = 0;
    for (; s && s < end; s++, digits++) {
        unsigned digit;
        if (*s >= '0' && *s <= '9')
            digit = (unsigned)(*s - '0');
        else if (*s >= 'a' && *s <= 'f')
            digit = (unsigned)(*s - 'a') + 10;
        else
            break;
        if (digits == most)
            return NULL;
        value = value << 4 | digit;
    }
    if (!s || s >= end || digits == 0 || *s != after)
        return NULL;
    *ret_value = value;
    return s + 1;
}

/* "rw-p " */
static const char *permissions(const char *s, const char *end, struct uma_mapping *m) {
    if (!s || end - s < 5 || s[4] != ' ' || (s[0] != 'r' && s[0] != '-') || (s[1] != 'w' && s[1] != '-') || (s[2] != 'x' && s[2] != '-') ||
        (s[3] != 's' && s[3] != 'p'))
        return NULL;
    m->readable = s[0] == 'r';
    m->writable = s[1] == 'w';
    m->executable = s[2] == 'x';
    m->shared = s[3] == 's';
    return s + 5;
}

int uma_maps_line(const char *line, const char *end, struct uma_mapping *ret_mapping, const char **ret_path, size_t *ret_path_length) {
    struct uma_mapping m = { 0 };
    uint64_t major_number = 0, minor_number = 0;
    const char *s = hexadecimal(line, end, 16, '-', &m.start);
    s = hexadecimal(s, end, 16, ' ', &m.end);
    s = permissions(s, end, &m);
    s = hexadecimal(s, end, 16, ' ', &m.offset);
    s = hexadecimal(s, end, 8, ':', &major_number);
    s = hexadecimal(s, end, 8, ' ', &minor_number);
    s = s ? uma_parse_u64(s, end, &m.inode) : NULL;
    if (!s || m.start >= m.end || (s < end && *s != ' '))
        return -EINVAL;
    m.major = (uint32_t)major_number;
    m.minor = (uint32_t)minor_number;
    while (s < end && *s == ' ')
        s++;
    if (s == end || *s != '/')
        return 0;
    size_t n = (size_t)(end - s), suffix = sizeof(UMA_DELETED_SUFFIX) - 1;
    if (n > suffix && memcmp(end - suffix, UMA_DELETED_SUFFIX, suffix) == 0) {
        m.deleted = true;
        n -= suffix;
    }
    if (memchr(s, '\0', n))
        return -EINVAL;
    *ret_mapping = m;
    *ret_path = s;
    *ret_path_length = n;
    return 1;
}

size_t uma_maps_unescape(const char *path, size_t n, char *into) {
    size_t length = 0;
    for (size_t i = 0; i < n;) {
        bool newline = path[i] == '\\' && n - i >= 4 && memcmp(path + i, "\\012", 4) == 0;
        into[length++] = newline ? '\n' : path[i];
        i += newline ? 4 : 1;
    }
    into[length] = '\0';
    return length;
}

/* Mappings while their number is not known. Those of one file follow one another: they share the copy of its path. */
struct growing {
    struct uma_mapping *list;
    size_t n, capacity;
    const char *raw; /* of the last path, in the text */
    size_t raw_length;
};

static int add(struct growing *g, struct uma_mapping *m, const char *path, size_t n, struct uma_arena *arena) {
    if (g->n == g->capacity) {
        size_t capacity = g->capacity ? g->capacity * 2 : 64;
        struct uma_mapping *list = realloc(g->list, capacity * sizeof(*list));
        if (!list)
            return -ENOMEM;
        g->list = list;
        g->capacity = capacity;
    }
    if (g->n > 0 && g->raw_length == n && memcmp(g->raw, path, n) == 0)
        m->path = g->list[g->n - 1].path;
    else {
        char *copy = uma_arena_alloc(arena, n + 1);
        if (!copy)
            return -ENOMEM;
        (void)uma_maps_unescape(path, n, copy);
        m->path = copy;
    }
    g->raw = path;
    g->raw_length = n;
    g->list[g->n++] = *m;
    return 0;
}

int uma_maps_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, size_t *ret_n,
                   struct uma_mapping **ret_mappings, struct uma_error *err) {
    struct growing g = { 0 };
    size_t foreign = 0;
    int r = 0;
    for (const char *s = text, *end = text + length; s < end && r >= 0;) {
        const char *stop = uma_line_end(s, end), *path = NULL;
        struct uma_mapping m;
        size_t n = 0;
        r = stop == end ? -EINVAL : uma_maps_line(s, stop, &m, &path, &n);
        if (r < 0 || (r > 0 && g.n == UMA_MAPPINGS_MAX)) {
            foreign++;
            r = 0;
        } else if (r > 0)
            r = add(&g, &m, path, n, arena);
        s = stop + 1;
    }
    _cleanup_free_
    struct uma_mapping *list = g.list;
    struct uma_mapping *copy = r < 0 ? NULL : uma_arena_array(arena, g.n, sizeof(*copy));
    if (!copy)
        return uma_error_set(err, ENOMEM, "%s", file);
    if (g.n > 0)
        (void)memcpy(copy, list, g.n * sizeof(*copy));
    *ret_n = g.n;
    *ret_mappings = copy;
    return foreign > INT_MAX ? INT_MAX : (int)foreign;
}

int uma_maps_read(struct uma_root *root, pid_t pid, struct uma_arena *arena, size_t *ret_n, struct uma_mapping **ret_mappings,
                  struct uma_error *err) {
    char path[32] = "proc/self/maps";
    if (pid != 0)
        (void)snprintf(path, sizeof(path), "proc/%d/maps", (int)pid);
    _cleanup_text_ struct uma_text text = { 0 };
    int cut = uma_root_read_unrecorded(root, path, UMA_MAPS_BYTES_MAX, &text, err);
    if (cut == -ENOENT && uma_root_is_live(root))
        return uma_error_set(err, ESRCH, "%s/%s", uma_root_name(root), path);
    if (cut < 0)
        return cut;
    int r = uma_maps_parse(text.data, text.length, path, arena, ret_n, ret_mappings, err);
    return cut > 0 && r == 0 ? 1 : r; /* a text cut behind a newline has no line that shows it */
}

/* "key:\tvalue" at the start of a line (fs/proc/fd.c, seq_show): where the value begins, NULL when it is another. */
static const char *value_of(const char *s, const char *end, const char *key) {
    size_t n = strlen(key);
    return uma_starts_with(s, end, key, n) ? uma_skip_blanks(s + n, end) : NULL;
}

/* Octal with a leading 0: the kernel's "0%o". */
static bool octal(const char *s, const char *end, uint32_t *ret_value) {
    uint32_t value = 0;
    if (s == end)
        return false;
    for (; s < end; s++) {
        if (*s < '0' || *s > '7' || value > UINT32_MAX >> 3)
            return false;
        value = value << 3 | (uint32_t)(*s - '0');
    }
    *ret_value = value;
    return true;
}

int uma_fdinfo_parse(const char *text, size_t length, struct uma_fdinfo *ret_info) {
    struct uma_fdinfo info = { .mount_id = -1 };
    bool has_position = false, has_flags = false;
    struct uma_lines lines = uma_lines_of(text, length);
    /* The file system or driver may add lines of its own behind these four, which then say something else: each is taken once. */
    bool has_mount = false, has_inode = false;
    while (uma_lines_next(&lines) && lines.whole) {
        const char *value;
        uint64_t number;
        if (!has_position && (value = value_of(lines.line, lines.stop, "pos:")))
            has_position = uma_whole_u64(value, lines.stop, &info.position);
        else if (!has_flags && (value = value_of(lines.line, lines.stop, "flags:")))
            has_flags = octal(value, lines.stop, &info.flags);
        else if (!has_mount && (value = value_of(lines.line, lines.stop, "mnt_id:"))) {
            has_mount = uma_whole_u64(value, lines.stop, &number) && number <= INT32_MAX;
            info.mount_id = has_mount ? (int32_t)number : -1;
        } else if (!has_inode && (value = value_of(lines.line, lines.stop, "ino:"))) {
            const char *stop = uma_parse_u64(value, lines.stop, &number);
            has_inode = stop && stop == lines.stop;
            info.inode = has_inode ? number : 0;
            break; /* the last of the generic ones */
        }
    }
    if (!has_position || !has_flags)
        return -EINVAL;
    *ret_info = info;
    return 0;
}
