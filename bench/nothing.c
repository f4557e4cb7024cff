/* SPDX-License-Identifier: MIT */
/* nothing.c - a library that does nothing: what preloading any costs. */
int uma_bench_nothing(void);

int uma_bench_nothing(void) {
    return 0;
}
