/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "job/detect.h"

#include <stdio.h>
#include <string.h>

#define SECOND 1000000000ll

struct history {
    struct uma_detector detector;
    struct uma_gpu_reading gpu;
    struct uma_detect_input input;
    struct uma_sample sample;
    char log[4096];
};

static void on_event(void *userdata, const char *event, const char *detail) {
    struct history *h = userdata;
    size_t n = strlen(h->log);
    (void)snprintf(h->log + n, sizeof(h->log) - n, "%s(%s);", event, detail);
}

static bool in_job(void *userdata, int32_t pid) {
    (void)userdata;
    return pid == 1;
}

static void name_of(void *userdata, int32_t pid, char *buffer, size_t size) {
    (void)userdata;
    (void)snprintf(buffer, size, "p%d", (int)pid);
}

static struct uma_f64 f(double v) {
    return (struct uma_f64){ v, UMA_KNOWN };
}
static struct uma_u64 u(uint64_t v) {
    return (struct uma_u64){ v, UMA_KNOWN };
}

static struct history *begin(struct history *h) {
    *h = (struct history){ 0 };
    h->detector.emit = on_event;
    h->detector.userdata = h;
    h->gpu.validity = UMA_KNOWN;
    h->input = (struct uma_detect_input){ .gpu = &h->gpu, .in_job = in_job, .name_of = name_of };
    return h;
}

/* One second later, with a new answer of the GPU. */
static void tick(struct history *h) {
    h->sample = (struct uma_sample){ 0 };
    h->input.monotonic_ns += SECOND;
    h->gpu.time_ns += SECOND;
    h->gpu.answers++;
    uma_detect(&h->detector, &h->input, &h->sample);
}

static void throttle(struct history *h, double seconds) {
    h->gpu.throttle_seconds[UMA_THROTTLE_SW_THERMAL] = f(seconds);
    tick(h);
}

static void throttling(void **state) {
    (void)state;
    struct history h;
    begin(&h);
    throttle(&h, 100);
    assert_int_equal(h.sample.value[UMA_COL_THROTTLE_SW_THERMAL].validity, UMA_UNKNOWN); /* nothing to compare with */
    throttle(&h, 100);
    assert_true(h.sample.value[UMA_COL_THROTTLE_SW_THERMAL].value == 0);
    throttle(&h, 100.5);
    assert_true(h.sample.value[UMA_COL_THROTTLE_SW_THERMAL].value == 0.5);
    assert_string_equal(h.log, "throttle_begin(sw_thermal: 50 % of the last 1.0 s);");
    throttle(&h, 100.5);
    throttle(&h, 100.5);
    throttle(&h, 100.75); /* two quiet answers do not close it */
    h.log[0] = '\0';
    /* the same answer again, by a faster loop, is no quiet interval and no difference */
    for (int i = 0; i < 10; i++) {
        h.sample = (struct uma_sample){ 0 };
        h.input.monotonic_ns += SECOND / 10;
        uma_detect(&h.detector, &h.input, &h.sample);
        assert_int_equal(h.sample.value[UMA_COL_THROTTLE_SW_THERMAL].validity, UMA_UNKNOWN);
    }
    assert_string_equal(h.log, "");
    throttle(&h, 100.75);
    throttle(&h, 100.75);
    throttle(&h, 100.75);
    assert_string_equal(h.log, "throttle_end(sw_thermal: 0.750 s, at most 50 % of the time);");
}

static void resets(void **state) {
    (void)state;
    struct history h;
    begin(&h);
    throttle(&h, 100);
    throttle(&h, 0.1);
    assert_string_equal(h.log, "counter_reset(sw_thermal fell from 100.000 s to 0.100 s);");
    assert_int_equal(h.sample.value[UMA_COL_THROTTLE_SW_THERMAL].validity, UMA_UNKNOWN);
    throttle(&h, 0.2);
    assert_true(h.sample.value[UMA_COL_THROTTLE_SW_THERMAL].value > 0.09);
    /* unknown in between: the difference spans it */
    h.gpu.throttle_seconds[UMA_THROTTLE_SW_THERMAL].validity = UMA_FAILED;
    tick(&h);
    assert_int_equal(h.sample.value[UMA_COL_THROTTLE_SW_THERMAL].validity, UMA_UNKNOWN);
    throttle(&h, 0.4);
    assert_true(h.sample.value[UMA_COL_THROTTLE_SW_THERMAL].value > 0.19);
}

static void stuck(void **state) {
    (void)state;
    struct history h;
    begin(&h);
    h.gpu.utilization = f(0.96);
    h.gpu.sm_hertz = u(858000000);
    h.gpu.watts = f(14);
    h.gpu.reasons = u(0);
    for (int i = 0; i < 5; i++)
        tick(&h);
    assert_string_equal(h.log, "");
    tick(&h);
    assert_string_equal(h.log, "power_stuck(96 % busy at 858 MHz and 14.0 W with no throttle reason);");
    tick(&h);
    assert_int_equal(strlen(h.log), strlen("power_stuck(96 % busy at 858 MHz and 14.0 W with no throttle reason);"));
    /* a stated reason, an idle GPU, a fast clock, an unknown value: none of them */
    for (int variant = 0; variant < 4; variant++) {
        begin(&h);
        h.gpu.utilization = f(variant == 1 ? 0.1 : 0.96);
        h.gpu.sm_hertz = u(variant == 2 ? 2400000000 : 858000000);
        h.gpu.watts = variant == 3 ? (struct uma_f64){ 14, UMA_UNSUPPORTED } : f(14);
        h.gpu.reasons = u(variant == 0 ? UMA_REASON_SW_THERMAL : 0);
        for (int i = 0; i < 10; i++)
            tick(&h);
        assert_string_equal(h.log, "");
    }
}

static void gaps(void **state) {
    (void)state;
    struct history h;
    begin(&h);
    tick(&h);
    h.gpu.validity = UMA_STALE;
    (void)strcpy(h.gpu.detail, "no answer within 2.0 s");
    tick(&h);
    tick(&h);
    h.gpu.validity = UMA_KNOWN;
    tick(&h);
    assert_string_equal(h.log, "gpu_probe_gap(begin: no answer within 2.0 s);gpu_probe_gap(end: after 2.0 s);");
    /* a machine without a GPU is no gap */
    begin(&h);
    h.gpu.validity = UMA_ABSENT;
    tick(&h);
    uma_detect_end(&h.detector, h.input.monotonic_ns);
    assert_string_equal(h.log, "");
}

static void others(void **state) {
    (void)state;
    struct history h;
    begin(&h);
    h.gpu.users_validity = UMA_KNOWN;
    h.gpu.n_users = 3;
    h.gpu.users[0] = (struct uma_gpu_user){ 1, u(50 * UMA_GIB), true };  /* the job itself */
    h.gpu.users[1] = (struct uma_gpu_user){ 2, u(100 * UMA_MIB), true }; /* a bare context */
    h.gpu.users[2] = (struct uma_gpu_user){ 3, u(20 * UMA_GIB), false }; /* a desktop */
    tick(&h);
    assert_string_equal(h.log, "");
    h.gpu.users[1].bytes = u(11 * UMA_GIB);
    tick(&h);
    tick(&h);
    assert_string_equal(h.log, "contention_begin(pid 2 p2 11.0 GiB);");
    h.gpu.n_users = 1;
    tick(&h);
    tick(&h);
    tick(&h);
    assert_non_null(strstr(h.log, "contention_end("));
}

static void pressed(void **state) {
    (void)state;
    struct history h;
    begin(&h);
    h.input.available = u(UMA_GIB);
    double total = 5;
    for (int i = 0; i < 4; i++) {
        h.input.some_seconds = f(total);
        h.input.full_seconds = f(1);
        tick(&h);
        total += 0.25;
    }
    assert_true(h.sample.value[UMA_COL_PRESSURE_SOME].value > 0.24 && h.sample.value[UMA_COL_PRESSURE_SOME].value < 0.26);
    assert_true(h.sample.value[UMA_COL_PRESSURE_FULL].value == 0);
    assert_string_equal(h.log, "pressure(waiting for memory 25 % of the time (all tasks: 0 %), 1.0 GiB available);");
    /* PSI switched off on the way: unknown, no event, no difference across the gap */
    h.input.some_seconds.validity = UMA_UNSUPPORTED;
    tick(&h);
    assert_int_equal(h.sample.value[UMA_COL_PRESSURE_SOME].validity, UMA_UNKNOWN);
}

static void kills(void **state) {
    (void)state;
    struct history h;
    begin(&h);
    h.input.oom_kills = u(7);
    tick(&h);
    assert_string_equal(h.log, ""); /* those were before the job */
    h.input.oom_kills = u(8);
    h.input.job_oom_kills = u(0);
    tick(&h);
    assert_string_equal(h.log, "oom_kill(1 killed by the kernel for lack of memory on this machine);");
    h.input.job_oom_kills = u(2);
    tick(&h);
    assert_non_null(strstr(h.log, "2 killed by the kernel for lack of memory in the job's own group"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(throttling), cmocka_unit_test(resets),  cmocka_unit_test(stuck), cmocka_unit_test(gaps),
        cmocka_unit_test(others),     cmocka_unit_test(pressed), cmocka_unit_test(kills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
