/* SPDX-License-Identifier: MIT */
/* Parsing a configuration within bounds, and fetching its fields. */
#include "plan/model/config.h"

#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* jansson recurses into values and allocates for each: how deep and how many is told before it starts. */
static int check_bounds(const char *file, const char *text, size_t length, struct uma_error *err) {
    size_t depth = 0, line = 1, brackets = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '\n')
            line++;
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"')
            quoted = true;
        else if (c == '{' || c == '[') {
            brackets++;
            depth++;
        } else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        else if (c == ',')
            values++;
        if (depth > CONFIG_DEPTH_MAX)
            return uma_error_text(err, EINVAL, "%s line %zu: objects and lists within each other, at most %d deep, were expected", file,
                                  line, CONFIG_DEPTH_MAX);
        if (brackets > CONFIG_BRACKETS_MAX || values > CONFIG_VALUES_MAX)
            return uma_error_text(err, EFBIG, "%s line %zu: at most %d objects and lists and %d values were expected", file, line,
                                  CONFIG_BRACKETS_MAX, CONFIG_VALUES_MAX);
    }
    return 0;
}

/* Python writes Infinity and NaN into configurations (time_step_limit), which JSON does not know: a copy has null and spaces in their place. */
static char *without_python_numbers(const char *text, size_t length) {
    static const char *const words[] = { "-Infinity", "Infinity", "NaN" };
    static const char *const values[] = { "null     ", "null    ", "0  " };
    char *copy = malloc(length ? length : 1);
    bool quoted = false;
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    for (size_t i = 0; i < length; i++) {
        if (quoted) {
            if (copy[i] == '\\')
                i++;
            else if (copy[i] == '"')
                quoted = false;
            continue;
        }
        if (copy[i] == '"')
            quoted = true;
        for (size_t w = 0; !quoted && w < ELEMENTS(words); w++) {
            size_t n = strlen(words[w]);
            if (length - i >= n && memcmp(copy + i, words[w], n) == 0)
                memcpy(copy + i, values[w], n);
        }
    }
    return copy;
}

int uma_config_parse(const char *file, const char *text, size_t length, json_t **ret_root, struct uma_error *err) {
    if (length > CONFIG_BYTES_MAX)
        return uma_error_text(err, EFBIG, "%s: %zu bytes; a configuration of at most %d bytes was expected", file, length,
                              CONFIG_BYTES_MAX);
    int r = check_bounds(file, text, length, err);
    if (r < 0)
        return r;
    _cleanup_free_
    char *copy = without_python_numbers(text, length);
    if (!copy)
        return uma_error_set(err, ENOMEM, "%s", file);
    json_error_t error;
    json_t *root = json_loadb(copy, length, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return uma_error_text(err, EINVAL, "%s line %d: JSON was expected: %s", file, error.line, error.text);
    if (!json_is_object(root)) {
        json_decref(root);
        return uma_error_text(err, EINVAL, "%s line 1: an object with the fields of a configuration was expected", file);
    }
    *ret_root = root;
    return 0;
}

/* The line where a key first stands; 0 when it does not. */
static size_t line_of(const struct uma_config *config, const char *name) {
    char quoted[80];
    int n = snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *at = n > 0 && (size_t)n < sizeof quoted ? memmem(config->text, config->length, quoted, (size_t)n) : NULL;
    size_t line = 1;
    if (!at)
        return 0;
    for (const char *p = config->text; p < at; p++)
        line += *p == '\n';
    return line;
}

void uma_config_fail(struct uma_config *config, const char *name, const char *what) {
    if (config->status == 0)
        config->status =
            uma_error_text(config->err, EINVAL, "%s line %zu: \"%s\" should be %s", config->file, line_of(config, name), name, what);
}

/* The alias that is there; its name, for messages, goes to `found`. */
static json_t *find_in(const json_t *object, const char *names, char found[64]) {
    for (const char *alias = names; *alias;) {
        size_t n = strcspn(alias, "|");
        if (n < 64) {
            memcpy(found, alias, n);
            found[n] = 0;
            json_t *value = json_object_get(object, found);
            if (value && !json_is_null(value))
                return value;
        }
        alias += n + (alias[n] == '|');
    }
    return NULL;
}

static json_t *find(const struct uma_config *config, const char *names, char found[64]) {
    json_t *value = NULL;
    for (unsigned i = 0; !value && i < config->level_count; i++)
        value = find_in(config->levels[i], names, found);
    return value;
}

json_t *uma_config_find(const struct uma_config *config, const char *names) {
    char found[64];
    return find(config, names, found);
}

static uint64_t number(struct uma_config *config, const json_t *value, const char *name, uint32_t layer, uint64_t max, uint64_t absent) {
    if (json_is_array(value)) {
        size_t n = json_array_size(value);
        value = n ? json_array_get(value, layer < n ? layer : n - 1) : NULL;
    }
    if (!value || json_is_null(value))
        return absent;
    if (json_is_integer(value) && json_integer_value(value) >= 0 && (uint64_t)json_integer_value(value) <= max)
        return (uint64_t)json_integer_value(value);
    double real = json_is_real(value) ? json_real_value(value) : -1;
    if (real >= 0 && real <= (double)max && real == floor(real))
        return (uint64_t)real;
    char what[64];
    snprintf(what, sizeof what, "a whole number from 0 to %" PRIu64, max);
    uma_config_fail(config, name, what);
    return absent;
}

uint64_t uma_config_layer_number(struct uma_config *config, const char *names, uint32_t layer, uint64_t max, uint64_t absent) {
    char found[64];
    const json_t *value = find(config, names, found);
    return value ? number(config, value, found, layer, max, absent) : absent;
}

uint64_t uma_config_number(struct uma_config *config, const char *names, uint64_t max, uint64_t absent) {
    return uma_config_layer_number(config, names, 0, max, absent);
}

uint64_t uma_config_number_in(struct uma_config *config, const json_t *object, const char *names, uint64_t max, uint64_t absent) {
    char found[64];
    const json_t *value = find_in(object, names, found);
    return value ? number(config, value, found, 0, max, absent) : absent;
}

bool uma_config_flag(struct uma_config *config, const char *names, bool absent) {
    char found[64];
    const json_t *value = find(config, names, found);
    if (!value)
        return absent;
    if (json_is_boolean(value))
        return json_is_true(value);
    if (json_is_integer(value))
        return json_integer_value(value) != 0;
    uma_config_fail(config, found, "true or false");
    return absent;
}

const char *uma_config_string(const struct uma_config *config, const char *names) {
    return json_string_value(uma_config_find(config, names));
}

json_t *uma_config_list(const struct uma_config *config, const char *names) {
    json_t *value = uma_config_find(config, names);
    return json_is_array(value) && json_array_size(value) > 0 ? value : NULL;
}

json_t *uma_config_object(const struct uma_config *config, const char *names) {
    json_t *value = uma_config_find(config, names);
    return json_is_object(value) ? value : NULL;
}

bool uma_config_list_has(const json_t *list, uint64_t value) {
    size_t n = MIN_OF(json_array_size(list), (size_t)UMA_MODEL_LAYERS_MAX); /* asked once per layer */
    for (size_t i = 0; i < n; i++) {
        const json_t *element = json_array_get(list, i);
        if (json_is_integer(element) && json_integer_value(element) >= 0 && (uint64_t)json_integer_value(element) == value)
            return true;
    }
    return false;
}
