/* SPDX-License-Identifier: MIT */
#include "plan/model/arch.h"
#include "test.h"

static void families_are_found_under_every_spelling(void **state) {
    (void)state;
    static const char *const same[] = { "qwen3_5_moe", "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration",
                                        "QWEN3-5-MOE" };
    const struct uma_arch *first = uma_arch_find(same[0]);
    assert_non_null(first);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        assert_ptr_equal(uma_arch_find(same[i]), first);
    assert_ptr_equal(uma_arch_find("nemotron-nas"), uma_arch_find("llama"));
    assert_ptr_not_equal(uma_arch_find("qwen"), uma_arch_find("qwen2"));
    assert_non_null(uma_arch_find("GPT2LMHeadModel"));
    assert_non_null(uma_arch_find("ChatGLMModel"));
    assert_non_null(uma_arch_find("GptOssForCausalLM"));
}

static void others_are_not(void **state) {
    (void)state;
    assert_null(uma_arch_find(""));
    assert_null(uma_arch_find("_"));
    assert_null(uma_arch_find("llam"));
    assert_null(uma_arch_find("llama9"));
    assert_null(uma_arch_find("ForCausalLM"));
    assert_null(uma_arch_find("llama|mistral"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(families_are_found_under_every_spelling), cmocka_unit_test(others_are_not) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
