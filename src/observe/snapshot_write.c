/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as JSON. What is written always parses: counts are cut to their maxima, strings to UMA_SNAPSHOT_STRING_MAX, numbers to the
 * range that the parser takes. Readers keep to these limits, so that a cut is the last defence and not a thing that happens.
 */
#include "observe/snapshot_fields.h"
#include "observe/snapshot_json.h"

#include "base/error.h"

#include <string.h>

static void write_object(struct uma_json *json, const char *key, const struct uma_fields *fields, const void *object);

static void write_string(struct uma_json *json, const char *key, const char *s) {
    if (!s) {
        uma_json_null(json, key);
        return;
    }
    size_t n = strnlen(s, UMA_SNAPSHOT_STRING_MAX + 1);
    if (n > UMA_SNAPSHOT_STRING_MAX)
        for (n = UMA_SNAPSHOT_STRING_MAX; n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80; n--) { /* not inside a character */
        }
    uma_json_string_n(json, key, s, n);
}

/* A zone's name has 16 bytes; a byte that is not UTF-8 must not grow when it is written. */
static void write_name(struct uma_json *json, const char *key, const char *s) {
    char copy[16];
    size_t n = strnlen(s, sizeof(copy) - 1);
    for (size_t i = 0; i < n;) {
        size_t step = uma_utf8_sequence(s + i, n - i);
        if (step)
            (void)memcpy(copy + i, s + i, step);
        else
            copy[i] = '?';
        i += step ? step : 1;
    }
    uma_json_string_n(json, key, copy, n);
}

static void write_value(struct uma_json *json, const struct uma_field *field, const void *object) {
    const void *at = (const char *)object + field->offset;
    if (!uma_usable(uma_field_validity(field, object)))
        uma_json_null(json, field->name);
    else if (field->type == UMA_FIELD_U64)
        uma_json_unsigned(json, field->name, ((const struct uma_u64 *)at)->value);
    else if (field->type == UMA_FIELD_I64)
        uma_json_signed(json, field->name, ((const struct uma_i64 *)at)->value);
    else
        uma_json_double(json, field->name, ((const struct uma_f64 *)at)->value + 0.0); /* -0.0 is 0: "-0" would be read as an integer */
}

static void write_plain(struct uma_json *json, const struct uma_field *field, const void *at) {
    int64_t v;
    switch (field->type) {
    case UMA_FIELD_UINT64: {
        uint64_t u = *(const uint64_t *)at;
        v = u > (uint64_t)INT64_MAX ? INT64_MAX : (int64_t)u;
        break;
    }
    case UMA_FIELD_INT64:
        v = *(const int64_t *)at;
        break;
    case UMA_FIELD_UINT32:
        v = *(const uint32_t *)at;
        break;
    default:
        v = *(const int32_t *)at;
    }
    uma_json_signed(json, field->name, MIN_OF(MAX_OF(v, field->low), field->high));
}

static void write_named(struct uma_json *json, const struct uma_field *field, const void *object) {
    const struct uma_named_u64 *list = *(const struct uma_named_u64 *const *)(const void *)((const char *)object + field->offset);
    size_t n = uma_field_count(field, object);
    uma_json_begin_object(json, field->name, true);
    for (size_t i = 0; i < n; i++) {
        bool again = !list[i].name || strnlen(list[i].name, UMA_SNAPSHOT_STRING_MAX + 1) > UMA_SNAPSHOT_STRING_MAX;
        /* a key may stand only once: the first one counts */
        for (size_t j = 0; j < i && !again; j++)
            again = list[j].name && strcmp(list[i].name, list[j].name) == 0;
        if (!again)
            uma_json_unsigned(json, list[i].name, MIN_OF(list[i].value, (uint64_t)INT64_MAX));
    }
    uma_json_end_object(json);
}

/* LIST, ARRAY, STRINGS and NUMBERS. */
static void write_elements(struct uma_json *json, const struct uma_field *field, const void *object) {
    const char *at = (const char *)object + field->offset;
    size_t n = uma_field_count(field, object);
    bool line = field->type == UMA_FIELD_STRINGS || field->type == UMA_FIELD_NUMBERS;
    uma_json_begin_array(json, field->name, line);
    for (size_t i = 0; i < n; i++) {
        if (field->type == UMA_FIELD_LIST)
            write_object(json, NULL, field->of, *(const char *const *)(const void *)at + i * field->of->size);
        else if (field->type == UMA_FIELD_ARRAY)
            write_object(json, NULL, field->of, at + i * field->of->size);
        else if (field->type == UMA_FIELD_STRINGS)
            write_string(json, NULL, (*(const char *const *const *)(const void *)at)[i]);
        else
            uma_json_unsigned(json, NULL, MIN_OF(((const uint64_t *)(const void *)at)[i], (uint64_t)INT64_MAX));
    }
    uma_json_end_array(json);
}

static void write_field(struct uma_json *json, const struct uma_field *field, const void *object) {
    const void *at = (const char *)object + field->offset;
    switch (field->type) {
    case UMA_FIELD_U64:
    case UMA_FIELD_I64:
    case UMA_FIELD_F64:
        write_value(json, field, object);
        break;
    case UMA_FIELD_UINT64:
    case UMA_FIELD_INT64:
    case UMA_FIELD_UINT32:
    case UMA_FIELD_INT32:
        write_plain(json, field, at);
        break;
    case UMA_FIELD_BOOL:
        uma_json_bool(json, field->name, *(const bool *)at);
        break;
    case UMA_FIELD_TRUTH:
        uma_json_truth(json, field->name, *(const enum uma_truth *)at);
        break;
    case UMA_FIELD_WORD: {
        unsigned word = *(const unsigned *)at;
        uma_json_string(json, field->name, field->words[word < field->max ? word : 0]);
        break;
    }
    case UMA_FIELD_STRING:
        write_string(json, field->name, *(const char *const *)at);
        break;
    case UMA_FIELD_NAME:
        write_name(json, field->name, at);
        break;
    case UMA_FIELD_CHARACTER: {
        const char *c = at; /* a letter, or nothing: what else a file may have said is no state */
        if (*c > ' ' && *c < 0x7f)
            uma_json_string_n(json, field->name, c, 1);
        else
            uma_json_null(json, field->name);
        break;
    }
    case UMA_FIELD_TIME:
        uma_json_time(json, field->name, *(const int64_t *)at / 1000000000 < (int64_t)UMA_TIME_MAX_SECONDS ? *(const int64_t *)at : 0);
        break;
    case UMA_FIELD_OBJECT:
        write_object(json, field->name, field->of, at);
        break;
    case UMA_FIELD_NAMED:
        write_named(json, field, object);
        break;
    case UMA_FIELD_LIST:
    case UMA_FIELD_ARRAY:
    case UMA_FIELD_STRINGS:
    case UMA_FIELD_NUMBERS:
        write_elements(json, field, object);
        break;
    }
}

static void write_members(struct uma_json *json, const struct uma_fields *fields, const void *object) {
    bool any = false;
    for (size_t i = 0; i < fields->n; i++)
        write_field(json, &fields->list[i], object);
    for (size_t i = 0; i < fields->n; i++) {
        if (!uma_field_has_validity(&fields->list[i]))
            continue;
        enum uma_validity v = uma_field_validity(&fields->list[i], object);
        if (v == UMA_KNOWN || v == UMA_UNKNOWN)
            continue;
        if (!any)
            uma_json_begin_object(json, UMA_SNAPSHOT_REASONS, true);
        any = true;
        uma_json_string(json, fields->list[i].name, uma_validity_words[v]);
    }
    if (any)
        uma_json_end_object(json);
}

/* It calls itself as deep as the tables are nested (five), whatever the snapshot holds. */
static void write_object(struct uma_json *json, const char *key, const struct uma_fields *fields, const void *object) {
    uma_json_begin_object(json, key, fields->one_line);
    write_members(json, fields, object);
    uma_json_end_object(json);
}

void uma_gpus_write(struct uma_json *json, const char *key, const struct uma_gpus *gpus) {
    write_object(json, key, &uma_gpus_fields, gpus);
}

void uma_page_cache_write(struct uma_json *json, const char *key, const struct uma_page_cache *cache) {
    write_object(json, key, &uma_page_cache_fields, cache);
}

int uma_snapshot_format(const struct uma_snapshot *snapshot, char **ret_text, size_t *ret_length, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_json json = { .text = &text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", UMA_SNAPSHOT_SCHEMA);
    write_members(&json, &uma_snapshot_fields, snapshot);
    uma_json_end_object(&json);
    if (text.failed)
        return uma_error_set(err, ENOMEM, "writing the snapshot");
    *ret_text = TAKE_PTR(text.data);
    *ret_length = text.length;
    return 0;
}
