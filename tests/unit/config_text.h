/* SPDX-License-Identifier: MIT */
/* Configurations in tests are written with ' for ", so that they can be read. */
#pragma once

#include "plan/model/structure.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

static inline char *double_quotes(const char *text) {
    char *copy = strdup(text);
    for (char *c = copy; c && *c; c++)
        *c = *c == '\'' ? '"' : *c;
    return copy;
}

/* The model of a configuration; the test fails where it is refused. */
static inline struct uma_model *config_model(const char *text) {
    _cleanup_free_
    char *json = double_quotes(text);
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    if (!json || uma_model_from_config("config.json", json, strlen(json), NULL, 0, &model, &err) < 0)
        fail_msg("%s: %s", text, err.text);
    return model;
}
