/* SPDX-License-Identifier: MIT */
#include "base/thread.h"
#include "base/units.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "test.h"

struct job {
    struct uma_thread thread;
    atomic_int rounds;
    atomic_bool hang;
    bool blocked; /* of the thread until it has ended */
};

static void work(void *userdata) {
    struct job *job = userdata;
    sigset_t mask;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    job->blocked = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM);
    do
        job->rounds++;
    while (uma_thread_pause(&job->thread, uma_monotonic_ns() + UMA_SECOND_NS / 1000));
    while (atomic_load(&job->hang))
        (void)usleep(1000);
}

static void stops(void **state) {
    (void)state;
    struct job job = { 0 };
    assert_int_equal(uma_thread_start(&job.thread, work, &job), 0);
    while (job.rounds < 3)
        (void)usleep(1000);
    assert_false(uma_thread_ended(&job.thread));
    assert_true(uma_thread_stop(&job.thread, 60 * UMA_SECOND_NS));
    assert_true(job.blocked);
    sigset_t mask;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGINT));
}

/* A pause of a minute ends when it is asked to. */
static void sleep_long(void *userdata) {
    struct job *job = userdata;
    job->rounds++;
    job->blocked = uma_thread_pause(&job->thread, uma_monotonic_ns() + 3600 * UMA_SECOND_NS);
}

static void wakes(void **state) {
    (void)state;
    struct job job = { .blocked = true };
    assert_int_equal(uma_thread_start(&job.thread, sleep_long, &job), 0);
    while (job.rounds == 0)
        (void)usleep(1000);
    assert_true(uma_thread_stop(&job.thread, 60 * UMA_SECOND_NS));
    assert_false(job.blocked);
}

static void is_left(void **state) {
    (void)state;
    static struct job job; /* stays: the thread uses it */
    atomic_store(&job.hang, true);
    assert_int_equal(uma_thread_start(&job.thread, work, &job), 0);
    assert_false(uma_thread_stop(&job.thread, UMA_SECOND_NS / 100));
    atomic_store(&job.hang, false);
    while (!uma_thread_ended(&job.thread))
        (void)usleep(1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops),
        cmocka_unit_test(wakes),
        cmocka_unit_test(is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
