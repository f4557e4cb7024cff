/* SPDX-License-Identifier: MIT */
/* docs/snapshot-schema.md against the field tables: every object and member, in order, with its type and a meaning, and nothing else. */
#include "test.h"

#include "base/text.h"
#include "observe/snapshot_json.h"
#include "random_snapshot.h"

#include <stdio.h>

static char *page;

static int read_page(void **state) {
    (void)state;
    const char *fixtures = getenv("UMA_FIXTURES");
    if (!fixtures)
        return -1;
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/../../docs/snapshot-schema.md", fixtures);
    _cleanup_fclose_ FILE *f = fopen(path, "re");
    size_t size = 0;
    return f && getdelim(&page, &size, '\0', f) > 0 ? 0 : -1;
}

static int free_page(void **state) {
    (void)state;
    free(page);
    return 0;
}

static void type_text(struct uma_text *text, const struct uma_field *f) {
    switch (f->type) {
    case UMA_FIELD_U64:
        uma_text_append(text, "integer?");
        break;
    case UMA_FIELD_I64:
        uma_text_append(text, "signed?");
        break;
    case UMA_FIELD_F64:
        uma_text_append(text, "number?");
        break;
    case UMA_FIELD_UINT64:
    case UMA_FIELD_INT64:
    case UMA_FIELD_UINT32:
    case UMA_FIELD_INT32:
        uma_text_append(text, f->low < 0 ? "signed" : "integer");
        break;
    case UMA_FIELD_BOOL:
        uma_text_append(text, "boolean");
        break;
    case UMA_FIELD_TRUTH:
        uma_text_append(text, "boolean?");
        break;
    case UMA_FIELD_WORD:
        uma_text_append(text, "word: ");
        for (uint32_t i = 0; i < f->max; i++)
            uma_text_printf(text, "%s%s", i ? ", " : "", f->words[i]);
        break;
    case UMA_FIELD_STRING:
    case UMA_FIELD_CHARACTER:
        uma_text_append(text, "string?");
        break;
    case UMA_FIELD_NAME:
        uma_text_append(text, "string");
        break;
    case UMA_FIELD_TIME:
        uma_text_append(text, "time?");
        break;
    case UMA_FIELD_OBJECT:
        uma_text_printf(text, "object `%s`", f->of->name);
        break;
    case UMA_FIELD_LIST:
    case UMA_FIELD_ARRAY:
        uma_text_printf(text, "list of `%s`, at most %u", f->of->name, f->max);
        break;
    case UMA_FIELD_STRINGS:
        uma_text_printf(text, "list of strings, at most %u", f->max);
        break;
    case UMA_FIELD_NUMBERS:
        uma_text_printf(text, "list of integers, at most %u", f->max);
        break;
    case UMA_FIELD_NAMED:
        uma_text_printf(text, "object of integers, at most %u", f->max);
        break;
    }
}

struct seen {
    const struct uma_fields *list[64];
    size_t n;
};

static void check_object(struct seen *seen, const struct uma_fields *fields) {
    for (size_t i = 0; i < seen->n; i++)
        if (seen->list[i] == fields)
            return;
    assert_true(seen->n < ELEMENTS(seen->list));
    seen->list[seen->n++] = fields;
    char head[128];
    (void)snprintf(head, sizeof(head), "\n### %s\n\n| member | type | meaning |\n|---|---|---|\n", fields->name);
    const char *at = strstr(page, head);
    if (!at)
        fail_msg("no object \"%s\"", fields->name);
    at += strlen(head);
    for (size_t i = 0; i < fields->n; i++) {
        _cleanup_text_ struct uma_text row = { 0 };
        uma_text_printf(&row, "| `%s` | ", fields->list[i].name);
        type_text(&row, &fields->list[i]);
        uma_text_append(&row, " | ");
        if (strncmp(at, row.data, row.length) != 0)
            fail_msg("%s: expected \"%s\", found \"%.80s\"", fields->name, row.data, at);
        const char *end = strchr(at, '\n');
        assert_non_null(end);
        if (end - at < (ptrdiff_t)row.length + 5 || strncmp(end - 2, " |", 2) != 0)
            fail_msg("%s.%s has no meaning", fields->name, fields->list[i].name);
        at = end + 1;
    }
    if (*at == '|')
        fail_msg("%s: \"%.60s\" is no member of it", fields->name, at);
    for (size_t i = 0; i < fields->n; i++)
        if (fields->list[i].of)
            check_object(seen, fields->list[i].of);
}

static void test_objects(void **state) {
    (void)state;
    struct seen seen = { 0 };
    check_object(&seen, &uma_snapshot_fields);
    size_t heads = 0;
    for (const char *at = strstr(page, "\n### "); at; at = strstr(at + 1, "\n### "))
        heads++;
    assert_int_equal(heads, seen.n);
}

static void test_sample(void **state) {
    (void)state;
    static const char fence[] = "```json\n";
    const char *from = strstr(page, fence);
    assert_non_null(from);
    from += sizeof(fence) - 1;
    const char *to = strstr(from, "```");
    assert_non_null(to);
    struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_gpus gpus;
    struct uma_error err = { 0 };
    if (uma_gpus_parse(from, (size_t)(to - from), "docs/snapshot-schema.md", arena, &gpus, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(gpus.n, 1);
    assert_int_equal(gpus.list[0].memory_total.validity, UMA_UNSUPPORTED);
    assert_int_equal(gpus.list[0].n_processes, 1);
    (void)uma_arena_free(arena);
}

static void test_words(void **state) {
    (void)state;
    assert_non_null(strstr(page, "\"schema\": \"" UMA_SNAPSHOT_SCHEMA "\""));
    for (int i = 0; i < UMA_VALIDITY_MAX; i++) {
        char row[40];
        (void)snprintf(row, sizeof(row), "\n| `%s` | ", uma_validity_words[i]);
        if (i != UMA_KNOWN && !strstr(page, row))
            fail_msg("no reason \"%s\"", uma_validity_words[i]);
    }
}

/* ---- the tables themselves ------------------------------------------------------------------------------------ */

/*
 * Bytes of a struct that no field describes: padding, and a member that somebody adds to uma.h and forgets here. The padding of each struct
 * is known (64-bit ABI), so that anything else shows.
 */
static size_t size_of(const struct uma_field *f) {
    switch (f->type) {
    case UMA_FIELD_U64:
    case UMA_FIELD_I64:
    case UMA_FIELD_F64:
        return sizeof(struct uma_u64);
    case UMA_FIELD_UINT32:
    case UMA_FIELD_INT32:
    case UMA_FIELD_TRUTH:
    case UMA_FIELD_WORD:
        return 4;
    case UMA_FIELD_BOOL:
    case UMA_FIELD_CHARACTER:
        return 1;
    case UMA_FIELD_NAME:
        return 16;
    case UMA_FIELD_OBJECT:
        return f->of->size;
    case UMA_FIELD_ARRAY:
        return f->max * f->of->size;
    case UMA_FIELD_NUMBERS:
        return f->max * sizeof(uint64_t);
    default:
        return 8;
    }
}

static void check_cover(struct seen *seen, const struct uma_fields *fields) {
    for (size_t i = 0; i < seen->n; i++)
        if (seen->list[i] == fields)
            return;
    seen->list[seen->n++] = fields;
    static const struct {
        const char *name;
        size_t uncovered; /* padding, and what is no part of the document (the arena) */
    } expected[] = {
        { "snapshot", sizeof(void *) },
        { "source", 4 },
        { "platform", 4 },
        { "zone", 4 + 4 },
        { "process", 5 + 4 + 4 },
        { "cgroup", 4 + 4 },
        { "thermal_zone", 4 },
        { "sensor", 4 + 4 },
        { "cpu", 4 },
        { "gpus", 7 },
        { "gpu", 4 + 4 },
        { "gpu_process", 4 + 7 },
        { "cached_file", 11 /* `why` is of one reading */ },
        { "page_cache", 7 },
    };
    size_t covered = 0, allowed = 0;
    for (size_t i = 0; i < fields->n; i++) {
        const struct uma_field *f = &fields->list[i];
        covered += size_of(f);
        if (f->type == UMA_FIELD_LIST || f->type == UMA_FIELD_NAMED)
            covered += sizeof(size_t);
        else if (f->type == UMA_FIELD_ARRAY || f->type == UMA_FIELD_STRINGS || f->type == UMA_FIELD_NUMBERS)
            covered += sizeof(uint32_t);
        assert_true(f->offset + size_of(f) <= fields->size);
    }
    for (size_t i = 0; i < ELEMENTS(expected); i++)
        if (strcmp(expected[i].name, fields->name) == 0)
            allowed = expected[i].uncovered;
    if (fields->size - covered != allowed)
        fail_msg("%s: %zu bytes that no field describes, expected %zu: a new member needs a row in snapshot_fields.c (or padding moved)",
                 fields->name, fields->size - covered, allowed);
    for (size_t i = 0; i < fields->n; i++)
        if (fields->list[i].of)
            check_cover(seen, fields->list[i].of);
}

static void test_cover(void **state) {
    (void)state;
    if (sizeof(void *) != 8)
        SKIP_BECAUSE("written for 64-bit machines");
    struct seen seen = { 0 };
    check_cover(&seen, &uma_snapshot_fields);
}

static void test_throttle_names(void **state) {
    (void)state;
    const struct uma_fields *fields = &uma_gpus_fields;
    static const char *const path[] = { "list", "throttle_seconds" };
    for (size_t p = 0; p < ELEMENTS(path); p++)
        for (size_t i = 0; i < fields->n; i++)
            if (strcmp(fields->list[i].name, path[p]) == 0) {
                fields = fields->list[i].of;
                break;
            }
    assert_int_equal(fields->n, UMA_THROTTLE_MAX);
    for (size_t i = 0; i < fields->n; i++)
        assert_string_equal(fields->list[i].name, uma_throttle_name((enum uma_throttle)(fields->list[i].offset / sizeof(struct uma_f64))));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects), cmocka_unit_test(test_sample),         cmocka_unit_test(test_words),
        cmocka_unit_test(test_cover),   cmocka_unit_test(test_throttle_names),
    };
    return cmocka_run_group_tests(tests, read_page, free_page);
}
