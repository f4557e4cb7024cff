/* SPDX-License-Identifier: MIT */
#include "plan/anchors.h"

#include "base/cleanup.h"
#include "plan/training_parts.h"

#include <math.h>

#define GB UINT64_C(1000000000)
#define MIB (UINT64_C(1024) * 1024)

/*
 * The first four are lines of the DGX Spark training worksheet (wshobson/agents, uma-accounting.md). The first two have its figures, in decimal
 * GB; it has none for the other two ("27B LoRA fits at packing <= 1,024", "9B full fine-tune fits comfortably"), which are given the nearest
 * published measurement.
 */
static const struct uma_anchor anchors[] = {
    { "70B QLoRA", 70e9, false, UMA_METHOD_QLORA, true, 40 * GB,
      "weights in NF4 with double quantisation (39.5 GB) and little else: short sequences, a fused loss",
      "wshobson/agents uma-accounting.md; Unsloth measured 42.8 GiB at 2 x 2,048" },
    { "120B MoE NVFP4 LoRA", 117e9, false, UMA_METHOD_LORA, true, 68 * GB, "weights that stay in four bits; as bf16 they alone are 240 GB",
      "wshobson/agents uma-accounting.md, credited to Unsloth's documentation" },
    { "27B LoRA", 27e9, false, UMA_METHOD_LORA, false, 66560 * MIB,
      "a loader that does not stage the model in host memory, which would need its 50 GiB twice",
      "measured 65.0 GiB at 4 x 2,048 with a fused loss; wshobson/agents: fits at packing <= 1,024" },
    { "9B full fine-tune", 9e9, false, UMA_METHOD_FULL, false, 62464 * MIB,
      "an 8-bit optimizer; AdamW in bf16 needs 10 bytes a parameter at its step, fp32 master weights 16 to 18",
      "axolotl-ai-cloud/axolotl examples: about 61 GiB; wshobson/agents: \"fits comfortably\"" },
    { "Qwen3.5-122B-A10B-FP8 served over two nodes", 125e9, true, UMA_METHOD_FULL, false, 119 * 1024 * MIB,
      "all nodes together, in GiB: one byte a parameter alone is 122.1 GB", "NVIDIA developer forum, two-Spark SGLang report" },
};

const struct uma_anchor *uma_anchors(size_t *ret_count) {
    *ret_count = ELEMENTS(anchors);
    return anchors;
}

static bool four_bit(const struct uma_model *model, const struct uma_plan_job *job) {
    enum uma_format format = job->serving ? job->serve.weights : uma_training_weight_format(model, &job->train);
    if (format == UMA_FORMAT_UNKNOWN) {
        uint64_t params = uma_model_params(model);
        return params && (double)uma_model_bytes(model) * 8 / (double)params < 6; /* between four bits with scales and eight */
    }
    return uma_format_bits(format) < 6;
}

const struct uma_anchor *uma_anchor_nearest(const struct uma_model *model, const struct uma_plan_job *job) {
    double params = (double)uma_model_params(model);
    if (!job->serving && (job->train.nodes > 1 || job->train.gpus_per_node > 1))
        return NULL; /* the anchors of training are of one machine */
    bool small_weights = four_bit(model, job);
    const struct uma_anchor *nearest = NULL;
    double least = log(2);
    for (size_t i = 0; i < ELEMENTS(anchors) && params > 0; i++) {
        const struct uma_anchor *a = &anchors[i];
        bool same = a->serving == job->serving && (a->serving || a->method == job->train.method) && a->four_bit == small_weights;
        double distance = fabs(log(params / a->params));
        if (same && distance <= least) {
            least = distance;
            nearest = a;
        }
    }
    return nearest;
}
