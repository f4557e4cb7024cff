/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "cmd/guard.h"

#include <string.h>

static struct uma_guard_told told(const char *text) {
    struct uma_guard_told t = { .text = "" };
    (void)snprintf(t.text, sizeof(t.text), "%s", text);
    return t;
}

static void values(void **state) {
    (void)state;
    struct uma_guard_told t = told("pid=42\nbraked=1,2,3\nbraked=4,5,6\nempty=\nlong=0123456789\nlast=x");
    char into[8];
    assert_true(uma_guard_told_value(&t, "pid", 0, into, sizeof(into)));
    assert_string_equal(into, "42");
    assert_true(uma_guard_told_value(&t, "braked", 1, into, sizeof(into)));
    assert_string_equal(into, "4,5,6");
    assert_false(uma_guard_told_value(&t, "braked", 2, into, sizeof(into)));
    assert_true(uma_guard_told_value(&t, "empty", 0, into, sizeof(into)));
    assert_string_equal(into, "");
    assert_true(uma_guard_told_value(&t, "long", 0, into, sizeof(into))); /* cut */
    assert_string_equal(into, "0123456");
    assert_true(uma_guard_told_value(&t, "last", 0, into, sizeof(into)));
    assert_string_equal(into, "x");
    assert_false(uma_guard_told_value(&t, "pi", 0, into, sizeof(into)));
    assert_false(uma_guard_told_value(&t, "id", 0, into, sizeof(into)));
    assert_false(uma_guard_told_value(&t, "pid=42\nbraked", 0, into, sizeof(into)));
}

static void odd_texts(void **state) {
    (void)state;
    static const char *const texts[] = { "", "\n", "=", "=\n=", "pid", "pid\n", "\n\n\npid", "xpid=1", "pi=d=1" };
    char into[8];
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct uma_guard_told t = told(texts[i]);
        assert_false(uma_guard_told_value(&t, "pid", 0, into, sizeof(into)));
    }
}

static void nobody_there(void **state) {
    (void)state;
    struct uma_guard_told t;
    struct uma_error err = { 0 };
    char folder[200];
    assert_int_equal(uma_guard_ask_it("/nonexistent", "status", &t, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no guard runs here"));
    memset(folder, 'x', sizeof(folder));
    folder[sizeof(folder) - 1] = '\0';
    assert_int_equal(uma_guard_ask_it(folder, "status", &t, &err), -ENAMETOOLONG);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(values), cmocka_unit_test(odd_texts), cmocka_unit_test(nobody_there) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
