/* SPDX-License-Identifier: MIT */
/*
 * serving_limits.h - the largest context and number of sequences of a serving job that still fit so many bytes, and the fraction to pass for
 * it. Pure: plans of the same job with other numbers, found by halving.
 */
#pragma once

#include "plan/estimate.h"

/*
 * The largest context of serve->sequences sequences, or the most sequences of serve->context tokens, whose device memory is at most
 * `budget`; 0 when not even one token or sequence fits. `high`: by the upper end of the interval. A fraction in `serve` is left out of it: the
 * question is what the job needs, not what its engine would take. Contexts end at what the model was trained for where that is known.
 */
int uma_serve_max_context(const struct uma_model *model, const struct uma_serve *serve, uint64_t budget, bool high, uint64_t *ret_context,
                          struct uma_error *err);
int uma_serve_max_sequences(const struct uma_model *model, const struct uma_serve *serve, uint64_t budget, bool high,
                            uint64_t *ret_sequences, struct uma_error *err);

/*
 * The fraction of vLLM, SGLang or TensorRT-LLM with which the engine takes what the job needs (`ret_needed`), and the largest one with which
 * it keeps within `budget` bytes of serve->pool (`ret_allowed`, 0: even a fraction of 0 does not). Both are 0 where the pool is not
 * known. -EINVAL for engines without a fraction.
 */
int uma_serve_fractions(const struct uma_model *model, const struct uma_serve *serve, uint64_t budget, double *ret_needed,
                        double *ret_allowed, struct uma_error *err);
