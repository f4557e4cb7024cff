/* SPDX-License-Identifier: MIT */
#include "valve/settings.h"

#include "valve/account.h"

#include <string.h>

enum { LENGTH_MAX = 4096 }; /* of the variable: what is longer was not written by umactl */

static bool is(const char *text, size_t n, const char *word) {
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

static bool number(const char *text, size_t n, uint64_t *ret) {
    uint64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || value > (UINT64_MAX - (uint64_t)(text[i] - '0')) / 10)
            return false;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    if (n > 0)
        *ret = value;
    return n > 0;
}

static bool report(const char *text, size_t n, enum uma_valve_report *ret) {
    static const char *const names[] = { "auto", "pool", "raw" };
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is(text, n, names[i])) {
            *ret = (enum uma_valve_report)i;
            return true;
        }
    return false;
}

static bool token(const char *text, size_t n, char ret[33]) {
    if (n == 0 || n > 32)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    (void)memcpy(ret, text, n);
    ret[n] = '\0';
    return true;
}

static bool one(const char *text, size_t n, struct uma_valve_settings *s) {
    const char *colon = memchr(text, ':', n);
    if (!colon) {
        s->off = s->off || is(text, n, "off");
        return is(text, n, "off") || n == 0;
    }
    size_t key = (size_t)(colon - text), length = n - key - 1;
    if (is(text, key, "ceiling"))
        return number(colon + 1, length, &s->ceiling);
    if (is(text, key, "floor"))
        return s->has_floor = number(colon + 1, length, &s->floor);
    if (is(text, key, "report"))
        return report(colon + 1, length, &s->report);
    return is(text, key, "token") && token(colon + 1, length, s->token);
}

void uma_valve_settings_parse(const char *text, struct uma_valve_settings *ret_settings, const char **ret_unknown, size_t *ret_length) {
    *ret_settings = (struct uma_valve_settings){ .ceiling = UMA_VALVE_NONE };
    *ret_unknown = NULL;
    *ret_length = 0;
    size_t left = text ? strnlen(text, LENGTH_MAX) : 0;
    while (left > 0) {
        const char *comma = memchr(text, ',', left);
        size_t n = comma ? (size_t)(comma - text) : left;
        if (!one(text, n, ret_settings) && !*ret_unknown) {
            *ret_unknown = text;
            *ret_length = n;
        }
        n += comma ? 1 : 0;
        text += n;
        left -= n;
    }
}
