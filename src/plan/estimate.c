/* SPDX-License-Identifier: MIT */
#include "plan/estimate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

uint64_t uma_scale(uint64_t a, double ratio) {
    double r = (double)a * ratio;
    if (!(r > 0))
        return 0;
    return r >= 0x1p64 ? UINT64_MAX : (uint64_t)(r + 0.5);
}

struct uma_plan_term *uma_estimate_add(struct uma_estimate *estimate, enum uma_term group, uint64_t bytes, double below, double above,
                                       const char *source, const char *what, const char *formula, ...) {
    if (estimate->term_count == UMA_PLAN_TERMS_MAX) {
        struct uma_plan_term *last = &estimate->terms[UMA_PLAN_TERMS_MAX - 1];
        last->bytes = uma_plus(last->bytes, bytes);
        last->low = uma_plus(last->low, uma_scale(bytes, 1 - below));
        last->high = uma_plus(last->high, uma_scale(bytes, 1 + above));
        return last;
    }
    struct uma_plan_term *term = &estimate->terms[estimate->term_count++];
    *term = (struct uma_plan_term){ .group = group,
                                    .bytes = bytes,
                                    .low = below > 0 ? uma_scale(bytes, 1 - below) : bytes,
                                    .high = above > 0 ? uma_scale(bytes, 1 + above) : bytes,
                                    .source = source };
    snprintf(term->what, sizeof term->what, "%s", what);
    va_list arguments;
    va_start(arguments, formula);
    vsnprintf(term->formula, sizeof term->formula, formula, arguments);
    va_end(arguments);
    return term;
}

void uma_estimate_warn(struct uma_estimate *estimate, const char *format, ...) {
    if (estimate->warning_count == UMA_PLAN_WARNINGS_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(estimate->warnings[estimate->warning_count++], UMA_PLAN_TEXT, format, arguments);
    va_end(arguments);
}

void uma_estimate_flag(struct uma_estimate *estimate, const char *format, ...) {
    if (estimate->flag_count == UMA_PLAN_WARNINGS_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(estimate->flags[estimate->flag_count++], UMA_PLAN_TEXT, format, arguments);
    va_end(arguments);
}

void uma_estimate_span(struct uma_estimate *estimate, uint32_t from) {
    double below = 0, above = 0;
    for (uint32_t i = from; i < estimate->term_count; i++) {
        const struct uma_plan_term *term = &estimate->terms[i];
        double down = (double)uma_minus(term->bytes, term->low), up = (double)uma_minus(term->high, term->bytes);
        below += down * down;
        above += up * up;
    }
    estimate->low = uma_minus(estimate->total, uma_scale(1, sqrt(below)));
    estimate->high = uma_plus(estimate->total, uma_scale(1, sqrt(above)));
}

void uma_estimate_sum(struct uma_estimate *estimate) {
    for (unsigned i = 0; i < UMA_TERM_COUNT; i++)
        estimate->groups[i] = 0;
    estimate->total = estimate->between_steps = 0;
    for (uint32_t i = 0; i < estimate->term_count; i++) {
        const struct uma_plan_term *term = &estimate->terms[i];
        estimate->groups[term->group] = uma_plus(estimate->groups[term->group], term->bytes);
        estimate->total = uma_plus(estimate->total, term->bytes);
        if (term->between_steps)
            estimate->between_steps = uma_plus(estimate->between_steps, term->bytes);
    }
    uma_estimate_span(estimate, 0);
}
