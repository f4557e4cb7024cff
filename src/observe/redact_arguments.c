/* SPDX-License-Identifier: MIT */
/*
 * Command lines and environments. What is kept: options and variables that are on the lists, numbers, and words that are public. So a
 * report still says which engine it was and how it was configured, and nothing about whose model, where and for whom.
 */
#include "observe/redact.h"
#include "observe/redact_token.h"

#include <string.h>

enum next { NEXT_VALUE, NEXT_MODEL, NEXT_SECRET };

static void put(struct uma_redactor *r, enum uma_stand_in kind, const char *s, size_t n) {
    uma_redactor_put(r, kind, s, n);
}

static void put_with_extension(struct uma_redactor *r, enum uma_stand_in kind, const char *s, size_t n) {
    put(r, kind, s, n);
    size_t extension = uma_token_extension(s, n);
    uma_text_append_n(&r->out, s + n - extension, extension);
}

/* /opt/venv/bin/python3 is path-1/python3: which program it is matters, where it lies does not. */
static void put_path(struct uma_redactor *r, const char *s, size_t n) {
    size_t base = n;
    bool all_public = true;
    for (size_t from = 0; from <= n;) {
        const char *slash = memchr(s + from, '/', n - from);
        size_t end = slash ? (size_t)(slash - s) : n;
        all_public = all_public && (end == from || uma_token_public(s + from, end - from));
        if (!slash)
            base = from;
        from = end + 1;
    }
    if (all_public)
        uma_text_append_n(&r->out, s, n);
    else if (base > 1 && base < n && uma_token_public(s + base, n - base)) {
        put(r, UMA_STAND_IN_PATH, s, base - 1);
        uma_text_append_n(&r->out, s + base - 1, n - base + 1);
    } else
        put_with_extension(r, UMA_STAND_IN_PATH, s, n);
}

/* "expandable_segments:True,max_split_size_mb:512", "0,1": when every part may stay, so may the whole. */
static bool list_public(const char *s, size_t n) {
    size_t parts = 0;
    for (size_t from = 0; from <= n; parts++) {
        size_t end = from;
        while (end < n && !strchr(",:;=", s[end]))
            end++;
        if (end == from || !(uma_token_number(s + from, end - from) || uma_redact_known(UMA_WORDS, s + from, end - from)))
            return false;
        from = end + 1;
    }
    return parts > 1;
}

static bool contains(const char *s, size_t n, const char *what) {
    return memmem(s, n, what, strlen(what)) != NULL;
}

/* NAME:PORT of a host that is known by name, or any NAME: the port is a number that may stay. */
static size_t before_port(const char *s, size_t n) {
    size_t i = n;
    while (i > 0 && s[i - 1] >= '0' && s[i - 1] <= '9')
        i--;
    return i > 1 && i < n && n - i <= 5 && s[i - 1] == ':' && !memchr(s, ':', i - 1) ? i - 1 : n;
}

/* path-1/python3: what put_path() wrote before. */
static bool redacted_path(const char *s, size_t n) {
    const char *slash = memchr(s, '/', n);
    size_t before = slash ? (size_t)(slash - s) : 0;
    return slash && uma_redactor_stand_in(s, before) && uma_token_public(slash + 1, n - before - 1);
}

/* `address`: how much of it is one. */
static bool may_stay(const char *s, size_t n, size_t address) {
    if (uma_token_public(s, n) || uma_redactor_stand_in(s, n) || redacted_path(s, n) || (uma_token_number(s, n) && !address))
        return true;
    return !address && !contains(s, n, "://") && before_port(s, n) == n && list_public(s, n);
}

static void put_value(struct uma_redactor *r, const char *s, size_t n) {
    size_t address = uma_token_address(s, n);
    if (n == 0)
        return;
    if (uma_redactor_find(r, UMA_STAND_IN_HOST, s, n))
        put(r, UMA_STAND_IN_HOST, s, n);
    else if (may_stay(s, n, address))
        uma_text_append_n(&r->out, s, n);
    else if (contains(s, n, "://"))
        put(r, UMA_STAND_IN_URL, s, n);
    else if (before_port(s, n) < n) {
        put_value(r, s, before_port(s, n)); /* once: what is before the port has no colon */
        uma_text_append_n(&r->out, s + before_port(s, n), n - before_port(s, n));
    } else if (address) {
        put(r, UMA_STAND_IN_ADDRESS, s, address);
        if (address < n && uma_token_number(s + address + 1, n - address - 1))
            uma_text_append_n(&r->out, s + address, n - address);
    } else if (uma_token_path(s, n))
        put_path(r, s, n);
    else if (uma_token_email(s, n))
        put(r, UMA_STAND_IN_EMAIL, s, n);
    else if (uma_redactor_find(r, UMA_STAND_IN_CONTAINER, s, n))
        put(r, UMA_STAND_IN_CONTAINER, s, n);
    else if (uma_token_id(s, n))
        put(r, UMA_STAND_IN_ID, s, n);
    else if (memchr(s, '/', n)) /* organisation/name, as model hubs write it, or a relative path */
        put_with_extension(r, UMA_STAND_IN_MODEL, s, n);
    else
        put_with_extension(r, UMA_STAND_IN_TEXT, s, n);
}

static void put_next(struct uma_redactor *r, enum next next, const char *s, size_t n) {
    if (n == 0)
        return;
    if (next == NEXT_SECRET && !uma_redactor_stand_in(s, n))
        put(r, UMA_STAND_IN_TEXT, s, n);
    else if (next == NEXT_MODEL && !uma_redactor_stand_in(s, n))
        put_with_extension(r, UMA_STAND_IN_MODEL, s, n);
    else
        put_value(r, s, n);
}

/* The option's name as the lists have it: no dashes before it, "-" for "_". false: longer than any name on them. */
static bool option_name(const char *s, size_t n, char name[64], size_t *ret_n) {
    if (n == 0 || n >= 64)
        return false;
    for (size_t i = 0; i < n; i++)
        name[i] = s[i] == '_' ? '-' : s[i];
    *ret_n = n;
    return true;
}

static enum next put_option(struct uma_redactor *r, const char *s, size_t n) {
    size_t dashes = 0, length = 0;
    while (dashes < 2 && dashes < n && s[dashes] == '-')
        dashes++;
    const char *equals = memchr(s, '=', n);
    size_t end = equals ? (size_t)(equals - s) : n;
    char name[64];
    bool fits = option_name(s + dashes, end - dashes, name, &length);
    bool negated = fits && length > 3 && memcmp(name, "no-", 3) == 0 && uma_redact_known(UMA_WORDS_OPTIONS, name + 3, length - 3);
    bool known = fits && (negated || uma_redact_known(UMA_WORDS_OPTIONS, name, length));
    enum next next = !fits                                                      ? NEXT_VALUE
                     : uma_redact_known(UMA_WORDS_SECRET_OPTIONS, name, length) ? NEXT_SECRET
                     : uma_redact_known(UMA_WORDS_MODEL_OPTIONS, name, length)  ? NEXT_MODEL
                                                                                : NEXT_VALUE;
    uma_text_append_n(&r->out, s, dashes);
    if (known || uma_redactor_stand_in(s + dashes, end - dashes))
        uma_text_append_n(&r->out, s + dashes, end - dashes);
    else if (end > dashes)
        put(r, UMA_STAND_IN_OPTION, s + dashes, end - dashes);
    if (!equals)
        return next;
    uma_text_char(&r->out, '=');
    put_next(r, next, equals + 1, n - end - 1);
    return NEXT_VALUE;
}

/* NAME=VALUE of the environment, or key=value of a configuration on the command line. */
static void put_assignment(struct uma_redactor *r, const char *s, size_t n, size_t end) {
    char name[64];
    size_t length;
    bool variable = uma_redact_known_variable(s, end);
    if (variable || uma_redactor_stand_in(s, end) || uma_redact_known(UMA_WORDS, s, end) ||
        (option_name(s, end, name, &length) && uma_redact_known(UMA_WORDS_OPTIONS, name, length)))
        uma_text_append_n(&r->out, s, end);
    else
        put(r, s[0] >= 'A' && s[0] <= 'Z' ? UMA_STAND_IN_VARIABLE : UMA_STAND_IN_OPTION, s, end);
    bool model = variable && (contains(s, end, "MODEL") || contains(s, end, "_HF_") || contains(s, end, "ALIAS"));
    bool secret = contains(s, end, "KEY") || contains(s, end, "TOKEN") || contains(s, end, "SECRET") || contains(s, end, "PASS") ||
                  (!model && option_name(s, end, name, &length) && uma_redact_known(UMA_WORDS_SECRET_OPTIONS, name, length));
    enum next next = secret ? NEXT_SECRET : model ? NEXT_MODEL : NEXT_VALUE;
    if (next == NEXT_MODEL && uma_token_number(s + end + 1, n - end - 1)) /* OLLAMA_MAX_LOADED_MODELS=2 */
        next = NEXT_VALUE;
    uma_text_char(&r->out, '=');
    put_next(r, next, s + end + 1, n - end - 1);
}

static enum next put_piece(struct uma_redactor *r, enum next next, const char *s, size_t n) {
    if (next == NEXT_SECRET) {
        put_next(r, next, s, n);
        return NEXT_VALUE;
    }
    if (n > 1 && s[0] == '-' && !uma_token_number(s, n))
        return put_option(r, s, n);
    if (next == NEXT_VALUE) {
        const char *equals = memchr(s, '=', n);
        if (equals && equals > s && !list_public(s, n) && !uma_token_path(s, n)) {
            put_assignment(r, s, n, (size_t)(equals - s));
            return NEXT_VALUE;
        }
    }
    put_next(r, next, s, n);
    return NEXT_VALUE;
}

static bool white(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A string with spaces (a shell's -c, a title that was set over the arguments) is taken word by word. */
static enum next put_argument(struct uma_redactor *r, enum next next, const char *s, size_t n) {
    if (next == NEXT_SECRET) /* a password may have spaces */
        return put_piece(r, next, s, n);
    for (size_t i = 0; i < n;) {
        size_t from = i;
        while (i < n && white(s[i]))
            i++;
        if (i > from)
            uma_text_char(&r->out, ' ');
        for (from = i; i < n && !white(s[i]);)
            i++;
        if (i > from)
            next = put_piece(r, next, s + from, i - from);
    }
    return next;
}

void uma_redact_arguments(struct uma_redactor *redactor, const char **strings, size_t n) {
    enum next next = NEXT_VALUE;
    for (size_t i = 0; i < n; i++) {
        uma_text_reset(&redactor->out);
        next = put_argument(redactor, next, strings[i], strlen(strings[i]));
        strings[i] = uma_redactor_take(redactor);
    }
}

void uma_redact_put_argument(struct uma_redactor *redactor, const char *s, size_t n) {
    (void)put_argument(redactor, NEXT_VALUE, s, n);
}
