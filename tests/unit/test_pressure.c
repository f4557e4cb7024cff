/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "observe/memory.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static int parse(const char *text, struct uma_pressure *ret, struct uma_error *err) {
    return uma_pressure_parse(text, strlen(text), "proc/pressure/memory", ret, err);
}

static void assert_f64(struct uma_f64 v, double expected) {
    assert_int_equal(v.validity, UMA_KNOWN);
    assert_true(fabs(v.value - expected) < 1e-12);
}

static void whole(void **state) {
    (void)state;
    struct uma_pressure p;
    assert_int_equal(
        parse("some avg10=4.83 avg60=0.69 avg300=100.00 total=13801901\r\nfull avg10=0.05 avg60=0.00 avg300=0.00 total=7\r\n", &p, NULL),
        0);
    assert_f64(p.some.avg10, 0.0483);
    assert_f64(p.some.avg60, 0.0069);
    assert_f64(p.some.avg300, 1);
    assert_f64(p.some.total_seconds, 13.801901);
    assert_f64(p.full.avg10, 0.0005);
    assert_f64(p.full.total_seconds, 7e-6);
}

/* cpu before 5.13 */
static void without_full(void **state) {
    (void)state;
    struct uma_pressure p;
    assert_int_equal(parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", &p, NULL), 0);
    assert_f64(p.some.total_seconds, 0);
    assert_int_equal(p.full.avg10.validity, UMA_ABSENT);
    assert_int_equal(p.full.total_seconds.validity, UMA_ABSENT);
}

static void disabled(void **state) {
    (void)state;
    struct uma_pressure p = { .some.avg10 = { 3, UMA_KNOWN } };
    struct uma_error err = { 0 };
    assert_int_equal(parse("", &p, &err), -EOPNOTSUPP);
    assert_f64(p.some.avg10, 3);
    assert_non_null(strstr(err.text, "disabled"));
}

static void cut_off(void **state) {
    (void)state;
    struct uma_pressure p;
    struct uma_error err = { 0 };
    assert_int_equal(parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=9000000\nfull avg10=0.00 avg60=1", &p, &err), 1);
    assert_f64(p.some.total_seconds, 9);
    assert_f64(p.full.avg10, 0);
    assert_int_equal(p.full.avg60.validity, UMA_MALFORMED);
    assert_int_equal(p.full.total_seconds.validity, UMA_UNKNOWN);
    assert_non_null(strstr(err.text, "proc/pressure/memory:2"));
}

static void malformed(void **state) {
    (void)state;
    struct uma_pressure p;
    assert_int_equal(parse("some avg10=-1.00 avg60=100.01 avg300=1e3 total=-5 avg10=0.50\nsome avg10=0.10\n", &p, NULL), 4);
    assert_int_equal(p.some.avg10.validity, UMA_MALFORMED);
    assert_int_equal(p.some.avg60.validity, UMA_MALFORMED);
    assert_int_equal(p.some.avg300.validity, UMA_MALFORMED);
    assert_int_equal(p.some.total_seconds.validity, UMA_MALFORMED);
    assert_int_equal(parse("nonsense\n", &p, NULL), -EINVAL);
    assert_int_equal(parse("full avg10=0.00\n", &p, NULL), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),   cmocka_unit_test(without_full), cmocka_unit_test(disabled),
        cmocka_unit_test(cut_off), cmocka_unit_test(malformed),
    };
    return cmocka_run_group_tests_name("pressure", tests, NULL, NULL);
}
