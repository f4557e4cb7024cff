/* SPDX-License-Identifier: MIT */
#include "plan/model/json_scan.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void uma_json_scan_memory(struct uma_json_scan *scan, const char *file, const char *text, size_t length) {
    *scan = (struct uma_json_scan){ .at = text, .end = text + length, .begin = text, .stop = length, .fd = -1, .file = file };
}

void uma_json_scan_file(struct uma_json_scan *scan, const char *file, int fd, uint64_t offset, uint64_t stop, char *buffer, size_t capacity,
                        size_t there) {
    if (there > stop - offset)
        there = (size_t)(stop - offset);
    *scan = (struct uma_json_scan){
        .at = buffer,
        .end = buffer + there,
        .begin = buffer,
        .window_offset = offset,
        .stop = stop,
        .fd = fd,
        .capacity = capacity,
        .file = file,
    };
    scan->buffer = buffer;
}

uint64_t uma_json_scan_place(const struct uma_json_scan *scan) {
    return scan->window_offset + (uint64_t)(scan->at - scan->begin);
}

int uma_json_scan_error(const struct uma_json_scan *scan, struct uma_error *err, const char *format, ...) {
    char text[UMA_ERROR_TEXT_MAX / 2];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    return uma_error_text(err, EINVAL, "%s: byte %llu: %s", scan->file, (unsigned long long)uma_json_scan_place(scan), text);
}

/* Read on: what is left of the window moves to its front. 1: there is more, 0: the end. */
static int refill(struct uma_json_scan *s, struct uma_error *err) {
    uint64_t read_to = s->window_offset + (uint64_t)(s->end - s->begin);
    if (s->fd < 0 || read_to >= s->stop)
        return 0;
    size_t left = (size_t)(s->end - s->at);
    s->window_offset = uma_json_scan_place(s);
    (void)memmove(s->buffer, s->at, left);
    s->begin = s->at = s->buffer;
    s->end = s->buffer + left;
    size_t want = s->capacity - left;
    if (want > s->stop - read_to)
        want = (size_t)(s->stop - read_to);
    ssize_t n;
    do
        n = pread(s->fd, s->buffer + left, want, (off_t)read_to);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return uma_error_set(err, errno, "%s: cannot read byte %llu", s->file, (unsigned long long)read_to);
    if (n == 0)
        return uma_error_text(err, EINVAL, "%s: it ends at byte %llu; was it cut short while it was read?", s->file,
                              (unsigned long long)read_to);
    s->end += n;
    return 1;
}

/* At least n (<= 16) bytes in the window, or as many as there are. */
static int need(struct uma_json_scan *s, size_t n, struct uma_error *err) {
    while ((size_t)(s->end - s->at) < n) {
        int r = refill(s, err);
        if (r <= 0)
            return r;
    }
    return 0;
}

static int cut_short(const struct uma_json_scan *s, struct uma_error *err) {
    return uma_json_scan_error(s, err, "the text ends in the middle");
}

static int unexpected(const struct uma_json_scan *s, const char *wanted, struct uma_error *err) {
    unsigned char c = (unsigned char)*s->at;
    if (c > 0x20 && c < 0x7f)
        return uma_json_scan_error(s, err, "expected %s, found '%c'", wanted, c);
    return uma_json_scan_error(s, err, "expected %s, found byte 0x%02x", wanted, c);
}

int uma_json_scan_peek(struct uma_json_scan *s, struct uma_error *err) {
    for (;;) {
        while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
            s->at++;
        if (s->at < s->end)
            return *s->at ? (unsigned char)*s->at : unexpected(s, "JSON", err);
        int r = refill(s, err);
        if (r <= 0)
            return r;
    }
}

int uma_json_scan_take(struct uma_json_scan *s, char wanted, struct uma_error *err) {
    int c = uma_json_scan_peek(s, err);
    if (c < 0)
        return c;
    if (c == 0)
        return cut_short(s, err);
    if (c != wanted)
        return unexpected(s, (const char[]){ '\'', wanted, '\'', '\0' }, err);
    s->at++;
    return 0;
}

/* ---- strings ------------------------------------------------------------------------------------------------ */

struct output {
    char *into;
    size_t size, length; /* length: of the whole, which may be more than fits */
};

static void put(struct output *out, const char *s, size_t n) {
    if (out->length < out->size)
        (void)memcpy(out->into + out->length, s, MIN_OF(n, out->size - out->length));
    out->length += n;
}

static int hex4(struct uma_json_scan *s, uint32_t *ret, struct uma_error *err) {
    int r = need(s, 4, err);
    if (r < 0)
        return r;
    if (s->end - s->at < 4)
        return cut_short(s, err);
    uint32_t value = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        char c = *s->at;
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit == 16)
            return unexpected(s, "a hexadecimal digit", err);
        value = value << 4 | digit;
    }
    *ret = value;
    return 0;
}

/* Behind "\u". */
static int unicode_escape(struct uma_json_scan *s, struct output *out, struct uma_error *err) {
    uint32_t c = 0, low = 0;
    int r = hex4(s, &c, err);
    if (r < 0)
        return r;
    if (c >= 0xd800 && c <= 0xdfff) {
        r = need(s, 2, err);
        if (r < 0)
            return r;
        if (c >= 0xdc00 || s->end - s->at < 2 || s->at[0] != '\\' || s->at[1] != 'u')
            return uma_json_scan_error(s, err, "half a surrogate pair");
        s->at += 2;
        r = hex4(s, &low, err);
        if (r < 0)
            return r;
        if (low < 0xdc00 || low > 0xdfff)
            return uma_json_scan_error(s, err, "half a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10 | (low - 0xdc00));
    }
    char utf8[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = n; i-- > 0; c >>= 6)
        utf8[i] = (char)(i == 0 ? (lead[n] | c) : (0x80u | (c & 0x3fu)));
    put(out, utf8, n);
    return 0;
}

/* Behind "\". */
static int escape(struct uma_json_scan *s, struct output *out, struct uma_error *err) {
    int r = need(s, 1, err);
    if (r < 0)
        return r;
    if (s->at == s->end)
        return cut_short(s, err);
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (*s->at == 'u') {
        s->at++;
        return unicode_escape(s, out, err);
    }
    const char *found = *s->at ? strchr(from, *s->at) : NULL;
    if (!found)
        return unexpected(s, "an escape", err);
    put(out, &to[found - from], 1);
    s->at++;
    return 0;
}

/* One step of a string at something that is not plain ASCII. 1: the string has ended. */
static int string_step(struct uma_json_scan *s, struct output *out, struct uma_error *err) {
    unsigned char c = (unsigned char)*s->at;
    if (c == '"') {
        s->at++;
        return 1;
    }
    if (c == '\\') {
        s->at++;
        return escape(s, out, err);
    }
    if (c < 0x20)
        return uma_json_scan_error(s, err, "a control character (0x%02x) in a string", c);
    int r = need(s, 4, err);
    if (r < 0)
        return r;
    size_t n = uma_utf8_sequence(s->at, (size_t)(s->end - s->at));
    if (n == 0)
        return uma_json_scan_error(s, err, "not UTF-8 (byte 0x%02x)", (unsigned char)*s->at);
    put(out, s->at, n);
    s->at += n;
    return 0;
}

/* ASCII that stands for itself: one test for the ranges 0x20..0x3f, 0x40..0x5f, 0x60..0x7f, by a bit for each of them. */
static bool is_plain(unsigned char c) {
    static const uint32_t plain[8] = { 0, ~(UINT32_C(1) << ('"' - 0x20)), ~(UINT32_C(1) << ('\\' - 0x40)), UINT32_MAX };
    return plain[c >> 5] >> (c & 31) & 1;
}

int uma_json_scan_string(struct uma_json_scan *s, char *into, size_t size, size_t *ret_length, struct uma_error *err) {
    struct output out = { into, size ? size - 1 : 0, 0 };
    int r = uma_json_scan_take(s, '"', err);
    while (r == 0) {
        const char *run = s->at;
        while (s->at < s->end && is_plain((unsigned char)*s->at))
            s->at++;
        if (s->at > run)
            put(&out, run, (size_t)(s->at - run));
        if (s->at == s->end) {
            r = refill(s, err);
            r = r < 0 ? r : r == 0 ? cut_short(s, err) : 0;
        } else
            r = string_step(s, &out, err);
    }
    if (r < 0)
        return r;
    if (size)
        into[MIN_OF(out.length, size - 1)] = '\0';
    if (ret_length)
        *ret_length = out.length;
    return 0;
}

/* ---- containers --------------------------------------------------------------------------------------------- */

/* Behind a container's opening or behind one of its values: 1: another follows, 0: closed. */
static int next_in(struct uma_json_scan *s, bool *first, char close, struct uma_error *err) {
    int c = uma_json_scan_peek(s, err);
    if (c < 0)
        return c;
    if (c == 0)
        return cut_short(s, err);
    if (c == close) {
        s->at++;
        return 0;
    }
    if (!*first) {
        if (c != ',')
            return unexpected(s, close == '}' ? "',' or '}'" : "',' or ']'", err);
        s->at++;
    }
    *first = false;
    return 1;
}

int uma_json_scan_element(struct uma_json_scan *s, bool *first, struct uma_error *err) {
    if (*first) {
        int r = uma_json_scan_take(s, '[', err);
        if (r < 0)
            return r;
    }
    return next_in(s, first, ']', err);
}

int uma_json_scan_member(struct uma_json_scan *s, bool *first, char *key, size_t key_size, size_t *ret_length, struct uma_error *err) {
    if (*first) {
        int r = uma_json_scan_take(s, '{', err);
        if (r < 0)
            return r;
    }
    int r = next_in(s, first, '}', err);
    if (r <= 0)
        return r;
    r = uma_json_scan_string(s, key, key_size, ret_length, err);
    if (r < 0)
        return r;
    r = uma_json_scan_take(s, ':', err);
    return r < 0 ? r : 1;
}

/* ---- numbers and the rest ----------------------------------------------------------------------------------- */

/* The next byte as it stands, 0 at the end. */
static int next_byte(struct uma_json_scan *s, struct uma_error *err) {
    if (s->at == s->end) {
        int r = refill(s, err);
        if (r <= 0)
            return r;
    }
    return (unsigned char)*s->at;
}

int uma_json_scan_u64(struct uma_json_scan *s, uint64_t *ret_value, struct uma_error *err) {
    int c = uma_json_scan_peek(s, err);
    if (c < 0)
        return c;
    if (c == 0)
        return cut_short(s, err);
    if (c < '0' || c > '9')
        return unexpected(s, "an integer that is not negative", err);
    uint64_t value = 0;
    bool zero = c == '0';
    for (unsigned digits = 0; c >= '0' && c <= '9'; digits++) {
        if (zero && digits == 1)
            return uma_json_scan_error(s, err, "a number that begins with 0");
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (unsigned)(c - '0'), &value))
            return uma_json_scan_error(s, err, "a number beyond 2^64");
        s->at++;
        c = next_byte(s, err);
        if (c < 0)
            return c;
    }
    if (c == '.' || c == 'e' || c == 'E')
        return unexpected(s, "an integer", err);
    *ret_value = value;
    return 0;
}

/* Digits, at least one. ret_value (may be NULL) saturates. */
static int skip_digits(struct uma_json_scan *s, uint64_t *ret_value, struct uma_error *err) {
    uint64_t value = 0;
    int c = next_byte(s, err);
    if (c >= 0 && (c < '0' || c > '9'))
        return c == 0 && s->at == s->end ? cut_short(s, err) : unexpected(s, "a digit", err);
    while (c >= '0' && c <= '9') {
        if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, (unsigned)(c - '0'), &value))
            value = UINT64_MAX;
        s->at++;
        c = next_byte(s, err);
    }
    if (ret_value)
        *ret_value = value;
    return c < 0 ? c : 0;
}

static int skip_exponent(struct uma_json_scan *s, struct uma_error *err) {
    s->at++;
    int c = next_byte(s, err);
    if (c == '+' || c == '-')
        s->at++;
    return c < 0 ? c : skip_digits(s, NULL, err);
}

int uma_json_scan_number(struct uma_json_scan *s, uint64_t *ret_whole, struct uma_error *err) {
    uint64_t whole = 0;
    int c = uma_json_scan_peek(s, err), r = 0;
    if (c < 0)
        return c;
    bool negative = c == '-';
    if (negative)
        s->at++;
    c = next_byte(s, err);
    if (c == '0')
        s->at++;
    else
        r = skip_digits(s, &whole, err);
    if (r < 0 || (c = next_byte(s, err)) < 0)
        return r < 0 ? r : c;
    if (c == '.') {
        s->at++;
        r = skip_digits(s, NULL, err);
        if (r < 0 || (c = next_byte(s, err)) < 0)
            return r < 0 ? r : c;
    }
    if (c == 'e' || c == 'E')
        r = skip_exponent(s, err);
    if (r == 0 && ret_whole)
        *ret_whole = negative ? 0 : whole;
    return r;
}

static int skip_word(struct uma_json_scan *s, struct uma_error *err) {
    static const char *const words[] = { "true", "false", "null" };
    int r = need(s, 5, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ELEMENTS(words); i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0) {
            s->at += n;
            return 0;
        }
    }
    return unexpected(s, "a value", err);
}

/* The containers that are open while one value is left out: a bit for each, 1: object. */
struct nesting {
    unsigned depth;
    bool first;
    unsigned char kind[UMA_JSON_SCAN_DEPTH_MAX / 8];
};

static bool in_object(const struct nesting *n) {
    return n->kind[(n->depth - 1) / 8] >> (n->depth - 1) % 8 & 1;
}

static int open_container(struct uma_json_scan *s, struct nesting *n, bool object, struct uma_error *err) {
    if (n->depth == UMA_JSON_SCAN_DEPTH_MAX)
        return uma_json_scan_error(s, err, "nested more than %d deep", UMA_JSON_SCAN_DEPTH_MAX);
    unsigned char bit = (unsigned char)(1u << n->depth % 8);
    unsigned char *byte = &n->kind[n->depth / 8];
    *byte = (unsigned char)(object ? *byte | bit : *byte & ~bit);
    n->depth++;
    n->first = true;
    s->at++;
    return 0;
}

static int skip_start(struct uma_json_scan *s, struct nesting *n, struct uma_error *err) {
    int c = uma_json_scan_peek(s, err);
    if (c < 0)
        return c;
    if (c == 0)
        return cut_short(s, err);
    if (c == '{' || c == '[')
        return open_container(s, n, c == '{', err);
    if (c == '"')
        return uma_json_scan_string(s, NULL, 0, NULL, err);
    if (c == '-' || (c >= '0' && c <= '9'))
        return uma_json_scan_number(s, NULL, err);
    return skip_word(s, err);
}

int uma_json_scan_skip(struct uma_json_scan *s, uint64_t *ret_values, struct uma_error *err) {
    struct nesting n = { 0 };
    do {
        unsigned depth = n.depth;
        int r = skip_start(s, &n, err);
        if (r < 0)
            return r;
        if (ret_values)
            ++*ret_values;
        if (n.depth == depth)
            n.first = false;
        /* close what ends here, and go on to the next value of what does not */
        while (n.depth > 0) {
            r = next_in(s, &n.first, in_object(&n) ? '}' : ']', err);
            if (r < 0)
                return r;
            if (r > 0)
                break;
            n.depth--;
            n.first = false;
        }
        if (n.depth > 0 && in_object(&n)) {
            r = uma_json_scan_string(s, NULL, 0, NULL, err);
            if (r == 0)
                r = uma_json_scan_take(s, ':', err);
            if (r < 0)
                return r;
        }
    } while (n.depth > 0);
    return 0;
}

int uma_json_scan_finish(struct uma_json_scan *s, struct uma_error *err) {
    int c = uma_json_scan_peek(s, err);
    return c > 0 ? unexpected(s, "the end", err) : c;
}
