/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "model_tensors.h"
#include "plan/model/folder.h"
#include "plan/model/structure.h"

/* Give the sum a tensor. */
static void see(struct uma_folder_sum *sum, const char *name, enum uma_dtype dtype, uint64_t rows, uint64_t columns) {
    struct uma_safetensors_tensor t = { .name = name, .name_length = strlen(name), .dtype = dtype, .dtype_name = "X" };
    t.dims = columns ? 2 : 1;
    t.shape[0] = rows;
    t.shape[1] = columns;
    t.elements = rows * (columns ? columns : 1);
    t.bytes = dtype == UMA_DTYPE_UNKNOWN ? t.elements : t.elements * uma_dtype_bits(dtype) / 8;
    assert_int_equal(uma_folder_sum_add(sum, &t, NULL), 0);
}

struct part {
    const char *name;
    enum uma_dtype dtype;
    uint64_t rows, columns;
};

/* A linear of 1024 x 1024 as each quantiser stores it, and what the class is then said to hold. */
static void test_formats(void **state) {
    (void)state;
    static const struct {
        enum uma_format format;
        struct uma_packing packing;
        const char *quantisation;
        struct part parts[5];
    } cases[] = {
        { UMA_FORMAT_BF16, { 0 }, NULL, { { "weight", UMA_DTYPE_BF16, 1024, 1024 } } },
        { UMA_FORMAT_F32, { 0 }, NULL, { { "weight", UMA_DTYPE_F32, 1024, 1024 } } },
        { UMA_FORMAT_INT8, { 0 }, "bitsandbytes", { { "weight", UMA_DTYPE_I8, 1024, 1024 }, { "SCB", UMA_DTYPE_F32, 1024, 0 } } },
        { UMA_FORMAT_FP8_BLOCK128,
          { 0 },
          "fp8",
          { { "weight", UMA_DTYPE_F8_E4M3, 1024, 1024 }, { "weight_scale_inv", UMA_DTYPE_F32, 8, 8 } } },
        { UMA_FORMAT_FP8, { 0 }, "fp8", { { "weight", UMA_DTYPE_F8_E4M3, 1024, 1024 }, { "weight_scale", UMA_DTYPE_F32, 1024, 1 } } },
        { UMA_FORMAT_FP8, { 0 }, "fp8", { { "weight", UMA_DTYPE_F8_E4M3, 1024, 1024 }, { "weight_scale", UMA_DTYPE_F32, 1, 0 } } },
        { UMA_FORMAT_MXFP8, { 0 }, "mxfp8", { { "weight", UMA_DTYPE_F8_E4M3, 1024, 1024 }, { "weight_scale", UMA_DTYPE_U8, 1024, 32 } } },
        { UMA_FORMAT_NVFP4,
          { 0 },
          "modelopt",
          { { "weight", UMA_DTYPE_U8, 1024, 512 },
            { "weight_scale", UMA_DTYPE_F8_E4M3, 1024, 64 },
            { "weight_scale_2", UMA_DTYPE_F32, 1, 0 } } },
        { UMA_FORMAT_NVFP4,
          { .bits = 4 },
          "compressed-tensors",
          { { "weight_packed", UMA_DTYPE_U8, 1024, 512 }, { "weight_scale", UMA_DTYPE_F8_E4M3, 1024, 64 } } },
        { UMA_FORMAT_W4A16_G128,
          { .bits = 4 },
          "compressed-tensors",
          { { "weight_packed", UMA_DTYPE_I32, 1024, 128 },
            { "weight_scale", UMA_DTYPE_BF16, 1024, 8 },
            { "weight_shape", UMA_DTYPE_I64, 2, 0 } } },
        { UMA_FORMAT_GPTQ4_G128,
          { .bits = 4 },
          "gptq",
          { { "qweight", UMA_DTYPE_I32, 128, 1024 }, { "scales", UMA_DTYPE_F16, 8, 1024 }, { "qzeros", UMA_DTYPE_I32, 8, 128 } } },
        { UMA_FORMAT_GPTQ4_G32,
          { .bits = 4 },
          "gptq",
          { { "qweight", UMA_DTYPE_I32, 128, 1024 }, { "scales", UMA_DTYPE_F16, 32, 1024 }, { "qzeros", UMA_DTYPE_I32, 32, 128 } } },
        { UMA_FORMAT_GPTQ4_G64,
          { .bits = 4 },
          "gptq",
          { { "qweight", UMA_DTYPE_I32, 128, 1024 }, { "scales", UMA_DTYPE_F16, 16, 1024 }, { "qzeros", UMA_DTYPE_I32, 16, 128 } } },
        { UMA_FORMAT_GPTQ4_CHANNEL,
          { .bits = 4 },
          "gptq",
          { { "qweight", UMA_DTYPE_I32, 128, 1024 }, { "scales", UMA_DTYPE_F16, 1, 1024 } } },
        { UMA_FORMAT_AWQ4_G128, { .bits = 4 }, "awq", { { "qweight", UMA_DTYPE_I32, 1024, 128 }, { "scales", UMA_DTYPE_F16, 8, 1024 } } },
        { UMA_FORMAT_INT8, { .bits = 8 }, "gptq", { { "qweight", UMA_DTYPE_I32, 256, 1024 }, { "scales", UMA_DTYPE_F16, 8, 1024 } } },
        { UMA_FORMAT_NF4,
          { .bits = 4 },
          "bitsandbytes",
          { { "weight", UMA_DTYPE_U8, 524288, 1 }, { "weight.absmax", UMA_DTYPE_F32, 16384, 0 } } },
        { UMA_FORMAT_NF4_DQ,
          { .bits = 4 },
          "bitsandbytes",
          { { "weight", UMA_DTYPE_U8, 524288, 1 },
            { "weight.absmax", UMA_DTYPE_U8, 16384, 0 },
            { "weight.nested_absmax", UMA_DTYPE_F32, 64, 0 } } },
        { UMA_FORMAT_HQQ4_G64,
          { .bits = 4 },
          "hqq",
          { { "W_q", UMA_DTYPE_U8, 512, 1024 }, { "scale", UMA_DTYPE_F16, 16384, 1 }, { "zero", UMA_DTYPE_F16, 16384, 1 } } },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_folder_sum sum = { .packing = cases[i].packing };
        uint64_t bytes = 0;
        char name[128];
        for (size_t j = 0; j < ELEMENTS(cases[i].parts) && cases[i].parts[j].name; j++) {
            const struct part *part = &cases[i].parts[j];
            (void)snprintf(name, sizeof(name), "model.layers.0.self_attn.q_proj.%s", part->name);
            see(&sum, name, part->dtype, part->rows, part->columns);
            bytes += part->rows * (part->columns ? part->columns : 1) * uma_dtype_bits(part->dtype) / 8;
        }
        _cleanup_model_ struct uma_model *model = uma_model_new(1);
        if (cases[i].quantisation)
            assert_int_equal(uma_model_string(&model->quantisation, cases[i].quantisation), 0);
        uma_folder_sum_apply(&sum, model);
        const struct uma_tensor_total *total = &model->totals[UMA_CLASS_ATTENTION];
        if (total->params != 1024 * 1024 || total->bytes != bytes || model->class_format[UMA_CLASS_ATTENTION] != cases[i].format)
            fail_msg("%zu: %s, %llu parameters, %llu bytes", i, uma_format_name(model->class_format[UMA_CLASS_ATTENTION]),
                     (unsigned long long)total->params, (unsigned long long)total->bytes);
        /* the format's own arithmetic comes to the same, within its table of scales per tensor and its indices */
        double apart = (double)uma_format_bytes(cases[i].format, 1024 * 1024) / (double)bytes - 1;
        if (cases[i].format != UMA_FORMAT_INT8 && (apart < -0.02 || apart > 0.02))
            fail_msg("%zu: the format is %.1f %% off", i, 100 * apart);
    }
}

static void test_blocks(void **state) {
    (void)state;
    struct uma_folder_sum sum = { .packing = { .quantised = true } };
    see(&sum, "model.layers.0.mlp.experts.down_proj_blocks", UMA_DTYPE_U8, 2880, 1440);
    see(&sum, "model.layers.0.mlp.experts.down_proj_scales", UMA_DTYPE_U8, 2880, 90);
    see(&sum, "model.layers.0.mlp.experts.down_proj_bias", UMA_DTYPE_BF16, 32, 2880);
    _cleanup_model_ struct uma_model *model = uma_model_new(1);
    uma_folder_sum_apply(&sum, model);
    assert_int_equal(model->totals[UMA_CLASS_EXPERTS].params, 2880 * 2880);
    assert_int_equal(model->totals[UMA_CLASS_EXPERTS].bytes, uma_format_bytes(UMA_FORMAT_MXFP4, 2880 * 2880));
    assert_int_equal(model->class_format[UMA_CLASS_EXPERTS], UMA_FORMAT_MXFP4);
    assert_int_equal(model->totals[UMA_CLASS_NORM].params, 32 * 2880);
}

static void test_parts(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = uma_model_new(4);
    struct uma_folder_sum sum = { .model = model };
    model->has_vision = true;
    model->mtp_layers = 3;
    model->tied = true;
    see(&sum, "model.embed_tokens.weight", UMA_DTYPE_BF16, 100, 8);
    uma_folder_sum_apply(&sum, model);
    assert_false(model->has_vision);
    assert_int_equal(model->mtp_layers, 0);
    assert_true(model->tied);
    see(&sum, "lm_head.weight", UMA_DTYPE_BF16, 100, 8);
    see(&sum, "model.layers.4.eh_proj.weight", UMA_DTYPE_BF16, 8, 16);
    see(&sum, "model.layers.5.mlp.up_proj.weight", UMA_DTYPE_BF16, 8, 16);
    see(&sum, "visual.blocks.0.attn.qkv.weight", UMA_DTYPE_BF16, 8, 16);
    see(&sum, "model.layers.0.mlp.up_proj.weight", UMA_DTYPE_UNKNOWN, 8, 16);
    uma_folder_sum_apply(&sum, model);
    assert_true(model->has_vision);
    assert_int_equal(model->mtp_layers, 2);
    assert_int_equal(model->totals[UMA_CLASS_MTP].params, 256);
    assert_false(model->tied);
    assert_int_equal(model->totals[UMA_CLASS_MLP].bytes, 128);
    assert_non_null(strstr(model->warnings[0], "1 tensors of a type that is not known (X)"));
}

static void test_saturates(void **state) {
    (void)state;
    struct uma_folder_sum sum = { 0 };
    struct uma_safetensors_tensor t = { .name = "x.experts.0.w1.weight", .name_length = 21, .dtype = UMA_DTYPE_U8, .dtype_name = "U8" };
    t.elements = t.bytes = UINT64_MAX / 2 + 1;
    for (int i = 0; i < 3; i++)
        assert_int_equal(uma_folder_sum_add(&sum, &t, NULL), 0);
    assert_true(sum.totals[UMA_CLASS_EXPERTS].bytes == UINT64_MAX);
    assert_true(sum.totals[UMA_CLASS_EXPERTS].params == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_saturates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
