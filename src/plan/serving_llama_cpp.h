/* SPDX-License-Identifier: MIT */
/*
 * serving_llama_cpp.h - llama.cpp's compute buffers: what its graph allocator (ggml-alloc.c) reserves before anything runs, from the largest
 * ubatch and the full context. Pure.
 *
 * The allocator gives every tensor of the graph a place and takes it back after the tensor's last use, so the buffer is as large as the most
 * that is alive at one node. That is one of few stages; the buffer is the largest of them. u = ubatch, E = hidden, all tensors in fp32:
 *   output     the logits of the ubatch, the last hidden state and its norm            4 u (V + 2 E)
 *   attention  the scores of all heads, without flash attention                        4 u (n_ctx x heads + q + 3 E) and the masks
 *              queries and their rotated copy, K, V and the result, with it            4 u (3 q + kv + 3 E) and the masks
 *   ffn        gate and up, around them residual, norm, result                         4 u (2 F + 3 E) and the masks
 *   experts    of the k chosen: the activations and the results to be weighted         4 u (k F + k E + 3 E) and the masks
 *   latent     ik_llama.cpp's MLA: K and V of all heads for the whole context          n_ctx x heads x 2 (nope + rope + v), products <= -amb
 *              and holes of half of them, queries, input                               4 u (q + E) and the fp16 mask
 * A mask is n_ctx x u in fp32, and again in fp16 for flash attention; models with sliding windows have a second one. In the output stage no
 * mask is alive any more.
 */
#pragma once

#include "plan/serving.h"

enum uma_llama_stage {
    UMA_LLAMA_OUTPUT = 0,
    UMA_LLAMA_ATTENTION,
    UMA_LLAMA_FFN,
    UMA_LLAMA_EXPERTS,
    UMA_LLAMA_LATENT,
    UMA_LLAMA_STAGE_COUNT,
};

struct uma_llama_buffers {
    uint64_t ubatch; /* tokens: never more than the context */
    uint64_t stages[UMA_LLAMA_STAGE_COUNT];
    enum uma_llama_stage largest;
    uint64_t device; /* "CUDA0 compute buffer size" */
    uint64_t host;   /* "CUDA_Host compute buffer size": the graph's inputs: mask, embeddings of the tokens */
    uint64_t output; /* "CUDA_Host output buffer size": logits that the caller reads */
    uint64_t masks;  /* of device */
    uint64_t holes;  /* of the latent stage, between the groups of heads */
    uint64_t
        dequantised; /* of the CUDA backend's own pool, in no buffer that it prints: fp16 copies of a quantised KV cache of one layer */
    uint64_t copied_layer; /* with layers left on the host: their largest tensor, copied to the device for large batches */
};
void uma_llama_buffers(const struct uma_model *model, const struct uma_serve *serve, struct uma_llama_buffers *ret_buffers);
