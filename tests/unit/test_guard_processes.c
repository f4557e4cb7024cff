/* SPDX-License-Identifier: MIT */
#include "guard/names.h"
#include "guard/processes.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "test.h"

#include "guard_machine.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

static struct uma_guard_processes table;
static struct uma_guard_policy policy;

static void begin(struct folder *f) {
    assert_int_equal(guard_folder_new(f), 0);
    uma_guard_names_default(&policy);
    put_process(f, &(struct made_process){ 1, .name = "systemd" });
    assert_int_equal(uma_guard_processes_open(&table, f->path, 1), 0);
}

static void take(int64_t now, const struct uma_guard_gpu *gpu) {
    assert_int_equal(uma_guard_processes_take(&table, &policy, gpu, now, INT64_MAX), 0);
    assert_int_equal(table.time, now);
}

static void what_each_one_holds(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    begin(&f);
    put_process(&f, &(struct made_process){ 10, 1, .name = "foo) Z (", .anon = 100, .shmem = 20, .swap = 3, .uid = 1000 });
    put_process(&f, &(struct made_process){ 11, 1, .name = "stopped", .anon = 1, .state = 'T' });
    put_process(&f, &(struct made_process){ 12, 1, .name = "zombie", .state = 'Z' });
    put_process(&f, &(struct made_process){ 13, 1, .name = "ending", .anon = 500, .flags = 4 });
    put_process(&f, &(struct made_process){ 14, 1, .name = "unread", .anon = 40, .no_status = true });
    put_process(&f, &(struct made_process){ 15, 1, .name = "redis-server", .anon = 1 });
    folder_put(&f, "proc/16/stat", "16 (cut) S 1 16");
    folder_put(&f, "proc/17/status", "Name:\tno stat\n");
    folder_put(&f, "proc/18/stat", "19 (other) S 1 18 18 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0\n");
    folder_put(&f, "proc/007/stat", "7 (bond) S 1 18 18 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0\n");
    folder_put(&f, "proc/99999999999/stat", "");
    folder_put(&f, "proc/meminfo", "");
    take(SECOND, NULL);
    assert_int_equal(table.n, 7);
    const struct uma_guard_process *p = process_of(&table, 10);
    assert_string_equal(p->name, "foo) Z (");
    assert_true(p->anon == 100 * MIB_BYTES && p->shmem == 20 * MIB_BYTES && p->swap == 3 * MIB_BYTES && p->uid == 1000);
    assert_true(p->grown_ns == 0 && p->grown == 0 && !p->gpu_known && p->envelope == -1);
    assert_true(process_of(&table, 11)->flags == UMA_GUARD_STOPPED);
    assert_true(process_of(&table, 12)->flags == UMA_GUARD_EXITING);
    assert_true(process_of(&table, 13)->flags == UMA_GUARD_EXITING);
    assert_int_equal(process_of(&table, 14)->anon, 40 * MIB_BYTES); /* all that is resident, where nothing better is known */
    assert_int_equal(process_of(&table, 14)->uid, UINT32_MAX);
    assert_int_equal(process_of(&table, 15)->flags, UMA_GUARD_AVOID);
    uma_guard_processes_close(&table);
}

static void growth(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    struct made_process hog = { 10, 1, .anon = 100 }, small = { 11, 1, .anon = 1, .swap = 2 };
    begin(&f);
    put_process(&f, &hog);
    put_process(&f, &small);
    take(SECOND, NULL);
    for (int i = 1; i <= 20; i++) { /* a table every 10 ms: 10 MiB each */
        hog.anon += 10;
        put_process(&f, &hog);
        take(SECOND + i * 10 * MS, NULL);
        const struct uma_guard_process *p = process_of(&table, 10);
        assert_int_equal(p->anon, hog.anon * MIB_BYTES);
        assert_true(p->grown_ns >= MIN_OF(i * 10, 50) * MS && p->grown_ns < 100 * MS);
        assert_int_equal(p->grown * (10 * MS) / p->grown_ns, 10 * MIB_BYTES);
    }
    /* the kernel swaps out as fast as it takes: nothing of it is resident, and it grows */
    hog.swap = 50;
    hog.faults = 7;
    put_process(&f, &hog);
    take(3 * SECOND, NULL);
    assert_int_equal(process_of(&table, 10)->swap, 50 * MIB_BYTES);
    assert_int_equal(process_of(&table, 10)->grown, 50 * MIB_BYTES);
    hog.anon = 50;
    hog.swap = 0;
    put_process(&f, &hog);
    take(4 * SECOND, NULL);
    assert_true(process_of(&table, 10)->grown < 0);
    assert_int_equal(process_of(&table, 10)->grown_ns, SECOND);
    /* a small one is noticed within 100 ms, and its swap is remembered */
    small.anon = 5;
    put_process(&f, &small);
    take(5 * SECOND, NULL);
    assert_true(process_of(&table, 11)->anon == 5 * MIB_BYTES && process_of(&table, 11)->swap == 2 * MIB_BYTES);
    assert_int_equal(process_of(&table, 11)->grown, 4 * MIB_BYTES);
    /* after a while without tables the second tells of now, not of then */
    take(30 * SECOND, NULL);
    hog.anon += 40;
    put_process(&f, &hog);
    take(30 * SECOND + 10 * MS, NULL);
    assert_true(process_of(&table, 10)->grown == 40 * MIB_BYTES && process_of(&table, 10)->grown_ns == 10 * MS);
    /* the clock went back: no growth over nothing */
    take(2 * SECOND, NULL);
    assert_int_equal(process_of(&table, 10)->grown_ns, 0);
    uma_guard_processes_close(&table);
}

static void who_is_gone_and_who_has_its_number(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    begin(&f);
    put_process(&f, &(struct made_process){ 10, 1, .anon = 100 });
    put_process(&f, &(struct made_process){ 11, 1, .anon = 200 });
    take(SECOND, NULL);
    drop_process(&f, 10);
    put_process(&f, &(struct made_process){ 11, 1, .name = "reused", .start = 99999, .anon = 300 });
    put_process(&f, &(struct made_process){ 12, 1, .name = "new", .anon = 50 });
    take(2 * SECOND, NULL);
    assert_int_equal(table.n, 3);
    assert_null(process_of(&table, 10));
    assert_int_equal(process_of(&table, 11)->start, 99999);
    assert_int_equal(process_of(&table, 11)->grown_ns, 0); /* another one: it has not grown */
    assert_int_equal(process_of(&table, 12)->anon, 50 * MIB_BYTES);
    assert_true(table.whole);
    /* exec: what it is by its name is found out anew */
    put_process(&f, &(struct made_process){ 12, 1, .name = "sshd", .anon = 50 });
    take(3 * SECOND, NULL);
    assert_true(process_of(&table, 12)->flags & UMA_GUARD_PROTECTED);
    put_process(&f, &(struct made_process){ 12, 1, .name = "new", .anon = 50 });
    take(4 * SECOND, NULL);
    assert_false(process_of(&table, 12)->flags & UMA_GUARD_PROTECTED);
    /* a policy that was read anew */
    (void)strcpy(policy.protect.list[policy.protect.n++], "new");
    take(4 * SECOND + MS, NULL);
    assert_false(process_of(&table, 11)->flags & UMA_GUARD_PROTECTED);
    assert_true(process_of(&table, 12)->flags & UMA_GUARD_PROTECTED);
    policy.protect.n--;
    (void)strcpy(policy.protect.list[policy.protect.n++], "unit:db.service");
    folder_put(&f, "proc/11/cgroup", "0::/system.slice/db.service\n");
    take(4 * SECOND + 2 * MS, NULL);
    assert_true(process_of(&table, 11)->flags & UMA_GUARD_PROTECTED);
    assert_false(process_of(&table, 12)->flags & UMA_GUARD_PROTECTED);
    folder_put(&f, "proc/11/cgroup", "0::/user.slice/x.scope\n"); /* it was moved: seen within ten seconds */
    take(20 * SECOND, NULL);
    assert_false(process_of(&table, 11)->flags & UMA_GUARD_PROTECTED);
    uma_guard_processes_close(&table);
}

static void gpu_bytes(void **state) {
    (void)state;
    static struct uma_guard_gpu gpu;
    _cleanup_folder_ struct folder f = { 0 };
    begin(&f);
    put_process(&f, &(struct made_process){ 10, 1, .anon = 1 });
    put_process(&f, &(struct made_process){ 11, 1, .anon = 1 });
    gpu = (struct uma_guard_gpu){ .known = true, .n = 3, .answered = SECOND - 100 * MS };
    gpu.list[0] = (struct uma_guard_gpu_entry){ .pid = 10, .start = 1010, .bytes = 1000 };
    gpu.list[1] = (struct uma_guard_gpu_entry){ .pid = 11, .start = 7, .bytes = 2000 }; /* another, that had its number */
    gpu.list[2] = (struct uma_guard_gpu_entry){ .pid = 77, .start = 1, .bytes = 2000 };
    take(SECOND, &gpu);
    const struct uma_guard_process *p = process_of(&table, 10);
    assert_true(p->gpu_known && p->gpu == 1000 && p->gpu_grown_ns == 0);
    assert_true(process_of(&table, 11)->gpu_known && process_of(&table, 11)->gpu == 0); /* the driver says all: it has none */
    /* a new answer, 500 ms after the one before */
    put_process(&f, &(struct made_process){ 12, 1, .anon = 1 });
    gpu.answered += 500 * MS;
    gpu.n = 5;
    gpu.list[0].bytes = 3000;
    gpu.list[3] = (struct uma_guard_gpu_entry){ .pid = 12, .start = 1012, .bytes = 500 };
    gpu.list[4] = (struct uma_guard_gpu_entry){ .pid = 10, .start = 1010, .bytes = 11 }; /* on a second GPU */
    take(SECOND + 500 * MS, &gpu);
    p = process_of(&table, 10);
    assert_true(p->gpu == 3011 && p->gpu_grown == 2011 && p->gpu_grown_ns == 500 * MS);
    assert_true(p->grown_ns == 500 * MS && p->grown == 2011);
    p = process_of(&table, 12); /* it is new since, and had none then */
    assert_true(p->gpu == 500 && p->gpu_grown == 500 && p->gpu_grown_ns == 500 * MS && p->grown_ns == 0);
    /* the same answer again: growth stays that between the two, and its share of the table's time is told */
    take(SECOND + 550 * MS, &gpu);
    p = process_of(&table, 10);
    assert_true(p->gpu_grown == 2011 && p->gpu_grown_ns == 500 * MS);
    assert_true(p->grown_ns == 50 * MS && p->grown == 201);
    /* the driver hangs: what it said last stands, and tells of no growth now */
    take(30 * SECOND, &gpu);
    p = process_of(&table, 10);
    assert_true(p->gpu_known && p->gpu == 3011 && p->grown == 0);
    take(31 * SECOND, NULL);
    assert_true(process_of(&table, 10)->gpu_known && process_of(&table, 10)->gpu == 3011);
    /* let go of */
    gpu.answered = 31 * SECOND;
    gpu.n = 0;
    take(31 * SECOND + MS, &gpu);
    p = process_of(&table, 10);
    assert_true(p->gpu_known && p->gpu == 0 && p->gpu_grown == -3011);
    /* hostile numbers */
    gpu = (struct uma_guard_gpu){ .known = true, .n = 2, .answered = 31 * SECOND + 1 };
    gpu.list[0] = gpu.list[1] = (struct uma_guard_gpu_entry){ .pid = 10, .start = 1010, .bytes = UINT64_MAX };
    take(31 * SECOND + 100 * MS, &gpu);
    assert_true(process_of(&table, 10)->gpu == UINT64_MAX && process_of(&table, 10)->gpu_grown == INT64_MAX);
    assert_true(process_of(&table, 10)->grown > 0);
    uma_guard_processes_close(&table);
}

static void link_of(const struct folder *f, int pid, int fd, const char *target) {
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/proc/%d/fd", f->path, pid);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/proc/%d/fd/%d", f->path, pid, fd);
    assert_int_equal(symlink(target, path), 0);
}

static void who_has_a_device_open(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    begin(&f);
    put_process(&f, &(struct made_process){ 10, 1, .anon = 100 });
    put_process(&f, &(struct made_process){ 11, 1, .anon = 100 });
    put_process(&f, &(struct made_process){ 12, 1, .anon = 100 });
    put_process(&f, &(struct made_process){ 13, 1, .name = "Xorg", .anon = 100 });
    link_of(&f, 10, 0, "/dev/null");
    link_of(&f, 10, 3, "/dev/nvidiactl");
    link_of(&f, 11, 3, "/home/dev/nvidiactl");
    link_of(&f, 11, 4, "socket:[1]");
    link_of(&f, 13, 3, "/dev/dri/renderD128");
    take(SECOND, NULL);
    assert_int_equal(process_of(&table, 10)->flags, UMA_GUARD_HOLDS_GPU);
    assert_int_equal(process_of(&table, 11)->flags | process_of(&table, 12)->flags, 0);
    assert_int_equal(process_of(&table, 13)->flags, UMA_GUARD_PROTECTED); /* need not be suspected */
    link_of(&f, 12, 3, "/dev/kfd");
    take(SECOND + 100 * MS, NULL); /* not yet looked for again */
    assert_int_equal(process_of(&table, 12)->flags, 0);
    take(2 * SECOND, NULL);
    assert_int_equal(process_of(&table, 12)->flags, UMA_GUARD_HOLDS_GPU);
    assert_int_equal(process_of(&table, 10)->flags, UMA_GUARD_HOLDS_GPU); /* remembered */
    drop_process(&f, 10);
    put_process(&f, &(struct made_process){ 10, 1, .name = "exec", .anon = 100 });
    take(3 * SECOND, NULL);
    assert_int_equal(process_of(&table, 10)->flags, 0);
    for (int i = 0; i < 600; i++) /* more than one table looks at: it goes on */
        link_of(&f, 11, 100 + i, "/tmp/x");
    link_of(&f, 10, 3, "/dev/nvidia0");
    for (int i = 0; i < 4; i++)
        take((4 + i) * SECOND, NULL);
    assert_int_equal(process_of(&table, 10)->flags, UMA_GUARD_HOLDS_GPU);
    uma_guard_processes_close(&table);
}

static void no_proc(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(guard_folder_new(&f), 0);
    uma_guard_names_default(&policy);
    assert_int_equal(uma_guard_processes_open(&table, f.path, 1), 0);
    assert_true(uma_guard_processes_take(&table, &policy, NULL, SECOND, INT64_MAX) < 0);
    assert_true(table.n == 0 && table.time == 0);
    put_process(&f, &(struct made_process){ 10, 1, .anon = 100 });
    assert_true(uma_guard_processes_take(&table, &policy, NULL, SECOND, INT64_MAX) < 0); /* once a second */
    uma_guard_processes_close(&table);
    uma_guard_processes_close(&table);
    assert_int_equal(uma_guard_processes_open(&table, f.path, 1), 0);
    take(SECOND, NULL);
    /* no descriptor is left: the table stays as it was */
    struct rlimit limit, none = { 0 };
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none.rlim_max = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int r = uma_guard_processes_take(&table, &policy, NULL, 2 * SECOND, INT64_MAX);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(r < 0);
    assert_true(table.n == 1 && table.time == SECOND && table.list[0].anon == 100 * MIB_BYTES);
    take(3 * SECOND, NULL);
    assert_true(table.whole);
    uma_guard_processes_close(&table);
}

static void a_deadline(void **state) {
    (void)state;
    enum { MANY = 400 };
    _cleanup_folder_ struct folder f = { 0 };
    static struct uma_guard_gpu gpu = { .known = true, .n = 1, .answered = 1, .list = { { .pid = 5, .start = 1005, .bytes = 7 } } };
    begin(&f);
    for (int i = 0; i < MANY; i++)
        put_process(&f, &(struct made_process){ 1000 + i, 1, .anon = 1, .no_status = true });
    put_process(&f, &(struct made_process){ 5, 1, .anon = 1 });
    /* it is over already: only whom the driver speaks of is looked at, and it goes on there the next time */
    assert_int_equal(uma_guard_processes_take(&table, &policy, &gpu, SECOND, 1), 0);
    assert_int_equal(table.n, 1);
    assert_false(table.whole);
    take(2 * SECOND, &gpu);
    assert_int_equal(table.n, MANY + 2);
    assert_true(table.whole);
    /* short ones get round to all of them */
    for (int i = 0; i < MANY; i++)
        put_process(&f, &(struct made_process){ 1000 + i, 1, .anon = 3, .no_status = true });
    struct timespec t;
    bool all = false;
    for (int i = 0; i < 4000 && !all; i++) {
        (void)clock_gettime(CLOCK_MONOTONIC, &t);
        int64_t now = (int64_t)t.tv_sec * SECOND + t.tv_nsec;
        (void)uma_guard_processes_take(&table, &policy, &gpu, now, now + MS / 2);
        all = true;
        for (size_t k = 0; k < table.n && all; k++)
            all = table.list[k].pid < 1000 || table.list[k].anon == 3 * MIB_BYTES;
    }
    assert_true(all);
    assert_int_equal(table.n, MANY + 2);
    uma_guard_processes_close(&table);
}

/* ---- more than the table holds ------------------------------------------------------------------------------------ */

static void ten_thousand(void **state) {
    (void)state;
    enum { MANY = 10000 };
    _cleanup_folder_ struct folder f = { 0 };
    assert_int_equal(guard_folder_new(&f), 0);
    uma_guard_names_default(&policy);
    for (int i = 1; i <= MANY; i++)
        put_process(&f, &(struct made_process){ i, i == 1 ? 0 : 1, .name = i == 1 ? "systemd" : "job",
                                                .anon = i % 50 == 0 ? 1000 : (uint64_t)(i % 2), .no_status = true });
    static struct uma_guard_gpu gpu = { .known = true, .n = 1, .answered = 1, .list = { { .pid = 9999, .start = 10999, .bytes = 1 } } };
    assert_int_equal(uma_guard_processes_open(&table, f.path, 1), 0);
    for (int round = 1; round <= 3; round++) {
        take(round * SECOND, &gpu);
        assert_true(table.n <= UMA_GUARD_PROCESS_MAX && table.n > UMA_GUARD_PROCESS_MAX / 2);
        assert_false(table.whole);
        for (int i = 50; i <= MANY; i += 50) /* none of the large ones is missing */
            assert_true(uma_guard_processes_find(&table, i, 1000 + (uint64_t)i) >= 0);
        assert_true(uma_guard_processes_find(&table, 9999, 10999) >= 0);
    }
    for (int i = 101; i <= MANY; i++) /* and when most of them end, there is room again */
        drop_process(&f, i);
    take(10 * SECOND, NULL);
    take(11 * SECOND, NULL);
    assert_int_equal(table.n, 100);
    assert_true(table.whole);
    uma_guard_processes_close(&table);
}

/* ---- this machine -------------------------------------------------------------------------------------------------- */

static int64_t clock_of(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (int64_t)t.tv_sec * SECOND + t.tv_nsec : 0;
}

static void a_child_that_takes(void **state) {
    (void)state;
    SKIP_UNDER_EMULATION();
    enum { TAKES = 64 };
    int to_child[2], from_child[2];
    char c = 'x';
    assert_int_equal(pipe(to_child), 0);
    assert_int_equal(pipe(from_child), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)read(to_child[0], &c, 1);
        char *memory = mmap(NULL, TAKES * MIB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory != MAP_FAILED)
            memset(memory, 1, TAKES * MIB_BYTES);
        (void)write(from_child[1], &c, 1);
        (void)read(to_child[0], &c, 1);
        _exit(0);
    }
    assert_true(child > 0);
    uma_guard_names_default(&policy);
    assert_int_equal(uma_guard_processes_open(&table, "", (int32_t)getpid()), 0);
    take(clock_of(CLOCK_MONOTONIC), NULL);
    assert_non_null(process_of(&table, child));
    uint64_t start = process_of(&table, child)->start;
    assert_true(process_of(&table, (int)getpid())->flags & UMA_GUARD_PROTECTED);
    assert_false(process_of(&table, child)->flags & UMA_GUARD_PROTECTED);
    assert_int_equal(root_of(&table, child), child);
    assert_int_equal(process_of(&table, child)->uid, geteuid());
    (void)write(to_child[1], &c, 1);
    (void)read(from_child[0], &c, 1);
    (void)usleep(60000);
    take(clock_of(CLOCK_MONOTONIC), NULL);
    const struct uma_guard_process *p = process_of(&table, child);
    if (p->grown < (TAKES - 8) * (int64_t)MIB_BYTES) { /* it was small and quiet: within 100 ms */
        (void)usleep(100000);
        take(clock_of(CLOCK_MONOTONIC), NULL);
        p = process_of(&table, child);
    }
    assert_true(p->grown >= (TAKES - 8) * (int64_t)MIB_BYTES && p->grown_ns > 0);
    assert_true(p->anon >= TAKES * MIB_BYTES);
    take(clock_of(CLOCK_MONOTONIC), NULL); /* its files are open now */
    int64_t cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < 20; i++)
        take(clock_of(CLOCK_MONOTONIC) + i * 200 * MS, NULL);
    cpu = clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu;
    print_message("# %zu processes: %.2f ms of processor a whole table\n", table.n, (double)cpu / 20e6);
    (void)write(to_child[1], &c, 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    take(clock_of(CLOCK_MONOTONIC) + 10 * SECOND, NULL);
    assert_int_equal(uma_guard_processes_find(&table, child, start), -1); /* though its files were open */
    uma_guard_processes_close(&table);
    (void)close(to_child[0]);
    (void)close(to_child[1]);
    (void)close(from_child[0]);
    (void)close(from_child[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_each_one_holds),
        cmocka_unit_test(growth),
        cmocka_unit_test(who_is_gone_and_who_has_its_number),
        cmocka_unit_test(gpu_bytes),
        cmocka_unit_test(who_has_a_device_open),
        cmocka_unit_test(no_proc),
        cmocka_unit_test(a_deadline),
        cmocka_unit_test(ten_thousand),
        cmocka_unit_test(a_child_that_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
