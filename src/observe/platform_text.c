/* SPDX-License-Identifier: MIT */
/* platform_text.c - the text formats that say which machine this is: release files, the NVIDIA driver's version, /proc/cpuinfo. */
#include "base/units.h"
#include "observe/cpu_core.h"
#include "observe/lines.h"
#include "observe/platform.h"

#include <string.h>

struct span {
    const char *s, *end;
};

static struct span strip(struct span x) {
    x.s = uma_skip_blanks(x.s, x.end);
    while (x.s < x.end && uma_is_blank(x.end[-1]))
        x.end--;
    return x;
}

static bool next_line(struct uma_lines *lines, struct span *ret_line) {
    if (!uma_lines_next(lines))
        return false;
    *ret_line = (struct span){ lines->line, lines->stop };
    return true;
}

static bool is(struct span x, const char *word) {
    size_t n = strlen(word);
    return (size_t)(x.end - x.s) == n && memcmp(x.s, word, n) == 0;
}

static bool begins(struct span x, const char *word) {
    size_t n = strlen(word);
    return (size_t)(x.end - x.s) >= n && memcmp(x.s, word, n) == 0;
}

/* ---- KEY="VALUE" --------------------------------------------------------------------------------------------- */

enum { RELEASE_VALUE_MAX = 256 };

/* os-release(5): a value is bare, in single quotes, or in double quotes with backslashes before " $ ` \. */
static void unquote(struct span v, struct uma_text *into) {
    uma_text_reset(into);
    char quote = v.s < v.end && (*v.s == '"' || *v.s == '\'') ? *v.s++ : '\0';
    for (; v.s < v.end && into->length < RELEASE_VALUE_MAX; v.s++) {
        if (quote ? *v.s == quote : uma_is_blank(*v.s))
            return;
        if (*v.s == '\\' && quote != '\'' && v.s + 1 < v.end)
            v.s++;
        uma_text_char(into, *v.s);
    }
}

int uma_release_value(const char *text, size_t length, const char *key, struct uma_text *into) {
    struct uma_lines lines = uma_lines_of(text, length);
    struct span line, last = { NULL, NULL };
    size_t n = strlen(key);
    while (next_line(&lines, &line)) {
        if (begins(line, "export ")) {
            line.s += strlen("export ");
            line = strip(line);
        }
        if (begins(line, key) && (size_t)(line.end - line.s) > n && line.s[n] == '=')
            last = (struct span){ line.s + n + 1, line.end };
    }
    if (!last.s)
        return -ENOENT;
    unquote(last, into);
    if (into->failed)
        return -ENOMEM;
    return into->length > 0 ? 0 : -ENOENT;
}

/* ---- NVRM version -------------------------------------------------------------------------------------------- */

/* "580.95.05": two or more groups of digits. */
static bool is_version(struct span word) {
    unsigned dots = 0;
    for (const char *p = word.s; p < word.end; p++) {
        bool dot = *p == '.';
        if (!dot && (*p < '0' || *p > '9'))
            return false;
        if (dot && (p == word.s || p + 1 == word.end || p[1] == '.'))
            return false;
        dots += dot;
    }
    return dots > 0;
}

int uma_nvidia_version_parse(const char *text, size_t length, const char **ret_version, size_t *ret_length) {
    enum { VERSION_MAX = 32 };
    struct uma_lines lines = uma_lines_of(text, length);
    struct span line;
    while (next_line(&lines, &line)) {
        if (!begins(line, "NVRM version:"))
            continue;
        for (const char *p = line.s + strlen("NVRM version:"); p < line.end;) {
            struct span word = { p, uma_word_end(p, line.end) };
            if (word.end - word.s <= VERSION_MAX && is_version(word)) {
                *ret_version = word.s;
                *ret_length = (size_t)(word.end - word.s);
                return 0;
            }
            p = word.end + 1;
        }
    }
    return -EINVAL;
}

/* ---- /proc/cpuinfo ------------------------------------------------------------------------------------------- */

/* Kinds of core in one machine: three are the most that are sold. */
enum { CORE_KINDS_MAX = 8 };

struct cores {
    uint64_t implementer; /* of the processor being read */
    bool arm, arm64, x86, x86_64;
    size_t n;
    struct {
        uint64_t implementer, part;
        uint32_t count;
    } kind[CORE_KINDS_MAX];
    struct span model;
};

static uint64_t hexadecimal(struct span v) {
    uint64_t value = 0;
    /* the same digits as a MIDR: "0x41" */
    return uma_midr_parse(v.s, (size_t)(v.end - v.s), &value) == 0 ? value : 0;
}

static void add_core(struct cores *c, uint64_t part) {
    size_t i = 0;
    while (i < c->n && (c->kind[i].implementer != c->implementer || c->kind[i].part != part))
        i++;
    if (i == CORE_KINDS_MAX)
        return;
    if (i == c->n) {
        c->kind[c->n].implementer = c->implementer;
        c->kind[c->n++].part = part;
    }
    c->kind[i].count++;
}

/* "lm" (long mode) among the flags is what makes an x86 CPU 64-bit. */
static bool has_word(struct span v, const char *word) {
    for (const char *p = v.s; p < v.end;) {
        struct span w = { p, uma_word_end(p, v.end) };
        if (is(w, word))
            return true;
        p = w.end + 1;
    }
    return false;
}

static void take_line(struct cores *c, struct span key, struct span value, uint32_t *processors) {
    if (is(key, "processor")) {
        (*processors)++;
    } else if (is(key, "model name")) {
        if (!c->model.s)
            c->model = value;
    } else if (is(key, "CPU implementer")) {
        c->arm = true;
        c->implementer = hexadecimal(value);
    } else if (is(key, "CPU architecture")) {
        c->arm64 = is(value, "8") || is(value, "AArch64");
    } else if (is(key, "CPU part")) {
        add_core(c, hexadecimal(value));
    } else if (is(key, "flags") && !c->x86) {
        c->x86 = true;
        c->x86_64 = has_word(value, "lm");
    }
}

/* "Cortex-A725 x10, Cortex-X925 x10" in the order of the CPUs; NULL when one kind has no name (then the model line is better) */
static const char *core_names(const struct cores *c, struct uma_arena *arena) {
    char text[CORE_KINDS_MAX * 40];
    size_t used = 0;
    for (size_t i = 0; i < c->n; i++) {
        const char *name = uma_arm_core_name(c->kind[i].implementer, c->kind[i].part);
        if (!name)
            return NULL;
        int n = snprintf(text + used, sizeof(text) - used, "%s%s x%u", i ? ", " : "", name, c->kind[i].count);
        if (n < 0 || (size_t)n >= sizeof(text) - used)
            return NULL;
        used += (size_t)n;
    }
    return used > 0 ? uma_arena_strndup(arena, text, used) : NULL;
}

int uma_cpuinfo_parse(const char *text, size_t length, struct uma_arena *arena, struct uma_cpuinfo *ret_cpuinfo) {
    enum { MODEL_MAX = 128 }; /* x86's CPUID brand string has 48 bytes */
    struct uma_lines lines = uma_lines_of(text, length);
    struct cores c = { 0 };
    struct uma_cpuinfo info = { 0 };
    struct span line;
    while (next_line(&lines, &line)) {
        const char *colon = line.s < line.end ? memchr(line.s, ':', (size_t)(line.end - line.s)) : NULL;
        if (colon)
            take_line(&c, strip((struct span){ line.s, colon }), strip((struct span){ colon + 1, line.end }), &info.processors);
    }
    info.architecture = c.arm ? (c.arm64 ? "aarch64" : NULL) : c.x86_64 ? "x86_64" : NULL;
    info.name = core_names(&c, arena);
    if (!info.name && c.model.s && c.model.s < c.model.end) {
        info.name = uma_arena_utf8(arena, c.model.s, MIN_OF((size_t)(c.model.end - c.model.s), (size_t)MODEL_MAX));
        if (!info.name)
            return -ENOMEM;
    } else if (!info.name && c.n > 0) {
        info.name =
            uma_arena_printf(arena, "Arm implementer 0x%02x part 0x%03x", (unsigned)c.kind[0].implementer, (unsigned)c.kind[0].part);
        if (!info.name)
            return -ENOMEM;
    }
    *ret_cpuinfo = info;
    return 0;
}
