/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "observe/intern.h"

#include <stdio.h>
#include <string.h>

static void numbers(void **state) {
    (void)state;
    struct uma_intern intern = { 0 };
    enum { N = 5000 };
    static char keys[N][16];
    for (int round = 0; round < 2; round++) { /* the second after a reset, in the memory of the first */
        assert_int_equal(uma_intern_find(&intern, "x", 1), -1);
        for (int32_t i = 0; i < N; i++) {
            (void)snprintf(keys[i], sizeof(keys[i]), "/group/%d", i);
            assert_int_equal(uma_intern_add(&intern, keys[i], strlen(keys[i]), N), i);
        }
        assert_int_equal(uma_intern_add(&intern, "one more", 8, N), -1);
        for (int32_t i = 0; i < N; i++)
            assert_int_equal(uma_intern_find(&intern, keys[i], strlen(keys[i])), i);
        assert_int_equal(uma_intern_find(&intern, "/group/1", 7), -1);
        assert_int_equal(uma_intern_find(&intern, "", 0), -1);
        uma_intern_reset(&intern);
    }
    uma_intern_done(&intern);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
