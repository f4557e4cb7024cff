/* SPDX-License-Identifier: MIT */
/*
 * What llama-quantize makes of a model: each file type is a recipe that gives some matrices more bits than the rest. The choice by tensor
 * follows llama_tensor_get_type of llama.cpp (src/llama-quant.cpp), without an importance matrix where that matters; which tensors stay as
 * they are, tensor_allows_quantization there and convert_hf_to_gguf.py (vectors, norms and routers in F32).
 */
#include "plan/model/formats.h"
#include "plan/model/structure.h"

#include "plan/estimate.h"

#include <errno.h>
#include <string.h>

/* UNKNOWN: as the base. */
struct recipe {
    const char *name;
    enum uma_format output; /* and of a tied embedding; UNKNOWN: Q6_K */
    enum uma_format embedding;
    enum uma_format v, v_many;       /* attn_v; with four queries or more to a key */
    enum uma_format v_more, v_first; /* ... in every third layer and the outer eighths; in the first `v_count` */
    unsigned v_count;
    enum uma_format down, down_more, down_first; /* ffn_down; likewise; in the first 1/down_part */
    unsigned down_part;
    enum uma_format o, qk;
    enum uma_format middle; /* gate and up, but for the outer eighths */
    bool o_of_eight;        /* Mixtral: eight experts, attn_output in Q5_K */
};

#define F(name) UMA_FORMAT_##name
static const struct recipe recipes[] = {
    { .name = "iq1s",
      .output = F(Q5_K),
      .embedding = F(Q2_K),
      .v = F(Q2_K),
      .v_many = F(Q4_K),
      .down_first = F(Q2_K),
      .down_part = 8,
      .o = F(IQ2_XXS) },
    { .name = "iq2xxs", .output = F(Q5_K), .embedding = F(Q2_K), .v = F(Q2_K), .v_many = F(Q4_K), .down_first = F(Q2_K), .down_part = 8 },
    /* their base is IQ2_XS and IQ2_S */
    { .name = "iq2s",
      .output = F(Q5_K),
      .embedding = F(IQ3_S),
      .v = F(IQ3_S),
      .v_many = F(Q4_K),
      .down_first = F(IQ3_S),
      .down_part = 8,
      .o = F(IQ3_S) },
    { .name = "iq3xxs",
      .output = F(Q5_K),
      .embedding = F(IQ3_S),
      .v = F(IQ3_S),
      .v_many = F(Q4_K),
      .o = F(IQ3_S),
      .qk = F(IQ2_S),
      .o_of_eight = true },
    { .name = "iq3xs", .v_many = F(Q4_K), .qk = F(IQ3_XXS), .middle = F(IQ3_XXS), .o_of_eight = true },
    { .name = "iq3s", .v_many = F(Q4_K), .o_of_eight = true },
    { .name = "iq3m", .v = F(Q4_K), .v_many = F(Q4_K), .down_first = F(Q4_K), .down_part = 8, .o = F(Q4_K), .o_of_eight = true },
    { .name = "iq4xs", .v_many = F(Q5_K), .down_first = F(Q5_K), .down_part = 8, .o_of_eight = true },
    { .name = "iq4nl", .v_many = F(Q5_K), .down_first = F(Q5_K), .down_part = 8, .o_of_eight = true },
    { .name = "q2ks", .v_many = F(Q4_K), .down_first = F(Q4_K), .down_part = 8 },
    { .name = "q2k", .v = F(Q3_K), .v_many = F(Q4_K), .down = F(Q3_K), .o = F(Q3_K), .o_of_eight = true },
    { .name = "q3ks", .o_of_eight = true },
    { .name = "q3km",
      .v = F(Q4_K),
      .v_many = F(Q4_K),
      .v_first = F(Q5_K),
      .v_count = 2,
      .down = F(Q4_K),
      .down_first = F(Q5_K),
      .down_part = 16,
      .o = F(Q4_K),
      .o_of_eight = true },
    { .name = "q3kl", .v = F(Q5_K), .v_many = F(Q5_K), .down = F(Q5_K), .o = F(Q5_K) },
    { .name = "q4ks", .v_first = F(Q5_K), .v_count = 4, .down_first = F(Q5_K), .down_part = 8, .o_of_eight = true },
    { .name = "q4km", .v_more = F(Q6_K), .down_more = F(Q6_K), .o_of_eight = true },
    { .name = "q5km", .v_more = F(Q6_K), .down_more = F(Q6_K) },
    { .name = "q80", .output = F(Q8_0) },
    { .name = "f32", .output = F(F32) },
    { .name = "f16", .output = F(F16) },
    { .name = "bf16", .output = F(BF16) },
};

/* Recipes that llama-quantize has once for two bases; and names that people use for one: the plain one is the medium one; Unsloth's XL files are mixes that nobody states, the medium one is nearest. */
static const char *recipe_name(const char *name) {
    static const struct {
        const char *name, *recipe;
    } same[] = {
        { "iq1m", "iq1s" },  { "iq2xs", "iq2xxs" }, { "iq2m", "iq2s" },  { "q2km", "q2k" },   { "q2kl", "q2k" },
        { "q2kxl", "q2k" },  { "q3k", "q3km" },     { "q3kxl", "q3km" }, { "q4k", "q4km" },   { "q4kl", "q4km" },
        { "q4kxl", "q4km" }, { "q5k", "q5km" },     { "q5kl", "q5km" },  { "q5kxl", "q5km" }, { "q8kxl", "q80" },
    };
    for (size_t i = 0; i < ELEMENTS(same); i++)
        if (strcmp(name, same[i].name) == 0)
            return same[i].recipe;
    return name;
}

static struct recipe recipe_of(const char *name) {
    for (size_t i = 0; i < ELEMENTS(recipes); i++)
        if (strcmp(recipe_name(name), recipes[i].name) == 0)
            return recipes[i];
    return (struct recipe){ 0 };
}

/* What the choice for one matrix depends on. */
struct place {
    const struct recipe *recipe;
    enum uma_format base;
    uint32_t layer, layers, most_experts;
    bool many_queries; /* to a key */
};

static bool more_bits(uint32_t layer, uint32_t layers) {
    return layer < layers / 8 || layer >= 7 * (uint64_t)layers / 8 || (layer - layers / 8) % 3 == 2;
}

static enum uma_format or_base(enum uma_format format, const struct place *p) {
    return format ? format : p->base;
}

static enum uma_format of_v(const struct place *p) {
    const struct recipe *r = p->recipe;
    enum uma_format format = or_base(p->many_queries ? r->v_many : r->v, p);
    if (r->v_more && more_bits(p->layer, p->layers))
        format = r->v_more;
    if (r->v_first && p->layer < r->v_count)
        format = r->v_first;
    /* models of 80 layers and eight queries to a key (Llama-2-70B and its like): the matrix is small, so it gets more */
    if (p->layers == 80 && p->many_queries && (format == UMA_FORMAT_Q3_K || format == UMA_FORMAT_Q4_K))
        format = UMA_FORMAT_Q5_K;
    return p->most_experts == 8 && r->o_of_eight ? UMA_FORMAT_Q8_0 : format;
}

static enum uma_format of_down(const struct place *p) {
    const struct recipe *r = p->recipe;
    if (r->down_first && p->layer < p->layers / r->down_part)
        return r->down_first;
    if (r->down_more && more_bits(p->layer, p->layers))
        return r->down_more;
    return or_base(r->down, p);
}

static enum uma_format of_linear(const struct place *p, const struct uma_linear *linear) {
    bool middle = p->layer >= p->layers / 8 && p->layer < 7 * (uint64_t)p->layers / 8,
         eight = p->most_experts == 8 && p->recipe->o_of_eight;
    switch (linear->role) {
    case UMA_LINEAR_ROUTER:
        return UMA_FORMAT_F32;
    case UMA_LINEAR_V:
        return of_v(p);
    case UMA_LINEAR_Q:
        return or_base(p->recipe->qk, p);
    case UMA_LINEAR_K:
        return eight ? UMA_FORMAT_Q8_0 : or_base(p->recipe->qk, p);
    case UMA_LINEAR_O:
        return eight ? UMA_FORMAT_Q5_K : or_base(p->recipe->o, p);
    case UMA_LINEAR_DOWN:
    case UMA_LINEAR_EXPERT_DOWN:
    case UMA_LINEAR_SHARED_DOWN:
        return of_down(p);
    case UMA_LINEAR_GATE:
    case UMA_LINEAR_UP:
    case UMA_LINEAR_EXPERT_GATE:
    case UMA_LINEAR_EXPERT_UP:
    case UMA_LINEAR_SHARED_GATE:
    case UMA_LINEAR_SHARED_UP:
        return middle ? or_base(p->recipe->middle, p) : p->base;
    default:
        return p->base;
    }
}

/* A row that is not whole blocks of 256 falls back to a type with blocks of 32; one that is not that, to F16. */
static enum uma_format fitting(enum uma_format format, uint64_t row) {
    enum uma_format format_of_32 = format;
    switch (format) {
    case UMA_FORMAT_Q2_K:
    case UMA_FORMAT_Q3_K:
    case UMA_FORMAT_TQ1_0:
    case UMA_FORMAT_TQ2_0:
        format_of_32 = UMA_FORMAT_Q4_0;
        break;
    case UMA_FORMAT_Q4_K:
        format_of_32 = UMA_FORMAT_Q5_0;
        break;
    case UMA_FORMAT_Q5_K:
        format_of_32 = UMA_FORMAT_Q5_1;
        break;
    case UMA_FORMAT_Q6_K:
        format_of_32 = UMA_FORMAT_Q8_0;
        break;
    case UMA_FORMAT_F32:
    case UMA_FORMAT_F16:
    case UMA_FORMAT_BF16:
        return format;
    case UMA_FORMAT_Q4_0:
    case UMA_FORMAT_Q4_1:
    case UMA_FORMAT_Q5_0:
    case UMA_FORMAT_Q5_1:
    case UMA_FORMAT_Q8_0:
    case UMA_FORMAT_MXFP4:
        return row % 32 == 0 ? format : UMA_FORMAT_F16;
    default:
        format_of_32 = UMA_FORMAT_IQ4_NL;
        break;
    }
    return row % 256 == 0 ? format : row % 32 == 0 ? format_of_32 : UMA_FORMAT_F16;
}

/* What was added up of a class: its bits follow for all of it, also where the layers do not account for every parameter. */
struct sums {
    uint64_t params[UMA_CLASS_COUNT], bytes[UMA_CLASS_COUNT];
};

static void add_layers(const struct uma_model *model, struct place *p, struct sums *sums) {
    for (uint32_t i = 0; i < model->layer_count; i++)
        p->most_experts = MAX_OF(p->most_experts, model->layers[i].experts);
    for (p->layer = 0; p->layer < model->layer_count; p->layer++) {
        const struct uma_model_layer *layer = &model->layers[p->layer];
        struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
        p->many_queries = (layer->kv_heads && layer->heads / layer->kv_heads >= 4) || p->most_experts >= 4;
        size_t n = layer->shares_weights ? 0 : uma_model_linears(model, p->layer, linears);
        for (size_t k = 0; k < n; k++) {
            uint64_t params = uma_times(linears[k].copies, uma_times(linears[k].in, linears[k].out));
            enum uma_format format = fitting(of_linear(p, &linears[k]), linears[k].in);
            sums->params[linears[k].class_] = uma_plus(sums->params[linears[k].class_], params);
            sums->bytes[linears[k].class_] = uma_plus(sums->bytes[linears[k].class_], uma_format_bytes(format, params));
        }
    }
}

static void set_class(struct uma_model *model, enum uma_class class_, enum uma_format format) {
    model->class_format[class_] = format;
    model->totals[class_].bytes = uma_format_bytes(format, model->totals[class_].params);
}

static void set_mixed(struct uma_model *model, enum uma_class class_, enum uma_format base, const struct sums *sums) {
    set_class(model, class_, base);
    if (sums->params[class_])
        model->totals[class_].bytes = uma_scale(model->totals[class_].params, (double)sums->bytes[class_] / (double)sums->params[class_]);
}

/* MXFP4_MOE: the experts, and Q8_0 for all else. */
static void set_mxfp4(struct uma_model *model) {
    static const enum uma_class others[] = { UMA_CLASS_EMBEDDING, UMA_CLASS_LM_HEAD, UMA_CLASS_ATTENTION, UMA_CLASS_MIXER,
                                             UMA_CLASS_MLP,       UMA_CLASS_MTP,     UMA_CLASS_OTHER };
    for (size_t i = 0; i < ELEMENTS(others); i++)
        set_class(model, others[i], UMA_FORMAT_Q8_0);
    set_class(model, UMA_CLASS_EXPERTS, UMA_FORMAT_MXFP4);
}

int uma_model_set_file_type(struct uma_model *model, const char *name) {
    const char *short_name;
    enum uma_format base;
    struct sums sums = { 0 };
    if (!uma_file_type_find(name, &short_name, &base))
        return -EINVAL;
    if (uma_model_string(&model->quantisation, name) < 0)
        return -ENOMEM;
    struct recipe recipe = recipe_of(short_name);
    if (strcmp(short_name, "iq2s") == 0)
        base = UMA_FORMAT_IQ2_XS;
    set_class(model, UMA_CLASS_NORM, UMA_FORMAT_F32);
    set_class(model, UMA_CLASS_ROUTER, UMA_FORMAT_F32);
    set_class(model, UMA_CLASS_VISION, UMA_FORMAT_F16); /* a file of its own: mmproj */
    if (strcmp(short_name, "mxfp4moe") == 0) {
        set_mxfp4(model);
        return 0;
    }
    struct place place = { .recipe = &recipe, .base = base, .layers = model->layer_count };
    enum uma_format output = fitting(recipe.output ? recipe.output : base == UMA_FORMAT_Q8_0 ? base : UMA_FORMAT_Q6_K, model->hidden);
    add_layers(model, &place, &sums);
    set_class(model, UMA_CLASS_LM_HEAD, output);
    set_class(model, UMA_CLASS_EMBEDDING, model->tied ? output : fitting(or_base(recipe.embedding, &place), model->hidden));
    set_mixed(model, UMA_CLASS_ATTENTION, base, &sums);
    set_mixed(model, UMA_CLASS_MIXER, base, &sums);
    set_mixed(model, UMA_CLASS_MLP, base, &sums);
    set_mixed(model, UMA_CLASS_EXPERTS, base, &sums);
    set_class(model, UMA_CLASS_MTP, base);
    set_class(model, UMA_CLASS_OTHER, base);
    return 0;
}
