/* SPDX-License-Identifier: MIT */
#include "guard/say.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

static const char *text_of(struct uma_guard_line *line) {
    line->text[line->length] = '\0';
    return line->text;
}

static void names_are_escaped(void **state) {
    struct uma_guard_line line = { 0 };
    (void)state;
    uma_guard_line_name(&line, "a\n\x1b[2J'\\\xff\x7f", 16);
    assert_string_equal(text_of(&line), "'a\\x0a\\x1b[2J\\x27\\x5c\\xff\\x7f'");
    line.length = 0;
    uma_guard_line_name(&line, "abcdef", 3); /* not ended */
    assert_string_equal(text_of(&line), "'abc'");
}

static void numbers_are_words(void **state) {
    struct uma_guard_line line = { 0 };
    (void)state;
    uma_guard_line_number(&line, INT64_MIN);
    uma_guard_line_text(&line, " ");
    uma_guard_line_unsigned(&line, UINT64_MAX);
    assert_string_equal(text_of(&line), "-9223372036854775808 18446744073709551615");
    line.length = 0;
    uma_guard_line_bytes(&line, (uint64_t)12 * 1024 * 1024 * 1024 + (uint64_t)512 * 1024 * 1024);
    uma_guard_line_text(&line, " ");
    uma_guard_line_bytes(&line, 812ull << 20);
    uma_guard_line_text(&line, " ");
    uma_guard_line_bytes(&line, (2048ull << 20) - 1);
    uma_guard_line_text(&line, " ");
    uma_guard_line_bytes(&line, UINT64_MAX);
    assert_string_equal(text_of(&line), "12.5 GiB 812 MiB 1.9 GiB 17179869183.9 GiB");
    line.length = 0;
    uma_guard_line_time(&line, 3250000);
    uma_guard_line_text(&line, " ");
    uma_guard_line_time(&line, 12000000000);
    uma_guard_line_text(&line, " ");
    uma_guard_line_time(&line, -5);
    assert_string_equal(text_of(&line), "3.2 ms 12.0 s 0.0 ms");
    line.length = 0;
    uma_guard_line_error(&line, 0);
    uma_guard_line_error(&line, -EACCES);
    uma_guard_line_error(&line, -100000);
    assert_string_equal(text_of(&line), ": Permission denied: 100000");
}

static void a_line_is_cut_at_its_end(void **state) {
    struct uma_guard_line line = { 0 };
    (void)state;
    for (int i = 0; i < 200; i++)
        uma_guard_line_text(&line, "12345");
    uma_guard_line_name(&line, "x", 1);
    uma_guard_line_number(&line, 1);
    assert_int_equal(line.length, UMA_GUARD_LINE_MAX - 1);
}

/* A reader that does not read: the guard goes on, and says later how much it did not. */
static void a_full_socket_is_not_waited_for(void **state) {
    int pair[2], before = dup(STDERR_FILENO);
    char text[65536];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    (void)dup2(pair[0], STDERR_FILENO);
    for (int i = 0; i < 5000; i++)
        uma_guard_say_text(UMA_GUARD_INFO, "a line", 0);
    while (recv(pair[1], text, sizeof(text), MSG_DONTWAIT) > 0)
        ;
    uma_guard_say_text(UMA_GUARD_INFO, "the last", 0);
    ssize_t n = recv(pair[1], text, sizeof(text) - 1, MSG_DONTWAIT);
    (void)dup2(before, STDERR_FILENO);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, " lines were lost"));
    assert_non_null(strstr(text, "the last\n"));
    (void)close(before);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

static void a_full_pipe_is_not_waited_for(void **state) {
    int pair[2], before = dup(STDERR_FILENO);
    (void)state;
    assert_int_equal(pipe(pair), 0);
    (void)fcntl(pair[0], F_SETPIPE_SZ, 4096);
    (void)dup2(pair[1], STDERR_FILENO);
    for (int i = 0; i < 5000; i++)
        uma_guard_say_text(UMA_GUARD_INFO, "a line", 0);
    (void)dup2(before, STDERR_FILENO);
    (void)close(before);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_escaped),
        cmocka_unit_test(numbers_are_words),
        cmocka_unit_test(a_line_is_cut_at_its_end),
        cmocka_unit_test(a_full_socket_is_not_waited_for),
        cmocka_unit_test(a_full_pipe_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
