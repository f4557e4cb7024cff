/* SPDX-License-Identifier: MIT */
/*
 * /proc/vmstat: "key value" lines (mm/vmstat.c, Documentation/admin-guide/mm). Counters that the kernel splits by zone, or once did, are
 * summed: allocstall_ZONE since 4.10; pgscan_kswapd_ZONE, pgscan_direct_ZONE, pgsteal_kswapd_ZONE and pgsteal_direct_ZONE before 4.8.
 * A last line without newline may have lost digits: its field is malformed. Fields not seen before such a cut are unknown, not absent.
 */
#include "observe/lines.h"
#include "observe/memory.h"
#include "observe/source.h"

static const struct uma_key fields[] = {
#define UMA_X(name, text) { text, sizeof(text) - 1, offsetof(struct uma_vmstat, name) },
    UMA_VMSTAT_FIELDS(UMA_X)
#undef UMA_X
    /* before 5.9 there was one counter, and it counted file pages: commit 170b04b7ae49 split it */
    { "workingset_refault", sizeof("workingset_refault") - 1, offsetof(struct uma_vmstat, workingset_refault_file) },
};

static const struct uma_key by_zone[] = {
#define PREFIX(name)                                                                                                                       \
    { #name "_", sizeof(#name "_") - 1, offsetof(struct uma_vmstat, name) }
    PREFIX(allocstall), PREFIX(pgscan_kswapd), PREFIX(pgscan_direct), PREFIX(pgsteal_kswapd), PREFIX(pgsteal_direct),
#undef PREFIX
};

static struct uma_u64 *field_at(struct uma_vmstat *vmstat, size_t offset) {
    return (struct uma_u64 *)(void *)((char *)vmstat + offset);
}

/* The names of TEXTS_FOR_ZONES in mm/vmstat.c. Not any suffix: pgscan_direct_throttle counts something else. */
static bool is_zone(const char *s, size_t n) {
    static const char *const zones[] = { "dma", "dma32", "normal", "high", "movable", "device" };
    for (size_t i = 0; i < ELEMENTS(zones); i++)
        if (strlen(zones[i]) == n && memcmp(zones[i], s, n) == 0)
            return true;
    return false;
}

/*
 * Nearly two hundred lines and two dozen that matter: one bit per hash of a wanted key turns most of the others away at once. The hash only
 * has to spread the keys; length and last characters do.
 */
struct filter {
    uint64_t bits[4];
};

static unsigned hash(const char *key, size_t n) {
    return ((unsigned)n * 37u + (unsigned char)key[n - 1] * 5u + (unsigned char)key[n / 2] * 11u) & 255u;
}

static struct filter make_filter(void) {
    struct filter f = { 0 };
    for (size_t i = 0; i < ELEMENTS(fields); i++) {
        unsigned h = hash(fields[i].key, fields[i].length);
        f.bits[h >> 6] |= 1ull << (h & 63);
    }
    return f;
}

static bool passes(const struct filter *f, const char *key, size_t n) {
    unsigned h = hash(key, n);
    return f->bits[h >> 6] >> (h & 63) & 1;
}

static const struct uma_key *find_by_zone(const char *key, size_t n) {
    if (n < 11 || (memcmp(key, "pgs", 3) != 0 && memcmp(key, "allocstall_", 11) != 0))
        return NULL;
    for (size_t i = 0; i < ELEMENTS(by_zone); i++)
        if (n > by_zone[i].length && memcmp(by_zone[i].key, key, by_zone[i].length) == 0)
            return is_zone(key + by_zone[i].length, n - by_zone[i].length) ? &by_zone[i] : NULL;
    return NULL;
}

static void add(struct uma_u64 *sum, struct uma_u64 part) {
    if (sum->validity == UMA_MALFORMED)
        return;
    if (part.validity == UMA_MALFORMED || part.value > UMA_COUNT_MAX - sum->value)
        *sum = uma_no_u64(UMA_MALFORMED);
    else
        *sum = uma_known_u64(sum->value + part.value);
}

int uma_vmstat_parse(const char *text, size_t length, const char *file, struct uma_vmstat *ret_vmstat, struct uma_error *err) {
    struct uma_vmstat vmstat = { 0 }, sums = { 0 };
    struct uma_lines lines = uma_lines_of(text, length);
    size_t hint = 0, numbers = 0;
    int malformed = 0;
    bool cut = false;
    struct uma_error first;
    const struct filter filter = make_filter();
    while (uma_lines_next(&lines)) {
        const char *word = uma_word_end(lines.line, lines.stop);
        size_t n = (size_t)(word - lines.line);
        cut = !lines.whole;
        if (n == 0)
            continue;
        uint64_t value = 0;
        size_t i = passes(&filter, lines.line, n) ? uma_key_find(fields, ELEMENTS(fields), lines.line, n, hint) : ELEMENTS(fields);
        const struct uma_key *part = i == ELEMENTS(fields) ? find_by_zone(lines.line, n) : NULL;
        if (i == ELEMENTS(fields) && !part) {
            numbers += numbers == 0 && uma_whole_u64(word, lines.stop, &value);
            continue;
        }
        bool good = lines.whole && uma_whole_u64(word, lines.stop, &value);
        struct uma_u64 v = good ? uma_known_u64(value) : uma_no_u64(UMA_MALFORMED);
        numbers += good;
        if (part) {
            add(field_at(&sums, part->offset), v);
        } else {
            struct uma_u64 *field = field_at(&vmstat, fields[i].offset);
            hint = i + 1;
            if (field->validity != UMA_UNKNOWN)
                continue; /* there twice: the first counts */
            *field = v;
        }
        if (!good && malformed++ == 0)
            (void)uma_error_text(&first, EINVAL, "%s:%u: %.*s: expected a count, found \"%.*s\"%s", file, lines.number,
                                 UMA_SHOWN(lines.line, word), UMA_SHOWN(word, lines.stop),
                                 lines.whole ? "" : " at the end, which may be cut off");
    }
    if (numbers == 0)
        return uma_error_text(err, EINVAL, "%s: expected lines \"name count\", found none", file);
    for (size_t i = 0; i < ELEMENTS(by_zone); i++)
        if (field_at(&vmstat, by_zone[i].offset)->validity == UMA_UNKNOWN)
            *field_at(&vmstat, by_zone[i].offset) = *field_at(&sums, by_zone[i].offset);
    for (size_t i = 0; i < ELEMENTS(fields) && !cut; i++)
        if (field_at(&vmstat, fields[i].offset)->validity == UMA_UNKNOWN)
            *field_at(&vmstat, fields[i].offset) = uma_no_u64(UMA_ABSENT);
    if (malformed && err)
        *err = first;
    *ret_vmstat = vmstat;
    return malformed;
}
