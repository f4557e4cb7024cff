/* SPDX-License-Identifier: MIT */
#include "guard/link.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"

static char folder[64], path[96];

static int begin(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/" UMA_GUARD_SOCKET_NAME, folder);
    return 0;
}

static int end(void **state) {
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

/* A helper's end. */
static int helper(void) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)strcpy(address.sun_path, path);
    (void)unlink(path);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

#define SECOND UMA_GUARD_LINK_PAUSE_NS

static void delivered(void **state) {
    (void)state;
    int there = helper();
    struct uma_guard_link link;
    struct uma_guard_message m = { .action = { .kind = UMA_GUARD_ROOM, .bytes = 7, .order = -1 }, .order = -1 }, got;
    assert_int_equal(uma_guard_link_open(&link, path, SECOND), 0);
    assert_true(link.connected);
    assert_int_equal(uma_guard_link_send(&link, &m, SECOND), 0);
    assert_int_equal(recv(there, &got, sizeof(got), 0), sizeof(got));
    assert_true(uma_guard_message_fine(&got, sizeof(got)));
    assert_int_equal(got.action.bytes, 7);
    assert_true(got.time > 0);
    assert_int_equal(link.sent, 1);
    assert_int_equal(link.lost, 0);
    uma_guard_link_close(&link);
    (void)close(there);
}

/* A helper that is not there costs one connect(2) a second, and is found when it comes. */
static void comes_later(void **state) {
    (void)state;
    struct uma_guard_link link;
    struct uma_guard_message m = { .order = -1, .action.order = -1 };
    assert_int_equal(uma_guard_link_open(&link, path, SECOND), 0);
    assert_false(link.connected);
    assert_int_equal(uma_guard_link_send(&link, &m, SECOND + 1), -ENOTCONN);
    int there = helper();
    assert_int_equal(uma_guard_link_send(&link, &m, SECOND + SECOND / 2), -ENOTCONN); /* not due */
    assert_int_equal(uma_guard_link_send(&link, &m, 2 * SECOND), 0);
    assert_int_equal(link.lost, 2);
    assert_int_equal(link.sent, 1);
    uma_guard_link_close(&link);
    (void)close(there);
}

/* One that was started anew is connected to through the same descriptor, also when the process has none left. */
static void comes_back(void **state) {
    (void)state;
    int there = helper();
    struct uma_guard_link link;
    struct uma_guard_message m = { .order = -1, .action.order = -1 }, got;
    assert_int_equal(uma_guard_link_open(&link, path, SECOND), 0);
    int fd = link.fd;
    (void)close(there);
    assert_int_equal(uma_guard_link_send(&link, &m, 3 * SECOND), -ENOTCONN); /* it is gone, and so is its successor still */
    there = helper();
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int r = uma_guard_link_send(&link, &m, 5 * SECOND);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(r, 0);
    assert_int_equal(link.fd, fd);
    assert_int_equal(recv(there, &got, sizeof(got), 0), sizeof(got));
    uma_guard_link_close(&link);
    (void)close(there);
}

/* Whoever asks whether one is there hears of now, whatever the last message met. */
static void is_there(void **state) {
    (void)state;
    struct uma_guard_link link;
    assert_int_equal(uma_guard_link_open(&link, path, SECOND), 0);
    assert_false(uma_guard_link_there(&link));
    int there = helper();
    assert_true(uma_guard_link_there(&link));
    assert_true(uma_guard_link_there(&link));
    (void)close(there);
    assert_false(uma_guard_link_there(&link));
    uma_guard_link_close(&link);
    assert_false(uma_guard_link_there(&link));
}

/* A helper that reads nothing never keeps the guard waiting: what it has no room for is lost. */
static void falls_behind(void **state) {
    (void)state;
    int there = helper(), r = 0;
    struct uma_guard_link link;
    struct uma_guard_message m = { .order = -1, .action.order = -1 };
    assert_int_equal(uma_guard_link_open(&link, path, SECOND), 0);
    for (int i = 0; i < 100000 && r == 0; i++)
        r = uma_guard_link_send(&link, &m, SECOND);
    assert_int_equal(r, -EAGAIN);
    assert_true(link.connected);
    struct uma_guard_message got;
    while (recv(there, &got, sizeof(got), 0) > 0)
        ;
    assert_int_equal(uma_guard_link_send(&link, &m, SECOND), 0);
    uma_guard_link_close(&link);
    (void)close(there);
}

static void no_such_path(void **state) {
    (void)state;
    struct uma_guard_link link;
    struct uma_guard_message m = { .order = -1, .action.order = -1 };
    char long_path[200];
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = '\0';
    assert_int_equal(uma_guard_link_open(&link, long_path, SECOND), -ENAMETOOLONG);
    assert_int_equal(uma_guard_link_send(&link, &m, 9 * SECOND), -ENOTCONN);
    assert_int_equal(link.lost, 1);
    uma_guard_link_close(&link);
    uma_guard_link_close(&link); /* twice does no harm */
}

static void allocates_nothing(void **state) {
    (void)state;
    int there = helper();
    struct uma_guard_link link;
    struct uma_guard_message m = { .order = -1, .action.order = -1 };
    assert_int_equal(uma_guard_link_open(&link, path, SECOND), 0);
    struct mallinfo2 before = mallinfo2();
    for (int i = 1; i < 5; i++)
        (void)uma_guard_link_send(&link, &m, i * SECOND);
    (void)close(there);
    for (int i = 5; i < 9; i++)
        (void)uma_guard_link_send(&link, &m, i * SECOND);
    assert_int_equal(mallinfo2().uordblks, before.uordblks);
    uma_guard_link_close(&link);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(delivered, begin, end),         cmocka_unit_test_setup_teardown(comes_later, begin, end),
        cmocka_unit_test_setup_teardown(is_there, begin, end),          cmocka_unit_test_setup_teardown(comes_back, begin, end),
        cmocka_unit_test_setup_teardown(falls_behind, begin, end),      cmocka_unit_test_setup_teardown(no_such_path, begin, end),
        cmocka_unit_test_setup_teardown(allocates_nothing, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
