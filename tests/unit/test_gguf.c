/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "gguf_file.h"
#include "plan/model/gguf.h"
#include "plan/model/structure.h"

enum { HIDDEN = 1024, HEADS = 16, KV_HEADS = 4, HEAD_DIM = 64, FFN = 2816, VOCAB = 4096, LAYERS = 3 };

/* A small Llama as llama-quantize makes it: most of it Q4_K, some Q6_K, norms in F32. */
static void llama(struct gguf *g) {
    gguf_text(g, "general.architecture", "llama");
    gguf_text(g, "general.name", "Small \x1b[31m Llama");
    gguf_u32(g, "general.file_type", 15);
    gguf_u32(g, "llama.block_count", LAYERS);
    gguf_u32(g, "llama.context_length", 8192);
    gguf_u32(g, "llama.embedding_length", HIDDEN);
    gguf_u32(g, "llama.feed_forward_length", FFN);
    gguf_u32(g, "llama.attention.head_count", HEADS);
    gguf_u32(g, "llama.attention.head_count_kv", KV_HEADS);
    gguf_words(g, VOCAB);
}

static uint64_t llama_block(struct gguf *g, unsigned i) {
    uint64_t bytes = gguf_block(g, GGML_F32, HIDDEN, 0, 0, "blk.%u.attn_norm.weight", i);
    bytes += gguf_block(g, GGML_Q4_K, HIDDEN, HIDDEN, 0, "blk.%u.attn_q.weight", i);
    bytes += gguf_block(g, GGML_Q4_K, HIDDEN, KV_HEADS * HEAD_DIM, 0, "blk.%u.attn_k.weight", i);
    bytes += gguf_block(g, GGML_Q6_K, HIDDEN, KV_HEADS * HEAD_DIM, 0, "blk.%u.attn_v.weight", i);
    bytes += gguf_block(g, GGML_Q4_K, HIDDEN, HIDDEN, 0, "blk.%u.attn_output.weight", i);
    bytes += gguf_block(g, GGML_F32, HIDDEN, 0, 0, "blk.%u.ffn_norm.weight", i);
    bytes += gguf_block(g, GGML_Q4_K, HIDDEN, FFN, 0, "blk.%u.ffn_gate.weight", i);
    bytes += gguf_block(g, GGML_Q4_K, HIDDEN, FFN, 0, "blk.%u.ffn_up.weight", i);
    return bytes + gguf_block(g, GGML_Q6_K, FFN, HIDDEN, 0, "blk.%u.ffn_down.weight", i);
}

static uint64_t llama_tensors(struct gguf *g) {
    uint64_t bytes = gguf_tensor(g, "token_embd.weight", GGML_Q4_K, HIDDEN, VOCAB, 0);
    for (unsigned i = 0; i < LAYERS; i++)
        bytes += llama_block(g, i);
    bytes += gguf_tensor(g, "output_norm.weight", GGML_F32, HIDDEN, 0, 0);
    return bytes + gguf_tensor(g, "output.weight", GGML_Q6_K, HIDDEN, VOCAB, 0);
}

static struct uma_model *open_model(const struct gguf *g, const struct folder *folder) {
    char path[512];
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    gguf_write(g, folder, "model.gguf", path);
    if (uma_gguf_open(path, &model, &err) < 0)
        fail_msg("%s", err.text);
    return model;
}

static void test_llama(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    llama(&g);
    uint64_t bytes = llama_tensors(&g);
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_string_equal(model->architecture, "llama");
    assert_string_equal(model->name, "Small \x1b[31m Llama"); /* escaped when it is printed */
    assert_string_equal(model->quantisation, "Q4_K - Medium");
    assert_true(model->architecture_known);
    assert_int_equal(model->basis, UMA_BASIS_TENSORS);
    assert_int_equal(model->hidden, HIDDEN);
    assert_int_equal(model->vocab, VOCAB);
    assert_int_equal(model->max_position, 8192);
    assert_false(model->tied);
    assert_int_equal(model->layer_count, LAYERS);
    for (unsigned i = 0; i < LAYERS; i++) {
        const struct uma_model_layer *layer = &model->layers[i];
        assert_int_equal(layer->mixer, UMA_MIXER_ATTENTION);
        assert_int_equal(layer->heads, HEADS);
        assert_int_equal(layer->kv_heads, KV_HEADS);
        assert_int_equal(layer->head_dim, HEAD_DIM);
        assert_int_equal(layer->v_head_dim, HEAD_DIM);
        assert_int_equal(layer->window, 0);
        assert_int_equal(layer->ffn, UMA_FFN_DENSE);
        assert_int_equal(layer->ffn_size, FFN);
        assert_true(layer->ffn_gated);
        assert_false(layer->output_gate || layer->key_is_value || layer->shares_kv || layer->indexed);
    }
    assert_int_equal(uma_model_bytes(model), bytes);
    assert_int_equal(model->totals[UMA_CLASS_EMBEDDING].bytes, (uint64_t)HIDDEN * VOCAB / 256 * 144);
    assert_int_equal(model->totals[UMA_CLASS_LM_HEAD].bytes, (uint64_t)HIDDEN * VOCAB / 256 * 210);
    assert_int_equal(model->totals[UMA_CLASS_NORM].params, HIDDEN * (2 * LAYERS + 1));
    assert_int_equal(model->totals[UMA_CLASS_ATTENTION].params, LAYERS * HIDDEN * (2 * HIDDEN + 2 * KV_HEADS * HEAD_DIM));
    assert_int_equal(model->totals[UMA_CLASS_MLP].params, (uint64_t)LAYERS * 3 * HIDDEN * FFN);
    assert_int_equal(model->class_format[UMA_CLASS_MLP], UMA_FORMAT_Q4_K);
    assert_int_equal(model->class_format[UMA_CLASS_NORM], UMA_FORMAT_F32);
    assert_int_equal(model->largest_tensor, (uint64_t)HIDDEN * VOCAB / 256 * 210);
    assert_int_equal(model->file_count, 1);
    assert_true(model->gguf);
    assert_true(model->file_bytes > bytes);
    assert_int_equal(model->warning_count, 0);
}

/* What follows from the tensors alone must not need the output tensor, nor keys in a certain order. */
static void test_tied_and_late_architecture(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_u32(&g, "gemma3.attention.head_count", 4);
    gguf_u32(&g, "gemma3.attention.head_count_kv", 1);
    gguf_u32(&g, "gemma3.attention.key_length", 256);
    gguf_u32(&g, "gemma3.attention.value_length", 256);
    gguf_u32(&g, "gemma3.attention.sliding_window", 512);
    gguf_u32(&g, "gemma3.embedding_length", 1152);
    gguf_u32(&g, "gemma3.block_count", 7);
    gguf_text(&g, "general.architecture", "gemma3");
    gguf_tensor(&g, "token_embd.weight", GGML_Q8_0, 1152, 1000, 0);
    for (unsigned i = 0; i < 7; i++) {
        gguf_block(&g, GGML_Q8_0, 1152, 1024, 0, "blk.%u.attn_q.weight", i);
        gguf_block(&g, GGML_Q8_0, 1152, 256, 0, "blk.%u.attn_k.weight", i);
        gguf_block(&g, GGML_Q8_0, 1152, 256, 0, "blk.%u.attn_v.weight", i);
        gguf_block(&g, GGML_Q8_0, 1024, 1152, 0, "blk.%u.attn_output.weight", i);
        gguf_block(&g, GGML_F32, 256, 0, 0, "blk.%u.attn_q_norm.weight", i);
        gguf_block(&g, GGML_F32, 1152, 0, 0, "blk.%u.post_attention_norm.weight", i);
    }
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_true(model->tied);
    assert_true(model->qk_norm);
    assert_int_equal(model->layer_count, 7);
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(model->layers[i].head_dim, 256);
        assert_int_equal(model->layers[i].kv_heads, 1);
        assert_int_equal(model->layers[i].window, i == 5 ? 0 : 512); /* every sixth layer sees everything */
        assert_int_equal(model->layers[i].ffn, UMA_FFN_NONE);
    }
}

/* gpt-oss: experts in MXFP4 with biases, sinks, every second layer slides. */
static void test_experts(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_text(&g, "general.architecture", "gpt-oss");
    gguf_u32(&g, "gpt-oss.block_count", 2);
    gguf_u32(&g, "gpt-oss.embedding_length", 2880);
    gguf_u32(&g, "gpt-oss.attention.head_count", 64);
    gguf_u32(&g, "gpt-oss.attention.head_count_kv", 8);
    gguf_u32(&g, "gpt-oss.attention.key_length", 64);
    gguf_u32(&g, "gpt-oss.attention.value_length", 64);
    gguf_u32(&g, "gpt-oss.attention.sliding_window", 128);
    gguf_u32(&g, "gpt-oss.expert_count", 32);
    gguf_u32(&g, "gpt-oss.expert_used_count", 4);
    uint64_t experts = 0;
    gguf_tensor(&g, "token_embd.weight", GGML_BF16, 2880, 100, 0);
    gguf_tensor(&g, "output.weight", GGML_BF16, 2880, 100, 0);
    for (unsigned i = 0; i < 2; i++) {
        gguf_block(&g, GGML_BF16, 2880, 4096, 0, "blk.%u.attn_q.weight", i);
        gguf_block(&g, GGML_F32, 4096, 0, 0, "blk.%u.attn_q.bias", i);
        gguf_block(&g, GGML_BF16, 2880, 512, 0, "blk.%u.attn_k.weight", i);
        gguf_block(&g, GGML_BF16, 2880, 512, 0, "blk.%u.attn_v.weight", i);
        gguf_block(&g, GGML_BF16, 4096, 2880, 0, "blk.%u.attn_output.weight", i);
        gguf_block(&g, GGML_F32, 2880, 0, 0, "blk.%u.attn_output.bias", i);
        gguf_block(&g, GGML_F32, 64, 0, 0, "blk.%u.attn_sinks.weight", i);
        gguf_block(&g, GGML_F32, 2880, 32, 0, "blk.%u.ffn_gate_inp.weight", i);
        experts += gguf_block(&g, GGML_MXFP4, 2880, 2880, 32, "blk.%u.ffn_gate_exps.weight", i);
        experts += gguf_block(&g, GGML_MXFP4, 2880, 2880, 32, "blk.%u.ffn_up_exps.weight", i);
        experts += gguf_block(&g, GGML_MXFP4, 2880, 2880, 32, "blk.%u.ffn_down_exps.weight", i);
        experts += gguf_block(&g, GGML_F32, 2880, 32, 0, "blk.%u.ffn_down_exps.bias", i);
    }
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_int_equal(model->totals[UMA_CLASS_EXPERTS].bytes, experts);
    assert_int_equal(model->totals[UMA_CLASS_EXPERTS].params, 2 * (3 * 32 * 2880 * 2880 + 2880 * 32));
    assert_int_equal(model->class_format[UMA_CLASS_EXPERTS], UMA_FORMAT_MXFP4);
    assert_int_equal(model->totals[UMA_CLASS_ROUTER].params, 2 * 32 * 2880);
    assert_true(model->qkv_bias && model->o_bias);
    assert_string_equal(model->quantisation, "mxfp4"); /* the file does not say: the format of most weights */
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(model->layers[i].ffn, UMA_FFN_MOE);
        assert_int_equal(model->layers[i].ffn_size, 2880);
        assert_int_equal(model->layers[i].experts, 32);
        assert_int_equal(model->layers[i].experts_per_token, 4);
        assert_int_equal(model->layers[i].expert_input, 0);
        assert_int_equal(model->layers[i].window, i == 0 ? 128 : 0);
        assert_true(model->layers[i].sinks);
    }
}

/* DeepSeek-V3 as newer llama.cpp writes it (key_length is the latent's), one dense layer, one with experts, one for MTP. */
static void test_mla_and_mtp(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_text(&g, "general.architecture", "deepseek2");
    gguf_u32(&g, "deepseek2.block_count", 3);
    gguf_u32(&g, "deepseek2.nextn_predict_layers", 1);
    gguf_u32(&g, "deepseek2.embedding_length", 7168);
    gguf_u32(&g, "deepseek2.attention.head_count", 128);
    gguf_u32(&g, "deepseek2.attention.head_count_kv", 1);
    gguf_u32(&g, "deepseek2.attention.key_length", 576);
    gguf_u32(&g, "deepseek2.attention.value_length", 512);
    gguf_u32(&g, "deepseek2.attention.key_length_mla", 192);
    gguf_u32(&g, "deepseek2.attention.value_length_mla", 128);
    gguf_u32(&g, "deepseek2.attention.kv_lora_rank", 512);
    gguf_u32(&g, "deepseek2.attention.q_lora_rank", 1536);
    gguf_u32(&g, "deepseek2.rope.dimension_count", 64);
    gguf_u32(&g, "deepseek2.expert_used_count", 8);
    uint64_t mtp = 0;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t bytes = gguf_block(&g, GGML_Q8_0, 7168, 1536, 0, "blk.%u.attn_q_a.weight", i);
        bytes += gguf_block(&g, GGML_Q8_0, 1536, 24576, 0, "blk.%u.attn_q_b.weight", i);
        bytes += gguf_block(&g, GGML_Q8_0, 7168, 576, 0, "blk.%u.attn_kv_a_mqa.weight", i);
        bytes += gguf_block(&g, GGML_F32, 512, 0, 0, "blk.%u.attn_kv_a_norm.weight", i);
        bytes += gguf_block(&g, GGML_Q8_0, 16384, 7168, 0, "blk.%u.attn_output.weight", i);
        bytes += gguf_block(&g, GGML_Q8_0, 128, 64, 0, "blk.%u.indexer.proj.weight", i);
        if (i == 0) {
            bytes += gguf_block(&g, GGML_Q8_0, 18432, 7168, 0, "blk.%u.ffn_down.weight", i);
        } else {
            bytes += gguf_block(&g, GGML_Q8_0, 7168, 2048, 8, "blk.%u.ffn_up_exps.weight", i);
            bytes += gguf_block(&g, GGML_Q8_0, 7168, 2048, 8, "blk.%u.ffn_gate_exps.weight", i);
            bytes += gguf_block(&g, GGML_Q8_0, 2048, 7168, 8, "blk.%u.ffn_down_exps.weight", i);
            bytes += gguf_block(&g, GGML_Q8_0, 2048, 7168, 0, "blk.%u.ffn_down_shexp.weight", i);
        }
        if (i == 2)
            mtp = bytes + gguf_block(&g, GGML_Q8_0, 14336, 7168, 0, "blk.%u.nextn.eh_proj.weight", i);
    }
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_int_equal(model->layer_count, 2);
    assert_int_equal(model->mtp_layers, 1);
    assert_int_equal(model->totals[UMA_CLASS_MTP].bytes, mtp);
    assert_int_equal(model->kv_lora_rank, 512);
    assert_int_equal(model->q_lora_rank, 1536);
    assert_int_equal(model->qk_rope_dim, 64);
    assert_int_equal(model->qk_nope_dim, 128);
    assert_int_equal(model->index_heads, 64);
    assert_int_equal(model->layers[0].mixer, UMA_MIXER_MLA);
    assert_true(model->layers[0].indexed);
    assert_int_equal(model->layers[0].heads, 128);
    assert_int_equal(model->layers[0].v_head_dim, 128);
    assert_int_equal(model->layers[0].ffn, UMA_FFN_DENSE);
    assert_int_equal(model->layers[1].ffn, UMA_FFN_MOE);
    assert_int_equal(model->layers[1].experts, 8);
    assert_int_equal(model->layers[1].shared_ffn_size, 2048);
    struct uma_kv kv;
    uma_kv_cache(model, &(struct uma_kv_options){ .context = 4096, .engine = UMA_ENGINE_VLLM }, &kv);
    assert_true(kv.per_token >= (uint64_t)2 * 576 * 2); /* latent of two layers; the MTP layer keeps none */
}

/* Qwen3.5: three linear-attention layers and one full with a gated query. Their matrices are the mixer's, not attention's. */
static void test_gated_delta(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_text(&g, "general.architecture", "qwen35");
    gguf_u32(&g, "qwen35.block_count", 4);
    gguf_u32(&g, "qwen35.embedding_length", 2560);
    gguf_u32(&g, "qwen35.attention.head_count", 16);
    gguf_u32(&g, "qwen35.attention.head_count_kv", 4);
    gguf_u32(&g, "qwen35.attention.key_length", 256);
    gguf_u32(&g, "qwen35.ssm.conv_kernel", 4);
    gguf_u32(&g, "qwen35.ssm.state_size", 128);
    gguf_u32(&g, "qwen35.ssm.group_count", 16);
    gguf_u32(&g, "qwen35.ssm.time_step_rank", 32);
    gguf_u32(&g, "qwen35.ssm.inner_size", 4096);
    uint64_t mixer = 0, attention = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (i == 3) {
            attention += gguf_block(&g, GGML_Q8_0, 2560, 8192, 0, "blk.%u.attn_q.weight", i);
            attention += gguf_block(&g, GGML_Q8_0, 2560, 1024, 0, "blk.%u.attn_k.weight", i);
            attention += gguf_block(&g, GGML_Q8_0, 2560, 1024, 0, "blk.%u.attn_v.weight", i);
            attention += gguf_block(&g, GGML_Q8_0, 4096, 2560, 0, "blk.%u.attn_output.weight", i);
            continue;
        }
        mixer += gguf_block(&g, GGML_Q8_0, 2560, 8192, 0, "blk.%u.attn_qkv.weight", i);
        mixer += gguf_block(&g, GGML_Q8_0, 2560, 4096, 0, "blk.%u.attn_gate.weight", i);
        mixer += gguf_block(&g, GGML_Q8_0, 2560, 32, 0, "blk.%u.ssm_beta.weight", i);
        mixer += gguf_block(&g, GGML_Q8_0, 2560, 32, 0, "blk.%u.ssm_alpha.weight", i);
        mixer += gguf_block(&g, GGML_F32, 4, 8192, 0, "blk.%u.ssm_conv1d.weight", i);
        mixer += gguf_block(&g, GGML_F32, 32, 0, 0, "blk.%u.ssm_dt.bias", i);
        mixer += gguf_block(&g, GGML_F32, 32, 0, 0, "blk.%u.ssm_a", i);
        mixer += gguf_block(&g, GGML_Q8_0, 4096, 2560, 0, "blk.%u.ssm_out.weight", i);
    }
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_int_equal(model->totals[UMA_CLASS_MIXER].bytes, mixer);
    assert_int_equal(model->totals[UMA_CLASS_ATTENTION].bytes, attention);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(model->layers[i].mixer, UMA_MIXER_GATED_DELTA);
    assert_int_equal(model->layers[3].mixer, UMA_MIXER_ATTENTION);
    assert_true(model->layers[3].output_gate);
    assert_int_equal(model->layers[3].head_dim, 256);
    assert_int_equal(model->linear_key_heads, 16);
    assert_int_equal(model->linear_value_heads, 32);
    assert_int_equal(model->linear_key_dim, 128);
    assert_int_equal(model->linear_value_dim, 128);
    assert_int_equal(model->linear_conv, 4);
}

/* Nemotron-H and NAS: blocks that are only one thing, head counts per layer, attention replaced by one matrix. */
static void test_uneven_blocks(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_text(&g, "general.architecture", "nemotron_h");
    gguf_u32(&g, "nemotron_h.block_count", 5);
    gguf_u32(&g, "nemotron_h.embedding_length", 4096);
    gguf_u32s(&g, "nemotron_h.attention.head_count", (const uint32_t[]){ 0, 32, 0, 0, 32 }, 5);
    gguf_u32s(&g, "nemotron_h.attention.head_count_kv", (const uint32_t[]){ 0, 8, 0, 0, 0 }, 5);
    gguf_u32(&g, "nemotron_h.attention.key_length", 128);
    gguf_u32(&g, "nemotron_h.ssm.conv_kernel", 4);
    gguf_u32(&g, "nemotron_h.ssm.state_size", 128);
    gguf_u32(&g, "nemotron_h.ssm.group_count", 8);
    gguf_u32(&g, "nemotron_h.ssm.time_step_rank", 128);
    gguf_u32(&g, "nemotron_h.ssm.inner_size", 10240);
    gguf_tensor(&g, "blk.0.ssm_in.weight", GGML_Q8_0, 4096, 22656, 0);
    gguf_tensor(&g, "blk.0.ssm_out.weight", GGML_Q8_0, 10240, 4096, 0);
    gguf_tensor(&g, "blk.1.attn_q.weight", GGML_Q8_0, 4096, 4096, 0);
    gguf_tensor(&g, "blk.1.attn_k.weight", GGML_Q8_0, 4096, 1024, 0);
    gguf_tensor(&g, "blk.1.attn_v.weight", GGML_Q8_0, 4096, 1024, 0);
    gguf_tensor(&g, "blk.1.attn_output.weight", GGML_Q8_0, 4096, 4096, 0);
    gguf_tensor(&g, "blk.2.ffn_up.weight", GGML_Q8_0, 4096, 21504, 0);
    gguf_tensor(&g, "blk.2.ffn_down.weight", GGML_Q8_0, 21504, 4096, 0);
    gguf_tensor(&g, "blk.3.ffn_down.weight", GGML_Q8_0, 512, 4096, 0);
    gguf_tensor(&g, "blk.4.attn_output.weight", GGML_Q8_0, 4096, 4096, 0);
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_int_equal(model->layer_count, 5);
    assert_int_equal(model->layers[0].mixer, UMA_MIXER_MAMBA2);
    assert_int_equal(model->layers[0].ffn, UMA_FFN_NONE);
    assert_int_equal(model->ssm_heads, 128);
    assert_int_equal(model->ssm_head_dim, 80);
    assert_int_equal(model->ssm_groups, 8);
    assert_int_equal(model->layers[1].mixer, UMA_MIXER_ATTENTION);
    assert_int_equal(model->layers[1].kv_heads, 8);
    assert_int_equal(model->layers[2].mixer, UMA_MIXER_NONE);
    assert_int_equal(model->layers[2].ffn_size, 21504);
    assert_false(model->layers[2].ffn_gated);
    assert_int_equal(model->layers[3].ffn_size, 512);
    assert_int_equal(model->layers[4].mixer, UMA_MIXER_LINEAR);
}

/* Gemma 4: two widths of heads, keys that are values, layers at the end that use an earlier cache. */
static void test_shared_caches(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_text(&g, "general.architecture", "gemma4");
    gguf_u32(&g, "gemma4.block_count", 4);
    gguf_u32(&g, "gemma4.embedding_length", 2560);
    gguf_u32(&g, "gemma4.attention.head_count", 8);
    gguf_u32s(&g, "gemma4.attention.head_count_kv", (const uint32_t[]){ 2, 1, 2, 1 }, 4);
    gguf_u32(&g, "gemma4.attention.key_length", 512);
    gguf_u32(&g, "gemma4.attention.value_length", 512);
    gguf_u32(&g, "gemma4.attention.key_length_swa", 256);
    gguf_u32(&g, "gemma4.attention.value_length_swa", 256);
    gguf_u32(&g, "gemma4.attention.sliding_window", 1024);
    gguf_u32(&g, "gemma4.attention.shared_kv_layers", 2);
    gguf_array(&g, "gemma4.attention.sliding_window_pattern", GGUF_BOOL, 4);
    for (unsigned i = 0; i < 4; i++)
        gguf_put(&g.keys, i % 2 == 0, 1);
    for (unsigned i = 0; i < 4; i++) {
        gguf_block(&g, GGML_Q8_0, 2560, i % 2 ? 4096 : 2048, 0, "blk.%u.attn_q.weight", i);
        gguf_block(&g, GGML_Q8_0, 2560, 512, 0, "blk.%u.attn_k.weight", i);
        if (i % 2 == 0)
            gguf_block(&g, GGML_Q8_0, 2560, 512, 0, "blk.%u.attn_v.weight", i);
        gguf_block(&g, GGML_Q8_0, i % 2 ? 4096 : 2048, 2560, 0, "blk.%u.attn_output.weight", i);
    }
    gguf_tensor(&g, "per_layer_token_embd.weight", GGML_Q8_0, 1024, 64, 0);
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_int_equal(model->layers[0].head_dim, 256);
    assert_int_equal(model->layers[0].window, 1024);
    assert_int_equal(model->layers[0].kv_heads, 2);
    assert_false(model->layers[0].key_is_value);
    assert_int_equal(model->layers[1].head_dim, 512);
    assert_int_equal(model->layers[1].window, 0);
    assert_int_equal(model->layers[1].kv_heads, 1);
    assert_true(model->layers[1].key_is_value);
    assert_false(model->layers[1].shares_kv);
    assert_true(model->layers[2].shares_kv && model->layers[3].shares_kv);
    assert_int_equal(model->totals[UMA_CLASS_OTHER].params, 65536);
}

static void test_projector(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_text(&g, "general.architecture", "clip");
    gguf_text(&g, "general.type", "mmproj");
    gguf_u32(&g, "clip.vision.embedding_length", 1152);
    gguf_u32(&g, "clip.vision.block_count", 27);
    gguf_u32(&g, "clip.vision.image_size", 896);
    gguf_u32(&g, "clip.vision.patch_size", 14);
    gguf_u32(&g, "clip.vision.projector.scale_factor", 4);
    uint64_t bytes = gguf_tensor(&g, "v.blk.0.attn_q.weight", GGML_F16, 1152, 1152, 0);
    bytes += gguf_tensor(&g, "mm.input_projection.weight", GGML_F16, 1152, 2560, 0);
    bytes += gguf_tensor(&g, "v.position_embd.weight", GGML_F32, 1152, 4096, 0);
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_int_equal(model->layer_count, 0);
    assert_true(model->has_vision);
    assert_int_equal(model->totals[UMA_CLASS_VISION].bytes, bytes);
    assert_int_equal(uma_model_bytes(model), bytes);
    assert_int_equal(model->vision_hidden, 1152);
    assert_int_equal(model->vision_layers, 27);
    assert_int_equal(model->vision_tokens, 256);
}

static void test_adapter(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_text(&g, "general.type", "adapter");
    gguf_text(&g, "general.architecture", "llama");
    gguf_text(&g, "adapter.type", "lora");
    uint64_t bytes = gguf_tensor(&g, "blk.0.attn_q.weight.lora_a", GGML_F32, 4096, 16, 0);
    bytes += gguf_tensor(&g, "blk.0.attn_q.weight.lora_b", GGML_F32, 16, 4096, 0);
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_int_equal(model->adapter_rank, 16);
    assert_int_equal(model->adapter_bytes, bytes);
    assert_int_equal(uma_model_bytes(model), 0);
}

/* An architecture nobody has heard of, with types nobody has heard of, is measured all the same. */
static void test_unknown(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    gguf_text(&g, "general.architecture", "newmodel");
    gguf_u32(&g, "newmodel.attention.head_count", 8);
    gguf_u32(&g, "newmodel.embedding_length", 512);
    gguf_u32(&g, "newmodel.attention.sliding_window", 100);
    gguf_raw_tensor(&g, "blk.0.attn_q.weight", 9999, 2, (const uint64_t[]){ 512, 512 }, 0);
    gguf_raw_tensor(&g, "blk.0.attn_k.weight", GGML_F16, 2, (const uint64_t[]){ 512, 512 }, 1600);
    gguf_raw_tensor(&g, "something.else", 9998, 1, (const uint64_t[]){ 7 }, 1600 + 512 * 512 * 2);
    g.offset = 1600 + 512 * 512 * 2 + 96;
    _cleanup_model_ struct uma_model *model = open_model(&g, &folder);
    assert_false(model->architecture_known);
    assert_int_equal(model->warning_count, 3);
    assert_non_null(strstr(model->warnings[2], "2 tensors of unknown type 9998"));
    assert_int_equal(model->layer_count, 1);
    assert_int_equal(model->layers[0].heads, 8);
    assert_int_equal(model->layers[0].kv_heads, 8);
    assert_int_equal(model->layers[0].window, 0);
    assert_int_equal(model->totals[UMA_CLASS_ATTENTION].bytes, 1600 + 512 * 512 * 2);
    assert_int_equal(model->totals[UMA_CLASS_ATTENTION].params, 2 * 512 * 512);
    assert_int_equal(model->totals[UMA_CLASS_OTHER].bytes, 96);
}

/* ---- split files -------------------------------------------------------------------------------------------- */

static uint64_t put_split(const struct folder *folder, unsigned parts, unsigned count_in_part_2) {
    uint64_t bytes = 0;
    char path[512], name[64];
    for (unsigned i = 0; i < parts; i++) {
        _cleanup_gguf_ struct gguf g = { 0 };
        if (i == 0) {
            llama(&g);
            gguf_u32(&g, "split.tensors.count", 9 * LAYERS);
        }
        gguf_u32(&g, "split.no", i);
        gguf_u32(&g, "split.count", i == 1 ? count_in_part_2 : parts);
        bytes += llama_block(&g, i);
        (void)snprintf(name, sizeof name, "llama-%05u-of-%05u.gguf", i + 1, parts);
        gguf_write(&g, folder, name, path);
    }
    return bytes;
}

static int open_part(const struct folder *folder, const char *name, struct uma_model **ret_model, struct uma_error *err) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, name);
    return uma_gguf_open(path, ret_model, err);
}

static void test_split(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    assert_return_code(folder_new(&folder), 0);
    uint64_t bytes = put_split(&folder, LAYERS, LAYERS);
    static const char *const names[] = { "llama-00001-of-00003.gguf", "llama-00002-of-00003.gguf", "llama-00003-of-00003.gguf" };
    for (unsigned i = 0; i < 3; i++) {
        _cleanup_model_ struct uma_model *model = NULL;
        struct uma_error err = { 0 };
        if (open_part(&folder, names[i], &model, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(uma_model_bytes(model), bytes);
        assert_int_equal(model->layer_count, LAYERS);
        assert_int_equal(model->file_count, 3);
        assert_int_equal(model->hidden, HIDDEN);
    }
}

static void test_split_broken(void **state) {
    (void)state;
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    _cleanup_folder_ struct folder folder = { 0 };
    assert_return_code(folder_new(&folder), 0);
    put_split(&folder, LAYERS, 7);
    assert_int_equal(open_part(&folder, "llama-00001-of-00003.gguf", &model, &err), -EINVAL);
    assert_non_null(strstr(err.text, "part 2 of 7"));
    put_split(&folder, LAYERS, LAYERS);
    folder_drop(&folder, "llama-00003-of-00003.gguf");
    assert_int_equal(open_part(&folder, "llama-00002-of-00003.gguf", &model, &err), -ENOENT);
    assert_non_null(strstr(err.text, "part 3 of 3 is missing"));
    assert_non_null(strstr(err.text, "llama-00003-of-00003.gguf"));
    folder_drop(&folder, "llama-00001-of-00003.gguf");
    assert_int_equal(open_part(&folder, "llama-00002-of-00003.gguf", &model, &err), -ENOENT);
    assert_non_null(strstr(err.text, "part 1 of 3 is missing"));
    /* part of a split under another name */
    _cleanup_gguf_ struct gguf g = { 0 };
    llama(&g);
    gguf_u32(&g, "split.count", 3);
    llama_block(&g, 0);
    char path[512];
    gguf_write(&g, &folder, "renamed.gguf", path);
    assert_int_equal(uma_gguf_open(path, &model, &err), -EINVAL);
    assert_non_null(strstr(err.text, "part 1 of 3"));
    assert_null(model);
}

/* Two parts that each have as much to skip as is read of a model. */
static void test_split_endless(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    char path[512], name[64];
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    assert_return_code(folder_new(&folder), 0);
    for (unsigned i = 0; i < 2; i++) {
        _cleanup_gguf_ struct gguf g = { 0 };
        gguf_u32(&g, "split.no", i);
        gguf_u32(&g, "split.count", 2);
        gguf_array(&g, "tokenizer.ggml.merges", GGUF_TEXT, 5 << 20); /* words of length 0, in the hole behind */
        g.offset = 48 << 20;
        (void)snprintf(name, sizeof name, "x-%05u-of-00002.gguf", i + 1);
        gguf_write(&g, &folder, name, path);
    }
    assert_int_equal(uma_gguf_open(path, &model, &err), -EINVAL);
    assert_non_null(strstr(err.text, "together"));
    assert_null(model);
}

/* Named like a part, but whole. */
static void test_split_in_name_only(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_gguf_ struct gguf g = { 0 };
    assert_return_code(folder_new(&folder), 0);
    llama(&g);
    uint64_t bytes = llama_tensors(&g);
    char path[512];
    gguf_write(&g, &folder, "x-00001-of-00002.gguf", path);
    _cleanup_model_ struct uma_model *model = NULL;
    assert_return_code(uma_gguf_open(path, &model, NULL), 0);
    assert_int_equal(uma_model_bytes(model), bytes);
    assert_int_equal(model->layer_count, LAYERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama),         cmocka_unit_test(test_tied_and_late_architecture),
        cmocka_unit_test(test_experts),       cmocka_unit_test(test_mla_and_mtp),
        cmocka_unit_test(test_gated_delta),   cmocka_unit_test(test_uneven_blocks),
        cmocka_unit_test(test_shared_caches), cmocka_unit_test(test_projector),
        cmocka_unit_test(test_adapter),       cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_split),         cmocka_unit_test(test_split_broken),
        cmocka_unit_test(test_split_endless), cmocka_unit_test(test_split_in_name_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
