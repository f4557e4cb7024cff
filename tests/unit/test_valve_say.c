/* SPDX-License-Identifier: MIT */
#include "valve/say.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

static void say_something(void) {
    struct uma_valve_line line = { 0 };
    uma_valve_say(&line, "held");
    errno = 5;
    uma_valve_say_end(&line);
    assert_int_equal(errno, 5);
}

/* Nobody reads what the program never wrote: it does not die of that, and a signal that it waits for with its own hands stays. */
static void nobody_reads(void **state) {
    (void)state;
    int ends[2], before = dup(2);
    sigset_t set, old;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], 2), 2);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)signal(SIGPIPE, SIG_DFL);
    say_something();
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGPIPE);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, &old), 0);
    say_something();
    assert_int_equal(sigpending(&set), 0);
    assert_false(sigismember(&set, SIGPIPE));
    assert_int_equal(raise(SIGPIPE), 0);
    say_something();
    assert_int_equal(sigpending(&set), 0);
    assert_true(sigismember(&set, SIGPIPE));
    (void)signal(SIGPIPE, SIG_IGN); /* takes it away */
    assert_int_equal(sigprocmask(SIG_SETMASK, &old, NULL), 0);
    (void)signal(SIGPIPE, SIG_DFL);
    assert_int_equal(dup2(before, 2), 2);
    (void)close(before);
}

/* A reader that has stopped: the line is left out, and the program goes on. */
static void full_pipe(void **state) {
    (void)state;
    static const char block[4096];
    int ends[2], before = dup(2);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], block, sizeof(block)) > 0)
        ;
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    assert_int_equal(dup2(ends[1], 2), 2);
    (void)alarm(10);
    say_something();
    (void)alarm(0);
    assert_int_equal(dup2(before, 2), 2);
    (void)close(before);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* 2 was closed, and a file of the program's own got the number. */
static void own_file(void **state) {
    (void)state;
    int before = fcntl(2, F_DUPFD_CLOEXEC, 10);
    char name[] = "/tmp/valve-say-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(dup3(file, 2, O_CLOEXEC), 2);
    say_something();
    assert_int_equal(lseek(2, 0, SEEK_END), 0);
    assert_int_equal(fcntl(2, F_SETFD, 0), 0);
    say_something();
    assert_int_equal(lseek(2, 0, SEEK_END), strlen("umactl valve: held\n"));
    assert_int_equal(dup2(before, 2), 2);
    (void)close(before);
    (void)close(file);
    (void)unlink(name);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(bytes), cmocka_unit_test(whole_line), cmocka_unit_test(nobody_reads),
                                        cmocka_unit_test(full_pipe), cmocka_unit_test(own_file) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
