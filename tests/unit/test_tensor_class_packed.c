/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "plan/model/tensor_class.h"

#include <string.h>

static struct uma_safetensors_tensor tensor(const char *name, enum uma_dtype dtype, uint64_t rows, uint64_t columns) {
    struct uma_safetensors_tensor t = { .name = name, .name_length = strlen(name), .dtype = dtype, .dims = 2, .shape = { rows, columns } };
    t.elements = rows * columns;
    t.bytes = t.elements * uma_dtype_bits(dtype) / 8;
    return t;
}

static void test_storage(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum uma_dtype dtype;
        uint64_t rows, columns;
        struct uma_packing packing;
        enum uma_tensor_part part;
        enum uma_packed_as as;
        uint64_t params;
    } cases[] = {
        { "a.q_proj.weight", UMA_DTYPE_BF16, 8, 16, { 0 }, UMA_PART_VALUES, UMA_PACKED_NOT, 128 },
        { "a.q_proj.weight", UMA_DTYPE_I8, 8, 16, { 0 }, UMA_PART_VALUES, UMA_PACKED_NOT, 128 },
        /* GPTQ of 4, 8 and 3 bits: 32 values of 3 bits take three words */
        { "a.q_proj.qweight", UMA_DTYPE_I32, 512, 4096, { .bits = 4 }, UMA_PART_PACKED, UMA_PACKED_QWEIGHT, 4096 * 4096 },
        { "a.q_proj.qweight", UMA_DTYPE_I32, 1024, 4096, { .bits = 8 }, UMA_PART_PACKED, UMA_PACKED_QWEIGHT, 4096 * 4096 },
        { "a.q_proj.qweight", UMA_DTYPE_I32, 384, 4096, { .bits = 3 }, UMA_PART_PACKED, UMA_PACKED_QWEIGHT, 4096 * 4096 },
        { "a.q_proj.qweight", UMA_DTYPE_I32, 512, 4096, { 0 }, UMA_PART_PACKED, UMA_PACKED_QWEIGHT, 4096 * 4096 },
        { "a.q_proj.qzeros", UMA_DTYPE_I32, 32, 512, { 0 }, UMA_PART_AUXILIARY, UMA_PACKED_NOT, 0 },
        { "a.q_proj.scales", UMA_DTYPE_F16, 32, 4096, { 0 }, UMA_PART_SCALE, UMA_PACKED_NOT, 0 },
        { "a.q_proj.g_idx", UMA_DTYPE_I32, 4096, 1, { 0 }, UMA_PART_AUXILIARY, UMA_PACKED_NOT, 0 },
        /* compressed-tensors */
        { "a.q_proj.weight_packed", UMA_DTYPE_I32, 4096, 512, { .bits = 4 }, UMA_PART_PACKED, UMA_PACKED_WEIGHT_PACKED, 4096 * 4096 },
        { "a.q_proj.weight_packed", UMA_DTYPE_U8, 4096, 2048, { .bits = 4 }, UMA_PART_PACKED, UMA_PACKED_WEIGHT_PACKED, 4096 * 4096 },
        { "a.q_proj.weight_shape", UMA_DTYPE_I64, 2, 1, { 0 }, UMA_PART_AUXILIARY, UMA_PACKED_NOT, 0 },
        /* FP8 with block scales, NVFP4 */
        { "a.q_proj.weight", UMA_DTYPE_F8_E4M3, 128, 128, { 0 }, UMA_PART_VALUES, UMA_PACKED_NOT, 16384 },
        { "a.q_proj.weight_scale_inv", UMA_DTYPE_F32, 1, 1, { 0 }, UMA_PART_SCALE, UMA_PACKED_NOT, 0 },
        { "a.q_proj.weight", UMA_DTYPE_U8, 128, 64, { 0 }, UMA_PART_PACKED, UMA_PACKED_BYTES, 128 * 128 },
        { "a.q_proj.weight_scale", UMA_DTYPE_F8_E4M3, 128, 8, { 0 }, UMA_PART_SCALE, UMA_PACKED_NOT, 0 },
        { "a.q_proj.weight_scale_2", UMA_DTYPE_F32, 1, 1, { 0 }, UMA_PART_AUXILIARY, UMA_PACKED_NOT, 0 },
        { "a.k_proj.k_scale", UMA_DTYPE_F32, 1, 1, { 0 }, UMA_PART_AUXILIARY, UMA_PACKED_NOT, 0 },
        { "a.q_proj.weight", UMA_DTYPE_F4, 128, 128, { 0 }, UMA_PART_PACKED, UMA_PACKED_BYTES, 128 * 128 },
        /* gpt-oss */
        { "a.mlp.experts.down_proj_blocks", UMA_DTYPE_U8, 2880, 1440, { 0 }, UMA_PART_PACKED, UMA_PACKED_BLOCKS, 2880 * 2880 },
        { "a.mlp.experts.down_proj_scales", UMA_DTYPE_U8, 2880, 90, { 0 }, UMA_PART_SCALE, UMA_PACKED_NOT, 0 },
        /* bitsandbytes */
        { "a.q_proj.weight", UMA_DTYPE_U8, 8388608, 1, { .bits = 4 }, UMA_PART_PACKED, UMA_PACKED_BYTES, 16777216 },
        { "a.q_proj.weight.absmax", UMA_DTYPE_U8, 262144, 1, { 0 }, UMA_PART_SCALE, UMA_PACKED_NOT, 0 },
        { "a.q_proj.weight.nested_absmax", UMA_DTYPE_F32, 1024, 1, { 0 }, UMA_PART_AUXILIARY, UMA_PACKED_NOT, 0 },
        { "a.q_proj.weight.quant_state.bitsandbytes__nf4", UMA_DTYPE_U8, 80, 1, { 0 }, UMA_PART_AUXILIARY, UMA_PACKED_NOT, 0 },
        { "a.q_proj.SCB", UMA_DTYPE_F32, 4096, 1, { 0 }, UMA_PART_SCALE, UMA_PACKED_NOT, 0 },
        /* MLX, HQQ */
        { "a.q_proj.weight", UMA_DTYPE_U32, 4096, 512, { .bits = 4 }, UMA_PART_PACKED, UMA_PACKED_WORDS, 4096 * 4096 },
        { "a.q_proj.biases", UMA_DTYPE_BF16, 4096, 64, { 0 }, UMA_PART_AUXILIARY, UMA_PACKED_NOT, 0 },
        { "a.q_proj.W_q", UMA_DTYPE_U8, 64, 131072, { .bits = 4 }, UMA_PART_PACKED, UMA_PACKED_HQQ, 4096 * 4096 },
        /* DeepSeek-V4: two values to a byte whose type does not say so, in routed experts only */
        { "a.ffn.experts.3.w1.weight", UMA_DTYPE_I8, 2048, 2048, { .fp4_experts = true }, UMA_PART_PACKED, UMA_PACKED_BYTES, 2048 * 4096 },
        { "a.mlp.shared_experts.up_proj.weight", UMA_DTYPE_I8, 8, 8, { .fp4_experts = true }, UMA_PART_VALUES, UMA_PACKED_NOT, 64 },
        { "a.ffn.experts.3.w1.scale", UMA_DTYPE_F8_E8M0, 2048, 128, { .quantised = true }, UMA_PART_SCALE, UMA_PACKED_NOT, 0 },
        /* learned scales */
        { "a.q_norm.scale", UMA_DTYPE_F32, 128, 1, { .quantised = true }, UMA_PART_VALUES, UMA_PACKED_NOT, 128 },
        { "a.router.scale", UMA_DTYPE_BF16, 128, 1, { .quantised = true }, UMA_PART_VALUES, UMA_PACKED_NOT, 128 },
        { "a.altup.correct_output_scale", UMA_DTYPE_BF16, 64, 1, { 0 }, UMA_PART_VALUES, UMA_PACKED_NOT, 64 },
        { "a.proj.scale", UMA_DTYPE_BF16, 64, 1, { .known_unquantised = true }, UMA_PART_VALUES, UMA_PACKED_NOT, 64 },
        /* buffers */
        { "a.rotary_emb.inv_freq", UMA_DTYPE_F32, 64, 1, { 0 }, UMA_PART_BUFFER, UMA_PACKED_NOT, 0 },
        { "vision.position_ids", UMA_DTYPE_I64, 1, 729, { 0 }, UMA_PART_BUFFER, UMA_PACKED_NOT, 0 },
        { "layers.0.ffn.gate.tid2eid", UMA_DTYPE_I64, 129280, 6, { 0 }, UMA_PART_BUFFER, UMA_PACKED_NOT, 0 },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_safetensors_tensor t = tensor(cases[i].name, cases[i].dtype, cases[i].rows, cases[i].columns);
        struct uma_tensor_storage s = uma_tensor_storage(&t, &cases[i].packing);
        if (s.part != cases[i].part || s.packed_as != cases[i].as || s.params != cases[i].params)
            fail_msg("%zu %s: part %d, packed as %d, %llu parameters", i, cases[i].name, s.part, s.packed_as, (unsigned long long)s.params);
    }
}

static void test_details(void **state) {
    (void)state;
    const struct uma_packing none = { 0 };
    struct uma_safetensors_tensor t = tensor("a.weight.nested_absmax", UMA_DTYPE_F32, 4, 1);
    assert_true(uma_tensor_storage(&t, &none).double_quantised);
    t = tensor("a.weight.absmax", UMA_DTYPE_U8, 4, 1);
    assert_true(uma_tensor_storage(&t, &none).absmax);
    t = tensor("a.weight", UMA_DTYPE_F8_E5M2, 4, 4);
    assert_int_equal(uma_tensor_storage(&t, &none).format, UMA_FORMAT_FP8);
    t = tensor("a.weight", UMA_DTYPE_F16, 4, 4);
    assert_int_equal(uma_tensor_storage(&t, &none).format, UMA_FORMAT_F16);
    /* GPT-2's causal mask has the name of a bias */
    t = tensor("h.0.attn.bias", UMA_DTYPE_F32, 1, 1);
    t.dims = 4;
    t.shape[2] = t.shape[3] = 1024;
    t.elements = 1024 * 1024;
    assert_int_equal(uma_tensor_storage(&t, &none).part, UMA_PART_BUFFER);
    /* a byte count whose bits overflow */
    t = tensor("a.qweight", UMA_DTYPE_I32, 1, 1);
    t.bytes = UINT64_MAX / 4;
    assert_true(uma_tensor_storage(&t, &none).params == UINT64_MAX);
}

static void test_vector(void **state) {
    (void)state;
    const struct uma_packing none = { 0 };
    static const struct {
        const char *name;
        enum uma_dtype dtype;
        uint64_t rows, columns;
        bool vector;
    } cases[] = {
        { "a.weight", UMA_DTYPE_BF16, 8, 0, true },
        { "a.weight", UMA_DTYPE_BF16, 1, 8, true },
        { "a.weight", UMA_DTYPE_BF16, 8, 8, false },
        { "a.weight", UMA_DTYPE_U8, 8, 1, false },
        /* packed: a matrix in one row */ { "a.weight_scale", UMA_DTYPE_F32, 8, 1, false },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_safetensors_tensor t = tensor(cases[i].name, cases[i].dtype, cases[i].rows, cases[i].columns);
        struct uma_tensor_storage s = uma_tensor_storage(&t, &none);
        assert_int_equal(uma_tensor_is_vector(&t, &s), cases[i].vector);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_storage), cmocka_unit_test(test_details), cmocka_unit_test(test_vector) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
