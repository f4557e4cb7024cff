/* SPDX-License-Identifier: MIT */
/*
 * gate.h - may a job that needs so much start now? Pure: the same account and need give the same answer and text.
 */
#pragma once

#include "base/text.h"
#include "uma.h"

enum uma_gate_verdict {
    UMA_GATE_NO_NEED, /* the job said nothing of its need: it starts */
    UMA_GATE_FITS,
    UMA_GATE_REFUSED, /* known not to fit */
    UMA_GATE_UNKNOWN, /* the budget could not be read */
};

struct uma_gate {
    enum uma_gate_verdict verdict;
    struct uma_u64 need, budget;
    uint64_t missing; /* need - budget when refused */
    bool never;       /* refused, and would be on this machine with nothing else on it: waiting is of no use */
};

void uma_gate_decide(const struct uma_account *account, struct uma_u64 need, struct uma_gate *ret_gate);
const char *uma_gate_verdict_name(enum uma_gate_verdict verdict);
/*
 * For people, several lines: what is short, who holds the pool (largest first), and the fewest holders whose end would make room. Names are escaped.
 */
void uma_gate_explain(const struct uma_gate *gate, const struct uma_account *account, struct uma_text *text);
