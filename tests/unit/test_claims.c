/* SPDX-License-Identifier: MIT */
#include "job/claim.h"
#include "job/claims.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static struct uma_claim_seen seen(uint64_t id, uint64_t reserved, uint64_t taken) {
    return (struct uma_claim_seen){ .id = id, .reserved = reserved, .taken = taken, .unspent = reserved - taken };
}

static void sums(void **state) {
    (void)state;
    struct uma_claim_seen list[] = { seen(1, 100, 40), seen(2, 1000, 0), seen(3, 5, 5) };
    struct uma_claims claims = { .n = 3, .list = list };
    assert_int_equal(uma_claims_unspent(&claims, UINT64_MAX), 1060);
    assert_int_equal(uma_claims_unspent(&claims, 500), 500); /* nobody reserves more than there is */
    list[1].own = true;
    assert_int_equal(uma_claims_unspent(&claims, UINT64_MAX), 60);
    list[1] = seen(2, UINT64_MAX, 0);
    assert_true(uma_claims_unspent(&claims, UINT64_MAX) == UINT64_MAX);
}

/* The machine was read between the two: whatever may not have shown in it is still to come. */
static void since(void **state) {
    (void)state;
    struct uma_claim_seen was[] = { seen(1, 100, 40), seen(2, 1000, 0), seen(3, 50, 50) },
                          is[] = { seen(1, 100, 90), seen(3, 50, 20), seen(4, 7, 7) };
    struct uma_claims before = { .n = 3, .list = was }, now = { .n = 3, .list = is }, none = { 0 };
    assert_int_equal(uma_claims_unspent_since(&before, &now, 0, UINT64_MAX), 60 + 30 + 7);
    assert_int_equal(uma_claims_unspent_since(&before, &now, 4, UINT64_MAX), 60 + 30);
    assert_int_equal(uma_claims_unspent_since(&none, &now, 0, UINT64_MAX), 157);
    assert_int_equal(uma_claims_unspent_since(&before, &none, 0, UINT64_MAX), 0);
    assert_int_equal(uma_claims_unspent_since(&none, &now, 0, 100), 100);
    is[0].own = true;
    assert_int_equal(uma_claims_unspent_since(&before, &now, 0, UINT64_MAX), 37);
}

static char folder[] = "/tmp/umactl-test-XXXXXX";

static int begin(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-XXXXXX");
    (void)unsetenv(UMA_RESERVATION_VARIABLE);
    return mkdtemp(folder) ? 0 : -1;
}

static void in_folder(char *path, size_t size, const char *name) {
    (void)snprintf(path, size, "%s/%s", folder, name);
}

static int end(void **state) {
    (void)state;
    DIR *dir = opendir(folder);
    for (struct dirent *d; dir && (d = readdir(dir));)
        (void)unlinkat(dirfd(dir), d->d_name, 0);
    if (dir)
        (void)closedir(dir);
    return rmdir(folder);
}

static void put_file(const char *name, const void *data, size_t size, uid_t uid) {
    char path[400];
    in_folder(path, sizeof(path), name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    if (geteuid() == 0)
        assert_int_equal(fchown(fd, uid, (gid_t)-1), 0);
    (void)close(fd);
}

static struct uma_claim *made(uint64_t bytes, const char *name) {
    struct uma_claim *claim = NULL;
    assert_int_equal(uma_claim_open(folder, &claim, NULL), 0);
    assert_int_equal(uma_claim_lock(claim, NULL), 0);
    assert_int_equal(uma_claim_make(claim, bytes, name, NULL), 0);
    uma_claim_unlock(claim);
    return claim;
}

static void own_are_marked(void **state) {
    (void)state;
    struct uma_claims claims;
    struct uma_claim *a = made(100, "outer"), *b = made(20, "other");
    char id[32];
    (void)snprintf(id, sizeof(id), "%llx", (unsigned long long)uma_claim_id(a));
    (void)setenv(UMA_RESERVATION_VARIABLE, id, 1);
    uma_claims_read(folder, &claims);
    assert_int_equal(claims.n, 2);
    assert_true(claims.list[0].own && !claims.list[1].own);
    assert_string_equal(claims.list[0].name, "outer");
    assert_int_equal(uma_claims_unspent(&claims, UINT64_MAX), 20);
    uma_claims_done(&claims);
    (void)uma_claim_close(a);
    (void)uma_claim_close(b);
}

static size_t passed_over(const char *word) {
    struct uma_claims claims;
    uma_claims_read(folder, &claims);
    size_t n = claims.n_passed_over;
    assert_int_equal(claims.n, 0);
    if (word && !strstr(claims.why, word))
        fail_msg("%s: %s", claims.passed_over, claims.why);
    uma_claims_done(&claims);
    return n;
}

static void what_is_none(void **state) {
    (void)state;
    struct uma_reservations all = { .head = { .magic = UMA_RESERVATIONS_MAGIC, .size = sizeof(all), .n_used = UMA_CLAIMS_MAX } };
    char name[64], path[400];
    for (int i = 0; i < UMA_CLAIMS_MAX; i++) /* of owners that do not live */
        all.claims[i] = (struct uma_reservation){ .id = (uint64_t)i + 1, .reserved = UINT64_MAX };
    uid_t own = geteuid();
    (void)snprintf(name, sizeof(name), UMA_RESERVATIONS_NAME "%u", (unsigned)own);
    put_file(name, &all, sizeof(all), own);
    assert_int_equal(passed_over(NULL), 0);
    all.head.magic = 5;
    put_file(name, &all, sizeof(all), own);
    assert_int_equal(passed_over("damaged"), 1);
    put_file(name, &all, sizeof(all) - 1, own);
    assert_int_equal(passed_over("size"), 1);
    struct uma_claims claims; /* a folder that is none: told below its name */
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    uma_claims_read(path, &claims);
    assert_int_equal(claims.n_passed_over, 1);
    assert_string_equal(claims.passed_over, ".");
    uma_claims_done(&claims);
    put_file(name, "", 0, own); /* about to be made */
    assert_int_equal(passed_over(NULL), 0);
    all.head.magic = 0;
    put_file(name, &all, sizeof(all), own);
    assert_int_equal(passed_over(NULL), 0);
    in_folder(path, sizeof(path), name);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(passed_over("link"), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_int_equal(passed_over("plain"), 1);
    assert_int_equal(unlink(path), 0);
    all.head.magic = UMA_RESERVATIONS_MAGIC;
    put_file(UMA_RESERVATIONS_NAME "4294967294", &all, sizeof(all), own); /* not his */
    assert_int_equal(passed_over("another user"), 1);
    /* names that are none */
    put_file(UMA_RESERVATIONS_NAME, &all, 1, own);
    put_file(UMA_RESERVATIONS_NAME "00", &all, 1, own);
    put_file(UMA_RESERVATIONS_NAME "99999999999999999999", &all, 1, own);
    put_file(UMA_RESERVATIONS_NAME "1x", &all, 1, own);
    put_file("umactl-reservation", &all, 1, own);
    assert_int_equal(passed_over("another user"), 1);
}

static void no_folder(void **state) {
    (void)state;
    struct uma_claims claims;
    uma_claims_read("/nonexistent/folder", &claims);
    assert_int_equal(claims.n + claims.n_passed_over, 0);
    uma_claims_done(&claims);
    uma_claims_read("/dev/null", &claims);
    assert_int_equal(claims.n, 0);
    assert_int_equal(claims.n_passed_over, 1);
    uma_claims_done(&claims);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums),
        cmocka_unit_test(since),
        cmocka_unit_test_setup_teardown(own_are_marked, begin, end),
        cmocka_unit_test_setup_teardown(what_is_none, begin, end),
        cmocka_unit_test(no_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
