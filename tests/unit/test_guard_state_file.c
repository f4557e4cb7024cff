/* SPDX-License-Identifier: MIT */
#include "guard/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static char folder[64], path[96];
static struct uma_guard_actor written, got;
static struct uma_guard_state state_written, state_got;

static int begin(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/state", folder);
    memset(&written, 0, sizeof(written));
    memset(&state_written, 0, sizeof(state_written));
    return 0;
}

static int end(void **state) {
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static bool read_again(void) {
    struct uma_guard_state_file file;
    memset(&got, 0, sizeof(got));
    memset(&state_got, 0, sizeof(state_got));
    assert_int_equal(uma_guard_state_open(&file, path), 0);
    bool fine = uma_guard_state_read(&file, &state_got, &got);
    uma_guard_state_close(&file);
    return fine;
}

static void write_times(unsigned times) {
    struct uma_guard_state_file file;
    assert_int_equal(uma_guard_state_open(&file, path), 0);
    (void)uma_guard_state_read(&file, &state_got, &got);
    for (unsigned i = 1; i <= times; i++) {
        state_written.victim = (int32_t)i;
        written.stopped.n = i;
        written.stopped.list[i - 1] = (struct uma_guard_held){ .pid = (int32_t)(100 + i), .root = 100, .start = i };
        assert_int_equal(uma_guard_state_write(&file, &state_written, &written, 1), 0);
    }
    uma_guard_state_close(&file);
}

static void a_new_file_has_nothing(void **state) {
    struct stat info;
    (void)state;
    assert_false(read_again());
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_true(info.st_blocks > 0); /* it has its room */
}

static void the_newest_is_read(void **state) {
    (void)state;
    write_times(5);
    assert_true(read_again());
    assert_int_equal(state_got.victim, 5);
    assert_int_equal(got.stopped.n, 5);
    assert_int_equal(got.stopped.list[4].pid, 105);
    write_times(2); /* numbers go on */
    assert_true(read_again());
    assert_int_equal(state_got.victim, 2);
}

static void spoil(off_t at) {
    char c;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c = (char)(c ^ 1);
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
    (void)close(fd);
}

static off_t place_of(unsigned number) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (off_t)(number % 2) * (info.st_size / 2);
}

static void one_that_is_cut_gives_way_to_the_one_before(void **state) {
    (void)state;
    write_times(5);
    spoil(place_of(5) + (off_t)offsetof(struct uma_guard_state_head, state));
    assert_true(read_again());
    assert_int_equal(state_got.victim, 4);
    assert_int_equal(got.stopped.n, 4);
    spoil(place_of(4) + (off_t)sizeof(struct uma_guard_state_head)); /* its list */
    assert_false(read_again());
    assert_int_equal(got.stopped.n, 0);
}

static void another_boots_or_a_dry_runs_is_none(void **state) {
    struct uma_guard_state_file file;
    (void)state;
    assert_int_equal(uma_guard_state_open(&file, path), 0);
    file.boot[3] ^= 1;
    assert_int_equal(uma_guard_state_write(&file, &state_written, &written, 1), 0);
    uma_guard_state_close(&file);
    assert_false(read_again());
    assert_int_equal(uma_guard_state_open(&file, path), 0);
    written.dry_run = true;
    file.number = 1;
    assert_int_equal(uma_guard_state_write(&file, &state_written, &written, 1), 0);
    uma_guard_state_close(&file);
    assert_false(read_again());
}

static void a_file_that_others_may_write_is_none(void **state) {
    struct uma_guard_state_file file;
    (void)state;
    write_times(1);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(uma_guard_state_open(&file, path), -EPERM);
    assert_int_equal(file.fd, -1);
    assert_int_equal(uma_guard_state_write(&file, &state_written, &written, 1), 0); /* nothing */
    (void)unlink(path);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(uma_guard_state_open(&file, path), -ELOOP);
}

static void heads_are_checked(void **state) {
    struct uma_guard_state_head head = { 0 };
    (void)state;
    assert_false(uma_guard_state_head_fine(&head, 1 << 20));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_file_has_nothing, begin, end),
        cmocka_unit_test_setup_teardown(the_newest_is_read, begin, end),
        cmocka_unit_test_setup_teardown(one_that_is_cut_gives_way_to_the_one_before, begin, end),
        cmocka_unit_test_setup_teardown(another_boots_or_a_dry_runs_is_none, begin, end),
        cmocka_unit_test_setup_teardown(a_file_that_others_may_write_is_none, begin, end),
        cmocka_unit_test(heads_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
