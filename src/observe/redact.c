/* SPDX-License-Identifier: MIT */
/*
 * Taking out of a snapshot whose machine it is and what it works on. The walk goes over the field tables, where every string has a class,
 * so that a new field cannot be forgotten. Sentences come last: by then the names that may stand in them are known.
 */
#include "observe/redact.h"
#include "observe/files/page_cache_order.h"
#include "observe/redact_token.h"

#include "base/error.h"

#include <string.h>

/* ---- paths, component by component ---------------------------------------------------------------------------- */

/* What stands around a container's or user's own part in a cgroup's name (systemd.unit(5); docker, podman, containerd, CRI-O, LXC,
 * kubelet). */
static const struct {
    const char *before;
    enum uma_stand_in kind;
} components[] = {
    { "docker-", UMA_STAND_IN_CONTAINER },
    { "libpod-conmon-", UMA_STAND_IN_CONTAINER },
    { "libpod-payload-", UMA_STAND_IN_CONTAINER },
    { "libpod-", UMA_STAND_IN_CONTAINER },
    { "cri-containerd-", UMA_STAND_IN_CONTAINER },
    { "nerdctl-", UMA_STAND_IN_CONTAINER },
    { "crio-conmon-", UMA_STAND_IN_CONTAINER },
    { "crio-", UMA_STAND_IN_CONTAINER },
    { "lxc.payload.", UMA_STAND_IN_CONTAINER },
    { "lxc.monitor.", UMA_STAND_IN_CONTAINER },
    { "machine-", UMA_STAND_IN_CONTAINER },
    { "kubepods-burstable-pod", UMA_STAND_IN_CONTAINER },
    { "kubepods-besteffort-pod", UMA_STAND_IN_CONTAINER },
    { "kubepods-pod", UMA_STAND_IN_CONTAINER },
    { "pod", UMA_STAND_IN_CONTAINER },
    { "user-runtime-dir@", UMA_STAND_IN_USER },
    { "user-", UMA_STAND_IN_USER },
    { "user@", UMA_STAND_IN_USER },
    { "session-", UMA_STAND_IN_PART },
};

/* A pod's uid has underscores in a slice's name and dashes elsewhere: one stand-in for both. */
static void put_container(struct uma_redactor *r, const char *s, size_t n) {
    char same[128];
    if (n <= sizeof(same) && uma_token_id(s, n)) {
        for (size_t i = 0; i < n; i++)
            same[i] = s[i] == '_' ? '-' : s[i];
        s = same;
    }
    uma_redactor_put(r, UMA_STAND_IN_CONTAINER, s, n);
}

static void put_kind(struct uma_redactor *r, enum uma_stand_in kind, const char *s, size_t n) {
    if (uma_redactor_stand_in(s, n))
        uma_text_append_n(&r->out, s, n);
    else if (kind == UMA_STAND_IN_CONTAINER)
        put_container(r, s, n);
    else
        uma_redactor_put(r, kind, s, n);
}

/* `ids`: what an id that is known from nowhere else names. */
static void put_component(struct uma_redactor *r, enum uma_stand_in ids, const char *s, size_t n) {
    size_t extension = uma_token_extension(s, n), stem = n - extension;
    if (uma_token_public(s, n) || uma_token_pci(s, n) || uma_token_sensor(s, n) || (uma_token_number(s, n) && n <= 8) ||
        uma_redactor_stand_in(s, n)) {
        uma_text_append_n(&r->out, s, n);
        return;
    }
    bool unit = extension > 0 && strchr("ssm", s[stem + 1]) && !uma_token_public(s, stem);
    for (size_t i = 0; i < ELEMENTS(components); i++) {
        size_t before = strlen(components[i].before);
        if (stem <= before || memcmp(s, components[i].before, before) != 0)
            continue;
        /* "pod" begins other words as well, and "user-..." is also what people call things: only with what belongs there */
        if (components[i].kind != UMA_STAND_IN_CONTAINER && extension == 0)
            continue;
        if (strcmp(components[i].before, "pod") == 0 && !uma_token_id(s + before, stem - before))
            continue;
        uma_text_append_n(&r->out, s, before);
        if (uma_token_number(s + before, stem - before) && components[i].kind == UMA_STAND_IN_PART)
            uma_text_append_n(&r->out, s + before, stem - before); /* a session's number */
        else
            put_kind(r, components[i].kind, s + before, stem - before);
        uma_text_append_n(&r->out, s + stem, extension);
        return;
    }
    if (uma_redactor_find(r, UMA_STAND_IN_CONTAINER, s, n))
        put_container(r, s, n);
    else if (uma_token_id(s, n))
        put_kind(r, uma_redactor_find(r, UMA_STAND_IN_ID, s, n) ? UMA_STAND_IN_ID : ids, s, n);
    else if (uma_redactor_find(r, UMA_STAND_IN_USER, s, n) || uma_redactor_find(r, UMA_STAND_IN_HOST, s, n))
        uma_redactor_put(r, uma_redactor_find(r, UMA_STAND_IN_USER, s, n) ? UMA_STAND_IN_USER : UMA_STAND_IN_HOST, s, n);
    else {
        static const char *const unit_ends[] = { ".service", ".scope", ".slice", ".socket", ".mount" };
        bool is_unit = false;
        for (size_t i = 0; unit && i < ELEMENTS(unit_ends); i++)
            is_unit = is_unit || (strlen(unit_ends[i]) == extension && memcmp(s + stem, unit_ends[i], extension) == 0);
        put_kind(r, is_unit ? UMA_STAND_IN_UNIT : UMA_STAND_IN_PART, s, stem);
        uma_text_append_n(&r->out, s + stem, extension);
    }
}

static void put_path(struct uma_redactor *r, enum uma_stand_in ids, const char *s, size_t n) {
    for (size_t from = 0; from <= n;) {
        const char *slash = memchr(s + from, '/', n - from);
        size_t end = slash ? (size_t)(slash - s) : n;
        if (end > from)
            put_component(r, ids, s + from, end - from);
        if (slash)
            uma_text_char(&r->out, '/');
        from = end + 1;
    }
}

/* ---- process names -------------------------------------------------------------------------------------------- */

static void put_program(struct uma_redactor *r, const char *s, size_t n) {
    static const char kworker[] = "kworker/", ray[] = "ray::";
    enum { COMM_MAX = 15 }; /* TASK_COMM_LEN less its NUL: a longer name is cut, and so no word of the list */
    if (uma_token_public(s, n) || uma_redactor_stand_in(s, n)) {
        uma_text_append_n(&r->out, s, n);
        return;
    }
    if (n == COMM_MAX) {
        size_t words;
        const char *const *list = uma_redact_table(UMA_WORDS, &words);
        for (size_t i = 0; i < words; i++)
            if (strncmp(list[i], s, n) == 0) {
                uma_text_append_n(&r->out, s, n);
                return;
            }
    }
    if (n > sizeof(kworker) - 1 && memcmp(s, kworker, sizeof(kworker) - 1) == 0) { /* after the CPU and number comes what it works on */
        size_t i = sizeof(kworker) - 1;
        while (i < n && strchr("uRH0123456789:", s[i]))
            i++;
        uma_text_append_n(&r->out, s, i);
        return;
    }
    if (n > sizeof(ray) - 1 && memcmp(s, ray, sizeof(ray) - 1) == 0) { /* what Ray calls its workers: the kind of program stays visible */
        uma_text_append_n(&r->out, s, sizeof(ray) - 1);
        s += sizeof(ray) - 1;
        n -= sizeof(ray) - 1;
    }
    put_kind(r, UMA_STAND_IN_PROCESS, s, n);
}

/* ---- sentences ------------------------------------------------------------------------------------------------ */

static bool word_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

/* A name that is known from elsewhere in the snapshot. Stand-ins for plain words of command lines only count when they are long: "the" may
 * be one. */
static bool put_if_known(struct uma_redactor *r, const char *s, size_t n, bool sentence) {
    static const enum uma_stand_in names[] = { UMA_STAND_IN_HOST,    UMA_STAND_IN_USER, UMA_STAND_IN_CONTAINER, UMA_STAND_IN_IMAGE,
                                               UMA_STAND_IN_PROCESS, UMA_STAND_IN_UNIT, UMA_STAND_IN_MODEL,     UMA_STAND_IN_ID,
                                               UMA_STAND_IN_TEXT,    UMA_STAND_IN_PART };
    enum { ALWAYS = 3, LONG = 5 };
    for (size_t i = 0; i < (sentence ? ELEMENTS(names) : (size_t)ALWAYS); i++) {
        if (i >= ALWAYS && (n < LONG || uma_token_public(s, n)))
            break;
        if (uma_redactor_find(r, names[i], s, n)) {
            uma_redactor_put(r, names[i], s, n);
            return true;
        }
    }
    return false;
}

/* A word: as a whole, then its parts between dashes and dots, then the parts between any signs. */
static void put_parts(struct uma_redactor *r, const char *s, size_t n, bool sentence) {
    for (size_t i = 0; i < n;) {
        if (!word_character(s[i])) {
            uma_text_char(&r->out, s[i++]);
            continue;
        }
        size_t wide = i, narrow = i;
        while (wide < n && (word_character(s[wide]) || ((s[wide] == '-' || s[wide] == '.') && wide + 1 < n && word_character(s[wide + 1]))))
            wide++;
        while (narrow < n && word_character(s[narrow]))
            narrow++;
        if (put_if_known(r, s + i, wide - i, sentence))
            i = wide;
        else {
            if (!put_if_known(r, s + i, narrow - i, sentence))
                uma_text_append_n(&r->out, s + i, narrow - i);
            i = narrow;
        }
    }
}

/* What a message says after a file's name: ":3", ":3:17". */
static size_t before_line(const char *s, size_t n) {
    for (size_t i = n; i > 0;) {
        size_t from = i;
        while (from > 0 && s[from - 1] >= '0' && s[from - 1] <= '9')
            from--;
        if (from == i || from < 2 || s[from - 1] != ':')
            return i;
        i = from - 1;
    }
    return n;
}

static void put_word(struct uma_redactor *r, const char *s, size_t n, bool sentence) {
    size_t end = n;
    while (end > 0 && strchr(".:!?", s[end - 1])) /* what belongs to the sentence */
        end--;
    size_t address = sentence && !uma_token_pci(s, end) ? uma_token_address(s, end) : 0;
    if (end == 0 || put_if_known(r, s, end, sentence)) {
    } else if (address == end)
        uma_redactor_put(r, UMA_STAND_IN_ADDRESS, s, end);
    else if (sentence && memmem(s, end, "://", 3))
        uma_redactor_put(r, UMA_STAND_IN_URL, s, end);
    else if (uma_token_email(s, end) && !memchr(s, '/', end))
        uma_redactor_put(r, UMA_STAND_IN_EMAIL, s, end);
    else if (sentence && memchr(s, '/', end) && !uma_token_number(s, end)) {
        size_t path = before_line(s, end);
        put_path(r, UMA_STAND_IN_CONTAINER, s, path);
        uma_text_append_n(&r->out, s + path, end - path);
    } else if (uma_token_id(s, end))
        put_kind(r, UMA_STAND_IN_ID, s, end);
    else if (address > 0) {
        uma_redactor_put(r, UMA_STAND_IN_ADDRESS, s, address);
        put_parts(r, s + address, end - address, sentence);
    } else
        put_parts(r, s, end, sentence);
    uma_text_append_n(&r->out, s + end, n - end);
}

/* `sentence`: our own messages, which quote what a file said; else a name of hardware or software, where only known names are taken out. */
static void put_text(struct uma_redactor *r, const char *s, bool sentence) {
    static const char separators[] = " \t\n\r\v\f()[]{}<>,;=|'`";
    for (size_t i = 0, n = strlen(s); i < n;) {
        if (sentence && s[i] == '"') { /* quoted: the machine's words, not ours */
            const char *close = strchr(s + i + 1, '"');
            size_t length = close ? (size_t)(close - s) - i - 1 : n - i - 1;
            uma_text_char(&r->out, '"');
            uma_redact_put_argument(r, s + i + 1, length);
            if (close)
                uma_text_char(&r->out, '"');
            i += 1 + length + (close ? 1 : 0);
            continue;
        }
        size_t from = i;
        while (i < n && !strchr(separators, s[i]) && s[i] != '"')
            i++;
        if (i > from)
            put_word(r, s + from, i - from, sentence);
        else
            uma_text_char(&r->out, s[i++]);
    }
}

/* ---- strings by class ----------------------------------------------------------------------------------------- */

const char *uma_redact_string(struct uma_redactor *redactor, enum uma_privacy privacy, const char *s) {
    if (!s || !*s)
        return s;
    size_t n = strlen(s);
    uma_text_reset(&redactor->out);
    switch (privacy) {
    case UMA_PRIVACY_OPEN:
        put_text(redactor, s, false);
        break;
    case UMA_PRIVACY_TEXT:
        put_text(redactor, s, true);
        break;
    case UMA_PRIVACY_HOST:
        uma_redactor_put(redactor, UMA_STAND_IN_HOST, s, n);
        break;
    case UMA_PRIVACY_PATH:
        put_path(redactor, UMA_STAND_IN_CONTAINER, s, n);
        break;
    case UMA_PRIVACY_FILE:
        put_path(redactor, UMA_STAND_IN_ID, s, n);
        break;
    case UMA_PRIVACY_MODEL: {
        size_t extension = uma_token_extension(s, n);
        put_kind(redactor, UMA_STAND_IN_MODEL, s, n);
        uma_text_append_n(&redactor->out, s + n - extension, uma_redactor_stand_in(s, n) ? 0 : extension);
        break;
    }
    case UMA_PRIVACY_UNIT:
        put_component(redactor, UMA_STAND_IN_CONTAINER, s, n);
        break;
    case UMA_PRIVACY_PROGRAM:
        put_program(redactor, s, n);
        break;
    case UMA_PRIVACY_CONTAINER:
        put_kind(redactor, UMA_STAND_IN_CONTAINER, s, n);
        break;
    case UMA_PRIVACY_IMAGE:
        put_kind(redactor, UMA_STAND_IN_IMAGE, s, n);
        break;
    default: /* UMA_PRIVACY_UUID, and whatever has no class */
        put_kind(redactor, UMA_STAND_IN_ID, s, n);
    }
    return uma_redactor_take(redactor);
}

/* ---- the walk ------------------------------------------------------------------------------------------------- */

enum step {
    STEP_LEARN, /* which hosts, users and containers there are */
    STEP_NAMES, /* everything but sentences */
    STEP_TEXTS, /* sentences and open names */
};

/* Users stand in paths: /home/NAME (Linux), /Users/NAME (a path from elsewhere). */
static void learn_users(struct uma_redactor *r, const char *s) {
    static const char *const homes[] = { "/home/", "/Users/" };
    for (size_t h = 0; s && h < ELEMENTS(homes); h++)
        for (const char *at = strstr(s, homes[h]); at; at = strstr(at, homes[h])) {
            at += strlen(homes[h]);
            size_t n = strcspn(at, "/ \t\n:\"'");
            if (n > 0 && !uma_token_public(at, n) && !uma_redactor_stand_in(at, n))
                (void)uma_redactor_number(r, UMA_STAND_IN_USER, at, n);
        }
}

static void learn(struct uma_redactor *r, enum uma_privacy privacy, const char *s) {
    learn_users(r, s);
    if (!s || !*s)
        return;
    if (privacy == UMA_PRIVACY_HOST) {
        unsigned number = uma_redactor_number(r, UMA_STAND_IN_HOST, s, strlen(s));
        size_t first = strcspn(s, "."); /* the name without its domain */
        if (s[first] && first > 0 && !uma_token_number(s, first))
            uma_redactor_alias(r, UMA_STAND_IN_HOST, s, first, number);
    } else if (privacy == UMA_PRIVACY_CONTAINER && !uma_redactor_stand_in(s, strlen(s))) {
        unsigned number = uma_redactor_number(r, UMA_STAND_IN_CONTAINER, s, strlen(s));
        enum { SHORT_ID = 12 }; /* what `docker ps` shows of an id */
        if (strlen(s) > SHORT_ID && uma_token_id(s, strlen(s)) && !uma_redactor_find(r, UMA_STAND_IN_CONTAINER, s, SHORT_ID))
            uma_redactor_alias(r, UMA_STAND_IN_CONTAINER, s, SHORT_ID, number);
    }
}

static void walk_string(struct uma_redactor *r, enum step step, enum uma_privacy privacy, const char **s) {
    bool text = privacy == UMA_PRIVACY_TEXT || privacy == UMA_PRIVACY_OPEN;
    if (step == STEP_LEARN)
        learn(r, privacy, *s);
    else if (text == (step == STEP_TEXTS))
        *s = uma_redact_string(r, privacy, *s);
}

static void walk_arguments(struct uma_redactor *r, enum step step, const struct uma_field *field, char *object) {
    void *at = object + field->offset;
    const char **strings = *(const char ***)at;
    size_t n = uma_field_count(field, object);
    if (step == STEP_NAMES)
        uma_redact_arguments(r, strings, n);
    for (size_t i = 0; step == STEP_LEARN && i < n; i++)
        learn_users(r, strings[i]);
}

/* A line of /proc/meminfo that no table knows: its name is the kernel's, unless it does not look like one. */
static void walk_named(struct uma_redactor *r, enum step step, const struct uma_field *field, char *object) {
    void *at = object + field->offset;
    struct uma_named_u64 *list = *(struct uma_named_u64 **)at;
    for (size_t i = 0, n = uma_field_count(field, object); step == STEP_NAMES && i < n; i++) {
        const char *s = list[i].name;
        enum { KERNEL_NAME_MAX = 32 };
        if (!s ||
            (strlen(s) <= KERNEL_NAME_MAX && s[strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_()")] == '\0'))
            continue;
        uma_redactor_put(r, UMA_STAND_IN_TEXT, s, strlen(s));
        list[i].name = uma_redactor_take(r);
    }
}

/* 0 is root everywhere and those below 1000 are the distribution's; people become 1000, 1001, ... */
static void walk_uid(struct uma_redactor *r, enum step step, uint32_t *uid) {
    enum { FIRST_PERSON = 1000 };
    if (step != STEP_NAMES || *uid < FIRST_PERSON)
        return;
    *uid = FIRST_PERSON - 1 + uma_redactor_number(r, UMA_STAND_IN_UID, (const char *)uid, sizeof(*uid));
}

/* A zone's name is one of the kernel's (mm/mmzone.h), unless a folder says otherwise. */
static void walk_name(enum step step, char name[16]) {
    if (step == STEP_NAMES && *name && !uma_token_public(name, strnlen(name, 16)))
        (void)strncpy(name, "other", 16);
}

/* As deep as the tables are nested, whatever the snapshot holds. */
static void walk(struct uma_redactor *r, enum step step, const struct uma_fields *fields, char *object) {
    for (size_t i = 0; i < fields->n; i++) {
        const struct uma_field *field = &fields->list[i];
        void *at = object + field->offset;
        if (field->type == UMA_FIELD_STRING)
            walk_string(r, step, field->privacy, at);
        else if (field->type == UMA_FIELD_STRINGS)
            walk_arguments(r, step, field, object);
        else if (field->type == UMA_FIELD_NAMED)
            walk_named(r, step, field, object);
        else if (field->type == UMA_FIELD_NAME)
            walk_name(step, at);
        else if (field->privacy == UMA_PRIVACY_USER)
            walk_uid(r, step, at);
        else if (field->type == UMA_FIELD_OBJECT)
            walk(r, step, field->of, at);
        else if (field->type == UMA_FIELD_LIST || field->type == UMA_FIELD_ARRAY) {
            char *list = field->type == UMA_FIELD_LIST ? *(char **)at : at;
            for (size_t j = 0, n = uma_field_count(field, object); j < n; j++)
                walk(r, step, field->of, list + j * field->of->size);
        }
    }
}

int uma_snapshot_redact(struct uma_snapshot *snapshot, struct uma_error *err) {
    _cleanup_redactor_ struct uma_redactor *r = uma_redactor_new(snapshot->arena);
    if (!r)
        return uma_error_set(err, ENOMEM, "redacting the snapshot");
    for (enum step step = STEP_LEARN; step <= STEP_TEXTS; step++)
        walk(r, step, &uma_snapshot_fields, (char *)snapshot);
    /* where files are equal their paths decide, and those have changed */
    uma_cached_files_sort(snapshot->page_cache.files, snapshot->page_cache.n_files);
    if (!r->failed)
        return 0;
    uma_snapshot_reset(snapshot); /* half redacted is not redacted */
    return uma_error_set(err, ENOMEM, "redacting the snapshot");
}
