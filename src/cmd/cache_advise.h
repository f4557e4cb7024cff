/* SPDX-License-Identifier: MIT */
/*
 * cache_advise.h - the faces of `umactl cache advise`: advice, and what became of changes, as text and as JSON. Functions of what is given alone.
 */
#pragma once

#include "base/json_write.h"
#include "cache/advise.h"
#include "cache/tune.h"
#include "cmd/status.h"
#include "record/tuning_record.h"

/* ---- which settings: cache_advise_select.c ---- */

/* What is to be set, and what was named though no value is to be set for it. */
struct uma_advise_selection {
    const struct uma_advice *list[UMA_TUNING_CHANGES_MAX], *unset[UMA_TUNING_CHANGES_MAX];
    size_t n, n_unset;
};
/*
 * Names stand in words, with commas: an id, or the setting as sysctl(8) or the file system has it (vm.dirty_ratio, dirty_ratio, /proc/sys/vm/dirty_ratio). None:
 * what helps. 0, or UMA_EXIT_USAGE, told, when there is no such setting; then nothing is selected.
 */
int uma_advise_select(const struct uma_advice_list *advice, char *const *words, int n_words, struct uma_advise_selection *ret_selection);
/* Is it what this name (so long) means? */
bool uma_advise_named(const char *id, const char *path, const char *name, size_t length);
/* Why nothing is set for it, and what can be done by hand. */
const char *uma_advise_unset_why(const struct uma_advice *advice, struct uma_arena *arena);

/* ---- as text and JSON ---- */

enum { UMA_ADVISE_ID_COLUMNS = 26 };
/* A column that ends at `end`, of at most `columns`. */
void uma_advise_cell(struct uma_text *text, const char *s, size_t columns, size_t end);

struct uma_advise_view {
    bool all;           /* also what is ok */
    bool from_snapshot; /* read from a snapshot, which has no settings */
};
void uma_advise_text_write(struct uma_text *text, const struct uma_advice_list *advice, const struct uma_advise_view *view,
                           const struct uma_status_style *style);
/* The whole document, schema umactl.cache-advise/1. */
void uma_advise_json(struct uma_json *json, const struct uma_advice_list *advice);

/* The face of a setting that is in force, "vm.dirty_ratio = 20"; of one without another face its value alone; "?" unknown. */
void uma_tune_in_force(struct uma_text *text, const struct uma_tune_result *result, const struct uma_tune_value *value);
/* `undo`: it was taking back. */
void uma_tune_text(struct uma_text *text, const struct uma_tune_results *results, bool undo, const struct uma_status_style *style);
void uma_tune_json(struct uma_json *json, const struct uma_tune_results *results, bool undo);

/* One line of a file for /etc/sysctl.d, or of what must stand elsewhere, as a comment. `path` as in struct uma_advice. */
void uma_sysctl_line(struct uma_text *text, const char *path, const char *value);
