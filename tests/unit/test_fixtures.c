/* SPDX-License-Identifier: MIT */
/* Every machine of tests/fixtures/machines is read as it was written, and its numbers agree with each other. */
#include "test.h"

#include "base/units.h"
#include "observe/memory.h"
#include "observe/snapshot_json.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

struct seen {
    struct uma_arena *arena;
    struct uma_snapshot snapshot;
    char folder[512];
};

static void take(struct seen *seen, const char *name) {
    const char *fixtures = getenv("UMA_FIXTURES");
    assert_non_null(fixtures);
    (void)snprintf(seen->folder, sizeof(seen->folder), "%s/machines/%s", fixtures, name);
    _cleanup_root_ struct uma_root *root = NULL;
    struct uma_error err = { 0 };
    if (uma_root_open(seen->folder, NULL, &root, &err) < 0)
        fail_msg("%s", err.text);
    struct uma_memory_reader *reader = uma_memory_reader_new(root);
    assert_non_null(reader);
    uma_arena_reset(seen->arena);
    seen->snapshot = (struct uma_snapshot){ .arena = seen->arena };
    uma_memory_read(reader, &seen->snapshot);
    (void)uma_memory_reader_free(reader);
}

static int setup(void **state) {
    struct seen *seen = calloc(1, sizeof(*seen));
    assert_non_null(seen);
    seen->arena = uma_arena_new(8 * UMA_MIB);
    assert_non_null(seen->arena);
    *state = seen;
    return 0;
}

static int teardown(void **state) {
    struct seen *seen = *state;
    (void)uma_arena_free(seen->arena);
    free(seen);
    return 0;
}

/* The recorded answer of the GPU probe, where there is one. */
static void check_gpu_record(const struct seen *seen) {
    _cleanup_root_ struct uma_root *root = NULL;
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    struct uma_gpus gpus;
    assert_int_equal(uma_root_open(seen->folder, NULL, &root, NULL), 0);
    if (uma_root_read(root, "umactl/gpu.json", UMA_MIB, &text, NULL) < 0)
        return;
    if (uma_gpus_parse(text.data, text.length, "umactl/gpu.json", seen->arena, &gpus, &err) < 0)
        fail_msg("%s: %s", seen->folder, err.text);
    assert_true(gpus.source.time_ns > 0);
    assert_true(gpus.n > 0 || gpus.source.validity != UMA_KNOWN);
    for (size_t i = 0; i < gpus.n; i++) {
        const struct uma_gpu *gpu = &gpus.list[i];
        assert_int_equal(gpu->utilization.validity, UMA_KNOWN);
        assert_int_equal(gpu->throttle_seconds[UMA_THROTTLE_SW_THERMAL].validity, UMA_KNOWN);
        assert_int_equal(gpu->processes_validity, UMA_KNOWN);
        bool hopper = strstr(gpu->name, "GH200") != NULL;
        assert_int_equal(gpu->memory_total.validity, hopper ? UMA_KNOWN : UMA_UNSUPPORTED);
    }
}

static void check_machine(const struct seen *seen) {
    const struct uma_snapshot *s = &seen->snapshot;
    const struct uma_source *const sources[] = { &s->meminfo.source, &s->vmstat.source, &s->zones.zoneinfo, &s->zones.buddyinfo,
                                                 &s->swaps_source };
    for (size_t i = 0; i < ELEMENTS(sources); i++)
        if (sources[i]->validity != UMA_KNOWN || sources[i]->detail)
            fail_msg("%s: %s: %s", seen->folder, sources[i]->path, sources[i]->detail ? sources[i]->detail : "not read");
    if (s->zones.page_size.validity != UMA_KNOWN)
        fail_msg("%s: the page size is not known", seen->folder);
    uint64_t managed = 0, in_zones = 0, in_blocks = 0;
    for (size_t i = 0; i < s->zones.n_zones; i++) {
        const struct uma_zone *z = &s->zones.zones[i];
        assert_int_equal(z->pcp_pages.validity, UMA_KNOWN);
        managed += z->managed_pages.value;
        in_zones += z->free_pages.value;
        for (uint32_t order = 0; order < z->n_orders; order++)
            in_blocks += z->blocks[order] << order;
    }
    if (managed * s->zones.page_size.value != s->meminfo.mem_total.value || in_zones != in_blocks ||
        in_blocks * s->zones.page_size.value != s->meminfo.mem_free.value || s->vmstat.nr_free_pages.value != in_blocks)
        fail_msg("%s: MemTotal %llu, managed %llu; MemFree %llu, in zones %llu, in blocks %llu", seen->folder,
                 (unsigned long long)s->meminfo.mem_total.value, (unsigned long long)(managed * s->zones.page_size.value),
                 (unsigned long long)s->meminfo.mem_free.value, (unsigned long long)(in_zones * s->zones.page_size.value),
                 (unsigned long long)(in_blocks * s->zones.page_size.value));
}

static void every_machine(void **state) {
    char folder[512];
    (void)snprintf(folder, sizeof(folder), "%s/machines", getenv("UMA_FIXTURES"));
    _cleanup_closedir_ DIR *d = opendir(folder);
    assert_non_null(d);
    int n = 0;
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.' || e->d_type != DT_DIR)
            continue;
        take(*state, e->d_name);
        check_machine(*state);
        check_gpu_record(*state);
        n++;
    }
    assert_true(n >= 26);
}

static void kernel_3_10(void **state) {
    struct seen *seen = *state;
    take(seen, "kernel-3.10");
    const struct uma_snapshot *s = &seen->snapshot;
    assert_int_equal(s->meminfo.mem_available.validity, UMA_ABSENT);
    assert_int_equal(s->vmstat.pgsteal_kswapd.value, 15);
    assert_int_equal(s->vmstat.pgscan_kswapd.value, 42);
    assert_int_equal(s->vmstat.allocstall.value, 12);
    assert_int_equal(s->memory_pressure.source.validity, UMA_ABSENT);
    assert_int_equal(s->zones.page_size.value, 4096);
}

static void gh200(void **state) {
    struct seen *seen = *state;
    take(seen, "gh200");
    const struct uma_snapshot *s = &seen->snapshot;
    assert_int_equal(s->zones.page_size.value, 65536);
    assert_int_equal(s->n_nodes, 2);
    assert_int_equal(s->nodes[0].has_cpu, UMA_YES);
    assert_int_equal(s->nodes[1].has_cpu, UMA_NO);
    assert_int_equal(s->nodes[0].mem_total.value + s->nodes[1].mem_total.value, s->meminfo.mem_total.value);
    assert_int_equal(s->nodes[0].mem_free.value + s->nodes[1].mem_free.value, s->meminfo.mem_free.value);
}

static void disabled_pressure(void **state) {
    struct seen *seen = *state;
    take(seen, "spark-psi-disabled");
    assert_int_equal(seen->snapshot.memory_pressure.source.validity, UMA_UNSUPPORTED);
    assert_int_equal(seen->snapshot.io_pressure.source.validity, UMA_UNSUPPORTED);
}

static void swap(void **state) {
    struct seen *seen = *state;
    take(seen, "spark-swap");
    assert_int_equal(seen->snapshot.n_swaps, 1);
    assert_int_equal(seen->snapshot.swaps[0].used, 10066329ull * 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(kernel_3_10, setup, teardown),
        cmocka_unit_test_setup_teardown(gh200, setup, teardown),
        cmocka_unit_test_setup_teardown(disabled_pressure, setup, teardown),
        cmocka_unit_test_setup_teardown(swap, setup, teardown),
    };
    return cmocka_run_group_tests_name("fixtures", tests, NULL, NULL);
}
