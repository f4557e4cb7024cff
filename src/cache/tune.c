/* SPDX-License-Identifier: MIT */
#include "cache/tune.h"

#include "base/units.h"
#include "record/tuning_record.h"

#include <string.h>

#define _cleanup_store_ _cleanup_(uma_cleanup_tuning_store)

const char *uma_tune_outcome_name(enum uma_tune_outcome outcome) {
    static const char *const names[] = { "set", "already so", "restored", "as before", "changed since", "machine restarted", "failed" };
    return (unsigned)outcome < ELEMENTS(names) ? names[outcome] : "failed";
}

/* ---- results -------------------------------------------------------------------------------------------------- */

struct run {
    const struct uma_tune_place *place;
    struct uma_arena *arena;
    struct uma_tuning_store store;
    struct uma_tuning_record *record;
    struct uma_tune_results results;
};

static const char *keep(struct run *run, const char *s) {
    return uma_arena_strndup(run->arena, s, UMA_ERROR_TEXT_MAX);
}

static struct uma_tune_result *result_add(struct run *run, const char *id, const char *path) {
    struct uma_tune_result *r = &run->results.list[run->results.n++];
    *r = (struct uma_tune_result){ .id = keep(run, id), .path = keep(run, path) };
    return r;
}

static void result_fail(struct run *run, struct uma_tune_result *result, const struct uma_error *err) {
    result->outcome = UMA_TUNE_FAILED;
    result->error = keep(run, err->text);
    run->results.incomplete = true;
}

/* ---- the record ------------------------------------------------------------------------------------------------ */

static struct uma_tuning_change *change_find(struct uma_tuning_record *record, const char *path) {
    for (size_t i = 0; i < record->n; i++)
        if (strcmp(record->changes[i].path, path) == 0)
            return &record->changes[i];
    return NULL;
}

static bool copy(char *to, size_t size, const char *s) {
    size_t n = strlen(s);
    if (n >= size)
        return false;
    (void)memcpy(to, s, n + 1);
    return true;
}

/* Settings of an earlier boot are gone with it. Unknown on either side: taken for this boot, for then undo still looks at each value. */
static bool other_boot(const struct run *run) {
    const char *then = run->record->boot_id, *now = run->place->boot_id;
    return then[0] && now[0] && strcmp(then, now) != 0;
}

/* Open the state folder, take the lock, read the record. 1: there is one of this or another boot, 0: none. */
static int begin(struct run *run, bool create, struct uma_error *err) {
    run->record = uma_arena_alloc(run->arena, sizeof *run->record);
    run->results.list = uma_arena_array(run->arena, UMA_TUNING_CHANGES_MAX, sizeof *run->results.list);
    if (!run->record || !run->results.list)
        return uma_error_set(err, ENOMEM, "changing settings");
    int r = uma_tuning_store_open(run->place->state, create, &run->store, err);
    return r < 0 ? r : uma_tuning_store_load(&run->store, run->record, err);
}

/* ---- apply ------------------------------------------------------------------------------------------------------ */

/* What one wish needs to know before anything is changed. */
struct plan {
    const struct uma_tune_wish *wish;
    char now[UMA_TUNABLE_VALUE_MAX], counterpart[UMA_TUNABLE_VALUE_MAX];
};

static int plan_make(const struct run *run, const struct uma_tune_wish *wish, struct plan *ret_plan, struct uma_error *err) {
    *ret_plan = (struct plan){ .wish = wish };
    if (!uma_tunable_value_fine(wish->value) || strlen(wish->id) >= UMA_TUNING_ID_MAX)
        return uma_error_text(err, EINVAL, "%.64s: \"%.64s\" is not a value", wish->id, wish->value);
    int r = uma_tunable_read(run->place->prefix, wish->path, ret_plan->now, err);
    if (r == 0 && wish->counterpart)
        r = uma_tunable_read(run->place->prefix, wish->counterpart, ret_plan->counterpart, err);
    if (r == 0)
        r = uma_tunable_writable(run->place->prefix, wish->path, err);
    return r;
}

/* Note what is there now: once for each setting, so that the first "before" stays. */
static int note(struct run *run, const struct plan *plan, struct uma_error *err) {
    struct uma_tuning_change *c = change_find(run->record, plan->wish->path);
    if (c) {
        if (strcmp(c->set, plan->wish->value) != 0)
            (void)copy(c->earlier, sizeof c->earlier, c->set);
        (void)copy(c->set, sizeof c->set, plan->wish->value);
        return 0;
    }
    if (run->record->n == UMA_TUNING_CHANGES_MAX)
        return uma_error_text(err, ENOSPC, "more than %d settings changed at once", (int)UMA_TUNING_CHANGES_MAX);
    c = &run->record->changes[run->record->n++];
    /* dirty_bytes shows 0 while dirty_ratio is in force, and does not take it: what takes it back is the ratio */
    bool by_counterpart = plan->wish->counterpart && strcmp(plan->now, "0") == 0;
    *c = (struct uma_tuning_change){ .time_ns = uma_now_ns() };
    bool fits = copy(c->id, sizeof c->id, plan->wish->id) && copy(c->path, sizeof c->path, plan->wish->path) &&
                copy(c->before, sizeof c->before, plan->now) && copy(c->set, sizeof c->set, plan->wish->value) &&
                copy(c->restore_path, sizeof c->restore_path, by_counterpart ? plan->wish->counterpart : plan->wish->path) &&
                copy(c->restore, sizeof c->restore, by_counterpart ? plan->counterpart : plan->now);
    return fits ? 0 : uma_error_text(err, EINVAL, "%.64s: too long", plan->wish->id);
}

static void set_one(struct run *run, const struct plan *plan) {
    struct uma_tune_result *result = result_add(run, plan->wish->id, plan->wish->path);
    char now[UMA_TUNABLE_VALUE_MAX] = "";
    struct uma_error err = { 0 };
    result->before = keep(run, plan->now);
    result->set = keep(run, plan->wish->value);
    result->now = result->before;
    result->outcome = UMA_TUNE_ALREADY;
    if (strcmp(plan->now, plan->wish->value) == 0)
        return;
    int r = uma_tunable_write(run->place->prefix, plan->wish->path, plan->wish->value, now, &err);
    result->now = now[0] ? keep(run, now) : NULL;
    result->outcome = UMA_TUNE_SET;
    if (r < 0)
        result_fail(run, result, &err);
}

static int plans_make(const struct run *run, const struct uma_tune_wish *wishes, size_t n, struct plan *plans, struct uma_error *err) {
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++)
        r = plan_make(run, &wishes[i], &plans[i], err);
    return r;
}

static int apply(struct run *run, const struct uma_tune_wish *wishes, size_t n, struct uma_error *err) {
    struct plan *plans = uma_arena_array(run->arena, n, sizeof *plans);
    if (!plans)
        return uma_error_set(err, ENOMEM, "changing settings");
    int r =
        plans_make(run, wishes, n, plans, err); /* whoever may not change settings is told so, not that there is no place for a record */
    if (r < 0)
        return r;
    r = begin(run, true, err);
    if (r < 0)
        return r;
    bool recorded = r > 0;
    r = plans_make(run, wishes, n, plans, err); /* as they are under the lock */
    if (r < 0)
        return r;
    if (!recorded || other_boot(run))
        *run->record = (struct uma_tuning_record){ 0 };
    if (!copy(run->record->boot_id, sizeof run->record->boot_id, run->place->boot_id))
        return uma_error_text(err, EINVAL, "the name of this boot is too long");
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(plans[i].now, wishes[i].value) == 0)
            continue;
        any = true;
        r = note(run, &plans[i], err);
        if (r < 0)
            return r;
    }
    r = any ? uma_tuning_store_save(&run->store, run->record, err) : 0;
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        set_one(run, &plans[i]);
    return 0;
}

int uma_tune_apply(const struct uma_tune_place *place, const struct uma_tune_wish *wishes, size_t n, struct uma_arena *arena,
                   struct uma_tune_results *ret_results, struct uma_error *err) {
    struct run run = { .place = place, .arena = arena, .store = { .dir_fd = -1, .lock_fd = -1 } };
    if (n > UMA_TUNING_CHANGES_MAX)
        return uma_error_text(err, EINVAL, "more than %d settings at once", (int)UMA_TUNING_CHANGES_MAX);
    int r = apply(&run, wishes, n, err);
    uma_tuning_store_close(&run.store);
    if (r < 0)
        return r;
    *ret_results = run.results;
    return 0;
}

/* ---- undo -------------------------------------------------------------------------------------------------------- */

static bool is_ours(const struct uma_tuning_change *c, const char *now) {
    return strcmp(now, c->set) == 0 || (c->earlier[0] && strcmp(now, c->earlier) == 0);
}

/* Did something of it remain to be taken back? */
static bool restore_one(struct run *run, const struct uma_tuning_change *c) {
    struct uma_tune_result *result = result_add(run, c->id, c->path);
    struct uma_error err = { 0 };
    char now[UMA_TUNABLE_VALUE_MAX] = "";
    result->before = keep(run, c->before);
    result->set = keep(run, c->set);
    if (other_boot(run)) {
        result->outcome = UMA_TUNE_RESTARTED;
        return false;
    }
    int r = uma_tunable_read(run->place->prefix, c->path, now, &err);
    if (r < 0) {
        result_fail(run, result, &err);
        return true;
    }
    result->now = keep(run, now);
    if (!is_ours(c, now)) {
        bool back = strcmp(now, c->before) == 0;
        result->outcome = back ? UMA_TUNE_UNTOUCHED : UMA_TUNE_CHANGED;
        run->results.incomplete |= !back;
        return !back;
    }
    r = uma_tunable_write(run->place->prefix, c->restore_path, c->restore, now, &err);
    if (r == 0 && strcmp(c->restore_path, c->path) == 0)
        result->now = keep(run, now);
    else if (r == 0)
        result->now = result->before;
    result->outcome = UMA_TUNE_RESTORED;
    if (r < 0)
        result_fail(run, result, &err);
    return r < 0;
}

/* All rights first: half of it taken back would only be harder to understand. */
static int undo_allowed(const struct run *run, struct uma_error *err) {
    for (size_t i = 0; i < run->record->n && !other_boot(run); i++) {
        int r = uma_tunable_writable(run->place->prefix, run->record->changes[i].restore_path, err);
        if (r < 0 && r != -ENOENT) /* a disk that was taken out keeps no setting */
            return r;
    }
    return 0;
}

static int undo(struct run *run, struct uma_error *err) {
    int r = begin(run, false, err);
    if (r == -ENOENT || r == 0)
        return 0;
    if (r < 0)
        return r;
    r = undo_allowed(run, err);
    if (r < 0)
        return r;
    size_t left = 0;
    for (size_t i = 0; i < run->record->n; i++)
        if (restore_one(run, &run->record->changes[i])) {
            if (left != i)
                run->record->changes[left] = run->record->changes[i];
            left++;
        }
    run->record->n = left;
    return uma_tuning_store_save(&run->store, run->record, err);
}

int uma_tune_undo(const struct uma_tune_place *place, struct uma_arena *arena, struct uma_tune_results *ret_results,
                  struct uma_error *err) {
    struct run run = { .place = place, .arena = arena, .store = { .dir_fd = -1, .lock_fd = -1 } };
    int r = undo(&run, err);
    uma_tuning_store_close(&run.store);
    if (r < 0)
        return r;
    *ret_results = run.results;
    return 0;
}
