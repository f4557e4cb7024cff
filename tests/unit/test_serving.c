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
        cmocka_unit_test(what_cannot_be_is_refused),    cmocka_unit_test(widths_are_the_largest_of_any_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
