/* SPDX-License-Identifier: MIT */
#include "valve/say.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

static void bytes(void **state) {
    (void)state;
    static const struct {
        uint64_t value;
        const char *text;
    } cases[] = { { 0, "0 B" },
                  { 1023, "1023 B" },
                  { 1024, "1.0 KiB" },
                  { 1536, "1.5 KiB" },
                  { UINT64_C(96) << 30, "96.0 GiB" },
                  { (UINT64_C(1) << 30) - 1, "1.0 GiB" },
                  { UINT64_C(121) << 30, "121 GiB" },
                  { UINT64_MAX, "16.0 EiB" },
                  { UINT64_C(1000) << 20, "1000 MiB" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct uma_valve_line line = { 0 };
        uma_valve_say_bytes(&line, cases[i].value);
        line.text[line.n] = '\0';
        assert_string_equal(line.text, cases[i].text);
    }
}

static void whole_line(void **state) {
    (void)state;
    int ends[2], before = dup(2);
    char text[4096];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], 2), 2);
    struct uma_valve_line line = { 0 };
    uma_valve_say(&line, "held by ");
    uma_valve_say_n(&line,
                    "a\n\x1b[31mb\xff"
                    "c",
                    16);
    uma_valve_say_number(&line, UINT64_MAX);
    errno = 5;
    uma_valve_say_end(&line);
    assert_int_equal(errno, 5);
    for (int i = 0; i < 5000; i++)
        uma_valve_say(&line, "x"); /* does not fit: cut */
    uma_valve_say_end(&line);
    assert_int_equal(dup2(before, 2), 2);
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    assert_true(n > 0);
    text[n] = '\0';
    assert_memory_equal(text, "umactl valve: held by a??[31mb?c18446744073709551615\numactl valve: held", 70);
    assert_int_equal(text[n - 1], '\n');
    assert_true(n < 1200);
    (void)close(before);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(bytes), cmocka_unit_test(whole_line) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
