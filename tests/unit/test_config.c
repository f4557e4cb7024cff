/* SPDX-License-Identifier: MIT */
#include "plan/model/structure.h"
#include "test.h"

#include <string.h>

static struct uma_model *read_config(const char *text) {
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    if (uma_model_from_config("config.json", text, strlen(text), NULL, 0, &model, &err) < 0)
        fail_msg("%s", err.text);
    return model;
}

/* Llama 3.1 8B: 8,030,261,248 parameters by its model card's safetensors index */
static void a_llama_has_its_parameters(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *m = read_config(
        "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"num_hidden_layers\": 32, \"num_attention_heads\": 32, \"num_key_value_heads\": 8,"
        "\"intermediate_size\": 14336, \"vocab_size\": 128256, \"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": false}");
    assert_int_equal(uma_model_params(m), 8030261248);
    assert_int_equal(uma_model_bytes(m), 2 * 8030261248);
    assert_int_equal(m->layers[31].head_dim, 128); /* missing: hidden / heads */
    assert_true(m->architecture_known);
    assert_int_equal(m->basis, UMA_BASIS_STRUCTURE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_has_its_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
