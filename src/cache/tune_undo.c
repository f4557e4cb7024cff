/* SPDX-License-Identifier: MIT */
/* tune_undo.c - taking back what is recorded: only what still is as umactl left it, unless it is forced; and what holds afterwards is read again. */
#include "cache/tune_parts.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* Of a pair one face is in force and the other shows 0, so the record, which has the one in force, has the pair. */
static struct uma_tune_reading before_of(const struct uma_tuning_change *c) {
    struct uma_tune_reading before = { 0 };
    (void)memcpy(before.own, c->before, sizeof before.own);
    if (strcmp(c->restore_path, c->path) != 0)
        (void)memcpy(before.counterpart, c->restore, sizeof before.counterpart);
    else if (uma_tunable_counterpart(c->path))
        before.counterpart[0] = '0';
    return before;
}

static bool is_ours(const struct uma_tuning_change *c, const char *own) {
    return strcmp(own, c->set) == 0 || (c->earlier[0] && strcmp(own, c->earlier) == 0);
}

/* Write what was in force, and read the whole of it again. */
static int restore(const struct uma_tune_run *run, const struct uma_tuning_change *c, const struct uma_tune_reading *before,
                   struct uma_tune_reading *now, struct uma_error *err) {
    char own[UMA_TUNABLE_VALUE_MAX];
    const char *prefix = run->place->prefix;
    int r = 0;
    /* a ratio of 0 was in force, and shows 0 now: the kernel acts on a change alone (dirty_ratio_handler), so it is given one */
    if (strcmp(c->restore_path, c->path) != 0 && strcmp(c->restore, "0") == 0)
        r = uma_tunable_write(prefix, c->restore_path, "1", own, err);
    if (r == 0)
        r = uma_tunable_write(prefix, c->restore_path, c->restore, own, err);
    struct uma_error reading = { 0 };
    int e = uma_tune_read(run, c->path, now, &reading);
    if (e < 0)
        *now = (struct uma_tune_reading){ 0 };
    if (r == 0 && e < 0)
        return uma_error_text(err, -e, "%s: set to %s, but it cannot be read again: %s", c->restore_path, c->restore, reading.text);
    if (r == 0 && !uma_tune_same(now, before))
        return uma_error_text(err, EIO, "/%s: set to %s, and yet /%s is %s", c->restore_path, c->restore, c->path, now->own);
    return r;
}

/* Did something of it remain to be taken back? */
static bool undo_one(struct uma_tune_run *run, const struct uma_tuning_change *c, bool force) {
    struct uma_tune_result *result = uma_tune_result_add(run, c->id, c->path);
    struct uma_tune_reading before = before_of(c), now = { 0 };
    struct uma_error err = { 0 };
    result->before = uma_tune_value(run, &before);
    result->set = uma_tune_keep(run, c->set);
    if (uma_tune_other_boot(run)) {
        result->outcome = UMA_TUNE_RESTARTED;
        return false;
    }
    if (uma_tune_read(run, c->path, &now, &err) < 0) {
        uma_tune_result_fail(run, result, err.text);
        return true;
    }
    result->found = result->now = uma_tune_value(run, &now);
    if (uma_tune_same(&now, &before)) {
        result->outcome = UMA_TUNE_UNTOUCHED;
        return false;
    }
    if (!is_ours(c, now.own) && !force) {
        result->outcome = UMA_TUNE_CHANGED;
        run->results.incomplete = true;
        return true;
    }
    int r = restore(run, c, &before, &now, &err);
    result->now = uma_tune_value(run, &now);
    result->outcome = UMA_TUNE_RESTORED;
    if (r < 0)
        uma_tune_result_fail(run, result, err.text);
    return r < 0;
}

/* Whoever may write none of them is told so at once. */
static int undo_allowed(const struct uma_tune_run *run, struct uma_error *err) {
    int refused = 0;
    for (size_t i = 0; i < run->record->n && !uma_tune_other_boot(run); i++) {
        struct uma_error why = { 0 };
        int r = uma_tunable_writable(run->place->prefix, run->record->changes[i].restore_path, &why);
        if (!uma_tune_is_right(r))
            return 0; /* or a disk that was taken out, which keeps no setting */
        if (!refused)
            refused = uma_error_text(err, -r, "%s", why.text);
    }
    return refused;
}

static int undo(struct uma_tune_run *run, bool force, struct uma_error *err) {
    int r = uma_tune_begin(run, false, err);
    if (r == -ENOENT || r == 0)
        return 0;
    if (r < 0)
        return r;
    run->results.list = uma_arena_array(run->arena, MAX_OF(run->record->n, 1), sizeof *run->results.list);
    if (!run->results.list)
        return uma_error_set(err, ENOMEM, "changing settings");
    r = undo_allowed(run, err);
    if (r < 0)
        return r;
    size_t left = 0;
    for (size_t i = 0; i < run->record->n; i++)
        if (undo_one(run, &run->record->changes[i], force)) {
            if (left != i)
                run->record->changes[left] = run->record->changes[i];
            left++;
        }
    run->record->n = left;
    return uma_tuning_store_save(&run->store, run->record, err);
}

int uma_tune_undo(const struct uma_tune_place *place, bool force, struct uma_arena *arena, struct uma_tune_results *ret_results,
                  struct uma_error *err) {
    struct uma_tune_run run = UMA_TUNE_RUN(place, arena);
    int r = undo(&run, force, err);
    uma_tune_end(&run);
    if (r < 0)
        return r;
    *ret_results = run.results;
    return 0;
}
