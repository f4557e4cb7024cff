/* SPDX-License-Identifier: MIT */
/* A library that hangs, crashes or is slow; a probe that is killed, replaced, or is no probe at all. */
#include "test.h"

#include "gpu_fake.h"

#include "observe/gpu_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    assert_true(seconds_since(start) < 2.0);
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

/* An answer that waits for its reader is as old as its reading. */
static void waiting_answer(void **state) {
    (void)state;
    struct kept k;
    write_scenario(healthy);
    keep(&k, 30);
    ask(&k); /* started and initialised */
    int64_t asked_at = uma_now_ns();
    uma_arena_reset(k.arena);
    uma_probe_ask(k.probe);
    pause_for(0.7);
    uma_probe_collect(k.probe, k.arena, &k.gpus);
    assert_int_equal(k.gpus.source.validity, UMA_KNOWN);
    assert_true(k.gpus.latency_seconds.value < 0.6);
    assert_true(k.gpus.source.time_ns >= asked_at - 1000 && k.gpus.source.time_ns < asked_at + 600000000);
    assert_int_equal(k.gpus.source.time_ns % 1000, 0);
    let_go(&k);
}

/* A long-running reader: answers, then a hang, then stale answers at once, then answers again. */
static void stale_and_back(void **state) {
    (void)state;
    struct kept k;
    write_scenario(healthy);
    keep(&k, 0.5);
    ask(&k);
    if (k.gpus.source.validity != UMA_KNOWN) { /* an emulator may need longer to start anything */
        let_go(&k);
        SKIP_BECAUSE("starting a program takes too long here");
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
    assert_true(seconds_since(start) >= 0.5 && seconds_since(start) < 2.5);
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
            assert_true(seconds_since(start) < 0.45);
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

/* The pauses double while nothing answers: 1 s, then 2 s, each after a deadline. Only lower bounds: a busy machine may be late. */
static void pauses_double(void **state) {
    (void)state;
    struct kept k;
    use_scenario("hang-init");
    keep(&k, 0.1);
    int starts = 0;
    int64_t started[3] = { 0 }, begin = uma_monotonic_ns();
    while (starts < 3 && seconds_since(begin) < 60) {
        uma_arena_reset(k.arena);
        int64_t now = uma_monotonic_ns();
        uma_probe_ask(k.probe);
        if (uma_probe_pid(k.probe) != 0)
            started[starts++] = now;
        uma_probe_collect(k.probe, k.arena, &k.gpus);
        assert_int_equal(k.gpus.source.validity, UMA_FAILED);
        assert_int_equal(k.gpus.n, 0);
        assert_true(k.gpus.hung);
        pause_for(0.02);
    }
    assert_int_equal(starts, 3);
    assert_true(started[1] - started[0] >= 1100000000 - 1000000);
    assert_true(started[2] - started[1] >= 2100000000 - 1000000);
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
    for (int i = 0; i < 500 && !gone; i++) {
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
    assert_true(leak > 3);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(getpgid(uma_probe_pid(k.probe)), uma_probe_pid(k.probe));
    (void)close(leak);
    let_go(&k);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(hang_at_the_start),
        T(hang_in_the_middle),
        T(slow),
        T(waiting_answer),
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
    };
    return cmocka_run_group_tests_name("gpu_probe", tests, NULL, remove_scenario);
}
