/* SPDX-License-Identifier: MIT */
#include "job/claim.h"
#include "job/claims.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static char folder[64], path[96];

static int begin(void **state) {
    (void)state;
    (void)strcpy(folder, "/tmp/umactl-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/" UMA_RESERVATIONS_NAME "%u", folder, (unsigned)geteuid());
    (void)unsetenv(UMA_RESERVATION_VARIABLE);
    return 0;
}

static int end(void **state) {
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static struct uma_claim *made(uint64_t bytes, const char *name) {
    struct uma_claim *claim = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(uma_claim_open(folder, &claim, &err), 0);
    assert_int_equal(uma_claim_lock(claim, &err), 0);
    assert_int_equal(uma_claim_make(claim, bytes, name, &err), 0);
    uma_claim_unlock(claim);
    assert_true(uma_claim_id(claim) != 0);
    return claim;
}

static uint64_t unspent(void) {
    struct uma_claims claims;
    uma_claims_read(folder, &claims);
    assert_int_equal(claims.n_passed_over, 0);
    uint64_t bytes = uma_claims_unspent(&claims, UINT64_MAX);
    uma_claims_done(&claims);
    return bytes;
}

static void made_updated_withdrawn(void **state) {
    (void)state;
    mode_t before = umask(077);
    struct uma_claim *a = made(1000, "first"), *b = made(50, "second");
    (void)umask(before);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0644); /* others' gates read it */
    assert_true(uma_claim_id(a) != uma_claim_id(b));
    assert_int_equal(unspent(), 1050);
    uma_claim_update(a, 300);
    assert_int_equal(unspent(), 750);
    uma_claim_update(a, 100); /* gave some back: it may take it again */
    assert_int_equal(unspent(), 950);
    uma_claim_update(a, 5000);
    assert_int_equal(unspent(), 50);
    uma_claim_withdraw(a);
    assert_int_equal(uma_claim_id(a), 0);
    uma_claim_update(a, 1); /* of nothing */
    (void)uma_claim_close(a);
    assert_int_equal(unspent(), 50);
    (void)uma_claim_close(b);
    assert_int_equal(unspent(), 0);
    uma_claim_update(NULL, 1);
    assert_null(uma_claim_close(NULL));
}

static void long_names(void **state) {
    (void)state;
    struct uma_claims claims;
    struct uma_claim *a = made(1, "a name that is much longer than a slot has room for");
    uma_claims_read(folder, &claims);
    assert_int_equal(claims.n, 1);
    assert_int_equal(strlen(claims.list[0].name), UMA_CLAIM_NAME_MAX - 1);
    assert_int_equal(claims.list[0].pid, getpid());
    uma_claims_done(&claims);
    (void)uma_claim_close(a);
}

static void full(void **state) {
    (void)state;
    struct uma_claim *list[UMA_CLAIMS_MAX], *more = NULL;
    struct uma_error err = { 0 };
    for (int i = 0; i < UMA_CLAIMS_MAX; i++)
        list[i] = made(1, "x");
    assert_int_equal(unspent(), UMA_CLAIMS_MAX);
    assert_int_equal(uma_claim_open(folder, &more, &err), 0);
    assert_int_equal(uma_claim_lock(more, &err), 0);
    assert_int_equal(uma_claim_make(more, 1, "y", &err), -ENOSPC);
    assert_non_null(strstr(err.text, "256"));
    (void)uma_claim_close(list[100]);
    assert_int_equal(uma_claim_make(more, 7, "y", &err), 0);
    list[100] = more;
    assert_int_equal(unspent(), UMA_CLAIMS_MAX + 6);
    for (int i = 0; i < UMA_CLAIMS_MAX; i++)
        (void)uma_claim_close(list[i]);
    assert_int_equal(unspent(), 0);
}

/* ---- many at once, and some of them killed ---- */

enum { CLAIMERS = 100, EACH = 10, MOST = 600 };

static uint64_t held(void) {
    struct uma_claims claims;
    uma_claims_read(folder, &claims);
    uint64_t bytes = uma_claims_unspent(&claims, UINT64_MAX);
    uma_claims_done(&claims);
    return bytes;
}

/* As the gate does it. Every seventh dies with the lock, every fifth with a claim. */
static _Noreturn void claimer(int number, int answers, int stay) {
    struct uma_claim *claim = NULL;
    struct uma_error err = { 0 };
    char c = 'r';
    if (uma_claim_open(folder, &claim, &err) < 0 || uma_claim_lock(claim, &err) < 0)
        _exit(1);
    if (number % 7 == 0)
        (void)raise(SIGKILL);
    if (held() + EACH <= MOST) {
        if (uma_claim_make(claim, EACH, "claimer", &err) < 0)
            _exit(1);
        c = 'c';
    }
    if (held() > MOST)
        c = 'w';
    uma_claim_unlock(claim);
    if (number % 5 == 0)
        (void)raise(SIGKILL);
    (void)!write(answers, &c, 1);
    (void)!read(stay, &c, 1);
    _exit(0);
}

static void many_at_once(void **state) {
    (void)state;
    int answers[2], stay[2], killed = 0, claimed = 0, refused = 0;
    pid_t pids[CLAIMERS];
    assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
    assert_int_equal(pipe2(stay, O_CLOEXEC), 0);
    for (int i = 0; i < CLAIMERS; i++) {
        killed += i % 7 == 0 || i % 5 == 0;
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            (void)close(stay[1]);
            claimer(i, answers[1], stay[0]);
        }
    }
    for (int i = 0; i < CLAIMERS - killed; i++) {
        char c = 0;
        assert_int_equal(read(answers[0], &c, 1), 1);
        assert_int_not_equal(c, 'w'); /* more was promised than there is */
        claimed += c == 'c';
        refused += c == 'r';
    }
    for (int i = 0; i < CLAIMERS; i++)
        if (i % 7 == 0 || i % 5 == 0)
            assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    assert_int_equal(unspent(), (uint64_t)claimed * EACH); /* no ghosts of the killed, and none was lost */
    assert_int_equal(claimed + refused, CLAIMERS - killed);
    assert_true(claimed >= (MOST / EACH) - killed && claimed <= MOST / EACH);
    (void)close(stay[1]);
    for (int i = 0; i < CLAIMERS; i++)
        if (i % 7 && i % 5)
            assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    assert_int_equal(unspent(), 0);
    for (int i = 0; i < 2; i++)
        (void)close(i ? answers[0] : answers[1]);
    (void)close(stay[0]);
}

/* ---- what stands where the register should be ---- */

static void refuses(int code, const char *word) {
    struct uma_claim *claim = NULL;
    struct uma_error err = { 0 };
    int r = uma_claim_open(folder, &claim, &err);
    if (r >= 0)
        r = uma_claim_lock(claim, &err);
    assert_int_equal(r, code);
    if (!strstr(err.text, word))
        fail_msg("%s", err.text);
    (void)uma_claim_close(claim);
}

static void damaged(void **state) {
    (void)state;
    char text[sizeof(struct uma_reservations)];
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, "precious", 8), 8);
    refuses(-EUCLEAN, "damaged");
    assert_int_equal(pread(fd, text, sizeof(text), 0), 8); /* and it is as it was */
    assert_memory_equal(text, "precious", 8);
    (void)memset(text, 'x', sizeof(text));
    assert_int_equal(pwrite(fd, text, sizeof(text), 0), sizeof(text));
    refuses(-EUCLEAN, "damaged");
    (void)memset(text, 0, sizeof(text)); /* whose maker was killed in the middle */
    assert_int_equal(pwrite(fd, text, sizeof(text), 0), sizeof(text));
    (void)uma_claim_close(made(5, "after it"));
    assert_int_equal(ftruncate(fd, 0), 0);
    (void)uma_claim_close(made(5, "new"));
    (void)close(fd);
}

static void in_the_way(void **state) {
    (void)state;
    char target[112];
    (void)snprintf(target, sizeof(target), "%s.target", path);
    int fd = open(target, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(symlink(target, path), 0);
    refuses(-EUCLEAN, "symbolic link");
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 0); /* not followed */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(target, path), 0);
    refuses(-EUCLEAN, "another name");
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(target), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    refuses(-EUCLEAN, "plain");
    assert_int_equal(unlink(path), 0);
    if (geteuid() == 0) {
        assert_int_equal(fchownat(fd, "", 12345, (gid_t)-1, AT_EMPTY_PATH), 0);
        (void)close(fd);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        assert_int_equal(fchown(fd, 12345, (gid_t)-1), 0);
        refuses(-EPERM, "another user");
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_size, 0);
    }
    (void)close(fd);
    (void)unlink(path);
    (void)strcat(folder, ".none");
    refuses(-ENOENT, ".none");
    folder[strlen(folder) - strlen(".none")] = '\0';
}

/* It was removed between opening and locking: the next is taken, which others can find. */
static void removed_meanwhile(void **state) {
    (void)state;
    struct uma_claim *claim = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(uma_claim_open(folder, &claim, &err), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(uma_claim_lock(claim, &err), 0);
    assert_int_equal(uma_claim_make(claim, 9, "x", &err), 0);
    uma_claim_unlock(claim);
    assert_int_equal(unspent(), 9);
    (void)uma_claim_close(claim);
}

static void taken_for_certain(void **state) {
    (void)state;
    struct uma_u64 none = { 0 }, ten = { 10, UMA_KNOWN }, four = { 4, UMA_KNOWN }, all = { UINT64_MAX, UMA_KNOWN };
    assert_int_equal(uma_claim_taken(none, none, none), 0);
    assert_int_equal(uma_claim_taken(ten, none, none), 10);
    assert_int_equal(uma_claim_taken(ten, four, none), 14);
    assert_int_equal(uma_claim_taken(ten, four, ten), 20); /* the same memory, by two who know of it */
    assert_int_equal(uma_claim_taken(none, none, four), 4);
    assert_true(uma_claim_taken(ten, all, none) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_updated_withdrawn, begin, end),
        cmocka_unit_test_setup_teardown(long_names, begin, end),
        cmocka_unit_test_setup_teardown(full, begin, end),
        cmocka_unit_test_setup_teardown(many_at_once, begin, end),
        cmocka_unit_test_setup_teardown(damaged, begin, end),
        cmocka_unit_test_setup_teardown(in_the_way, begin, end),
        cmocka_unit_test_setup_teardown(removed_meanwhile, begin, end),
        cmocka_unit_test(taken_for_certain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
