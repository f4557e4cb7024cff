/* SPDX-License-Identifier: MIT */
/*
 * Where a group is made, what it says, and that it goes again, on a folder. A kernel fills a group with its files when it is made and takes them away with it; here
 * mkdirat(2), unlinkat(2) and rmdir(2) of the program under test do (the linker's --wrap), so that a machine with cgroup v2's memory controller can be had anywhere.
 */
#include "test.h"

#include "act/cgroup_scope.h"
#include "base/units.h"
#include "folder.h"

#include <fcntl.h>
#include <string.h>

/* What the made-up kernel puts into a new group. */
static const char *const *kernel_files;
static bool busy; /* removing a group fails: it holds processes */

int __real_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode);
int __real_unlinkat(int dir, const char *name, int flags);
int __wrap_unlinkat(int dir, const char *name, int flags);
int __real_rmdir(const char *path);
int __wrap_rmdir(const char *path);

int __wrap_mkdirat(int dir, const char *name, mode_t mode) {
    int r = __real_mkdirat(dir, name, mode);
    for (size_t i = 0; r == 0 && kernel_files && kernel_files[i]; i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/%s", name, kernel_files[i]);
        int fd = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        (void)close(fd);
    }
    return r;
}

int __wrap_unlinkat(int dir, const char *name, int flags) {
    for (size_t i = 0; flags == AT_REMOVEDIR && !busy && kernel_files && kernel_files[i]; i++) {
        char path[256];
        (void)snprintf(path, sizeof(path), "%s/%s", name, kernel_files[i]);
        (void)__real_unlinkat(dir, path, 0);
    }
    return __real_unlinkat(dir, name, flags);
}

int __wrap_rmdir(const char *path) {
    if (busy) {
        errno = EBUSY;
        return -1;
    }
    return __wrap_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

static const char *const v2_files[] = { "cgroup.procs",  "memory.current",      "memory.peak", "memory.stat",
                                        "memory.events", "memory.swap.current", NULL };
static const char *const v2_bare[] = { "cgroup.procs", NULL };
static const char *const v1_files[] = { "cgroup.procs", "memory.usage_in_bytes", "memory.max_usage_in_bytes",
                                        "memory.stat",  "memory.oom_control",    NULL };

struct machine {
    struct folder folder;
    struct uma_cgroup_scope scope;
};

static void create(struct machine *m, const char *const *files) {
    kernel_files = files;
    busy = false;
    uma_cgroup_scope_create_in(m->folder.path, "train", &m->scope);
}

/* The made group's folder under the machine's. */
static const char *made(const struct machine *m) {
    assert_int_equal(strncmp(m->scope.path, m->folder.path, strlen(m->folder.path)), 0);
    return m->scope.path + strlen(m->folder.path);
}

static void machine_done(struct machine *m) {
    (void)uma_cgroup_scope_remove(&m->scope);
    folder_done(&m->folder);
}
#define _cleanup_machine_ _cleanup_(machine_done)

static void machine_v2(struct machine *m, const char *own) {
    char line[512];
    *m = (struct machine){ .scope = { .dir_fd = -1, .procs_fd = -1 } };
    assert_int_equal(folder_new(&m->folder), 0);
    (void)snprintf(line, sizeof(line), "0::%s\n", own);
    folder_put(&m->folder, "proc/self/cgroup", line);
    folder_put(&m->folder, "sys/fs/cgroup/cgroup.procs", "1\n");
    (void)snprintf(line, sizeof(line), "sys/fs/cgroup%s/cgroup.procs", own);
    folder_put(&m->folder, line, "1\n");
}

#define OWN "/user.slice/session-1.scope"

static void v2_beside(void **state) {
    (void)state;
    _cleanup_machine_ struct machine m;
    char expected[200];
    machine_v2(&m, OWN);
    folder_put(&m.folder, "sys/fs/cgroup" OWN "/memory.max", "max\n");
    folder_put(&m.folder, "sys/fs/cgroup" OWN "/memory.high", "max\n");
    folder_put(&m.folder, "sys/fs/cgroup" OWN "/cpu.max", "max 100000\n");
    folder_put(&m.folder, "sys/fs/cgroup" OWN "/cpuset.cpus", "\n");
    create(&m, v2_files);
    assert_true(m.scope.dir_fd >= 0 && m.scope.procs_fd >= 0);
    assert_int_equal(m.scope.version, 2);
    assert_true(m.scope.memory);
    assert_string_equal(m.scope.note, "");
    (void)snprintf(expected, sizeof(expected), "/sys/fs/cgroup/user.slice/umactl-train-%d", (int)getpid());
    assert_string_equal(made(&m), expected);
    /* the job enters by itself, through this descriptor */
    assert_int_equal(write(m.scope.procs_fd, "0", 1), 1);
    assert_int_equal(uma_cgroup_scope_remove(&m.scope), 0);
    assert_int_equal(m.scope.dir_fd, -1);
    assert_int_not_equal(access(m.scope.path, F_OK), 0);
}

/* Outside of the cgroup namespace, or cut off: what the path names below the mount is no group of ours. */
static void v2_climbing(void **state) {
    (void)state;
    static const char *const paths[] = { "/..", "/../x", "/a/../../../b", "", "relative" };
    for (size_t i = 0; i < ELEMENTS(paths); i++) {
        _cleanup_machine_ struct machine m;
        char line[64];
        machine_v2(&m, OWN);
        (void)snprintf(line, sizeof(line), "0::%s\n", paths[i]);
        folder_put(&m.folder, "proc/self/cgroup", line);
        folder_put(&m.folder, "sys/fs/x/file", "");
        folder_put(&m.folder, "sys/fs/cgroup/a/file", "");
        create(&m, v2_files);
        assert_int_equal(m.scope.dir_fd, -1);
        assert_non_null(strstr(m.scope.note, "no group could be made"));
    }
    struct machine m;
    machine_v2(&m, "/user.slice/..two..dots");
    create(&m, v2_files);
    assert_true(m.scope.dir_fd >= 0);
    machine_done(&m);
}

/* A group with a limit is not left: the job's stays below it, and has no memory accounting. */
static void v2_limited(void **state) {
    (void)state;
    static const struct {
        const char *file, *text;
    } limits[] = { { "memory.max", "1073741824\n" }, { "memory.high", "1\n" },   { "cpu.max", "50000 100000\n" },
                   { "pids.max", "512\n" },          { "cpuset.cpus", "0-3\n" }, { "memory.swap.max", "0\n" } };
    for (size_t i = 0; i < ELEMENTS(limits); i++) {
        _cleanup_machine_ struct machine m;
        char file[200], expected[200];
        machine_v2(&m, OWN);
        (void)snprintf(file, sizeof(file), "sys/fs/cgroup" OWN "/%s", limits[i].file);
        folder_put(&m.folder, file, limits[i].text);
        create(&m, v2_bare);
        (void)snprintf(expected, sizeof(expected), "/sys/fs/cgroup" OWN "/umactl-train-%d", (int)getpid());
        assert_string_equal(made(&m), expected);
        assert_false(m.scope.memory);
        assert_non_null(strstr(m.scope.note, "no memory controller"));
        assert_int_equal(uma_cgroup_scope_remove(&m.scope), 0);
    }
}

/* The parent hands no memory controller down: what was tried beside is taken away again. */
static void v2_without_controller(void **state) {
    (void)state;
    _cleanup_machine_ struct machine m;
    char tried[200];
    machine_v2(&m, OWN);
    create(&m, v2_bare);
    assert_true(m.scope.dir_fd >= 0);
    assert_false(m.scope.memory);
    (void)snprintf(tried, sizeof(tried), "%s/sys/fs/cgroup/user.slice/umactl-train-%d", m.folder.path, (int)getpid());
    assert_int_not_equal(access(tried, F_OK), 0);
    struct uma_cgroup_usage usage;
    uma_cgroup_scope_usage(&m.scope, &usage);
    assert_int_not_equal(usage.current.validity, UMA_KNOWN);
}

/* The root group has no sibling. */
static void v2_at_the_root(void **state) {
    (void)state;
    _cleanup_machine_ struct machine m;
    char expected[200];
    machine_v2(&m, "/");
    create(&m, v2_files);
    (void)snprintf(expected, sizeof(expected), "/sys/fs/cgroup/umactl-train-%d", (int)getpid());
    assert_string_equal(made(&m), expected);
    assert_true(m.scope.memory);
}

static void v2_usage(void **state) {
    (void)state;
    _cleanup_machine_ struct machine m;
    struct uma_cgroup_usage usage;
    char file[200];
    machine_v2(&m, OWN);
    create(&m, v2_files);
    static const struct {
        const char *file, *text;
    } says[] = { { "memory.current", "5000\n" },
                 { "memory.peak", "7000\n" },
                 { "memory.swap.current", "30\n" },
                 { "memory.stat", "anon 4000\nfile 900\nkernel 100\nshmem 200\nanon_thp 1\n" },
                 { "memory.events", "low 0\nhigh 0\nmax 4\noom 2\noom_kill 1\noom_group_kill 0\n" } };
    for (size_t i = 0; i < ELEMENTS(says); i++) {
        (void)snprintf(file, sizeof(file), "%s/%s", made(&m) + 1, says[i].file);
        folder_put(&m.folder, file, says[i].text);
    }
    uma_cgroup_scope_usage(&m.scope, &usage);
    assert_int_equal(usage.current.value, 5000);
    assert_int_equal(usage.peak.value, 7000);
    assert_int_equal(usage.anon.value, 4000);
    assert_int_equal(usage.shmem.value, 200);
    assert_int_equal(usage.swap.value, 30);
    assert_int_equal(usage.oom_kill.value, 1);
    assert_int_equal(uma_cgroup_scope_memory(&m.scope).value, 4200);
    /* before Linux 5.19 there is no peak: unknown, not 0 */
    (void)snprintf(file, sizeof(file), "%s/memory.peak", made(&m) + 1);
    folder_drop(&m.folder, file);
    uma_cgroup_scope_usage(&m.scope, &usage);
    assert_int_not_equal(usage.peak.validity, UMA_KNOWN);
    assert_int_equal(usage.current.value, 5000);
}

static void v1_usage(void **state) {
    (void)state;
    _cleanup_machine_ struct machine m = { .scope = { .dir_fd = -1, .procs_fd = -1 } };
    struct uma_cgroup_usage usage;
    char file[200];
    assert_int_equal(folder_new(&m.folder), 0);
    folder_put(&m.folder, "proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/jobs\n1:name=systemd:/b\n0::/c\n");
    folder_put(&m.folder, "sys/fs/cgroup/memory/jobs/cgroup.procs", "1\n");
    create(&m, v1_files);
    assert_int_equal(m.scope.version, 1);
    (void)snprintf(file, sizeof(file), "%s/memory.stat", made(&m) + 1);
    folder_put(&m.folder, file, "rss 1\ntotal_rss 4000\ntotal_shmem 200\ntotal_swap 30\n");
    (void)snprintf(file, sizeof(file), "%s/memory.usage_in_bytes", made(&m) + 1);
    folder_put(&m.folder, file, "5000\n");
    (void)snprintf(file, sizeof(file), "%s/memory.max_usage_in_bytes", made(&m) + 1);
    folder_put(&m.folder, file, "7000\n");
    (void)snprintf(file, sizeof(file), "%s/memory.oom_control", made(&m) + 1);
    folder_put(&m.folder, file, "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    uma_cgroup_scope_usage(&m.scope, &usage);
    assert_int_equal(usage.current.value, 5000);
    assert_int_equal(usage.peak.value, 7000);
    assert_int_equal(usage.anon.value, 4000);
    assert_int_equal(usage.shmem.value, 200);
    assert_int_equal(usage.swap.value, 30);
    assert_int_equal(usage.oom_kill.value, 2);
    assert_int_equal(uma_cgroup_scope_memory(&m.scope).value, 4200);
}

static void none(void **state) {
    (void)state;
    _cleanup_machine_ struct machine m = { .scope = { .dir_fd = -1, .procs_fd = -1 } };
    struct uma_cgroup_usage usage;
    assert_int_equal(folder_new(&m.folder), 0);
    create(&m, v2_files);
    assert_int_equal(m.scope.dir_fd, -1);
    assert_string_equal(m.scope.note, "no control groups here");
    uma_cgroup_scope_usage(&m.scope, &usage);
    assert_int_not_equal(usage.anon.validity, UMA_KNOWN);
    assert_int_not_equal(uma_cgroup_scope_memory(&m.scope).validity, UMA_KNOWN);
    assert_int_equal(uma_cgroup_scope_remove(&m.scope), 0);
}

static void collect(void *userdata, pid_t pid) {
    int *sum = userdata;
    *sum += (int)pid;
}

static void processes(void **state) {
    (void)state;
    _cleanup_machine_ struct machine m;
    char file[200];
    int sum = 0;
    machine_v2(&m, OWN);
    create(&m, v2_files);
    (void)snprintf(file, sizeof(file), "%s/cgroup.procs", made(&m) + 1);
    folder_put(&m.folder, file, "1\n20\n0\n99999999999\n");
    (void)snprintf(file, sizeof(file), "%s/inner/cgroup.procs", made(&m) + 1);
    folder_put(&m.folder, file, "300\n4000\n");
    uma_cgroup_scope_processes(&m.scope, collect, &sum);
    assert_int_equal(sum, 4321); /* 0 is a process of another namespace; what is no pid ends the list */
    busy = true;
    assert_int_equal(uma_cgroup_scope_remove(&m.scope), -EBUSY);
    assert_int_equal(access(m.scope.path, F_OK), 0);
}

/* Empty groups of runs whose umactl is gone are taken away; others' are not touched. */
static void sweep(void **state) {
    (void)state;
    _cleanup_machine_ struct machine m;
    char live[200];
    static const char *const stay[] = { "umactl-x-1", "umactl-y-0", "umactl-z-", "umactl-", "umactl-a-12b", "other-2147483647" };
    machine_v2(&m, OWN);
    (void)snprintf(live, sizeof(live), "sys/fs/cgroup/user.slice/umactl-live-%d/cgroup.procs", (int)getppid());
    folder_put(&m.folder, live, "");
    folder_put(&m.folder, "sys/fs/cgroup/user.slice/umactl-gone-2147483647/cgroup.procs", "");
    for (size_t i = 0; i < ELEMENTS(stay); i++) {
        char path[200];
        (void)snprintf(path, sizeof(path), "sys/fs/cgroup/user.slice/%s/cgroup.procs", stay[i]);
        folder_put(&m.folder, path, "");
    }
    create(&m, v2_files);
    char path[400];
    (void)snprintf(path, sizeof(path), "%s/sys/fs/cgroup/user.slice/umactl-gone-2147483647", m.folder.path);
    assert_int_not_equal(access(path, F_OK), 0);
    (void)snprintf(path, sizeof(path), "%s/%s", m.folder.path, live);
    assert_int_equal(access(path, F_OK), 0);
    for (size_t i = 0; i < ELEMENTS(stay); i++) {
        (void)snprintf(path, sizeof(path), "%s/sys/fs/cgroup/user.slice/%s/cgroup.procs", m.folder.path, stay[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(v2_beside),      cmocka_unit_test(v2_climbing),
                                        cmocka_unit_test(v2_limited),     cmocka_unit_test(v2_without_controller),
                                        cmocka_unit_test(v2_at_the_root), cmocka_unit_test(v2_usage),
                                        cmocka_unit_test(v1_usage),       cmocka_unit_test(none),
                                        cmocka_unit_test(processes),      cmocka_unit_test(sweep) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
