/* SPDX-License-Identifier: MIT */
/* The trail's records, read and told. */
#include "cmd/guard.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

enum { STAMP = 21 }; /* columns of a time and two spaces */

static void begin_line(struct uma_text *text, int64_t real) {
    uma_guard_time_text(text, real);
    uma_text_append(text, "  ");
}

static void decision_text(struct uma_text *text, const struct uma_guard_trail_record *record, bool all) {
    const struct uma_guard_decision *decision = &record->decision;
    for (uint32_t i = 0; i < decision->n && i < UMA_GUARD_ACTIONS; i++) {
        const struct uma_guard_action *action = &decision->actions[i];
        begin_line(text, record->real);
        uma_text_append(text, record->dry_run ? "would: " : "decided: ");
        uma_guard_action_text(text, action, uma_guard_candidate_of(decision, action));
        uma_text_printf(text, ": %s\n", uma_guard_reason_word(action->reason));
    }
    if (!all && decision->n)
        return;
    if (decision->n)
        uma_text_pad(text, STAMP);
    else
        begin_line(text, record->real);
    uma_guard_evidence_text(text, &decision->evidence);
    uma_text_char(text, '\n');
    uma_guard_candidates_text(text, decision, STAMP);
}

static void receipt_text(struct uma_text *text, const struct uma_guard_trail_record *record) {
    const struct uma_guard_action *action = &record->decision.actions[0];
    begin_line(text, record->real);
    uma_text_append(text, record->result < 0 ? "not done: " : record->dry_run ? "not done, a dry run: " : "done: ");
    uma_guard_action_text(text, action, record->decision.n_candidates ? &record->decision.candidates[0] : NULL);
    if (record->result < 0) {
        uma_text_printf(text, ": %s\n", strerror(-record->result));
        return;
    }
    if (record->n_processes > 1)
        uma_text_printf(text, ", %u processes", (unsigned)record->n_processes);
    if (record->took_ns > 0) {
        uma_text_append(text, ", within ");
        uma_text_fixed(text, MIN_OF((double)record->took_ns / 1e6, 1e9), 1);
        uma_text_append(text, " ms");
    }
    uma_text_append(text, "; then ");
    uma_text_bytes(text, record->headroom_after);
    uma_text_append(text, " available\n");
}

static void words_text(struct uma_text *text, const struct uma_guard_trail_record *record) {
    char words[UMA_GUARD_RECEIPT_TEXT + 1];
    memcpy(words, record->text, UMA_GUARD_RECEIPT_TEXT);
    words[UMA_GUARD_RECEIPT_TEXT] = '\0';
    begin_line(text, record->real);
    if (record->kind == UMA_GUARD_TRAIL_START)
        uma_text_append(text, words[0] ? "the guard began: " : "the guard began");
    (void)uma_text_safe(text, words, 0);
    uma_text_char(text, '\n');
}

void uma_guard_record_text(struct uma_text *text, const struct uma_guard_trail_record *record, bool all) {
    switch (record->kind) {
    case UMA_GUARD_TRAIL_DECISION:
        decision_text(text, record, all);
        break;
    case UMA_GUARD_TRAIL_RECEIPT:
        receipt_text(text, record);
        break;
    default:
        words_text(text, record);
        break;
    }
}

static const char *kind_word(uint32_t kind) {
    static const char *const words[] = { [UMA_GUARD_TRAIL_START] = "start",
                                         [UMA_GUARD_TRAIL_DECISION] = "decision",
                                         [UMA_GUARD_TRAIL_RECEIPT] = "receipt",
                                         [UMA_GUARD_TRAIL_NOTE] = "note" };
    return kind < ELEMENTS(words) ? words[kind] : NULL;
}

void uma_guard_record_json(struct uma_json *json, const struct uma_guard_trail_record *record) {
    const struct uma_guard_decision *decision = &record->decision;
    bool receipt = record->kind == UMA_GUARD_TRAIL_RECEIPT, counts = receipt || record->kind == UMA_GUARD_TRAIL_DECISION;
    enum uma_validity of_receipt = receipt ? UMA_KNOWN : UMA_UNKNOWN;
    uma_json_begin_object(json, NULL, false);
    uma_json_unsigned(json, "number", record->number);
    uma_json_time(json, "time", record->real);
    uma_json_string(json, "kind", kind_word(record->kind));
    uma_json_bool(json, "dry_run", record->dry_run != 0);
    uma_json_begin_array(json, "actions", false);
    for (uint32_t i = 0; counts && i < decision->n && i < UMA_GUARD_ACTIONS; i++)
        uma_guard_action_json(json, NULL, &decision->actions[i]);
    uma_json_end_array(json);
    uma_json_begin_array(json, "candidates", false);
    for (uint32_t i = 0; counts && i < decision->n_candidates && i < UMA_GUARD_CANDIDATES; i++)
        uma_guard_candidate_json(json, NULL, &decision->candidates[i]);
    uma_json_end_array(json);
    if (counts)
        uma_guard_evidence_json(json, "evidence", &decision->evidence);
    else
        uma_json_null(json, "evidence");
    uma_json_i64(json, "result", (struct uma_i64){ record->result, of_receipt });
    uma_json_u64(json, "processes", (struct uma_u64){ record->n_processes, of_receipt });
    uma_json_f64(json, "seconds", (struct uma_f64){ (double)record->took_ns / 1e9, of_receipt });
    uma_json_u64(json, "headroom_after", (struct uma_u64){ record->headroom_after, of_receipt });
    if (counts)
        uma_json_null(json, "text");
    else
        uma_json_string_n(json, "text", record->text, strnlen(record->text, sizeof(record->text)));
    uma_json_end_object(json);
}

int uma_guard_records_read(const char *state_folder, int64_t since, size_t max, struct uma_guard_records *ret_records,
                           struct uma_error *err) {
    struct uma_guard_records records = { 0 };
    int n = snprintf(records.path, sizeof(records.path), "%s/" UMA_GUARD_TRAIL_NAME, state_folder);
    if (n < 0 || (size_t)n >= sizeof(records.path))
        return uma_error_text(err, ENAMETOOLONG, "%.128s...: the name is too long", state_folder);
    int r = uma_guard_trail_read(records.path, max, &records.list, &records.n, &records.bad);
    if (r == -EBADMSG)
        return uma_error_text(err, EBADMSG, "%.400s: this is no trail of the guard's", records.path);
    if (r < 0)
        return uma_error_set(err, -r, "%.400s", records.path);
    size_t skip = 0;
    while (skip < records.n && records.list[skip].real < since)
        skip++;
    records.n -= skip;
    memmove(records.list, records.list + skip, records.n * sizeof(records.list[0]));
    *ret_records = records;
    return 0;
}

void uma_guard_records_done(struct uma_guard_records *records) {
    free(records->list);
    records->list = NULL;
    records->n = 0;
}
