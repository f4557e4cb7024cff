/* SPDX-License-Identifier: MIT */
#include "valve/reserved.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static char folder[] = "/tmp/umactl-test-XXXXXX", path[96];
static struct uma_valve_reserved reserved;

static int begin(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/" UMA_RESERVATIONS_NAME "%u", folder, (unsigned)geteuid());
    (void)setenv(UMA_RESERVATIONS_FOLDER_VARIABLE, folder, 1);
    (void)unsetenv(UMA_RESERVATION_VARIABLE);
    (void)memset(&reserved, 0, sizeof(reserved));
    return 0;
}

static int end(void **state) {
    (void)state;
    for (unsigned i = 0; i < reserved.n_registers; i++)
        if (reserved.registers[i].fd >= 0)
            (void)close(reserved.registers[i].fd);
    (void)unlink(path);
    return rmdir(folder);
}

/* A claim in slot `slot`, held by who has the descriptor open. */
static int claim(unsigned slot, uint64_t id, uint64_t bytes, uint64_t taken) {
    struct uma_reservations all = { .head = { .magic = UMA_RESERVATIONS_MAGIC, .size = sizeof(all), .n_used = slot + 1 } };
    struct uma_reservation c = { .id = id, .reserved = bytes, .taken = taken };
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = UMA_CLAIM_LOCKS + (off_t)slot, .l_len = 1 };
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    if (st.st_size == 0)
        assert_int_equal(pwrite(fd, &all, sizeof(all), 0), sizeof(all));
    assert_int_equal(pwrite(fd, &all.head, sizeof(all.head), 0), sizeof(all.head));
    assert_int_equal(pwrite(fd, &c, sizeof(c), (off_t)offsetof(struct uma_reservations, claims[slot])), sizeof(c));
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
    return fd;
}

/* As after a second. */
static void later(void) {
    reserved.asked_ns = 1;
}

static void appears_and_goes(void **state) {
    (void)state;
    uma_valve_reserved_begin(&reserved);
    assert_int_equal(uma_valve_reserved(&reserved), 0);
    int a = claim(0, 1, 100, 30);
    later();
    assert_int_equal(uma_valve_reserved(&reserved), 70);
    int b = claim(1, 2, 1000, 0);
    assert_int_equal(uma_valve_reserved(&reserved), 1070); /* at once: the register is open, and this one is new */
    uint64_t taken = 400;
    assert_int_equal(pwrite(b, &taken, sizeof(taken), (off_t)offsetof(struct uma_reservations, claims[1].taken)), sizeof(taken));
    assert_int_equal(uma_valve_reserved(&reserved), 670);
    (void)close(b); /* its owner is gone */
    later();
    assert_int_equal(uma_valve_reserved(&reserved), 70);
    (void)close(a);
    later();
    assert_int_equal(uma_valve_reserved(&reserved), 0);
}

static void own_are_not_others(void **state) {
    (void)state;
    (void)setenv(UMA_RESERVATION_VARIABLE, "00000000000000aa,bb", 1);
    uma_valve_reserved_begin(&reserved);
    int a = claim(0, 0xaa, 100, 0), b = claim(1, 0xbb, 200, 0), c = claim(2, 0xcc, 400, 0);
    assert_int_equal(uma_valve_reserved(&reserved), 400);
    (void)close(a);
    (void)close(b);
    (void)close(c);
}

static void sums_do_not_wrap(void **state) {
    (void)state;
    uma_valve_reserved_begin(&reserved);
    int a = claim(0, 1, UINT64_MAX, 0), b = claim(1, 2, 5, 0);
    assert_true(uma_valve_reserved(&reserved) == UINT64_MAX);
    (void)close(a);
    (void)close(b);
}

static void made_anew(void **state) {
    (void)state;
    int a = claim(0, 1, 100, 0);
    uma_valve_reserved_begin(&reserved);
    assert_int_equal(uma_valve_reserved(&reserved), 100);
    assert_int_equal(unlink(path), 0);
    int b = claim(0, 2, 7, 0);
    later();
    assert_int_equal(uma_valve_reserved(&reserved), 7);
    (void)close(a);
    (void)close(b);
}

/* A program that writes its title over its environment, as setproctitle does. */
static void environment_written_over(void **state) {
    (void)state;
    char before[256], *named = getenv(UMA_RESERVATIONS_FOLDER_VARIABLE);
    assert_non_null(named);
    (void)snprintf(before, sizeof(before), "%s", named);
    int a = claim(0, 1, 100, 0);
    uma_valve_reserved_begin(&reserved);
    (void)memset(named, 'x', strlen(named));
    assert_int_equal(uma_valve_reserved(&reserved), 100);
    (void)setenv(UMA_RESERVATIONS_FOLDER_VARIABLE, before, 1);
    (void)close(a);
}

static void folder_too_long(void **state) {
    (void)state;
    char before[256], long_one[UMA_VALVE_RESERVED_FOLDER + 1];
    (void)snprintf(before, sizeof(before), "%s", getenv(UMA_RESERVATIONS_FOLDER_VARIABLE));
    (void)memset(long_one, 'x', sizeof(long_one) - 1);
    long_one[sizeof(long_one) - 1] = '\0';
    (void)setenv(UMA_RESERVATIONS_FOLDER_VARIABLE, long_one, 1);
    uma_valve_reserved_begin(&reserved);
    assert_int_equal(uma_valve_reserved(&reserved), 0);
    (void)setenv(UMA_RESERVATIONS_FOLDER_VARIABLE, before, 1);
}

/* A program that closes all it has open, and opens a file of its own, keeps its file. */
static void descriptor_taken_away(void **state) {
    (void)state;
    int a = claim(0, 1, 100, 0);
    uma_valve_reserved_begin(&reserved);
    assert_int_equal(uma_valve_reserved(&reserved), 100);
    int number = reserved.registers[0].fd, own = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(dup2(own, number), number);
    assert_int_equal(uma_valve_reserved(&reserved), 100);
    assert_int_not_equal(reserved.registers[0].fd, number);
    assert_true(fcntl(number, F_GETFD) >= 0);
    (void)close(number);
    (void)close(own);
    (void)close(a);
}

static void what_is_no_register(void **state) {
    (void)state;
    char elsewhere[112];
    int a = claim(0, 1, 100, 0);
    (void)snprintf(elsewhere, sizeof(elsewhere), "%s.moved", path);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0); /* is not followed */
    uma_valve_reserved_begin(&reserved);
    assert_int_equal(uma_valve_reserved(&reserved), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0); /* and nobody waits for its other end */
    later();
    assert_int_equal(uma_valve_reserved(&reserved), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(elsewhere, path), 0);
    later();
    assert_int_equal(uma_valve_reserved(&reserved), 100);
    assert_int_equal(ftruncate(a, 10), 0); /* cut short while it is in use: no signal, no bytes */
    assert_int_equal(uma_valve_reserved(&reserved), 0);
    if (geteuid() == 0) {
        assert_int_equal(unlink(path), 0);
        (void)close(a);
        a = claim(0, 1, 100, 0);
        assert_int_equal(fchown(a, 12345, (gid_t)-1), 0); /* a squatter's */
        later();
        assert_int_equal(uma_valve_reserved(&reserved), 0);
    }
    (void)close(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(appears_and_goes, begin, end),
        cmocka_unit_test_setup_teardown(own_are_not_others, begin, end),
        cmocka_unit_test_setup_teardown(sums_do_not_wrap, begin, end),
        cmocka_unit_test_setup_teardown(made_anew, begin, end),
        cmocka_unit_test_setup_teardown(descriptor_taken_away, begin, end),
        cmocka_unit_test_setup_teardown(environment_written_over, begin, end),
        cmocka_unit_test_setup_teardown(folder_too_long, begin, end),
        cmocka_unit_test_setup_teardown(what_is_no_register, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
