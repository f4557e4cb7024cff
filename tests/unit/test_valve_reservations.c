/* SPDX-License-Identifier: MIT */
#include "valve/reservations.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static struct uma_reservations good(void) {
    struct uma_reservations all = { .head = { .magic = UMA_RESERVATIONS_MAGIC, .size = sizeof(all), .n_used = 2 } };
    all.claims[0] = (struct uma_reservation){ .id = 7, .reserved = 100, .taken = 40, .name = "a" };
    all.claims[1] = (struct uma_reservation){ .id = 8, .reserved = 100, .taken = 140, .name = "b" };
    return all;
}

static void checked(void **state) {
    (void)state;
    struct uma_reservations all = good();
    assert_true(uma_reservations_check(&all, sizeof(all)));
    assert_int_equal(uma_reservation_unspent(&all.claims[0]), 60);
    assert_int_equal(uma_reservation_unspent(&all.claims[1]), 0); /* more than it said: nothing is owed */
    all.claims[0].id = 0;
    assert_int_equal(uma_reservation_unspent(&all.claims[0]), 0);
    all.head.n_used = UINT32_MAX; /* of hostile hands */
    (void)memset(all.claims[1].name, 'x', sizeof(all.claims[1].name));
    assert_true(uma_reservations_check(&all, sizeof(all)));
    assert_int_equal(all.head.n_used, UMA_CLAIMS_MAX);
    assert_int_equal(strlen(all.claims[1].name), UMA_CLAIM_NAME_MAX - 1);
    assert_true(uma_reservations_check(&all, sizeof(all.head) + 3 * sizeof(all.claims[0]) - 1)); /* only what was read counts */
    assert_int_equal(all.head.n_used, 2);
    assert_false(uma_reservations_check(&all, sizeof(all.head) - 1));
    all.head.size--;
    assert_false(uma_reservations_check(&all, sizeof(all)));
    all = good();
    all.head.magic++;
    assert_false(uma_reservations_check(&all, sizeof(all)));
}

static int file_of(const struct uma_reservations *all, size_t size) {
    int fd = memfd_create("register", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, all, size), size);
    return fd;
}

static void read_whole_and_cut(void **state) {
    (void)state;
    struct uma_reservations all = good(), got;
    for (uint32_t n = 0; n <= UMA_CLAIMS_MAX; n += 1 + n / 4) {
        all.head.n_used = n;
        if (n)
            all.claims[n - 1] = (struct uma_reservation){ .id = 100 + n, .reserved = n };
        int fd = file_of(&all, sizeof(all));
        (void)memset(&got, 0xee, sizeof(got));
        assert_true(uma_reservations_read(fd, &got));
        assert_int_equal(got.head.n_used, n);
        if (n)
            assert_int_equal(got.claims[n - 1].id, 100 + n);
        (void)close(fd);
    }
    all.head.n_used = 200;
    int fd = file_of(&all, sizeof(all.head) + 20 * sizeof(all.claims[0])); /* cut short after it was looked at */
    assert_false(uma_reservations_read(fd, &got));
    (void)close(fd);
    fd = file_of(&all, 100);
    assert_false(uma_reservations_read(fd, &got));
    (void)close(fd);
    assert_false(uma_reservations_read(-1, &got));
}

static void accepted(void **state) {
    (void)state;
    struct uma_reservations all = good();
    const char *why;
    char folder[] = "/tmp/umactl-test-XXXXXX", name[64], other[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(name, sizeof(name), "%s/r", folder);
    (void)snprintf(other, sizeof(other), "%s/s", folder);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, &all, sizeof(all)), sizeof(all));
    assert_true(uma_reservations_accept(fd, (uint32_t)geteuid(), &why));
    assert_null(why);
    assert_false(uma_reservations_accept(fd, (uint32_t)geteuid() + 1, &why));
    assert_non_null(strstr(why, "another user"));
    assert_int_equal(link(name, other), 0);
    assert_false(uma_reservations_accept(fd, (uint32_t)geteuid(), &why));
    assert_int_equal(unlink(other), 0);
    assert_int_equal(ftruncate(fd, sizeof(all) + 1), 0);
    assert_false(uma_reservations_accept(fd, (uint32_t)geteuid(), &why));
    (void)close(fd);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkfifo(name, 0600), 0);
    fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_false(uma_reservations_accept(fd, (uint32_t)geteuid(), &why));
    assert_non_null(strstr(why, "plain"));
    (void)close(fd);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void lives_while_held(void **state) {
    (void)state;
    struct uma_reservations all = good();
    char path[64];
    int owner = file_of(&all, sizeof(all));
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", owner);
    int reader = open(path, O_RDONLY | O_CLOEXEC); /* cannot write, and asks all the same */
    assert_true(reader >= 0);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = UMA_CLAIM_LOCKS + 1, .l_len = 1 };
    assert_false(uma_reservation_lives(reader, 1));
    assert_int_equal(fcntl(owner, F_OFD_SETLK, &lock), 0);
    assert_true(uma_reservation_lives(reader, 1));
    assert_false(uma_reservation_lives(reader, 0));
    assert_false(uma_reservation_lives(reader, 2));
    (void)close(owner);
    assert_false(uma_reservation_lives(reader, 1));
    /* somebody who may only read the file keeps no dead claim alive */
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", reader);
    int other = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(other >= 0);
    lock.l_type = F_RDLCK;
    assert_int_equal(fcntl(other, F_OFD_SETLK, &lock), 0);
    assert_false(uma_reservation_lives(reader, 1));
    (void)close(other);
    (void)close(reader);
}

static void own_claims(void **state) {
    (void)state;
    uint64_t own[UMA_OWN_CLAIMS_MAX];
    assert_int_equal(uma_own_claims_parse(NULL, own), 0);
    assert_int_equal(uma_own_claims_parse("", own), 0);
    assert_int_equal(uma_own_claims_parse("0", own), 0);
    assert_int_equal(uma_own_claims_parse("x", own), 0);
    assert_int_equal(uma_own_claims_parse("ffffffffffffffff,00000000000000a1", own), 2);
    assert_true(own[0] == UINT64_MAX && own[1] == 0xa1);
    assert_int_equal(uma_own_claims_parse("11112222333344445", own), 0); /* too long to be one */
    assert_int_equal(uma_own_claims_parse("a,,b", own), 1);
    assert_int_equal(uma_own_claims_parse("a,b c", own), 1);
    assert_int_equal(uma_own_claims_parse("1,2,3,4,5,6,7,8,9,a", own), UMA_OWN_CLAIMS_MAX);
    assert_true(uma_own_claims_have(own, 8, 8) && !uma_own_claims_have(own, 8, 9) && !uma_own_claims_have(own, 0, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked),          cmocka_unit_test(read_whole_and_cut), cmocka_unit_test(accepted),
        cmocka_unit_test(lives_while_held), cmocka_unit_test(own_claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
