/* SPDX-License-Identifier: MIT */
#include "guard/say.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static bool to_journal;
static uint64_t lost;

/* JOURNAL_STREAM is "device:inode" of the journal's socket (systemd.exec(5)): only where stderr still is that one. */
void uma_guard_say_open(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat here;
    uint64_t device, inode;
    if (stream == NULL || fstat(STDERR_FILENO, &here) != 0)
        return;
    const char *end = stream + strlen(stream), *at = uma_parse_u64(stream, end, &device);
    if (at == NULL || *at != ':' || uma_parse_u64(at + 1, end, &inode) != end)
        return;
    to_journal = device == here.st_dev && inode == here.st_ino;
}

bool uma_guard_say_to_journal(void) {
    return to_journal;
}

static void put(struct uma_guard_line *line, const char *s, size_t n) {
    n = MIN_OF(n, UMA_GUARD_LINE_MAX - 1 - line->length); /* one is kept for the end of the line */
    memcpy(line->text + line->length, s, n);
    line->length += n;
}

void uma_guard_line_begin(struct uma_guard_line *line, enum uma_guard_level level) {
    line->length = 0;
    if (to_journal) {
        char prefix[3] = { '<', (char)('0' + (int)level), '>' };
        put(line, prefix, sizeof(prefix));
    }
}

void uma_guard_line_text(struct uma_guard_line *line, const char *text) {
    put(line, text, strlen(text));
}

void uma_guard_line_name(struct uma_guard_line *line, const char *name, size_t max) {
    static const char digits[] = "0123456789abcdef";
    put(line, "'", 1);
    for (size_t i = 0; i < max && name[i] != '\0'; i++) {
        unsigned char c = (unsigned char)name[i];
        char escaped[4] = { '\\', 'x', digits[c >> 4], digits[c & 15] };
        if (c >= ' ' && c < 0x7f && c != '\'' && c != '\\')
            put(line, name + i, 1);
        else
            put(line, escaped, sizeof(escaped));
    }
    put(line, "'", 1);
}

void uma_guard_line_unsigned(struct uma_guard_line *line, uint64_t value) {
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    put(line, digits + at, sizeof(digits) - at);
}

void uma_guard_line_number(struct uma_guard_line *line, int64_t value) {
    if (value < 0)
        put(line, "-", 1);
    uma_guard_line_unsigned(line, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* value / unit with one decimal, cut */
static void put_tenths(struct uma_guard_line *line, uint64_t value, uint64_t unit, const char *name) {
    char decimal[2] = { '.', (char)('0' + value % unit * 10 / unit) };
    uma_guard_line_unsigned(line, value / unit);
    put(line, decimal, sizeof(decimal));
    uma_guard_line_text(line, name);
}

void uma_guard_line_bytes(struct uma_guard_line *line, uint64_t bytes) {
    if (bytes >= UMA_GIB) {
        put_tenths(line, bytes, UMA_GIB, " GiB");
        return;
    }
    uma_guard_line_unsigned(line, bytes / UMA_MIB);
    uma_guard_line_text(line, " MiB");
}

void uma_guard_line_time(struct uma_guard_line *line, int64_t ns) {
    uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
    if (value >= (uint64_t)UMA_SECOND_NS)
        put_tenths(line, value, (uint64_t)UMA_SECOND_NS, " s");
    else
        put_tenths(line, value, 1000000, " ms");
}

void uma_guard_line_error(struct uma_guard_line *line, int code) {
    const char *words = code < 0 ? strerrordesc_np(-code) : NULL; /* strerror(3) would make text of the locale */
    if (code >= 0)
        return;
    uma_guard_line_text(line, ": ");
    if (words != NULL)
        uma_guard_line_text(line, words);
    else
        uma_guard_line_number(line, -(int64_t)code);
}

/* Would a line go through at once? A pipe that is writable has room for PIPE_BUF bytes, a socket may still be full: write(2) then waits, send(2) does not, and is tried first. */
static bool write_now(const char *text, size_t n) {
    ssize_t sent = send(STDERR_FILENO, text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0 || errno != ENOTSOCK)
        return sent == (ssize_t)n;
    struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };
    return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) && write(STDERR_FILENO, text, n) == (ssize_t)n;
}

void uma_guard_say(struct uma_guard_line *line) {
    if (lost != 0) {
        struct uma_guard_line told;
        uma_guard_line_begin(&told, UMA_GUARD_WARNING);
        uma_guard_line_unsigned(&told, lost);
        uma_guard_line_text(&told, " lines were lost: nobody read them in time\n");
        if (write_now(told.text, told.length))
            lost = 0;
    }
    line->text[line->length++] = '\n';
    if (!write_now(line->text, line->length))
        lost++;
}

void uma_guard_say_text(enum uma_guard_level level, const char *text, int code) {
    struct uma_guard_line line;
    uma_guard_line_begin(&line, level);
    uma_guard_line_text(&line, text);
    uma_guard_line_error(&line, code);
    uma_guard_say(&line);
}
