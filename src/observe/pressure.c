/* SPDX-License-Identifier: MIT */
/*
 * Pressure stall information, /proc/pressure/{memory,cpu,io}: Documentation/accounting/psi.rst. Averages are percent with two decimals,
 * the total is microseconds since boot. cpu has no "full" line before 5.13. A file that is there but disabled fails in read(2) with
 * EOPNOTSUPP; a folder cannot hold such a file, so an empty one stands for it (a live one is never empty).
 */
#include "observe/lines.h"
#include "observe/memory.h"
#include "observe/source.h"

static struct uma_f64 percent(const char *s, const char *end) {
    double v;
    const char *p = uma_parse_f64(s, end, &v);
    return p == end && v >= 0 && v <= 100 ? uma_known_f64(v / 100) : uma_no_f64(UMA_MALFORMED);
}

static struct uma_f64 microseconds(const char *s, const char *end) {
    uint64_t v;
    return uma_whole_u64(s, end, &v) ? uma_known_f64((double)v / 1e6) : uma_no_f64(UMA_MALFORMED);
}

static struct uma_f64 *field_of(struct uma_pressure_line *line, const char *key, size_t n) {
    static const struct {
        const char *key;
        size_t offset;
    } fields[] = {
        { "avg10", offsetof(struct uma_pressure_line, avg10) },
        { "avg60", offsetof(struct uma_pressure_line, avg60) },
        { "avg300", offsetof(struct uma_pressure_line, avg300) },
        { "total", offsetof(struct uma_pressure_line, total_seconds) },
    };
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        if (strlen(fields[i].key) == n && memcmp(fields[i].key, key, n) == 0)
            return (struct uma_f64 *)(void *)((char *)line + fields[i].offset);
    return NULL;
}

/* "avg10=0.00 avg60=0.00 avg300=0.00 total=0", the rest of a line. Returns how many fields were malformed. */
static int read_line(const struct uma_lines *lines, const char *from, struct uma_pressure_line *line) {
    int malformed = 0;
    for (const char *p = uma_skip_blanks(from, lines->stop), *word; p < lines->stop; p = uma_skip_blanks(word, lines->stop)) {
        word = uma_word_end(p, lines->stop);
        const char *equals = memchr(p, '=', (size_t)(word - p));
        struct uma_f64 *field = equals ? field_of(line, p, (size_t)(equals - p)) : NULL;
        if (!field || field->validity != UMA_UNKNOWN)
            continue;
        if (!lines->whole && word == lines->stop)
            *field = uma_no_f64(UMA_MALFORMED); /* the number at the end of a line that has no newline may have lost digits */
        else
            *field = field == &line->total_seconds ? microseconds(equals + 1, word) : percent(equals + 1, word);
        malformed += field->validity == UMA_MALFORMED;
    }
    return malformed;
}

static void rest_is(struct uma_pressure_line *line, enum uma_validity why) {
    struct uma_f64 *const fields[] = { &line->avg10, &line->avg60, &line->avg300, &line->total_seconds };
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        if (fields[i]->validity == UMA_UNKNOWN)
            fields[i]->validity = why;
}

int uma_pressure_parse(const char *text, size_t length, const char *file, struct uma_pressure *ret_pressure, struct uma_error *err) {
    if (length == 0)
        return uma_error_text(err, EOPNOTSUPP, "%s: pressure stall information is disabled (psi=1 on the kernel command line enables it)",
                              file);
    struct uma_pressure pressure = { 0 };
    struct uma_lines lines = uma_lines_of(text, length);
    bool some = false, full = false, cut = false;
    int malformed = 0;
    while (uma_lines_next(&lines)) {
        cut = !lines.whole;
        const char *word = uma_word_end(lines.line, lines.stop);
        bool is_some = word - lines.line == 4 && memcmp(lines.line, "some", 4) == 0;
        bool is_full = word - lines.line == 4 && memcmp(lines.line, "full", 4) == 0;
        if ((!is_some && !is_full) || (is_some && some) || (is_full && full))
            continue;
        some |= is_some;
        full |= is_full;
        int bad = read_line(&lines, word, is_some ? &pressure.some : &pressure.full);
        if (bad && malformed == 0)
            (void)uma_error_text(err, EINVAL, "%s:%u: expected \"avg10=P avg60=P avg300=P total=N\", found \"%.*s\"", file, lines.number,
                                 UMA_SHOWN(word, lines.stop));
        malformed += bad;
    }
    if (!some)
        return uma_error_text(err, EINVAL, "%s: expected a line \"some avg10=...\", found none", file);
    rest_is(&pressure.some, cut ? UMA_UNKNOWN : UMA_ABSENT);
    rest_is(&pressure.full, cut ? UMA_UNKNOWN : UMA_ABSENT);
    *ret_pressure = pressure;
    return malformed;
}
