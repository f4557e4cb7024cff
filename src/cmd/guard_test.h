/* SPDX-License-Identifier: MIT */
/* guard_test.h - the parts of `umactl guard test`: the folder and the processes of one test, and what each step of it showed. No root is needed, and nothing outside the test is touched. */
#pragma once

#include "cmd/guard.h"

#include <sys/types.h>

enum { UMA_GUARD_TEST_STEPS = 24 };
enum { UMA_GUARD_TEST_HORIZON = 600 }; /* seconds; as long as a policy may say */

struct uma_guard_test_step {
    const char *what;
    bool fine;
    double seconds; /* that it took; negative: of no interest */
    char detail[200];
};

struct uma_guard_test {
    char folder[256], run_folder[272], state_folder[272], policy[280], log[280];
    uint64_t headroom, total;    /* of the machine, before */
    uint64_t floor, speed, most; /* of the policy; how fast the child grows, and how far at most */
    pid_t guard, child;          /* 0: none */
    int go;                      /* what the child waits for; -1: none */
    struct uma_guard_test_step steps[UMA_GUARD_TEST_STEPS];
    unsigned n_steps;
    bool failed, interrupted;
};

/* ---- guard_test_process.c: all of these say in *err what failed --------------------------------------------- */

/* Makes the folders. */
int uma_guard_test_begin(struct uma_guard_test *test, struct uma_error *err);
/* Ends what still runs, and removes the folders. */
void uma_guard_test_end(struct uma_guard_test *test);
/* What the guard may do to the child: stop it; or, where it may not be stopped, end it by SIGTERM, or by SIGKILL at once. */
enum uma_guard_test_rung { UMA_GUARD_TEST_BRAKE, UMA_GUARD_TEST_TERM, UMA_GUARD_TEST_KILL };
int uma_guard_test_policy(const struct uma_guard_test *test, enum uma_guard_test_rung rung, struct uma_error *err);
int uma_guard_test_start_guard(struct uma_guard_test *test, const char *program, struct uma_error *err);
/* A child that waits, then grows. `deaf`: SIGTERM does not end it. */
int uma_guard_test_start_child(struct uma_guard_test *test, bool deaf, struct uma_error *err);
void uma_guard_test_let_grow(struct uma_guard_test *test);

enum uma_guard_test_event { UMA_GUARD_TEST_NOTHING, UMA_GUARD_TEST_STOPPED, UMA_GUARD_TEST_GOES_ON, UMA_GUARD_TEST_ENDED };
/* What happens next to the child, NOTHING after `seconds`; ENDED with the signal, 0 of an exit. It is reaped. */
enum uma_guard_test_event uma_guard_test_wait(struct uma_guard_test *test, double seconds, int *ret_signal);
