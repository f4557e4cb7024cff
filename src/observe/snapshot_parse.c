/* SPDX-License-Identifier: MIT */
/*
 * From a JSON tree to structs, as the tables of snapshot_fields.h say. Members that no table names are passed over (a later minor
 * version may have more), a member that is missing is unknown, and whatever has the wrong type or range is an error that names its place.
 */
#include "observe/snapshot_parse.h"
#include "observe/snapshot_json.h"

#include "base/error.h"

#include <math.h>
#include <string.h>

/* Where in the document: linked through the callers' frames, written out only for an error. */
struct place {
    const struct place *up;
    const char *name; /* NULL: element `index` */
    size_t index;
};

struct context {
    const char *file;
    struct uma_arena *arena;
    struct uma_error *err;
};

static void place_text(struct uma_text *text, const struct place *place) {
    const struct place *chain[16];
    size_t n = 0;
    for (; place && n < ELEMENTS(chain); place = place->up)
        chain[n++] = place;
    while (n-- > 0) {
        if (!chain[n]->name)
            uma_text_printf(text, "[%zu]", chain[n]->index);
        else
            uma_text_printf(text, "%s%.80s", text->length > 0 ? "." : "", chain[n]->name);
    }
}

static int refuse(const struct context *c, const struct place *place, const char *format, ...) UMA_PRINTF(3, 4);

static int refuse(const struct context *c, const struct place *place, const char *format, ...) {
    _cleanup_text_ struct uma_text where = { 0 };
    place_text(&where, place);
    char what[192];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    return uma_error_text(c->err, EINVAL, "%s%s%s: %s", c->file, where.length > 0 ? ": " : "", where.length > 0 ? where.data : "", what);
}

static int out_of_memory(const struct context *c) {
    return uma_error_set(c->err, ENOMEM, "%s: the snapshot holds too much", c->file);
}

static const char *type_name(const json_t *json) {
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    default:
        return "null";
    }
}

static int wrong_type(const struct context *c, const struct place *place, const char *expected, const json_t *found) {
    return refuse(c, place, "expected %s, found %s", expected, type_name(found));
}

/* ---- numbers ------------------------------------------------------------------------------------------------ */

/* A whole number; 1e9 and 3.0 are whole as well. Beyond 2^53 a double has lost digits, so that it is no longer what was written. */
static int integer(const struct context *c, const struct place *place, const json_t *json, int64_t low, int64_t high, int64_t *ret_value) {
    int64_t v;
    if (json_is_integer(json))
        v = json_integer_value(json);
    else if (json_is_real(json)) {
        double d = json_real_value(json);
        if (!(fabs(d) <= 0x1p53) || d != floor(d))
            return refuse(c, place, "expected a whole number, found %g", d);
        v = (int64_t)d;
    } else
        return wrong_type(c, place, "a number", json);
    if (v < low || v > high)
        return refuse(c, place, "%lld is out of range: expected %lld to %lld", (long long)v, (long long)low, (long long)high);
    *ret_value = v;
    return 0;
}

static int parse_value(const struct context *c, const struct place *place, const struct uma_field *field, const json_t *json, void *at) {
    if (json_is_null(json))
        return 0;
    if (field->type == UMA_FIELD_F64) {
        if (!json_is_number(json))
            return wrong_type(c, place, "a number", json);
        *(struct uma_f64 *)at = (struct uma_f64){ json_number_value(json), UMA_KNOWN };
        return 0;
    }
    int64_t v = 0;
    int r = integer(c, place, json, field->type == UMA_FIELD_U64 ? 0 : INT64_MIN, INT64_MAX, &v);
    if (r < 0)
        return r;
    if (field->type == UMA_FIELD_U64)
        *(struct uma_u64 *)at = (struct uma_u64){ (uint64_t)v, UMA_KNOWN };
    else
        *(struct uma_i64 *)at = (struct uma_i64){ v, UMA_KNOWN };
    return 0;
}

static int parse_plain(const struct context *c, const struct place *place, const struct uma_field *field, const json_t *json, void *at) {
    int64_t v = 0;
    int r = integer(c, place, json, field->low, field->high, &v);
    if (r < 0)
        return r;
    if (field->type == UMA_FIELD_UINT64)
        *(uint64_t *)at = (uint64_t)v;
    else if (field->type == UMA_FIELD_INT64)
        *(int64_t *)at = v;
    else if (field->type == UMA_FIELD_UINT32)
        *(uint32_t *)at = (uint32_t)v;
    else
        *(int32_t *)at = (int32_t)v;
    return 0;
}

static int parse_time(const struct context *c, const struct place *place, const json_t *json, int64_t *ret_time_ns) {
    if (!json_is_number(json))
        return wrong_type(c, place, "a time in seconds", json);
    double v = json_number_value(json);
    if (!(v >= 0 && v < (double)UMA_TIME_MAX_SECONDS))
        return refuse(c, place, "expected a time in seconds since 1970 below %llu, found %g", UMA_TIME_MAX_SECONDS, v);
    *ret_time_ns = (int64_t)floor(v) * 1000000000 + (int64_t)round((v - floor(v)) * 1e6) * 1000;
    return 0;
}

/* ---- words and strings -------------------------------------------------------------------------------------- */

static int find_word(const struct context *c, const struct place *place, const json_t *json, const char *const *words, unsigned n,
                     unsigned *ret_word) {
    if (!json_is_string(json))
        return wrong_type(c, place, "a string", json);
    char expected[160] = "";
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(json_string_value(json), words[i]) == 0) {
            *ret_word = i;
            return 0;
        }
        size_t used = strlen(expected);
        (void)snprintf(expected + used, sizeof(expected) - used, "%s%s", i ? ", " : "", words[i]);
    }
    return refuse(c, place, "\"%.32s\" is not one of %s", json_string_value(json), expected);
}

static int parse_string(const struct context *c, const struct place *place, const json_t *json, const char **ret_string) {
    if (!json_is_string(json))
        return wrong_type(c, place, "a string or null", json);
    size_t n = json_string_length(json);
    if (n > UMA_SNAPSHOT_STRING_MAX)
        return refuse(c, place, "a string of %zu bytes, at most %d are allowed", n, UMA_SNAPSHOT_STRING_MAX);
    const char *copy = uma_arena_strndup(c->arena, json_string_value(json), n);
    if (!copy)
        return out_of_memory(c);
    *ret_string = copy;
    return 0;
}

/* A short string in place: a zone's name (size 16, with its NUL) or a process's state (one character, no NUL). */
static int parse_short(const struct context *c, const struct place *place, const json_t *json, char *ret_string, size_t most) {
    if (!json_is_string(json))
        return wrong_type(c, place, "a string", json);
    size_t n = json_string_length(json);
    if (n > most)
        return refuse(c, place, "a string of %zu bytes, at most %zu are allowed", n, most);
    (void)memcpy(ret_string, json_string_value(json), n);
    return 0;
}

static int parse_boolean(const struct context *c, const struct place *place, const struct uma_field *field, const json_t *json, void *at) {
    if (!json_is_boolean(json))
        return wrong_type(c, place, "true or false", json);
    if (field->type == UMA_FIELD_BOOL)
        *(bool *)at = json_is_true(json);
    else
        *(enum uma_truth *)at = json_is_true(json) ? UMA_YES : UMA_NO;
    return 0;
}

/* ---- lists -------------------------------------------------------------------------------------------------- */

static int parse_object(const struct context *c, const struct place *place, const struct uma_fields *fields, const json_t *json,
                        void *object);

static int check_count(const struct context *c, const struct place *place, size_t n, uint32_t max) {
    return n <= max ? 0 : refuse(c, place, "%zu elements, at most %u are allowed", n, max);
}

static int parse_objects(const struct context *c, const struct place *place, const struct uma_field *field, const json_t *json,
                         char *into) {
    size_t i;
    json_t *element;
    json_array_foreach(json, i, element) {
        int r = parse_object(c, &(struct place){ .up = place, .index = i }, field->of, element, into + i * field->of->size);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_strings(const struct context *c, const struct place *place, const json_t *json, const char **strings) {
    size_t i;
    json_t *element;
    json_array_foreach(json, i, element) {
        int r = parse_string(c, &(struct place){ .up = place, .index = i }, element, &strings[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

static int parse_numbers(const struct context *c, const struct place *place, const json_t *json, uint64_t *numbers) {
    size_t i;
    json_t *element;
    json_array_foreach(json, i, element) {
        int64_t v = 0;
        int r = integer(c, &(struct place){ .up = place, .index = i }, element, 0, INT64_MAX, &v);
        if (r < 0)
            return r;
        numbers[i] = (uint64_t)v;
    }
    return 0;
}

static int parse_list(const struct context *c, const struct place *place, const struct uma_field *field, const json_t *json, char *object) {
    if (!json_is_array(json))
        return wrong_type(c, place, "a list", json);
    size_t n = json_array_size(json);
    int r = check_count(c, place, n, field->max);
    if (r < 0)
        return r;
    void *at = object + field->offset, *list = NULL;
    if (n > 0 && (field->type == UMA_FIELD_LIST || field->type == UMA_FIELD_STRINGS)) {
        list = uma_arena_array(c->arena, n, field->type == UMA_FIELD_LIST ? field->of->size : sizeof(char *));
        if (!list)
            return out_of_memory(c);
    }
    if (field->type == UMA_FIELD_LIST)
        r = n > 0 ? parse_objects(c, place, field, json, list) : 0;
    else if (field->type == UMA_FIELD_STRINGS)
        r = n > 0 ? parse_strings(c, place, json, list) : 0;
    else if (field->type == UMA_FIELD_ARRAY)
        r = parse_objects(c, place, field, json, at);
    else
        r = parse_numbers(c, place, json, at);
    if (r < 0)
        return r;
    if (field->type == UMA_FIELD_LIST) {
        *(void **)at = list;
        *(size_t *)(void *)(object + field->count_offset) = n;
        return 0;
    }
    if (field->type == UMA_FIELD_STRINGS)
        *(void **)at = list;
    *(uint32_t *)(void *)(object + field->count_offset) = (uint32_t)n;
    return 0;
}

static int parse_named(const struct context *c, const struct place *place, const struct uma_field *field, json_t *json, char *object) {
    if (!json_is_object(json))
        return wrong_type(c, place, "an object", json);
    size_t n = json_object_size(json), i = 0;
    int r = check_count(c, place, n, field->max);
    if (r < 0)
        return r;
    struct uma_named_u64 *list = uma_arena_array(c->arena, n, sizeof(*list));
    if (!list)
        return out_of_memory(c);
    const char *key;
    json_t *value;
    json_object_foreach(json, key, value) {
        int64_t v = 0;
        r = integer(c, &(struct place){ .up = place, .name = key }, value, 0, INT64_MAX, &v);
        if (r < 0)
            return r;
        size_t length = strlen(key);
        if (length > UMA_SNAPSHOT_STRING_MAX)
            return refuse(c, place, "a name of %zu bytes, at most %d are allowed", length, UMA_SNAPSHOT_STRING_MAX);
        list[i].name = uma_arena_strndup(c->arena, key, length);
        if (!list[i].name)
            return out_of_memory(c);
        list[i++].value = (uint64_t)v;
    }
    *(struct uma_named_u64 **)(void *)(object + field->offset) = list;
    *(size_t *)(void *)(object + field->count_offset) = n;
    return 0;
}

/* ---- objects ------------------------------------------------------------------------------------------------ */

static int parse_field(const struct context *c, const struct place *place, const struct uma_field *field, json_t *json, char *object) {
    void *at = object + field->offset;
    if (json_is_null(json) && field->type != UMA_FIELD_LIST && field->type != UMA_FIELD_OBJECT)
        return 0; /* as good as missing */
    switch (field->type) {
    case UMA_FIELD_U64:
    case UMA_FIELD_I64:
    case UMA_FIELD_F64:
        return parse_value(c, place, field, json, at);
    case UMA_FIELD_UINT64:
    case UMA_FIELD_INT64:
    case UMA_FIELD_UINT32:
    case UMA_FIELD_INT32:
        return parse_plain(c, place, field, json, at);
    case UMA_FIELD_BOOL:
    case UMA_FIELD_TRUTH:
        return parse_boolean(c, place, field, json, at);
    case UMA_FIELD_WORD:
        return find_word(c, place, json, field->words, field->max, at);
    case UMA_FIELD_STRING:
        return parse_string(c, place, json, at);
    case UMA_FIELD_NAME:
        return parse_short(c, place, json, at, 15);
    case UMA_FIELD_CHARACTER:
        return parse_short(c, place, json, at, 1);
    case UMA_FIELD_TIME:
        return parse_time(c, place, json, at);
    case UMA_FIELD_OBJECT:
        return parse_object(c, place, field->of, json, at);
    case UMA_FIELD_NAMED:
        return parse_named(c, place, field, json, object);
    default:
        return parse_list(c, place, field, json, object);
    }
}

/* The reasons: {"cma_total": "absent", "watts": "stale"}. A number can only be stale, null can be anything else. */
static int parse_reasons(const struct context *c, const struct place *place, const struct uma_fields *fields, const json_t *json,
                         char *object) {
    if (!json_is_object(json))
        return wrong_type(c, place, "an object", json);
    for (size_t i = 0; i < fields->n; i++) {
        const struct uma_field *field = &fields->list[i];
        if (!uma_field_has_validity(field))
            continue;
        const json_t *reason = json_object_get(json, field->name);
        if (!reason)
            continue;
        struct place here = { .up = place, .name = field->name };
        unsigned word = 0;
        int r = find_word(c, &here, reason, uma_validity_words, UMA_VALIDITY_MAX, &word);
        if (r < 0)
            return r;
        void *at = object + field->offset;
        enum uma_validity *validity = field->type == UMA_FIELD_U64   ? &((struct uma_u64 *)at)->validity
                                      : field->type == UMA_FIELD_I64 ? &((struct uma_i64 *)at)->validity
                                                                     : &((struct uma_f64 *)at)->validity;
        if (uma_usable((enum uma_validity)word) != uma_usable(*validity))
            return refuse(c, &here, "\"%s\", but \"%s\" is %s", uma_validity_words[word], field->name,
                          uma_usable(*validity) ? "a number" : "null or missing");
        *validity = (enum uma_validity)word;
    }
    return 0;
}

/* It calls itself as deep as the tables are nested (five), whatever the document holds. */
static int parse_object(const struct context *c, const struct place *place, const struct uma_fields *fields, const json_t *json,
                        void *object) {
    if (!json_is_object(json))
        return wrong_type(c, place, "an object", json);
    for (size_t i = 0; i < fields->n; i++) {
        const struct uma_field *field = &fields->list[i];
        struct place here = { .up = place, .name = field->name };
        json_t *member = json_object_get(json, field->name);
        bool whole = field->type == UMA_FIELD_INT32; /* null is as good as missing, and 0 would name a thing */
        if (member && !(whole && json_is_null(member))) {
            int r = parse_field(c, &here, field, member, object);
            if (r < 0)
                return r;
        } else if (whole && field->low == -1) /* -1 is the field's "none" */
            *(int32_t *)(void *)((char *)object + field->offset) = -1;
        else if (whole && field->low == 1) /* what names the thing */
            return refuse(c, &here, "missing");
    }
    const json_t *reasons = json_object_get(json, UMA_SNAPSHOT_REASONS);
    struct place here = { .up = place, .name = UMA_SNAPSHOT_REASONS };
    return reasons ? parse_reasons(c, &here, fields, reasons, object) : 0;
}

int uma_fields_parse(const struct uma_fields *fields, const json_t *json, const char *file, struct uma_arena *arena, void *object,
                     struct uma_error *err) {
    const struct context c = { .file = file, .arena = arena, .err = err };
    return parse_object(&c, NULL, fields, json, object);
}
