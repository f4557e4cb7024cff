/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "record/run_record.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void names(void **state) {
    (void)state;
    char name[64], id[160];
    uma_run_name_clean("train.sh", name);
    assert_string_equal(name, "train.sh");
    uma_run_name_clean("../..\n/x", name);
    assert_string_equal(name, "_._..__x");
    uma_run_name_clean("", name);
    assert_string_equal(name, "_");
    uma_run_name_clean("-rf", name);
    assert_string_equal(name, "_rf");
    char longest[500];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    uma_run_name_clean(longest, name);
    assert_int_equal(strlen(name), 40);
    uma_run_id_format(1772446272123000000, "n", 42, id);
    assert_string_equal(id, "20260302T101112Z-n-42");
}

/* A record is valid JSON in every state, unknown is null, hostile bytes are escaped. */
static void documents(void **state) {
    (void)state;
    char *argv[] = { (char *)(uintptr_t) "a\n\x1b\xff", (char *)(uintptr_t) "--api-key", (char *)(uintptr_t) "hunter2", NULL };
    char *env[] = { (char *)(uintptr_t) "CUDA_HOME=/x", (char *)(uintptr_t) "HF_TOKEN=s", NULL };
    struct uma_run *run = calloc(1, sizeof(*run));
    struct uma_text text = { 0 };
    json_error_t error;
    assert_non_null(run);
    run->argv = argv;
    run->argc = 3;
    run->env = env;
    uma_run_format(run, &text);
    json_t *doc = json_loadb(text.data, text.length, 0, &error);
    assert_non_null(doc);
    assert_string_equal(json_string_value(json_object_get(doc, "schema")), "umactl.run/1");
    assert_string_equal(json_string_value(json_object_get(doc, "state")), "running");
    assert_true(json_is_null(json_object_get(doc, "exit")));
    assert_true(json_is_null(json_object_get(json_object_get(doc, "peak"), "anonymous_and_shared")));
    assert_true(json_is_null(json_object_get(json_object_get(doc, "job"), "pid")));
    assert_true(json_is_null(json_object_get(doc, "load")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(doc, "command"), 2)), "***");
    assert_int_equal(json_array_size(json_object_get(doc, "env")), 1);
    json_decref(doc);
    uma_text_reset(&text);

    run->state = UMA_RUN_ENDED;
    run->exited = true;
    run->exit_status = 137;
    run->signal = 9;
    (void)strcpy(run->cause, "killed by SIGKILL");
    run->peak_memory = (struct uma_u64){ 7, UMA_KNOWN };
    run->peak_memory_most = (struct uma_u64){ 9, UMA_KNOWN };
    run->files_unknown = true;
    for (int i = 0; i < 3; i++)
        uma_run_count(run, i ? "pressure" : "job_start");
    run->n_left = run->n_left_total = 1;
    run->left[0].pid = 5;
    (void)strcpy(run->left[0].name, "x\xc0");
    uma_run_format(run, &text);
    doc = json_loadb(text.data, text.length, 0, &error);
    assert_non_null(doc);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(doc, "exit"), "signal")), 9);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(doc, "events"), "pressure")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(doc, "left_behind"), "processes")), 1);
    assert_true(json_is_null(json_object_get(json_object_get(doc, "left_behind"), "shm_files")));
    assert_int_equal(json_integer_value(json_object_get(json_object_get(doc, "peak"), "anonymous_and_shared")), 7);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(doc, "peak"), "anonymous_and_shared_at_most")), 9);
    json_decref(doc);
    uma_text_done(&text);
    free(run);
}

static void events(void **state) {
    (void)state;
    struct uma_text text = { 0 };
    struct uma_event event = { .time_ns = 1772446272123000000, .name = "pressure", .detail = "a\nb" };
    uma_event_format(&event, &text);
    assert_string_equal(text.data, "{\"time\":1772446272.123,\"event\":\"pressure\",\"detail\":\"a\\nb\"}\n");
    uma_text_done(&text);
}

static void places(void **state) {
    (void)state;
    char path[100];
    struct uma_error err;
    (void)unsetenv("UMACTL_STATE");
    (void)setenv("XDG_STATE_HOME", "/x", 1);
    (void)setenv("HOME", "/h", 1);
    assert_int_equal(uma_state_path(path, sizeof(path), &err), 0);
    assert_string_equal(path, "/x/umactl");
    (void)setenv("XDG_STATE_HOME", "relative", 1); /* to be ignored, says the specification */
    assert_int_equal(uma_state_path(path, sizeof(path), &err), 0);
    assert_string_equal(path, "/h/.local/state/umactl");
    (void)setenv("UMACTL_STATE", "/s", 1);
    assert_int_equal(uma_state_path(path, sizeof(path), &err), 0);
    assert_string_equal(path, "/s");
    assert_int_equal(uma_state_path(path, 2, &err), -ENAMETOOLONG);
    (void)unsetenv("UMACTL_STATE");
    (void)unsetenv("HOME");
    assert_int_equal(uma_state_path(path, sizeof(path), &err), -ENOENT);
}

static json_t *document_of(const struct uma_run *run) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_run_format(run, &text);
    json_t *doc = json_loadb(text.data, text.length, 0, NULL);
    assert_non_null(doc);
    return doc;
}

static void a_job_behind_the_valve(void **state) {
    (void)state;
    struct uma_run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    json_t *doc = document_of(run);
    assert_true(json_is_null(json_object_get(doc, "valve")));
    assert_true(json_is_null(json_object_get(doc, "driver_limit")));
    json_decref(doc);
    run->driver_limit = (struct uma_u64){ 96, UMA_KNOWN };
    run->valve =
        (struct uma_run_valve){ .used = true, .limit = { 0, UMA_UNLIMITED }, .floor = 4, .most = 9, .refused_floor = 2, .evicted = 5 };
    doc = document_of(run);
    json_t *valve = json_object_get(doc, "valve");
    assert_int_equal(json_integer_value(json_object_get(doc, "driver_limit")), 96);
    assert_true(json_is_null(json_object_get(valve, "limit")));
    assert_int_equal(json_integer_value(json_object_get(valve, "floor")), 4);
    assert_int_equal(json_integer_value(json_object_get(valve, "most")), 9);
    assert_int_equal(json_integer_value(json_object_get(valve, "refused_floor")), 2);
    assert_int_equal(json_integer_value(json_object_get(valve, "refused_limit")), 0);
    assert_int_equal(json_integer_value(json_object_get(valve, "evicted")), 5);
    json_decref(doc);
    free(run);
}

static void a_load_that_was_followed(void **state) {
    (void)state;
    struct uma_run *run = calloc(1, sizeof(*run));
    assert_non_null(run);
    run->load.asked = true;
    run->load.window = 256;
    run->load.helper = "preloaded";
    json_t *doc = document_of(run), *load = json_object_get(doc, "load");
    assert_int_equal(json_integer_value(json_object_get(load, "window")), 256);
    assert_true(json_is_null(json_object_get(load, "keep_free")));
    assert_string_equal(json_string_value(json_object_get(load, "helper")), "preloaded");
    assert_true(json_is_null(json_object_get(load, "helper_note")));
    assert_true(json_is_null(json_object_get(load, "report"))); /* it goes on */
    json_decref(doc);

    run->load.ended = true;
    run->load.end = "loaded";
    run->load.seconds = 1.5;
    run->load.files = 2;
    run->load.evicted_bytes = 5;
    run->load.peak = (struct uma_u64){ 7, UMA_KNOWN };
    run->load.by_fadvise = run->load.by_helper = true;
    (void)strcpy(run->load.note, "a\x1b\xff");
    doc = document_of(run);
    json_t *report = json_object_get(json_object_get(doc, "load"), "report");
    assert_string_equal(json_string_value(json_object_get(report, "end")), "loaded");
    assert_int_equal(json_integer_value(json_object_get(report, "files")), 2);
    assert_int_equal(json_integer_value(json_object_get(report, "evicted_bytes")), 5);
    assert_int_equal(json_integer_value(json_object_get(report, "peak")), 7);
    assert_true(json_is_null(json_object_get(report, "lowest_free")));
    json_t *means = json_object_get(report, "means");
    assert_int_equal(json_array_size(means), 2);
    assert_string_equal(json_string_value(json_array_get(means, 1)), "helper");
    json_decref(doc);
    free(run);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(names),
                                        cmocka_unit_test(documents),
                                        cmocka_unit_test(a_job_behind_the_valve),
                                        cmocka_unit_test(a_load_that_was_followed),
                                        cmocka_unit_test(events),
                                        cmocka_unit_test(places) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
