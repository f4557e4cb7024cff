/* SPDX-License-Identifier: MIT */
#include "plan/serving.h"
#include "plan_models.h"
#include "test.h"

#include "base/units.h"

static struct uma_estimate plan(const struct uma_model *model, struct uma_serve serve) {
    struct uma_estimate e;
    struct uma_error err;
    assert_int_equal(uma_plan_serve(model, &serve, &e, &err), 0);
    return e;
}

static bool warns_of(const struct uma_estimate *e, const char *words) {
    for (uint32_t i = 0; i < e->warning_count; i++)
        if (strstr(e->warnings[i], words))
            return true;
    return false;
}

static bool has_flag(const struct uma_estimate *e, const char *start) {
    for (uint32_t i = 0; i < e->flag_count; i++)
        if (strncmp(e->flags[i], start, strlen(start)) == 0)
            return true;
    return false;
}

static void buffers_add_up_to_what_the_program_prints(void **state) {
    (void)state;
    /* ik_llama.cpp discussion 397: Qwen3-32B, n_ctx 8192, ubatch 1024: KV self size 2048.00 MiB f16, compute buffer 633.50 MiB */
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_32B, UMA_FORMAT_Q5_K);
    struct uma_estimate e =
        plan(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP, .context = 8192, .ubatch = 1024, .gpu_layers = -1 });
    assert_int_equal(e.groups[UMA_TERM_KV_CACHE], 2048 * UMA_MIB);
    assert_int_equal(e.groups[UMA_TERM_COMPUTE_BUFFERS] / 1024, (uint64_t)(633.5 * 1024));
    assert_int_equal(e.groups[UMA_TERM_WEIGHTS], uma_model_bytes(&t.model));
    assert_int_equal(e.reserved, e.total);
    assert_int_equal(e.device, e.total + e.context);
    assert_true(e.device_high > e.device);
    assert_true(has_flag(&e, "-c 8192"));
    assert_true(warns_of(&e, "--load-mode dio"));
    assert_false(has_flag(&e, "--load-mode")); /* its own choice */
    assert_false(has_flag(&e, "-np"));
    assert_true(has_flag(&e, "-ngl 999"));
    assert_true(warns_of(&e, "--cache-ram 0"));
    assert_string_equal(e.load.loader, "streamed"); /* tensors through four small buffers */
    assert_int_equal(e.load.staging, 4 << 20);
    assert_true(has_flag(&e, "-ub 1024"));
    assert_false(has_flag(&e, "-b "));
    assert_false(has_flag(&e, "--cache-type"));
    assert_false(has_flag(&e, "-fa"));
    assert_int_equal(e.load.peak, e.groups[UMA_TERM_WEIGHTS] + e.context + (4 << 20));
}

static void a_quantised_cache_is_smaller(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_32B, UMA_FORMAT_Q5_K);
    struct uma_serve serve = { .engine = UMA_ENGINE_LLAMA_CPP, .context = 8192, .key_format = UMA_FORMAT_Q8_0, .gpu_layers = -1 };
    struct uma_estimate e = plan(&t.model, serve);
    assert_int_equal(e.groups[UMA_TERM_KV_CACHE], 1088 * UMA_MIB); /* 2048 x 34 / 64 */
    assert_true(has_flag(&e, "--cache-type-k q8_0"));
    assert_true(has_flag(&e, "--cache-type-v q8_0"));
    assert_true(has_flag(&e, "-fa on"));
}

/* The options make the job that was planned, not one that would be better. */
static void flags_are_of_this_job(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_32B, UMA_FORMAT_Q5_K);
    struct uma_serve serve = { .engine = UMA_ENGINE_LLAMA_CPP,
                               .context = 4096,
                               .sequences = 3,
                               .gpu_layers = 20,
                               .batch = 1024,
                               .full_window = true,
                               .flash_attention = UMA_NO,
                               .loader = UMA_LOADER_DIRECT };
    struct uma_estimate e = plan(&t.model, serve);
    static const char *const flags[] = { "-c 12288", "-np 3", "-ngl 20", "-b 1024", "-fa off", "--swa-full", "--load-mode dio" };
    for (size_t i = 0; i < ELEMENTS(flags); i++)
        assert_true(has_flag(&e, flags[i]));
    for (uint32_t i = 0; i < e.flag_count; i++)
        assert_null(strstr(e.flags[i], "  "));
    serve.loader = UMA_LOADER_EAGER; /* it cannot read a file whole */
    e = plan(&t.model, serve);
    assert_true(has_flag(&e, "--load-mode none"));
    assert_string_equal(e.load.loader, "streamed");
    serve.loader = UMA_LOADER_MMAP;
    e = plan(&t.model, serve);
    assert_true(has_flag(&e, "--load-mode mmap"));
}

/* safetensors are not what llama.cpp reads: the file that is made of them has the type that was asked for, in every matrix. */
static void other_files_are_converted_first(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_GPTQ4_G128);
    t.model.basis = UMA_BASIS_TENSORS;
    t.model.file_count = 2;
    t.model.file_bytes = uma_model_bytes(&t.model);
    struct uma_serve serve = { .engine = UMA_ENGINE_LLAMA_CPP, .context = 4096, .gpu_layers = -1 };
    struct uma_estimate e = plan(&t.model, serve);
    assert_true(warns_of(&e, "must be converted to GGUF first; sizes are those of the files as they are"));
    assert_int_equal(e.groups[UMA_TERM_WEIGHTS], uma_model_bytes(&t.model));
    serve.weights = UMA_FORMAT_Q8_0;
    e = plan(&t.model, serve);
    assert_true(warns_of(&e, "must be converted to GGUF first; sizes are those of q8_0"));
    assert_true(e.groups[UMA_TERM_WEIGHTS] > uma_model_params(&t.model)); /* 8.5 bits each, out of 4 */
    assert_true(e.load.page_cache > uma_model_params(&t.model));          /* the new file's */
    t.model.gguf = true;
    e = plan(&t.model, serve);
    assert_false(warns_of(&e, "converted to GGUF"));
    assert_int_equal(e.groups[UMA_TERM_WEIGHTS], uma_model_bytes(&t.model));
    t.model.gguf = false;
    serve.engine = UMA_ENGINE_VLLM;
    e = plan(&t.model, serve);
    assert_false(warns_of(&e, "converted to GGUF"));
}

static void a_file_of_one_type_quantises_every_matrix(void **state) {
    (void)state;
    /* ik_llama.cpp discussion 258: DeepSeek R1 as Q8_0, 671.026 B parameters: 664.295 GiB, 8.504 bits per weight: 34 bytes per 32, the
     * 58 routers of 256 x 7168 in fp32 */
    struct test_model t;
    test_model_make(&t, "llama", SHAPE_LLAMA31_8B, UMA_FORMAT_BF16);
    t.model.totals[UMA_CLASS_NORM].params = 0;
    t.model.totals[UMA_CLASS_ROUTER].params = 58ull * 256 * 7168;
    t.model.totals[UMA_CLASS_MLP].params += 671026404352ull - uma_model_params(&t.model);
    struct uma_estimate e =
        plan(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_LLAMA_CPP, .weights = UMA_FORMAT_Q8_0, .context = 2048, .gpu_layers = -1 });
    assert_true((double)e.groups[UMA_TERM_WEIGHTS] > 664.295 * (double)UMA_GIB * 0.9999);
    assert_true((double)e.groups[UMA_TERM_WEIGHTS] < 664.295 * (double)UMA_GIB * 1.0001);
}

static void a_tied_embedding_is_there_twice_unless_mapped(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_06B, UMA_FORMAT_Q8_0);
    struct uma_serve serve = { .engine = UMA_ENGINE_LLAMA_CPP, .context = 4096, .gpu_layers = -1 };
    uint64_t unmapped = plan(&t.model, serve).total; /* as llama.cpp and Ollama load on a GPU that shares the pool */
    serve.loader = UMA_LOADER_MMAP;
    assert_int_equal(unmapped - plan(&t.model, serve).total, t.model.totals[UMA_CLASS_EMBEDDING].bytes);
    serve.loader = UMA_LOADER_EAGER;
    assert_int_equal(plan(&t.model, serve).total, unmapped);
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_Q8_0);
    assert_int_equal(plan(&t.model, serve).groups[UMA_TERM_WEIGHTS], uma_model_bytes(&t.model));
}

static void mtp_projector_and_draft_are_counted(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_Q8_0);
    struct uma_serve serve = { .engine = UMA_ENGINE_LLAMA_CPP, .context = 4096, .gpu_layers = -1 };
    uint64_t plain = plan(&t.model, serve).total;
    serve.projector_bytes = 1136 * UMA_MIB; /* ollama/ollama#17482 */
    serve.draft_bytes = 582 * UMA_MIB;
    assert_int_equal(plan(&t.model, serve).total - plain, (1136 + 582) * UMA_MIB);
    /* the image tower of a shape is in no file that -m names; Ollama loads it with the model */
    t.model.totals[UMA_CLASS_VISION] = (struct uma_tensor_total){ 1, UMA_MIB, UMA_MIB };
    t.model.class_format[UMA_CLASS_VISION] = UMA_FORMAT_I8;
    t.model.basis = UMA_BASIS_STRUCTURE;
    assert_int_equal(plan(&t.model, serve).total - plain, (1136 + 582) * UMA_MIB);
    struct uma_serve ollama = serve;
    ollama.engine = UMA_ENGINE_OLLAMA;
    uint64_t with = plan(&t.model, ollama).groups[UMA_TERM_WEIGHTS];
    t.model.totals[UMA_CLASS_VISION] = (struct uma_tensor_total){ 0 };
    assert_int_equal(with - plan(&t.model, ollama).groups[UMA_TERM_WEIGHTS], UMA_MIB);
    t.model.totals[UMA_CLASS_MTP] = (struct uma_tensor_total){ 1, UMA_MIB, UMA_MIB };
    t.model.class_format[UMA_CLASS_MTP] = UMA_FORMAT_I8;
    t.model.mtp_layers = 1;
    struct uma_estimate e = plan(&t.model, serve);
    assert_int_equal(e.total - plain, (1136 + 582 + 1) * UMA_MIB);
    assert_int_equal(e.warning_count > 0, 1);
    serve.no_mtp = true;
    assert_int_equal(plan(&t.model, serve).total - plain, (1136 + 582) * UMA_MIB);
}

static void ollama_has_its_own_words(void **state) {
    (void)state;
    struct test_model t;
    test_model_make(&t, "qwen3", SHAPE_QWEN3_8B, UMA_FORMAT_Q4_K);
    struct uma_estimate e =
        plan(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA, .context = 8192, .sequences = 4, .gpu_layers = -1 });
    assert_int_equal(e.groups[UMA_TERM_KV_CACHE], 4ull * 8192 * 36 * 2 * 8 * 128 * 2);
    assert_true(has_flag(&e, "OLLAMA_NUM_PARALLEL=4"));
    assert_true(has_flag(&e, "OLLAMA_CONTEXT_LENGTH=8192"));
    assert_false(has_flag(&e, "OLLAMA_KV_CACHE_TYPE")); /* f16 is its own */
    assert_true(warns_of(&e, "LLAMA_ARG_CACHE_RAM=0"));
    assert_string_equal(e.load.loader, "direct"); /* on a GPU that shares the pool */
    assert_false(has_flag(&e, "-c "));
    e = plan(&t.model, (struct uma_serve){ .engine = UMA_ENGINE_OLLAMA, .context = 8192, .key_format = UMA_FORMAT_Q8_0, .gpu_layers = -1 });
    assert_true(has_flag(&e, "OLLAMA_KV_CACHE_TYPE=q8_0"));
    assert_true(has_flag(&e, "OLLAMA_FLASH_ATTENTION=1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_add_up_to_what_the_program_prints),
        cmocka_unit_test(a_quantised_cache_is_smaller),
        cmocka_unit_test(a_file_of_one_type_quantises_every_matrix),
        cmocka_unit_test(a_tied_embedding_is_there_twice_unless_mapped),
        cmocka_unit_test(mtp_projector_and_draft_are_counted),
        cmocka_unit_test(ollama_has_its_own_words),
        cmocka_unit_test(flags_are_of_this_job),
        cmocka_unit_test(other_files_are_converted_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
