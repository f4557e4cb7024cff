/* SPDX-License-Identifier: MIT */
#include "observe/secrets.h"

#include <string.h>

/* Own character classes: isalpha() and friends follow the locale. */
static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}
static bool letter(char c) {
    return lower(c) >= 'a' && lower(c) <= 'z';
}
static bool digit(char c) {
    return c >= '0' && c <= '9';
}
static bool name_char(char c) {
    return letter(c) || digit(c) || c == '_' || c == '-' || c == '.';
}
static bool blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
static bool quote(char c) {
    return c == '"' || c == '\'' || c == '\\';
}

/* Without strlen: most are turned away by the first letter. */
static bool begins(const char *s, size_t n, const char *word) {
    for (size_t i = 0; word[i]; i++)
        if (i == n || lower(s[i]) != word[i])
            return false;
    return true;
}

/* A word that makes the name a secret's, at this place of the name. */
static bool secret_word(const char *s, size_t n) {
    static const char *const anywhere[] = { "secret", "passw", "passphrase", "credential", "authorization" };
    for (size_t i = 0; i < ELEMENTS(anywhere); i++)
        if (begins(s, n, anywhere[i]))
            return true;
    /* "--max-num-batched-tokens", "--tokenizer", "--tokenize" say how an engine works; "--hf-token" does not */
    if (begins(s, n, "token"))
        return n == 5 || (lower(s[5]) != 's' && lower(s[5]) != 'i');
    /* the end of a word: api-key, apikey, KEYS; not keyword, keyboard */
    if (begins(s, n, "key")) {
        size_t end = n > 3 && lower(s[3]) == 's' ? 4 : 3;
        return n == end || !letter(s[end]);
    }
    return false;
}

bool uma_secrets_name(const char *name, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (secret_word(name + i, length - i))
            return true;
    static const char *const at_end[] = { "pass", "pwd", "auth" };
    for (size_t i = 0; i < ELEMENTS(at_end); i++) {
        size_t w = strlen(at_end[i]);
        if (length >= w && begins(name + length - w, w, at_end[i]))
            return !(length == 3 && begins(name, 3, "pwd")) && !(length == 6 && begins(name, 6, "oldpwd")); /* the shell's folders */
    }
    return length == 4 && memcmp(name, "-hft", 4) == 0; /* llama.cpp's short --hf-token */
}

/* Bare tokens that their makers gave a recognisable beginning (Hugging Face, OpenAI style, NVIDIA, GitHub, GitLab, Slack, AWS, JWT). */
static bool secret_shape(const char *s, size_t n) {
    static const char *const prefixes[] = { "hf_",         "sk-",    "nvapi-", "ghp_",  "gho_", "ghs_",
                                            "github_pat_", "glpat-", "xoxb-",  "xoxp-", "AKIA", "eyJ" };
    enum { BODY = 16 }; /* the shortest body among them is AWS's 16 characters */
    for (size_t i = 0; i < ELEMENTS(prefixes); i++) {
        if (s[0] != prefixes[i][0])
            continue;
        size_t w = strlen(prefixes[i]);
        if (n < w + BODY || memcmp(s, prefixes[i], w) != 0)
            continue;
        for (size_t j = w; j < n; j++)
            if (digit(s[j])) /* words of a program's or model's name seldom have one, a random body nearly always */
                return true;
    }
    return false;
}

struct scan {
    const char *s;
    size_t n, at, argument; /* at: next byte to look at; argument: where its argument begins */
    struct uma_text *into;
};

static void copy_to(struct scan *scan, size_t end) {
    uma_text_append_n(scan->into, scan->s + scan->at, end - scan->at);
    scan->at = end;
}

static void mask_to(struct scan *scan, size_t end) {
    if (end > scan->at)
        uma_text_append(scan->into, "***");
    scan->at = end;
}

static size_t argument_end(const struct scan *scan, size_t from) {
    const char *nul = memchr(scan->s + from, '\0', scan->n - from);
    return nul ? (size_t)(nul - scan->s) : scan->n;
}

/* What ends the value of an assignment, besides a blank. */
static const char value_ends[] = "\"',}]&;)";

/* "NAME=VALUE", "--name=VALUE", "name: VALUE", "\"name\": \"VALUE\"": true when there is a value; it is masked. `name_end`: after NAME. */
static bool mask_assigned(struct scan *scan, size_t name_end, bool at_argument) {
    size_t i = name_end, n = scan->n;
    while (i < n && quote(scan->s[i]))
        i++;
    while (i < n && i > name_end && blank(scan->s[i]))
        i++;
    if (i >= n || (scan->s[i] != '=' && scan->s[i] != ':'))
        return false;
    i++;
    char opened = '\0';
    while (i < n && (blank(scan->s[i]) || quote(scan->s[i]))) {
        if (quote(scan->s[i]) && scan->s[i] != '\\')
            opened = scan->s[i];
        i++;
    }
    copy_to(scan, i);
    size_t end = i;
    if (at_argument)
        end = argument_end(scan, i); /* the value is the rest of the argument, whatever is in it */
    else
        while (end < n && scan->s[end] != '\0' &&
               (opened ? scan->s[end] != opened : !blank(scan->s[end]) && !strchr(value_ends, scan->s[end])))
            end++;
    mask_to(scan, end);
    return true;
}

/* Is this argument a flag and not the value before it wants? "--model", "-m"; "-abc" may be a secret. */
static bool flag_like(const char *s, size_t n) {
    return (n >= 2 && s[0] == '-' && s[1] == '-') || (n == 2 && s[0] == '-');
}

/* "--name VALUE" as the next argument, or as the next word of a shell line. */
static void mask_following(struct scan *scan, const char *name, size_t name_length) {
    /* vLLM's --api-key takes several values (nargs="*") */
    bool several = false;
    for (size_t i = 0; i + 7 <= name_length && !several; i++)
        several = begins(name + i, 7, "api-key") || begins(name + i, 7, "api_key");
    do {
        if (scan->at + 1 >= scan->n || (scan->s[scan->at] != '\0' && scan->s[scan->at] != ' '))
            return;
        bool word = scan->s[scan->at] == ' ';
        size_t begin = scan->at + 1, end = begin;
        if (word)
            while (end < scan->n && scan->s[end] != '\0' && !blank(scan->s[end]))
                end++;
        else
            end = argument_end(scan, begin);
        if (flag_like(scan->s + begin, end - begin))
            return;
        copy_to(scan, begin);
        scan->argument = word ? scan->argument : begin;
        mask_to(scan, end);
    } while (several);
}

static void scan_name(struct scan *scan) {
    size_t begin = scan->at, end = begin;
    while (end < scan->n && name_char(scan->s[end]))
        end++;
    bool at_argument = begin == scan->argument;
    const char *name = scan->s + begin;
    if (secret_shape(name, end - begin)) {
        mask_to(scan, end);
        return;
    }
    copy_to(scan, end);
    if (uma_secrets_name(name, end - begin) && !mask_assigned(scan, end, at_argument) && name[0] == '-')
        mask_following(scan, name, end - begin);
}

/* Does a value that was masked before stand at `i`? "http://key=***&x@y": what it hid may have ended the address ("key=/a&x@y"), so the
 * search for the @ ends there as it did the first time, and masking twice is masking once. */
static bool masked_value(const char *s, size_t n, size_t i) {
    return n - i >= 3 && memcmp(s + i, "***", 3) == 0 && strchr(":=\\", s[i - 1]) &&
           (n - i == 3 || s[i + 3] == '\0' || blank(s[i + 3]) || strchr(value_ends, s[i + 3]));
}

/* "scheme://user:password@host" or "scheme://token@host": what stands before the @ goes. */
static void scan_address(struct scan *scan) {
    size_t begin = scan->at + 3, at = 0;
    for (size_t i = begin; i < scan->n && !blank(scan->s[i]) && scan->s[i] != '\0' && !strchr("/?#\"'", scan->s[i]); i++)
        if (masked_value(scan->s, scan->n, i))
            break;
        else if (scan->s[i] == '@')
            at = i;
    copy_to(scan, begin);
    if (at)
        mask_to(scan, at);
}

void uma_secrets_mask(const char *text, size_t length, struct uma_text *into) {
    struct scan scan = { .s = text, .n = length, .into = into };
    while (scan.at < length && !into->failed) {
        const char *here = text + scan.at;
        if (name_char(*here)) {
            scan_name(&scan);
        } else if (length - scan.at >= 3 && memcmp(here, "://", 3) == 0) {
            scan_address(&scan);
        } else {
            if (*here == '\0')
                scan.argument = scan.at + 1;
            copy_to(&scan, scan.at + 1);
        }
    }
}
