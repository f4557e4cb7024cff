/* SPDX-License-Identifier: MIT */
#include "observe/files/locked.h"

#include "base/text.h"
#include "observe/files/maps.h"
#include "observe/lines.h"

#include <stdio.h>
#include <string.h>

/* /proc/PID/status is some 1.5 KiB. */
enum { STATUS_MAX = 16384 };

struct growing {
    struct uma_locked_file *list;
    size_t n, capacity;
};

static int add(struct growing *g, const struct uma_mapping *m, uint64_t bytes) {
    struct uma_locked_file *last = g->n > 0 ? &g->list[g->n - 1] : NULL;
    if (last && last->inode == m->inode && last->major == m->major && last->minor == m->minor) {
        last->bytes += MIN_OF(bytes, UINT64_MAX - last->bytes);
        return 0;
    }
    if (!g->list || g->n == g->capacity) {
        size_t capacity = g->capacity ? g->capacity * 2 : 16;
        struct uma_locked_file *list = reallocarray(g->list, capacity, sizeof(*list));
        if (!list)
            return -ENOMEM;
        g->list = list;
        g->capacity = capacity;
    }
    g->list[g->n++] = (struct uma_locked_file){ m->major, m->minor, m->inode, bytes };
    return 0;
}

static const char *value_of(const struct uma_lines *lines, const char *key) {
    size_t n = strlen(key);
    return uma_starts_with(lines->line, lines->stop, key, n) ? lines->line + n : NULL;
}

static bool has_word(const char *s, const char *end, const char *word) {
    size_t n = strlen(word);
    while ((s = uma_skip_blanks(s, end)) < end) {
        const char *stop = uma_word_end(s, end);
        if ((size_t)(stop - s) == n && memcmp(s, word, n) == 0)
            return true;
        s = stop;
    }
    return false;
}

int uma_locked_parse(const char *text, size_t length, struct uma_arena *arena, size_t *ret_n, struct uma_locked_file **ret_files,
                     struct uma_error *err) {
    struct growing g = { 0 };
    struct uma_mapping mapping = { 0 };
    bool has_file = false;
    uint64_t resident = 0;
    int r = 0;
    for (struct uma_lines lines = uma_lines_of(text, length); r >= 0 && uma_lines_next(&lines) && lines.whole;) {
        const char *path = NULL, *value;
        size_t n = 0;
        struct uma_mapping m;
        int kind = uma_maps_line(lines.line, lines.stop, &m, &path, &n);
        if (kind >= 0) { /* the next mapping begins */
            has_file = kind > 0;
            resident = 0;
            if (has_file)
                mapping = m;
        } else if (has_file && (value = value_of(&lines, "Rss:")))
            (void)uma_whole_kilobytes(value, lines.stop, &resident);
        else if (has_file && (value = value_of(&lines, "VmFlags:")) && has_word(value, lines.stop, "lo"))
            r = add(&g, &mapping, resident);
    }
    _cleanup_free_
    struct uma_locked_file *list = g.list;
    struct uma_locked_file *copy = r < 0 ? NULL : uma_arena_array(arena, g.n, sizeof(*copy));
    if (!copy)
        return uma_error_set(err, ENOMEM, "what is locked in memory");
    if (g.n > 0)
        (void)memcpy(copy, list, g.n * sizeof(*copy));
    *ret_n = g.n;
    *ret_files = copy;
    return 0;
}

int uma_locked_read(struct uma_root *root, pid_t pid, struct uma_arena *arena, size_t *ret_n, struct uma_locked_file **ret_files,
                    struct uma_error *err) {
    char path[48];
    _cleanup_text_ struct uma_text text = { 0 };
    (void)snprintf(path, sizeof path, "proc/%d/status", (int)pid);
    int r = uma_root_read_unrecorded(root, path, STATUS_MAX, &text, err);
    if (r < 0)
        return r;
    struct uma_u64 locked = uma_lines_number(text.data ? text.data : "", text.length, "VmLck");
    uma_text_reset(&text);
    if (uma_usable(locked.validity) && locked.value > 0) {
        (void)snprintf(path, sizeof path, "proc/%d/smaps", (int)pid);
        r = uma_root_read_unrecorded(root, path, UMA_MAPS_BYTES_MAX, &text, err);
        if (r < 0)
            return r;
    }
    return uma_locked_parse(text.data ? text.data : "", text.length, arena, ret_n, ret_files, err);
}
