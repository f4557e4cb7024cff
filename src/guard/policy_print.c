/* SPDX-License-Identifier: MIT */
/* The policy as text, for people and for share/guard.conf. The text grows on the heap: not for uma-guard's loop. */
#include "guard/policy_file.h"

#include "base/units.h"

#include <string.h>

enum { WIDTH = 100 }; /* columns of what is printed: a terminal's width with some room for a quotation of it */

/* A policy has nothing of [Notify]: there it is the default, which is nothing. */
static const void *member(const struct uma_guard_policy *policy, const struct uma_guard_key *key) {
    static const struct uma_guard_notify nobody;
    return (key->of_notify ? (const char *)&nobody : (const char *)policy) + key->offset;
}

bool uma_guard_policy_same(const struct uma_guard_policy *a, const struct uma_guard_policy *b, const struct uma_guard_key *key) {
    static const size_t sizes[] = { [UMA_GUARD_KEY_SIZE] = sizeof(uint64_t),
                                    [UMA_GUARD_KEY_SECONDS] = sizeof(double),
                                    [UMA_GUARD_KEY_MULTIPLE] = sizeof(double),
                                    [UMA_GUARD_KEY_COUNT] = sizeof(uint32_t),
                                    [UMA_GUARD_KEY_SWITCH] = sizeof(bool) };
    const void *of_a = member(a, key), *of_b = member(b, key);
    if (key->of_notify)
        return true;
    if (key->kind != UMA_GUARD_KEY_PATTERNS)
        return memcmp(of_a, of_b, sizes[key->kind]) == 0;
    const struct uma_guard_patterns *one = of_a, *other = of_b;
    if (one->n != other->n)
        return false;
    for (uint32_t i = 0; i < one->n && i < UMA_GUARD_PATTERNS; i++)
        if (strncmp(one->list[i], other->list[i], UMA_GUARD_PATTERN_MAX) != 0)
            return false;
    return true;
}

/* In the largest unit that says it exactly. */
static void print_size(uint64_t bytes, struct uma_text *into) {
    static const char units[] = "KMGT";
    int unit = -1;
    while (bytes && bytes % 1024 == 0 && unit + 1 < (int)sizeof(units) - 1) {
        bytes /= 1024;
        unit++;
    }
    uma_text_printf(into, "%llu", (unsigned long long)bytes);
    if (unit >= 0)
        uma_text_char(into, units[unit]);
}

/* At most three decimals, as it is kept, without zeros at the end. */
static void print_number(double number, struct uma_text *into) {
    uma_text_fixed(into, number, 3);
    while (into->length && into->data[into->length - 1] == '0')
        into->data[--into->length] = '\0';
    if (into->length && into->data[into->length - 1] == '.')
        into->data[--into->length] = '\0';
}

static void print_value(const struct uma_guard_policy *policy, const struct uma_guard_key *key, struct uma_text *into) {
    const void *value = member(policy, key);
    switch (key->kind) {
    case UMA_GUARD_KEY_SIZE:
        print_size(*(const uint64_t *)value, into);
        break;
    case UMA_GUARD_KEY_SECONDS:
    case UMA_GUARD_KEY_MULTIPLE:
        print_number(*(const double *)value, into);
        break;
    case UMA_GUARD_KEY_COUNT:
        uma_text_printf(into, "%u", (unsigned)*(const uint32_t *)value);
        break;
    case UMA_GUARD_KEY_SWITCH:
        uma_text_append(into, *(const bool *)value ? "yes" : "no");
        break;
    case UMA_GUARD_KEY_PATTERNS: /* lines of their own */
    case UMA_GUARD_KEY_COMMAND:  /* the helper's, and empty here */
    case UMA_GUARD_KEY_URL:
        break;
    }
}

/* An empty line clears what the default has; the words then follow in lines that a reader can take in. */
static void print_patterns(const struct uma_guard_patterns *patterns, const char *name, const char *before, struct uma_text *into) {
    size_t column = 0, indent = strlen(before) + strlen(name) + 1;
    uma_text_printf(into, "%s%s=\n", before, name);
    for (uint32_t i = 0; i < patterns->n && i < UMA_GUARD_PATTERNS; i++) {
        size_t n = strnlen(patterns->list[i], UMA_GUARD_PATTERN_MAX);
        bool fits = column && column + 1 + n <= WIDTH;
        if (fits)
            uma_text_char(into, ' ');
        else
            uma_text_printf(into, "%s%s%s=", column ? "\n" : "", before, name);
        uma_text_append_n(into, patterns->list[i], n);
        column = (fits ? column + 1 : indent) + n;
    }
    if (column)
        uma_text_char(into, '\n');
}

void uma_guard_policy_print_key(const struct uma_guard_policy *policy, const struct uma_guard_key *key, const char *before,
                                struct uma_text *into) {
    if (key->kind == UMA_GUARD_KEY_PATTERNS) {
        print_patterns(member(policy, key), key->name, before, into);
        return;
    }
    uma_text_printf(into, "%s%s=", before, key->name);
    print_value(policy, key, into);
    uma_text_char(into, '\n');
}

/* As a comment, broken between words. */
static void print_reason(const char *reason, struct uma_text *into) {
    size_t column = 0;
    for (const char *word = reason; *word;) {
        size_t n = strcspn(word, " ");
        if (column && column + 1 + n > WIDTH) {
            uma_text_char(into, '\n');
            column = 0;
        }
        if (!column)
            uma_text_char(into, '#');
        uma_text_char(into, ' ');
        uma_text_append_n(into, word, n);
        column = (column ? column : 1) + 1 + n;
        word += n + (word[n] == ' ');
    }
    uma_text_char(into, '\n');
}

static const char opening[] =
    "# The policy of uma-guard: /etc/umactl/guard.conf, or a part of it in /etc/umactl/guard.conf.d/NAME.conf.\n"
    "# Every key stands here with its default and the reason of it. `umactl guard policy --check` reads a policy\n"
    "# without using it; `systemctl reload umactl-guard` has the guard read it again.\n"
    "# Sizes: 512M, 4G (binary), 4GB (decimal). Times: 0.5, 500ms, 90, 5m, 2h. Switches: yes or no.\n"
    "\n";

void uma_guard_policy_print(const struct uma_guard_policy *policy, bool reasons, struct uma_text *into) {
    struct uma_guard_policy defaults;
    uma_guard_policy_default(&defaults);
    if (reasons)
        uma_text_append(into, opening);
    for (unsigned i = 0; i < UMA_GUARD_KEYS; i++) {
        const struct uma_guard_key *key = &uma_guard_keys[i];
        if (key->of_notify && !reasons)
            continue;
        if (uma_guard_key_begins_section(i))
            uma_text_printf(into, "%s[%s]\n", i ? "\n" : "", key->section);
        if (reasons)
            print_reason(key->reason, into);
        uma_guard_policy_print_key(policy, key, reasons && uma_guard_policy_same(policy, &defaults, key) ? "#" : "", into);
    }
}
