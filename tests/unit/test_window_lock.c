/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "window/lock.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

static struct window_lock lock;

static int free_lock(void **state) {
    (void)state;
    memset(&lock, 0, sizeof(lock));
    return 0;
}

static void one_at_a_time(void **state) {
    (void)state;
    assert_true(window_lock_by_program(&lock));
    window_unlock(&lock);
    assert_true(window_lock_by_helper(&lock));
    window_unlock(&lock);
    assert_true(window_lock_by_program(&lock));
    window_unlock(&lock);
    assert_int_equal(lock.spoilt, 0);
}

static bool inner;
static void handler(int signo) {
    (void)signo;
    inner = window_lock_by_program(&lock);
}

static void a_signal_handler_never_waits_for_its_own_thread(void **state) {
    (void)state;
    struct sigaction action = { .sa_handler = handler }, before;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    inner = true;
    assert_true(window_lock_by_program(&lock));
    assert_int_equal(raise(SIGUSR1), 0);
    assert_false(inner);
    window_unlock(&lock);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_false(window_lock_by_helper(&lock)); /* nothing that is remembered counts any more */
}

static void *hold_and_end(void *userdata) {
    (void)userdata;
    return window_lock_by_program(&lock) ? &lock : NULL; /* ends as a thread that is cancelled: the lock is held for ever */
}

static void a_thread_that_is_gone_is_not_waited_for(void **state) {
    (void)state;
    pthread_t thread;
    void *took;
    assert_int_equal(pthread_create(&thread, NULL, hold_and_end, NULL), 0);
    assert_int_equal(pthread_join(thread, &took), 0);
    assert_ptr_equal(took, &lock);
    assert_false(window_lock_by_program(&lock));
    assert_int_equal(lock.spoilt, 1);
    assert_false(window_lock_by_helper(&lock));
}

static unsigned long counted;
static void *count_up(void *userdata) {
    bool helper = userdata != NULL;
    for (int i = 0; i < 50000; i++) {
        if (!(helper ? window_lock_by_helper(&lock) : window_lock_by_program(&lock)))
            return NULL;
        counted++;
        window_unlock(&lock);
    }
    return &counted;
}

static void threads_exclude_each_other(void **state) {
    (void)state;
    pthread_t threads[3];
    counted = 0;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, i == 0 ? &lock : NULL), 0);
    for (int i = 0; i < 3; i++) {
        void *whole;
        assert_int_equal(pthread_join(threads[i], &whole), 0);
        assert_non_null(whole);
    }
    assert_int_equal(counted, 150000);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup(one_at_a_time, free_lock),
                                        cmocka_unit_test_setup(a_signal_handler_never_waits_for_its_own_thread, free_lock),
                                        cmocka_unit_test_setup(a_thread_that_is_gone_is_not_waited_for, free_lock),
                                        cmocka_unit_test_setup(threads_exclude_each_other, free_lock) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
