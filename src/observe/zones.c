/* SPDX-License-Identifier: MIT */
/*
 * /proc/zoneinfo and /proc/buddyinfo (mm/vmstat.c), joined by node and zone name.
 *
 * Decisions where a text may be cut off: a zone's per-CPU pages count only when its section is whole (every kernel ends the list of CPUs
 * with "start_pfn:"), because a sum over some CPUs would look like a number; a line of buddyinfo counts only when it ends in a newline and
 * has as many orders as the first one. Counts are taken up to 2^52 pages (2^64 bytes of 4 KiB pages).
 */
#include "observe/zones.h"

#include "observe/lines.h"
#include "observe/memory.h"
#include "observe/source.h"

#include <elf.h>

static const uint64_t pages_max = 1ull << 52;
/* Shown by the kernel from the first zone on, so that the first step is what nearly every machine needs: 3 to 5 zones per node. */
enum { FIRST_ZONES = 8 };

/* The zone of that name: an old one, or a new one at the end. NULL: no room, or no memory. */
static struct uma_zone *zone_of(struct uma_zones *zones, struct uma_arena *arena, int32_t node, const char *name, size_t n, size_t hint) {
    for (size_t k = 0; k < zones->n_zones; k++) {
        struct uma_zone *z = &zones->zones[(hint + k) % zones->n_zones];
        if (z->node == node && strlen(z->name) == n && memcmp(z->name, name, n) == 0)
            return z;
    }
    if (zones->n_zones == UMA_ZONES_MAX)
        return NULL;
    size_t have = zones->n_zones;
    if (have == 0 || (have >= FIRST_ZONES && (have & (have - 1)) == 0)) { /* full at 8, 16, 32 ... */
        struct uma_zone *more = uma_arena_array(arena, have ? have * 2 : FIRST_ZONES, sizeof(*more));
        if (!more)
            return NULL;
        if (have)
            (void)memcpy(more, zones->zones, have * sizeof(*more));
        zones->zones = more;
    }
    struct uma_zone *z = &zones->zones[zones->n_zones++];
    z->node = node;
    (void)memcpy(z->name, name, n);
    return z;
}

static int no_zone(const struct uma_zones *zones, const char *file, unsigned line, struct uma_error *err) {
    if (zones->n_zones == UMA_ZONES_MAX)
        return uma_error_text(err, EINVAL, "%s:%u: more than %d zones", file, line, UMA_ZONES_MAX);
    return uma_error_set(err, ENOMEM, "%s:%u", file, line);
}

/* "Node 0, zone   Normal": fills node and name, returns what follows the name; NULL when the line is something else. */
static const char *read_heading(const char *s, const char *end, int32_t *ret_node, const char **ret_name, size_t *ret_n) {
    uint64_t node;
    if (!uma_starts_with(s, end, "Node ", 5))
        return NULL;
    const char *p = uma_parse_u64(uma_skip_blanks(s + 5, end), end, &node);
    if (!p || node > INT32_MAX || !uma_starts_with(p, end, ", zone ", 7))
        return NULL;
    const char *name = uma_skip_blanks(p + 7, end), *stop = uma_word_end(name, end);
    size_t n = (size_t)(stop - name);
    if (n == 0 || n >= sizeof(((struct uma_zone *)NULL)->name))
        return NULL;
    for (size_t i = 0; i < n; i++) /* the kernel's names are ASCII letters and digits; strings of a snapshot are valid UTF-8 */
        if (name[i] <= ' ' || name[i] > '~')
            return NULL;
    *ret_node = (int32_t)node;
    *ret_name = name;
    *ret_n = n;
    return stop;
}

/* ---- zoneinfo ----------------------------------------------------------------------------------------------- */

/* A field of a zone in the order of the kernel's text. "free" stands behind "pages". */
static const struct {
    const char *key;
    size_t length, offset;
} zone_fields[] = {
#define ROW(key, field)                                                                                                                    \
    { key, sizeof(key) - 1, offsetof(struct uma_zone, field) }
    ROW("free", free_pages),       ROW("boost", boost_pages),     ROW("min", min_pages),
    ROW("low", low_pages),         ROW("high", high_pages),       ROW("spanned", spanned_pages),
    ROW("present", present_pages), ROW("managed", managed_pages), ROW("cma", cma_pages),
#undef ROW
};

static struct uma_u64 *zone_field(struct uma_zone *zone, size_t i) {
    return (struct uma_u64 *)(void *)((char *)zone + zone_fields[i].offset);
}

static struct uma_u64 pages(const char *s, const char *end, bool whole) {
    uint64_t v;
    return whole && uma_whole_u64(s, end, &v) && v <= pages_max ? uma_known_u64(v) : uma_no_u64(UMA_MALFORMED);
}

/* Where the reading of zoneinfo stands. */
struct zone_scan {
    struct uma_zone *zone; /* NULL: before the first, or a heading that was seen already */
    bool in_lists;         /* after "pagesets", before "start_pfn:" */
    struct uma_u64 lists;  /* sum of count: so far */
    bool cut;
    int malformed;
    unsigned headings;
};

static void complain(struct zone_scan *scan, const struct uma_lines *lines, const char *file, struct uma_error *err) {
    if (scan->malformed++ == 0)
        (void)uma_error_text(err, EINVAL, "%s:%u: expected a number of pages, found \"%.*s\"%s", file, lines->number,
                             UMA_SHOWN(lines->line, lines->stop), lines->whole ? "" : " at the end, which may be cut off");
}

/* What the section did not say. A zone without pages of its own prints no lists (populated_zone() in mm/vmstat.c): it has none. */
static void end_zone(struct zone_scan *scan) {
    struct uma_zone *z = scan->zone;
    if (!z)
        return;
    for (size_t i = 0; i < ELEMENTS(zone_fields); i++)
        if (zone_field(z, i)->validity == UMA_UNKNOWN && !scan->cut)
            zone_field(z, i)->validity = UMA_ABSENT;
    if (scan->in_lists)
        z->pcp_pages = uma_no_u64(UMA_MALFORMED);
    else if (z->pcp_pages.validity == UMA_UNKNOWN && z->present_pages.validity == UMA_KNOWN && z->present_pages.value == 0)
        z->pcp_pages = uma_known_u64(0);
    else if (z->pcp_pages.validity == UMA_UNKNOWN && !scan->cut)
        z->pcp_pages = uma_no_u64(UMA_ABSENT);
    scan->zone = NULL;
    scan->in_lists = false;
}

static void read_list_line(struct zone_scan *scan, const struct uma_lines *lines, const char *file, struct uma_error *err) {
    if (uma_starts_with(lines->line, lines->stop, "count:", 6)) {
        struct uma_u64 v = pages(lines->line + 6, lines->stop, lines->whole);
        if (v.validity != UMA_KNOWN) {
            complain(scan, lines, file, err);
            scan->lists = v;
        } else if (scan->lists.validity == UMA_KNOWN && scan->lists.value <= pages_max) {
            scan->lists.value += v.value; /* below 2^53: no overflow */
        }
    } else if (uma_starts_with(lines->line, lines->stop, "start_pfn:", 10)) {
        scan->zone->pcp_pages = scan->lists.value <= pages_max ? scan->lists : uma_no_u64(UMA_MALFORMED);
        scan->in_lists = false;
    }
}

static void read_zone_line(struct zone_scan *scan, const struct uma_lines *lines, const char *file, struct uma_error *err) {
    const char *s = lines->line, *end = lines->stop;
    if (uma_starts_with(s, end, "pages ", 6))
        s = uma_skip_blanks(s + 6, end);
    else if (uma_starts_with(s, end, "pagesets", 8)) {
        scan->in_lists = true;
        scan->lists = uma_known_u64(0);
        return;
    } else if (s < end && s[0] == 'n') /* nr_..., numa_...: most lines */
        return;
    const char *word = uma_word_end(s, end);
    for (size_t i = 0; i < ELEMENTS(zone_fields); i++) {
        if (zone_fields[i].length != (size_t)(word - s) || memcmp(zone_fields[i].key, s, (size_t)(word - s)) != 0)
            continue;
        struct uma_u64 *field = zone_field(scan->zone, i);
        if (field->validity != UMA_UNKNOWN)
            return;
        *field = pages(word, end, lines->whole);
        if (field->validity != UMA_KNOWN)
            complain(scan, lines, file, err);
        return;
    }
}

int uma_zoneinfo_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_zones *zones,
                       struct uma_error *err) {
    struct uma_lines lines = uma_lines_of(text, length);
    struct zone_scan scan = { 0 };
    while (uma_lines_next(&lines)) {
        int32_t node;
        const char *name;
        size_t n;
        scan.cut = !lines.whole;
        if (lines.line < lines.stop && lines.line[0] == 'N' && read_heading(lines.line, lines.stop, &node, &name, &n)) {
            bool whole = lines.whole;
            scan.cut = false; /* the section before this heading is whole */
            end_zone(&scan);
            scan.cut = !whole;
            if (!whole)
                break; /* the name itself may be cut */
            if (++scan.headings > UMA_ZONES_MAX)
                return uma_error_text(err, EINVAL, "%s:%u: more than %d zones", file, lines.number, UMA_ZONES_MAX);
            scan.zone = zone_of(zones, arena, node, name, n, scan.headings - 1);
            if (!scan.zone)
                return no_zone(zones, file, lines.number, err);
            if (scan.zone->free_pages.validity != UMA_UNKNOWN)
                scan.zone = NULL; /* there twice: the first counts */
            continue;
        }
        if (!scan.zone)
            continue;
        if (scan.in_lists)
            read_list_line(&scan, &lines, file, err);
        else
            read_zone_line(&scan, &lines, file, err);
    }
    if (scan.in_lists)
        complain(&scan, &lines, file, err);
    end_zone(&scan);
    if (scan.headings == 0)
        return uma_error_text(err, EINVAL, "%s: expected lines \"Node N, zone NAME\", found none", file);
    return scan.malformed;
}

/* ---- buddyinfo ---------------------------------------------------------------------------------------------- */

/* The counts behind a heading. How many, or 0 when they are not what they should be. */
static uint32_t read_blocks(const char *s, const char *end, uint64_t blocks[UMA_ORDERS_MAX]) {
    uint32_t n = 0;
    uint64_t v;
    for (const char *p = uma_skip_blanks(s, end), *stop; p < end; p = uma_skip_blanks(stop, end)) {
        stop = uma_parse_u64(p, end, &v);
        if (!stop || n == UMA_ORDERS_MAX || v > pages_max >> n || (stop < end && !uma_is_blank(*stop)))
            return 0;
        blocks[n++] = v;
    }
    return n;
}

int uma_buddyinfo_parse(const char *text, size_t length, const char *file, struct uma_arena *arena, struct uma_zones *zones,
                        struct uma_error *err) {
    struct uma_lines lines = uma_lines_of(text, length);
    uint32_t orders = 0, headings = 0;
    int malformed = 0;
    while (uma_lines_next(&lines)) {
        int32_t node;
        const char *name;
        size_t length_of_name;
        const char *rest = read_heading(lines.line, lines.stop, &node, &name, &length_of_name);
        if (!rest)
            continue;
        if (++headings > UMA_ZONES_MAX)
            return uma_error_text(err, EINVAL, "%s:%u: more than %d zones", file, lines.number, UMA_ZONES_MAX);
        uint64_t blocks[UMA_ORDERS_MAX] = { 0 };
        uint32_t n = lines.whole ? read_blocks(rest, lines.stop, blocks) : 0;
        if (n == 0 || (orders != 0 && n != orders)) {
            if (malformed++ == 0)
                (void)uma_error_text(err, EINVAL, "%s:%u: expected the free blocks of %u orders, found \"%.*s\"%s: the zone is left out",
                                     file, lines.number, orders, UMA_SHOWN(rest, lines.stop),
                                     lines.whole ? "" : " at the end, which may be cut off");
            continue;
        }
        orders = n;
        struct uma_zone *zone = zone_of(zones, arena, node, name, length_of_name, headings - 1);
        if (!zone)
            return no_zone(zones, file, lines.number, err);
        if (zone->n_orders != 0)
            continue; /* there twice: the first counts */
        zone->n_orders = n;
        (void)memcpy(zone->blocks, blocks, sizeof(blocks));
    }
    if (headings == 0)
        return uma_error_text(err, EINVAL, "%s: expected lines \"Node N, zone NAME count...\", found none", file);
    return malformed;
}

/* ---- page size ---------------------------------------------------------------------------------------------- */

/* Of the sizes that exist, the one within `tolerance` of bytes over pages; they are four-fold apart, so never two. */
static struct uma_u64 nearest(uint64_t bytes, uint64_t count, double tolerance) {
    static const uint64_t sizes[] = { 4096, 16384, 65536 };
    for (size_t i = 0; i < ELEMENTS(sizes) && count > 0; i++) {
        double ratio = (double)bytes / (double)count / (double)sizes[i];
        if (ratio > 1 - tolerance && ratio < 1 + tolerance)
            return uma_known_u64(sizes[i]);
    }
    return uma_no_u64(UMA_UNKNOWN);
}

/* AT_PAGESZ of an auxiliary vector: pairs of 64-bit words, little endian as on every machine this is for (proc_pid_auxv(5)). */
static struct uma_u64 auxv_page_size(const char *auxv, size_t length) {
    for (size_t i = 0; auxv && i + 16 <= length; i += 16) {
        uint64_t pair[2];
        (void)memcpy(pair, auxv + i, sizeof(pair));
        if (pair[0] == AT_PAGESZ)
            return nearest(pair[1], 1, 1e-9);
    }
    return uma_no_u64(UMA_UNKNOWN);
}

struct uma_u64 uma_page_size_infer(const struct uma_zones *zones, const struct uma_meminfo *meminfo, const char *auxv, size_t auxv_length) {
    struct uma_u64 recorded = auxv_page_size(auxv, auxv_length);
    if (recorded.validity == UMA_KNOWN)
        return recorded;
    uint64_t managed = 0, in_blocks = 0;
    bool all_managed = zones->n_zones > 0, any_blocks = false;
    for (size_t i = 0; i < zones->n_zones; i++) {
        const struct uma_zone *z = &zones->zones[i];
        all_managed &= z->managed_pages.validity == UMA_KNOWN;
        managed = MIN_OF(managed + z->managed_pages.value, UMA_COUNT_MAX); /* below 2^63 + 2^52: no overflow */
        for (uint32_t order = 0; order < z->n_orders; order++)
            in_blocks = MIN_OF(in_blocks + (z->blocks[order] << order), UMA_COUNT_MAX);
        any_blocks |= z->n_orders > 0;
    }
    struct uma_u64 by_total = uma_no_u64(UMA_UNKNOWN), by_free = uma_no_u64(UMA_UNKNOWN);
    /* MemTotal is the sum of the managed pages, but for memory that was plugged in between the two reads */
    if (all_managed && meminfo->mem_total.validity == UMA_KNOWN)
        by_total = nearest(meminfo->mem_total.value, managed, 0.02);
    /* both count the free lists, read a moment apart */
    if (any_blocks && !zones->buddyinfo.detail && meminfo->mem_free.validity == UMA_KNOWN)
        by_free = nearest(meminfo->mem_free.value, in_blocks, 0.1);
    if (by_total.validity == UMA_KNOWN && by_free.validity == UMA_KNOWN && by_total.value != by_free.value)
        return uma_no_u64(UMA_UNKNOWN);
    return by_total.validity == UMA_KNOWN ? by_total : by_free;
}
