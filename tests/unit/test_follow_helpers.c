/* SPDX-License-Identifier: MIT */
/* umactl's end of the helpers' socket, against helpers that answer, answer wrongly, and vanish. This process plays them: SO_PEERCRED says its pid. */
#include "test.h"

#include "cache/follow_parts.h"
#include "window/protocol.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[32];
static struct uma_follow_helpers *helpers;

static int set_up(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/follow-helpers-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    return uma_follow_helpers_listen(folder, &helpers, NULL);
}

static int tear_down(void **state) {
    (void)state;
    helpers = uma_follow_helpers_close(helpers);
    return rmdir(folder); /* nothing is left in it */
}

static int connect_helper(void) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", uma_follow_helpers_path(helpers));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static int greeting_helper(uint32_t version) {
    int fd = connect_helper();
    struct uma_window_hello hello = { version, getpid() };
    assert_int_equal(send(fd, &hello, sizeof hello, 0), sizeof hello);
    return fd;
}

/* A helper that releases half of every range; `wrong`: and answers with a range too many. */
struct helper {
    int fd;
    bool wrong;
    uint64_t asked;
    size_t messages;
};

static void *serve(void *userdata) {
    struct helper *helper = userdata;
    struct uma_window_request request;
    while (recv(helper->fd, &request, sizeof request, 0) == (ssize_t)sizeof request) {
        struct uma_window_answer answer = { .version = UMA_WINDOW_VERSION, .n = request.n + helper->wrong };
        for (uint32_t i = 0; i < request.n; i++) {
            helper->asked += request.ranges[i].length;
            answer.ranges[i].released = request.ranges[i].length / 2;
        }
        helper->messages++;
        if (send(helper->fd, &answer, sizeof answer, MSG_NOSIGNAL) < 0)
            break;
    }
    return NULL;
}

static void test_a_helper_answers(void **state) {
    (void)state;
    /* It connected before anybody looked. */
    struct helper helper = { .fd = greeting_helper(UMA_WINDOW_VERSION) };
    assert_false(uma_follow_helpers_has(helpers, getpid()));
    uma_follow_helpers_accept(helpers);
    assert_true(uma_follow_helpers_has(helpers, getpid()));
    assert_false(uma_follow_helpers_has(helpers, getpid() + 1));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve, &helper), 0);
    struct uma_address_range ranges[100];
    for (size_t i = 0; i < 100; i++)
        ranges[i] = (struct uma_address_range){ i * 8192, i * 8192 + 4096 };
    assert_int_equal(uma_follow_helpers_page_out(helpers, getpid(), ranges, 100), 100 * 2048);
    assert_int_equal(uma_follow_helpers_page_out(helpers, getpid() + 1, ranges, 1), -ENOTCONN);
    helpers = uma_follow_helpers_close(helpers);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(helper.asked, 100 * 4096);
    assert_int_equal(helper.messages, 2); /* 64 ranges in one */
    (void)close(helper.fd);
    assert_int_equal(uma_follow_helpers_listen(folder, &helpers, NULL), 0);
}

static void test_a_wrong_answer_ends_it(void **state) {
    (void)state;
    struct helper helper = { .fd = greeting_helper(UMA_WINDOW_VERSION), .wrong = true };
    uma_follow_helpers_accept(helpers);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve, &helper), 0);
    struct uma_address_range range = { 0, 4096 };
    assert_int_equal(uma_follow_helpers_page_out(helpers, getpid(), &range, 1), -ENOTCONN);
    assert_false(uma_follow_helpers_has(helpers, getpid()));
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(helper.fd);
}

static void test_who_does_not_greet_is_not_asked(void **state) {
    (void)state;
    int silent = connect_helper(), other = greeting_helper(UMA_WINDOW_VERSION + 1);
    uma_follow_helpers_accept(helpers);
    assert_false(uma_follow_helpers_has(helpers, getpid()));
    struct uma_address_range range = { 0, 4096 };
    assert_int_equal(uma_follow_helpers_page_out(helpers, getpid(), &range, 1), -ENOTCONN);
    (void)close(silent);
    (void)close(other);
    uma_follow_helpers_accept(helpers);
}

static void test_a_helper_that_vanished(void **state) {
    (void)state;
    int fd = greeting_helper(UMA_WINDOW_VERSION);
    uma_follow_helpers_accept(helpers);
    assert_true(uma_follow_helpers_has(helpers, getpid()));
    (void)close(fd);
    struct uma_address_range range = { 0, 4096 };
    assert_int_equal(uma_follow_helpers_page_out(helpers, getpid(), &range, 1), -ENOTCONN);
    assert_false(uma_follow_helpers_has(helpers, getpid()));
}

/* A job that starts compilers one after the other; each is gone before the next. */
static void test_short_lived_helpers_take_no_place(void **state) {
    (void)state;
    for (int i = 0; i < 1100; i++) {
        (void)close(greeting_helper(UMA_WINDOW_VERSION));
        if (i % 50 == 0) /* fewer than may wait */
            uma_follow_helpers_accept(helpers);
    }
    int fd = greeting_helper(UMA_WINDOW_VERSION);
    uma_follow_helpers_accept(helpers);
    assert_true(uma_follow_helpers_has(helpers, getpid()));
    (void)close(fd);
    uma_follow_helpers_accept(helpers);
    assert_false(uma_follow_helpers_has(helpers, getpid()));
}

/* What comes unasked would be taken for the answer to the next request. */
static void test_a_helper_that_speaks_unasked_is_dropped(void **state) {
    (void)state;
    int fd = greeting_helper(UMA_WINDOW_VERSION);
    uma_follow_helpers_accept(helpers);
    assert_true(uma_follow_helpers_has(helpers, getpid()));
    struct uma_window_hello hello = { UMA_WINDOW_VERSION, getpid() };
    assert_int_equal(send(fd, &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    uma_follow_helpers_accept(helpers);
    assert_false(uma_follow_helpers_has(helpers, getpid()));
    (void)close(fd);
}

static void test_no_place_for_a_socket(void **state) {
    (void)state;
    struct uma_follow_helpers *other = NULL;
    struct uma_error err;
    char longer[200];
    (void)memset(longer, 'x', sizeof longer - 1);
    longer[0] = '/';
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(uma_follow_helpers_listen(longer, &other, &err), -ENAMETOOLONG);
    assert_int_equal(uma_follow_helpers_listen("/nowhere", &other, &err), -ENOENT);
    assert_int_equal(uma_follow_helpers_listen(folder, &other, &err), -EADDRINUSE);
    assert_null(other);
    assert_null(uma_follow_helpers_close(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_helper_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_wrong_answer_ends_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_does_not_greet_is_not_asked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_helper_that_vanished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_short_lived_helpers_take_no_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_helper_that_speaks_unasked_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_place_for_a_socket, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
