/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/standard_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* In a child, because the descriptors of the test are its own output: bit i of `closed` closes descriptor i. 0: all is as it should be. */
static int in_child(unsigned closed) {
    struct stat before[3], after;
    char byte = 'x';
    for (int fd = 0; fd < 3; fd++) {
        if (closed & 1u << fd)
            (void)close(fd);
        else if (fstat(fd, &before[fd]) < 0)
            return 1;
    }
    uma_standard_files_guard();
    int file = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (file < 3)
        return 2; /* it took the place of a standard one */
    for (int fd = 0; fd < 3; fd++) {
        if (closed & 1u << fd) {
            if (read(fd, &byte, 1) >= 0 || errno != EBADF || write(fd, &byte, 1) >= 0 || errno != EBADF)
                return 3;
            if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC))
                return 4; /* a job of `run` would find it open */
        } else if (fstat(fd, &after) < 0 || after.st_ino != before[fd].st_ino || after.st_dev != before[fd].st_dev ||
                   fcntl(fd, F_GETFD) & FD_CLOEXEC) {
            return 5;
        }
    }
    return 0;
}

static void guard(void **state) {
    (void)state;
    for (unsigned closed = 0; closed < 8; closed++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(in_child(closed));
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(guard) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
