/* SPDX-License-Identifier: MIT */
/* Stand-ins: the first text of a kind is number 1, the same text is the same number for good. */
#include "observe/redact_token.h"
#include "observe/redactor.h"

#include <search.h>
#include <string.h>

static const char *const stand_in_names[UMA_STAND_IN_MAX] = {
    [UMA_STAND_IN_HOST] = "host",           [UMA_STAND_IN_USER] = "person", [UMA_STAND_IN_PATH] = "path",
    [UMA_STAND_IN_PART] = "part",           [UMA_STAND_IN_MODEL] = "model", [UMA_STAND_IN_URL] = "url",
    [UMA_STAND_IN_ADDRESS] = "address",     [UMA_STAND_IN_EMAIL] = "email", [UMA_STAND_IN_ID] = "id",
    [UMA_STAND_IN_CONTAINER] = "container", [UMA_STAND_IN_IMAGE] = "image", [UMA_STAND_IN_UNIT] = "unit",
    [UMA_STAND_IN_PROCESS] = "process",     [UMA_STAND_IN_TEXT] = "text",   [UMA_STAND_IN_OPTION] = "option",
    [UMA_STAND_IN_VARIABLE] = "VARIABLE",   [UMA_STAND_IN_UID] = "uid",
};

struct known {
    enum uma_stand_in kind;
    unsigned number;
    size_t n;
    const char *s;
};

struct uma_redactor *uma_redactor_new(struct uma_arena *arena) {
    struct uma_redactor *r = calloc(1, sizeof(*r));
    if (r)
        r->arena = arena;
    return r;
}

static void keep(void *known) {
    (void)known; /* it is the arena's */
}

struct uma_redactor *uma_redactor_free(struct uma_redactor *redactor) {
    if (!redactor)
        return NULL;
    tdestroy(redactor->known, keep);
    uma_text_done(&redactor->out);
    free(redactor);
    return NULL;
}

static int compare(const void *a, const void *b) {
    const struct known *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    int c = memcmp(x->s, y->s, MIN_OF(x->n, y->n));
    return c ? c : (x->n > y->n) - (x->n < y->n);
}

unsigned uma_redactor_find(struct uma_redactor *redactor, enum uma_stand_in kind, const char *s, size_t n) {
    const struct known key = { .kind = kind, .n = n, .s = s };
    struct known *const *found = tfind(&key, &redactor->known, compare);
    return found ? (*found)->number : 0;
}

void uma_redactor_alias(struct uma_redactor *redactor, enum uma_stand_in kind, const char *s, size_t n, unsigned number) {
    struct known *fresh = uma_arena_alloc(redactor->arena, sizeof(*fresh));
    char *copy = uma_arena_alloc(redactor->arena, n + 1);
    if (!fresh || !copy) {
        redactor->failed = true;
        return;
    }
    (void)memcpy(copy, s, n);
    *fresh = (struct known){ kind, number, n, copy };
    if (!tsearch(fresh, &redactor->known, compare))
        redactor->failed = true;
}

unsigned uma_redactor_number(struct uma_redactor *redactor, enum uma_stand_in kind, const char *s, size_t n) {
    unsigned number = uma_redactor_find(redactor, kind, s, n);
    if (number > 0)
        return number;
    number = ++redactor->used[kind];
    uma_redactor_alias(redactor, kind, s, n, number);
    return number;
}

void uma_redactor_put(struct uma_redactor *redactor, enum uma_stand_in kind, const char *s, size_t n) {
    uma_text_printf(&redactor->out, "%s-%u", stand_in_names[kind], uma_redactor_number(redactor, kind, s, n));
}

const char *uma_redactor_take(struct uma_redactor *redactor) {
    struct uma_text *out = &redactor->out;
    const char *copy = out->length > 0 ? uma_arena_strndup(redactor->arena, out->data, out->length) : "";
    redactor->failed = redactor->failed || out->failed || !copy;
    uma_text_reset(out);
    return copy ? copy : "";
}

/* "path-12", "model-3.gguf" ("person", as user-1000.slice is systemd's): what an earlier redaction wrote. Hosts are not among them: a host
 * may really be called host-1. */
bool uma_redactor_stand_in(const char *s, size_t n) {
    n -= uma_token_extension(s, n);
    for (size_t kind = UMA_STAND_IN_USER; kind < UMA_STAND_IN_MAX; kind++) {
        size_t length = strlen(stand_in_names[kind]), i = length + 1;
        if (n < length + 2 || memcmp(s, stand_in_names[kind], length) != 0 || s[length] != '-')
            continue;
        while (i < n && s[i] >= '0' && s[i] <= '9')
            i++;
        if (i == n)
            return true;
    }
    return false;
}
