/* SPDX-License-Identifier: MIT */
#include "plan/serving_common.h"
#include "serving_models.h"

static struct uma_rank_weights weights_of(const struct uma_model *model, enum uma_engine engine, uint32_t tp, uint32_t pp) {
    struct uma_serve serve = { .engine = engine, .tp = tp, .pp = pp };
    struct uma_rank_weights w;
    uma_serve_rank_weights(model, &serve, &w);
    return w;
}

/* vllm PR 10511: "model weights take 14.96GiB" on one device, 7.48 on each of two. */
static void llama_on_one_rank_and_on_two(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    assert_within(weights_of(model, UMA_ENGINE_VLLM, 1, 1).total, 14.96 * (double)GIB, 0.001);
    assert_within(weights_of(model, UMA_ENGINE_VLLM, 2, 1).total, 7.48 * (double)GIB, 0.001);
    assert_int_equal(weights_of(model, UMA_ENGINE_VLLM, 1, 1).vocab_padding, 0); /* 128256 = 64 x 2004 */
}

static void vocabulary_is_padded_to_64_rows(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    model->vocab = 128257;
    uma_structure_count(model);
    /* 63 more rows of 4096 bf16 in the embedding and in the head */
    assert_within(weights_of(model, UMA_ENGINE_VLLM, 1, 1).vocab_padding, 2 * 63 * 4096 * 2, 0.01);
}

static void norms_stay_whole_on_every_rank(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    assert_int_equal(weights_of(model, UMA_ENGINE_VLLM, 1, 1).classes[UMA_CLASS_NORM], (2 * 32 + 1) * 4096 * 2);
    assert_int_equal(weights_of(model, UMA_ENGINE_VLLM, 4, 1).classes[UMA_CLASS_NORM], (2 * 32 + 1) * 4096 * 2);
}

/* 4 KV heads on 8 ranks: each keeps one whole head, an eighth of q and o. Per layer q and o 4096 x 8192, k and v 4096 x 512. */
static void key_value_heads_are_kept_whole(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = qwen3_235b();
    uint64_t expected = UINT64_C(94) * 2 * (2 * 4096 * 8192 / 8 + 2 * 4096 * 128);
    assert_within(weights_of(model, UMA_ENGINE_VLLM, 8, 1).classes[UMA_CLASS_ATTENTION], expected, 0.0001);
    expected = UINT64_C(94) * 2 * (2 * 4096 * 8192 / 4 + 2 * 4096 * 128);
    assert_within(weights_of(model, UMA_ENGINE_VLLM, 4, 1).classes[UMA_CLASS_ATTENTION], expected, 0.0001);
}

/* sglang issue 8337 prints 13.73 GB (GiB) for a rank of pp 4 x tp 8, which the mean of all stages fits; the fullest has 24 of 94 layers and
 * no embedding. */
static void the_fullest_pipeline_stage_counts(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = qwen3_235b();
    struct uma_rank_weights w = weights_of(model, UMA_ENGINE_SGLANG, 8, 4);
    assert_int_equal(w.classes[UMA_CLASS_LM_HEAD] + w.classes[UMA_CLASS_EMBEDDING], 0);
    assert_within(w.total, 13.73 * (double)GIB, 0.02);
    /* TensorRT-LLM's fullest stages are the first, one of which has the embedding as well; so is vLLM's first when only the last is spared */
    w = weights_of(model, UMA_ENGINE_TRT_LLM, 8, 4);
    assert_within(w.classes[UMA_CLASS_EMBEDDING], UINT64_C(151936) * 4096 * 2 / 8, 0.001);
    assert_int_equal(weights_of(model, UMA_ENGINE_VLLM, 8, 4).classes[UMA_CLASS_EMBEDDING], 0);
    model->layer_count = 91; /* 3 over: all but the last */
    assert_within(weights_of(model, UMA_ENGINE_VLLM, 8, 4).classes[UMA_CLASS_EMBEDDING], UINT64_C(151936) * 4096 * 2 / 8, 0.001);
    model->layer_count = 94;
    w = weights_of(model, UMA_ENGINE_SGLANG, 8, 2); /* 47 each, and the embedding or the head */
    assert_within(w.classes[UMA_CLASS_EMBEDDING], UINT64_C(151936) * 4096 * 2 / 8, 0.001);
}

/* vllm issue 23278: 65.9651 GiB on an H100; 60.8 GiB lie on the disk. Experts as 3072 x 2944. */
static void mxfp4_experts_are_padded_for_marlin(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = gpt_oss_120b();
    struct uma_rank_weights w = weights_of(model, UMA_ENGINE_VLLM, 1, 1);
    assert_within(w.total, 65.9651 * (double)GIB, 0.01);
    assert_true(w.kernel_padding > 5 * GIB);
    assert_int_equal(weights_of(model, UMA_ENGINE_SGLANG, 1, 1).kernel_padding, 0);
}

static void mtp_layers_stay_in_the_file(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    model->totals[UMA_CLASS_MTP] = (struct uma_tensor_total){ .params = GIB, .bytes = 2 * GIB };
    struct uma_serve serve = { .engine = UMA_ENGINE_VLLM, .tp = 1, .pp = 1 };
    struct uma_rank_weights without, with;
    uma_serve_rank_weights(model, &serve, &without);
    serve.mtp = true;
    uma_serve_rank_weights(model, &serve, &with);
    assert_int_equal(without.unloaded, 2 * GIB);
    assert_int_equal(with.total - without.total, 2 * GIB);
}

/* kv_b_proj of DeepSeek-V3: 512 x 128 heads x (128 + 128), in bf16 beside FP8 weights: 2 x 2^24 x 61 bytes. */
static void absorbed_projections_of_quantised_mla(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = config_model(
        "{\"model_type\":\"deepseek_v3\",\"hidden_size\":7168,\"num_hidden_layers\":61,\"num_attention_heads\":128,"
        "\"num_key_value_heads\":128,\"intermediate_size\":18432,\"moe_intermediate_size\":2048,\"n_routed_experts\":256,"
        "\"n_shared_experts\":1,\"num_experts_per_tok\":8,\"first_k_dense_replace\":3,\"q_lora_rank\":1536,\"kv_lora_rank\":512,"
        "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"vocab_size\":129280,\"tie_word_embeddings\":false}");
    assert_int_equal(weights_of(model, UMA_ENGINE_VLLM, 1, 1).absorbed, 0); /* views of a bf16 matrix */
    model->class_format[UMA_CLASS_ATTENTION] = UMA_FORMAT_FP8;
    uma_structure_count(model);
    assert_int_equal(weights_of(model, UMA_ENGINE_VLLM, 1, 1).absorbed, UINT64_C(61) * 2 * 512 * 128 * 256);
    assert_int_equal(weights_of(model, UMA_ENGINE_VLLM, 8, 1).absorbed, UINT64_C(61) * 2 * 512 * 16 * 256);
}

static void a_token_at_the_widest_place(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *llama = llama_8b(), *qwen = qwen3_235b();
    assert_int_equal(uma_serve_token_bytes(llama, 1), 4 * 4096 + 6 * 14336);
    assert_int_equal(uma_serve_token_bytes(llama, 2), 4 * 4096 + 3 * 14336);
    /* eight copies in experts, an output each; router logits in fp32 */
    assert_int_equal(uma_serve_token_bytes(qwen, 1), 4 * 4096 + 8 * (6 * 1536 + 2 * 4096) + 4 * 128);
    assert_true(uma_serve_token_bytes(llama, 0) == uma_serve_token_bytes(llama, 1));
}

/* 2 x 8 heads x 128 x 2 B x 32 layers = 131072 B a token */
static void caches_come_in_whole_pages(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_serve serve = {
        .engine = UMA_ENGINE_VLLM, .tp = 1, .pp = 1, .key_format = UMA_FORMAT_BF16, .value_format = UMA_FORMAT_BF16
    };
    assert_int_equal(uma_serve_kv_bytes(model, &serve, 1, 1), 16 * 131072);
    serve.engine = UMA_ENGINE_TRT_LLM;
    assert_int_equal(uma_serve_kv_bytes(model, &serve, 33, 2), 2 * 64 * 131072);
    serve.engine = UMA_ENGINE_SGLANG;
    serve.tp = 2;
    serve.pp = 4;
    assert_int_equal(uma_serve_kv_bytes(model, &serve, 100, 1), 100 * 131072 / 8);
}

/* server_args.py for a GB10 and for a B200: 512 MiB + 1.5 x 16384 MiB + 128 MiB + 2 x 512 MiB */
static void fractions_by_default(void **state) {
    (void)state;
    struct uma_serve serve = { .engine = UMA_ENGINE_SGLANG, .tp = 1, .pp = 1, .pool = 120 * GIB, .batched_tokens = 8192 };
    double f = uma_serve_default_fraction(&serve);
    assert_true(f > 0.890 && f < 0.892); /* 512 + 12288 + 128 + 512 MiB = 13.1 GiB */
    serve.pool = 180 * GIB;
    serve.batched_tokens = 16384;
    f = uma_serve_default_fraction(&serve);
    assert_true(f > 0.857 && f < 0.859);
    serve.pool = 40 * GIB; /* 512 + 1.5 x 2048 + 128 + 2 x 32 MiB: a chunk counts 2048 tokens at least */
    serve.batched_tokens = 256;
    f = uma_serve_default_fraction(&serve);
    assert_true(f > 0.907 && f < 0.909);
    serve.pool = 0;
    assert_true(uma_serve_default_fraction(&serve) == 0.88);
    serve.engine = UMA_ENGINE_LLAMA_CPP;
    assert_true(uma_serve_default_fraction(&serve) == 1);
    assert_true(uma_serve_fraction(61, 100) > 0.609 && uma_serve_fraction(61, 100) < 0.621);
    assert_true(uma_serve_fraction(200, 100) == 1);
    assert_true(uma_serve_fraction(1, 0) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_on_one_rank_and_on_two),
        cmocka_unit_test(vocabulary_is_padded_to_64_rows),
        cmocka_unit_test(norms_stay_whole_on_every_rank),
        cmocka_unit_test(key_value_heads_are_kept_whole),
        cmocka_unit_test(the_fullest_pipeline_stage_counts),
        cmocka_unit_test(mxfp4_experts_are_padded_for_marlin),
        cmocka_unit_test(mtp_layers_stay_in_the_file),
        cmocka_unit_test(absorbed_projections_of_quantised_mla),
        cmocka_unit_test(a_token_at_the_widest_place),
        cmocka_unit_test(caches_come_in_whole_pages),
        cmocka_unit_test(fractions_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
