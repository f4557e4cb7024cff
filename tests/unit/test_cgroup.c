/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "base/units.h"
#include "observe/cgroup.h"

struct machine {
    struct folder folder;
    struct uma_root *root;
    struct uma_cgroup_reader *reader;
    struct uma_snapshot snapshot;
};

static int setup(void **state) {
    struct machine *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    assert_int_equal(folder_new(&m->folder), 0);
    assert_int_equal(uma_root_open(m->folder.path, NULL, &m->root, NULL), 0);
    m->reader = uma_cgroup_reader_new(m->root);
    m->snapshot.arena = uma_arena_new(64 * UMA_MIB);
    *state = m;
    return m->reader && m->snapshot.arena ? 0 : -1;
}

static int teardown(void **state) {
    struct machine *m = *state;
    (void)uma_cgroup_reader_free(m->reader);
    (void)uma_root_close(m->root);
    (void)uma_arena_free(m->snapshot.arena);
    folder_done(&m->folder);
    free(m);
    return 0;
}

static void put(struct machine *m, const char *group, const char *file, const char *text) {
    char path[256];
    (void)snprintf(path, sizeof(path), "sys/fs/cgroup%s/%s", group, file);
    folder_put(&m->folder, path, text);
}

static int32_t add(struct machine *m, int version, const char *path, uint64_t bytes, bool candidate) {
    int32_t i = uma_cgroups_add(m->reader, version, path, strlen(path));
    uma_cgroups_weigh(m->reader, i, bytes, candidate);
    return i;
}

static void numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        enum uma_validity validity;
        uint64_t value;
    } cases[] = {
        { "123\n", UMA_KNOWN, 123 },
        { "0", UMA_KNOWN, 0 },
        { "max\n", UMA_UNLIMITED, 0 },
        { "9223372036854771712\n", UMA_UNLIMITED, 0 },   /* v1, 4 KiB pages */
        { "9223372036854710272\r\n", UMA_UNLIMITED, 0 }, /* v1, 64 KiB pages */
        { "", UMA_MALFORMED, 0 },
        { "maximum", UMA_MALFORMED, 0 },
        { "12 34", UMA_MALFORMED, 0 },
        { "-1", UMA_MALFORMED, 0 },
        { "99999999999999999999", UMA_MALFORMED, 0 },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_u64 v = uma_cgroup_number_parse(cases[i].text, strlen(cases[i].text));
        assert_int_equal(v.validity, cases[i].validity);
        assert_int_equal(v.value, cases[i].value);
    }
    static const char stat[] = "anon 5\nfile 7\nanon_thp 9\nx\nshmem\nbad y\n";
    assert_int_equal(uma_cgroup_keyed_parse(stat, sizeof(stat) - 1, "anon_thp").value, 9);
    assert_int_equal(uma_cgroup_keyed_parse(stat, sizeof(stat) - 1, "anon").value, 5);
    assert_int_equal(uma_cgroup_keyed_parse(stat, sizeof(stat) - 1, "shmem").validity, UMA_ABSENT);
    assert_int_equal(uma_cgroup_keyed_parse(stat, sizeof(stat) - 1, "bad").validity, UMA_MALFORMED);
}

static void dmem(void **state) {
    struct machine *m = *state;
    struct uma_cgroup cg = { 0 };
    static const char current[] = "drm/0000:03:00.0/vram0 100\ndrm/0000:03:00.0/stolen 5\nbroken\n";
    static const char max[] = "drm/0000:03:00.0/stolen 7\ndrm/0000:03:00.0/vram0 max\n";
    assert_int_equal(uma_cgroup_dmem_parse(current, sizeof(current) - 1, false, m->snapshot.arena, &cg), 0);
    assert_int_equal(uma_cgroup_dmem_parse(max, sizeof(max) - 1, true, m->snapshot.arena, &cg), 0);
    assert_int_equal(cg.n_dmem, 2);
    assert_string_equal(cg.dmem[0].region, "drm/0000:03:00.0/vram0");
    assert_int_equal(cg.dmem[0].current.value, 100);
    assert_int_equal(cg.dmem[0].max.validity, UMA_UNLIMITED);
    assert_int_equal(cg.dmem[1].max.value, 7);
    static const char many[] = "a 1\nb 1\nc 1\nd 1\ne 1\nf 1\ng 1\nh 1\ni 1\nj 1\n";
    struct uma_cgroup full = { 0 };
    assert_int_equal(uma_cgroup_dmem_parse(many, sizeof(many) - 1, false, m->snapshot.arena, &full), 0);
    assert_int_equal(full.n_dmem, UMA_DMEM_MAX);
}

static void unified(void **state) {
    struct machine *m = *state;
    put(m, "", "cgroup.controllers", "cpu memory dmem\n");
    put(m, "/system.slice", "memory.max", "1073741824\n");
    put(m, "/system.slice/vllm.service", "memory.current", "500000000\n");
    put(m, "/system.slice/vllm.service", "memory.max", "2147483648\n");
    put(m, "/system.slice/vllm.service", "memory.peak", "600000000\n");
    put(m, "/system.slice/vllm.service", "memory.high", "max\n");
    put(m, "/system.slice/vllm.service", "memory.swap.max", "0\n");
    put(m, "/system.slice/vllm.service", "memory.stat", "anon 1\nfile 2\nkernel 3\nshmem 4\n");
    put(m, "/system.slice/vllm.service", "memory.events", "low 0\nhigh 9\nmax 8\noom 7\noom_kill 6\n");
    put(m, "/system.slice/vllm.service", "dmem.current", "drm/card0/vram 11\n");
    put(m, "/system.slice/small.service", "memory.current", "5\n");
    put(m, "/system.slice/small.service", "memory.max", "max\n");
    put(m, "/system.slice/small.service", "memory.peak", "77\n");
    put(m, "/user.slice", "memory.current", "1\n");
    uma_cgroups_begin(m->reader, &m->snapshot);
    int32_t vllm = add(m, 2, "/system.slice/vllm.service", 1, true), small = add(m, 2, "/system.slice/small.service", UMA_MIB, false);
    int32_t user = add(m, 2, "/user.slice/gone.scope", 1, false), root = add(m, 2, "/", 1, false);
    assert_int_equal(add(m, 2, "/system.slice/vllm.service", 1, false), vllm);
    assert_true(uma_cgroups_finish(m->reader));
    assert_int_equal(m->snapshot.n_cgroups, 4);
    const struct uma_cgroup *c = &m->snapshot.cgroups[vllm];
    assert_int_equal(c->version, 2);
    assert_string_equal(c->unit, "vllm.service");
    assert_string_equal(c->source.path, "sys/fs/cgroup/system.slice/vllm.service");
    assert_int_equal(c->memory_current.value, 500000000);
    assert_int_equal(c->memory_peak.value, 600000000);
    assert_int_equal(c->memory_high.validity, UMA_UNLIMITED);
    assert_int_equal(c->memory_low.validity, UMA_ABSENT);
    assert_int_equal(c->swap_max.validity, UMA_KNOWN);
    assert_int_equal(c->anon.value, 1);
    assert_int_equal(c->shmem.value, 4);
    assert_int_equal(c->events_oom_kill.value, 6);
    assert_int_equal(c->n_dmem, 1);
    assert_int_equal(c->effective_max.value, UMA_GIB); /* the slice's, which is smaller */
    assert_string_equal(c->effective_max_path, "/system.slice");
    c = &m->snapshot.cgroups[small];
    assert_int_equal(c->memory_current.value, 5);
    assert_int_equal(c->memory_peak.validity, UMA_UNKNOWN); /* small: not read */
    assert_int_equal(c->effective_max.value, UMA_GIB);
    c = &m->snapshot.cgroups[user];
    assert_int_equal(c->source.validity, UMA_ABSENT);
    assert_int_equal(c->memory_current.validity, UMA_ABSENT);
    assert_int_equal(c->effective_max.validity, UMA_UNLIMITED);
    c = &m->snapshot.cgroups[root];
    assert_string_equal(c->path, "/");
    assert_int_equal(c->memory_max.validity, UMA_ABSENT);
}

static void version_one(void **state) {
    struct machine *m = *state;
    put(m, "/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    static const char group[] = "/memory/docker/abc";
    put(m, group, "memory.usage_in_bytes", "100\n");
    put(m, group, "memory.limit_in_bytes", "1000\n");
    put(m, group, "memory.max_usage_in_bytes", "900\n");
    put(m, group, "memory.soft_limit_in_bytes", "9223372036854771712\n");
    put(m, group, "memory.memsw.limit_in_bytes", "1500\n");
    put(m, group, "memory.stat", "cache 1\nrss 2\ntotal_cache 11\ntotal_rss 12\ntotal_shmem 13\ntotal_swap 14\n");
    put(m, group, "memory.failcnt", "3\n");
    put(m, group, "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    uma_cgroups_begin(m->reader, &m->snapshot);
    int32_t i = add(m, 1, "/docker/abc", 100 * UMA_MIB, false);
    assert_true(uma_cgroups_finish(m->reader));
    const struct uma_cgroup *c = &m->snapshot.cgroups[i];
    assert_int_equal(c->version, 1);
    assert_int_equal(c->memory_current.value, 100);
    assert_int_equal(c->memory_peak.value, 900);
    assert_int_equal(c->memory_low.validity, UMA_KNOWN);
    assert_int_equal(c->memory_low.value, 0);
    assert_int_equal(c->swap_max.value, 500);
    assert_int_equal(c->swap_current.value, 14);
    assert_int_equal(c->anon.value, 12);
    assert_int_equal(c->file.value, 11);
    assert_int_equal(c->events_max.value, 3);
    assert_int_equal(c->events_oom_kill.value, 2);
    assert_int_equal(c->effective_max.value, 1000);
    assert_string_equal(c->effective_max_path, "/docker/abc");
}

/* In a container: only its own part of the tree is mounted, others' paths begin with "/..", nothing outside of the root is opened. */
static void inside(void **state) {
    struct machine *m = *state;
    folder_put(&m->folder, "proc/self/mountinfo", "1 1 0:2 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put(m, "", "memory.max", "4096\n");
    put(m, "", "memory.current", "1024\n");
    folder_put(&m->folder, "sys/fs/memory.max", "1\n");
    uma_cgroups_begin(m->reader, &m->snapshot);
    int32_t own = add(m, 2, "/", 1, true), other = add(m, 2, "/../other", 1, true);
    assert_int_equal(uma_cgroups_add(m->reader, 2, "x", 1), -1);
    assert_int_equal(uma_cgroups_add(m->reader, 2, "", 0), -1);
    assert_true(uma_cgroups_finish(m->reader));
    assert_int_equal(m->snapshot.cgroups[own].effective_max.value, 4096);
    const struct uma_cgroup *c = &m->snapshot.cgroups[other];
    assert_int_equal(c->source.validity, UMA_ABSENT);
    assert_non_null(c->source.detail);
    assert_int_equal(c->memory_max.validity, UMA_ABSENT);
    assert_int_equal(c->effective_max.validity, UMA_ABSENT);
}

/* A path as deep as a path can be, more cgroups than are kept, and no memory: bounded, and said. */
static void hostile(void **state) {
    struct machine *m = *state;
    put(m, "", "cgroup.controllers", "memory\n");
    char deep[4095];
    for (size_t i = 0; i < sizeof(deep) - 1; i++)
        deep[i] = i % 2 ? 'a' : '/';
    deep[sizeof(deep) - 1] = '\0';
    uma_cgroups_begin(m->reader, &m->snapshot);
    int32_t i = add(m, 2, deep, 1, true);
    assert_true(i >= 0);
    assert_int_equal(add(m, 2, "/\xff\n", 1, false), 1);
    assert_true(uma_cgroups_finish(m->reader));
    assert_int_equal(m->snapshot.cgroups[i].effective_max.validity, UMA_UNKNOWN);
    assert_string_equal(m->snapshot.cgroups[1].path, "/\\xff\n");

    uma_arena_reset(m->snapshot.arena);
    uma_cgroups_begin(m->reader, &m->snapshot);
    for (int n = 0; n < UMA_CGROUPS_MAX + 5; n++) {
        char path[32];
        (void)snprintf(path, sizeof(path), "/c%d", n);
        int32_t index = add(m, 2, path, 1, false);
        assert_int_equal(index, n < UMA_CGROUPS_MAX ? n : -1);
    }
    assert_false(uma_cgroups_finish(m->reader));
    assert_int_equal(m->snapshot.n_cgroups, UMA_CGROUPS_MAX);

    struct uma_snapshot small = { .arena = uma_arena_new(600) };
    uma_cgroups_begin(m->reader, &small);
    for (int n = 0; n < 50; n++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/docker/0123456789ab%04d", n);
        int32_t index = uma_cgroups_add(m->reader, 2, path, strlen(path));
        uma_cgroups_weigh(m->reader, index, UMA_GIB, true);
    }
    assert_false(uma_cgroups_finish(m->reader));
    assert_int_equal(uma_cgroups_container(m->reader, 0), -1);
    (void)uma_arena_free(small.arena);
}

/* One container may have several cgroups; processes of each are of the same container. */
static void containers(void **state) {
    struct machine *m = *state;
    put(m, "", "cgroup.controllers", "memory\n");
    folder_put(&m->folder, "var/lib/docker/containers/0123456789abcdef/config.v2.json", "{\"Name\":\"/web\",\"Config\":{\"Image\":\"i\"}}");
    uma_cgroups_begin(m->reader, &m->snapshot);
    int32_t a = add(m, 2, "/docker/0123456789abcdef/init.scope", 1, false);
    int32_t b = add(m, 2, "/docker/0123456789abcdef/system.slice/x.service", UMA_GIB, false);
    int32_t c = add(m, 2, "/docker/ffffffffffff", 1, false), d = add(m, 2, "/user.slice", 1, false);
    assert_true(uma_cgroups_finish(m->reader));
    assert_int_equal(m->snapshot.n_containers, 2);
    assert_int_equal(uma_cgroups_container(m->reader, a), 0);
    assert_int_equal(uma_cgroups_container(m->reader, b), 0);
    assert_int_equal(uma_cgroups_container(m->reader, c), 1);
    assert_int_equal(uma_cgroups_container(m->reader, d), -1);
    assert_int_equal(uma_cgroups_container(m->reader, 99), -1);
    assert_string_equal(m->snapshot.containers[0].name, "web"); /* one of its cgroups is large */
    assert_null(m->snapshot.containers[1].name);
}

static void group_lines(void **state) {
    (void)state;
    static const char text[] = "low 0\noom 1\noom_kill 2\noom_group_kill 3\nanon 77\nanon_thp 5\nmax x\n";
    assert_int_equal(uma_cgroup_keyed_parse(text, strlen(text), "oom_kill").value, 2);
    assert_int_equal(uma_cgroup_keyed_parse(text, strlen(text), "oom").value, 1);
    assert_int_equal(uma_cgroup_keyed_parse(text, strlen(text), "anon").value, 77);
    assert_int_equal(uma_cgroup_keyed_parse(text, strlen(text), "max").validity, UMA_MALFORMED);
    assert_int_equal(uma_cgroup_keyed_parse(text, strlen(text), "shmem").validity, UMA_ABSENT);
    assert_int_equal(uma_cgroup_keyed_parse(text, 0, "low").validity, UMA_ABSENT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers), cmocka_unit_test(group_lines), TEST(dmem), TEST(unified), TEST(version_one), TEST(inside), TEST(hostile),
        TEST(containers)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
