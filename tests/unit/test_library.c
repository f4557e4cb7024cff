/* SPDX-License-Identifier: MIT */
/*
 * libuma as another program has it: the public header and the library alone, in plain C11 with -pedantic. Everything that uma.h declares
 * must be there to link, and one machine folder goes all the way: read, judged, written, parsed, redacted.
 */
#include "uma.h"
#include "uma_plan.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

static void read_fixture(struct uma_snapshot *snapshot) {
    char root[4096];
    struct uma_error err = { 0 };
    struct uma_observe_options options = { 0 };
    struct uma_observer *observer = NULL;
    (void)snprintf(root, sizeof root, "%s/machines/spark-serving", getenv("UMA_FIXTURES"));
    options.root = root;
    assert_int_equal(uma_snapshot_init(snapshot), 0);
    assert_int_equal(uma_observer_open(&options, &observer, &err), 0);
    assert_true(uma_observer_read(observer, UMA_READ_ALL, snapshot, &err) >= 0);
    assert_null(uma_observer_close(observer));
}

static void read_judge_write(void **state) {
    struct uma_snapshot snapshot, again;
    struct uma_account account;
    struct uma_error err = { 0 };
    uint64_t sum = 0;
    char *text = NULL;
    size_t length = 0;
    (void)state;
    read_fixture(&snapshot);
    assert_int_equal(snapshot.meminfo.mem_total.validity, UMA_KNOWN);
    assert_string_equal(uma_platform_text(snapshot.platform.name), "dgx-spark");

    assert_int_equal(uma_account_build(&snapshot, 0, &account, &err), 0);
    for (int kind = 0; kind < UMA_LEDGER_KINDS; kind++)
        sum += account.ledger.bytes[kind];
    assert_true(account.ledger.known && sum == snapshot.meminfo.mem_total.value);
    assert_true(uma_usable(account.headroom.budget.validity) && account.n_holders > 0);
    assert_string_equal(uma_role_name(account.holders[0].role), "serve");
    uma_account_done(&account);

    assert_int_equal(uma_snapshot_redact(&snapshot, &err), 0);
    assert_int_equal(uma_snapshot_format(&snapshot, &text, &length, &err), 0);
    assert_int_equal(strlen(text), length);
    assert_int_equal(uma_snapshot_parse(text, length, "again", &again, &err), 0);
    assert_true(again.meminfo.mem_total.value == snapshot.meminfo.mem_total.value);
    free(text);
    uma_snapshot_done(&again);
    uma_snapshot_reset(&snapshot);
    assert_int_equal(snapshot.meminfo.mem_total.validity, UMA_UNKNOWN);
    uma_snapshot_done(&snapshot);
    uma_snapshot_done(&snapshot); /* once more does no harm */
}

static void mistakes(void **state) {
    struct uma_error err = { 0 };
    struct uma_observe_options options = { 0 };
    struct uma_observer *observer = NULL;
    struct uma_snapshot snapshot;
    (void)state;
    options.root = "/no/such/folder";
    assert_true(uma_observer_open(&options, &observer, &err) < 0);
    assert_null(observer); /* untouched */
    assert_true(err.code < 0 && strstr(err.text, "/no/such/folder"));
    assert_true(uma_observer_open(&options, &observer, NULL) < 0);
    assert_true(uma_snapshot_parse("{", 1, "bad", &snapshot, NULL) < 0);
    assert_null(uma_observer_close(NULL));
}

static void names(void **state) {
    (void)state;
    assert_string_equal(uma_ledger_kind_name(UMA_LEDGER_FREE_PERCPU_LISTS), "free_percpu_lists");
    assert_string_equal(uma_validity_name(UMA_UNSUPPORTED), "not supported");
    assert_string_equal(uma_throttle_name(UMA_THROTTLE_SW_POWER_CAP), "sw_power_cap");
    assert_string_equal(uma_severity_name(UMA_CRITICAL), "critical");
    assert_null(uma_role_name(UMA_ROLE_UNKNOWN));
}

/* A model by name, a training job and a server of it, and what an engine makes of its share. */
static void plan(void **state) {
    struct uma_error err = { 0 };
    struct uma_model *model = NULL;
    struct uma_train train = { 0 };
    struct uma_serve serve = { 0 };
    struct uma_estimate estimate;
    uint64_t bytes = 0, tokens = 0, sequences = 0;
    (void)state;
    assert_int_equal(uma_model_builtin("llama-3.1-8b", &model, &err), 0);
    assert_true(uma_model_params(model) == UINT64_C(8030261248)); /* Meta's model card: 8.03 B */
    assert_true(uma_model_bytes(model) == 2 * uma_model_params(model));
    train.method = UMA_METHOD_LORA;
    uma_train_defaults(model, &train);
    assert_int_equal(uma_plan_train(model, &train, &estimate, &err), 0);
    assert_true(estimate.total > uma_model_bytes(model) && estimate.device > estimate.total);
    serve.engine = UMA_ENGINE_VLLM;
    serve.fraction = 0.9;
    serve.gpu_layers = -1;
    uma_serve_defaults(model, &serve);
    assert_int_equal(uma_plan_serve(model, &serve, &estimate, &err), 0);
    assert_int_equal(uma_serve_capacity(model, &serve, UINT64_C(130) << 30, 8192, &bytes, &tokens, &sequences, &err), 0);
    assert_true(tokens > 0 && sequences > 0 && bytes < UINT64_C(130) << 30);
    assert_null(uma_model_free(model));
}

static void plan_mistakes(void **state) {
    struct uma_error err = { 0 };
    struct uma_model *model = NULL;
    struct uma_shape shape = { 0 };
    (void)state;
    assert_true(uma_model_builtin("no such model", &model, &err) < 0);
    assert_null(model); /* untouched */
    assert_true(strstr(err.text, "no such model") != NULL);
    assert_true(uma_model_open("/no/such/folder", &model, NULL) < 0);
    assert_true(uma_model_from_config("bad", "{", 1, NULL, 0, &model, &err) < 0);
    assert_true(uma_model_from_shape(&shape, &model, &err) < 0);
    assert_null(model);
    assert_null(uma_model_free(NULL));
    assert_int_equal(uma_format_from_name("bfloat16"), UMA_FORMAT_BF16);
    assert_int_equal(uma_format_bytes(UMA_FORMAT_NVFP4, 32), 18);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(read_judge_write), cmocka_unit_test(mistakes), cmocka_unit_test(names),
                                        cmocka_unit_test(plan), cmocka_unit_test(plan_mistakes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
