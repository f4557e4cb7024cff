/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "base/write.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { MUCH = 1024 * 1024 }; /* more than any pipe holds: 64 KiB (pipe(7)) */

struct drain {
    int fd;
    size_t n, wrong;
};

static void *drain(void *userdata) {
    struct drain *d = userdata;
    char block[4096];
    for (ssize_t n; (n = read(d->fd, block, sizeof block)) > 0;)
        for (ssize_t i = 0; i < n; i++)
            d->wrong += block[i] != (char)('a' + d->n++ % 23);
    return NULL;
}

static void full_pipe(void **state) {
    int ends[2];
    pthread_t thread;
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    _cleanup_free_
    char *data = malloc(MUCH);
    assert_non_null(data);
    for (size_t i = 0; i < MUCH; i++)
        data[i] = (char)('a' + i % 23);
    struct drain d = { .fd = ends[0] };
    assert_int_equal(pthread_create(&thread, NULL, drain, &d), 0);
    assert_int_equal(uma_write_all(ends[1], data, MUCH), 0);
    (void)close(ends[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(ends[0]);
    assert_int_equal(d.n, MUCH);
    assert_int_equal(d.wrong, 0);
}

static void errors(void **state) {
    int ends[2];
    (void)state;
    assert_int_equal(uma_write_all(-1, "x", 1), -EBADF);
    assert_int_equal(uma_write_all(-1, "", 0), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    (void)close(ends[0]);
    (void)signal(SIGPIPE, SIG_IGN);
    assert_int_equal(uma_write_all(ends[1], "x", 1), -EPIPE);
    (void)close(ends[1]);
    _cleanup_close_ int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full >= 0)
        assert_int_equal(uma_write_all(full, "x", 1), -ENOSPC);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(full_pipe), cmocka_unit_test(errors) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
