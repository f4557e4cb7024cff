/* SPDX-License-Identifier: MIT */
#include "plan/loading.h"
#include "plan_models.h"
#include "test.h"

#include <string.h>

#define GIB (UINT64_C(1) << 30)
#define GB UINT64_C(1000000000)

/* Only what the loaders look at. */
static struct uma_model of_files(uint64_t bytes, uint64_t largest_file, uint64_t largest_tensor) {
    return (struct uma_model){ .file_count = 2, .file_bytes = bytes, .largest_file = largest_file, .largest_tensor = largest_tensor };
}

/* safetensors PR 759: touching a mapped 4 GiB file moved MemAvailable by 11 MiB of 120,575: the mapping costs MemFree alone. */
static void mapped_files_cost_free_pages_and_no_available_memory(void **state) {
    (void)state;
    struct uma_model model = of_files(4 * GIB, 4 * GIB, GIB);
    struct uma_load load;
    uma_plan_load(&model, UMA_ENGINE_VLLM, UMA_LOADER_DEFAULT, 4 * GIB, 0, &load);
    assert_string_equal(load.loader, "mmap");
    assert_int_equal(load.staging, 0);
    assert_int_equal(load.needs_free, 8 * GIB); /* issue 758: twice the model in one pool */
    assert_false(uma_usable(load.seconds.validity));
}

/* llama.cpp PR 26081 and Ollama's appendLoadModeArgs: neither maps for a GPU that shares the pool. */
static void engines_of_gguf_do_not_map_in_one_pool(void **state) {
    (void)state;
    assert_int_equal(uma_load_default(UMA_ENGINE_LLAMA_CPP), UMA_LOADER_STREAMED);
    assert_int_equal(uma_load_default(UMA_ENGINE_OLLAMA), UMA_LOADER_DIRECT);
    assert_int_equal(uma_load_default(UMA_ENGINE_SGLANG), UMA_LOADER_MMAP);
    struct uma_model model = of_files(4 * GIB, 4 * GIB, GIB);
    struct uma_load load;
    uma_plan_load(&model, UMA_ENGINE_OLLAMA, UMA_LOADER_DEFAULT, 4 * GIB, 0, &load);
    assert_int_equal(load.page_cache, 0);
    assert_int_equal(load.staging, GIB / 4);
}

/* sglang PR 20580: an 81.6 GB skeleton and a list of the checkpoint's 75 GB peaked at 157 GB, and at 81.6 GB after streaming. */
static void a_whole_state_dict_is_held_twice(void **state) {
    (void)state;
    struct uma_model model = of_files(75 * GB, 5 * GB, GB);
    struct uma_load load;
    uma_plan_load(&model, UMA_ENGINE_TRANSFORMERS, UMA_LOADER_EAGER, UINT64_C(81600000000), 0, &load);
    assert_true(load.peak > UINT64_C(156000000000) && load.peak < UINT64_C(158000000000));
    uma_plan_load(&model, UMA_ENGINE_SGLANG, UMA_LOADER_STREAMED, UINT64_C(81600000000), 0, &load);
    assert_true(load.peak < UINT64_C(83000000000));
    assert_string_equal(load.loader, "streamed");
}

static void an_eager_engine_stages_one_shard(void **state) {
    (void)state;
    struct uma_model model = of_files(62 * GB, 5 * GB, GB);
    struct uma_load load;
    uma_plan_load(&model, UMA_ENGINE_VLLM, UMA_LOADER_EAGER, 62 * GB, 0, &load);
    assert_int_equal(load.staging, 5 * GB);
    assert_int_equal(load.peak, 67 * GB);
}

static void direct_reading_leaves_no_cache(void **state) {
    (void)state;
    struct uma_model model = of_files(100 * GIB, 5 * GIB, GIB);
    struct uma_load load;
    uma_plan_load(&model, UMA_ENGINE_VLLM, UMA_LOADER_DIRECT, 100 * GIB, 0, &load);
    assert_int_equal(load.page_cache, 0);
    assert_true(load.staging > 4 * GIB && load.staging < 5 * GIB); /* 4.43 GiB less KV than the default loader left */
    uma_plan_load(&model, UMA_ENGINE_LLAMA_CPP, UMA_LOADER_DIRECT, 100 * GIB, 0, &load);
    assert_int_equal(load.staging, GIB / 4);
    uma_plan_load(&model, UMA_ENGINE_LLAMA_CPP, UMA_LOADER_EAGER, 100 * GIB, 0, &load);
    assert_int_equal(load.staging, 4 << 20);
    assert_int_equal(load.peak, 100 * GIB + (4 << 20));
    assert_string_equal(load.loader, "streamed");
}

static void seconds_need_a_speed_and_skip_what_is_cached(void **state) {
    (void)state;
    struct uma_model model = of_files(60 * GB, 5 * GB, GB);
    model.file_cached = 20 * GB;
    struct uma_load load;
    uma_plan_load(&model, UMA_ENGINE_VLLM, UMA_LOADER_MMAP, 60 * GB, 4e9, &load);
    assert_true(uma_usable(load.seconds.validity));
    assert_true(load.seconds.value > 9.99 && load.seconds.value < 10.01);
    uma_plan_load(&model, UMA_ENGINE_VLLM, UMA_LOADER_DIRECT, 60 * GB, 4e9, &load); /* goes past the cache */
    assert_true(load.seconds.value > 14.99 && load.seconds.value < 15.01);
}

static void sums_saturate(void **state) {
    (void)state;
    struct uma_model model = of_files(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    struct uma_load load;
    uma_plan_load(&model, UMA_ENGINE_TRANSFORMERS, UMA_LOADER_EAGER, UINT64_MAX, 1, &load);
    assert_true(load.peak == UINT64_MAX && load.needs_free == UINT64_MAX);
    uma_plan_load(&model, (enum uma_engine)99, (enum uma_loader)99, 1, 0, &load);
    assert_string_equal(load.loader, "mmap");
}

/* A checkpoint in the format that is asked for has smaller files and nothing to convert; Marlin still repacks four bits layer by layer. */
static void a_stored_format_is_not_made_while_loading(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_BF16);
    struct uma_serve serve = { .engine = UMA_ENGINE_VLLM, .context = 4096, .weights = UMA_FORMAT_FP8, .loader = UMA_LOADER_STREAMED };
    struct uma_estimate made, stored;
    assert_int_equal(uma_plan_serve(&t.model, &serve, &made, NULL), 0);
    serve.stored = true;
    assert_int_equal(uma_plan_serve(&t.model, &serve, &stored, NULL), 0);
    assert_int_equal(stored.total, made.total);
    assert_int_equal(made.load.page_cache, uma_model_bytes(&t.model));
    assert_int_equal(stored.load.page_cache, stored.groups[UMA_TERM_WEIGHTS]);
    assert_true(made.load.growth > GIB && stored.load.growth == 0);
    assert_true(stored.load.staging > 0 && stored.load.staging < made.load.staging);
    assert_int_equal(stored.load.peak, stored.groups[UMA_TERM_WEIGHTS] + stored.load.staging + stored.context + stored.host);
    serve.weights = UMA_FORMAT_NVFP4;
    assert_int_equal(uma_plan_serve(&t.model, &serve, &stored, NULL), 0);
    assert_true(stored.load.growth > 0 && stored.load.growth < stored.groups[UMA_TERM_WEIGHTS] / 36);
    serve.weights = UMA_FORMAT_UNKNOWN; /* the files at hand */
    assert_int_equal(uma_plan_serve(&t.model, &serve, &stored, NULL), 0);
    assert_int_equal(stored.load.page_cache, uma_model_bytes(&t.model));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mapped_files_cost_free_pages_and_no_available_memory),
        cmocka_unit_test(a_whole_state_dict_is_held_twice),
        cmocka_unit_test(an_eager_engine_stages_one_shard),
        cmocka_unit_test(direct_reading_leaves_no_cache),
        cmocka_unit_test(seconds_need_a_speed_and_skip_what_is_cached),
        cmocka_unit_test(sums_saturate),
        cmocka_unit_test(a_stored_format_is_not_made_while_loading),
        cmocka_unit_test(engines_of_gguf_do_not_map_in_one_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
