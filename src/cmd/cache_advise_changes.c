/* SPDX-License-Identifier: MIT */
/* cache_advise_changes.c - what became of changes, for people and for programs. */
#include "cmd/cache_advise.h"

#include "cmd/layout.h"

#include <stdio.h>
#include <string.h>

enum { INDENT = 2 };

/* "proc/sys/vm/dirty_ratio" is vm.dirty_ratio to sysctl(8). */
static void name(struct uma_text *text, const char *path) {
    static const char vm[] = "proc/sys/vm/";
    bool is_vm = strncmp(path, vm, sizeof vm - 1) == 0;
    uma_text_printf(text, "%s%s", is_vm ? "vm." : "/", is_vm ? path + sizeof vm - 1 : path);
}

void uma_tune_in_force(struct uma_text *text, const struct uma_tune_result *result, const struct uma_tune_value *value) {
    const char *shown = value->own;
    if (result->counterpart && value->own) {
        bool other = strcmp(value->own, "0") == 0 && value->counterpart;
        name(text, other ? result->counterpart : result->path);
        uma_text_append(text, " = ");
        shown = other ? value->counterpart : value->own;
    }
    uma_text_append(text, shown ? shown : "?");
}

static bool differs(const struct uma_tune_value *a, const struct uma_tune_value *b) {
    return (a->own && b->own && strcmp(a->own, b->own) != 0) ||
           (a->counterpart && b->counterpart && strcmp(a->counterpart, b->counterpart) != 0);
}

static void say(struct uma_text *line, const struct uma_tune_result *r) {
    switch (r->outcome) {
    case UMA_TUNE_SET:
        uma_tune_in_force(line, r, &r->now);
        uma_text_append(line, ", was ");
        uma_tune_in_force(line, r, &r->before);
        break;
    case UMA_TUNE_ALREADY:
    case UMA_TUNE_UNTOUCHED:
        uma_tune_in_force(line, r, &r->now);
        break;
    case UMA_TUNE_RESTORED:
        uma_tune_in_force(line, r, &r->now);
        if (r->found.own && r->set && strcmp(r->found.own, r->set) != 0) { /* --force */
            uma_text_append(line, "; somebody had set ");
            uma_tune_in_force(line, r, &r->found);
        }
        break;
    case UMA_TUNE_CHANGED:
        uma_text_append(line, "somebody set ");
        uma_tune_in_force(line, r, &r->now);
        uma_text_printf(line, "; umactl had set %s, and before it was ", r->set);
        uma_tune_in_force(line, r, &r->before);
        uma_text_append(line, ": left alone; --undo --force takes it back all the same");
        break;
    case UMA_TUNE_RESTARTED:
        uma_text_append(line, "what umactl had set is gone since");
        break;
    case UMA_TUNE_NONE:
        uma_text_append(line, r->error ? r->error : "");
        break;
    case UMA_TUNE_FAILED:
        uma_text_append(line, r->error ? r->error : "for an unknown reason");
        if (r->now.own && r->before.own) {
            uma_text_append(line, differs(&r->now, &r->before) ? "; it is now " : "; it is as before, ");
            uma_tune_in_force(line, r, &r->now);
        }
        break;
    }
}

static void change(struct uma_text *text, const struct uma_tune_result *r, const struct uma_status_style *style) {
    uma_text_pad(text, INDENT);
    uma_advise_cell(text, r->id, UMA_ADVISE_ID_COLUMNS - 1, INDENT + UMA_ADVISE_ID_COLUMNS);
    _cleanup_text_ struct uma_text line = { 0 };
    bool bad = r->outcome == UMA_TUNE_FAILED || r->outcome == UMA_TUNE_CHANGED;
    uma_layout_ink(text, style, bad ? UMA_INK_RED : r->outcome == UMA_TUNE_NONE ? UMA_INK_PLAIN : UMA_INK_GREEN);
    uma_text_append(text, uma_tune_outcome_name(r->outcome));
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    /* the whole is wrapped under its first words, which stand in a column that the wrapping does not know */
    size_t used = uma_layout_column(text);
    say(&line, r);
    if (line.length + used + 2 > style->columns) {
        uma_text_append(text, ":\n");
        uma_text_pad(text, 2 * INDENT);
        uma_layout_wrap(text, style, line.data ? line.data : "", 2 * INDENT, 0);
        return;
    }
    uma_text_append(text, ": ");
    (void)uma_text_safe(text, line.data ? line.data : "", 0);
    uma_text_char(text, '\n');
}

void uma_tune_text(struct uma_text *text, const struct uma_tune_results *results, bool undo, const struct uma_status_style *style) {
    bool set = false;
    for (size_t i = 0; i < results->n; i++) {
        change(text, &results->list[i], style);
        set |= results->list[i].outcome == UMA_TUNE_SET;
    }
    if (results->n == 0)
        uma_text_append(text, undo ? "Nothing to take back: umactl has changed no setting here.\n" : "Nothing to set.\n");
    if (set)
        uma_layout_wrap(
            text, style,
            "These last until a restart. `umactl cache advise --sysctl` prints the lines that keep them; --undo takes them back.", 0, 0);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void path_json(struct uma_json *json, const char *key, const char *path) {
    char full[UMA_TUNABLE_PATH_MAX + 2];
    (void)snprintf(full, sizeof full, "/%s", path ? path : "");
    uma_json_string(json, key, path ? full : NULL);
}

static void counterpart_json(struct uma_json *json, const struct uma_tune_result *r) {
    if (!r->counterpart) {
        uma_json_null(json, "counterpart");
        return;
    }
    uma_json_begin_object(json, "counterpart", false);
    path_json(json, "path", r->counterpart);
    uma_json_string(json, "before", r->before.counterpart);
    uma_json_string(json, "now", r->now.counterpart);
    uma_json_end_object(json);
}

void uma_tune_json(struct uma_json *json, const struct uma_tune_results *results, bool undo) {
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "schema", "umactl.cache-advise/1");
    uma_json_string(json, "action", undo ? "undo" : "apply");
    uma_json_bool(json, "complete", !results->incomplete);
    uma_json_begin_array(json, "changes", false);
    for (size_t i = 0; i < results->n; i++) {
        const struct uma_tune_result *r = &results->list[i];
        uma_json_begin_object(json, NULL, false);
        uma_json_string(json, "id", r->id);
        path_json(json, "path", r->path);
        uma_json_string(json, "outcome", uma_tune_outcome_name(r->outcome));
        uma_json_string(json, "before", r->before.own);
        uma_json_string(json, "set", r->set);
        uma_json_string(json, "now", r->now.own);
        counterpart_json(json, r);
        uma_json_string(json, "error", r->error);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
    uma_json_end_object(json);
    uma_text_char(json->text, '\n');
}
