/* SPDX-License-Identifier: MIT */
#include "observe/mountinfo.h"

#include <string.h>

/* Fields are separated by one space; a space in a name is \040. A source that was given as "" is an empty field. */
static bool next_field(const char **at, const char *end, struct uma_mount_field *ret_field) {
    if (*at >= end)
        return false;
    const char *space = memchr(*at, ' ', (size_t)(end - *at));
    *ret_field = (struct uma_mount_field){ *at, (size_t)((space ? space : end) - *at) };
    *at = space ? space + 1 : end;
    return true;
}

bool uma_mount_field_is(struct uma_mount_field field, const char *word) {
    return field.n == strlen(word) && memcmp(field.s, word, field.n) == 0;
}

bool uma_mountinfo_line(const char *line, const char *end, struct uma_mount_line *ret_line) {
    struct uma_mount_line l = { 0 };
    struct uma_mount_field *const head[] = { &l.id, &l.parent, &l.device, &l.root, &l.point, &l.flags };
    struct uma_mount_field optional;
    const char *at = line;
    for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
        if (!next_field(&at, end, head[i]))
            return false;
    do { /* "shared:4", "master:2": any number of them, ended by "-" */
        if (!next_field(&at, end, &optional))
            return false;
    } while (!uma_mount_field_is(optional, "-"));
    if (!next_field(&at, end, &l.type) || !next_field(&at, end, &l.source) || !next_field(&at, end, &l.options))
        return false;
    *ret_line = l;
    return true;
}

bool uma_mounts_line(const char *line, const char *end, struct uma_mount_line *ret_line) {
    struct uma_mount_line l = { .root = { "/", 1 } };
    const char *at = line;
    if (!next_field(&at, end, &l.source) || !next_field(&at, end, &l.point) || !next_field(&at, end, &l.type) ||
        !next_field(&at, end, &l.options))
        return false;
    l.flags = l.options;
    *ret_line = l;
    return true;
}

/* The value of a backslash and three octal digits at s, or 0, which no name has. */
static unsigned escape_at(const char *s, size_t n) {
    if (n < 4 || s[0] != '\\' || s[1] < '0' || s[1] > '3' || s[2] < '0' || s[2] > '7' || s[3] < '0' || s[3] > '7')
        return 0;
    return (unsigned)(s[1] - '0') << 6 | (unsigned)(s[2] - '0') << 3 | (unsigned)(s[3] - '0');
}

size_t uma_mount_unescape(struct uma_mount_field field, char *into) {
    char *o = into;
    for (size_t i = 0; i < field.n;) {
        unsigned escaped = escape_at(field.s + i, field.n - i);
        *o++ = escaped ? (char)escaped : field.s[i];
        i += escaped ? 4 : 1;
    }
    *o = '\0';
    return (size_t)(o - into);
}
