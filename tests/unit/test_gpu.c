/* SPDX-License-Identifier: MIT */
/* GPUs through the real umactl-probe and the fake libnvidia-ml.so.1: every scenario, hanging, dying, restarting. */
#include "test.h"

#include "base/units.h"
#include "observe/gpu.h"
#include "observe/gpu_probe.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

struct fixture {
    struct uma_root *root;
    struct uma_snapshot snapshot;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    assert_int_equal(uma_root_open(NULL, NULL, &f->root, NULL), 0);
    assert_int_equal(uma_snapshot_init(&f->snapshot), 0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    (void)uma_root_close(f->root);
    uma_snapshot_done(&f->snapshot);
    free(f);
    return 0;
}

static void use_scenario(const char *name) {
    char path[PATH_MAX];
    assert_non_null(getenv("UMA_SCENARIOS"));
    (void)snprintf(path, sizeof(path), "%s/%s.scenario", getenv("UMA_SCENARIOS"), name);
    assert_int_equal(setenv("UMA_FAKE_NVML", path, 1), 0);
}

static const char *library(const char *folder) {
    static char path[PATH_MAX];
    assert_non_null(getenv("UMA_FAKES"));
    (void)snprintf(path, sizeof(path), "%s/%slibnvidia-ml.so.1", getenv("UMA_FAKES"), folder);
    return path;
}

static double seconds_since(int64_t start) {
    return (double)(uma_monotonic_ns() - start) / 1e9;
}

static void pause_for(double seconds) {
    struct timespec t = { .tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    while (nanosleep(&t, &t) < 0) {
    }
}

/* One reading in a reader of its own. A loaded machine under an emulator gets a generous deadline. */
static const struct uma_gpus *read_once(struct fixture *f, const char *nvml, double deadline) {
    const struct uma_observe_options options = { .nvml = nvml, .gpu_deadline = deadline };
    struct uma_gpu_reader *reader = uma_gpu_reader_new(f->root, &options);
    assert_non_null(reader);
    uma_snapshot_reset(&f->snapshot);
    uma_gpu_ask(reader);
    uma_gpu_collect(reader, &f->snapshot);
    (void)uma_gpu_reader_free(reader);
    return &f->snapshot.gpus;
}

static const struct uma_gpus *read_scenario(struct fixture *f, const char *name) {
    use_scenario(name);
    return read_once(f, library(""), 30);
}

#define assert_value(field, expected)                                                                                                      \
    do {                                                                                                                                   \
        assert_int_equal((field).validity, UMA_KNOWN);                                                                                     \
        if (!((field).value == (expected)))                                                                                                \
            fail_msg(#field " is %.17g", (double)(field).value);                                                                           \
    } while (0)
#define assert_unknown(field, why)                                                                                                         \
    do {                                                                                                                                   \
        assert_int_equal((field).validity, why);                                                                                           \
        assert_true((field).value == 0);                                                                                                   \
    } while (0)

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

/* ---- scenarios made here ------------------------------------------------------------------------------------ */

static char scenario_path[PATH_MAX];

/* By rename, as the README asks: the probe must never read half a file. */
static void write_scenario(const char *text) {
    char next[PATH_MAX + 8];
    (void)snprintf(scenario_path, sizeof(scenario_path), "%s/test_gpu.%d.scenario", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
                   (int)getpid());
    (void)snprintf(next, sizeof(next), "%s.new", scenario_path);
    FILE *f = fopen(next, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(next, scenario_path), 0);
    assert_int_equal(setenv("UMA_FAKE_NVML", scenario_path, 1), 0);
}

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

/* ---- hanging and dying -------------------------------------------------------------------------------------- */

/* The promise to `umactl status`: with the default deadline it has its answer, or its no, within 2.5 s. */
static void hang_at_the_start(void **state) {
    use_scenario("hang-init");
    int64_t start = uma_monotonic_ns();
    const struct uma_gpus *gpus = read_once(*state, library(""), 0);
    double took = seconds_since(start);
    assert_true(took >= 2.0 && took < 2.5);
    assert_int_equal(gpus->source.validity, UMA_FAILED);
    assert_string_equal(gpus->source.detail, "no answer within 2.0 s");
    assert_true(gpus->hung);
    assert_int_equal(gpus->n, 0);
}

static void hang_in_the_middle(void **state) {
    use_scenario("hang-memory");
    int64_t start = uma_monotonic_ns();
    const struct uma_gpus *gpus = read_once(*state, library(""), 0.5);
    assert_true(seconds_since(start) < 1.0);
    assert_string_equal(gpus->source.detail, "no answer within 0.5 s");
    assert_true(gpus->hung);
}

static void slow(void **state) {
    use_scenario("slow");
    const struct uma_gpus *gpus = read_once(*state, library(""), 30);
    assert_int_equal(gpus->source.validity, UMA_KNOWN);
    assert_true(gpus->latency_seconds.value >= 0.6);
    assert_value(gpus->list[0].celsius, 52);
}

static void crash(void **state) {
    write_scenario("driver 580\ngpu\nname A\ncrash nvmlDeviceGetUtilizationRates\n");
    int64_t start = uma_monotonic_ns();
    const struct uma_gpus *gpus = read_once(*state, library(""), 30);
    assert_true(seconds_since(start) < 20);
    assert_int_equal(gpus->source.validity, UMA_FAILED);
    assert_false(gpus->hung);
    assert_non_null(strstr(gpus->source.detail, "the probe "));
    assert_non_null(strstr(gpus->source.detail, "before it answered"));
}

struct kept {
    struct uma_arena *arena;
    struct uma_probe *probe;
    struct uma_gpus gpus;
};

static void keep(struct kept *k, double deadline) {
    k->arena = uma_arena_new(64 * UMA_MIB);
    k->probe = uma_probe_new(library(""), deadline, true);
    assert_non_null(k->arena);
    assert_non_null(k->probe);
}

static void ask(struct kept *k) {
    uma_arena_reset(k->arena);
    uma_probe_ask(k->probe);
    uma_probe_collect(k->probe, k->arena, &k->gpus);
}

static void let_go(struct kept *k) {
    (void)uma_probe_free(k->probe);
    (void)uma_arena_free(k->arena);
}

static const char healthy[] =
    "driver 580\ngpu\nname A\ncelsius 40\npower 5000\nutilization 1 1\nfield 74 u64 1000000000\nprocess 77 4096\n";

/* A long-running reader: answers, then a hang, then stale answers at once, then answers again. */
static void stale_and_back(void **state) {
    (void)state;
    struct kept k;
    write_scenario(healthy);
    keep(&k, 0.5);
    ask(&k);
    if (k.gpus.source.validity != UMA_KNOWN) { /* an emulator may need longer to start anything */
        let_go(&k);
        skip();
    }
    int first = uma_probe_pid(k.probe);
    assert_true(first > 0);
    int64_t read_at = k.gpus.source.time_ns;
    ask(&k);
    assert_int_equal(uma_probe_pid(k.probe), first); /* kept, not started anew */
    assert_true(k.gpus.source.time_ns > read_at);
    read_at = k.gpus.source.time_ns;

    char hanging[1024];
    (void)snprintf(hanging, sizeof(hanging), "%shang nvmlDeviceGetTemperature\n", healthy);
    write_scenario(hanging);
    int64_t start = uma_monotonic_ns();
    ask(&k);
    assert_true(seconds_since(start) >= 0.5 && seconds_since(start) < 1.5);
    int64_t failed_at = uma_monotonic_ns();
    for (int i = 0; i < 2; i++) { /* the deadline itself, then while the pause lasts */
        assert_int_equal(k.gpus.source.validity, UMA_STALE);
        assert_int_equal(k.gpus.source.time_ns, read_at);
        assert_string_equal(k.gpus.source.detail, "no answer within 0.5 s");
        assert_true(k.gpus.hung);
        assert_int_equal(k.gpus.n, 1);
        assert_string_equal(k.gpus.list[0].name, "A");
        assert_int_equal(k.gpus.list[0].celsius.validity, UMA_STALE);
        assert_true(k.gpus.list[0].celsius.value == 40);
        assert_int_equal(k.gpus.list[0].memory_total.validity, UMA_UNSUPPORTED);
        assert_int_equal(k.gpus.list[0].throttle_seconds[0].validity, UMA_STALE);
        assert_int_equal(k.gpus.list[0].processes_validity, UMA_STALE);
        assert_int_equal(k.gpus.list[0].processes[0].bytes.validity, UMA_STALE);
        assert_int_equal(k.gpus.list[0].processes[0].bytes.value, 4096);
        assert_int_equal(uma_probe_pid(k.probe), 0);
        if (i == 0) {
            start = uma_monotonic_ns();
            ask(&k);
            assert_true(seconds_since(start) < 0.3);
        }
    }
    write_scenario(healthy);
    while (seconds_since(failed_at) < UMA_PROBE_PAUSE_FIRST + 0.05)
        pause_for(0.05);
    ask(&k);
    assert_int_equal(k.gpus.source.validity, UMA_KNOWN);
    assert_false(k.gpus.hung);
    assert_null(k.gpus.source.detail);
    assert_true(k.gpus.source.time_ns > read_at);
    let_go(&k);
    /* nothing is left behind: neither a process nor a zombie of one */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

/* The pauses double while nothing answers. */
static void pauses_double(void **state) {
    (void)state;
    struct kept k;
    use_scenario("hang-init");
    keep(&k, 0.1);
    int starts = 0;
    int64_t begin = uma_monotonic_ns();
    while (seconds_since(begin) < 3.6) { /* at 0, at 1.1, at 3.2; the next would be at 7.3 */
        uma_arena_reset(k.arena);
        uma_probe_ask(k.probe);
        starts += uma_probe_pid(k.probe) != 0;
        uma_probe_collect(k.probe, k.arena, &k.gpus);
        assert_int_equal(k.gpus.source.validity, UMA_FAILED);
        assert_int_equal(k.gpus.n, 0);
        assert_true(k.gpus.hung);
        pause_for(0.02);
    }
    assert_int_equal(starts, 3);
    let_go(&k);
}

/* Killed while it is idle: nobody notices. Killed while it answers: said, and a pause. */
static void killed(void **state) {
    (void)state;
    struct kept k;
    write_scenario(healthy);
    keep(&k, 30);
    ask(&k);
    assert_int_equal(k.gpus.source.validity, UMA_KNOWN);
    int first = uma_probe_pid(k.probe);
    assert_int_equal(kill(first, SIGKILL), 0);
    pause_for(0.1);
    ask(&k);
    assert_int_equal(k.gpus.source.validity, UMA_KNOWN);
    assert_int_not_equal(uma_probe_pid(k.probe), first);

    write_scenario("driver 580\ngpu\nname A\nhang nvmlDeviceGetTemperature\n");
    uma_arena_reset(k.arena);
    uma_probe_ask(k.probe);
    pause_for(0.1);
    assert_int_equal(kill(uma_probe_pid(k.probe), SIGKILL), 0);
    uma_probe_collect(k.probe, k.arena, &k.gpus);
    assert_int_equal(k.gpus.source.validity, UMA_STALE);
    assert_false(k.gpus.hung);
    assert_non_null(strstr(k.gpus.source.detail, "killed by signal 9"));
    let_go(&k);
}

static void counters_reset(void **state) {
    (void)state;
    struct kept k;
    use_scenario("counter-reset");
    keep(&k, 30);
    ask(&k);
    assert_int_equal(k.gpus.source.validity, UMA_KNOWN);
    double first = k.gpus.list[0].throttle_seconds[UMA_THROTTLE_SW_POWER_CAP].value;
    ask(&k);
    double second = k.gpus.list[0].throttle_seconds[UMA_THROTTLE_SW_POWER_CAP].value;
    pause_for(1.1);
    ask(&k);
    /* what the driver says, unsmoothed: whoever takes differences has to see the fall */
    assert_true(first >= 5);
    assert_true(second == first + 1 || second == 0);
    assert_value(k.gpus.list[0].throttle_seconds[UMA_THROTTLE_SW_POWER_CAP], 0);
    let_go(&k);
}

/* Without a driver a kept reader asks seldom, and goes on saying why. */
static void absent_is_asked_seldom(void **state) {
    (void)state;
    struct kept k;
    use_scenario("driver-not-loaded");
    keep(&k, 30);
    ask(&k);
    assert_int_equal(k.gpus.source.validity, UMA_ABSENT);
    int64_t read_at = k.gpus.source.time_ns;
    write_scenario(healthy);
    ask(&k);
    assert_int_equal(k.gpus.source.validity, UMA_ABSENT);
    assert_int_equal(k.gpus.source.time_ns, read_at);
    assert_non_null(strstr(k.gpus.source.detail, "Driver Not Loaded"));
    let_go(&k);
}

static void no_probe(void **state) {
    char old[PATH_MAX] = "";
    if (getenv("UMACTL_PROBE"))
        (void)snprintf(old, sizeof(old), "%s", getenv("UMACTL_PROBE"));
    assert_int_equal(setenv("UMACTL_PROBE", "/nonexistent/umactl-probe", 1), 0);
    const struct uma_gpus *gpus = read_once(*state, library(""), 30);
    assert_int_equal(setenv("UMACTL_PROBE", old, 1), 0);
    assert_int_equal(gpus->source.validity, UMA_FAILED);
    assert_non_null(strstr(gpus->source.detail, "/nonexistent/umactl-probe"));
}

/* A program that floods, or talks nonsense, in the probe's place. */
static void impostor(void **state) {
    char path[PATH_MAX], old[PATH_MAX] = "";
    if (getenv("UMACTL_PROBE"))
        (void)snprintf(old, sizeof(old), "%s", getenv("UMACTL_PROBE"));
    (void)snprintf(path, sizeof(path), "%s/test_gpu.%d.impostor", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (int)getpid());
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    (void)fputs("#!/bin/sh\nexec yes nonsense >&3\n", f);
    assert_int_equal(fchmod(fileno(f), 0755), 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(setenv("UMACTL_PROBE", path, 1), 0);
    const struct uma_gpus *gpus = read_once(*state, library(""), 30);
    assert_int_equal(setenv("UMACTL_PROBE", old, 1), 0);
    (void)unlink(path);
    assert_int_equal(gpus->source.validity, UMA_FAILED);
    assert_string_equal(gpus->source.detail, "the probe's answer is not one");
}

/* The probe dies with its parent, even while the library hangs. */
static void dies_with_its_parent(void **state) {
    (void)state;
    int pair[2];
    assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
    use_scenario("hang-init");
    pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        struct uma_probe *probe = uma_probe_new(library(""), 30, false);
        uma_probe_ask(probe);
        int pid = uma_probe_pid(probe);
        (void)!write(pair[1], &pid, sizeof(pid));
        pause_for(0.3); /* long enough for it to be in the library */
        _exit(0);
    }
    int pid = 0;
    assert_int_equal(read(pair[0], &pid, sizeof(pid)), sizeof(pid));
    assert_true(pid > 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    bool gone = false;
    for (int i = 0; i < 100 && !gone; i++) {
        char path[64], text[256] = "";
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        FILE *f = fopen(path, "re");
        gone = !f || !fgets(text, sizeof(text), f) || strstr(text, ") Z") || strstr(text, ") X");
        if (f)
            (void)fclose(f);
        pause_for(0.02);
    }
    assert_true(gone);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

/* The probe has its socket and nothing else of ours, and does not hear Ctrl-C. */
static void inherits_nothing(void **state) {
    (void)state;
    struct kept k;
    int leak = open("/dev/null", O_RDONLY); /* on purpose without O_CLOEXEC */
    write_scenario(healthy);
    keep(&k, 30);
    ask(&k);
    assert_int_equal(k.gpus.source.validity, UMA_KNOWN);
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", uma_probe_pid(k.probe), leak);
    bool emulated = getenv("UMA_EMULATED") != NULL;
    assert_true(emulated || (leak > 3 && access(path, F_OK) != 0));
    assert_int_equal(getpgid(uma_probe_pid(k.probe)), uma_probe_pid(k.probe));
    (void)close(leak);
    let_go(&k);
}

/* ---- folders ------------------------------------------------------------------------------------------------ */

static void folder(void **state) {
    struct fixture *f = *state;
    char path[PATH_MAX], file[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/test_gpu.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(path));
    _cleanup_root_ struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(path, NULL, &root, NULL), 0);
    /* this machine's library says nothing about another machine */
    struct uma_gpu_reader *reader = uma_gpu_reader_new(root, &(struct uma_observe_options){ 0 });
    uma_gpu_ask(reader);
    uma_gpu_collect(reader, &f->snapshot);
    assert_int_equal(f->snapshot.gpus.source.validity, UMA_ABSENT);
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

static int remove_scenario(void **state) {
    (void)state;
    if (scenario_path[0])
        (void)unlink(scenario_path);
    return 0;
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(idle),
        T(serving),
        T(three_memories),
        T(two_gpus),
        T(garbage),
        T(no_library),
        T(not_the_library),
        T(not_started),
        T(old_library),
        T(refusals),
        T(many_processes),
        T(many_gpus),
        T(hang_at_the_start),
        T(hang_in_the_middle),
        T(slow),
        T(crash),
        T(stale_and_back),
        T(pauses_double),
        T(killed),
        T(counters_reset),
        T(absent_is_asked_seldom),
        T(no_probe),
        T(impostor),
        T(dies_with_its_parent),
        T(inherits_nothing),
        T(folder),
    };
    return cmocka_run_group_tests_name("gpu", tests, NULL, remove_scenario);
}
