/* SPDX-License-Identifier: MIT */
/* More, with processes of all kinds, in tests/kernel/test_process_files.py. */
#include "test.h"

#include "base/units.h"
#include "observe/files/process_files.h"
#include "folder.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static void recorded_machine(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    folder_put(&f, "proc/1/maps", "1000-2000 r--p 00000000 fe:00 5 /x\n");
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(f.path, NULL, &root, NULL), 0);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    struct uma_used_files files = { .n = 77 };
    struct uma_error err = { 0 };
    assert_int_equal(uma_used_files_read(root, 0, arena, &files, &err), -EOPNOTSUPP);
    assert_true(files.n == 77 && strstr(err.text, f.path));
}

static void child_and_self(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(folder_new(&f), 0);
    folder_put(&f, "file", "content");
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/file", f.path);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    pid_t pid = fork(); /* it has the same file open */
    if (pid == 0) {
        (void)pause();
        _exit(0);
    }
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(NULL, NULL, &root, NULL), 0);
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(256 * UMA_MIB);
    struct uma_used_files files = { 0 }, late = { 0 };
    struct uma_error err = { 0 };
    int r = uma_used_files_read(root, 0, arena, &files, &err), r_late = uma_used_files_read(root, 1, arena, &late, &err);
    (void)kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(r == 0 && r_late == 0 && late.cut && late.n == 0 && !files.cut && files.processes > 0);
    size_t found = 0;
    for (size_t i = 0; i < files.n; i++) {
        const struct uma_used_file *file = &files.list[i];
        for (size_t k = 0; k < file->n_open_by; k++)
            assert_int_not_equal(file->open_by[k], getpid());
        if (file->device != st.st_dev || file->inode != st.st_ino)
            continue;
        found++;
        assert_true(file->n_open_by == 1 && file->open_by[0] == pid && file->n_mapped_by == 0 && file->size == 7);
    }
    assert_int_equal(found, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(recorded_machine), cmocka_unit_test(child_and_self) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
