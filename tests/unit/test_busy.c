/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "base/values.h"
#include "cache/busy.h"

#define KNOWN(v) uma_known_u64(v)
#define UNKNOWN uma_no_u64(UMA_DENIED)

static struct uma_weight_progress progress(uint64_t read, uint64_t storage, uint64_t mapped) {
    return (struct uma_weight_progress){ KNOWN(read), KNOWN(storage), KNOWN(mapped) };
}

static void training(void **state) {
    (void)state;
    struct uma_holder holders[] = { { .pid = 7, .name = "vllm", .kind = "vllm", .role = UMA_ROLE_SERVE },
                                    { .pid = 9, .name = "python3", .kind = "trl", .role = UMA_ROLE_TRAIN } };
    struct uma_weight_reader loader = { .pid = 5, .before = progress(0, 0, 0), .after = progress(UMA_GIB, 0, 0) };
    struct uma_busy_job job = uma_busy_judge(holders, 2, &loader, 1, 1.0);
    assert_int_equal(job.busy, UMA_BUSY_TRAINS);
    assert_int_equal(job.pid, 9);
    assert_string_equal(job.kind, "trl");
    holders[1].exited = true; /* its memory is on its way back: nothing is read again */
    job = uma_busy_judge(holders, 2, NULL, 0, 1.0);
    assert_int_equal(job.busy, UMA_BUSY_NOT);
}

static void loading(void **state) {
    (void)state;
    const uint64_t enough = UMA_LOADING_BYTES;
    struct {
        struct uma_weight_progress before, after;
        double seconds;
        enum uma_busy busy;
    } const cases[] = {
        { progress(10, 10, 10), progress(10, 10, 10), 1, UMA_BUSY_NOT },
        { progress(0, 0, 0), progress(enough, 0, 0), 1, UMA_BUSY_LOADS },
        { progress(0, 0, 0), progress(enough - 1, 0, 0), 1, UMA_BUSY_NOT },
        { progress(0, 0, 0), progress(0, enough, 0), 1, UMA_BUSY_LOADS },
        { progress(0, 0, 0), progress(0, 0, enough), 1, UMA_BUSY_LOADS },
        { progress(0, 0, 0), progress(enough, 0, 0), 2, UMA_BUSY_NOT }, /* half of it a second */
        { progress(0, 0, 0), progress(enough, 0, 0), 0.5, UMA_BUSY_LOADS },
        { progress(0, 0, UMA_GIB), progress(0, 0, 0), 1, UMA_BUSY_NOT }, /* unmapping is no load */
        { progress(0, 0, 0), progress(UMA_GIB, 0, 0), 0, UMA_BUSY_NOT }, /* no time, no rate */
        { { UNKNOWN, UNKNOWN, KNOWN(0) }, { UNKNOWN, UNKNOWN, KNOWN(2 * enough) }, 1, UMA_BUSY_LOADS },
        { { UNKNOWN, UNKNOWN, UNKNOWN }, progress(UMA_GIB, UMA_GIB, UMA_GIB), 1, UMA_BUSY_NOT },
        { progress(0, 0, 0), progress(UINT64_MAX, 0, 0), 1e-9, UMA_BUSY_LOADS },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_weight_reader reader = { .pid = 5, .name = "loader", .before = cases[i].before, .after = cases[i].after };
        struct uma_busy_job job = uma_busy_judge(NULL, 0, &reader, 1, cases[i].seconds);
        if (job.busy != cases[i].busy)
            fail_msg("case %zu: %d", i, (int)job.busy);
    }
}

static void the_fastest_is_named(void **state) {
    (void)state;
    struct uma_weight_reader readers[] = {
        { .pid = 1, .before = progress(0, 0, 0), .after = progress(20 * UMA_MIB, 0, 0) },
        { .pid = 2, .name = "vllm", .before = progress(0, 0, 0), .after = progress(0, 0, 900 * UMA_MIB) },
        { .pid = 3, .before = progress(0, 0, 0), .after = progress(0, 100 * UMA_MIB, 0) },
    };
    struct uma_busy_job job = uma_busy_judge(NULL, 0, readers, ELEMENTS(readers), 1);
    assert_int_equal(job.busy, UMA_BUSY_LOADS);
    assert_int_equal(job.pid, 2);
    assert_string_equal(job.name, "vllm");
    assert_int_equal(job.bytes_per_second, 900 * UMA_MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(training), cmocka_unit_test(loading), cmocka_unit_test(the_fastest_is_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
