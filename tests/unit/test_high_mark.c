/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/values.h"
#include "job/high_mark.h"

#define MIB (UINT64_C(1) << 20)

static struct uma_high_mark reading(uint64_t memory, uint64_t fall) {
    return (struct uma_high_mark){ .memory = uma_known_u64(memory * MIB), .fall = fall * MIB };
}

static struct uma_high_mark in_group(uint64_t memory, uint64_t fall, uint64_t group, uint64_t peak) {
    struct uma_high_mark m = reading(memory, fall);
    m.group = uma_known_u64(group * MIB);
    m.group_peak = uma_known_u64(peak * MIB);
    return m;
}

static void expect(struct uma_high_mark before, struct uma_high_mark now, uint64_t least, uint64_t most) {
    struct uma_u64 l, m;
    uma_high_mark(&before, &now, &l, &m);
    assert_int_equal(l.validity, UMA_KNOWN);
    assert_int_equal(m.validity, UMA_KNOWN);
    assert_int_equal(l.value / MIB, least);
    assert_int_equal(m.value / MIB, most);
}

/* A file of 1024 MiB is mapped, copied and unmapped: at the end of the copying all of it was resident beside the copy. */
static void a_mapped_file_is_not_taken_for_memory(void **state) {
    (void)state;
    /* no group: nobody says what the rest was */
    expect(reading(600, 0), reading(1024, 1024), 1024, 2048);
    /* the file was in the cache before: the group was not charged for it, and its mark is the memory's */
    expect(in_group(600, 0, 602, 602), in_group(1024, 1024, 1026, 1027), 1025, 1025);
    /* the group was charged for the file as the job read it, and is still */
    expect(in_group(600, 0, 1200, 1200), in_group(1024, 1024, 2048, 2050), 1026, 1450);
    /* in less time than there is between two readings, and ended: the pages of the file are there still */
    expect((struct uma_high_mark){ 0 }, in_group(0, 0, 1024, 2050), 1026, 1026);
}

static void memory_that_came_and_went_is_seen(void **state) {
    (void)state;
    /* 300 MiB for a moment beside libraries of which the group is charged for 20 */
    expect(in_group(100, 0, 120, 120), in_group(100, 300, 120, 420), 400, 400);
    /* of a child that has ended: no process of now has a mark of it */
    expect(in_group(100, 0, 120, 120), in_group(100, 0, 120, 420), 400, 400);
    /* the group's mark is of an earlier time: it says nothing of this one but a limit */
    expect(in_group(100, 0, 120, 420), in_group(100, 50, 120, 420), 100, 150);
    expect(in_group(100, 0, 120, 420), in_group(100, 500, 120, 420), 100, 400);
    expect(reading(100, 0), reading(100, 300), 100, 400);
}

static void what_cannot_be_is_not_said(void **state) {
    (void)state;
    struct uma_high_mark nothing = { 0 }, now = { 0 };
    struct uma_u64 least, most;
    uma_high_mark(&nothing, &now, &least, &most);
    assert_int_not_equal(least.validity, UMA_KNOWN);
    assert_int_not_equal(most.validity, UMA_KNOWN);
    assert_int_not_equal(uma_high_mark_group_most(&nothing, &now).validity, UMA_KNOWN);
    now = reading(5, 0);
    assert_int_not_equal(uma_high_mark_group_most(&nothing, &now).validity, UMA_KNOWN);
    /* counters that lag behind each other: never below what was read, never most below least */
    expect(in_group(100, 0, 90, 90), in_group(100, 0, 80, 85), 100, 100);
    expect(in_group(10, 0, 900, 900), in_group(20, 3, 900, 901), 20, 21);
    /* a kernel without the mark (cgroup v2 before Linux 5.19): as without a group */
    now = in_group(100, 30, 200, 0);
    now.group_peak = (struct uma_u64){ 0 };
    expect(in_group(100, 0, 120, 120), now, 100, 130);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_mapped_file_is_not_taken_for_memory),
                                        cmocka_unit_test(memory_that_came_and_went_is_seen), cmocka_unit_test(what_cannot_be_is_not_said) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
