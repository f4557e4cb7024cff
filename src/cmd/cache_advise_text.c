/* SPDX-License-Identifier: MIT */
/* Advice for people and for programs. */
#include "cmd/cache_advise.h"

#include "cmd/layout.h"

#include <stdio.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------------------------ */

enum { ID_COLUMNS = UMA_ADVISE_ID_COLUMNS, NOW_COLUMNS = 26, VERDICT_COLUMNS = 10, INDENT = 2 };

static enum uma_ink ink_of(enum uma_verdict verdict) {
    switch (verdict) {
    case UMA_VERDICT_HURTS:
        return UMA_INK_RED;
    case UMA_VERDICT_HELPS:
        return UMA_INK_YELLOW;
    case UMA_VERDICT_OK:
        return UMA_INK_GREEN;
    default:
        return UMA_INK_PLAIN;
    }
}

void uma_advise_cell(struct uma_text *text, const char *s, size_t columns, size_t end) {
    (void)uma_text_safe(text, s, columns);
    uma_layout_to_column(text, end);
    if (uma_layout_column(text) > end)
        uma_text_char(text, ' ');
}

static void row(struct uma_text *text, const struct uma_advice *a, const struct uma_status_style *style) {
    size_t at = INDENT;
    uma_text_pad(text, INDENT);
    uma_advise_cell(text, a->id, ID_COLUMNS - 1, at += ID_COLUMNS);
    uma_advise_cell(text, a->now, NOW_COLUMNS - 1, at += NOW_COLUMNS);
    uma_layout_ink(text, style, ink_of(a->verdict));
    uma_text_append(text, uma_verdict_name(a->verdict));
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_layout_to_column(text, at + VERDICT_COLUMNS);
    (void)uma_text_safe(text, a->recommended ? a->recommended : "-", 0);
    uma_text_char(text, '\n');
}

static void heading(struct uma_text *text, const struct uma_status_style *style) {
    uma_layout_ink(text, style, UMA_INK_DIM);
    uma_text_pad(text, INDENT);
    uma_text_append(text, "SETTING");
    uma_layout_to_column(text, INDENT + ID_COLUMNS);
    uma_text_append(text, "NOW");
    uma_layout_to_column(text, INDENT + ID_COLUMNS + NOW_COLUMNS);
    uma_text_append(text, "VERDICT");
    uma_layout_to_column(text, INDENT + ID_COLUMNS + NOW_COLUMNS + VERDICT_COLUMNS);
    uma_text_append(text, "RECOMMENDED");
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_text_char(text, '\n');
}

/* ---- why ------------------------------------------------------------------------------------------------------ */

static void paragraph(struct uma_text *text, const struct uma_status_style *style, const char *what, const char *s) {
    _cleanup_text_ struct uma_text line = { 0 };
    uma_text_printf(&line, "%s%s", what, s);
    uma_text_pad(text, 2 * INDENT);
    uma_layout_wrap(text, style, line.data ? line.data : "", 2 * INDENT, 0);
}

static void why(struct uma_text *text, const struct uma_advice *a, const struct uma_status_style *style) {
    uma_text_char(text, '\n');
    uma_text_pad(text, INDENT);
    uma_layout_ink(text, style, UMA_INK_BOLD);
    (void)uma_text_safe(text, a->id, 0);
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_text_append(text, ": ");
    (void)uma_text_safe(text, a->subject, 0);
    uma_text_char(text, '\n');
    paragraph(text, style, "", a->why);
    for (size_t i = 0; i < a->n_evidence; i++) {
        _cleanup_text_ struct uma_text line = { 0 };
        uma_text_printf(&line, "%s: %s (%s)", uma_certainty_name(a->evidence[i].certainty), a->evidence[i].says, a->evidence[i].source);
        paragraph(text, style, "- ", line.data ? line.data : "");
    }
    if (a->command)
        paragraph(text, style, "> ", a->command);
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static size_t count(const struct uma_advice_list *advice, enum uma_verdict verdict) {
    size_t n = 0;
    for (size_t i = 0; i < advice->n; i++)
        n += advice->list[i].verdict == verdict;
    return n;
}

static void sum(struct uma_text *text, const struct uma_advice_list *advice) {
    for (enum uma_verdict v = UMA_VERDICT_HURTS; v < UMA_VERDICT_MAX; v++)
        uma_text_printf(text, "%s%zu %s", v == UMA_VERDICT_HURTS ? "" : ", ", count(advice, v), uma_verdict_name(v));
    uma_text_char(text, '\n');
}

static void ids_of(struct uma_text *text, const struct uma_advice_list *advice, enum uma_verdict verdict,
                   const struct uma_status_style *style) {
    _cleanup_text_ struct uma_text names = { 0 };
    if (count(advice, verdict) == 0)
        return;
    uma_text_printf(&names, "%s:", uma_verdict_name(verdict));
    for (size_t i = 0, n = 0; i < advice->n; i++)
        if (advice->list[i].verdict == verdict)
            uma_text_printf(&names, "%s %s", n++ ? "," : "", advice->list[i].id);
    uma_text_pad(text, INDENT);
    uma_layout_wrap(text, style, names.data ? names.data : "", INDENT, 0);
}

void uma_advise_text_write(struct uma_text *text, const struct uma_advice_list *advice, const struct uma_advise_view *view,
                           const struct uma_status_style *style) {
    bool any = false, settable = false;
    sum(text, advice);
    if (view->from_snapshot)
        uma_layout_wrap(text, style, "A snapshot has no settings: a folder made by `umactl snapshot --folder` has them, for --root.", 0, 0);
    uma_text_char(text, '\n');
    for (size_t i = 0; i < advice->n; i++) {
        const struct uma_advice *a = &advice->list[i];
        settable |= uma_advice_is_default(a);
        if (!view->all && a->verdict >= UMA_VERDICT_UNKNOWN)
            continue;
        if (!any)
            heading(text, style);
        any = true;
        row(text, a, style);
    }
    if (!view->all) {
        ids_of(text, advice, UMA_VERDICT_UNKNOWN, style);
        ids_of(text, advice, UMA_VERDICT_OK, style);
    }
    for (size_t i = 0; i < advice->n; i++)
        if (view->all || advice->list[i].verdict < UMA_VERDICT_UNKNOWN)
            why(text, &advice->list[i], style);
    uma_text_char(text, '\n');
    if (settable)
        uma_layout_wrap(
            text, style,
            "`sudo umactl cache advise --apply` sets what helps, and --undo takes it back; what hurts was set by somebody, and is changed when it is named: "
            "--apply NAME. --all explains the rest.",
            0, 0);
    else
        uma_layout_wrap(text, style, "Nothing here is set by --apply unless it is named. --all explains the rest.", 0, 0);
    uma_layout_wrap(text, style,
                    "Only what says measured was measured by this project, and none of that on a DGX Spark; a field report is one owner's.",
                    0, 0);
    uma_layout_clip(text, style->columns);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void advice_json(struct uma_json *json, const struct uma_advice *a) {
    char path[UMA_TUNABLE_PATH_MAX + 2];
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "id", a->id);
    uma_json_string(json, "subject", a->subject);
    uma_json_string(json, "now", strcmp(a->now, "?") == 0 ? NULL : a->now);
    uma_json_string(json, "verdict", uma_verdict_name(a->verdict));
    uma_json_string(json, "recommended", a->recommended);
    (void)snprintf(path, sizeof path, "/%s", a->path ? a->path : "");
    uma_json_string(json, "path", a->path ? path : NULL);
    uma_json_bool(json, "applied_by_default", uma_advice_is_default(a));
    uma_json_string(json, "why", a->why);
    uma_json_string(json, "command", a->command);
    uma_json_begin_array(json, "evidence", false);
    for (size_t i = 0; i < a->n_evidence; i++) {
        uma_json_begin_object(json, NULL, false);
        uma_json_string(json, "certainty", uma_certainty_name(a->evidence[i].certainty));
        uma_json_string(json, "says", a->evidence[i].says);
        uma_json_string(json, "source", a->evidence[i].source);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
    uma_json_end_object(json);
}

void uma_advise_json(struct uma_json *json, const struct uma_advice_list *advice) {
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "schema", "umactl.cache-advise/1");
    uma_json_begin_array(json, "advice", false);
    for (size_t i = 0; i < advice->n; i++)
        advice_json(json, &advice->list[i]);
    uma_json_end_array(json);
    uma_json_end_object(json);
    uma_text_char(json->text, '\n');
}

/* ---- to keep ---------------------------------------------------------------------------------------------------- */

void uma_sysctl_line(struct uma_text *text, const char *path, const char *value) {
    static const char vm[] = "proc/sys/vm/", block[] = "sys/block/";
    if (strncmp(path, vm, sizeof vm - 1) == 0) {
        uma_text_printf(text, "vm.%s = %s\n", path + sizeof vm - 1, value);
    } else if (strncmp(path, block, sizeof block - 1) == 0) {
        const char *name = path + sizeof block - 1;
        size_t n = strcspn(name, "/");
        uma_text_printf(text, "# no sysctl; in a file of /etc/udev/rules.d: ACTION==\"add|change\", KERNEL==\"%.*s\", ATTR{%s}=\"%s\"\n",
                        (int)n, name, name[n] ? name + n + 1 : "", value);
    } else
        uma_text_printf(text, "# no sysctl; in a file of /etc/tmpfiles.d: w /%s - - - - %s\n", path, value);
}
