/* SPDX-License-Identifier: MIT */
#include "window/maps.h"

#include <string.h>
#include <unistd.h>

struct cursor {
    const char *at, *end;
};

/* A number in base 16 or 10, at most 16 or 19 digits (what fits), ended by `after`. */
static bool number(struct cursor *c, unsigned base, char after, uint64_t *ret_value) {
    uint64_t value = 0;
    const char *begin = c->at;
    for (; c->at < c->end && c->at - begin < (base == 16 ? 16 : 19); c->at++) {
        char ch = *c->at;
        unsigned digit;
        if (ch >= '0' && ch <= '9')
            digit = (unsigned)(ch - '0');
        else if (base == 16 && ch >= 'a' && ch <= 'f')
            digit = (unsigned)(ch - 'a') + 10;
        else
            break;
        value = value * base + digit;
    }
    if (c->at == begin)
        return false;
    *ret_value = value;
    if (after == ' ' && c->at == c->end) /* the inode may be the line's end */
        return true;
    if (c->at == c->end || *c->at != after)
        return false;
    c->at++;
    return true;
}

static bool letter(struct cursor *c, char yes, char no, bool *ret_is) {
    if (c->at == c->end || (*c->at != yes && *c->at != no))
        return false;
    *ret_is = *c->at++ == yes;
    return true;
}

/* "7f0c1a000000-7f0c1b000000 r--s 00000000 fe:00 123456    /path" (proc_pid_maps(5)) */
bool window_maps_line(const char *line, size_t length, struct window_area *ret_area) {
    struct cursor c = { line, line + length };
    struct window_area area;
    bool executable, private;
    uint64_t major, minor, inode;
    if (!number(&c, 16, '-', &area.start) || !number(&c, 16, ' ', &area.end) || area.start >= area.end)
        return false;
    if (!letter(&c, 'r', '-', &area.readable) || !letter(&c, 'w', '-', &area.writable) || !letter(&c, 'x', '-', &executable) ||
        !letter(&c, 'p', 's', &private))
        return false;
    if (c.at == c.end || *c.at++ != ' ')
        return false;
    if (!number(&c, 16, ' ', &area.offset) || !number(&c, 16, ':', &major) || !number(&c, 16, ' ', &minor) || !number(&c, 10, ' ', &inode))
        return false;
    area.shared = !private;
    area.file = inode != 0;
    *ret_area = area;
    return true;
}

/*
 * Lines are cut at what their first five fields can take (under 120 bytes); the rest is a path and is passed over. Returns 1 when a line is found that answers, -1
 * when one is not understood (nothing after it can be trusted), 0: go on.
 */
static int judge(const char *line, size_t length, uint64_t address, struct window_area *ret_area) {
    struct window_area area;
    if (!window_maps_line(line, length, &area))
        return -1;
    if (area.end <= address)
        return 0;
    *ret_area = area;
    return 1;
}

bool window_maps_area(int fd, uint64_t address, struct window_area *ret_area) {
    char block[4096], line[160];
    size_t length = 0;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return false;
    for (;;) {
        ssize_t got = read(fd, block, sizeof(block));
        if (got <= 0)
            return got == 0 && length > 0 && judge(line, length, address, ret_area) == 1;
        const char *at = block, *end = block + got;
        while (at < end) {
            const char *newline = memchr(at, '\n', (size_t)(end - at));
            size_t part = (size_t)((newline ? newline : end) - at);
            size_t room = sizeof(line) - length;
            (void)memcpy(line + length, at, part < room ? part : room);
            length += part < room ? part : room;
            at += part;
            if (!newline)
                break;
            at++;
            int r = judge(line, length, address, ret_area);
            if (r != 0)
                return r == 1;
            length = 0;
        }
    }
}
