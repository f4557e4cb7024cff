/* SPDX-License-Identifier: MIT */
#include "plan/serving.h"
#include "plan_models.h"
#include "test.h"

#include "base/units.h"

#include <errno.h>

static struct uma_serve filled(const struct uma_model *model, struct uma_serve serve) {
    uma_serve_defaults(model, &serve);
    return serve;
}

static void every_engine_has_its_context(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16);
    t.model.max_position = 40960;
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_VLLM }).context, 40960);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP }).context, 40960);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA }).context, 40960);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA, .pool = 30 * UMA_GIB }).context, 32768);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA, .pool = 23 * UMA_GIB }).context, 32768);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA, .pool = 47 * UMA_GIB }).context, 40960);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA, .pool = 16 * UMA_GIB }).context, 4096);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_TRANSFORMERS, .prompt_tokens = 1000 }).context, 3048);
    t.model.max_position = 0;
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP }).context, 4096);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP, .context = 777 }).context, 777);
}

/* num_ctx of an Ollama model, a checkpoint with scales for an FP8 cache. */
static void what_the_files_ask_for(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16);
    t.model.max_position = 40960;
    t.model.default_context = 8192;
    t.model.kv_format = UMA_FORMAT_FP8;
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA }).context, 8192);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP }).context, 40960); /* reads no Modelfile */
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA, .context = 4096 }).context, 4096);
    t.model.default_context = UINT64_MAX;
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA }).context, 40960);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_VLLM }).key_format, UMA_FORMAT_FP8);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_VLLM }).value_format, UMA_FORMAT_FP8);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_TRANSFORMERS }).key_format, UMA_FORMAT_BF16);
    assert_int_equal(filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_SGLANG, .key_format = UMA_FORMAT_BF16 }).key_format,
                     UMA_FORMAT_BF16);
}

static void what_is_given_stays(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16);
    struct uma_serve s = filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP, .batch = 256 });
    assert_int_equal(s.ubatch, 256); /* never more than a batch */
    assert_int_equal(s.key_format, UMA_FORMAT_F16);
    assert_int_equal(s.flash_attention, UMA_YES);
    s = filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP, .key_format = UMA_FORMAT_Q8_0, .flash_attention = UMA_NO });
    assert_int_equal(s.value_format, UMA_FORMAT_Q8_0);
    assert_int_equal(s.flash_attention, UMA_NO);
    assert_int_equal(s.ubatch, 512);
    assert_int_equal(s.batch, 2048);
    s = filled(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_TRANSFORMERS, .context = 100, .prompt_tokens = 500 });
    assert_int_equal(s.prompt_tokens, 100);
    assert_int_equal(s.batched_tokens, 100);
}

static void assert_ranks(const struct uma_model *model, struct uma_serve serve, uint32_t tp, uint32_t pp, uint32_t nodes) {
    uma_serve_defaults(model, &serve);
    assert_int_equal(serve.tp, tp);
    assert_int_equal(serve.pp, pp);
    assert_int_equal(serve.nodes, nodes);
    struct uma_serve again = serve;
    uma_serve_defaults(model, &again);
    assert_memory_equal(&again, &serve, sizeof serve);
}

static void nodes_divide_the_model(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16); /* 32 heads */
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_VLLM }, 1, 1, 1);
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_VLLM, .nodes = 2 }, 2, 1, 2);
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_SGLANG, .nodes = 4, .tp = 1, .pp = 1 }, 4, 1, 4);
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_TRT_LLM, .nodes = 4, .tp = 2 }, 2, 2, 4);
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_VLLM, .nodes = 3 }, 1, 3, 3); /* 32 heads do not make three */
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP, .nodes = 2 }, 1, 2, 2);
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_VLLM, .tp = 4, .pp = 2 }, 4, 2, 8);
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_VLLM, .tp = 8, .nodes = 1 }, 8, 1, 1);
    assert_ranks(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA, .nodes = 2 }, 1, 1, 2);
}

static bool warned(const struct uma_estimate *e, const char *words) {
    for (uint32_t i = 0; i < e->warning_count; i++)
        if (strstr(e->warnings[i], words))
            return true;
    return false;
}

static void assumptions_are_told(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16);
    t.model.max_position = 40960;
    static const enum uma_engine engines[] = { UMA_ENGINE_VLLM,    UMA_ENGINE_SGLANG,       UMA_ENGINE_LLAMA_CPP, UMA_ENGINE_OLLAMA,
                                               UMA_ENGINE_TRT_LLM, UMA_ENGINE_TRANSFORMERS, UMA_ENGINE_LITGPT };
    for (size_t i = 0; i < ELEMENTS(engines); i++) {
        struct uma_serve serve = { .engine = engines[i], .gpu_layers = -1, .pool = 119 * UMA_GIB };
        struct uma_estimate e;
        uma_serve_defaults(&t.model, &serve); /* as a caller may have done before */
        assert_int_equal(uma_plan_serve(&t.model, &serve, &e, NULL), 0);
        assert_true(warned(&e, "no context was given"));
        assert_false(warned(&e, "longer than"));
        assert_false(warned(&e, "pool of its own"));
        serve.context = 40961;
        assert_int_equal(uma_plan_serve(&t.model, &serve, &e, NULL), 0);
        assert_false(warned(&e, "no context was given"));
        assert_true(warned(&e, "longer than the 40960 tokens the model states"));
        serve.tp = serve.nodes = 2;
        assert_int_equal(uma_plan_serve(&t.model, &serve, &e, NULL), 0);
        assert_true(warned(&e, "each rank is taken to have a pool of its own"));
        assert_int_equal(e.between_steps, 0); /* a word of training */
        for (uint32_t k = 0; k < e.term_count; k++)
            assert_false(e.terms[k].between_steps);
        for (uint32_t k = 0; k < e.flag_count; k++) /* an option and its value, nothing else */
            assert_true(strchr(e.flags[k], ' ') == strrchr(e.flags[k], ' '));
    }
    struct uma_serve both = { .engine = UMA_ENGINE_TRANSFORMERS, .context = 2048, .nodes = 2 };
    struct uma_estimate e;
    assert_int_equal(uma_plan_serve(&t.model, &both, &e, NULL), 0);
    assert_true(warned(&e, "each of the 2 has to hold all of it"));
}

static void weights_in_another_format(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16);
    const struct uma_model *m = &t.model;
    struct uma_serve s = { .weights = UMA_FORMAT_NF4 };
    assert_int_equal(uma_serve_class_bytes(m, &s, UMA_CLASS_MLP), m->totals[UMA_CLASS_MLP].params / 64 * 36);
    assert_int_equal(uma_serve_class_bytes(m, &s, UMA_CLASS_EMBEDDING), m->totals[UMA_CLASS_EMBEDDING].bytes);
    s.weights = UMA_FORMAT_F32;
    assert_int_equal(uma_serve_class_bytes(m, &s, UMA_CLASS_EMBEDDING), 2 * m->totals[UMA_CLASS_EMBEDDING].bytes);
    /* what is quantised already is loaded as it is */
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_AWQ4_G128);
    s.weights = UMA_FORMAT_NF4;
    assert_int_equal(uma_serve_class_bytes(m, &s, UMA_CLASS_MLP), m->totals[UMA_CLASS_MLP].bytes);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16);
    const struct uma_serve wrong[] = {
        { .engine = UMA_ENGINE_UNKNOWN },
        { .engine = UMA_ENGINE_COUNT },
        { .engine = UMA_ENGINE_LLAMA_CPP, .context = UINT64_MAX },
        { .engine = UMA_ENGINE_LLAMA_CPP, .sequences = UINT64_MAX },
        { .engine = UMA_ENGINE_LLAMA_CPP, .tp = UINT32_MAX },
        { .engine = UMA_ENGINE_TRANSFORMERS, .pp = 37 }, /* of 36 layers */
        { .engine = UMA_ENGINE_TRANSFORMERS, .fraction = 1.5 },
        { .engine = UMA_ENGINE_TRANSFORMERS, .fraction = 0.0 / 0.0 },
        { .engine = UMA_ENGINE_TRANSFORMERS, .batched_tokens = UINT64_MAX },
    };
    for (size_t i = 0; i < ELEMENTS(wrong); i++) {
        struct uma_estimate e = { .total = 4711 };
        struct uma_error err = { 0 };
        assert_int_equal(uma_plan_serve(&t.model, &wrong[i], &e, &err), -EINVAL);
        assert_int_equal(e.total, 4711);
        assert_true(strlen(err.text) > 10);
    }
}

static void widths_are_the_largest_of_any_layer(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3moe", SHAPE_QWEN3_235B, UMA_FORMAT_BF16);
    t.layers[3].ffn = UMA_FFN_DENSE, t.layers[3].ffn_size = 12288;
    struct uma_widths w;
    uma_serve_widths(&t.model, &w);
    assert_int_equal(w.ffn, 12288);
    assert_int_equal(w.active, 8);
    assert_int_equal(w.experts, 8 * 1536);
    assert_int_equal(w.q, 64 * 128);
    assert_int_equal(w.kv, 4 * 256);
    assert_true(w.full && !w.window && !w.mla);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_engine_has_its_context), cmocka_unit_test(what_is_given_stays),
        cmocka_unit_test(what_the_files_ask_for),       cmocka_unit_test(weights_in_another_format),
        cmocka_unit_test(nodes_divide_the_model),       cmocka_unit_test(assumptions_are_told),
        cmocka_unit_test(what_cannot_be_is_refused),    cmocka_unit_test(widths_are_the_largest_of_any_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
