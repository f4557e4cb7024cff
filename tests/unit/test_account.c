/* SPDX-License-Identifier: MIT */
/* The account as a whole: every machine of the fixtures against what is expected of it, and any combination of unknowns. */
#include "test.h"

#include "machine.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static bool says(const json_t *problems, const char *id) {
    size_t i;
    json_t *p;
    json_array_foreach(problems, i, p) if (strcmp(json_string_value(p), id) == 0) return true;
    return false;
}

static const struct uma_holder *holder(const struct uma_account *a, json_int_t pid) {
    for (size_t i = 0; i < a->n_holders; i++)
        if (a->holders[i].pid == pid)
            return &a->holders[i];
    return NULL;
}

static void check_number(const char *machine, const json_t *expected, const char *key, struct uma_u64 have) {
    const json_t *want = json_object_get(expected, key);
    if (!want)
        return;
    if (json_is_null(want)) { /* must be unknown */
        if (uma_usable(have.validity))
            fail_msg("%s: %s is %llu, and nothing tells", machine, key, (unsigned long long)have.value);
        return;
    }
    if (!uma_usable(have.validity) || have.value != (uint64_t)json_integer_value(want))
        fail_msg("%s: %s is %llu (%s)", machine, key, (unsigned long long)have.value, uma_validity_name(have.validity));
}

static void check_machine(const char *machine, const json_t *expected, const struct uma_account *a) {
    assert_true(a->ledger.known);
    assert_int_equal(machine_sum(&a->ledger), a->ledger.total);
    check_number(machine, expected, "total", a->headroom.total);
    check_number(machine, expected, "now", a->headroom.now);
    check_number(machine, expected, "available", a->headroom.available);
    check_number(machine, expected, "largest_free_block", a->headroom.largest_free_block);
    check_number(machine, expected, "gpu_limit", a->headroom.gpu_limit);
    check_number(machine, expected, "gpu_bytes", (struct uma_u64){ a->ledger.bytes[UMA_LEDGER_GPU], UMA_KNOWN });
    if (json_object_get(expected, "hugetlb_rule"))
        assert_true(a->headroom.hugetlb_rule == json_is_true(json_object_get(expected, "hugetlb_rule")));
    if (json_object_get(expected, "available_estimated"))
        assert_true(a->headroom.available_estimated);
    const json_t *problems = json_object_get(expected, "problems");
    for (size_t i = 0; i < a->n_problems; i++)
        if (!says(problems, a->problems[i].id))
            fail_msg("%s: unexpected %s: %s", machine, a->problems[i].id, a->problems[i].evidence);
    if (a->n_problems != json_array_size(problems))
        fail_msg("%s: %zu problems of %zu", machine, a->n_problems, json_array_size(problems));
    size_t i;
    json_t *want;
    json_array_foreach(json_object_get(expected, "holders"), i, want) {
        const struct uma_holder *h = holder(a, json_integer_value(json_object_get(want, "pid")));
        if (!h)
            fail_msg("%s: pid %lld holds nothing", machine, (long long)json_integer_value(json_object_get(want, "pid")));
        check_number(machine, want, "gpu_bytes", h->gpu_bytes);
        const char *kind = json_string_value(json_object_get(want, "kind"));
        if (kind)
            assert_string_equal(h->kind, kind);
    }
}

static void machines(void **state) {
    (void)state;
    const char *fixtures = getenv("UMA_FIXTURES");
    char path[4096];
    json_error_t error;
    assert_non_null(fixtures);
    (void)snprintf(path, sizeof(path), "%s/machines/EXPECTED.json", fixtures);
    json_t *all = json_load_file(path, 0, &error), *expected;
    const char *machine;
    assert_non_null(all);
    assert_true(json_object_size(all) > 20);
    json_object_foreach(all, machine, expected) {
        struct uma_snapshot s;
        struct uma_account a;
        struct uma_observer *observer;
        struct uma_error err = { 0 };
        (void)snprintf(path, sizeof(path), "%s/machines/%s", fixtures, machine);
        struct uma_observe_options options = { .root = path };
        assert_int_equal(uma_snapshot_init(&s), 0);
        assert_int_equal(uma_observer_open(&options, &observer, &err), 0);
        assert_true(uma_observer_read(observer, UMA_READ_ALL, &s, &err) >= 0);
        assert_int_equal(uma_account_build(&s, 0, &a, &err), 0);
        check_machine(machine, expected, &a);
        uma_account_done(&a);
        uma_snapshot_done(&s);
        (void)uma_observer_close(observer);
    }
    json_decref(all);
}

static void remove_tree(const char *at) {
    char command[4200];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", at);
    assert_int_equal(system(command), 0);
}

/* A folder with a Spark's files and no recorded answer of its driver (a bug report's): nobody asked NVML, so it is not said to be
 * missing. */
static void folder_without_record(void **state) {
    (void)state;
    char folder[] = "/tmp/uma-account-XXXXXX", command[4600];
    struct uma_snapshot s;
    struct uma_account a;
    struct uma_observer *observer;
    struct uma_error err = { 0 };
    assert_non_null(mkdtemp(folder));
    (void)snprintf(command, sizeof(command), "cp -r '%s/machines/spark-idle/.' '%s' && rm -rf '%s/umactl'", getenv("UMA_FIXTURES"), folder,
                   folder);
    assert_int_equal(system(command), 0);
    struct uma_observe_options options = { .root = folder };
    assert_int_equal(uma_snapshot_init(&s), 0);
    assert_int_equal(uma_observer_open(&options, &observer, &err), 0);
    assert_true(uma_observer_read(observer, UMA_READ_ALL, &s, &err) >= 0);
    assert_int_equal(uma_account_build(&s, 0, &a, &err), 0);
    assert_int_equal(s.platform.name, UMA_PLATFORM_DGX_SPARK);
    assert_int_equal(a.n_problems, 0);
    assert_int_equal(a.headroom.driver_pools.validity, UMA_UNKNOWN);
    uma_account_done(&a);
    uma_snapshot_done(&s);
    (void)uma_observer_close(observer);
    remove_tree(folder);
}

/* ---- any reading -------------------------------------------------------------------------------------------- */

static uint64_t random_state = 0x2545f4914f6cdd1d;
static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}
static enum uma_validity any_validity(void) {
    return draw() % 3 ? UMA_KNOWN : (enum uma_validity)(draw() % UMA_VALIDITY_MAX);
}
static struct uma_u64 any_u64(void) {
    return (struct uma_u64){ draw() % 20 ? draw() >> (24 + draw() % 36) : draw(), any_validity() };
}
static struct uma_f64 any_f64(void) {
    static const double odd[] = { 0, 1, -1, 0.95, 1e300, -1e300, 19.5, 104.8, 3 };
    double value = draw() % 2 ? odd[draw() % ELEMENTS(odd)] : (double)(draw() % 2000) / 10;
    return (struct uma_f64){ draw() % 50 ? value : __builtin_nan(""), any_validity() };
}
static const char *any_text(void) {
    static const char *const texts[] = { NULL,
                                         "",
                                         "vllm",
                                         "bash",
                                         "-c",
                                         "vllm serve \xff m; x",
                                         "--gpu-memory-utilization",
                                         "0.5",
                                         "a\nb\033[31m",
                                         "VLLM::EngineCore",
                                         "python3",
                                         "-m",
                                         "sglang.launch_server",
                                         "%s%n%d",
                                         "nvidia",
                                         "amd",
                                         "tegra",
                                         "6.17.0",
                                         "torchrun",
                                         "=",
                                         "--",
                                         "PYTORCH_ALLOC_CONF=per_process_memory_fraction:7" };
    return texts[draw() % ELEMENTS(texts)];
}
static const char *some_text(void) {
    const char *text = any_text();
    return text ? text : "x";
}

enum { PROCESSES = 40, GPUS = 3, ZONES = 4 };

struct random_machine {
    struct uma_snapshot s;
    struct uma_process processes[PROCESSES];
    const char *argv[PROCESSES][6];
    struct uma_gpu gpus[GPUS];
    struct uma_gpu_process gpu_processes[GPUS][8];
    struct uma_zone zones[ZONES];
    struct uma_cgroup cgroups[2];
    struct uma_container containers[2];
    struct uma_thermal_zone thermal[2];
};

static void random_gpus(struct random_machine *m) {
    for (int i = 0; i < GPUS; i++) {
        struct uma_gpu *g = &m->gpus[i];
        for (int p = 0; p < 8; p++)
            m->gpu_processes[i][p] = (struct uma_gpu_process){ (int32_t)(draw() % 50), any_u64(), draw() % 2 == 0 };
        *g = (struct uma_gpu){ .vendor = any_text(),
                               .name = any_text(),
                               .unified = (enum uma_truth)(draw() % 3),
                               .numa_node = (int32_t)(draw() % 3) - 1,
                               .memory_free = any_u64(),
                               .container_limit = any_u64(),
                               .gtt_total = any_u64(),
                               .gtt_used = any_u64(),
                               .celsius = any_f64(),
                               .limit_margin_celsius = any_f64(),
                               .watts = any_f64(),
                               .sm_hertz = any_u64(),
                               .sm_max_hertz = any_u64(),
                               .utilization = any_f64(),
                               .throttle_reasons = any_u64(),
                               .processes_validity = any_validity(),
                               .n_processes = draw() % 9,
                               .processes = m->gpu_processes[i] };
        for (int t = 0; t < UMA_THROTTLE_MAX; t++)
            g->throttle_seconds[t] = any_f64();
    }
    m->s.gpus = (struct uma_gpus){
        .source = { .validity = any_validity(), .detail = any_text() }, .hung = draw() % 8 == 0, .n = draw() % (GPUS + 1), .list = m->gpus
    };
}

static void random_processes(struct random_machine *m) {
    for (int i = 0; i < PROCESSES; i++) {
        for (int a = 0; a < 6; a++)
            m->argv[i][a] = some_text();
        m->processes[i] = (struct uma_process){ .pid = draw() % 10 ? i : (int32_t)(draw() % 60) - 2,
                                                .ppid = (int32_t)(draw() % 60) - 2,
                                                .state = "RSZXD"[draw() % 5],
                                                .threads = (uint32_t)(draw() % 3),
                                                .kernel_thread = draw() % 9 == 0,
                                                .cmdline_cut = draw() % 9 == 0,
                                                .name = any_text(),
                                                .argc = (uint32_t)(draw() % 7),
                                                .argv = m->argv[i],
                                                .envc = (uint32_t)(draw() % 3),
                                                .env = m->argv[(i + 1) % PROCESSES],
                                                .rss = any_u64(),
                                                .rss_anon = any_u64(),
                                                .rss_shmem = any_u64(),
                                                .swap = any_u64(),
                                                .cgroup = (int32_t)(draw() % 5) - 2,
                                                .container = (int32_t)(draw() % 5) - 2 };
    }
    m->s.processes =
        (struct uma_processes){ .source = { .validity = any_validity() }, .n = draw() % (PROCESSES + 1), .list = m->processes };
    for (int i = 0; i < 2; i++) {
        m->cgroups[i] = (struct uma_cgroup){ .unit = any_text(), .effective_max = any_u64() };
        m->containers[i] = (struct uma_container){ .id = any_text(), .name = any_text() };
        m->thermal[i] = (struct uma_thermal_zone){ .type = any_text(), .celsius = any_f64(), .critical_celsius = any_f64() };
    }
    m->s.cgroups = m->cgroups;
    m->s.n_cgroups = draw() % 3;
    m->s.containers = m->containers;
    m->s.n_containers = draw() % 3;
    m->s.heat.zones = m->thermal;
    m->s.heat.n_zones = draw() % 3;
}

static void random_memory(struct random_machine *m) {
#define RANDOM_FIELD(field, key) m->s.meminfo.field = any_u64();
    UMA_MEMINFO_FIELDS(RANDOM_FIELD)
#undef RANDOM_FIELD
    for (int i = 0; i < ZONES; i++) {
        m->zones[i] =
            (struct uma_zone){ .pcp_pages = any_u64(), .low_pages = any_u64(), .n_orders = (uint32_t)(draw() % (UMA_ORDERS_MAX + 1)) };
        for (uint32_t o = 0; o < m->zones[i].n_orders; o++)
            m->zones[i].blocks[o] = draw() >> (draw() % 64);
    }
    m->s.zones = (struct uma_zones){ .page_size = any_u64(), .n_zones = draw() % (ZONES + 1), .zones = m->zones };
    m->s.memory_pressure.source.validity = any_validity();
    m->s.memory_pressure.some.avg10 = m->s.memory_pressure.full.avg10 = any_f64();
    m->s.memory_pressure.some.avg60 = any_f64();
    m->s.meminfo.source.validity = any_validity();
    m->s.vmstat.source.validity = any_validity();
    m->s.vmstat.compact_stall = m->s.vmstat.compact_fail = any_u64();
    m->s.platform.name = (enum uma_platform_name)(draw() % UMA_PLATFORM_MAX);
    m->s.platform.unified = (enum uma_truth)(draw() % 3);
    m->s.platform.in_container = (enum uma_truth)(draw() % 3);
    m->s.platform.kernel = any_text();
    m->s.platform.driver = any_text();
}

/* Rows sum, the budget stays within the machine, nothing crashes, and a second look says the same. */
static void any_machine(void **state) {
    (void)state;
    static struct random_machine m;
    for (int round = 0; round < 3000; round++) {
        struct uma_account a, b;
        (void)memset(&m, 0, sizeof(m));
        random_memory(&m);
        random_gpus(&m);
        random_processes(&m);
        uint64_t reserved = draw() % 2 ? 0 : draw() >> (draw() % 60);
        assert_int_equal(uma_account_build(&m.s, reserved, &a, NULL), 0);
        assert_int_equal(machine_sum(&a.ledger), a.ledger.total);
        assert_int_equal(a.ledger.known, uma_usable(m.s.meminfo.mem_total.validity));
        if (uma_usable(a.headroom.budget.validity))
            assert_true(uma_usable(a.headroom.total.validity) && a.headroom.budget.value <= a.headroom.total.value);
        if (uma_usable(a.headroom.available.validity) && uma_usable(a.headroom.total.validity))
            assert_true(a.headroom.available.value <= a.headroom.total.value);
        for (size_t i = 0; i < a.n_holders; i++)
            assert_true(a.holders[i].kind && (!a.holders[i].cap.present || a.holders[i].cap.source));
        for (size_t i = 0; i < a.n_problems; i++)
            assert_true(a.problems[i].evidence && a.problems[i].remedy && a.problems[i].summary);
        assert_int_equal(uma_account_build(&m.s, reserved, &b, NULL), 0);
        assert_memory_equal(&a.ledger, &b.ledger, sizeof(a.ledger));
        assert_int_equal(a.n_problems, b.n_problems);
        assert_int_equal(a.n_holders, b.n_holders);
        uma_account_done(&a);
        uma_account_done(&b);
        uma_account_done(&b); /* twice is fine */
    }
}

static void names(void **state) {
    (void)state;
    assert_string_equal(uma_ledger_kind_name(UMA_LEDGER_FREE_PERCPU_LISTS), "free_percpu_lists");
    for (unsigned i = 0; i < UMA_LEDGER_KINDS; i++)
        assert_string_not_equal(uma_ledger_kind_name((enum uma_ledger_kind)i), "unknown");
    for (unsigned i = 1; i < UMA_VALIDITY_MAX; i++)
        assert_string_not_equal(uma_validity_name((enum uma_validity)i), "unknown");
    assert_string_equal(uma_validity_name(UMA_UNSUPPORTED), "not supported");
    assert_string_equal(uma_platform_text(UMA_PLATFORM_DGX_SPARK), "dgx-spark");
    assert_string_equal(uma_throttle_name(UMA_THROTTLE_HW_POWER_BRAKE), "hw_power_brake");
    assert_string_equal(uma_severity_name(UMA_CRITICAL), "critical");
    assert_string_equal(uma_role_name(UMA_ROLE_TRAIN), "train");
    assert_null(uma_role_name(UMA_ROLE_UNKNOWN));
    assert_string_equal(uma_ledger_kind_name((enum uma_ledger_kind)99), "unknown");
    assert_string_equal(uma_throttle_name((enum uma_throttle)99), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(machines), cmocka_unit_test(folder_without_record), cmocka_unit_test(any_machine),
                                        cmocka_unit_test(names) };
    return cmocka_run_group_tests_name("account", tests, NULL, NULL);
}
