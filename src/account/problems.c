/* SPDX-License-Identifier: MIT */
#include "account/problems.h"

#include "account/values.h"
#include "base/text.h"
#include "base/units.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *keep(struct uma_problem_site *site, const char *text) {
    if (!text)
        site->failed = true;
    return text ? text : "";
}

const char *uma_problem_bytes(struct uma_problem_site *site, uint64_t bytes) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_bytes(&text, bytes);
    return keep(site, text.failed ? NULL : uma_arena_strndup(site->arena, text.data, text.length));
}

const char *uma_problem_decimal(struct uma_problem_site *site, double value, unsigned digits) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (!(fabs(value) < 1e12))
        return "?";
    uma_text_fixed(&text, value, digits);
    return keep(site, text.failed ? NULL : uma_arena_strndup(site->arena, text.data, text.length));
}

const char *uma_problem_text(struct uma_problem_site *site, const char *format, ...) {
    char buffer[1024]; /* what does not fit is cut: texts are sentences, and a hostile name has at most 252 bytes as UTF-8 escapes */
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(buffer, sizeof(buffer), format, ap);
    va_end(ap);
    /* uma_arena_utf8 mends a sequence that the cut went through */
    return keep(site, n < 0 ? NULL : uma_arena_utf8(site->arena, buffer, sizeof(buffer)));
}

bool uma_problem_unified(const struct uma_problem_site *site) {
    return site->share->any || site->snapshot->platform.unified == UMA_YES;
}

double uma_problem_pressure(struct uma_f64 ratio) {
    return uma_within(ratio, 0, 1) ? ratio.value : 0;
}

void uma_problem_add(struct uma_problem_site *site, const char *id, enum uma_severity severity, const char *summary, const char *remedy,
                     const char *evidence, ...) {
    struct uma_account *account = site->account;
    char buffer[1024];
    if (account->n_problems >= UMA_PROBLEMS_MAX)
        return;
    va_list ap;
    va_start(ap, evidence);
    int n = vsnprintf(buffer, sizeof(buffer), evidence, ap);
    va_end(ap);
    account->problems[account->n_problems++] =
        (struct uma_problem){ .id = id,
                              .severity = severity,
                              .summary = summary,
                              .evidence = keep(site, n < 0 ? NULL : uma_arena_utf8(site->arena, buffer, sizeof(buffer))),
                              .remedy = remedy };
}

/* Most severe first; within a severity in the order of the checks. */
static void sort_by_severity(struct uma_account *account) {
    for (size_t i = 1; i < account->n_problems; i++) {
        struct uma_problem p = account->problems[i];
        size_t at = i;
        for (; at > 0 && account->problems[at - 1].severity < p.severity; at--)
            account->problems[at] = account->problems[at - 1];
        account->problems[at] = p;
    }
}

int uma_problems_build(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, const struct uma_process_index *index,
                       struct uma_account *account, struct uma_arena *arena) {
    struct uma_problem_site site = { .snapshot = snapshot, .share = share, .index = index, .account = account, .arena = arena };
    account->n_problems = 0;
    uma_problems_memory(&site);
    uma_problems_gpu(&site);
    uma_problems_jobs(&site);
    sort_by_severity(account);
    return site.failed ? -ENOMEM : 0;
}
