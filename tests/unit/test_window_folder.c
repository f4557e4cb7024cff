/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "job/window_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char place[] = "/tmp/uma-place-XXXXXX";

static const char *in(const char *name) {
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", place, name);
    return path;
}

static bool is_there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

static void put_socket(const char *path) {
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)close(fd);
}

static void put_file(const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

static struct uma_window_folder make(void) {
    struct uma_window_folder folder = { 0 };
    assert_int_equal(uma_window_folder_make(&folder, NULL), 0);
    assert_int_equal(strncmp(folder.path, place, strlen(place)), 0);
    return folder;
}

static int setup(void **state) {
    (void)state;
    (void)strcpy(place, "/tmp/uma-place-XXXXXX");
    return !mkdtemp(place) || unsetenv("XDG_RUNTIME_DIR") || setenv("TMPDIR", place, 1);
}

static int teardown(void **state) {
    (void)state;
    return rmdir(place); /* every case leaves it empty */
}

static void what_a_killed_run_left_goes_and_what_a_living_one_has_stays(void **state) {
    (void)state;
    struct stat st;
    char socket_path[128];
    struct uma_window_folder lives = make();
    assert_int_equal(stat(lives.path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    struct uma_window_folder killed = make();
    (void)snprintf(socket_path, sizeof(socket_path), "%s/helpers", killed.path);
    put_socket(socket_path);
    (void)close(killed.lock_fd); /* as the kernel does */

    struct uma_window_folder next = make();
    assert_true(is_there(lives.path));
    assert_false(is_there(killed.path));
    uma_window_folder_remove(&next);
    uma_window_folder_remove(&lives);
    assert_false(is_there(in("umactl-window-")));
    assert_string_equal(lives.path, "");
    uma_window_folder_remove(&lives); /* once more is nothing */
}

static void nothing_else_is_touched(void **state) {
    (void)state;
    static const char *const folders[] = { "umactl-window-abcdefg", "umactl-window-abcde",  "umactl-other-abcdef",
                                           "umactl-window-opened",  "umactl-window-filled", "umactl-window-sock_f" };
    static const mode_t modes[] = { 0700, 0700, 0700, 0755, 0700, 0700 };
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(mkdir(in(folders[i]), 0700), 0);
        assert_int_equal(chmod(in(folders[i]), modes[i]), 0);
    }
    put_file(in("umactl-window-filled/mine"));
    put_file(in("umactl-window-sock_f/helpers")); /* no socket */
    put_file(in("umactl-window-a_file"));
    assert_int_equal(mkdir(in("target"), 0700), 0);
    put_socket(in("target/helpers"));
    assert_int_equal(symlink("target", in("umactl-window-a_link")), 0);

    struct uma_window_folder folder = make();
    for (size_t i = 0; i < 6; i++)
        assert_true(is_there(in(folders[i])));
    static const char *const others[] = { "umactl-window-filled/mine", "umactl-window-sock_f/helpers", "umactl-window-a_file",
                                          "target/helpers", "umactl-window-a_link" };
    for (size_t i = 0; i < 5; i++) {
        assert_true(is_there(in(others[i])));
        assert_int_equal(unlink(in(others[i])), 0);
    }
    assert_int_equal(rmdir(in("target")), 0);
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(rmdir(in(folders[i])), 0);
    uma_window_folder_remove(&folder);
}

static void another_user_s_is_left_alone(void **state) {
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(in("umactl-window-nobody"), 0700), 0);
    assert_int_equal(chown(in("umactl-window-nobody"), 65534, 65534), 0);
    struct uma_window_folder folder = make();
    assert_true(is_there(in("umactl-window-nobody")));
    assert_int_equal(rmdir(in("umactl-window-nobody")), 0);
    uma_window_folder_remove(&folder);
}

static void many_are_removed_by_and_by(void **state) {
    (void)state;
    char name[64];
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "umactl-window-%06d", i);
        assert_int_equal(mkdir(in(name), 0700), 0);
    }
    struct uma_window_folder folder = make();
    int left = 0;
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "umactl-window-%06d", i);
        left += is_there(in(name));
    }
    assert_int_equal(left, 36);
    uma_window_folder_remove(&folder);
    folder = make();
    uma_window_folder_remove(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_killed_run_left_goes_and_what_a_living_one_has_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_else_is_touched, setup, teardown),
        cmocka_unit_test_setup_teardown(another_user_s_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(many_are_removed_by_and_by, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
