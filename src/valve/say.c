/* SPDX-License-Identifier: MIT */
#include "valve/say.h"

#include "valve/digits.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void add(struct uma_valve_line *line, char c) {
    if (line->n + 2 < sizeof(line->text))
        line->text[line->n++] = c;
}

void uma_valve_say(struct uma_valve_line *line, const char *text) {
    for (; *text; text++)
        add(line, *text);
}

void uma_valve_say_n(struct uma_valve_line *line, const char *text, unsigned n) {
    for (unsigned i = 0; i < n && i < 64 && text[i]; i++)
        add(line, text[i] < ' ' || text[i] > '~' ? '?' : text[i]);
}

void uma_valve_say_number(struct uma_valve_line *line, uint64_t value) {
    char digits[UMA_VALVE_DIGITS + 1];
    (void)uma_valve_put_number(digits, value);
    uma_valve_say(line, digits);
}

void uma_valve_say_bytes(struct uma_valve_line *line, uint64_t bytes) {
    static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };
    unsigned unit = 0;
    uint64_t tenths = 0; /* of the unit */
    while (bytes >> unit * 10 >= 1024)
        unit++;
    if (unit > 0) {
        uint64_t hundredth = (bytes >> (unit - 1) * 10) * 10 + 512; /* of the unit below, so that it stays in range */
        tenths = hundredth / 1024;
        if (tenths >= 10240 && unit + 1 < sizeof(units) / sizeof(units[0])) {
            tenths = 10;
            unit++;
        }
    }
    uma_valve_say_number(line, unit > 0 ? tenths / 10 : bytes);
    if (unit > 0 && tenths < 1000) {
        add(line, '.');
        add(line, (char)('0' + tenths % 10));
    }
    uma_valve_say(line, units[unit]);
}

void uma_valve_say_end(struct uma_valve_line *line) {
    static const char prefix[] = "umactl valve: ";
    int before = errno;
    char text[sizeof(prefix) - 1 + sizeof(line->text)];
    (void)memcpy(text, prefix, sizeof(prefix) - 1);
    (void)memcpy(text + sizeof(prefix) - 1, line->text, line->n);
    size_t n = sizeof(prefix) - 1 + line->n;
    text[n++] = '\n';
    (void)syscall(SYS_write, 2, text, n); /* not a place where a thread may be cancelled */
    errno = before;
}
