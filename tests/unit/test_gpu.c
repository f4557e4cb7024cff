/* SPDX-License-Identifier: MIT */
/* GPUs through the real umactl-probe and the fake libnvidia-ml.so.1: what each scenario is read as. */
#include "test.h"

#include "gpu_fake.h"

#include <sys/stat.h>

static void idle(void **state) {
    int64_t before = uma_now_ns();
    const struct uma_gpus *gpus = read_scenario(*state, "gb10-idle");
    assert_int_equal(gpus->source.validity, UMA_KNOWN);
    assert_string_equal(gpus->source.path, "nvml");
    assert_true(gpus->source.time_ns >= before && gpus->source.time_ns <= uma_now_ns());
    assert_null(gpus->source.detail);
    assert_false(gpus->hung);
    assert_int_equal(gpus->latency_seconds.validity, UMA_KNOWN);
    assert_true(gpus->latency_seconds.value > 0);
    assert_string_equal(gpus->driver, "580.126.09");
    assert_int_equal(gpus->n, 1);
    const struct uma_gpu *gpu = &gpus->list[0];
    assert_string_equal(gpu->vendor, "nvidia");
    assert_string_equal(gpu->name, "NVIDIA GB10");
    assert_string_equal(gpu->uuid, "GPU-5a1fc0de-0000-4000-8000-00000000b10a");
    assert_string_equal(gpu->pci, "0000000F:01:00.0");
    assert_int_equal(gpu->unified, UMA_YES);
    assert_int_equal(gpu->numa_node, -1);
    assert_unknown(gpu->memory_total, UMA_UNSUPPORTED);
    assert_unknown(gpu->memory_used, UMA_UNSUPPORTED);
    assert_unknown(gpu->memory_free, UMA_UNSUPPORTED);
    assert_unknown(gpu->gtt_total, UMA_ABSENT);
    assert_unknown(gpu->container_used, UMA_ABSENT);
    assert_value(gpu->celsius, 36);
    assert_value(gpu->limit_margin_celsius, 57);
    assert_value(gpu->watts, 3.12);
    assert_value(gpu->watts_instant, 3.31);
    assert_value(gpu->joules, 412000);
    assert_unknown(gpu->limit_watts, UMA_UNSUPPORTED);
    assert_value(gpu->sm_hertz, 208000000);
    assert_value(gpu->sm_max_hertz, 3003000000);
    assert_unknown(gpu->memory_hertz, UMA_UNSUPPORTED);
    assert_value(gpu->utilization, 0);
    assert_value(gpu->pstate, 8);
    assert_value(gpu->throttle_reasons, UMA_REASON_GPU_IDLE);
    assert_value(gpu->throttle_seconds[UMA_THROTTLE_SW_POWER_CAP], 0.165687);
    assert_value(gpu->throttle_seconds[UMA_THROTTLE_SW_THERMAL], 0.903158);
    assert_value(gpu->throttle_seconds[UMA_THROTTLE_HW_POWER_BRAKE], 0);
    assert_int_equal(gpu->processes_validity, UMA_KNOWN);
    assert_int_equal(gpu->n_processes, 0);
}

static void serving(void **state) {
    const struct uma_gpus *gpus = read_scenario(*state, "gb10-serving");
    const struct uma_gpu *gpu = &gpus->list[0];
    assert_int_equal(gpus->n, 1);
    assert_int_equal(gpu->n_processes, 3);
    assert_int_equal(gpu->processes[0].pid, 4174);
    assert_false(gpu->processes[0].compute);
    assert_int_equal(gpu->processes[1].pid, 50211);
    assert_true(gpu->processes[1].compute);
    assert_value(gpu->processes[1].bytes, 90194313216);
    assert_value(gpu->processes[2].bytes, 11700000000);
    assert_value(gpu->watts, 89.5);
    assert_value(gpu->utilization, 0.96);
    assert_value(gpu->memory_utilization, 0.41);
    assert_true(gpu->throttle_seconds[UMA_THROTTLE_SW_POWER_CAP].value >= 711320 &&
                gpu->throttle_seconds[UMA_THROTTLE_SW_POWER_CAP].value < 711420);
}

/* The three answers of the device memory query that are real on one chip. */
static void three_memories(void **state) {
    const struct uma_gpus *gpus = read_scenario(*state, "gb10-memory-zero");
    assert_value(gpus->list[0].memory_total, 0);
    assert_value(gpus->list[0].memory_used, 0);
    assert_int_equal(gpus->list[0].unified, UMA_MAYBE);
    /* no field 185, so the call; no duration counters, each with its own reason */
    assert_value(gpus->list[0].watts, 4.1);
    assert_unknown(gpus->list[0].throttle_seconds[UMA_THROTTLE_SW_THERMAL], UMA_UNSUPPORTED);

    gpus = read_scenario(*state, "gb10-memory-total");
    assert_value(gpus->list[0].memory_total, 130663817216);
    assert_value(gpus->list[0].memory_used, 41875931136);
    assert_value(gpus->list[0].memory_free, 88787886080);
    if (gpus->list[0].container_used.validity != UMA_ABSENT) { /* ABSENT: this machine has no cgroup v2 */
        assert_value(gpus->list[0].container_used, 536870912);
        assert_value(gpus->list[0].container_limit, 8589934592);
    }
}

static void two_gpus(void **state) {
    const struct uma_gpus *gpus = read_scenario(*state, "two-gpus");
    assert_int_equal(gpus->n, 2);
    assert_int_equal(gpus->list[0].index, 0);
    assert_int_equal(gpus->list[1].index, 1);
    assert_int_equal(gpus->list[0].numa_node, 1);
    assert_int_equal(gpus->list[1].numa_node, 9);
    assert_int_equal(gpus->list[0].unified, UMA_NO);
    assert_value(gpus->list[0].limit_watts, 900);
    assert_value(gpus->list[0].memory_hertz, 2619000000);
    assert_unknown(gpus->list[1].memory_hertz, UMA_UNSUPPORTED);
    assert_int_equal(gpus->list[0].n_processes, 1);
    assert_value(gpus->list[0].processes[0].bytes, 59000000000);
    /* "not available" is unknown, not 16 EiB; a process of both kinds is one entry with the larger figure */
    assert_int_equal(gpus->list[1].n_processes, 2);
    assert_unknown(gpus->list[1].processes[0].bytes, UMA_UNKNOWN);
    assert_int_equal(gpus->list[1].processes[1].pid, 701);
    assert_value(gpus->list[1].processes[1].bytes, 2097152);
    assert_true(gpus->list[1].processes[1].compute);
}

static void garbage(void **state) {
    const struct uma_gpus *gpus = read_scenario(*state, "garbage");
    assert_int_equal(gpus->source.validity, UMA_KNOWN);
    assert_string_equal(gpus->driver, "999\\xff\x1b[31m");
    const struct uma_gpu *gpu = &gpus->list[0];
    assert_string_equal(gpu->name, "NVIDIA \x1b]0;owned\x07 \\xc3( G\\xffB10");
    assert_string_equal(gpu->uuid, "\\x80\\x81\\x82");
    assert_int_equal(gpu->numa_node, -1);
    assert_unknown(gpu->memory_total, UMA_MALFORMED);
    assert_unknown(gpu->memory_free, UMA_MALFORMED);
    /* 4294967295 C is the register -1, and -1 C is a temperature that nothing has while it runs: NVML's type is unsigned */
    assert_unknown(gpu->celsius, UMA_MALFORMED);
    assert_unknown(gpu->limit_margin_celsius, UMA_MALFORMED);
    assert_unknown(gpu->watts, UMA_MALFORMED);
    assert_unknown(gpu->watts_instant, UMA_MALFORMED);
    assert_unknown(gpu->joules, UMA_MALFORMED);
    assert_unknown(gpu->sm_hertz, UMA_MALFORMED);
    assert_unknown(gpu->utilization, UMA_MALFORMED);
    assert_unknown(gpu->memory_utilization, UMA_MALFORMED);
    assert_unknown(gpu->pstate, UMA_UNKNOWN);
    assert_unknown(gpu->throttle_seconds[UMA_THROTTLE_SW_POWER_CAP], UMA_MALFORMED);
    assert_unknown(gpu->throttle_seconds[UMA_THROTTLE_SYNC_BOOST], UMA_MALFORMED);
    assert_unknown(gpu->throttle_seconds[UMA_THROTTLE_SW_THERMAL], UMA_MALFORMED);
    assert_unknown(gpu->throttle_seconds[UMA_THROTTLE_HW_THERMAL], UMA_MALFORMED);
    assert_unknown(gpu->throttle_seconds[UMA_THROTTLE_HW_POWER_BRAKE], UMA_FAILED);
    assert_value(gpu->throttle_reasons, UINT64_MAX); /* bits nobody knows yet are kept */
    assert_int_equal(gpu->processes_validity, UMA_MALFORMED);
    assert_int_equal(gpu->n_processes, 0);
}

static void no_library(void **state) {
    const struct uma_gpus *gpus = read_once(*state, "/nonexistent/libnvidia-ml.so.1", 30);
    assert_int_equal(gpus->source.validity, UMA_ABSENT);
    assert_int_equal(gpus->n, 0);
    assert_false(gpus->hung);
    assert_non_null(strstr(gpus->source.detail, "/nonexistent/libnvidia-ml.so.1"));
}

static void not_the_library(void **state) {
    const struct uma_gpus *gpus = read_once(*state, "libc.so.6", 30);
    assert_int_equal(gpus->source.validity, UMA_FAILED);
    assert_non_null(strstr(gpus->source.detail, "nvmlInit"));
}

static void not_started(void **state) {
    const struct uma_gpus *gpus = read_scenario(*state, "driver-not-loaded");
    assert_int_equal(gpus->source.validity, UMA_ABSENT);
    assert_non_null(strstr(gpus->source.detail, "Driver Not Loaded"));
    gpus = read_scenario(*state, "version-mismatch");
    assert_int_equal(gpus->source.validity, UMA_FAILED);
    assert_non_null(strstr(gpus->source.detail, "Driver/library version mismatch"));
    assert_non_null(strstr(gpus->source.detail, "18"));
}

static void old_library(void **state) {
    use_scenario("old-library");
    const struct uma_gpus *gpus = read_once(*state, library("old/"), 30);
    assert_int_equal(gpus->source.validity, UMA_KNOWN);
    assert_int_equal(gpus->n, 1);
    const struct uma_gpu *gpu = &gpus->list[0];
    assert_string_equal(gpu->pci, "0000:01:00.0");
    assert_value(gpu->memory_total, 4294967296);
    assert_value(gpu->memory_used, 1073741824);
    assert_value(gpu->memory_free, 3221225472);
    assert_value(gpu->watts, 20);
    assert_unknown(gpu->watts_instant, UMA_ABSENT);
    assert_value(gpu->limit_watts, 100);
    assert_unknown(gpu->joules, UMA_ABSENT);
    assert_unknown(gpu->limit_margin_celsius, UMA_ABSENT);
    assert_value(gpu->throttle_reasons, UMA_REASON_SW_POWER_CAP);
    assert_unknown(gpu->throttle_seconds[UMA_THROTTLE_SW_POWER_CAP], UMA_ABSENT);
    assert_int_equal(gpu->n_processes, 1);
    assert_int_equal(gpu->processes[0].pid, 321);
    assert_value(gpu->processes[0].bytes, 1000000);
}

/* ---- scenarios made here ---------------------------------------------------------------------------------- */

static void refusals(void **state) {
    write_scenario(
        "driver 580\ngpu\nname A\ncelsius 1\npower 1000\nvalue nvmlDeviceGetTemperature = 4\nvalue nvmlDeviceGetFieldValues = 15\n"
        "value nvmlDeviceGetComputeRunningProcesses = 4\nmissing nvmlDeviceGetMarginTemperature\nvalue nvmlDeviceGetClockInfo = 21\n"
        "value nvmlDeviceGetMemoryInfo_v2 = 25\nmemory 10 4 6\n"
        "gpu\nvalue nvmlDeviceGetHandleByIndex = 15\n");
    const struct uma_gpus *gpus = read_once(*state, library(""), 30);
    assert_int_equal(gpus->n, 2);
    assert_unknown(gpus->list[0].celsius, UMA_DENIED);
    assert_unknown(gpus->list[0].throttle_seconds[UMA_THROTTLE_SW_THERMAL], UMA_FAILED);
    assert_value(gpus->list[0].watts, 1); /* the fields failed, the call did not */
    assert_int_equal(gpus->list[0].processes_validity, UMA_DENIED);
    assert_unknown(gpus->list[0].limit_margin_celsius, UMA_ABSENT);
    assert_unknown(gpus->list[0].sm_hertz, UMA_UNKNOWN);
    assert_value(gpus->list[0].memory_total, 10); /* the second version of the call refuses, the first answers */
    assert_value(gpus->list[0].memory_used, 4);
    /* a GPU that is lost is still listed, and says so in every field */
    assert_null(gpus->list[1].name);
    assert_unknown(gpus->list[1].celsius, UMA_FAILED);
    assert_int_equal(gpus->list[1].processes_validity, UMA_FAILED);
}

static void many_processes(void **state) {
    write_scenario("driver 580\ngpu\nname A\nprocesses 3000\n");
    const struct uma_gpus *gpus = read_once(*state, library(""), 30);
    assert_int_equal(gpus->list[0].processes_validity, UMA_KNOWN);
    assert_int_equal(gpus->list[0].n_processes, 3000);
    assert_int_equal(gpus->list[0].processes[2999].pid, 102999);
    write_scenario("driver 580\ngpu\nname A\nprocesses 100000\n");
    gpus = read_once(*state, library(""), 30);
    assert_int_equal(gpus->source.validity, UMA_KNOWN);
    assert_int_equal(gpus->list[0].processes_validity, UMA_FAILED);
    assert_int_equal(gpus->list[0].n_processes, 0);
}

static void many_gpus(void **state) {
    write_scenario("driver 580\ncount 4294967295\ngpu\nname A\n");
    const struct uma_gpus *gpus = read_once(*state, library(""), 30);
    assert_int_equal(gpus->source.validity, UMA_FAILED);
    assert_int_equal(gpus->n, 0);
    assert_string_equal(gpus->driver, "580");
    write_scenario("driver 580\ncount 0\n");
    gpus = read_once(*state, library(""), 30);
    assert_int_equal(gpus->source.validity, UMA_KNOWN);
    assert_int_equal(gpus->n, 0);
}

/* ---- folders ------------------------------------------------------------------------------------------------ */

static void folder(void **state) {
    struct fixture *f = *state;
    char path[PATH_MAX], file[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/test_gpu.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(path));
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(path, NULL, &root, NULL), 0);
    /* this machine's library says nothing about another machine, and a folder without a record says nothing about its library */
    struct uma_gpu_reader *reader = uma_gpu_reader_new(root, &(struct uma_observe_options){ 0 });
    uma_gpu_ask(reader);
    uma_gpu_collect(reader, &f->snapshot);
    assert_int_equal(f->snapshot.gpus.source.validity, UMA_UNKNOWN);
    assert_int_equal(f->snapshot.gpus.n, 0);
    assert_non_null(f->snapshot.gpus.source.detail);
    (void)snprintf(file, sizeof(file), "%s/umactl", path);
    assert_int_equal(mkdir(file, 0700), 0);
    (void)snprintf(file, sizeof(file), "%s/%s", path, UMA_GPU_RECORD);
    FILE *out = fopen(file, "we");
    assert_non_null(out);
    (void)fputs("{ \"broken", out);
    assert_int_equal(fclose(out), 0);
    uma_snapshot_reset(&f->snapshot);
    uma_gpu_collect(reader, &f->snapshot);
    assert_int_equal(f->snapshot.gpus.source.validity, UMA_MALFORMED);
    assert_non_null(f->snapshot.gpus.source.detail);
    (void)uma_gpu_reader_free(reader);
    (void)unlink(file);
    (void)snprintf(file, sizeof(file), "%s/umactl", path);
    (void)rmdir(file);
    /* a library that was named is asked all the same */
    use_scenario("gb10-idle");
    reader = uma_gpu_reader_new(root, &(struct uma_observe_options){ .nvml = library(""), .gpu_deadline = 30 });
    uma_gpu_ask(reader);
    uma_snapshot_reset(&f->snapshot);
    uma_gpu_collect(reader, &f->snapshot);
    assert_int_equal(f->snapshot.gpus.source.validity, UMA_KNOWN);
    (void)uma_gpu_reader_free(reader);
    (void)rmdir(path);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(idle),        T(serving),     T(three_memories), T(two_gpus),       T(garbage),   T(no_library), T(not_the_library),
        T(not_started), T(old_library), T(refusals),       T(many_processes), T(many_gpus), T(folder),
    };
    return cmocka_run_group_tests_name("gpu", tests, NULL, remove_scenario);
}
