/* SPDX-License-Identifier: MIT */
/*
 * /proc/meminfo and its per-node form. Format: fs/proc/meminfo.c and drivers/base/node.c of Linux; the lines differ by kernel version,
 * architecture and configuration, so every one of them may be missing.
 *
 * Decisions where the format leaves room (pastes in --root folders):
 *   - a line that is there twice: the first counts (what follows a whole meminfo in a paste is another file);
 *   - a last line without newline is taken when it ends in "kB", because the unit ends the number; a bare number there may have lost
 *     digits and is malformed. Fields not seen before such a cut are unknown, not absent;
 *   - a field without its unit, or a count with one, is malformed: guessing would be wrong by 1024.
 */
#include "observe/lines.h"
#include "observe/memory.h"
#include "observe/source.h"

static const struct uma_key fields[] = {
#define UMA_X(name, text) { text, sizeof(text) - 1, offsetof(struct uma_meminfo, name) },
    UMA_MEMINFO_FIELDS(UMA_X)
#undef UMA_X
};

/* Longest name of a line that is kept in `other`; the kernel's own are below 32. */
enum { OTHER_NAME_MAX = 64 };

static struct uma_u64 *field_at(struct uma_meminfo *meminfo, size_t i) {
    return (struct uma_u64 *)(void *)((char *)meminfo + fields[i].offset);
}

/* HugePages_Total, _Free, _Rsvd and _Surp are numbers of pages; all else that has a name here is in kB. */
static bool is_count(size_t i) {
    return strncmp(fields[i].key, "HugePages_", 10) == 0;
}

/* Lines without a name here, as they stand in the text: telling two apart must not cost an allocation per line of a hostile file. */
struct others {
    struct {
        const char *name;
        size_t length;
    } seen[UMA_MEMINFO_OTHER_MAX];
};

/* Keep a line that has no name here. Lines that make no sense are not about anything we know: skipped. */
static int keep_other(struct uma_meminfo *meminfo, struct others *others, const struct uma_lines *lines, const char *colon,
                      struct uma_arena *arena, struct uma_error *err) {
    size_t n = (size_t)(colon - lines->line), k = meminfo->n_other;
    uint64_t value;
    if (n == 0 || n > OTHER_NAME_MAX || k == UMA_MEMINFO_OTHER_MAX)
        return 0;
    if (!uma_whole_kilobytes(colon + 1, lines->stop, &value) && (!lines->whole || !uma_whole_u64(colon + 1, lines->stop, &value)))
        return 0;
    for (size_t i = 0; i < k; i++)
        if (others->seen[i].length == n && memcmp(others->seen[i].name, lines->line, n) == 0)
            return 0;
    if (!meminfo->other)
        meminfo->other = uma_arena_array(arena, UMA_MEMINFO_OTHER_MAX, sizeof(*meminfo->other));
    const char *name = meminfo->other ? uma_arena_utf8(arena, lines->line, n) : NULL;
    if (!name)
        return uma_error_set(err, ENOMEM, "keeping the lines of meminfo");
    others->seen[k].name = lines->line;
    others->seen[k].length = n;
    meminfo->other[k] = (struct uma_named_u64){ name, value };
    meminfo->n_other++;
    return 0;
}

static bool read_value(size_t i, const struct uma_lines *lines, const char *from, struct uma_u64 *ret) {
    uint64_t value;
    bool good = is_count(i) ? lines->whole && uma_whole_u64(from, lines->stop, &value) : uma_whole_kilobytes(from, lines->stop, &value);
    *ret = good ? uma_known_u64(value) : uma_no_u64(UMA_MALFORMED);
    return good;
}

int uma_meminfo_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_meminfo *ret_meminfo,
                      struct uma_error *err) {
    struct uma_meminfo meminfo = { 0 };
    struct uma_lines lines = uma_lines_of(text, length);
    struct uma_error first;
    struct others others;
    size_t hint = 0;
    int malformed = 0;
    bool cut = false;
    while (uma_lines_next(&lines)) {
        const char *colon = memchr(lines.line, ':', (size_t)(lines.stop - lines.line));
        cut = !lines.whole;
        if (!colon)
            continue;
        size_t i = uma_key_find(fields, ELEMENTS(fields), lines.line, (size_t)(colon - lines.line), hint);
        if (i == ELEMENTS(fields)) {
            int r = keep_other(&meminfo, &others, &lines, colon, arena, err);
            if (r < 0)
                return r;
            continue;
        }
        hint = i + 1;
        struct uma_u64 *field = field_at(&meminfo, i);
        if (field->validity != UMA_UNKNOWN || read_value(i, &lines, colon + 1, field))
            continue;
        if (malformed++ == 0)
            (void)uma_error_text(&first, EINVAL, "%s:%u: %s: expected %s, found \"%.*s\"%s", file, lines.number, fields[i].key,
                                 is_count(i) ? "a count" : "a number of kB", UMA_SHOWN(colon + 1, lines.stop),
                                 lines.whole ? "" : " at the end, which may be cut off");
    }
    if (!uma_usable(meminfo.mem_total.validity) || meminfo.mem_total.value == 0) {
        if (meminfo.mem_total.validity != UMA_MALFORMED) {
            (void)uma_error_text(&first, EINVAL, "%s: expected a line \"MemTotal: ... kB\", found none that is not zero", file);
            malformed++;
        }
        if (!uma_usable(meminfo.mem_free.validity))
            return uma_error_text(err, EINVAL, "%s", first.text);
        meminfo.mem_total = uma_no_u64(UMA_MALFORMED); /* a paste that lost its first line: the rest is worth showing */
    }
    if (!cut)
        for (size_t i = 0; i < ELEMENTS(fields); i++)
            if (field_at(&meminfo, i)->validity == UMA_UNKNOWN)
                *field_at(&meminfo, i) = uma_no_u64(UMA_ABSENT);
    if (malformed && err)
        *err = first;
    *ret_meminfo = meminfo;
    return malformed;
}

struct uma_u64 uma_meminfo_page_cache(const struct uma_meminfo *m) {
    if (!uma_usable(m->cached.validity) || !uma_usable(m->buffers.validity) || !uma_usable(m->shmem.validity))
        return uma_no_u64(UMA_UNKNOWN);
    uint64_t sum = m->cached.value + m->buffers.value; /* counts, each at most UMA_COUNT_MAX */
    return uma_known_u64(sum - MIN_OF(sum, m->shmem.value));
}

int uma_node_meminfo_parse(const char *text, size_t length, const char *file, struct uma_node *node, struct uma_error *err) {
    static const struct {
        const char *key;
        size_t offset;
    } wanted[] = {
        { "MemTotal:", offsetof(struct uma_node, mem_total) },   { "MemFree:", offsetof(struct uma_node, mem_free) },
        { "FilePages:", offsetof(struct uma_node, file_pages) }, { "AnonPages:", offsetof(struct uma_node, anon_pages) },
        { "Shmem:", offsetof(struct uma_node, shmem) },          { "Slab:", offsetof(struct uma_node, slab) },
    };
    struct uma_node found = { .id = node->id, .has_cpu = node->has_cpu };
    struct uma_lines lines = uma_lines_of(text, length);
    bool cut = false, any = false;
    int malformed = 0;
    while (uma_lines_next(&lines)) {
        /* "Node 0 MemTotal:  24683620 kB" */
        uint64_t id;
        cut = !lines.whole;
        if (!uma_starts_with(lines.line, lines.stop, "Node ", 5))
            continue;
        const char *p = uma_parse_u64(lines.line + 5, lines.stop, &id);
        if (!p)
            continue;
        p = uma_skip_blanks(p, lines.stop);
        const char *word = uma_word_end(p, lines.stop);
        for (size_t i = 0; i < ELEMENTS(wanted); i++) {
            struct uma_u64 *field = (struct uma_u64 *)(void *)((char *)&found + wanted[i].offset);
            uint64_t value;
            if (strlen(wanted[i].key) != (size_t)(word - p) || memcmp(wanted[i].key, p, (size_t)(word - p)) != 0)
                continue;
            if (field->validity != UMA_UNKNOWN)
                break;
            any = true;
            if (uma_whole_kilobytes(word, lines.stop, &value)) {
                *field = uma_known_u64(value);
                break;
            }
            *field = uma_no_u64(UMA_MALFORMED);
            if (malformed++ == 0)
                (void)uma_error_text(err, EINVAL, "%s:%u: %s expected a number of kB, found \"%.*s\"", file, lines.number, wanted[i].key,
                                     UMA_SHOWN(word, lines.stop));
            break;
        }
    }
    if (!any)
        return uma_error_text(err, EINVAL, "%s: expected lines \"Node N MemTotal: ... kB\", found none", file);
    for (size_t i = 0; i < ELEMENTS(wanted) && !cut; i++) {
        struct uma_u64 *field = (struct uma_u64 *)(void *)((char *)&found + wanted[i].offset);
        if (field->validity == UMA_UNKNOWN)
            *field = uma_no_u64(UMA_ABSENT);
    }
    *node = found;
    return malformed;
}
