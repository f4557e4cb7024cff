/* SPDX-License-Identifier: MIT */
#include "base/units.h"

#include <math.h>
#include <string.h>
#include <strings.h>
#include <time.h>

const char *uma_parse_u64(const char *s, const char *end, uint64_t *ret_value) {
    uint64_t v = 0;
    const char *p = s;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return NULL;
    if (p == s)
        return NULL;
    *ret_value = v;
    return p;
}

const char *uma_parse_i64(const char *s, const char *end, int64_t *ret_value) {
    bool negative = s < end && *s == '-';
    uint64_t v;
    const char *p = uma_parse_u64(s + (negative ? 1 : 0), end, &v);
    if (!p || v > (uint64_t)INT64_MAX)
        return NULL;
    *ret_value = negative ? -(int64_t)v : (int64_t)v;
    return p;
}

const char *uma_parse_f64(const char *s, const char *end, double *ret_value) {
    bool negative = s < end && *s == '-';
    uint64_t whole, part = 0;
    const char *p = uma_parse_u64(s + (negative ? 1 : 0), end, &whole);
    if (!p)
        return NULL;
    double v = (double)whole;
    if (p < end && *p == '.') {
        const char *from = p + 1, *stop = from;
        while (stop < end && stop - from < 18 && *stop >= '0' && *stop <= '9')
            stop++;
        if (stop > from && !uma_parse_u64(from, stop, &part))
            return NULL;
        v += (double)part / pow(10, (double)(stop - from));
        for (p = stop; p < end && *p >= '0' && *p <= '9'; p++) {
        }
    }
    *ret_value = negative ? -v : v;
    return p;
}

static const char *skip(const char *s) {
    while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r')
        s++;
    return s;
}

int uma_parse_u64_all(const char *s, uint64_t *ret_value) {
    uint64_t v;
    s = skip(s);
    const char *p = uma_parse_u64(s, s + strlen(s), &v);
    if (!p)
        return *s >= '0' && *s <= '9' ? -ERANGE : -EINVAL;
    if (*skip(p))
        return -EINVAL;
    *ret_value = v;
    return 0;
}

int uma_parse_i64_all(const char *s, int64_t *ret_value) {
    int64_t v;
    s = skip(s);
    const char *p = uma_parse_i64(s, s + strlen(s), &v);
    if (!p || *skip(p))
        return -EINVAL;
    *ret_value = v;
    return 0;
}

int uma_parse_f64_all(const char *s, double *ret_value) {
    double v;
    s = skip(s);
    const char *p = uma_parse_f64(s, s + strlen(s), &v);
    if (!p || *skip(p))
        return -EINVAL;
    *ret_value = v;
    return 0;
}

int uma_parse_size(const char *s, uint64_t *ret_bytes, struct uma_error *err) {
    static const struct {
        const char *suffix;
        double factor;
    } suffixes[] = {
        { "", 1 },         { "B", 1 },      { "K", 0x1p10 },   { "KiB", 0x1p10 }, { "kB", 1e3 },
        { "KB", 1e3 },     { "M", 0x1p20 }, { "MiB", 0x1p20 }, { "MB", 1e6 },     { "G", 0x1p30 },
        { "GiB", 0x1p30 }, { "GB", 1e9 },   { "T", 0x1p40 },   { "TiB", 0x1p40 }, { "TB", 1e12 },
    };
    const char *from = skip(s);
    double v;
    const char *p = uma_parse_f64(from, from + strlen(from), &v);
    if (!p || v < 0)
        return uma_error_text(err, EINVAL, "\"%s\" is not a size: expected a number such as 12G, 12GiB, 12GB or 12884901888", s);
    p = skip(p);
    for (size_t i = 0; i < ELEMENTS(suffixes); i++) {
        size_t n = strlen(suffixes[i].suffix);
        if (strncasecmp(p, suffixes[i].suffix, n) != 0 || *skip(p + n))
            continue;
        if (v * suffixes[i].factor >= 0x1p63)
            return uma_error_text(err, ERANGE, "\"%s\" is too large: the most is 8388607T", s);
        uint64_t whole;
        if (suffixes[i].factor == 1 && uma_parse_u64(from, from + strlen(from), &whole))
            *ret_bytes = whole; /* exact beyond 2^53 */
        else
            *ret_bytes = (uint64_t)(v * suffixes[i].factor + 0.5);
        return 0;
    }
    return uma_error_text(err, EINVAL, "\"%s\": unknown unit \"%s\", expected K, M, G, T, KiB..TiB (binary) or kB..TB (decimal)", s, p);
}

/* "e9" behind a number; 0 where there is none. */
static const char *parse_exponent(const char *p, unsigned *ret_exponent) {
    uint64_t exponent = 0;
    const char *digits = p + 1 + (p[0] && p[1] == '+');
    const char *end = *p == 'e' || *p == 'E' ? uma_parse_u64(digits, digits + strlen(digits), &exponent) : NULL;
    if (!end || exponent > 18)
        return p;
    *ret_exponent = (unsigned)exponent;
    return end;
}

static int parse_count(const char *s, double thousand, const char *what, uint64_t *ret_count, struct uma_error *err) {
    static const char letters[] = "KMBT";
    const char *from = skip(s), *end = from + strlen(from);
    uint64_t whole;
    const char *p = uma_parse_u64(from, end, &whole);
    if (p && !*skip(p)) { /* exact beyond 2^53 */
        if (whole > INT64_MAX)
            return uma_error_text(err, ERANGE, "\"%s\" is too large", s);
        *ret_count = whole;
        return 0;
    }
    double v;
    unsigned exponent = 0;
    p = uma_parse_f64(from, end, &v);
    if (!p || v < 0)
        return uma_error_text(err, EINVAL, "\"%s\" is not a %s: expected a number such as 4096, 32K, 7.24B or 9e9", s, what);
    p = parse_exponent(p, &exponent);
    for (; exponent; exponent--)
        v *= 10;
    const char *letter = *p ? strchr(letters, *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p) : NULL;
    if (letter) {
        for (const char *l = letters; l <= letter; l++)
            v *= thousand;
        p++;
    }
    if (*skip(p))
        return uma_error_text(err, EINVAL, "\"%s\": unknown ending \"%s\", expected K, M, B or T", s, p);
    if (v >= 0x1p63)
        return uma_error_text(err, ERANGE, "\"%s\" is too large", s);
    *ret_count = (uint64_t)(v + 0.5);
    return 0;
}

int uma_parse_count(const char *s, uint64_t *ret_count, struct uma_error *err) {
    return parse_count(s, 1e3, "count", ret_count, err);
}

int uma_parse_tokens(const char *s, uint64_t *ret_count, struct uma_error *err) {
    return parse_count(s, 0x1p10, "number of tokens", ret_count, err);
}

int uma_parse_duration(const char *s, double *ret_seconds, struct uma_error *err) {
    const char *from = skip(s);
    double v;
    const char *p = uma_parse_f64(from, from + strlen(from), &v);
    if (!p || v < 0)
        return uma_error_text(err, EINVAL, "\"%s\" is not a duration: expected seconds such as 90 or 0.5, or 90s, 5m, 2h", s);
    p = skip(p);
    double factor = strcmp(p, "") == 0 || strcmp(p, "s") == 0      ? 1
                    : strcmp(p, "ms") == 0                         ? 1e-3
                    : strcmp(p, "m") == 0 || strcmp(p, "min") == 0 ? 60
                    : strcmp(p, "h") == 0                          ? 3600
                    : strcmp(p, "d") == 0                          ? 86400
                                                                   : 0;
    if (factor == 0)
        return uma_error_text(err, EINVAL, "\"%s\": unknown unit \"%s\", expected ms, s, m, h or d", s, p);
    if (v * factor > 1e9)
        return uma_error_text(err, ERANGE, "\"%s\" is too long: the most is 1000000000 s", s);
    *ret_seconds = v * factor;
    return 0;
}

/* In integer arithmetic: printf of a double would follow LC_NUMERIC. */
void uma_text_fixed(struct uma_text *text, double value, unsigned decimals) {
    static const int64_t powers[] = { 1, 10, 100, 1000 };
    int64_t power = powers[MIN_OF(decimals, 3u)], scaled = llround(fabs(value) * (double)power);
    if (value < 0 && scaled > 0)
        uma_text_char(text, '-');
    uma_text_printf(text, "%lld", (long long)(scaled / power));
    if (power > 1)
        uma_text_printf(text, ".%0*lld", (int)MIN_OF(decimals, 3u), (long long)(scaled % power));
}

void uma_text_bytes(struct uma_text *text, uint64_t bytes) {
    static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t i = 0;
    uint64_t unit = 1;
    while (i + 1 < ELEMENTS(names) && bytes / unit >= 1024) {
        unit *= 1024;
        i++;
    }
    if (i == 0)
        uma_text_printf(text, "%llu B", (unsigned long long)bytes);
    else if (bytes / unit >= 100)
        uma_text_printf(text, "%llu %s", (unsigned long long)(bytes / unit + (bytes % unit >= unit / 2)), names[i]);
    else {
        uma_text_fixed(text, (double)bytes / (double)unit, 1);
        uma_text_printf(text, " %s", names[i]);
    }
}

void uma_text_gib(struct uma_text *text, uint64_t bytes) {
    uma_text_fixed(text, (double)bytes / (double)UMA_GIB, 1);
    uma_text_append(text, " GiB");
}

void uma_text_duration(struct uma_text *text, double seconds) {
    if (!(seconds >= 0))
        seconds = 0;
    if (seconds > 1e15)
        seconds = 1e15;
    uint64_t s = (uint64_t)(seconds + 0.5), t = (uint64_t)(seconds * 10 + 0.5);
    if (t < 600)
        uma_text_printf(text, "%llu.%llu s", (unsigned long long)(t / 10), (unsigned long long)(t % 10));
    else if (s < 3600)
        uma_text_printf(text, "%llu m %02llu s", (unsigned long long)(s / 60), (unsigned long long)(s % 60));
    else
        uma_text_printf(text, "%llu h %02llu m", (unsigned long long)(s / 3600), (unsigned long long)(s / 60 % 60));
}

static int64_t clock_ns(clockid_t id) {
    struct timespec ts = { 0 };
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t uma_now_ns(void) {
    return clock_ns(CLOCK_REALTIME) / 1000 * 1000;
}

int64_t uma_monotonic_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t uma_boottime_ns(void) {
    return clock_ns(CLOCK_BOOTTIME);
}
