/* SPDX-License-Identifier: MIT */
#include "plan/serving_common.h"
#include "serving_models.h"

static struct uma_estimate plan(const struct uma_model *model, struct uma_serve serve) {
    struct uma_estimate estimate = { 0 };
    struct uma_error err = { 0 };
    serve.engine = UMA_ENGINE_VLLM;
    assert_int_equal(uma_plan_serve(model, &serve, &estimate, &err), 0);
    return estimate;
}

/* vllm PR 10511, an 80 GB device, utilization 0.9: weights 14.96, activations 1.26, cache 53.29 GiB; there the context counted as well. */
static void what_a_fraction_leaves_for_the_cache(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(
        model, (struct uma_serve){ .context = 8192, .fraction = 0.9, .pool = (uint64_t)(79.22 * (double)GIB), .batched_tokens = 8192 });
    assert_within(e.groups[UMA_TERM_WEIGHTS], 14.96 * (double)GIB, 0.001);
    assert_within(e.groups[UMA_TERM_ACTIVATIONS], 1.26 * (double)GIB, 0.2);
    assert_int_equal(e.groups[UMA_TERM_ACTIVATIONS], UINT64_C(256) * 128256 * 30 + UINT64_C(8192) * 4096 * 4);
    assert_within(e.groups[UMA_TERM_KV_CACHE], 53.29 * (double)GIB, 0.05);
    const struct uma_plan_term *cache = term_of(&e, "KV cache");
    assert_true(cache->low < UINT64_C(5329) * GIB / 100 && cache->high > cache->bytes);
    /* whatever the parts, the engine takes the fraction, and counts graphs in it */
    assert_within(e.total, 0.9 * 79.22 * (double)GIB, 0.0001);
    assert_true(e.groups[UMA_TERM_COMPUTE_BUFFERS] > 0);
    assert_true(e.high - e.low < GIB);
    assert_true(e.device > e.total + e.context);
}

/* With two ranks the profile peaked at the same 1.26 GiB: logits are gathered on every rank. */
static void sampling_is_not_divided_by_ranks(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 8192, .tp = 2, .batched_tokens = 8192 });
    assert_within(e.groups[UMA_TERM_ACTIVATIONS], 1.26 * (double)GIB, 0.2);
    assert_int_equal(e.groups[UMA_TERM_ACTIVATIONS], UINT64_C(256) * 128256 * 30 + UINT64_C(8192) * 4096 * 4);
    assert_non_null(term_of(&e, "NCCL"));
}

/* A larger step makes the widest layer the peak, which grows with its tokens. */
static void large_steps_peak_in_a_layer(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 8192, .batched_tokens = 32768 });
    assert_int_equal(e.groups[UMA_TERM_ACTIVATIONS], UINT64_C(32768) * 102400);
    assert_non_null(term_of(&e, "profile run: widest layer"));
}

/* club-3090 issue 1087 and a GB10: 0.07..0.09 GiB really taken for graphs. */
static void graphs_are_small_and_can_be_left_out(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 8192 });
    const struct uma_plan_term *graphs = term_of(&e, "CUDA graphs");
    assert_true(graphs->bytes > 60 * MIB && graphs->bytes < 100 * MIB);
    e = plan(model, (struct uma_serve){ .context = 8192, .cuda_graphs = UMA_NO });
    assert_null(term_of(&e, "CUDA graphs"));
    assert_true(has_flag(&e, "--enforce-eager"));
}

/* Without a fraction the cache is what was asked for, and the flags say how to get that and no more: 14.96 + 0.8 + 0.3 + 4 of 119.6 GiB. */
static void flags_take_what_is_needed(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 8192, .sequences = 4, .pool = (uint64_t)(119.6 * (double)GIB) });
    assert_int_equal(e.groups[UMA_TERM_KV_CACHE], 4 * GIB);
    assert_true(has_flag(&e, "--gpu-memory-utilization 0.17"));
    assert_true(has_flag(&e, "--max-model-len 8192"));
    assert_true(has_flag(&e, "--kv-cache-memory-bytes 4294967296"));
    assert_true(has_flag(&e, "--max-num-seqs 4"));
    assert_true(has_warning(&e, "a lower value frees memory"));
    e = plan(model, (struct uma_serve){ .context = 8192 });
    for (uint32_t i = 0; i < e.flag_count; i++)
        assert_null(strstr(e.flags[i], "utilization")); /* a fraction of an unknown pool */
}

static bool any_flag(const struct uma_estimate *e, const char *option) {
    for (uint32_t i = 0; i < e->flag_count; i++)
        if (strncmp(e->flags[i], option, strlen(option)) == 0)
            return true;
    return false;
}

/* The engine's own 256 unless several are asked for: then the sampler and the graphs are of those. */
static void the_sampler_takes_the_sequences_that_are_asked_for(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate one = plan(model, (struct uma_serve){ .context = 8192, .sequences = 1, .batched_tokens = 2048 });
    assert_true(has_flag(&one, "--max-num-seqs 256"));
    assert_int_equal(one.groups[UMA_TERM_ACTIVATIONS], UINT64_C(256) * 128256 * 30 + UINT64_C(2048) * 4096 * 4);
    struct uma_estimate more = plan(model, (struct uma_serve){ .context = 8192, .sequences = 100, .batched_tokens = 2048 });
    assert_true(has_flag(&more, "--max-num-seqs 100"));
    assert_int_equal(more.groups[UMA_TERM_ACTIVATIONS], UINT64_C(100) * 128256 * 30 + UINT64_C(2048) * 4096 * 4);
    struct uma_estimate few = plan(model, (struct uma_serve){ .context = 8192, .sequences = 2, .batched_tokens = 2048 });
    /* graphs of 1, 2 and 4 tokens */
    assert_int_equal(few.groups[UMA_TERM_COMPUTE_BUFFERS], 4 * uma_serve_token_bytes(model, 1) + UINT64_C(3) * 32 * 16384);
    assert_true(few.groups[UMA_TERM_COMPUTE_BUFFERS] < more.groups[UMA_TERM_COMPUTE_BUFFERS]);
}

static void a_fraction_that_is_given_is_the_flag(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 8192, .fraction = 0.85, .pool = 120 * GIB });
    assert_true(has_flag(&e, "--gpu-memory-utilization 0.85"));
    assert_false(any_flag(&e, "--kv-cache-memory-bytes")); /* it would take the fraction's place */
    e = plan(model, (struct uma_serve){ .context = 8192, .fraction = 0.875, .pool = 120 * GIB });
    assert_true(has_flag(&e, "--gpu-memory-utilization 0.875"));
    e = plan(model, (struct uma_serve){ .context = 8192, .fraction = 1, .pool = 120 * GIB });
    assert_true(has_flag(&e, "--gpu-memory-utilization 1.00"));
}

static void what_does_not_fit_is_no_flag(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_serve serve = { .context = 131072, .sequences = 4, .pool = 60 * GIB }; /* 64 GiB of cache alone */
    struct uma_estimate e = plan(model, serve);
    assert_false(any_flag(&e, "--gpu-memory-utilization"));
    assert_false(any_flag(&e, "--kv-cache-memory-bytes"));
    serve.sequences = 2; /* 48 GiB of 49: it fits, but with next to nothing beside it */
    serve.pool = 49 * GIB;
    e = plan(model, serve);
    assert_true(e.total < serve.pool && e.total > serve.pool / 100 * 95);
    assert_false(any_flag(&e, "--gpu-memory-utilization"));
    assert_true(has_flag(&e, "--kv-cache-memory-bytes 34359738368"));
}

static void too_small_a_fraction_is_told(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    struct uma_serve serve = { .context = 131072, .fraction = 0.2, .pool = 80 * GIB }; /* 16 GiB */
    struct uma_estimate e = plan(model, serve);
    assert_true(has_warning(&e, "will not start"));
    serve.fraction = 0.3; /* 24 GiB: 7.4 of cache, a sequence takes 16 */
    e = plan(model, serve);
    assert_true(has_warning(&e, "will not start"));
    serve.fraction = 0.5; /* 23.4 GiB for 32 */
    serve.sequences = 2;
    e = plan(model, serve);
    assert_false(has_warning(&e, "will not start"));
    assert_true(has_warning(&e, "some will wait"));
}

static void image_towers_are_profiled(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = llama_8b();
    model->has_vision = true;
    model->vision_hidden = 1280;
    model->vision_tokens = 1024;
    struct uma_estimate e = plan(model, (struct uma_serve){ .context = 8192, .batched_tokens = 16384 });
    assert_int_equal(term_of(&e, "image embeddings")->bytes, UINT64_C(16384) * 4096 * 2);
    assert_int_equal(term_of(&e, "profile run: image tower")->bytes, UINT64_C(4) * 16384 * 28 * 1280);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_fraction_leaves_for_the_cache),
        cmocka_unit_test(sampling_is_not_divided_by_ranks),
        cmocka_unit_test(large_steps_peak_in_a_layer),
        cmocka_unit_test(graphs_are_small_and_can_be_left_out),
        cmocka_unit_test(flags_take_what_is_needed),
        cmocka_unit_test(too_small_a_fraction_is_told),
        cmocka_unit_test(the_sampler_takes_the_sequences_that_are_asked_for),
        cmocka_unit_test(a_fraction_that_is_given_is_the_flag),
        cmocka_unit_test(what_does_not_fit_is_no_flag),
        cmocka_unit_test(image_towers_are_profiled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
