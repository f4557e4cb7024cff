/* SPDX-License-Identifier: MIT */
/* What stands beside the decoder: vision and audio towers, multi-token-prediction layers. */
#include "plan/model/config.h"

#include "plan/estimate.h"

#include <string.h>

/* Parameters of a vision transformer: per layer four attention matrices and a feed-forward, a patch embedding, positions, and a projector of
 * two matrices over merged patches (ViT, arXiv:2010.11929; Qwen2-VL, arXiv:2409.12191). Norms and biases: 0.1 %, left out. */
static uint64_t tower_params(struct uma_config *config, const json_t *vision, bool gated) {
    uint64_t width = uma_config_number_in(config, vision, "embed_dim|vt_hidden_size|hidden_size|d_model|width", CONFIG_WIDTH_MAX, 0);
    uint64_t layers = uma_config_number_in(config, vision, "num_hidden_layers|depth|vt_num_hidden_layers|encoder_layers|num_layers|layers",
                                           UMA_MODEL_LAYERS_MAX, 0);
    uint64_t ffn = uma_config_number_in(config, vision, "intermediate_size|vt_intermediate_size|encoder_ffn_dim|d_ff", CONFIG_WIDTH_MAX,
                                        uma_times(uma_config_number_in(config, vision, "mlp_ratio", 64, 4), width));
    uint64_t patch = uma_config_number_in(config, vision, "patch_size|spatial_patch_size", 4096, 14);
    uint64_t frames = uma_config_number_in(config, vision, "temporal_patch_size", 64, 1);
    uint64_t positions = uma_config_number_in(config, vision, "num_position_embeddings|position_embedding_size", CONFIG_WIDTH_MAX, 0);
    uint64_t merge = uma_config_number_in(config, vision, "spatial_merge_size", 64, 1);
    uint64_t out =
        uma_config_number_in(config, vision, "out_hidden_size|text_hidden_size|projection_dim", CONFIG_WIDTH_MAX, config->model->hidden);
    uint64_t layer = uma_plus(uma_times(4, uma_times(width, width)), uma_times(gated ? 3 : 2, uma_times(width, ffn)));
    uint64_t merged = uma_times(width, uma_times(merge, merge));
    uint64_t sum = uma_times(layers, layer);
    sum = uma_plus(sum, uma_times(width, uma_times(uma_times(patch, patch), uma_times(3, frames))));
    sum = uma_plus(sum, uma_times(width, positions));
    /* Qwen3-VL has a projector more for each layer whose features it injects */
    uint64_t projectors = uma_plus(1, json_array_size(json_object_get(vision, "deepstack_visual_indexes")));
    return uma_plus(sum, uma_times(projectors, uma_plus(uma_times(merged, merged), uma_times(merged, out))));
}

static void vision(struct uma_config *config) {
    struct uma_model *model = config->model;
    const json_t *tower = uma_config_object(config, "vision_config|visual|vit_config|vision_tower_config");
    if (!tower)
        return;
    const char *activation = json_string_value(json_object_get(tower, "hidden_act"));
    bool gated = activation && strcmp(activation, "silu") == 0;
    model->has_vision = true;
    model->vision_hidden = (uint32_t)uma_config_number_in(config, tower, "embed_dim|vt_hidden_size|hidden_size|width", CONFIG_WIDTH_MAX, 0);
    model->vision_layers =
        (uint32_t)uma_config_number_in(config, tower, "num_hidden_layers|depth|vt_num_hidden_layers|layers", UMA_MODEL_LAYERS_MAX, 0);
    model->vision_tokens = (uint32_t)uma_config_number(
        config, "vision_soft_tokens_per_image|mm_tokens_per_image|image_seq_length|num_image_tokens", 1 << 20, 0);
    uint64_t size = uma_config_number_in(config, tower, "image_size", 1 << 16, 0);
    uint64_t patch = uma_config_number_in(config, tower, "patch_size", 4096, 0);
    if (model->vision_tokens == 0 && size && patch)
        model->vision_tokens = (uint32_t)((size / patch) * (size / patch));
    model->details.vision_params = tower_params(config, tower, gated);
}

/* Audio towers are encoders of the same shape (Whisper); two convolutions in front of them are small. */
static void audio(struct uma_config *config) {
    const json_t *tower = uma_config_object(config, "audio_config");
    if (!tower)
        return;
    config->model->details.vision_params = uma_plus(config->model->details.vision_params, tower_params(config, tower, false));
}

/* The last layer of a kind is what an MTP layer repeats. */
static int64_t last_layer(const struct uma_model *model, bool mixer, bool ffn) {
    for (uint32_t i = model->layer_count; i > 0; i--) {
        const struct uma_model_layer *layer = &model->layers[i - 1];
        bool attends = layer->mixer == UMA_MIXER_ATTENTION || layer->mixer == UMA_MIXER_MLA;
        if ((!mixer || attends) && (!ffn || layer->ffn != UMA_FFN_NONE))
            return i - 1;
    }
    return -1;
}

/* DeepSeek-V3 (arXiv:2412.19437, 2.2): a decoder layer, a projection of two hidden widths to one, and three norms. */
static void mtp(struct uma_config *config) {
    struct uma_model *model = config->model;
    uint64_t n = uma_config_number(config, "num_nextn_predict_layers|mtp_num_hidden_layers|num_mtp_modules|num_mtp_layers|mtp_num_layers",
                                   UMA_MODEL_LAYERS_MAX, 0);
    uint32_t flags = config->arch ? config->arch->flags : 0;
    if (n == 0 || flags & ARCH_NO_MTP)
        return;
    uint64_t layer = 0;
    int64_t whole = last_layer(model, true, true);
    if (flags & ARCH_MTP_DENSE)
        layer = uma_structure_layer_params(model, 0);
    else if (whole >= 0)
        layer = uma_structure_layer_params(model, (uint32_t)whole);
    else { /* layers of one half each (Nemotron-H): one of both */
        int64_t mixer = last_layer(model, true, false), ffn = last_layer(model, false, true);
        if (mixer >= 0)
            layer = uma_structure_layer_params(model, (uint32_t)mixer);
        if (ffn >= 0)
            layer = uma_plus(layer, uma_structure_layer_params(model, (uint32_t)ffn));
    }
    layer = uma_plus(layer, uma_plus(uma_times(2, uma_times(model->hidden, model->hidden)), uma_times(3, model->hidden)));
    if (flags & ARCH_MTP_EMBED)
        layer = uma_plus(layer, uma_times(2, uma_times(model->vocab, model->hidden)));
    model->mtp_layers = (uint32_t)n;
    model->details.mtp_params = uma_times(n, layer);
}

void uma_config_towers(struct uma_config *config) {
    vision(config);
    audio(config);
    mtp(config);
}
