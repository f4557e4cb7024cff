/* SPDX-License-Identifier: MIT */
/* What kind of thing a word of text is, by its form alone. */
#include "observe/redact_token.h"

#include <ctype.h>
#include <string.h>

static bool digit(char c) {
    return c >= '0' && c <= '9';
}
static bool hex(char c) {
    return digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
static size_t digits(const char *s, size_t n) {
    size_t i = 0;
    while (i < n && digit(s[i]))
        i++;
    return i;
}

/* 0.9, -1, 16384, 12GiB, 80%, 2e-5. More than 15 digits is an identifier: no size or count of a machine is that long. */
bool uma_token_number(const char *s, size_t n) {
    static const char *const units[] = { "",   "%",  "K",  "M",  "G", "T", "k", "m",  "g", "KiB", "MiB",   "GiB", "TiB", "kB",
                                         "KB", "MB", "GB", "TB", "B", "b", "s", "ms", "h", "d",   "GiB/s", "W",   "Hz" };
    size_t i = n > 0 && (s[0] == '-' || s[0] == '+'), whole = digits(s + i, n - i), part = 0;
    i += whole;
    if (i < n && s[i] == '.') {
        part = digits(s + i + 1, n - i - 1);
        i += 1 + part;
    }
    if (whole + part == 0 || whole + part > 15)
        return false;
    if (i + 1 < n && (s[i] == 'e' || s[i] == 'E')) {
        size_t sign = s[i + 1] == '-' || s[i + 1] == '+', power = digits(s + i + 1 + sign, n - i - 1 - sign);
        if (power > 0 && power < 4)
            i += 1 + sign + power;
    }
    for (size_t u = 0; u < ELEMENTS(units); u++)
        if (strlen(units[u]) == n - i && memcmp(units[u], s + i, n - i) == 0)
            return true;
    return false;
}

static size_t ipv4(const char *s, size_t n) {
    size_t i = 0;
    for (int part = 0; part < 4; part++) {
        size_t d = digits(s + i, n - i);
        if (d == 0 || d > 3)
            return 0;
        i += d;
        if (part < 3 && (i >= n || s[i++] != '.'))
            return 0;
    }
    return i;
}

/* IPv6 and MAC: groups of hex digits between colons, at least five of them or with "::" (times such as 12:30:05 are neither). */
static size_t colon_address(const char *s, size_t n) {
    size_t i = 0, groups = 0, colons = 0;
    bool doubled = false, letters = false;
    while (i < n && (hex(s[i]) || s[i] == ':')) {
        if (s[i] == ':') {
            colons++;
            doubled = doubled || (i > 0 && s[i - 1] == ':');
            i++;
            continue;
        }
        size_t from = i;
        for (; i < n && hex(s[i]); i++)
            letters = letters || !digit(s[i]);
        if (i - from > 4)
            return 0;
        groups++;
    }
    if (i < n && s[i] == '.') /* ::ffff:10.0.0.1 */
        while (i < n && (digit(s[i]) || s[i] == '.'))
            i++;
    if (i < n && s[i] == '%') /* fe80::1%eth0 */
        i = n;
    return (doubled && groups > 0) || (colons >= 4 && groups >= 5) || (colons >= 3 && letters && groups >= 4 && i == n) ? i : 0;
}

size_t uma_token_address(const char *s, size_t n) {
    size_t open = n > 0 && s[0] == '[', i = ipv4(s + open, n - open);
    if (i == 0)
        i = colon_address(s + open, n - open);
    if (i == 0)
        return 0;
    i += open;
    if (open && i < n && s[i] == ']')
        i++;
    /* an address is followed by nothing, a port or a mask: 1.2.3.4-rc1 is a version */
    return i == n || s[i] == ':' || s[i] == '/' ? i : 0;
}

bool uma_token_email(const char *s, size_t n) {
    const char *at = memchr(s, '@', n);
    return at && at > s && at + 1 < s + n;
}

/* 12 or more hex digits, also with dashes or underscores between them (UUIDs, container ids, commits), also after "GPU-" and the like. */
bool uma_token_id(const char *s, size_t n) {
    for (size_t from = 0; from < n;) {
        size_t count = 0, letters = 0, i = from;
        for (; i < n && (hex(s[i]) || ((s[i] == '-' || s[i] == '_') && i > from)); i++) {
            count += hex(s[i]);
            letters += isalpha((unsigned char)s[i]) != 0;
        }
        if (i == n)
            return count >= 12 && (letters > 0 || count > 15);
        while (i < n && s[i] != '-' && s[i] != '_')
            i++;
        from = i + 1;
    }
    return false;
}

/* 0000:0f:01.0 */
bool uma_token_pci(const char *s, size_t n) {
    static const char form[] = "xxxx:xx:xx.x";
    if (n != sizeof(form) - 1)
        return false;
    for (size_t i = 0; i < n; i++)
        if (form[i] == 'x' ? !hex(s[i]) : s[i] != form[i])
            return false;
    return true;
}

/* temp1_input, power1_average, fan1_label: hwmon's names (Documentation/hwmon/sysfs-interface.rst). */
bool uma_token_sensor(const char *s, size_t n) {
    static const char *const kinds[] = { "temp", "fan", "power", "energy", "in", "curr", "trip_point_" };
    for (size_t k = 0; k < ELEMENTS(kinds); k++) {
        size_t length = strlen(kinds[k]);
        if (n <= length || memcmp(s, kinds[k], length) != 0)
            continue;
        size_t d = digits(s + length, n - length), i = length + d;
        if (d == 0 || d > 3 || i >= n || s[i] != '_' || n - i > 16)
            continue;
        static const char *const ends[] = { "_input", "_label", "_average", "_max",    "_crit", "_cap",
                                            "_temp",  "_type",  "_min",     "_enable", "_fault" };
        for (size_t e = 0; e < ELEMENTS(ends); e++)
            if (strlen(ends[e]) == n - i && memcmp(ends[e], s + i, n - i) == 0)
                return true;
    }
    return false;
}

bool uma_token_path(const char *s, size_t n) {
    return n > 1 && (s[0] == '/' || s[0] == '~' || (s[0] == '.' && (s[1] == '/' || (s[1] == '.' && n > 2 && s[2] == '/'))));
}

size_t uma_token_extension(const char *s, size_t n) {
    size_t i = n;
    while (i > 0 && s[i - 1] != '.' && s[i - 1] != '/')
        i--;
    return i > 1 && s[i - 1] == '.' && i < n && uma_redact_known(UMA_WORDS_EXTENSIONS, s + i, n - i) ? n - i + 1 : 0;
}

/* A public word, also with a version or a number behind it: python3.12, hwmon3, ksoftirqd/0. */
bool uma_token_public(const char *s, size_t n) {
    if (uma_redact_known(UMA_WORDS, s, n))
        return true;
    size_t short_n = n;
    while (short_n > 0 && (digit(s[short_n - 1]) || ((s[short_n - 1] == '.' || s[short_n - 1] == '/') && short_n < n)))
        short_n--;
    return short_n > 1 && n - short_n <= 6 && short_n < n && uma_redact_known(UMA_WORDS, s, short_n);
}
