/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "job/job.h"
#include "job/summary.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct uma_u64 u(uint64_t v) {
    return (struct uma_u64){ v, UMA_KNOWN };
}

static void unknown(void **state) {
    (void)state;
    struct uma_run *run = calloc(1, sizeof(*run));
    struct uma_text text = { 0 };
    uma_run_summary(run, NULL, &text);
    assert_non_null(strstr(text.data, "peak job     ? resident, ? anonymous and shared, GPU ?\n"));
    assert_non_null(strstr(text.data, "peak pool    ? in use\n"));
    assert_non_null(strstr(text.data, "heat         ? GPU, ?\n"));
    assert_null(strstr(text.data, "  load "));
    assert_null(strstr(text.data, "  valve "));
    assert_null(strstr(text.data, "  limit "));
    assert_non_null(strstr(text.data, "throttled    ?\n"));
    assert_non_null(strstr(text.data, "events       none\n"));
    assert_non_null(strstr(text.data, "left behind  no process; memory: ?\n"));
    assert_non_null(strstr(text.data, "record       none kept\n"));
    uma_text_done(&text);
    run->driver_limit = u(96 * UMA_GIB);
    uma_run_summary(run, NULL, &text);
    assert_non_null(strstr(text.data, "  limit        96.0 GiB, held by the driver\n"));
    uma_text_done(&text);
    free(run);
}

static const char *summary_of(const struct uma_run *run, struct uma_text *text) {
    uma_text_reset(text);
    uma_run_summary(run, NULL, text);
    return text->data;
}

static void a_peak_of_which_not_all_is_known(void **state) {
    (void)state;
    struct uma_run *run = calloc(1, sizeof(*run));
    struct uma_text text = { 0 };
    assert_non_null(run);
    run->peak_memory = u(UMA_GIB);
    run->peak_memory_most = u(2 * UMA_GIB);
    assert_non_null(strstr(summary_of(run, &text), ", at least 1.00 GiB anonymous and shared,"));
    run->peak_memory_most = u(UMA_GIB + 10 * UMA_MIB); /* within 2 % */
    assert_non_null(strstr(summary_of(run, &text), ", 1.00 GiB anonymous and shared,"));
    run->peak_memory = (struct uma_u64){ 0 }; /* it ended before it was looked at */
    assert_non_null(strstr(summary_of(run, &text), ", at most 1.01 GiB anonymous and shared,"));
    run->peak_memory_most = (struct uma_u64){ 0 };
    assert_non_null(strstr(summary_of(run, &text), ", ? anonymous and shared,"));
    uma_text_done(&text);
    free(run);
}

static void a_record_that_is_not_whole(void **state) {
    (void)state;
    struct uma_run *run = calloc(1, sizeof(*run));
    struct uma_text text = { 0 };
    assert_non_null(run);
    run->unwritten = UMA_RUN_FILE_RUN | UMA_RUN_FILE_EVENTS;
    assert_non_null(strstr(summary_of(run, &text), "  record       none kept\n"));
    uma_text_reset(&text);
    uma_run_summary(run, "/r", &text);
    assert_non_null(strstr(text.data, "  record       /r (incomplete, could not be written: run.json, events.jsonl)\n"));
    uma_text_reset(&text);
    run->unwritten = 0;
    uma_run_summary(run, "/r", &text);
    assert_non_null(strstr(text.data, "  record       /r\n"));
    uma_text_done(&text);
    free(run);
}

static void what_could_not_be_listed_is_not_nothing(void **state) {
    (void)state;
    struct uma_run *run = calloc(1, sizeof(*run));
    struct uma_text text = { 0 };
    assert_non_null(run);
    run->not_returned = (struct uma_i64){ 0, UMA_KNOWN };
    assert_non_null(strstr(summary_of(run, &text), "left behind  nothing\n"));
    run->left_unknown = true;
    assert_non_null(strstr(summary_of(run, &text), "left behind  processes: ?\n"));
    run->files_unknown = true;
    run->not_returned.validity = UMA_UNKNOWN;
    assert_non_null(strstr(summary_of(run, &text), "left behind  processes: ?; /dev/shm: ?; memory: ?\n"));
    run->left_unknown = false;
    assert_non_null(strstr(summary_of(run, &text), "left behind  no process; /dev/shm: ?; memory: ?\n"));
    run->not_returned = (struct uma_i64){ (int64_t)UMA_GIB, UMA_KNOWN };
    run->left_unknown = true;
    assert_non_null(strstr(summary_of(run, &text), "left behind  1.0 GiB less available than before; other processes: ?; /dev/shm: ?\n"));
    uma_text_done(&text);
    free(run);
}

static void known(void **state) {
    (void)state;
    struct uma_run *run = calloc(1, sizeof(*run));
    struct uma_text text = { 0 };
    (void)strcpy(run->name, "train");
    (void)strcpy(run->cause, "exit 0");
    run->start_ns = 1;
    run->end_ns = 312000000001;
    run->peak_memory = u(68 * UMA_GIB);
    run->peak_rss = u(692 * UMA_GIB / 10);
    run->peak_process_rss = u(953 * UMA_GIB / 100);
    run->peak_processes = u(3);
    run->peak_gpu = u(5 * UMA_GIB / 4);
    run->peak_cgroup = u(70 * UMA_GIB);
    run->celsius = (struct uma_range){ { 61, UMA_KNOWN }, { 83, UMA_KNOWN } };
    run->watts = (struct uma_range){ { 40, UMA_KNOWN }, { 40, UMA_KNOWN } };
    run->throttle_seconds[UMA_THROTTLE_SW_THERMAL] = (struct uma_f64){ 12.34, UMA_KNOWN };
    run->throttle_seconds[UMA_THROTTLE_SYNC_BOOST] = (struct uma_f64){ 0, UMA_KNOWN };
    uma_run_count(run, "job_start");
    uma_run_count(run, "pressure");
    uma_run_count(run, "pressure");
    run->load = (struct uma_run_load){ .asked = true, .ended = true };
    (void)strcpy(run->load.note, "e\x1b");
    run->valve = (struct uma_run_valve){
        .used = true, .limit = u(96 * UMA_GIB), .floor = 4 * UMA_GIB, .most = 40 * UMA_GIB, .refused_limit = 1, .refused_floor = 7
    };
    run->driver_limit = u(96 * UMA_GIB);
    run->not_returned = (struct uma_i64){ (int64_t)(3 * UMA_GIB), UMA_KNOWN };
    run->n_left = 1;
    run->n_left_total = 3;
    run->left[0].pid = 77;
    (void)strcpy(run->left[0].name, "w\x1b[31m");
    run->left[0].bytes = u(UMA_GIB);
    run->n_files = run->n_files_total = 1;
    (void)strcpy(run->files[0].name, "torch_1");
    run->files[0].bytes = 8 * UMA_MIB;
    uma_run_summary(run, "/r", &text);
    assert_non_null(strstr(text.data, "umactl run: train: exit 0 after 5 m 12 s\n"));
    assert_non_null(strstr(
        text.data,
        "peak job     69.2 GiB resident (up to 3 processes; the largest 9.53 GiB), 68.0 GiB anonymous and shared, 70.0 GiB in its cgroup, GPU 1.25 GiB\n"));
    assert_non_null(strstr(text.data, "  load         no weight file was opened; e\\x1b\n"));
    assert_non_null(strstr(
        text.data,
        "  valve        40.0 GiB by CUDA calls at most, limit 96.0 GiB (the driver's, too), floor 4.0 GiB, once refused for the limit, 7 times refused for the machine's floor\n"));
    assert_non_null(strstr(text.data, "61 to 83 C GPU, 40 W\n"));
    assert_non_null(strstr(text.data, "throttled    12.3 s thermal (software)\n"));
    assert_non_null(strstr(text.data, "events       pressure x2\n"));
    assert_non_null(strstr(
        text.data,
        "pid 77 w\\x1b[31m (running, 1.0 GiB) and 2 more processes, /dev/shm/torch_1 (8.0 MiB), 3.0 GiB less available than before\n"));
    assert_null(strchr(text.data, '\x1b'));
    uma_text_done(&text);
    free(run);
}

static void causes(void **state) {
    (void)state;
    char cause[320];
    struct uma_u64 none = { 0 };
    uma_job_cause(3 << 8, false, none, 0, cause, sizeof(cause));
    assert_string_equal(cause, "exit 3");
    assert_int_equal(uma_job_exit_status(3 << 8), 3);
    uma_job_cause(SIGKILL, false, none, 0, cause, sizeof(cause));
    assert_string_equal(cause, "killed by SIGKILL (not sent by umactl; the kernel counted no OOM kill meanwhile)");
    assert_int_equal(uma_job_exit_status(SIGKILL), 137);
    uma_job_cause(SIGKILL, false, u(1), 5, cause, sizeof(cause));
    assert_string_equal(cause, "killed by SIGKILL (not sent by umactl; oom_kill is 1 in the job's own cgroup)");
    uma_job_cause(SIGKILL, false, u(0), 2, cause, sizeof(cause));
    assert_string_equal(cause, "killed by SIGKILL (not sent by umactl; the kernel's oom_kill count rose by 2 meanwhile)");
    uma_job_cause(SIGTERM, true, none, 0, cause, sizeof(cause));
    assert_string_equal(cause, "killed by SIGTERM (passed on by umactl)");
    uma_job_cause(SIGSEGV | 0x80, false, none, 0, cause, sizeof(cause));
    assert_string_equal(cause, "killed by SIGSEGV, core dumped");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(unknown),
                                        cmocka_unit_test(a_peak_of_which_not_all_is_known),
                                        cmocka_unit_test(a_record_that_is_not_whole),
                                        cmocka_unit_test(what_could_not_be_listed_is_not_nothing),
                                        cmocka_unit_test(known),
                                        cmocka_unit_test(causes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
