/* SPDX-License-Identifier: MIT */
#include "guard/policy_parse.h"

#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SHOWN 64 /* letters of a wrong word that a message repeats */

/* "FILE:LINE: " and what is wrong there. */
#define wrong(parser, err, format, ...)                                                                                                    \
    uma_error_text(err, EINVAL, "%.255s:%u: " format, (parser)->name, (unsigned)(parser)->line __VA_OPT__(, ) __VA_ARGS__)

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* Cuts white space at both ends, in place. */
static char *trim(char *s) {
    size_t n = strlen(s);
    while (n > 0 && is_space(s[n - 1]))
        s[--n] = '\0';
    while (is_space(*s))
        s++;
    return s;
}

/* ---- what was expected -------------------------------------------------------------------------------------- */

static void list_sections(char *into, size_t size) {
    size_t at = 0;
    into[0] = '\0';
    for (unsigned i = 0; i < UMA_GUARD_KEYS && at < size; i++)
        if (uma_guard_key_begins_section(i))
            at += (size_t)snprintf(into + at, size - at, "%s[%s]", i ? ", " : "", uma_guard_keys[i].section);
}

static void list_keys(int section, char *into, size_t size) {
    size_t at = 0;
    into[0] = '\0';
    for (unsigned i = (unsigned)section; i < UMA_GUARD_KEYS && at < size; i++) {
        if (i != (unsigned)section && uma_guard_key_begins_section(i))
            break;
        at += (size_t)snprintf(into + at, size - at, "%s%s", i != (unsigned)section ? ", " : "", uma_guard_keys[i].name);
    }
}

/* ---- values ------------------------------------------------------------------------------------------------- */

static void *member(const struct uma_guard_policy_parser *parser, const struct uma_guard_key *key) {
    return (key->of_notify ? (char *)parser->notify : (char *)parser->policy) + key->offset;
}

static int set_size(struct uma_guard_policy_parser *parser, const struct uma_guard_key *key, const char *value, struct uma_error *err) {
    struct uma_error why = { 0 };
    uint64_t bytes;
    if (uma_parse_size(value, &bytes, &why) < 0)
        return wrong(parser, err, "%s: %.200s", key->name, why.text);
    if (!(key->automatic && bytes == 0) && ((double)bytes < key->least || (double)bytes > key->most))
        return wrong(parser, err, "%s: \"%.*s\" is out of range, expected %s%.0f MiB to %.0f GiB", key->name, SHOWN, value,
                     key->automatic ? "0 (by the machine's size) or " : "", key->least / 0x1p20, key->most / 0x1p30);
    *(uint64_t *)member(parser, key) = bytes;
    return 0;
}

/* In thousandths, because a locale would turn its point into a comma. */
static void bound_text(double value, char *into, size_t size) {
    long long thousandths = llround(value * 1000);
    int n = snprintf(into, size, "%lld.%03lld", thousandths / 1000, thousandths % 1000);
    while (n > 0 && (into[n - 1] == '0' || into[n - 1] == '.')) {
        bool point = into[n - 1] == '.';
        into[--n] = '\0';
        if (point)
            break;
    }
}

static int set_number(struct uma_guard_policy_parser *parser, const struct uma_guard_key *key, const char *value, struct uma_error *err) {
    struct uma_error why = { 0 };
    double number;
    bool seconds = key->kind == UMA_GUARD_KEY_SECONDS;
    if (seconds && uma_parse_duration(value, &number, &why) < 0)
        return wrong(parser, err, "%s: %.200s", key->name, why.text);
    if (!seconds && uma_parse_f64_all(value, &number) < 0)
        return wrong(parser, err, "%s: \"%.*s\" is not a number, expected one such as 1.25", key->name, SHOWN, value);
    number = number < 1e9 ? round(number * 1000) / 1000 : number; /* so that what is printed reads back as the same */
    if (!(number >= key->least && number <= key->most)) {
        char least[32], most[32];
        bound_text(key->least, least, sizeof(least));
        bound_text(key->most, most, sizeof(most));
        return wrong(parser, err, "%s: \"%.*s\" is out of range, expected %s to %s%s", key->name, SHOWN, value, least, most,
                     seconds ? " seconds" : "");
    }
    *(double *)member(parser, key) = number;
    return 0;
}

static int set_count(struct uma_guard_policy_parser *parser, const struct uma_guard_key *key, const char *value, struct uma_error *err) {
    uint64_t number;
    if (uma_parse_u64_all(value, &number) < 0)
        return wrong(parser, err, "%s: \"%.*s\" is not a whole number", key->name, SHOWN, value);
    if ((double)number < key->least || (double)number > key->most)
        return wrong(parser, err, "%s: \"%.*s\" is out of range, expected %.0f to %.0f", key->name, SHOWN, value, key->least, key->most);
    *(uint32_t *)member(parser, key) = (uint32_t)number;
    return 0;
}

static int set_switch(struct uma_guard_policy_parser *parser, const struct uma_guard_key *key, const char *value, struct uma_error *err) {
    static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strcmp(value, words[i]) == 0) {
            *(bool *)member(parser, key) = i % 2 == 1;
            return 0;
        }
    return wrong(parser, err, "%s: \"%.*s\" is neither yes nor no", key->name, SHOWN, value);
}

/* One word of a list. Letters beyond ASCII and blanks cannot be written: `?` stands for them. */
static int add_pattern(struct uma_guard_policy_parser *parser, const struct uma_guard_key *key, const char *word, size_t length,
                       struct uma_error *err) {
    struct uma_guard_patterns *patterns = member(parser, key);
    if (*word == '#' || *word == ';')
        return wrong(parser, err, "%s: \"%.*s\": a comment has a line of its own", key->name, (int)MIN_OF(length, (size_t)SHOWN), word);
    if (length >= UMA_GUARD_PATTERN_MAX)
        return wrong(parser, err, "%s: \"%.*s...\" is longer than %d letters", key->name, 32, word, UMA_GUARD_PATTERN_MAX - 1);
    for (size_t i = 0; i < length; i++)
        if (word[i] < '!' || word[i] > '~' || strchr("\"'\\", word[i]))
            return wrong(parser, err, "%s: \"%.*s\": a pattern is of plain letters without quotes; ? stands for any other", key->name,
                         (int)MIN_OF(length, (size_t)SHOWN), word);
    if (length == strlen("unit:") && memcmp(word, "unit:", length) == 0)
        return wrong(parser, err, "%s: \"unit:\" without the name of a unit", key->name);
    for (uint32_t i = 0; i < patterns->n; i++)
        if (strlen(patterns->list[i]) == length && memcmp(patterns->list[i], word, length) == 0)
            return 0; /* said twice */
    if (patterns->n >= UMA_GUARD_PATTERNS)
        return wrong(parser, err, "%s: more than %d patterns", key->name, UMA_GUARD_PATTERNS);
    char *slot = patterns->list[patterns->n++];
    memset(slot, 0, UMA_GUARD_PATTERN_MAX);
    memcpy(slot, word, length);
    return 0;
}

static int add_patterns(struct uma_guard_policy_parser *parser, const struct uma_guard_key *key, const char *value, struct uma_error *err) {
    if (!*value)
        memset(member(parser, key), 0, sizeof(struct uma_guard_patterns));
    for (const char *word = value; *word;) {
        size_t length = strcspn(word, " \t\r");
        int r = length ? add_pattern(parser, key, word, length, err) : 0;
        if (r < 0)
            return r;
        word += length + (length == 0);
    }
    return 0;
}

static int set_text(struct uma_guard_policy_parser *parser, const struct uma_guard_key *key, const char *value, struct uma_error *err) {
    bool command = key->kind == UMA_GUARD_KEY_COMMAND;
    if (command && !uma_guard_notify_command_fine(value))
        return wrong(parser, err, "%s: \"%.*s\" is not the absolute path of a program, of plain letters without blanks and quotes",
                     key->name, SHOWN, value);
    if (!command && !uma_guard_notify_webhook_fine(value)) /* not repeated: it may be a secret with one wrong letter */
        return wrong(parser, err, "%s: not an address that begins with http:// or https://, of plain letters without blanks and quotes",
                     key->name);
    char *into = member(parser, key);
    memset(into, 0, UMA_GUARD_NOTIFY_MAX);
    memcpy(into, value, strnlen(value, UMA_GUARD_NOTIFY_MAX - 1)); /* a line is no longer */
    return 0;
}

static int set_value(struct uma_guard_policy_parser *parser, int i, const char *value, struct uma_error *err) {
    const struct uma_guard_key *key = &uma_guard_keys[i];
    switch (key->kind) {
    case UMA_GUARD_KEY_SIZE:
        return set_size(parser, key, value, err);
    case UMA_GUARD_KEY_SECONDS:
    case UMA_GUARD_KEY_MULTIPLE:
        return set_number(parser, key, value, err);
    case UMA_GUARD_KEY_COUNT:
        return set_count(parser, key, value, err);
    case UMA_GUARD_KEY_SWITCH:
        return set_switch(parser, key, value, err);
    case UMA_GUARD_KEY_PATTERNS:
        return add_patterns(parser, key, value, err);
    case UMA_GUARD_KEY_COMMAND:
    case UMA_GUARD_KEY_URL:
        return set_text(parser, key, value, err);
    }
    return -EINVAL;
}

/* ---- lines -------------------------------------------------------------------------------------------------- */

static int begin_section(struct uma_guard_policy_parser *parser, char *line, struct uma_error *err) {
    char expected[160];
    size_t n = strlen(line);
    if (line[n - 1] != ']')
        return wrong(parser, err, "\"%.*s\": a section ends with \"]\"", SHOWN, line);
    line[n - 1] = '\0';
    int section = uma_guard_section_find(line + 1);
    if (section < 0) {
        list_sections(expected, sizeof(expected));
        return wrong(parser, err, "unknown section [%.*s], expected one of %s", SHOWN, line + 1, expected);
    }
    parser->section = section;
    return 0;
}

static int set_key(struct uma_guard_policy_parser *parser, char *line, struct uma_error *err) {
    char expected[160];
    char *equals = strchr(line, '=');
    if (!equals)
        return wrong(parser, err, "\"%.*s\" is neither [Section] nor Key=value nor a comment", SHOWN, line);
    *equals = '\0';
    const char *name = trim(line), *value = trim(equals + 1);
    if (parser->section < 0) {
        list_sections(expected, sizeof(expected));
        return wrong(parser, err, "\"%.*s\" stands before any section, expected one of %s first", SHOWN, name, expected);
    }
    const char *section = uma_guard_keys[parser->section].section;
    int i = uma_guard_key_find(section, name);
    if (i < 0) {
        list_keys(parser->section, expected, sizeof(expected));
        return wrong(parser, err, "unknown key \"%.*s\" in [%s], expected one of %s", SHOWN, name, section, expected);
    }
    int r = set_value(parser, i, value, err);
    if (r < 0 || !parser->sources)
        return r;
    (void)snprintf(parser->sources->list[i].path, sizeof(parser->sources->list[i].path), "%.255s", parser->name);
    parser->sources->list[i].line = parser->line;
    return 0;
}

int uma_guard_policy_parse_line(struct uma_guard_policy_parser *parser, const char *line, size_t length, struct uma_error *err) {
    char copy[UMA_GUARD_POLICY_LINE + 1];
    parser->line++;
    if (length > UMA_GUARD_POLICY_LINE)
        return wrong(parser, err, "a line of more than %d bytes", UMA_GUARD_POLICY_LINE);
    if (memchr(line, '\0', length))
        return wrong(parser, err, "a zero byte: this is no text");
    memcpy(copy, line, length);
    copy[length] = '\0';
    char *text = trim(copy);
    if (!*text || *text == '#' || *text == ';')
        return 0;
    return *text == '[' ? begin_section(parser, text, err) : set_key(parser, text, err);
}

int uma_guard_policy_parse(const char *text, size_t length, const char *name, struct uma_guard_policy *policy, struct uma_error *err) {
    struct uma_guard_policy changed = *policy;
    struct uma_guard_notify notify; /* only checked */
    struct uma_guard_policy_parser parser = { .name = name, .section = -1, .policy = &changed, .notify = &notify };
    if (length > UMA_GUARD_POLICY_BYTES)
        return uma_error_text(err, EFBIG, "%.255s: more than %d bytes", name, UMA_GUARD_POLICY_BYTES);
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t n = end ? (size_t)(end - (text + at)) : length - at;
        int r = uma_guard_policy_parse_line(&parser, text + at, n, err);
        if (r < 0)
            return r;
        at += n + 1;
    }
    *policy = changed;
    return 0;
}
