/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "account/holders.h"
#include "base/arena.h"
#include "machine.h"

static struct uma_arena *arena;
static struct uma_holder *holders;
static size_t n_holders;

static int make_arena(void **state) {
    (void)state;
    arena = uma_arena_new(64 << 20);
    return arena ? 0 : -1;
}
static int free_arena(void **state) {
    (void)state;
    arena = uma_arena_free(arena);
    return 0;
}

static void build(const struct uma_snapshot *s) {
    struct uma_gpu_share share;
    struct uma_process_index index;
    assert_int_equal(uma_gpu_share_build(s, arena, &share), 0);
    assert_int_equal(uma_process_index_build(s, arena, &index), 0);
    assert_int_equal(uma_holders_build(s, &share, &index, arena, &holders, &n_holders), 0);
    assert_true(n_holders <= UMA_HOLDERS_MAX);
    for (size_t i = 1; i < n_holders; i++)
        assert_true(uma_holder_rank_bytes(&holders[i - 1]) >= uma_holder_rank_bytes(&holders[i]));
}

static const struct uma_holder *holder(int32_t pid) {
    for (size_t i = 0; i < n_holders; i++)
        if (holders[i].pid == pid)
            return &holders[i];
    return NULL;
}

static struct uma_process process(int32_t pid, int32_t ppid, uint64_t anon, uint32_t argc, const char *const *argv) {
    return (struct uma_process){ .pid = pid,
                                 .ppid = ppid,
                                 .state = 'S',
                                 .threads = 1,
                                 .name = argc > 0 ? argv[0] : "gone",
                                 .argc = argc,
                                 .argv = argv,
                                 .rss = u64(anon),
                                 .rss_anon = u64(anon),
                                 .rss_shmem = u64(0),
                                 .rss_file = u64(0),
                                 .cgroup = -1,
                                 .container = -1 };
}

#define ARGV(...)                                                                                                                          \
    (uint32_t)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), (const char *[]) {                                               \
        __VA_ARGS__                                                                                                                        \
    }

/* vLLM's engine has its arguments overwritten: what its parent was given holds for it, through a shell and a container's init. */
static void engine_inherits(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    struct uma_process list[] = {
        process(1, 0, UMA_MIB, ARGV("/sbin/init")),
        process(10, 1, UMA_MIB, ARGV("bash", "-c", "vllm serve org/m --gpu-memory-utilization 0.7")),
        process(11, 10, 900 * UMA_MIB, ARGV("python3", "/v/bin/vllm", "serve", "org/m", "--gpu-memory-utilization", "0.7")),
        process(12, 11, 1800 * UMA_MIB, ARGV("VLLM::EngineCore")),
        process(13, 11, 70 * UMA_MIB, ARGV("python3", "-c", "from multiprocessing.resource_tracker import main")),
        process(14, 1, 400 * UMA_MIB, ARGV("vim", "notes about vllm.txt")),
        process(15, 11, 300 * UMA_MIB, ARGV("cicc", "--x")),
        process(16, 1, 2000 * UMA_MIB, ARGV("mysqld")),
        process(17, 1, 100 * UMA_MIB, ARGV("python3", "train.py")),
        process(18, 1, 100 * UMA_MIB, ARGV("llama-server")),
        process(19, 1, 63 * UMA_MIB, ARGV("ollama", "serve")),
    };
    struct uma_gpu_process gp[] = { { 12, u64(80 * UMA_GIB), true }, { 17, u64(300 * UMA_MIB), true } };
    struct uma_cgroup cgroup = { .version = 2, .path = "/x", .unit = "vllm.service", .effective_max = u64(8 * UMA_GIB) };
    struct uma_container container = { .runtime = "docker", .id = "0123456789abcdef0123456789abcdef" };
    list[3].cgroup = list[3].container = 0;
    s.cgroups = &cgroup;
    s.n_cgroups = 1;
    s.containers = &container;
    s.n_containers = 1;
    s.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = ELEMENTS(list), .list = list };
    gpu.processes = gp;
    gpu.n_processes = ELEMENTS(gp);
    build(&s);

    const struct uma_holder *h = &holders[0];
    assert_int_equal(h->pid, 12);
    assert_string_equal(h->kind, "vllm");
    assert_int_equal(h->role, UMA_ROLE_SERVE);
    assert_string_equal(h->model, "org/m");
    assert_true(h->cap.present && h->cap.fraction.value == 0.7);
    assert_string_equal(h->unit, "vllm.service");
    assert_string_equal(h->container, "0123456789ab");
    assert_int_equal(h->container_limit.value, 8 * UMA_GIB);
    assert_int_equal(h->gpu_bytes.value, 80 * UMA_GIB);
    assert_false(h->exited);
    assert_string_equal(holder(11)->kind, "vllm");
    assert_int_equal(holder(11)->gpu_bytes.value, 0); /* asked, and it holds none */
    assert_string_equal(holder(13)->kind, "vllm");    /* its helper */
    assert_string_equal(holder(16)->kind, "other");
    assert_string_equal(holder(17)->kind, "pytorch");
    assert_int_equal(holder(17)->role, UMA_ROLE_TRAIN);
    assert_string_equal(holder(18)->kind, "llama.cpp");
    assert_null(holder(14)); /* mentions vllm, is not it, and is small */
    assert_null(holder(15));
    assert_null(holder(19)); /* small */
    assert_null(holder(1));
}

static void ollama_child(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    struct uma_process list[] = { process(5, 1, 100 * UMA_MIB, ARGV("ollama", "serve")),
                                  process(6, 5, 500 * UMA_MIB, ARGV("/usr/lib/ollama/llama-server", "-m", "blob", "-c", "4096")) };
    s.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = 2, .list = list };
    build(&s);
    assert_string_equal(holder(6)->kind, "ollama");
    assert_string_equal(holder(6)->model, "blob");
    assert_true(holder(6)->cap.present);
}

static void exited(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    struct uma_process list[] = { process(1, 0, UMA_MIB, ARGV("init")), process(30, 1, 0, ARGV("python")), process(31, 1, 0, 0, NULL),
                                  process(32, 1, UMA_MIB, ARGV("python")), process(33, 1, 0, ARGV("python")) };
    list[1].state = 'Z';
    list[2].rss.validity = UMA_ABSENT; /* its memory map is gone: it is in the driver's release */
    list[4].state = 'Z';
    list[4].threads = 3; /* only the leader ended */
    struct uma_gpu_process gp[] = { { 30, u64(UMA_GIB), true },     { 31, u64(2 * UMA_GIB), true },  { 32, u64(3 * UMA_GIB), true },
                                    { 33, u64(3 * UMA_GIB), true }, { 99, u64(40 * UMA_GIB), true }, { 98, u64(0), true } };
    s.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = ELEMENTS(list), .list = list };
    gpu.processes = gp;
    gpu.n_processes = ELEMENTS(gp);
    build(&s);
    assert_true(holder(30)->exited && holder(31)->exited && holder(99)->exited);
    assert_false(holder(32)->exited || holder(33)->exited);
    assert_null(holder(99)->name);
    assert_string_equal(holder(99)->kind, "other");
    assert_null(holder(98));
    s.platform.in_container = UMA_YES; /* the host's pids mean nothing here */
    build(&s);
    assert_false(holder(99)->exited);
    s.platform.in_container = UMA_NO;
    list[0].pid = 2; /* hidepid: others are not seen, which does not make them gone */
    build(&s);
    assert_false(holder(99)->exited);
}

static void unsorted_and_looping(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    struct uma_process list[] = { process(9, 8, UMA_GIB, ARGV("python", "x.py")), process(8, 7, UMA_GIB, ARGV("sh")),
                                  process(7, 9, UMA_GIB, ARGV("python3", "-m", "sglang.launch_server")) };
    struct uma_gpu_process gp[] = { { 9, u64(UMA_GIB), true } };
    s.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = ELEMENTS(list), .list = list };
    gpu.processes = gp;
    gpu.n_processes = 1;
    build(&s);
    assert_string_equal(holder(9)->kind, "sglang");
    assert_int_equal(holder(9)->gpu_bytes.value, UMA_GIB);
}

/* Thousands of processes: the largest, and every one with GPU memory. */
static void many(void **state) {
    (void)state;
    enum { N = 5000 };
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    static const char *const argv[] = { "worker" };
    struct uma_process *list = uma_arena_array(arena, N, sizeof(*list));
    for (int i = 0; i < N; i++)
        list[i] = process(i + 2, 1, (uint64_t)(i % 997) * 2 * UMA_MIB, 1, argv);
    struct uma_gpu_process gp[] = { { 2, u64(UMA_MIB), false } };
    s.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = N, .list = list };
    gpu.processes = gp;
    gpu.n_processes = 1;
    build(&s);
    assert_int_equal(n_holders, UMA_HOLDERS_MAX);
    assert_int_equal(uma_holder_rank_bytes(&holders[0]), 996 * 2 * UMA_MIB);
    assert_non_null(holder(2));
}

/* Without an answer of the driver, GPU bytes are unknown, not 0. */
static void gpu_unknown(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    struct uma_process list[] = { process(5, 1, 10 * UMA_GIB, ARGV("python", "serve.py")) };
    s.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = 1, .list = list };
    build(&s);
    assert_int_equal(holder(5)->gpu_bytes.validity, UMA_KNOWN);
    gpu.processes_validity = UMA_DENIED; /* a Jetson tells of the device; by process only where debugfs may be read */
    gpu.vendor = "tegra";
    s.meminfo.nvmap_mem_used = u64(18 * UMA_GIB);
    build(&s);
    assert_false(uma_usable(holder(5)->gpu_bytes.validity));
    gpu.processes_validity = UMA_KNOWN;
    build(&s);
    assert_int_equal(holder(5)->gpu_bytes.validity, UMA_KNOWN);
    s.gpus.source.validity = UMA_FAILED;
    build(&s);
    assert_false(uma_usable(holder(5)->gpu_bytes.validity));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_inherits),      cmocka_unit_test(ollama_child), cmocka_unit_test(exited),
        cmocka_unit_test(unsorted_and_looping), cmocka_unit_test(many),         cmocka_unit_test(gpu_unknown)
    };
    return cmocka_run_group_tests_name("holders", tests, make_arena, free_arena);
}
