/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "plan/model/structure.h"
#include "plan/model/tensor_class.h"

#include <string.h>

static const char *const class_names[UMA_CLASS_COUNT] = {
    [UMA_CLASS_EMBEDDING] = "embedding", [UMA_CLASS_LM_HEAD] = "lm_head",
    [UMA_CLASS_NORM] = "norm",           [UMA_CLASS_ATTENTION] = "attention",
    [UMA_CLASS_MIXER] = "mixer",         [UMA_CLASS_MLP] = "mlp",
    [UMA_CLASS_EXPERTS] = "experts",     [UMA_CLASS_ROUTER] = "router",
    [UMA_CLASS_VISION] = "vision",       [UMA_CLASS_MTP] = "mtp",
    [UMA_CLASS_OTHER] = "other",
};

struct expected {
    const char *name;
    enum uma_class class_;
};

static void check(const struct expected *cases, size_t n, bool vector, const struct uma_model *model) {
    for (size_t i = 0; i < n; i++) {
        enum uma_class found = uma_tensor_class(cases[i].name, strlen(cases[i].name), vector, model);
        if (found != cases[i].class_)
            fail_msg("%s: %s, not %s", cases[i].name, class_names[cases[i].class_], class_names[found]);
    }
}

/* Names as published checkpoints have them. */
static void test_matrices(void **state) {
    (void)state;
    static const struct expected cases[] = {
        { "model.embed_tokens.weight", UMA_CLASS_EMBEDDING },
        { "model.language_model.embed_tokens.weight", UMA_CLASS_EMBEDDING },
        { "transformer.wte.weight", UMA_CLASS_EMBEDDING },
        { "wpe.weight", UMA_CLASS_EMBEDDING },
        { "gpt_neox.embed_in.weight", UMA_CLASS_EMBEDDING },
        { "backbone.embeddings.weight", UMA_CLASS_EMBEDDING },
        { "transformer.embedding.word_embeddings.weight", UMA_CLASS_EMBEDDING },
        { "tok_embeddings.weight", UMA_CLASS_EMBEDDING },
        { "token_embd.weight", UMA_CLASS_EMBEDDING },
        { "lm_head.weight", UMA_CLASS_LM_HEAD },
        { "language_model.lm_head.weight", UMA_CLASS_LM_HEAD },
        { "embed_out.weight", UMA_CLASS_LM_HEAD },
        { "output.weight", UMA_CLASS_LM_HEAD },
        { "head.weight", UMA_CLASS_LM_HEAD },
        { "transformer.output_layer.weight", UMA_CLASS_LM_HEAD },
        { "model.layers.0.self_attn.q_proj.weight", UMA_CLASS_ATTENTION },
        { "model.layers.0.self_attn.q_proj.qweight", UMA_CLASS_ATTENTION },
        { "model.layers.0.self_attn.o_proj.weight", UMA_CLASS_ATTENTION },
        { "model.layers.3.self_attn.kv_a_proj_with_mqa.weight", UMA_CLASS_ATTENTION },
        { "model.layers.3.self_attn.indexer.wq_b.weight", UMA_CLASS_ATTENTION },
        { "model.layers.3.self_attn.linear_attn.weight", UMA_CLASS_ATTENTION },
        { "layers.0.attention.wq.weight", UMA_CLASS_ATTENTION },
        { "layers.0.attn.wkv_a.weight", UMA_CLASS_ATTENTION },
        { "h.0.attn.c_proj.weight", UMA_CLASS_ATTENTION },
        { "gpt_neox.layers.0.attention.query_key_value.weight", UMA_CLASS_ATTENTION },
        { "transformer.h.0.self_attention.dense.weight", UMA_CLASS_ATTENTION },
        { "transformer.encoder.layers.0.self_attention.query_key_value.weight", UMA_CLASS_ATTENTION },
        { "backbone.layers.7.mixer.q_proj.weight", UMA_CLASS_ATTENTION },
        { "backbone.layers.7.mixer.o_proj.weight", UMA_CLASS_ATTENTION },
        { "language_model.model.layers.3.cross_attn.k_proj.weight", UMA_CLASS_ATTENTION },
        { "encoder.block.0.layer.0.SelfAttention.q.weight", UMA_CLASS_ATTENTION },
        { "blk.0.attn_q.weight", UMA_CLASS_ATTENTION },
        { "blk.0.attn_kv_a_mqa.weight", UMA_CLASS_ATTENTION },
        { "model.layers.1.linear_attn.in_proj_qkvz.weight", UMA_CLASS_MIXER },
        { "model.layers.1.linear_attn.conv1d.weight", UMA_CLASS_MIXER },
        { "model.layers.1.linear_attn.out_proj.weight", UMA_CLASS_MIXER },
        { "backbone.layers.0.mixer.in_proj.weight", UMA_CLASS_MIXER },
        { "backbone.layers.0.mixer.out_proj.weight", UMA_CLASS_MIXER },
        { "backbone.layers.0.mixer.conv1d.weight", UMA_CLASS_MIXER },
        { "model.layers.0.mamba.A_log", UMA_CLASS_MIXER },
        { "model.layers.0.mamba.x_proj.weight", UMA_CLASS_MIXER },
        { "model.layers.0.temporal_block.linear_x.weight", UMA_CLASS_MIXER },
        { "model.layers.0.temporal_block.q_proj.weight", UMA_CLASS_ATTENTION },
        { "model.layers.0.conv.in_proj.weight", UMA_CLASS_MIXER },
        { "blk.0.ssm_in.weight", UMA_CLASS_MIXER },
        { "blk.0.shortconv.in_proj.weight", UMA_CLASS_MIXER },
        { "model.layers.0.mlp.gate_proj.weight", UMA_CLASS_MLP },
        { "model.layers.0.mlp.gate_up_proj.weight", UMA_CLASS_MLP },
        { "model.layers.0.mlp.down_proj.weight", UMA_CLASS_MLP },
        { "model.layers.0.mlp.linear_mlp.weight", UMA_CLASS_MLP },
        { "model.layers.0.mlp.shared_expert.gate_proj.weight", UMA_CLASS_MLP },
        { "model.layers.0.mlp.shared_experts.up_proj.weight", UMA_CLASS_MLP },
        { "model.layers.0.share_expert.up_proj.weight", UMA_CLASS_MLP },
        { "model.layers.0.shared_mlp.input_linear.weight", UMA_CLASS_MLP },
        { "model.layers.0.feed_forward.w1.weight", UMA_CLASS_MLP },
        { "layers.0.feed_forward.w2.weight", UMA_CLASS_MLP },
        { "h.0.mlp.c_proj.weight", UMA_CLASS_MLP },
        { "h.0.mlp.c_fc.weight", UMA_CLASS_MLP },
        { "transformer.h.0.mlp.dense_4h_to_h.weight", UMA_CLASS_MLP },
        { "model.decoder.layers.0.fc1.weight", UMA_CLASS_MLP },
        { "backbone.layers.1.mixer.up_proj.weight", UMA_CLASS_MLP },
        { "backbone.layers.1.mixer.shared_experts.up_proj.weight", UMA_CLASS_MLP },
        { "backbone.layers.1.mixer.fc1_latent_proj.weight", UMA_CLASS_MLP },
        { "model.layers.0.per_layer_input_gate.weight", UMA_CLASS_MLP },
        { "model.language_model.per_layer_model_projection.weight", UMA_CLASS_MLP },
        { "model.layers.0.mlp.shared_expert_gate.weight", UMA_CLASS_MLP },
        { "blk.0.ffn_gate.weight", UMA_CLASS_MLP },
        { "blk.0.ffn_gate_shexp.weight", UMA_CLASS_MLP },
        { "model.layers.0.block_sparse_moe.experts.7.w1.weight", UMA_CLASS_EXPERTS },
        { "model.layers.0.block_sparse_moe.input_linear.weight", UMA_CLASS_EXPERTS },
        { "model.layers.0.mlp.experts.7.gate_proj.weight", UMA_CLASS_EXPERTS },
        { "model.layers.0.mlp.experts.7.gate_proj.weight_scale_inv", UMA_CLASS_EXPERTS },
        { "model.layers.0.mlp.experts.gate_up_proj_blocks", UMA_CLASS_EXPERTS },
        { "model.layers.0.mlp.experts.down_proj", UMA_CLASS_EXPERTS },
        { "model.layers.0.feed_forward.experts.gate_up_proj", UMA_CLASS_EXPERTS },
        { "model.layers.0.moe.up_proj.weight", UMA_CLASS_EXPERTS },
        { "backbone.layers.1.mixer.experts.0.up_proj.weight", UMA_CLASS_EXPERTS },
        { "layers.3.ffn.experts.0.w1.weight", UMA_CLASS_EXPERTS },
        { "blk.0.ffn_down_exps.weight", UMA_CLASS_EXPERTS },
        { "model.layers.0.mlp.gate.weight", UMA_CLASS_ROUTER },
        { "model.layers.0.mlp.gate.wg.weight", UMA_CLASS_ROUTER },
        { "model.layers.0.mlp.router.weight", UMA_CLASS_ROUTER },
        { "model.layers.0.block_sparse_moe.gate.weight", UMA_CLASS_ROUTER },
        { "model.layers.0.moe.gate.weight", UMA_CLASS_ROUTER },
        { "model.layers.0.feed_forward.router.weight", UMA_CLASS_ROUTER },
        { "backbone.layers.1.mixer.gate.weight", UMA_CLASS_ROUTER },
        { "blk.0.ffn_gate_inp.weight", UMA_CLASS_ROUTER },
        { "model.visual.blocks.0.attn.qkv.weight", UMA_CLASS_VISION },
        { "visual.merger.mlp.0.weight", UMA_CLASS_VISION },
        { "vision_tower.encoder.layers.0.self_attn.q_proj.weight", UMA_CLASS_VISION },
        { "model.vision_tower.patch_embedder.input_proj.weight", UMA_CLASS_VISION },
        { "multi_modal_projector.linear_1.weight", UMA_CLASS_VISION },
        { "model.audio_tower.layers.0.fc1.weight", UMA_CLASS_VISION },
        { "model.embed_vision.embedding_projection.weight", UMA_CLASS_VISION },
        { "v.blk.0.attn_q.weight", UMA_CLASS_VISION },
        { "mm.0.weight", UMA_CLASS_VISION },
        { "mtp.layers.0.self_attn.q_proj.weight", UMA_CLASS_MTP },
        { "mtp.fc.weight", UMA_CLASS_MTP },
        { "model.mtp_layers.0.mlp.up_proj.weight", UMA_CLASS_MTP },
        { "model.layers.61.eh_proj.weight", UMA_CLASS_MTP },
        { "model.layers.61.shared_head.head.weight", UMA_CLASS_MTP },
        { "blk.61.nextn.eh_proj.weight", UMA_CLASS_MTP },
        { "model.language_model.embed_tokens_per_layer.weight", UMA_CLASS_OTHER },
        { "per_layer_token_embd.weight", UMA_CLASS_OTHER },
        { "something.quite.new", UMA_CLASS_OTHER },
        { "", UMA_CLASS_OTHER },
        { "....", UMA_CLASS_OTHER },
        /* matrices of biases and norms: by their names */
        { "model.layers.0.mlp.experts.gate_up_proj_bias", UMA_CLASS_NORM },
        { "model.layers.0.self_attn.q_norm.weight", UMA_CLASS_NORM },
    };
    check(cases, ELEMENTS(cases), false, NULL);
}

static void test_vectors(void **state) {
    (void)state;
    static const struct expected cases[] = {
        { "model.layers.0.input_layernorm.weight", UMA_CLASS_NORM },
        { "model.layers.0.self_attn.q_proj.bias", UMA_CLASS_NORM },
        { "model.layers.0.self_attn.sinks", UMA_CLASS_NORM },
        { "model.layers.1.linear_attn.dt_bias", UMA_CLASS_NORM },
        { "model.layers.1.linear_attn.A_log", UMA_CLASS_NORM },
        { "h.0.ln_1.weight", UMA_CLASS_NORM },
        { "lm_head.bias", UMA_CLASS_NORM },
        { "model.norm.weight", UMA_CLASS_NORM },
        { "something.new", UMA_CLASS_NORM },
        { "model.layers.0.mlp.gate.e_score_correction_bias", UMA_CLASS_ROUTER },
        { "model.layers.0.mlp.router.bias", UMA_CLASS_ROUTER },
        { "model.layers.0.router.per_expert_scale", UMA_CLASS_ROUTER },
        { "blk.3.exp_probs_b.bias", UMA_CLASS_ROUTER },
        { "model.layers.0.mlp.shared_expert_gate.weight", UMA_CLASS_MLP },
        { "visual.blocks.0.norm1.weight", UMA_CLASS_VISION },
        { "mtp.norm.weight", UMA_CLASS_MTP },
    };
    check(cases, ELEMENTS(cases), true, NULL);
}

/* What a name alone does not tell. */
static void test_with_a_model(void **state) {
    (void)state;
    static const struct expected cases[] = {
        { "model.layers.0.self_attn.q_proj.weight", UMA_CLASS_MIXER },     { "model.layers.0.self_attn.b_proj.weight", UMA_CLASS_MIXER },
        { "model.layers.1.self_attn.q_proj.weight", UMA_CLASS_ATTENTION }, { "model.layers.2.self_attn.q_proj.weight", UMA_CLASS_MTP },
        { "model.layers.2.embed_tokens.weight", UMA_CLASS_MTP },           { "visual.blocks.20.attn.qkv.weight", UMA_CLASS_VISION },
        { "model.layers.1.mlp.experts.300.w1.weight", UMA_CLASS_EXPERTS },
    };
    _cleanup_model_ struct uma_model *model = uma_model_new(2);
    assert_non_null(model);
    model->layers[0].mixer = UMA_MIXER_KDA;
    model->layers[1].mixer = UMA_MIXER_MLA;
    check(cases, ELEMENTS(cases), false, model);
}

static void test_layer(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int64_t layer;
    } cases[] = {
        { "model.layers.17.mlp.experts.5.w1.weight", 17 },
        { "h.3.attn.bias", 3 },
        { "blk.0.attn_q.weight", 0 },
        { "lm_head.weight", -1 },
        { "model.experts.4.weight", -1 },
        { "model.layers.99999999999.x", -1 },
        { "model.layers..1.x", -1 },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        assert_int_equal(uma_tensor_layer(cases[i].name, strlen(cases[i].name)), cases[i].layer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_with_a_model),
        cmocka_unit_test(test_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
