/* SPDX-License-Identifier: MIT */
#include "guard/declared.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "folder.h"
#include "job/claim.h"

#define SECOND INT64_C(1000000000)

static struct uma_guard_declared declared;

static const struct uma_guard_envelope *of_pid(int32_t pid) {
    for (uint32_t i = 0; i < declared.n; i++)
        if (declared.list[i].pid == pid)
            return &declared.list[i];
    return NULL;
}

static void name_of(const struct folder *f, char path[256]) {
    (void)snprintf(path, 256, "%s/umactl-reservations-%u", f->path, (unsigned)geteuid());
}

/* As umactl makes them. */
static void a_job_that_claims(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct uma_claim *claim = NULL, *second = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(folder_new(&f), 0);
    uma_guard_declared_open(&declared, f.path);
    uma_guard_declared_read(&declared, SECOND);
    assert_int_equal(declared.n, 0);
    assert_int_equal(uma_claim_open(f.path, &claim, &err), 0);
    assert_int_equal(uma_claim_lock(claim, &err), 0);
    assert_int_equal(uma_claim_make(claim, 5000, "job", &err), 0);
    uma_claim_unlock(claim);
    uma_guard_declared_read(&declared, SECOND + 1); /* not looked for yet */
    assert_int_equal(declared.n, 0);
    uma_guard_declared_read(&declared, 2 * SECOND);
    assert_int_equal(declared.n, 1);
    assert_true(declared.list[0].pid == (int32_t)getpid() && declared.list[0].need == 5000 && declared.list[0].taken == 0);
    assert_true(declared.list[0].id != 0 && declared.uids[0] == (uint32_t)geteuid());
    /* another one in the same register is there at once */
    assert_int_equal(uma_claim_open(f.path, &second, &err), 0);
    assert_int_equal(uma_claim_lock(second, &err), 0);
    assert_int_equal(uma_claim_make(second, 7000, "other", &err), 0);
    uma_claim_unlock(second);
    uma_guard_declared_read(&declared, 2 * SECOND + 1);
    assert_int_equal(declared.n, 2);
    /* removed while jobs run: they count, and the register goes with the last of them */
    char path[256];
    name_of(&f, path);
    assert_int_equal(unlink(path), 0);
    claim = uma_claim_close(claim);
    uma_guard_declared_read(&declared, 4 * SECOND);
    assert_int_equal(declared.n, 1);
    assert_int_equal(declared.list[0].need, 7000);
    second = uma_claim_close(second);
    uma_guard_declared_read(&declared, 6 * SECOND);
    assert_int_equal(declared.n, 0);
    assert_int_equal(declared.n_registers, 0);
    uma_guard_declared_close(&declared);
}

static int make_register(const struct folder *f, const struct uma_reservations *all, size_t size) {
    char path[256];
    name_of(f, path);
    (void)unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, all, size), size);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = UMA_CLAIM_LOCKS, .l_len = UMA_CLAIMS_MAX };
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0); /* all of them live */
    return fd;
}

static void hostile_registers(void **state) {
    (void)state;
    static struct uma_reservations all;
    _cleanup_folder_ struct folder f = { 0 };
    char path[256];
    assert_int_equal(folder_new(&f), 0);
    all.head = (struct uma_reservations_head){ .magic = UMA_RESERVATIONS_MAGIC, .size = sizeof(all), .n_used = UINT32_MAX };
    for (uint32_t i = 0; i < UMA_CLAIMS_MAX; i++)
        all.claims[i] = (struct uma_reservation){ .id = i + 1, .reserved = i + 1, .pid = 1000 + i };
    all.claims[UMA_CLAIMS_MAX - 1].reserved = UINT64_MAX;
    all.claims[UMA_CLAIMS_MAX - 2].pid = UINT32_MAX; /* no number of a process */
    all.claims[UMA_CLAIMS_MAX - 3].pid = 0;
    int fd = make_register(&f, &all, sizeof(all));
    uma_guard_declared_open(&declared, f.path);
    uma_guard_declared_read(&declared, SECOND);
    assert_int_equal(declared.n, UMA_GUARD_USER_ENVELOPES); /* his largest */
    assert_non_null(of_pid(1000 + UMA_CLAIMS_MAX - 1));
    assert_null(of_pid(1000));
    for (uint32_t i = 0; i < declared.n; i++)
        assert_true(declared.list[i].need > UMA_CLAIMS_MAX - 3 - UMA_GUARD_USER_ENVELOPES);
    /* cut short while it is open */
    assert_int_equal(ftruncate(fd, 100), 0);
    uma_guard_declared_read(&declared, SECOND + 1);
    assert_int_equal(declared.n, 0);
    assert_int_equal(declared.n_registers, 0);
    (void)close(fd);
    uma_guard_declared_close(&declared);

    static const size_t sizes[] = { 0, 1, 64, sizeof(all) - 1 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        fd = make_register(&f, &all, sizes[i]);
        uma_guard_declared_open(&declared, f.path);
        uma_guard_declared_read(&declared, SECOND);
        assert_int_equal(declared.n, 0);
        uma_guard_declared_close(&declared);
        (void)close(fd);
    }
    /* another user's name, a link, a pipe, a folder */
    name_of(&f, path);
    fd = make_register(&f, &all, sizeof(all));
    char other[300];
    (void)snprintf(other, sizeof(other), "%s/umactl-reservations-%u", f.path, (unsigned)geteuid() + 1);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    (void)snprintf(other, sizeof(other), "%s/umactl-reservations-77777", f.path);
    assert_int_equal(mkfifo(other, 0600), 0);
    (void)snprintf(other, sizeof(other), "%s/umactl-reservations-77778", f.path);
    assert_int_equal(mkdir(other, 0700), 0);
    uma_guard_declared_open(&declared, f.path);
    uma_guard_declared_read(&declared, SECOND);
    assert_int_equal(declared.n_registers, 0);
    (void)close(fd);
    uma_guard_declared_close(&declared);
    uma_guard_declared_open(&declared, "/nowhere/at/all");
    uma_guard_declared_read(&declared, SECOND);
    assert_int_equal(declared.n, 0);
    uma_guard_declared_close(&declared);
}

static bool always(void *userdata, unsigned slot) {
    return slot < *(unsigned *)userdata;
}

static void several_users_share_the_places(void **state) {
    (void)state;
    static struct uma_reservations all;
    unsigned live = 100;
    (void)memset(&declared, 0, sizeof(declared));
    all.head = (struct uma_reservations_head){ .magic = UMA_RESERVATIONS_MAGIC, .size = sizeof(all), .n_used = 200 };
    for (uint32_t i = 0; i < 200; i++)
        all.claims[i] = (struct uma_reservation){ .id = i + 1, .reserved = 1000 + i, .pid = 1000 + i };
    uma_guard_declared_take(&declared, &all, 1, always, &live);
    assert_int_equal(declared.n, UMA_GUARD_USER_ENVELOPES);
    uma_guard_declared_take(&declared, &all, 2, always, &live);
    assert_int_equal(declared.n, UMA_GUARD_ENVELOPES);
    for (uint32_t i = 0; i < declared.n; i++)
        assert_true(declared.list[i].need >= 1100 - UMA_GUARD_USER_ENVELOPES && declared.list[i].need < 1100);
    all.head.n_used = 1;
    all.claims[0].reserved = 5000;
    uma_guard_declared_take(&declared, &all, 3, always, &live);
    assert_int_equal(declared.n, UMA_GUARD_ENVELOPES);
    bool there = false;
    for (uint32_t i = 0; i < declared.n; i++)
        there |= declared.uids[i] == 3 && declared.list[i].need == 5000;
    assert_true(there);
}

static void names_of_registers(void **state) {
    (void)state;
    uint32_t uid = 7;
    static const char *const bad[] = { "",
                                       "umactl-reservations-",
                                       "umactl-reservations-01",
                                       "umactl-reservations-1x",
                                       "umactl-reservations--1",
                                       "umactl-reservations-4294967296",
                                       "xumactl-reservations-1" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(uma_guard_register_name(bad[i], strlen(bad[i]), &uid));
    assert_int_equal(uid, 7);
    assert_true(uma_guard_register_name("umactl-reservations-0", 21, &uid) && uid == 0);
    assert_true(uma_guard_register_name("umactl-reservations-4294967295", 30, &uid) && uid == UINT32_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_that_claims),
        cmocka_unit_test(hostile_registers),
        cmocka_unit_test(several_users_share_the_places),
        cmocka_unit_test(names_of_registers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
