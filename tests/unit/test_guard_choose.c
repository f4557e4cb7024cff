/* SPDX-License-Identifier: MIT */
#include "guard/choose.h"

#include "guard_script.h"

static struct uma_guard_tree trees[UMA_GUARD_TREES];
static struct uma_guard_fall fall;
static struct uma_guard_danger d;
static size_t n;

static void view(void) {
    script.view = (struct uma_guard_view){ .now = &script.now,
                                           .processes = script.list,
                                           .n_processes = script.n,
                                           .processes_time = script.now.time,
                                           .envelopes = &script.envelope,
                                           .n_envelopes = script.envelope.need > 0 };
}

/* A table is kept with this headroom. */
static void table(uint64_t available) {
    script_read(1000, available);
    view();
    n = uma_guard_trees(&script.view, trees);
    uma_guard_past_add(&script.state, &script.view, available, trees, n);
}

/* Half a second later: who is it? */
static void explain(uint64_t available) {
    struct uma_guard_stops none = { 0 };
    script_read(250, available + (script.now.available - available) / 2);
    script_read(250, available);
    view();
    n = uma_guard_trees(&script.view, trees);
    uma_guard_danger_assess(&script.history, &script.policy, &none, &d);
    uma_guard_explain(&script.state, &script.view, &d, trees, n, &fall);
}

static const char *first(void) {
    return n > 0 && trees[0].culprit ? script.list[trees[0].root].name : "";
}

static const char *victim(bool anybody) {
    int i = uma_guard_choose_victim(&script.state, &script.view, &d, &fall, anybody, trees, n);
    return i < 0 ? "" : script.list[trees[i].root].name;
}

static void nobody(void **state) {
    (void)state;
    script_read(1000, GIB);
    view();
    assert_int_equal(uma_guard_trees(&script.view, trees), 0);
    script.view.processes = NULL;
    script.view.n_processes = 7;
    assert_int_equal(uma_guard_trees(&script.view, trees), 0);
    explain(GIB / 2);
    assert_int_equal(fall.n_culprits, 0);
    assert_string_equal(victim(true), "");
}

static void small_beside_large(void **state) {
    (void)state;
    script_process("server", 2 * GIB, 80 * GIB);
    script_process("redis", 20 * GIB, 0);
    struct uma_guard_process *p = script_process("grows", GIB, 0);
    table(10 * GIB);
    p->anon += 4 * GIB;
    explain(6 * GIB);
    assert_string_equal(first(), "grows");
    assert_true(fall.n_culprits == 1 && !fall.guess && fall.measured);
    assert_string_equal(victim(true), "grows");
}

static void on_the_gpu(void **state) {
    (void)state;
    script_process("server", 2 * GIB, 80 * GIB);
    struct uma_guard_process *p = script_process("train", GIB, 2 * GIB);
    table(10 * GIB);
    p->gpu += 4 * GIB;
    explain(6 * GIB);
    assert_string_equal(first(), "train");
    assert_false(fall.guess);
}

/* The driver's answer is older than the fall: the one that has its device open and is not in the answer is suspected, never the server that stands still. */
static void late_answer(void **state) {
    (void)state;
    script_process("server", 2 * GIB, 80 * GIB)->gpu_grown_ns = 2000 * MS; /* it was in the answer before, with as much */
    script_process("train", GIB, 0)->flags = UMA_GUARD_HOLDS_GPU;
    script_process("redis", 20 * GIB, 0);
    script.now.gpu_age_ns = 100 * MS;
    table(10 * GIB);
    script.now.gpu_age_ns = 2000 * MS;
    explain(6 * GIB);
    assert_string_equal(first(), "train");
    assert_true(fall.guess && fall.n_culprits == 1);
    assert_string_equal(victim(false), ""); /* nobody is ended on a guess that was not even stopped */
}

/* A fresh answer shows nobody: then it is not the GPU's programs. */
static void nobodys(void **state) {
    (void)state;
    script_process("server", 2 * GIB, 80 * GIB);
    script.now.gpu_age_ns = 20 * MS;
    table(10 * GIB);
    script.now.shmem += 4 * GIB; /* somebody writes to /dev/shm, with no page of it mapped */
    explain(6 * GIB);
    assert_string_equal(first(), "");
    assert_false(fall.guess);
}

static void many_small(void **state) {
    (void)state;
    script_process("server", 2 * GIB, 80 * GIB);
    struct uma_guard_process *root = script_process("make", 10 * MIB, 0);
    for (int i = 0; i < 40; i++) {
        struct uma_guard_process *p = script_process("cc1plus", 100 * MIB, 0);
        p->parent = root->pid;
        p->tree = 1;
    }
    table(10 * GIB);
    for (int i = 0; i < 30; i++) { /* new ones */
        struct uma_guard_process *p = script_process("cc1plus", 130 * MIB, 0);
        p->parent = root->pid;
        p->tree = 1;
    }
    explain(10 * GIB - 30 * 130 * MIB);
    assert_int_equal(n, 2);
    assert_string_equal(first(), "make");
    assert_int_equal(trees[0].n, 71);
}

/* A fork shows all pages twice; shared memory shows in everybody who maps it. Neither takes anything. */
static void counted_twice(void **state) {
    (void)state;
    struct uma_guard_process *redis = script_process("redis", 20 * GIB, 0);
    script_process("postgres", GIB, 0)->shmem = 100 * MIB;
    struct uma_guard_process *p = script_process("grows", GIB, 0);
    script.now.shmem = 8 * GIB;
    table(10 * GIB);
    struct uma_guard_process *child = script_process("redis", 20 * GIB, 0);
    child->parent = redis->pid;
    child->tree = 0;
    script.list[1].shmem = 8 * GIB; /* it touches what was there */
    p->anon += 4 * GIB;
    explain(6 * GIB);
    assert_string_equal(first(), "grows");
    assert_int_equal(fall.n_culprits, 1);
}

static void tenants(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++)
        script_process("tenant", GIB, 0);
    table(20 * GIB);
    for (int i = 0; i < 50; i++) /* all a little: nobody, each of them is a fiftieth of it - but all together are all of it */
        script.list[i].anon += 200 * MIB;
    explain(10 * GIB);
    assert_true(fall.n_culprits > 1);
    script.state.n_past = 0;
    script_begin(NULL);
    for (int i = 0; i < 50; i++)
        script_process("tenant", GIB, 0);
    table(20 * GIB);
    for (int i = 0; i < 50; i++)
        script.list[i].anon += 10 * MIB;
    script.list[31].anon += 9 * GIB;
    explain(11 * GIB - 500 * MIB);
    assert_true(fall.n_culprits == 1 && trees[0].root == 31);
}

static void declared(void **state) {
    (void)state;
    struct uma_guard_process *p = script_process("train", GIB, 10 * GIB);
    p->flags |= UMA_GUARD_DECLARED;
    p->envelope = 0;
    script.envelope = (struct uma_guard_envelope){ .need = 40 * GIB, .taken = 11 * GIB };
    table(50 * GIB);
    p->gpu += 20 * GIB;
    script.envelope.taken += 20 * GIB;
    explain(30 * GIB); /* 9 GiB are still to come, and 26 are above the floor */
    assert_true(fall.expected && fall.n_culprits == 0);
    explain(10 * GIB); /* but here they do not fit */
    assert_false(fall.expected);
    script.envelope.need = 30 * GIB; /* it has more than it said */
    explain(9 * GIB);
    assert_false(fall.expected);
    assert_string_equal(first(), "train");
    p->envelope = 7; /* one that there is not */
    explain(8 * GIB);
    assert_string_equal(first(), "train");
}

static void protection(void **state) {
    (void)state;
    struct uma_guard_process *p = script_process("sshd", 30 * GIB, 0), *q = script_process("dear", 20 * GIB, 0);
    struct uma_guard_process *small = script_process("some", 2 * GIB, 0), *child;
    p->flags = UMA_GUARD_PROTECTED;
    q->flags = UMA_GUARD_AVOID;
    table(10 * GIB);
    explain(GIB / 2);
    assert_string_equal(victim(true), "some");
    small->flags = UMA_GUARD_EXITING;
    explain(GIB / 2);
    assert_string_equal(victim(true), "dear"); /* nobody else is left */
    child = script_process("child", GIB, 0);   /* one process of a tree is enough */
    child->tree = 1;
    child->parent = q->pid;
    child->flags = UMA_GUARD_PROTECTED;
    explain(GIB / 2);
    assert_string_equal(victim(true), "");
    assert_string_equal(victim(false), "");
}

static void preference(void **state) {
    (void)state;
    script_process("large", 20 * GIB, 0);
    script_process("batch", 4 * GIB, 0)->flags = UMA_GUARD_PREFER;
    table(10 * GIB);
    explain(GIB / 2);
    assert_string_equal(victim(true), "batch");
    script.state.given_up[0] = (struct uma_guard_who){ script.list[1].pid, script.list[1].start };
    script.state.n_given_up = 1;
    assert_string_equal(victim(true), "large");
}

/* Indices and numbers that cannot be. */
static void nonsense(void **state) {
    (void)state;
    struct uma_guard_process *p = script_process("a", GIB, 0);
    p->tree = 4000;
    script_process("b", GIB, 0)->tree = -9;
    script_process("c", UINT64_MAX / 4, UINT64_MAX / 4)->grown = INT64_MAX;
    table(10 * GIB);
    assert_int_equal(n, 3);
    explain(GIB);
    struct uma_guard_decision decision = { 0 };
    uma_guard_candidates(&script.view, &fall, trees, n, &decision);
    assert_int_equal(decision.n_candidates, 3);
}

/* More trees than are looked at: the large ones are among those that are. */
static void too_many(void **state) {
    (void)state;
    static struct uma_guard_process many[UMA_GUARD_PROCESS_MAX];
    for (int i = 0; i < UMA_GUARD_PROCESS_MAX; i++)
        many[i] = (struct uma_guard_process){ .pid = 10 + i, .start = 1, .tree = i, .envelope = -1, .anon = MIB };
    many[4090].anon = 10 * GIB;
    script_read(1000, 10 * GIB);
    view();
    script.view.processes = many;
    script.view.n_processes = UMA_GUARD_PROCESS_MAX + 5;
    n = uma_guard_trees(&script.view, trees);
    assert_true(n > 0 && n <= UMA_GUARD_TREES);
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found |= trees[i].root == 4090;
    assert_true(found);
    for (int i = 0; i < 50; i++) { /* and the past stays within its bounds, with the ages apart */
        script_read(i < 25 ? 100 : 10000, 10 * GIB);
        script.view.now = &script.now;
        script.view.processes_time = script.now.time;
        uma_guard_past_add(&script.state, &script.view, 10 * GIB, trees, n);
    }
    assert_int_equal(script.state.n_past, UMA_GUARD_PAST);
    for (uint32_t i = 1; i < script.state.n_past; i++)
        assert_true(script.state.past[i].time > script.state.past[i - 1].time);
    assert_true(script.now.time - script.state.past[0].time > 200000 * MS);
    found = false;
    for (uint32_t i = 0; i < script.state.past[5].n; i++)
        found |= script.state.past[5].trees[i].pid == 4100;
    assert_true(found);
}

#define T(name) cmocka_unit_test_setup(name, script_begin)

int main(void) {
    const struct CMUnitTest tests[] = {
        T(nobody),  T(small_beside_large), T(on_the_gpu), T(late_answer), T(nobodys),  T(many_small), T(counted_twice),
        T(tenants), T(declared),           T(protection), T(preference),  T(nonsense), T(too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
