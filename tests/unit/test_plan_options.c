/* SPDX-License-Identifier: MIT */
#include "cmd/plan.h"
#include "test.h"

#include <string.h>

static int set(struct uma_plan_request *request, const char *name, const char *value, struct uma_error *err) {
    return uma_plan_request_set(request, name, value, err);
}

static void values_reach_their_fields(void **state) {
    (void)state;
    struct uma_plan_request r = { 0 };
    assert_int_equal(set(&r, "params", "7.24B", NULL), 0);
    assert_true(r.shape.params == UINT64_C(7240000000));
    assert_int_equal(set(&r, "seq", "4K", NULL), 0);
    assert_int_equal(r.job.train.seq, 4096);
    assert_int_equal(set(&r, "optimizer", "ADAMW_8bit", NULL), 0);
    assert_int_equal(r.job.train.optimizer, UMA_OPTIMIZER_ADAMW_8BIT);
    assert_int_equal(set(&r, "targets", "q_proj,v", NULL), 0);
    assert_true(r.job.train.targets == (UMA_LINEAR_BIT(UMA_LINEAR_Q) | UMA_LINEAR_BIT(UMA_LINEAR_Q_B) | UMA_LINEAR_BIT(UMA_LINEAR_V)));
    assert_int_equal(set(&r, "recompute-modules", "core_attn,moe_act", NULL), 0);
    assert_int_equal(r.job.train.recompute_modules, UMA_RECOMPUTE_ATTENTION | UMA_RECOMPUTE_EXPERT_ACTIVATION);
    assert_int_equal(set(&r, "compute-capability", "12.1", NULL), 0);
    assert_int_equal(r.job.train.compute_capability, 121);
    assert_int_equal(set(&r, "torch", "2.0", NULL), 0);
    assert_int_equal(r.job.train.torch_release, 2000);
    assert_int_equal(set(&r, "torch", "2.10", NULL), 0); /* ten, not one */
    assert_int_equal(r.job.train.torch_release, 2010);
    assert_int_equal(set(&r, "budget", "80GB", NULL), 0);
    assert_true(r.budget.value == UINT64_C(80000000000) && r.budget.validity == UMA_KNOWN);
    assert_int_equal(set(&r, "master", "yes", NULL), 0);
    assert_int_equal(r.job.train.master, UMA_YES);
    assert_int_equal(set(&r, "dora", NULL, NULL), 0);
    assert_true(r.job.train.dora);

    struct uma_plan_request s = { .job.serving = true };
    assert_int_equal(set(&s, "kv-dtype", "q8_0,f16", NULL), 0);
    assert_int_equal(s.job.serve.key_format, UMA_FORMAT_Q8_0);
    assert_int_equal(s.job.serve.value_format, UMA_FORMAT_F16);
    assert_int_equal(set(&s, "gpu-layers", "all", NULL), 0);
    assert_int_equal(s.job.serve.gpu_layers, -1);
    assert_int_equal(set(&s, "gpu-layers", "0", NULL), 0);
    assert_int_equal(s.job.serve.gpu_layers, 0);
    assert_int_equal(set(&s, "fraction", "0.85", NULL), 0);
    assert_true(s.job.serve.fraction > 0.849 && s.job.serve.fraction < 0.851);
    assert_int_equal(set(&s, "mtp", "no", NULL), 0);
    assert_true(s.job.serve.no_mtp && !s.job.serve.mtp);
    assert_int_equal(set(&s, "mla", "expanded", NULL), 0);
    assert_true(s.job.serve.mla_expanded && !s.job.serve.mla_transposed);
}

static void wrong_values_name_option_and_expectation(void **state) {
    (void)state;
    static const struct {
        bool serving;
        const char *name, *value, *says;
    } cases[] = {
        { false, "batch", "0", "--batch: \"0\": expected a count" },
        { false, "batch", "-3", "--batch" },
        { false, "seq", "many", "--seq" },
        { false, "torch", "2", "expected a release of torch" },
        { false, "torch", "2.", "expected a release of torch" },
        { false, "torch", ".1", "expected a release of torch" },
        { false, "torch", "2.1.0", "expected a release of torch" },
        { false, "torch", "-2.1", "expected a release of torch" },
        { false, "torch", "2.12345", "expected a release of torch" },
        { false, "optimizer", "adagrad", "expected adamw" },
        { false, "targets", "q,,v", "expected q, k, v" },
        { false, "targets", "", "expected q, k, v" },
        { false, "dtype", "fp3", "a number format" },
        { false, "method", "magic", "expected full, lora" },
        { false, "context", "4096", "is of `umactl plan serve`" },
        { true, "seq", "4096", "is of `umactl plan train`" },
        { true, "fraction", "1.5", "a ratio" },
        { true, "fraction", "0", "a ratio" },
        { true, "fraction", "nan", "a ratio" },
        { true, "kv-dtype", "bf16,", "a number format" },
        { true, "gpu-layers", "-1", "a number of layers" },
        { true, "engine", "tgi", "expected vllm" },
        { true, "read-speed", "0", "a size above 0" },
        { false, "read-speed", "0", "a size above 0" },
        { false, "load", "fast", "expected mmap, eager" },
        { true, "projector", "", "it is empty" },
        { false, "recompute-modules", "core_attn,x", "a list of core_attn" },
        { false, "nonsense", "1", "there is no option --nonsense" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_plan_request r = { .job.serving = cases[i].serving };
        struct uma_error err = { 0 };
        assert_true(set(&r, cases[i].name, cases[i].value, &err) < 0);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s %s said: %s", cases[i].name, cases[i].value, err.text);
    }
}

static void objectives_choose_their_method(void **state) {
    (void)state;
    static const struct {
        const char *method, *name, *value;
        enum uma_method want;
    } cases[] = {
        { "dpo", "rank", "16", UMA_METHOD_LORA },    { "dpo", "dtype", "nf4", UMA_METHOD_QLORA },
        { "dpo", "dtype", "bf16", UMA_METHOD_FULL }, { "full", "dtype", "fp8", UMA_METHOD_FULL },
        { "lora", "dtype", "nf4", UMA_METHOD_LORA }, { "grpo", "dtype", "fp8", UMA_METHOD_FULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_plan_request r = { .model_path = "x" };
        assert_int_equal(set(&r, "method", cases[i].method, NULL), 0);
        assert_int_equal(set(&r, cases[i].name, cases[i].value, NULL), 0);
        assert_int_equal(uma_plan_request_check(&r, NULL), 0);
        assert_int_equal(r.job.train.method, cases[i].want);
    }
}

static void requests_must_be_whole(void **state) {
    (void)state;
    struct uma_error err = { 0 };
    struct uma_plan_request none = { 0 };
    assert_true(uma_plan_request_check(&none, &err) < 0 && strstr(err.text, "--model"));
    struct uma_plan_request both = { .model_path = "x", .shape.params = 1 };
    assert_true(uma_plan_request_check(&both, &err) < 0 && strstr(err.text, "not both"));
    struct uma_plan_request half = { .shape.layers = 3 };
    assert_true(uma_plan_request_check(&half, &err) < 0 && strstr(err.text, "--hidden"));
    struct uma_plan_request engine = { .model_path = "x", .job.serving = true };
    assert_true(uma_plan_request_check(&engine, &err) < 0 && strstr(err.text, "--engine"));
}

static void every_option_has_a_name_of_its_own(void **state) {
    (void)state;
    bool has_value;
    size_t n = 0;
    for (const char *a; (a = uma_plan_option_name(n, &has_value)); n++)
        for (size_t i = 0; i < n; i++)
            assert_string_not_equal(a, uma_plan_option_name(i, &has_value));
    assert_true(n > 60 && n < 120);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_reach_their_fields),          cmocka_unit_test(wrong_values_name_option_and_expectation),
        cmocka_unit_test(objectives_choose_their_method),     cmocka_unit_test(requests_must_be_whole),
        cmocka_unit_test(every_option_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
