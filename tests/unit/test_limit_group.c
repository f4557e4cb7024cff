/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "act/limit_group.h"

static void whose_a_group_is(void **state) {
    (void)state;
    pid_t pid = 0;
    uint64_t start = 0;
    assert_true(uma_limit_group_name_parse("umactl_limit-12-3456-0", &pid, &start));
    assert_int_equal(pid, 12);
    assert_int_equal(start, 3456);
    static const char *const others[] = { "",
                                          "umactl_limit",
                                          "umactl_limit-",
                                          "umactl_limit-12",
                                          "umactl_limit-12-",
                                          "umactl_limit-12-34",
                                          "umactl_limit-12-34-",
                                          "umactl_limit-12-34-x",
                                          "umactl_limit-12-34-1x",
                                          "umactl_limit-0-34-1",
                                          "umactl_limit-12-0-1",
                                          "umactl_limit--12-34-1",
                                          "umactl_limit-99999999999-34-1",
                                          "umactl_limit-12-99999999999999999999999-1",
                                          "umactl-limit-12-34-1",
                                          "xumactl_limit-12-34-1",
                                          "umactl-python-12" };
    pid = 5;
    start = 6;
    for (size_t i = 0; i < ELEMENTS(others); i++)
        assert_false(uma_limit_group_name_parse(others[i], &pid, &start));
    assert_int_equal(pid, 5);
    assert_int_equal(start, 6);
}

static void what_is_no_group_counts_as_used(void **state) {
    (void)state;
    struct uma_cgroup_scope none = { .dir_fd = -1, .procs_fd = -1 };
    assert_true(uma_limit_group_is_used(&none));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(whose_a_group_is), cmocka_unit_test(what_is_no_group_counts_as_used) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
