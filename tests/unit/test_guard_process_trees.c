/* SPDX-License-Identifier: MIT */
#include "guard/names.h"
#include "guard/processes.h"
#include "guard/warn_marker.h"

#include <string.h>

#include "test.h"

#include "guard_machine.h"

enum { GUARD = 900, TERMINAL = 34816 };
#define SECOND INT64_C(1000000000)

static struct uma_guard_processes table;
static struct uma_guard_policy policy;

static void machine(struct folder *f) {
    assert_int_equal(guard_folder_new(f), 0);
    uma_guard_names_default(&policy);
    put_process(f, &(struct made_process){ 1, .name = "systemd" });
    put_process(f, &(struct made_process){ 2, .name = "kthreadd", .flags = 0x00208040 });
    put_process(f, &(struct made_process){ 30, 2, .name = "kworker/0:1", .flags = 0x04208060 });
    put_process(f, &(struct made_process){ GUARD, 1, .name = "guard" });
    put_process(f, &(struct made_process){ 100, 1, .name = "sshd" });
    put_process(f, &(struct made_process){ 101, 100, .name = "sshd-session" });
    put_process(f, &(struct made_process){ 102, 101, .name = "bash", .terminal = TERMINAL, .cmdline = "-bash" });
}

static void take(const struct folder *f) {
    assert_int_equal(uma_guard_processes_open(&table, f->path, GUARD), 0);
    assert_int_equal(uma_guard_processes_take(&table, &policy, NULL, SECOND, INT64_MAX), 0);
}

static bool is_protected(int pid) {
    return process_of(&table, pid)->flags & UMA_GUARD_PROTECTED;
}

static void who_is_never_touched(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    machine(&f);
    put_process(&f, &(struct made_process){ 110, 102, .name = "python3", .session = 102, .terminal = TERMINAL });
    put_process(&f, &(struct made_process){ 111, 102, .name = "bash", .session = 102, .terminal = TERMINAL, .cmdline = "bash train.sh" });
    put_process(&f, &(struct made_process){ 112, 102, .name = "sudo", .session = 102, .terminal = TERMINAL });
    put_process(
        &f, &(struct made_process){ 113, 112, .name = "bash", .session = 102, .terminal = TERMINAL, .cmdline = "bash" }); /* root's shell */
    put_process(&f, &(struct made_process){ 114, 101, .name = "bash", .cmdline = "bash -c train" }); /* ssh host train */
    put_process(&f, &(struct made_process){ 115, 1, .name = "x", .cgroup = "0::/system.slice/db.service\n" });
    put_process(&f, &(struct made_process){ 116, 1, .name = "x", .cgroup = "4:memory:/db.service/a\n0::/\n" });
    put_process(&f, &(struct made_process){ 117, 1, .name = "x", .cgroup = "0::/system.slice/db.services\n" });
    (void)strcpy(policy.protect.list[policy.protect.n++], "unit:db.service");
    take(&f);
    static const int never[] = { 1, 2, 30, GUARD, 100, 101, 102, 112, 113, 115, 116 }, may[] = { 110, 111, 114, 117 };
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
        if (!is_protected(never[i]))
            fail_msg("%d is not protected", never[i]);
    for (size_t i = 0; i < sizeof(may) / sizeof(may[0]); i++)
        if (is_protected(may[i]))
            fail_msg("%d is protected", may[i]);
    uma_guard_processes_close(&table);
}

static void the_guard_and_those_above_it(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    machine(&f);
    put_process(&f, &(struct made_process){ 800, 1, .name = "runner" });
    put_process(&f, &(struct made_process){ 801, 800, .name = "python3" });
    put_process(&f, &(struct made_process){ 802, 801, .name = "job" });
    put_process(&f, &(struct made_process){ GUARD, 801, .name = "guard" });
    take(&f);
    assert_true(is_protected(800) && is_protected(801) && is_protected(GUARD) && !is_protected(802));
    assert_int_equal(root_of(&table, 802), 802);
    uma_guard_processes_close(&table);
}

static void trees_begin_below_the_protected(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    machine(&f);
    put_process(&f, &(struct made_process){ 110, 102, .name = "bash", .session = 102, .terminal = TERMINAL, .cmdline = "bash train.sh" });
    put_process(&f, &(struct made_process){ 111, 110, .name = "python3" });
    put_process(&f, &(struct made_process){ 112, 111, .name = "python3" });
    put_process(&f, &(struct made_process){ 120, 102, .name = "umactl" });
    put_process(&f, &(struct made_process){ 121, 120, .name = "vllm" });
    put_process(&f, &(struct made_process){ 122, 121, .name = "vllm" });
    put_process(&f, &(struct made_process){ 130, 1, .name = "containerd-shim" });
    put_process(&f, &(struct made_process){ 131, 130, .name = "ollama" });
    put_process(&f, &(struct made_process){ 140, 7777, .name = "orphan" });              /* its parent is gone */
    put_process(&f, &(struct made_process){ 141, 142, .name = "younger", .start = 10 }); /* its number's new owner is no parent of it */
    put_process(&f, &(struct made_process){ 142, 1, .name = "owner" });
    take(&f);
    assert_int_equal(root_of(&table, 110), 110);
    assert_int_equal(root_of(&table, 112), 110);
    assert_int_equal(root_of(&table, 120), 120);
    assert_int_equal(root_of(&table, 122), 121);
    assert_int_equal(root_of(&table, 131), 131);
    assert_int_equal(root_of(&table, 140), 140);
    assert_int_equal(root_of(&table, 141), 141);
    assert_int_equal(root_of(&table, 102), 102);
    assert_int_equal(process_of(&table, 110)->parent, 0);
    assert_int_equal(process_of(&table, 111)->parent, 110);
    assert_int_equal(process_of(&table, 140)->parent, 0);
    assert_true(uma_guard_processes_find(&table, 110, 1110) >= 0);
    assert_int_equal(uma_guard_processes_find(&table, 110, 5), -1);
    assert_int_equal(uma_guard_processes_find(&table, 0, 0), -1);
    assert_int_equal(uma_guard_processes_find(&table, -5, 0), -1);
    uma_guard_processes_close(&table);
}

static void rings_and_long_chains_end(void **state) {
    (void)state;
    enum { CHAIN = 1500 };
    _cleanup_folder_ struct folder f = { 0 };
    machine(&f);
    put_process(&f, &(struct made_process){ 200, 202, .start = 5 });
    put_process(&f, &(struct made_process){ 201, 200, .start = 5 });
    put_process(&f, &(struct made_process){ 202, 201, .start = 5 });
    put_process(&f, &(struct made_process){ 203, 203, .start = 5 }); /* its own parent */
    put_process(&f, &(struct made_process){ 204, 202, .start = 6 });
    for (int i = 0; i < CHAIN; i++) /* the youngest have the lowest numbers: the whole way up for the first */
        put_process(&f, &(struct made_process){ 5000 - i, i == 0 ? 1 : 5001 - i, .start = 100 + (uint64_t)i, .no_status = true });
    take(&f);
    for (int pid = 200; pid <= 204; pid++)
        assert_true(process_of(&table, pid)->tree >= 0);
    assert_int_equal(root_of(&table, 203), 203);
    assert_int_equal(root_of(&table, 5000 - CHAIN + 1), 5000);
    assert_int_equal(root_of(&table, 4500), 5000);
    uma_guard_processes_close(&table);
}

static void what_a_job_declared(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    machine(&f);
    put_process(&f, &(struct made_process){ 120, 102, .name = "umactl", .uid = 1000 });
    put_process(&f, &(struct made_process){ 121, 120, .name = "vllm", .uid = 1000 });
    put_process(&f, &(struct made_process){ 122, 121, .name = "umactl", .uid = 1000 }); /* a job in a job */
    put_process(&f, &(struct made_process){ 123, 122, .name = "step", .uid = 1000 });
    put_process(&f, &(struct made_process){ 130, 102, .name = "umactl", .uid = 2000 });
    put_process(&f, &(struct made_process){ 131, 130, .name = "other", .uid = 2000 });
    put_process(&f, &(struct made_process){ 140, 102, .name = "liar", .uid = 1000 });
    put_process(&f, &(struct made_process){ 141, 140, .name = "liar", .uid = 1000 });
    take(&f);
    const struct uma_guard_envelope list[] = {
        { .id = 1, .pid = 120 }, { .id = 2, .pid = 122 }, { .id = 3, .pid = 130 }, { .id = 4, .pid = 140 }, { .id = 5, .pid = 1 }
    };
    const uint32_t uids[] = { 1000, 1000, 1000 /* whose process it is not */, 1000, 1000 };
    assert_int_equal(process_of(&table, 121)->envelope, -1);
    uma_guard_processes_declare(&table, list, uids, 5);
    assert_int_equal(process_of(&table, 121)->envelope, 0);
    assert_true(process_of(&table, 121)->flags & UMA_GUARD_DECLARED);
    assert_int_equal(process_of(&table, 123)->envelope, 1);
    assert_int_equal(process_of(&table, 131)->envelope, -1);
    assert_int_equal(process_of(&table, 141)->envelope, -1); /* no umactl is above it */
    assert_int_equal(process_of(&table, 102)->envelope, -1);
    uma_guard_processes_declare(&table, NULL, NULL, 0);
    assert_int_equal(process_of(&table, 121)->envelope, -1);
    assert_false(process_of(&table, 121)->flags & UMA_GUARD_DECLARED);
    uma_guard_processes_close(&table);
}

static void who_wants_a_warning(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    machine(&f);
    uint32_t uid = (uint32_t)geteuid();
    put_process(&f, &(struct made_process){ 120, 102, .name = "umactl", .uid = uid });
    put_process(&f, &(struct made_process){ 121, 120, .name = "vllm", .uid = uid });
    put_process(&f, &(struct made_process){ 131, 102, .name = "vllm", .uid = uid });
    struct uma_guard_warn_mark mark = {
        .magic = UMA_GUARD_WARN_MAGIC, .pid = 120, .start = 1120, .signal = (uint32_t)uma_guard_warn_signal()
    };
    folder_put_n(&f, "dev/shm/umactl-warn-120-1120", (const char *)&mark, sizeof(mark));
    take(&f);
    assert_true(process_of(&table, 121)->flags & UMA_GUARD_WARNS);
    assert_false(process_of(&table, 131)->flags & UMA_GUARD_WARNS);
    assert_int_equal(process_of(&table, 121)->envelope, -1);
    uma_guard_processes_close(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_never_touched),
        cmocka_unit_test(the_guard_and_those_above_it),
        cmocka_unit_test(trees_begin_below_the_protected),
        cmocka_unit_test(rings_and_long_chains_end),
        cmocka_unit_test(what_a_job_declared),
        cmocka_unit_test(who_wants_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
