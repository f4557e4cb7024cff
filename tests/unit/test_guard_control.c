/* SPDX-License-Identifier: MIT */
#include "guard/control.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static bool parse(const char *text, enum uma_guard_ask *ret_ask, int32_t *ret_pid) {
    return uma_guard_question_parse(text, strlen(text), ret_ask, ret_pid);
}

static void questions(void **state) {
    static const char *const none[] = { "",
                                        "stat",
                                        "statuses",
                                        "release0",
                                        "release ",
                                        "release  7",
                                        "release 0",
                                        "release -1",
                                        "release 7x",
                                        "release 7 8",
                                        "release 99999999999",
                                        "RELEASE",
                                        "quit" };
    enum uma_guard_ask ask;
    int32_t pid;
    (void)state;
    assert_true(parse("status", &ask, &pid) && ask == UMA_GUARD_ASK_STATUS);
    assert_true(parse("status\n", &ask, &pid) && ask == UMA_GUARD_ASK_STATUS);
    assert_true(parse("release", &ask, &pid) && ask == UMA_GUARD_ASK_RELEASE && pid == 0);
    assert_true(parse("release 4711\n", &ask, &pid) && ask == UMA_GUARD_ASK_RELEASE && pid == 4711);
    for (size_t i = 0; i < ELEMENTS(none); i++)
        if (strcmp(none[i], "release ") != 0 && parse(none[i], &ask, &pid)) /* that one is "release" and a blank */
            fail_msg("accepted: %s", none[i]);
}

static char folder[64], path[96], mine[96];

static int client(void) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)strcpy(address.sun_path, mine);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    (void)strcpy(address.sun_path, path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void a_question_is_answered(void **state) {
    struct uma_guard_question question;
    char text[256], large[1000] = { 0 };
    (void)state;
    SKIP_UNDER_EMULATION(); /* an emulator hands on descriptors whether there is room for them or not */
    int fd = uma_guard_control_open(path);
    assert_true(fd >= 0);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    int asking = client();
    assert_int_equal(uma_guard_control_read(fd, &question), 0); /* none */
    assert_int_equal(send(asking, "release 12", 10, 0), 10);
    assert_int_equal(uma_guard_control_read(fd, &question), 1);
    assert_int_equal(question.pid, 12);
    uma_guard_control_answer(fd, &question, "yes=1\n", 6);
    assert_int_equal(recv(asking, text, sizeof(text), MSG_DONTWAIT), 6);
    assert_int_equal(send(asking, "\xff\xfe", 2, 0), 2);
    assert_int_equal(send(asking, large, sizeof(large), 0), sizeof(large));
    assert_int_equal(uma_guard_control_read(fd, &question), 0);
    assert_true(recv(asking, text, sizeof(text), MSG_DONTWAIT) > 6);
    assert_memory_equal(text, "error=", 6);
    assert_int_equal(uma_guard_control_read(fd, &question), 0);
    /* descriptors that come along are not kept */
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
    memcpy(CMSG_DATA(&control.header), &asking, sizeof(asking));
    struct iovec part = { (void *)(uintptr_t) "status", 6 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.room) };
    assert_int_equal(sendmsg(asking, &message, 0), 6);
    int next = dup(0);
    (void)close(next);
    assert_int_equal(uma_guard_control_read(fd, &question), 1);
    int after = dup(0);
    (void)close(after);
    assert_int_equal(after, next);
    (void)close(asking);
    uma_guard_control_answer(fd, &question, "nobody\n", 7); /* gone: lost */
    (void)close(fd);
    (void)unlink(mine);
}

static void others_are_not_heard(void **state) {
    struct uma_guard_question question;
    (void)state;
    if (geteuid() != 0)
        SKIP_BECAUSE("another user can be tried only as root");
    int fd = uma_guard_control_open(path);
    assert_int_equal(chmod(path, 0777), 0); /* as if the mode did not say it */
    assert_int_equal(chmod(folder, 0777), 0);
    pid_t child = fork();
    if (child == 0) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int asking = socket(AF_UNIX, SOCK_DGRAM, 0);
        (void)strcpy(address.sun_path, path);
        if (setuid(65534) != 0 || sendto(asking, "release", 7, 0, (struct sockaddr *)&address, sizeof(address)) != 7)
            _exit(1);
        _exit(0);
    }
    int status;
    (void)waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(uma_guard_control_read(fd, &question), 0);
    (void)close(fd);
}

static int begin(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/control", folder);
    (void)snprintf(mine, sizeof(mine), "%s/control.1", folder);
    return 0;
}

static int end(void **state) {
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions),
        cmocka_unit_test_setup_teardown(a_question_is_answered, begin, end),
        cmocka_unit_test_setup_teardown(others_are_not_heard, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
