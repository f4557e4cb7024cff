/* SPDX-License-Identifier: MIT */
#include "valve/machine.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

static void parses(void **state) {
    (void)state;
    struct uma_valve_reading r;
    assert_true(
        uma_valve_machine_parse("MemTotal:       127600524 kB\nMemFree:        99159460 kB\nMemAvailable:   111584904 kB\nBuffers: 1 kB\n"
                                "Active(file):  10 kB\nInactive(file):  20 kB\n",
                                &r));
    assert_true(r.total == UINT64_C(127600524) << 10 && r.free == UINT64_C(99159460) << 10 && r.available == UINT64_C(111584904) << 10);
    assert_int_equal(r.cache, 30 << 10);
    static const char *const not [] = { "", "MemTotal: 5 kB\nMemFree: 5 kB\n", "MemTotal:\nMemFree:\nMemAvailable:\n",
                                        "XMemTotal: 5\nMemFree: 5\nMemAvailable: 5",
                                        "MemTotal: x kB\nMemFree: 5 kB\nMemAvailable: 5 kB\n" };
    for (size_t i = 0; i < sizeof(not ) / sizeof(not [0]); i++)
        assert_false(uma_valve_machine_parse(not [i], &r));
}

/* A program that closes every file it does not know, and puts its own in their place. */
static void file_is_taken_away(void **state) {
    (void)state;
    struct uma_valve_machine machine = { .fd = -1 };
    struct uma_valve_reading a, b;
    assert_true(uma_valve_machine_read(&machine, &a));
    int first = machine.fd;
    assert_true(first >= 3);
    assert_true(uma_valve_machine_read(&machine, &b));
    assert_int_equal(machine.fd, first);
    assert_int_equal(a.total, b.total);
    assert_int_equal(close(first), 0);
    assert_true(uma_valve_machine_read(&machine, &b));
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(dup2(other, machine.fd), machine.fd);
    int theirs = machine.fd;
    assert_true(uma_valve_machine_read(&machine, &b));
    assert_int_equal(a.total, b.total);
    assert_int_not_equal(machine.fd, theirs);
    assert_int_equal(fcntl(theirs, F_GETFD) >= 0, 1); /* the program's own is left alone */
    (void)close(theirs);
    (void)close(other);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(parses), cmocka_unit_test(file_is_taken_away) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
