/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/values.h"
#include "job/high_mark.h"

#define MIB (UINT64_C(1) << 20)

static struct uma_u64 m(uint64_t mib) {
    return uma_known_u64(mib * MIB);
}

static struct uma_high_mark in_group(uint64_t memory, uint64_t between, uint64_t fall, uint64_t peak) {
    return (struct uma_high_mark){
        .memory = m(memory), .counted = m(memory), .between = between * MIB, .fall = fall * MIB, .group_peak = m(peak)
    };
}

static void expect(struct uma_high_mark mark, uint64_t least, uint64_t most) {
    struct uma_u64 l = uma_high_mark_least(&mark), h = uma_high_mark_most(&mark);
    assert_int_equal(l.validity, UMA_KNOWN);
    assert_int_equal(h.validity, UMA_KNOWN);
    assert_int_equal(l.value / MIB, least);
    assert_int_equal(h.value / MIB, most);
}

/* Measured: a loader of 400 MiB behind a load window of 64 MiB. The group's mark rose to 706 MiB while 300 MiB of page cache were there that both readings lacked;
 * less what else was charged at either it was 596 and 568, and the job never had more than 401. */
static void page_cache_that_was_evicted_is_not_memory(void **state) {
    (void)state;
    expect(in_group(401, 0, 0, 706), 401, 706);
    expect(in_group(250, 401, 0, 706), 401, 706);
    expect(in_group(0, 401, 0, 632), 401, 632);
    /* the file was charged to somebody else: then the mark is close */
    expect(in_group(1024, 0, 1024, 1027), 1024, 1027);
}

static void what_came_and_went_unseen_is_in_the_limit_alone(void **state) {
    (void)state;
    expect(in_group(100, 0, 300, 420), 100, 420);
    expect(in_group(100, 0, 0, 420), 100, 420); /* of a child that has ended: no process of now has a mark of it */
    /* cached pages may have gone and come back: nothing is taken off the mark */
    expect(in_group(20, 0, 3, 900), 20, 900);
    /* counters that lag behind each other: never most below least */
    expect(in_group(100, 110, 0, 85), 110, 110);
}

static void without_a_group_processes_are_asked(void **state) {
    (void)state;
    struct uma_high_mark one = { .memory = m(1024), .largest = m(1024), .fall = 1024 * MIB };
    expect(one, 1024, 2048);
    /* four workers that share 256 MiB: the estimate of now has shares that were read before they were forked */
    struct uma_high_mark workers = { .memory = m(1300), .largest = m(260) };
    expect(workers, 260, 1300);
    workers.counted = m(276); /* the shares have just been read */
    expect(workers, 276, 1300);
    /* a kernel without the mark (cgroup v2 before Linux 5.19) */
    struct uma_high_mark old = { .memory = m(100), .counted = m(100), .largest = m(60), .fall = 30 * MIB };
    expect(old, 100, 130);
    assert_int_not_equal(uma_high_mark_group_most(&old).validity, UMA_KNOWN);
}

static void what_was_not_seen_is_unknown(void **state) {
    (void)state;
    struct uma_high_mark nothing = { 0 }, ended = in_group(0, 0, 0, 300);
    assert_int_not_equal(uma_high_mark_least(&nothing).validity, UMA_KNOWN);
    assert_int_not_equal(uma_high_mark_most(&nothing).validity, UMA_KNOWN);
    assert_int_not_equal(uma_high_mark_group_most(&nothing).validity, UMA_KNOWN);
    /* the first reading came after the job's end: 0 is what there is now, and no answer to how much there was */
    assert_int_not_equal(uma_high_mark_least(&ended).validity, UMA_KNOWN);
    assert_int_equal(uma_high_mark_most(&ended).value, 300 * MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(page_cache_that_was_evicted_is_not_memory),
                                        cmocka_unit_test(what_came_and_went_unseen_is_in_the_limit_alone),
                                        cmocka_unit_test(without_a_group_processes_are_asked),
                                        cmocka_unit_test(what_was_not_seen_is_unknown) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
