/* SPDX-License-Identifier: MIT */
#include "cache/tune_parts.h"

#include "base/units.h"

#include <string.h>

const char *uma_tune_outcome_name(enum uma_tune_outcome outcome) {
    static const char *const names[] = { "set",           "already so",        "restored",        "as before",
                                         "changed since", "machine restarted", "nothing advised", "failed" };
    return (unsigned)outcome < ELEMENTS(names) ? names[outcome] : "failed";
}

/* ---- shared ---------------------------------------------------------------------------------------------------- */

const char *uma_tune_keep(struct uma_tune_run *run, const char *s) {
    return uma_arena_strndup(run->arena, s, UMA_ERROR_TEXT_MAX);
}

struct uma_tune_value uma_tune_value(struct uma_tune_run *run, const struct uma_tune_reading *reading) {
    return (struct uma_tune_value){ reading->own[0] ? uma_tune_keep(run, reading->own) : NULL,
                                    reading->counterpart[0] ? uma_tune_keep(run, reading->counterpart) : NULL };
}

struct uma_tune_result *uma_tune_result_add(struct uma_tune_run *run, const char *id, const char *path) {
    struct uma_tune_result *r = &run->results.list[run->results.n++];
    *r = (struct uma_tune_result){ .id = uma_tune_keep(run, id),
                                   .path = uma_tune_keep(run, path),
                                   .counterpart = uma_tunable_counterpart(path) };
    return r;
}

void uma_tune_result_fail(struct uma_tune_run *run, struct uma_tune_result *result, const char *why) {
    result->outcome = UMA_TUNE_FAILED;
    result->error = uma_tune_keep(run, why);
    run->results.incomplete = true;
}

bool uma_tune_is_right(int r) {
    return r == -EACCES || r == -EPERM || r == -EROFS;
}

int uma_tune_read(const struct uma_tune_run *run, const char *path, struct uma_tune_reading *ret_reading, struct uma_error *err) {
    struct uma_tune_reading reading = { 0 };
    const char *counterpart = uma_tunable_counterpart(path);
    int r = uma_tunable_read(run->place->prefix, path, reading.own, err);
    if (r == 0 && counterpart)
        r = uma_tunable_read(run->place->prefix, counterpart, reading.counterpart, err);
    if (r == 0)
        *ret_reading = reading;
    return r;
}

bool uma_tune_same(const struct uma_tune_reading *a, const struct uma_tune_reading *b) {
    return strcmp(a->own, b->own) == 0 && strcmp(a->counterpart, b->counterpart) == 0;
}

bool uma_tune_other_boot(const struct uma_tune_run *run) {
    const char *then = run->record->boot_id, *now = run->place->boot_id;
    return then[0] && now[0] && strcmp(then, now) != 0;
}

int uma_tune_begin(struct uma_tune_run *run, bool create, struct uma_error *err) {
    static const int waiting[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t set;
    run->record = uma_arena_alloc(run->arena, sizeof *run->record);
    if (!run->record)
        return uma_error_set(err, ENOMEM, "changing settings");
    int r = uma_tuning_store_open(run->place->state, create, &run->store, err);
    if (r < 0)
        return r;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ELEMENTS(waiting); i++)
        (void)sigaddset(&set, waiting[i]);
    run->holds = sigprocmask(SIG_BLOCK, &set, &run->signals) == 0;
    return uma_tuning_store_load(&run->store, run->record, err);
}

void uma_tune_end(struct uma_tune_run *run) {
    uma_tuning_store_close(&run->store);
    if (run->holds)
        (void)sigprocmask(SIG_SETMASK, &run->signals, NULL);
    run->holds = false;
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

/* What one wish needs to know before anything is changed. */
struct plan {
    const struct uma_tune_wish *wish;
    struct uma_tune_reading now;
    int error; /* it cannot be: negative errno, and why */
    struct uma_error why;
};

/* Note what is there now: once for each setting, so that the first "before" stays. */
static int note(struct uma_tune_run *run, const struct plan *plan, struct uma_error *err) {
    struct uma_tuning_change *c = change_find(run->record, plan->wish->path);
    if (c) {
        if (strcmp(c->set, plan->wish->value) != 0)
            (void)copy(c->earlier, sizeof c->earlier, c->set);
        (void)copy(c->set, sizeof c->set, plan->wish->value);
        return 0;
    }
    if (run->record->n == UMA_TUNING_CHANGES_MAX)
        return uma_error_text(err, ENOSPC, "more than %d settings changed at once", (int)UMA_TUNING_CHANGES_MAX);
    c = &run->record->changes[run->record->n];
    const char *counterpart = uma_tunable_counterpart(plan->wish->path);
    bool by_counterpart = counterpart && strcmp(plan->now.own, "0") == 0; /* which was in force, and takes it back */
    *c = (struct uma_tuning_change){ .time_ns = uma_now_ns() };
    bool fits = copy(c->id, sizeof c->id, plan->wish->id) && copy(c->path, sizeof c->path, plan->wish->path) &&
                copy(c->before, sizeof c->before, plan->now.own) && copy(c->set, sizeof c->set, plan->wish->value) &&
                copy(c->restore_path, sizeof c->restore_path, by_counterpart ? counterpart : plan->wish->path) &&
                copy(c->restore, sizeof c->restore, by_counterpart ? plan->now.counterpart : plan->now.own);
    if (!fits)
        return uma_error_text(err, EINVAL, "%.64s: too long", plan->wish->id);
    run->record->n++;
    return 0;
}

/* It was noted and then not set: the record is as before it. */
static void unnote(struct uma_tuning_record *record, struct uma_tuning_record *old, const char *path) {
    struct uma_tuning_change *c = change_find(record, path), *was = change_find(old, path);
    if (c && was)
        *c = *was;
    else if (c)
        *c = record->changes[--record->n];
}

/* ---- apply ------------------------------------------------------------------------------------------------------ */

static void plan_make(const struct uma_tune_run *run, const struct uma_tune_wish *wish, struct plan *ret_plan) {
    *ret_plan = (struct plan){ .wish = wish };
    if (!uma_tunable_value_fine(wish->value) || strlen(wish->id) >= UMA_TUNING_ID_MAX) {
        ret_plan->error = uma_error_text(&ret_plan->why, EINVAL, "%.64s: \"%.64s\" is not a value", wish->id, wish->value);
        return;
    }
    ret_plan->error = uma_tune_read(run, wish->path, &ret_plan->now, &ret_plan->why);
    if (ret_plan->error == 0 && strcmp(ret_plan->now.own, wish->value) != 0)
        ret_plan->error = uma_tunable_writable(run->place->prefix, wish->path, &ret_plan->why);
}

static bool plan_changes(const struct plan *plan) {
    return plan->error == 0 && strcmp(plan->now.own, plan->wish->value) != 0;
}

static void plans_make(const struct uma_tune_run *run, const struct uma_tune_wish *wishes, size_t n, struct plan *plans) {
    for (size_t i = 0; i < n; i++)
        plan_make(run, &wishes[i], &plans[i]);
}

/* Whoever may change none of them is told so, not that there is no place for a record. */
static int plans_allowed(const struct plan *plans, size_t n, bool *ret_any, struct uma_error *err) {
    int refused = 0;
    for (size_t i = 0; i < n; i++) {
        if (plan_changes(&plans[i]))
            *ret_any = true;
        if (!refused && uma_tune_is_right(plans[i].error))
            refused = uma_error_text(err, -plans[i].error, "%s", plans[i].why.text);
    }
    return *ret_any ? 0 : refused;
}

/* Set it. Is it in the record for nothing, because nothing came of it? */
static bool set_one(struct uma_tune_run *run, const struct plan *plan) {
    struct uma_tune_result *result = uma_tune_result_add(run, plan->wish->id, plan->wish->path);
    struct uma_error err = { 0 };
    struct uma_tune_reading now = plan->now;
    result->before = result->now = uma_tune_value(run, &plan->now);
    result->set = uma_tune_keep(run, plan->wish->value);
    result->outcome = UMA_TUNE_ALREADY;
    if (plan->error)
        uma_tune_result_fail(run, result, plan->why.text);
    if (!plan_changes(plan))
        return false;
    char own[UMA_TUNABLE_VALUE_MAX];
    int r = uma_tunable_write(run->place->prefix, plan->wish->path, plan->wish->value, own, &err);
    bool known = uma_tune_read(run, plan->wish->path, &now, NULL) == 0;
    result->now = known ? uma_tune_value(run, &now) : (struct uma_tune_value){ 0 };
    result->outcome = UMA_TUNE_SET;
    if (r < 0)
        uma_tune_result_fail(run, result, err.text);
    if (r == 0 || !known)
        return false;
    if (uma_tune_same(&now, &plan->now))
        return true;
    struct uma_tuning_change *c = change_find(run->record, plan->wish->path);
    if (c) /* the kernel made another value of it: that is what undo has to know again */
        (void)copy(c->set, sizeof c->set, now.own);
    return false;
}

static int begin_record(struct uma_tune_run *run, bool recorded, struct uma_error *err) {
    if (!recorded || uma_tune_other_boot(run))
        *run->record = (struct uma_tuning_record){ 0 };
    if (!copy(run->record->boot_id, sizeof run->record->boot_id, run->place->boot_id))
        return uma_error_text(err, EINVAL, "the name of this boot is too long");
    return 0;
}

/* Under the lock: note all, save, set all, and take out of the record again what came to nothing. */
static int set_all(struct uma_tune_run *run, struct plan *plans, size_t n, struct uma_error *err) {
    struct uma_tuning_record *old = uma_arena_alloc(run->arena, sizeof *old);
    if (!old)
        return uma_error_set(err, ENOMEM, "changing settings");
    *old = *run->record;
    bool any = false, less = false;
    for (size_t i = 0; i < n; i++) {
        if (!plan_changes(&plans[i]))
            continue;
        plans[i].error = note(run, &plans[i], &plans[i].why);
        any |= plans[i].error == 0;
    }
    int r = any ? uma_tuning_store_save(&run->store, run->record, err) : 0;
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++) {
        struct uma_tuning_change *c = change_find(run->record, plans[i].wish->path);
        char noted[UMA_TUNABLE_VALUE_MAX] = "";
        if (c)
            (void)copy(noted, sizeof noted, c->set);
        bool nothing = set_one(run, &plans[i]);
        less |= nothing || (c && strcmp(c->set, noted) != 0);
        if (nothing)
            unnote(run->record, old, plans[i].wish->path);
    }
    if (less) /* when it cannot be written, the record says more than was set: undo finds that as before, and says so */
        (void)uma_tuning_store_save(&run->store, run->record, NULL);
    return 0;
}

static int apply(struct uma_tune_run *run, const struct uma_tune_wish *wishes, size_t n, struct uma_error *err) {
    struct plan *plans = uma_arena_array(run->arena, n, sizeof *plans);
    run->results.list = uma_arena_array(run->arena, n, sizeof *run->results.list);
    if (!plans || !run->results.list)
        return uma_error_set(err, ENOMEM, "changing settings");
    bool any = false;
    plans_make(run, wishes, n, plans);
    int r = plans_allowed(plans, n, &any, err);
    if (r < 0)
        return r;
    if (!any) {
        for (size_t i = 0; i < n; i++)
            (void)set_one(run, &plans[i]); /* says what they are, or why not */
        return 0;
    }
    r = uma_tune_begin(run, true, err);
    if (r >= 0)
        r = begin_record(run, r > 0, err);
    if (r < 0)
        return r;
    plans_make(run, wishes, n, plans); /* as they are under the lock */
    return set_all(run, plans, n, err);
}

int uma_tune_apply(const struct uma_tune_place *place, const struct uma_tune_wish *wishes, size_t n, struct uma_arena *arena,
                   struct uma_tune_results *ret_results, struct uma_error *err) {
    struct uma_tune_run run = UMA_TUNE_RUN(place, arena);
    if (n > UMA_TUNING_CHANGES_MAX)
        return uma_error_text(err, EINVAL, "more than %d settings at once", (int)UMA_TUNING_CHANGES_MAX);
    int r = apply(&run, wishes, n, err);
    uma_tune_end(&run);
    if (r < 0)
        return r;
    *ret_results = run.results;
    return 0;
}
