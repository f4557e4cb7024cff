/* SPDX-License-Identifier: MIT */
#include "valve/account.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static struct uma_valve_account *account;

static int begin(void **state) {
    (void)state;
    account = mmap(NULL, sizeof(*account), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (account == MAP_FAILED)
        return -1;
    uma_valve_account_begin(account, 1000, 50);
    return 0;
}

static int end(void **state) {
    (void)state;
    return munmap(account, sizeof(*account));
}

static void validity(void **state) {
    (void)state;
    assert_true(uma_valve_account_valid(account, sizeof(*account)));
    assert_false(uma_valve_account_valid(account, sizeof(*account) - 1));
    account->size++;
    assert_false(uma_valve_account_valid(account, sizeof(*account) + 8));
}

static void takes(void **state) {
    (void)state;
    uint64_t used = 0;
    struct uma_valve_slot *slot = uma_valve_account_join(account);
    assert_non_null(slot);
    assert_int_equal(slot->pid, getpid());
    assert_true(uma_valve_account_take(account, slot, 600, &used));
    assert_int_equal(used, 0);
    assert_int_equal(uma_valve_account_under_way(account), 600);
    uma_valve_account_taken(slot, 600, 640); /* rounded up */
    assert_int_equal(uma_valve_account_used(account), 640);
    assert_int_equal(uma_valve_account_under_way(account), 0);
    assert_false(uma_valve_account_take(account, slot, 361, &used));
    assert_int_equal(used, 640);
    assert_true(uma_valve_account_take(account, slot, 360, &used)); /* to the last byte */
    uma_valve_account_note_most(account);
    assert_int_equal(account->most, 640); /* what was asked for and may be refused, it did not have */
    uma_valve_account_untake(slot, 360);
    atomic_store(&slot->overhead, 1000);
    uma_valve_account_note_most(account);
    assert_int_equal(account->most, 640); /* calls that say how much; contexts are not among them */
    atomic_store(&slot->overhead, 0);
    assert_false(uma_valve_account_take(account, slot, UINT64_MAX, &used));
    assert_int_equal(uma_valve_account_used(account), 640);
    uma_valve_account_give_back(slot, 640);
    assert_int_equal(uma_valve_account_used(account), 0);
    atomic_store(&account->ceiling, UMA_VALVE_NONE);
    assert_true(uma_valve_account_take(account, slot, UINT64_C(1) << 50, &used));
    uma_valve_account_note_most(account);
    assert_int_equal(account->most, 640);
    uma_valve_account_taken(slot, UINT64_C(1) << 50, UINT64_C(1) << 50);
    uma_valve_account_note_most(account);
    assert_int_equal(account->most, UINT64_C(1) << 50);
}

/* What a process had that was killed is not the job's any more; a process that executes another program begins with nothing. */
static void dead(void **state) {
    (void)state;
    uint64_t used = 0;
    struct uma_valve_slot *slot = uma_valve_account_join(account);
    pid_t child = fork();
    if (child == 0) {
        struct uma_valve_slot *own = uma_valve_account_join(account);
        (void)uma_valve_account_take(account, own, 900, &used);
        (void)raise(SIGKILL);
    }
    siginfo_t info; /* dead, and not waited for: what it had is back already */
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    uint64_t stack;
    assert_int_equal(uma_valve_start_of((uint32_t)child, &stack), UMA_VALVE_ENDED);
    assert_int_equal(uma_valve_account_used(account), 900);
    assert_int_equal(uma_valve_account_prune(account), 900);
    assert_int_equal(account->slots[1].pid_namespace, 0); /* the next one's is not known before it says so */
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(uma_valve_start_of((uint32_t)child, &stack), 0);
    atomic_store(&account->slots[1].pid, (uint32_t)child); /* one that died before it could write when it started */
    account->slots[1].pid_namespace = slot->pid_namespace;
    atomic_store(&account->slots[1].start_time, 0);
    atomic_store(&account->slots[1].used, 900);
    assert_true(uma_valve_account_take(account, slot, 500, &used)); /* which looks for the dead */
    assert_int_equal(used, 0);
    assert_int_equal(account->slots[1].pid, 0);
    assert_int_equal(uma_valve_account_used(account), 500);
    assert_int_equal(uma_valve_account_prune(account), 0); /* this one lives */
    assert_ptr_equal(uma_valve_account_join(account), slot);
    assert_int_equal(uma_valve_account_used(account), 0);
}

/* Who frees a dead process's slot may be killed in the middle of it: the next one does. While it lives, nobody else does. */
static void freed_in_part(void **state) {
    (void)state;
    struct uma_valve_slot *slot = &account->slots[1];
    assert_non_null(uma_valve_account_join(account));
    atomic_store(&account->n_slots, 2);
    atomic_store(&slot->pid_namespace, account->slots[0].pid_namespace);
    atomic_store(&slot->used, 900);
    pid_t child = fork();
    if (child == 0)
        (void)pause();
    atomic_store(&slot->pid, (uint32_t)child | UMA_VALVE_FREEING);
    assert_int_equal(uma_valve_account_prune(account), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(uma_valve_account_prune(account), 900);
    assert_int_equal(slot->pid, 0);
    assert_int_equal(uma_valve_account_used(account), 0);
}

/* In another PID namespace the same number is another process, or none: nothing is concluded. */
static void foreign(void **state) {
    (void)state;
    struct uma_valve_slot *slot = uma_valve_account_join(account);
    atomic_store(&slot->used, 700);
    slot->pid_namespace++;
    atomic_store(&slot->start_time, 1);
    assert_int_equal(uma_valve_account_prune(account), 0);
    assert_int_equal(uma_valve_account_used(account), 700);
    assert_ptr_not_equal(uma_valve_account_join(account), slot);
}

static void full(void **state) {
    (void)state;
    for (unsigned i = 0; i < UMA_VALVE_SLOTS; i++)
        atomic_store(&account->slots[i].pid, 1);
    assert_null(uma_valve_account_join(account));
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *work(void *userdata) {
    struct uma_valve_slot *slot = userdata;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t used;
        if (!uma_valve_account_take(account, slot, 7, &used))
            continue;
        uma_valve_account_taken(slot, 7, 7);
        uma_valve_account_give_back(slot, 7);
    }
    return NULL;
}

static void threads(void **state) {
    (void)state;
    pthread_t ids[THREADS];
    struct uma_valve_slot *slot = uma_valve_account_join(account);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, work, slot), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(ids[i], NULL), 0);
    assert_int_equal(uma_valve_account_used(account), 0);
    assert_int_equal(uma_valve_account_under_way(account), 0);
}

/* Of processes that all want half and a little, never two have it. */
static void processes(void **state) {
    (void)state;
    _Atomic uint64_t *most = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(most, MAP_FAILED);
    for (int p = 0; p < 3; p++)
        if (fork() == 0) {
            struct uma_valve_slot *slot = uma_valve_account_join(account);
            for (int i = 0; i < 300; i++) {
                uint64_t used;
                if (!uma_valve_account_take(account, slot, 501, &used))
                    continue;
                uint64_t now = atomic_fetch_add(&most[0], 1) + 1, before = atomic_load(&most[1]);
                while (now > before && !atomic_compare_exchange_weak(&most[1], &before, now))
                    ;
                (void)atomic_fetch_add(&most[2], 1);
                (void)atomic_fetch_sub(&most[0], 1);
                uma_valve_account_taken(slot, 501, 501);
                uma_valve_account_give_back(slot, 501);
            }
            _exit(0);
        }
    while (wait(NULL) > 0)
        ;
    assert_int_equal(most[1], 1);
    assert_true(most[2] > 0);
    (void)munmap((void *)most, 4096);
}

static void events(void **state) {
    (void)state;
    struct uma_valve_event got[8];
    uint64_t after = 0;
    assert_int_equal(uma_valve_account_events(account, &after, got, 8), 0);
    for (uint64_t i = 1; i <= 100; i++) {
        struct uma_valve_event event = { .size = i, .kind = UMA_VALVE_REFUSED_FLOOR, .pid = 5, .evicted = 3 };
        uma_valve_account_tell(account, &event);
    }
    assert_int_equal(account->counts[UMA_VALVE_REFUSED_FLOOR], 100); /* all of them, though most are overwritten */
    assert_int_equal(account->counts[UMA_VALVE_REFUSED_CEILING], 0);
    assert_int_equal(account->evicted, 300);
    assert_int_equal(uma_valve_account_events(account, &after, got, 8), 8); /* the oldest that is still there */
    assert_int_equal(got[0].size, 37);
    assert_int_equal(got[7].size, 44);
    unsigned n = 0, last = 0;
    while ((last = uma_valve_account_events(account, &after, got, 8)) > 0)
        n += last;
    assert_int_equal(n, 56);
    assert_int_equal(after, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(validity, begin, end),      cmocka_unit_test_setup_teardown(takes, begin, end),
        cmocka_unit_test_setup_teardown(dead, begin, end),          cmocka_unit_test_setup_teardown(foreign, begin, end),
        cmocka_unit_test_setup_teardown(freed_in_part, begin, end), cmocka_unit_test_setup_teardown(full, begin, end),
        cmocka_unit_test_setup_teardown(threads, begin, end),       cmocka_unit_test_setup_teardown(processes, begin, end),
        cmocka_unit_test_setup_teardown(events, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
