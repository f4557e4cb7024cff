/* SPDX-License-Identifier: MIT */
#include "guard/decide.h"
#include "guard/series.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What can be written in a series goes through the decision, whatever it is. */
struct run {
    size_t n;
    int64_t last;
    struct uma_guard_policy policy;
    struct uma_guard_history history;
    struct uma_guard_state state;
    struct uma_guard_decision decision;
};

static int each(void *userdata, const struct uma_guard_view *view, int64_t real_time) {
    struct run *run = userdata;
    if (view->now->time <= run->last || real_time < 0 || view->n_processes > 16)
        abort();
    run->last = view->now->time;
    uma_guard_policy_settle(&run->policy, view->now->total);
    uma_guard_history_add(&run->history, view->now);
    uma_guard_decide(&run->state, &run->history, &run->policy, view, &run->decision);
    if (run->decision.n > UMA_GUARD_ACTIONS || run->decision.n_candidates > UMA_GUARD_CANDIDATES)
        abort();
    return ++run->n == 200;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct run run;
    struct uma_error err = { 0 };
    memset(&run, 0, sizeof(run));
    uma_guard_policy_default(&run.policy);
    if (uma_guard_series_parse((const char *)data, size, "series", each, &run, &err) < 0 && err.text[0] == 0)
        abort(); /* a refusal without a reason */
    return 0;
}
