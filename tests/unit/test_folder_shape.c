/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "plan/model/folder.h"
#include "plan/model/structure.h"

#include <string.h>

struct part {
    const char *name;
    uint64_t a, b, c;
};

static struct uma_model *model_of(const struct part *parts, size_t n) {
    struct uma_folder_shape shape = { 0 };
    const struct uma_packing packing = { 0 };
    for (size_t i = 0; i < n; i++) {
        struct uma_safetensors_tensor t = { .name = parts[i].name, .name_length = strlen(parts[i].name), .dtype = UMA_DTYPE_BF16 };
        t.shape[0] = parts[i].a;
        t.shape[1] = parts[i].b;
        t.shape[2] = parts[i].c;
        t.dims = parts[i].c ? 3 : parts[i].b ? 2 : 1;
        t.elements = parts[i].a * (parts[i].b ? parts[i].b : 1) * (parts[i].c ? parts[i].c : 1);
        struct uma_tensor_storage storage = uma_tensor_storage(&t, &packing);
        enum uma_class class_ = uma_tensor_class(t.name, t.name_length, uma_tensor_is_vector(&t, &storage), NULL);
        uma_folder_shape_see(&shape, &t, class_, &storage);
    }
    struct uma_model *model = NULL;
    assert_int_equal(uma_folder_shape_apply(&shape, &model, NULL), 0);
    return model;
}

/* Qwen3-8B. */
static void test_dense(void **state) {
    (void)state;
    static const struct part parts[] = {
        { "model.embed_tokens.weight", 151936, 4096, 0 },
        { "model.layers.0.self_attn.q_proj.weight", 4096, 4096, 0 },
        { "model.layers.0.self_attn.k_proj.weight", 1024, 4096, 0 },
        { "model.layers.0.self_attn.v_proj.weight", 1024, 4096, 0 },
        { "model.layers.0.self_attn.o_proj.weight", 4096, 4096, 0 },
        { "model.layers.0.self_attn.q_norm.weight", 128, 0, 0 },
        { "model.layers.35.mlp.gate_proj.weight", 12288, 4096, 0 },
        { "model.layers.35.mlp.up_proj.weight", 12288, 4096, 0 },
        { "model.layers.35.mlp.down_proj.weight", 4096, 12288, 0 },
        { "visual.blocks.90.attn.qkv.weight", 9, 9, 0 },
    };
    _cleanup_model_ struct uma_model *model = model_of(parts, ELEMENTS(parts));
    assert_int_equal(model->hidden, 4096);
    assert_int_equal(model->vocab, 151936);
    assert_int_equal(model->layer_count, 36);
    const struct uma_model_layer *layer = &model->layers[20];
    assert_int_equal(layer->mixer, UMA_MIXER_ATTENTION);
    assert_int_equal(layer->heads, 32);
    assert_int_equal(layer->kv_heads, 8);
    assert_int_equal(layer->head_dim, 128);
    assert_int_equal(layer->ffn_size, 12288);
    assert_true(layer->ffn_gated);
    assert_true(model->qk_norm);
    assert_string_equal(model->architecture, "unknown");
}

static void test_experts(void **state) {
    (void)state;
    static const struct part apart[] = {
        { "model.embed_tokens.weight", 1000, 2048, 0 },
        { "model.layers.0.self_attn.q_proj.weight", 8192, 2048, 0 }, /* twice as wide: an output gate */
        { "model.layers.0.self_attn.o_proj.weight", 2048, 4096, 0 },
        { "model.layers.0.self_attn.k_proj.weight", 512, 2048, 0 },
        { "model.layers.0.mlp.experts.127.gate_proj.weight", 768, 2048, 0 },
        { "model.layers.0.mlp.experts.127.down_proj.weight", 2048, 768, 0 },
        { "model.layers.0.mlp.shared_expert.down_proj.weight", 2048, 512, 0 },
    };
    struct uma_model *model = model_of(apart, ELEMENTS(apart));
    assert_int_equal(model->layers[0].ffn, UMA_FFN_MOE);
    assert_int_equal(model->layers[0].experts, 128);
    assert_int_equal(model->layers[0].ffn_size, 768);
    assert_int_equal(model->layers[0].shared_ffn_size, 512);
    assert_int_equal(model->layers[0].heads, 32);
    assert_true(model->layers[0].output_gate);
    (void)uma_model_free(model);
    static const struct part fused[] = {
        { "model.embed_tokens.weight", 1000, 2048, 0 },
        { "model.layers.1.mlp.experts.gate_up_proj", 16, 2048, 1536 },
        { "model.layers.1.mlp.experts.down_proj", 16, 768, 2048 },
    };
    model = model_of(fused, ELEMENTS(fused));
    assert_int_equal(model->layers[1].experts, 16);
    assert_int_equal(model->layers[1].ffn_size, 768);
    (void)uma_model_free(model);
}

static void test_mla(void **state) {
    (void)state;
    static const struct part parts[] = {
        { "model.embed_tokens.weight", 129280, 7168, 0 },
        { "model.layers.0.self_attn.q_a_proj.weight", 1536, 7168, 0 },
        { "model.layers.0.self_attn.kv_a_proj_with_mqa.weight", 576, 7168, 0 },
        { "model.layers.0.self_attn.kv_a_layernorm.weight", 512, 0, 0 },
        { "model.layers.0.self_attn.o_proj.weight", 7168, 16384, 0 },
    };
    _cleanup_model_ struct uma_model *model = model_of(parts, ELEMENTS(parts));
    assert_int_equal(model->layers[0].mixer, UMA_MIXER_MLA);
    assert_int_equal(model->kv_lora_rank, 512);
    assert_int_equal(model->qk_rope_dim, 64);
    assert_int_equal(model->q_lora_rank, 1536);
    assert_int_equal(model->layers[0].heads, 128);
}

static void test_nothing(void **state) {
    (void)state;
    _cleanup_model_ struct uma_model *model = model_of(NULL, 0);
    assert_int_equal(model->layer_count, 0);
    /* numbers that a file may hold are not layers to make */
    static const struct part parts[] = { { "model.layers.4000000.mlp.up_proj.weight", 1, 1, 0 },
                                         { "layers.2047.mlp.experts.999999999.w1.weight", 8, 8, 0 } };
    _cleanup_model_ struct uma_model *hostile = model_of(parts, ELEMENTS(parts));
    assert_int_equal(hostile->layer_count, UMA_MODEL_LAYERS_MAX);
}

/* What a configuration does say stays. */
static void test_fills(void **state) {
    (void)state;
    struct uma_folder_shape shape = { .hidden = 64, .vocab = 100, .layers = 3 };
    struct uma_model *model = uma_model_new(5);
    model->hidden = 32;
    assert_int_equal(uma_folder_shape_apply(&shape, &model, NULL), 0);
    assert_int_equal(model->hidden, 32);
    assert_int_equal(model->vocab, 100);
    assert_int_equal(model->layer_count, 5);
    model = uma_model_free(model);
    model = uma_model_new(0);
    model->max_position = 77;
    assert_int_equal(uma_folder_shape_apply(&shape, &model, NULL), 0);
    assert_int_equal(model->layer_count, 3);
    assert_int_equal(model->max_position, 77);
    (void)uma_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),   cmocka_unit_test(test_experts), cmocka_unit_test(test_mla),
        cmocka_unit_test(test_nothing), cmocka_unit_test(test_fills),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
