/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "job/limit_probe.h"

#include <string.h>

static void what_the_steps_mean(void **state) {
    (void)state;
    static const struct {
        struct uma_limit_findings found;
        const char *word;
    } cases[] = {
        { { .set = true, .read_back = true, .refused = 2, .afterwards = 0, .taken_back = true }, "holds" },
        { { .set = true, .read_back = true, .refused = 0, .afterwards = 0, .taken_back = true }, "not-enforced" },
        { { .set = true, .read_back = true, .refused = -1, .afterwards = -1, .taken_back = true }, "untested" },
        { { .set = true, .read_back = true, .refused = 201, .afterwards = 0, .taken_back = true },
          "failed" }, /* no context: not the limit's word */
        { { .set = true, .read_back = true, .refused = 2, .afterwards = 2, .taken_back = true }, "not-taken-back" },
        { { .set = true, .read_back = true, .refused = 2, .afterwards = -1, .taken_back = true }, "not-taken-back" },
        { { .set = true, .read_back = true, .refused = 2, .afterwards = 0, .taken_back = false }, "not-taken-back" },
        { { .set = true, .read_back = false, .refused = 2, .afterwards = 0, .taken_back = true }, "not-read-back" },
        { { .set = false, .read_back = false, .refused = 2 }, "failed" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        assert_string_equal(uma_limit_state_word(uma_limit_judge(&cases[i].found)), cases[i].word);
}

static void every_state_has_a_word_of_its_own(void **state) {
    (void)state;
    for (int i = 0; i <= UMA_LIMIT_FAILED; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(uma_limit_state_word((enum uma_limit_state)i), uma_limit_state_word((enum uma_limit_state)j));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_the_steps_mean), cmocka_unit_test(every_state_has_a_word_of_its_own) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
