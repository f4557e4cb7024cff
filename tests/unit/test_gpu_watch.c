/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "folder.h"
#include "job/gpu_watch.h"

#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

static struct uma_f64 f(double v) {
    return (struct uma_f64){ v, UMA_KNOWN };
}

static struct uma_snapshot answer(int64_t time_ns, struct uma_gpu *gpus, size_t n) {
    struct uma_snapshot s = { .time_ns = time_ns };
    s.gpus = (struct uma_gpus){ .source = { .validity = UMA_KNOWN, .time_ns = time_ns }, .n = n, .list = gpus };
    return s;
}

static void answers(void **state) {
    (void)state;
    struct uma_gpu_process one[] = { { .pid = 7, .bytes = { 5, UMA_KNOWN }, .compute = true } },
                           two[] = { { .pid = 8, .bytes = { 6, UMA_KNOWN } } };
    struct uma_gpu gpus[] = { { .celsius = f(71), .watts = f(86.2), .n_processes = 1, .processes = one, .processes_validity = UMA_KNOWN },
                              { .celsius = f(99), .n_processes = 1, .processes = two } };
    struct uma_thermal_zone zones[] = { { .celsius = f(50) }, { .celsius = f(60) }, { .celsius = { 90, UMA_FAILED } } };
    struct uma_snapshot s = answer(100 * SECOND, gpus, 2);
    struct uma_gpu_reading r = { 0 };
    s.heat.zones = zones;
    s.heat.n_zones = 3;
    uma_gpu_reading_update(&r, &s, false);
    assert_int_equal(r.validity, UMA_KNOWN);
    assert_int_equal(r.answers, 1);
    assert_true(r.celsius.value == 71 && r.watts.value == 86.2); /* heat of the first */
    assert_true(r.board_celsius.value == 60);                    /* the hottest that was read */
    assert_int_equal(r.n_users, 2);                              /* bytes of all */
    assert_int_equal(r.users[1].pid, 8);

    /* no answer: its values are gone, when the last one came is kept, the board is fresh */
    zones[1].celsius = f(55);
    s.time_ns = 200 * SECOND;
    s.gpus.source = (struct uma_source){ .validity = UMA_STALE, .time_ns = 100 * SECOND, .detail = "no answer" };
    s.gpus.hung = true;
    uma_gpu_reading_update(&r, &s, false);
    assert_int_equal(r.validity, UMA_STALE);
    assert_true(r.hung);
    assert_int_equal(r.answers, 1);
    assert_int_equal(r.time_ns, 100 * SECOND);
    assert_int_not_equal(r.celsius.validity, UMA_KNOWN);
    assert_int_equal(r.n_users, 0);
    assert_true(r.board_celsius.value == 55);
    assert_string_equal(r.detail, "no answer");

    /* a machine whose driver answers that there is no GPU */
    s = answer(300 * SECOND, NULL, 0);
    uma_gpu_reading_update(&r, &s, false);
    assert_int_equal(r.validity, UMA_ABSENT);
    assert_int_equal(r.answers, 1);
}

static void users_are_bounded(void **state) {
    (void)state;
    struct uma_gpu_process many[UMA_GPU_USERS_MAX + 10] = { 0 };
    struct uma_gpu gpu = { .n_processes = ELEMENTS(many), .processes = many };
    struct uma_snapshot s = answer(SECOND, &gpu, 1);
    struct uma_gpu_reading r = { 0 };
    uma_gpu_reading_update(&r, &s, false);
    assert_int_equal(r.n_users, UMA_GPU_USERS_MAX);
}

static void age(void **state) {
    (void)state;
    struct uma_gpu gpu = { .celsius = f(71) };
    struct uma_snapshot s = answer(100 * SECOND, &gpu, 1);
    struct uma_gpu_reading r = { 0 };
    assert_int_not_equal(uma_gpu_reading_age(&r, 100 * SECOND).validity, UMA_KNOWN); /* never answered */
    uma_gpu_reading_update(&r, &s, false);
    assert_true(uma_gpu_reading_age(&r, 103 * SECOND).value == 3);
    assert_true(uma_gpu_reading_age(&r, 99 * SECOND).value == 0);
    /* a folder that was made long ago: as old as it was then */
    uma_gpu_reading_update(&r, &s, true);
    assert_true(uma_gpu_reading_age(&r, INT64_C(6000000) * SECOND).value == 0);
    s.gpus.source.time_ns = 98 * SECOND;
    uma_gpu_reading_update(&r, &s, true);
    assert_true(uma_gpu_reading_age(&r, INT64_C(6000000) * SECOND).value == 2);
}

/* The thread itself, on a folder: an answer comes, and the end is prompt. */
static void thread(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    struct uma_error err = { 0 };
    struct uma_gpu_reading r = { 0 };
    assert_int_equal(folder_new(&folder), 0);
    folder_put(&folder, "umactl/time", "1790000000\n");
    folder_put(&folder, "umactl/gpu.json",
               "{\"source\":{\"state\":\"known\",\"time\":1790000000,\"path\":\"nvml\"},"
               "\"list\":[{\"vendor\":\"nvidia\",\"index\":0,\"celsius\":71}]}\n");
    struct uma_observe_options options = { .root = folder.path };
    struct uma_gpu_watch *watch = uma_gpu_watch_start(&options, 3600, false, &err);
    assert_non_null(watch);
    for (int i = 0; i < 2000 && r.answers == 0; i++) {
        (void)nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
        uma_gpu_watch_latest(watch, &r);
    }
    assert_int_equal(r.answers, 1);
    assert_true(r.celsius.validity == UMA_KNOWN && r.celsius.value == 71);
    assert_true(uma_gpu_reading_age(&r, uma_now_ns()).value == 0);
    assert_null(uma_gpu_watch_stop(watch)); /* in the middle of an hour's period */

    assert_null(uma_gpu_watch_stop(NULL));
    uma_gpu_watch_latest(NULL, &r);
    assert_int_equal(r.answers, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(answers), cmocka_unit_test(users_are_bounded), cmocka_unit_test(age),
                                        cmocka_unit_test(thread) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
