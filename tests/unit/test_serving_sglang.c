/* SPDX-License-Identifier: MIT */
#include "plan/serving_common.h"
#include "serving_models.h"

static struct uma_estimate plan(const struct uma_model *model, struct uma_serve serve) {
    struct uma_estimate estimate = { 0 };
    struct uma_error err = { 0 };
    serve.engine = UMA_ENGINE_SGLANG;
    assert_int_equal(uma_plan_serve(model, &serve, &estimate, &err), 0);
    return estimate;
}

/* The fraction is of what is free beside the process, and activations and graphs are not in it. */
static void the_fraction_counts_weights_and_cache_alone(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 8192, .fraction = 0.5, .pool = 80 * GIB });
    double inside = (double)(e.groups[UMA_TERM_WEIGHTS] + e.groups[UMA_TERM_KV_CACHE]);
    assert_within(inside, 0.5 * (double)(80 * GIB - UMA_SERVE_CONTEXT_BYTES), 0.0001);
    assert_int_equal(e.groups[UMA_TERM_ACTIVATIONS], UINT64_C(8192) * 102400 + 128256 * 6);
    assert_int_equal(e.groups[UMA_TERM_COMPUTE_BUFFERS], 512 * MIB); /* 256 batch sizes x 2 MiB */
    assert_true((double)e.total > inside + (double)GIB);
    assert_true(e.high > e.total && e.low < e.total);
}

/* sglang PR 11309: 975,424 tokens of DeepSeek-V3.2 in FP8 with its indexer are 43.67 GB (GiB) on every rank; the latent is not divided. */
static void a_latent_cache_is_whole_on_every_rank(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = config_model(
        "{\"model_type\":\"deepseek_v32\",\"hidden_size\":7168,\"num_hidden_layers\":61,\"num_attention_heads\":128,"
        "\"num_key_value_heads\":128,\"intermediate_size\":18432,\"moe_intermediate_size\":2048,\"n_routed_experts\":256,"
        "\"n_shared_experts\":1,\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,\"q_lora_rank\":1536,\"kv_lora_rank\":512,"
        "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"index_head_dim\":128,\"index_n_heads\":64,"
        "\"index_topk\":2048,\"vocab_size\":129280,\"tie_word_embeddings\":false}");
    struct uma_serve serve = { .context = 975424, .tp = 8, .key_format = UMA_FORMAT_FP8, .value_format = UMA_FORMAT_FP8 };
    assert_within(plan(model, serve).groups[UMA_TERM_KV_CACHE], 43.67 * (double)GIB, 0.001);
}

static uint64_t bytes_of(const struct uma_estimate *e, const char *what) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < e->term_count; i++)
        if (strcmp(e->terms[i].what, what) == 0)
            sum += e->terms[i].bytes;
    return sum;
}

/* club-3090 issue 1261: 454,112 tokens of Qwen3.6-27B in FP8 on two ranks: K 3.46 and V 3.46 GiB; its states stand apart. */
static void states_are_a_term_of_their_own(void **state) {
    (void)state;
    struct uma_error err = { 0 };
    _cleanup_model_ struct uma_model *model = NULL;
    assert_int_equal(uma_model_open("Qwen3.6-27B", &model, &err), 0);
    struct uma_serve serve = { .context = 454112, .tp = 2, .key_format = UMA_FORMAT_FP8, .value_format = UMA_FORMAT_FP8 };
    struct uma_estimate e = plan(model, serve), eight;
    assert_within(bytes_of(&e, "KV cache"), 6.92 * (double)GIB, 0.002);
    assert_true(bytes_of(&e, "recurrent state") > 0);
    assert_int_equal(bytes_of(&e, "KV cache") + bytes_of(&e, "recurrent state"), e.groups[UMA_TERM_KV_CACHE]);
    serve.sequences = 8;
    eight = plan(model, serve);
    assert_int_equal(bytes_of(&eight, "recurrent state"), 8 * bytes_of(&e, "recurrent state"));
}

static void flags_and_their_direction(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 8192, .sequences = 4, .pool = 120 * GIB });
    assert_true(has_flag(&e, "--mem-fraction-static 0.16")); /* (14.96 + 4) / 119.3 = 0.159 */
    assert_true(has_flag(&e, "--max-running-requests 4"));
    assert_true(has_flag(&e, "--cuda-graph-max-bs 256"));
    assert_true(has_warning(&e, "raise it when the start fails"));
    e = plan(model, (struct uma_serve){ .context = 8192, .cuda_graphs = UMA_NO });
    assert_true(has_flag(&e, "--disable-cuda-graph"));
    assert_int_equal(e.groups[UMA_TERM_COMPUTE_BUFFERS], 0);
    e = plan(model, (struct uma_serve){ .context = 8192, .nodes = 2, .fraction = 0.7, .pool = 120 * GIB });
    assert_true(has_flag(&e, "--mem-fraction-static 0.70"));
    assert_true(has_flag(&e, "--tp-size 2"));
    assert_true(has_flag(&e, "--nnodes 2"));
}

/* sglang issue 8337: FP8 on load kept both copies for a while. */
static void quantising_on_load_holds_both(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 1024, .weights = UMA_FORMAT_FP8 });
    assert_within(e.load.growth, 6.5 * (double)GIB, 0.001); /* linears: 13 GiB in bf16 */
    assert_true(has_warning(&e, "13.73 became 19.99"));
    assert_int_equal(plan(model, (struct uma_serve){ .context = 1024 }).load.growth, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fraction_counts_weights_and_cache_alone),
        cmocka_unit_test(a_latent_cache_is_whole_on_every_rank),
        cmocka_unit_test(states_are_a_term_of_their_own),
        cmocka_unit_test(flags_and_their_direction),
        cmocka_unit_test(quantising_on_load_holds_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
