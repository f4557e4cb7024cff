/* SPDX-License-Identifier: MIT */
/*
 * model ROUNDS PATH - open a model so many times in one process. Prints what it holds (parameters and bytes) and the median and the 99th
 * percentile of the time in microseconds: opening and reading the headers alone, without the start of a process.
 */
#include "base/units.h"
#include "uma_plan.h"

#include <stdio.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    uint64_t rounds = 0, params = 0, bytes = 0;
    if (argc != 3 || uma_parse_u64_all(argv[1], &rounds) < 0 || rounds == 0 || rounds > 100000) {
        (void)fprintf(stderr, "usage: model ROUNDS PATH\n");
        return 2;
    }
    _cleanup_free_
    int64_t *times = calloc(rounds, sizeof(*times));
    if (!times)
        return 1;
    for (uint64_t i = 0; i < rounds; i++) {
        struct uma_model *model = NULL;
        struct uma_error err = { 0 };
        int64_t begin = uma_monotonic_ns();
        if (uma_model_open(argv[2], &model, &err) < 0) {
            (void)fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        times[i] = uma_monotonic_ns() - begin;
        params = uma_model_params(model);
        bytes = uma_model_bytes(model);
        (void)uma_model_free(model);
    }
    qsort(times, rounds, sizeof(*times), ascending);
    (void)printf("%llu %llu %.1f %.1f\n", (unsigned long long)params, (unsigned long long)bytes, (double)times[rounds / 2] / 1e3,
                 (double)times[(rounds - 1) * 99 / 100] / 1e3);
    return 0;
}
