/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "base/units.h"
#include "plan/model/folder.h"
#include "plan/model/structure.h"

static int check(const char *text, struct uma_packing *packing, struct uma_error *err) {
    *packing = (struct uma_packing){ 0 };
    return uma_folder_config_check(text, strlen(text), "config.json", packing, err);
}

static void test_packing(void **state) {
    (void)state;
    static const struct {
        const char *text;
        unsigned bits;
        bool quantised, fp4_experts;
    } cases[] = {
        { "{}", 0, false, false },
        { "{\"bits\":3,\"torch_dtype\":\"bfloat16\",\"quantization_config\":null}", 0, false, false },
        { "{\"quantization_config\":{\"bits\":8,\"group_size\":128,\"quant_method\":\"gptq\"}}", 8, true, false },
        { "{\"text_config\":{\"quantization_config\":{\"w_bit\":4.0}}}", 4, true, false },
        { "{\"quantization_config\":{\"config_groups\":{\"group_0\":{\"input_activations\":{\"num_bits\":8},\"weights\":{\"num_bits\":4}}},"
          "\"kv_cache_scheme\":{\"num_bits\":8}}}",
          4, true, false },
        { "{\"quantization\":{\"group_size\":64,\"bits\":3}}", 3, true, false },
        { "{\"quantization\":{\"quant_algo\":\"NVFP4\",\"bits\":[2,1]}}", 0, true, false },
        { "{\"expert_dtype\":\"fp4\",\"quantization_config\":{\"quant_method\":\"fp8\"}}", 0, true, true },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_packing packing;
        struct uma_error err;
        if (check(cases[i].text, &packing, &err) != 0)
            fail_msg("%s: %s", cases[i].text, err.text);
        if (packing.bits != cases[i].bits || packing.quantised != cases[i].quantised || packing.fp4_experts != cases[i].fp4_experts)
            fail_msg("%s: %u bits", cases[i].text, packing.bits);
    }
}

static void test_refused(void **state) {
    (void)state;
    struct uma_packing packing;
    struct uma_error err = { 0 };
    assert_int_equal(check("[]", &packing, &err), -EINVAL);
    assert_int_equal(check("{\"a\":}", &packing, &err), -EINVAL);
    assert_non_null(strstr(err.text, "config.json: byte 5: "));
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "{\"a\":");
    for (int i = 0; i < 100000; i++)
        uma_text_append(&text, "{\"a\":");
    assert_int_equal(check(text.data, &packing, &err), -EINVAL);
    assert_non_null(strstr(err.text, "nested more than"));
    /* small, and a tree of it is large */
    uma_text_reset(&text);
    uma_text_append(&text, "{\"a\":[0");
    for (int i = 0; i < UMA_FOLDER_VALUES_MAX; i++)
        uma_text_append(&text, ",0");
    uma_text_append(&text, "]}");
    assert_int_equal(check(text.data, &packing, &err), -EINVAL);
    assert_non_null(strstr(err.text, "values: not a configuration"));
}

static void test_read(void **state) {
    (void)state;
    char *folder = files_folder();
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct uma_model *model = NULL;
    struct uma_packing packing = { 0 };
    struct uma_error err = { 0 };
    assert_int_equal(uma_folder_config_read(at, folder, &model, &packing, &err), -ENOENT);
    (void)files_text(
        folder, "config.json",
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
        "\"intermediate_size\":128,\"vocab_size\":1000}");
    assert_int_equal(uma_folder_config_read(at, folder, &model, &packing, &err), 0);
    assert_int_equal(model->layer_count, 2);
    assert_true(packing.known_unquantised);
    model = uma_model_free(model);
    (void)files_text(folder, "hf_quant_config.json", "{\"quantization\":{\"quant_algo\":\"FP8\"}}");
    assert_int_equal(uma_folder_config_read(at, folder, &model, &packing, &err), 0);
    assert_false(packing.known_unquantised);
    model = uma_model_free(model);
    /* sound, and too little to go by: the caller may have tensors */
    (void)files_text(folder, "config.json", "{\"model_type\":\"new\"}");
    assert_int_equal(uma_folder_config_read(at, folder, &model, &packing, &err), 1);
    assert_null(model);
    assert_true(err.text[0]);
    (void)files_text(folder, "config.json", "{\"model_type\":\"new\",\"model_type\":\"new\"}");
    assert_int_equal(uma_folder_config_read(at, folder, &model, &packing, &err), -EINVAL);
    (void)files_write(folder, "config.json", "{", 1, UINT64_C(5) << 30);
    assert_int_equal(uma_folder_config_read(at, folder, &model, &packing, &err), -EFBIG);
    (void)close(at);
    files_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_packing), cmocka_unit_test(test_refused), cmocka_unit_test(test_read) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
