/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "base/units.h"
#include "plan/model/folder.h"

static void test_open(void **state) {
    (void)state;
    char *folder = files_folder();
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
    uint64_t size = 0;
    struct uma_error err = { 0 };
    (void)files_text(folder, "there", "abc");
    assert_int_equal(uma_folder_open_file(at, "there", "DIR/there", &fd, &size, &err), 0);
    assert_int_equal(size, 3);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    (void)close(fd);
    fd = -5;
    assert_int_equal(uma_folder_open_file(at, "gone", "DIR/gone", &fd, &size, &err), -ENOENT);
    assert_non_null(strstr(err.text, "DIR/gone"));
    assert_int_equal(fd, -5);
    /* a FIFO must not wait for a writer; a device is not read */
    assert_int_equal(mkfifo(files_path(folder, "fifo"), 0600), 0);
    assert_int_equal(uma_folder_open_file(at, "fifo", "DIR/fifo", &fd, &size, &err), -EINVAL);
    assert_non_null(strstr(err.text, "not a regular file"));
    assert_int_equal(uma_folder_open_file(AT_FDCWD, "/dev/zero", "/dev/zero", &fd, &size, &err), -EINVAL);
    assert_int_equal(uma_folder_open_file(AT_FDCWD, folder, folder, &fd, &size, &err), -EISDIR);
    /* links are followed; to themselves, or to nothing, they are errors */
    assert_int_equal(symlink("there", files_path(folder, "link")), 0);
    assert_int_equal(uma_folder_open_file(at, "link", "DIR/link", &fd, &size, &err), 0);
    (void)close(fd);
    assert_int_equal(symlink("loop", files_path(folder, "loop")), 0);
    assert_int_equal(uma_folder_open_file(at, "loop", "DIR/loop", &fd, &size, &err), -ELOOP);
    assert_int_equal(symlink("../../blobs/0", files_path(folder, "broken")), 0);
    assert_int_equal(uma_folder_open_file(at, "broken", "DIR/broken", &fd, &size, &err), -ENOENT);
    assert_non_null(strstr(err.text, "a link to a file that is not there"));
    (void)close(at);
    files_remove(folder);
}

static void test_read(void **state) {
    (void)state;
    char *folder = files_folder();
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    const char *path = files_text(folder, "x", "abc");
    assert_int_equal(uma_folder_read_file(AT_FDCWD, path, path, 3, &text, &err), 0);
    assert_string_equal(text.data, "abc");
    assert_int_equal(uma_folder_read_file(AT_FDCWD, path, path, 2, &text, &err), -EFBIG);
    path = files_text(folder, "empty", "");
    assert_int_equal(uma_folder_read_file(AT_FDCWD, path, path, 2, &text, &err), 0);
    assert_string_equal(text.data, "");
    /* 5 GB that are a hole: refused by their size, at once */
    path = files_write(folder, "huge", "{", 1, UINT64_C(5) << 30);
    int64_t start = uma_monotonic_ns();
    assert_int_equal(uma_folder_read_file(AT_FDCWD, path, path, UMA_FOLDER_TEXT_MAX, &text, &err), -EFBIG);
    assert_true(uma_monotonic_ns() - start < UMA_SECOND_NS);
    assert_non_null(strstr(err.text, "huge: 5368709120 bytes; at most"));
    files_remove(folder);
}

static void test_path(void **state) {
    (void)state;
    static const char *const cases[][3] = { { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "/", "b", "/b" }, { ".", "b/c", "./b/c" } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        char *path = uma_folder_path(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        free(path);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_open), cmocka_unit_test(test_read), cmocka_unit_test(test_path) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
