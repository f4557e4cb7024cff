/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "observe/files/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct folder folder;
static int at = -1;

static int set_up(void **state) {
    (void)state;
    if (folder_new(&folder) < 0)
        return -1;
    at = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(at, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    bool good = fd >= 0 && write(fd, "abc", 3) == 3 && close(fd) == 0 && mkdirat(at, "sub", 0700) == 0 && mkfifoat(at, "fifo", 0600) == 0 &&
                symlinkat("file", at, "link") == 0 && symlinkat("fifo", at, "link-to-fifo") == 0 &&
                symlinkat("gone", at, "dangling") == 0 && symlinkat("/dev/null", at, "link-to-device") == 0;
    return good ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    (void)close(at);
    folder_done(&folder);
    return 0;
}

static int result(const char *name, bool follow) {
    struct stat st = { .st_ino = 77 };
    int fd = uma_open_file_at(at, name, follow, &st);
    if (fd < 0) {
        assert_int_equal(st.st_ino, 77); /* left alone */
        return fd;
    }
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(st.st_size, 3);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(close(fd), 0);
    return 0;
}

static void regular(void **state) {
    (void)state;
    char whole[256];
    (void)snprintf(whole, sizeof(whole), "%s/file", folder.path);
    assert_int_equal(result("file", false), 0);
    assert_int_equal(result("file", true), 0);
    assert_int_equal(result("link", true), 0);
    assert_int_equal(result(whole, false), 0);
    int fd = uma_open_file_at(at, "file", false, NULL);
    assert_true(fd >= 0);
    /* the owner's own file: its time of last access is left alone */
    assert_int_equal(fcntl(fd, F_GETFL) & O_NOATIME, O_NOATIME);
    char magic[64];
    (void)snprintf(magic, sizeof(magic), "/proc/self/fd/%d", fd);
    assert_int_equal(result(magic, true), 0);
    assert_int_equal(result(magic, false), -ELOOP);
    assert_int_equal(close(fd), 0);
}

/* A FIFO nobody writes to would block, and opening a device may act on it. */
static void others(void **state) {
    (void)state;
    assert_int_equal(result("link", false), -ELOOP);
    assert_int_equal(result("fifo", false), -ENXIO);
    assert_int_equal(result("link-to-fifo", true), -ENXIO);
    assert_int_equal(result("link-to-device", true), -ENXIO);
    assert_int_equal(result("sub", false), -EISDIR);
    assert_int_equal(result("sub", true), -EISDIR);
    assert_int_equal(result("dangling", true), -ENOENT);
    assert_int_equal(result("gone", false), -ENOENT);
    assert_int_equal(result("file/x", false), -ENOTDIR);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/socket", at);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(result("socket", false), -ENXIO);
    assert_int_equal(close(s), 0);
}

/* What a walk holds already, without a name of its own. */
static void without_name(void **state) {
    (void)state;
    int held = openat(at, "file", O_PATH | O_CLOEXEC), fifo = openat(at, "fifo", O_PATH | O_CLOEXEC);
    struct stat st;
    int fd = uma_open_file_at(held, "", false, &st);
    assert_true(fd >= 0);
    char text[4] = "";
    assert_int_equal(read(fd, text, 3), 3);
    assert_string_equal(text, "abc");
    assert_int_equal(close(fd), 0);
    assert_int_equal(uma_open_file_at(fifo, "", false, NULL), -ENXIO);
    assert_int_equal(close(held), 0);
    assert_int_equal(close(fifo), 0);
    assert_int_equal(uma_open_file_at(-1, "", false, NULL), -EBADF);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular),
        cmocka_unit_test(others),
        cmocka_unit_test(without_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
