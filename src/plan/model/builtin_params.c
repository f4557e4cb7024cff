/* SPDX-License-Identifier: MIT */
/*
 * A model from a parameter count and what else is known of its shape. With hidden, layers, heads, ffn and vocab it is exactly that shape; else
 * what is missing comes from the published model whose size is nearest, and the feed-forward (or the number of layers) takes up the difference.
 */
#include "plan/model/builtin.h"

#include "base/error.h"
#include "plan/estimate.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Bounds as those of a config.json: products stay within 64 bits, and nobody allocates a model of 2^32 layers. */
enum { WIDTH_MAX = 1 << 24, COUNT_MAX = 1 << 20 };

static int check(const struct uma_shape *shape, struct uma_error *err) {
    const struct {
        const char *name;
        uint64_t value, max;
    } fields[] = {
        { "layers", shape->layers, UMA_MODEL_LAYERS_MAX },
        { "hidden", shape->hidden, WIDTH_MAX },
        { "heads", shape->heads, COUNT_MAX },
        { "kv-heads", shape->kv_heads, COUNT_MAX },
        { "head-dim", shape->head_dim, COUNT_MAX },
        { "ffn", shape->ffn, WIDTH_MAX },
        { "vocab", shape->vocab, WIDTH_MAX },
        { "experts", shape->experts, COUNT_MAX },
        { "expert-ffn", shape->expert_ffn, WIDTH_MAX },
        { "shared-ffn", shape->shared_ffn, WIDTH_MAX },
        { "positions", shape->positions, WIDTH_MAX },
        { "mtp-layers", shape->mtp_layers, UMA_MODEL_LAYERS_MAX },
        { "kv-lora-rank", shape->kv_lora_rank, WIDTH_MAX },
        { "q-lora-rank", shape->q_lora_rank, WIDTH_MAX },
    };
    for (size_t i = 0; i < ELEMENTS(fields); i++)
        if (fields[i].value > fields[i].max)
            return uma_error_text(err, EINVAL, "%s %" PRIu64 ": a number up to %" PRIu64 " was expected", fields[i].name, fields[i].value,
                                  fields[i].max);
    if (shape->kv_heads && shape->heads && shape->kv_heads > shape->heads)
        return uma_error_text(err, EINVAL, "kv-heads %u: at most as many as heads (%u) were expected", shape->kv_heads, shape->heads);
    size_t mixed = shape->pattern ? strcspn(shape->pattern, "E/") : 0;
    if (shape->pattern && shape->pattern[mixed] == 'E' && !shape->experts)
        return uma_error_text(err, EINVAL, "pattern: a layer of experts (E), and no number of experts");
    if (shape->experts_per_token > shape->experts)
        return uma_error_text(err, EINVAL, "experts-per-token %u: at most as many as experts (%u) were expected", shape->experts_per_token,
                              shape->experts);
    return 0;
}

/* ---- what is missing, from published models ----------------------------------------------------------------- */

struct typical {
    double params;
    uint32_t hidden, layers, heads, kv_heads, head_dim;
    uint64_t ffn, vocab;
    uint32_t experts, experts_per_token;
    uint64_t expert_ffn;
    bool tied;
};

/* Grouped-query decoders of 2024 and later, as published in their config.json: Qwen3 0.6B, Llama 3.2 1B, Qwen3 1.7B, Llama 3.2 3B, Qwen3 4B,
 * Llama 3.1 8B, Qwen3 14B, Mistral Small 24B, Qwen3 32B, Llama 3.1 70B, Mistral Large, Llama 3.1 405B; below them Pythia 14M and SmolLM2 135M and 360M. */
static const struct typical dense[] = {
    { 0.014e9, 128, 6, 4, 4, 32, 512, 50304, 0, 0, 0, false },
    { 0.135e9, 576, 30, 9, 3, 64, 1536, 49152, 0, 0, 0, true },
    { 0.362e9, 960, 32, 15, 5, 64, 2560, 49152, 0, 0, 0, true },
    { 0.596e9, 1024, 28, 16, 8, 128, 3072, 151936, 0, 0, 0, true },
    { 1.236e9, 2048, 16, 32, 8, 64, 8192, 128256, 0, 0, 0, true },
    { 1.721e9, 2048, 28, 16, 8, 128, 6144, 151936, 0, 0, 0, true },
    { 3.213e9, 3072, 28, 24, 8, 128, 8192, 128256, 0, 0, 0, true },
    { 4.022e9, 2560, 36, 32, 8, 128, 9728, 151936, 0, 0, 0, true },
    { 8.030e9, 4096, 32, 32, 8, 128, 14336, 128256, 0, 0, 0, false },
    { 14.768e9, 5120, 40, 40, 8, 128, 17408, 151936, 0, 0, 0, false },
    { 23.572e9, 5120, 40, 32, 8, 128, 32768, 131072, 0, 0, 0, false },
    { 32.762e9, 5120, 64, 64, 8, 128, 25600, 151936, 0, 0, 0, false },
    { 70.554e9, 8192, 80, 64, 8, 128, 28672, 128256, 0, 0, 0, false },
    { 122.610e9, 12288, 88, 96, 8, 128, 28672, 32768, 0, 0, 0, false },
    { 405.853e9, 16384, 126, 128, 8, 128, 53248, 128256, 0, 0, 0, false },
};
/* Mixtures of experts: OLMoE, Qwen3 30B-A3B, Mixtral 8x7B, Qwen3 235B-A22B, Qwen3 Coder 480B. */
static const struct typical mixtures[] = {
    { 6.919e9, 2048, 16, 16, 16, 128, 1024, 50304, 64, 8, 1024, false },
    { 30.532e9, 2048, 48, 32, 4, 128, 6144, 151936, 128, 8, 768, false },
    { 46.703e9, 4096, 32, 32, 8, 128, 14336, 32000, 8, 2, 14336, false },
    { 235.094e9, 4096, 94, 64, 4, 128, 12288, 151936, 128, 8, 1536, false },
    { 480.155e9, 6144, 62, 96, 8, 128, 8192, 151936, 160, 8, 2560, false },
};

/* The nearest in size; when a width was given, the nearest in width, since what else is typical goes with it. */
static const struct typical *nearest(const struct uma_shape *shape) {
    const struct typical *list = shape->experts || shape->expert_ffn ? mixtures : dense, *best = list;
    size_t n = list == mixtures ? ELEMENTS(mixtures) : ELEMENTS(dense);
    double smallest = INFINITY;
    for (size_t i = 0; i < n; i++) {
        double distance = shape->params ? fabs(log((double)shape->params / list[i].params)) : 0;
        if (shape->hidden)
            distance += 2 * fabs(log((double)shape->hidden / list[i].hidden));
        if (shape->layers)
            distance += fabs(log((double)shape->layers / list[i].layers));
        if (distance < smallest) {
            smallest = distance;
            best = &list[i];
        }
    }
    return best;
}

static bool exact(const struct uma_shape *shape) {
    return shape->hidden && shape->heads && shape->vocab && (shape->layers || shape->pattern) &&
           (shape->ffn || (shape->experts && shape->expert_ffn));
}

static struct uma_shape complete(const struct uma_shape *given) {
    const struct typical *like = nearest(given);
    struct uma_shape shape = *given;
    bool whole = exact(given); /* then what is left out has the plain meaning: no groups, no tie */
    bool mixture = given->experts || given->expert_ffn;
    shape.hidden = given->hidden ? given->hidden : like->hidden;
    shape.layers = given->layers ? given->layers : like->layers;
    if (!given->head_dim)
        shape.head_dim = given->heads && given->hidden ? given->hidden / given->heads : like->head_dim;
    if (shape.head_dim == 0)
        shape.head_dim = 1;
    if (!given->heads)
        shape.heads = given->hidden ? given->hidden / shape.head_dim : like->heads;
    if (shape.heads == 0)
        shape.heads = 1;
    if (!given->kv_heads)
        shape.kv_heads = whole || given->kv_lora_rank || shape.heads < like->kv_heads ? shape.heads : like->kv_heads;
    shape.vocab = given->vocab ? given->vocab : like->vocab;
    shape.ffn = given->ffn ? given->ffn : like->ffn;
    if (mixture) {
        shape.experts = given->experts ? given->experts : like->experts;
        shape.experts_per_token = given->experts_per_token ? given->experts_per_token : like->experts_per_token;
        if (shape.experts_per_token > shape.experts)
            shape.experts_per_token = shape.experts;
        shape.expert_ffn = given->expert_ffn ? given->expert_ffn : given->ffn ? given->ffn : like->expert_ffn;
    }
    if (given->tied == UMA_MAYBE)
        shape.tied = like->tied && !whole ? UMA_YES : UMA_NO;
    return shape;
}

/* ---- a shape as a model ------------------------------------------------------------------------------------- */

static void attention_of(const struct uma_shape *shape, struct uma_model_layer *layer) {
    layer->mixer = shape->kv_lora_rank ? UMA_MIXER_MLA : UMA_MIXER_ATTENTION;
    layer->heads = shape->heads;
    layer->kv_heads = shape->kv_heads ? shape->kv_heads : shape->heads;
    layer->head_dim = shape->kv_lora_rank ? shape->qk_nope_dim + shape->qk_rope_dim : shape->head_dim;
    layer->v_head_dim = shape->v_head_dim ? shape->v_head_dim : shape->kv_lora_rank ? shape->qk_nope_dim : shape->head_dim;
}

static void dense_of(const struct uma_shape *shape, struct uma_model_layer *layer) {
    layer->ffn = UMA_FFN_DENSE;
    layer->ffn_size = shape->ffn;
    layer->ffn_gated = shape->gated != UMA_NO;
}

static void experts_of(const struct uma_shape *shape, struct uma_model_layer *layer) {
    layer->ffn = UMA_FFN_MOE;
    layer->ffn_size = shape->expert_ffn ? shape->expert_ffn : shape->ffn;
    layer->ffn_gated = shape->gated != UMA_NO;
    layer->shared_ffn_size = shape->shared_ffn;
    layer->experts = shape->experts;
    layer->experts_per_token = shape->experts_per_token ? shape->experts_per_token : 1;
}

/* Megatron's pattern: one letter a layer; '|' between pipeline stages; what follows '/' are prediction heads, one a '/'. */
static uint32_t pattern_layers(const char *pattern) {
    uint32_t n = 0;
    for (; *pattern && *pattern != '/'; pattern++)
        n += strchr("M*-E", *pattern) != NULL;
    return n;
}

static int by_pattern(const struct uma_shape *shape, struct uma_model *model, struct uma_error *err) {
    uint32_t i = 0;
    const char *p = shape->pattern;
    for (; *p && *p != '/'; p++) {
        struct uma_model_layer *layer = &model->layers[i];
        if (*p == '|')
            continue;
        switch (*p) {
        case 'M':
            layer->mixer = UMA_MIXER_MAMBA2;
            break;
        case '*':
            attention_of(shape, layer);
            break;
        case '-':
            dense_of(shape, layer);
            break;
        case 'E':
            experts_of(shape, layer);
            break;
        default:
            return uma_error_text(err, EINVAL, "pattern: M, *, -, E, | or / were expected, character %zu is another",
                                  (size_t)(p - shape->pattern) + 1);
        }
        i++;
    }
    model->norms_per_layer = 1;
    model->ssm_head_dim = shape->ssm_head_dim ? shape->ssm_head_dim : 64;
    model->ssm_heads = shape->ssm_heads ? shape->ssm_heads : 2 * model->hidden / model->ssm_head_dim;
    model->ssm_state = shape->ssm_state ? shape->ssm_state : 128;
    model->ssm_groups = shape->ssm_groups ? shape->ssm_groups : 8;
    model->ssm_conv = 4;
    model->ssm_inner = uma_times(model->ssm_heads, model->ssm_head_dim);
    model->details.conv_bias = true;
    return 0;
}

/* A prediction head is one more layer of the model's kind, and joins two hidden states (DeepSeek-V3, arXiv:2412.19437, section 2.2). */
static void add_mtp(const struct uma_shape *shape, struct uma_model *model) {
    uint32_t heads = shape->mtp_layers;
    for (const char *p = shape->pattern; p && !shape->mtp_layers && *p; p++)
        heads += *p == '/';
    if (heads == 0 || model->layer_count == 0)
        return;
    uint64_t join = uma_times(2, uma_times(model->hidden, model->hidden));
    model->mtp_layers = heads;
    model->details.mtp_params = uma_times(heads, uma_plus(uma_structure_layer_params(model, model->layer_count - 1), join));
}

static int build(const struct uma_shape *shape, struct uma_model **ret_model, struct uma_error *err) {
    uint32_t layers = shape->pattern ? pattern_layers(shape->pattern) : shape->layers;
    if (layers > UMA_MODEL_LAYERS_MAX)
        return uma_error_text(err, EINVAL, "layers %u: a number up to %d was expected", layers, UMA_MODEL_LAYERS_MAX);
    _cleanup_model_ struct uma_model *model = uma_model_new(layers);
    if (!model)
        return uma_error_set(err, ENOMEM, "a model of %u layers", layers);
    model->hidden = shape->hidden;
    model->vocab = shape->vocab;
    model->max_position = shape->positions;
    model->tied = shape->tied == UMA_YES;
    model->qkv_bias = model->o_bias = model->mlp_bias = shape->bias == UMA_YES;
    model->details.norm_bias = shape->norm_bias == UMA_MAYBE ? shape->bias == UMA_YES : shape->norm_bias == UMA_YES;
    model->details.positions = shape->positions;
    model->q_lora_rank = shape->kv_lora_rank ? shape->q_lora_rank : 0;
    model->kv_lora_rank = shape->kv_lora_rank;
    model->qk_nope_dim = shape->qk_nope_dim;
    model->qk_rope_dim = shape->qk_rope_dim;
    model->architecture_known = true;
    if (shape->pattern) {
        int r = by_pattern(shape, model, err);
        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; !shape->pattern && i < layers; i++) {
        attention_of(shape, &model->layers[i]);
        if (shape->experts && i >= shape->dense_layers)
            experts_of(shape, &model->layers[i]);
        else
            dense_of(shape, &model->layers[i]);
    }
    if (uma_model_string(&model->architecture, shape->pattern ? "hybrid" : shape->experts ? "mixture of experts" : "decoder") < 0)
        return uma_error_set(err, ENOMEM, "a model from its shape");
    add_mtp(shape, model);
    uma_structure_count(model);
    *ret_model = TAKE_PTR(model);
    return 0;
}

/* ---- making the count come out ------------------------------------------------------------------------------ */

static int count(const struct uma_shape *shape, uint64_t *ret_params, struct uma_error *err) {
    _cleanup_model_ struct uma_model *model = NULL;
    int r = build(shape, &model, err);
    if (r == 0)
        *ret_params = uma_model_params(model);
    return r;
}

/* The feed-forward is two thirds of a decoder and nearly linear in its width: a few secant steps end within one multiple, which is small for
 * experts, where it counts as many times as there are experts. */
static int fit_width(struct uma_shape *shape, uint64_t *width, unsigned multiple, struct uma_error *err) {
    for (int i = 0; i < 6; i++) {
        uint64_t now = 0, wider = 0, step = *width / 8 + 64, before = *width;
        int r = count(shape, &now, err);
        *width = uma_plus(before, step);
        r = r == 0 ? count(shape, &wider, err) : r;
        *width = before;
        if (r < 0)
            return r;
        double slope = (double)(wider - now) / (double)step;
        double next = slope > 0 ? (double)before + ((double)shape->params - (double)now) / slope : (double)before;
        next = fmin(fmax(round(next / multiple) * multiple, multiple), WIDTH_MAX);
        *width = (uint64_t)next;
        if (*width == before)
            break;
    }
    return 0;
}

/* Layers first when the nearest model is far in size, so that width and depth stay in proportion; then the feed-forward. */
static int fit(const struct uma_shape *given, struct uma_shape *shape, struct uma_error *err) {
    uint64_t now = 0;
    int r = count(shape, &now, err);
    if (r < 0)
        return r;
    double ratio = (double)shape->params / (double)(now ? now : 1);
    bool width_given = shape->experts ? given->expert_ffn > 0 : given->ffn > 0;
    if (!given->layers && !given->pattern && (ratio > 1.3 || ratio < 0.77 || width_given)) {
        double layers = fmin(fmax(round(shape->layers * ratio), 1), UMA_MODEL_LAYERS_MAX);
        shape->layers = (uint32_t)layers;
    }
    if (width_given)
        return 0;
    return shape->experts ? fit_width(shape, &shape->expert_ffn, 2, err) : fit_width(shape, &shape->ffn, 16, err);
}

/* What no dimension can say goes where most parameters are: the totals have to be the count that was given. When those are not enough, the
 * shape and the count are of two models: every class then keeps its share, so that none, and no memory rule that goes by it, is gone. */
static void settle(struct uma_model *model, uint64_t params, bool mixture) {
    uint64_t now = uma_model_params(model), left = params;
    struct uma_tensor_total *most = &model->totals[mixture ? UMA_CLASS_EXPERTS : UMA_CLASS_MLP];
    if (params > now)
        most->params = uma_plus(most->params, params - now);
    else if (now - params <= most->params / 2)
        most->params -= now - params;
    else {
        for (unsigned i = 0; i < UMA_CLASS_COUNT; i++) {
            struct uma_tensor_total *total = &model->totals[i];
            uint64_t share = uma_scale(total->params, (double)params / (double)now);
            total->params = share < left ? share : left;
            left -= total->params;
        }
        most->params += left; /* of rounding */
    }
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        model->totals[i].bytes = uma_class_bytes(model, (enum uma_class)i, model->totals[i].params);
}

/* ---- a count that is a published model's -------------------------------------------------------------------- */

/* Half of the last digit that the count was given with (7240000000: 5 million). Below three digits a count names no model: 8B is a size. */
static double count_slack(uint64_t params) {
    double step = 1;
    uint64_t digits = params;
    for (; digits >= 10 && digits % 10 == 0; digits /= 10)
        step *= 10;
    return digits < 100 ? 0 : step / 2;
}

bool uma_shape_more_than_count(const struct uma_shape *shape) {
    const struct uma_shape *s = shape;
    return s->hidden || s->layers || s->heads || s->kv_heads || s->head_dim || s->ffn || s->vocab || s->experts || s->experts_per_token ||
           s->expert_ffn || s->tied || s->gated || s->bias || s->norm_bias || s->positions || s->shared_ffn || s->dense_layers ||
           s->mtp_layers || s->q_lora_rank || s->kv_lora_rank || s->qk_nope_dim || s->qk_rope_dim || s->v_head_dim || s->pattern ||
           s->ssm_heads || s->ssm_head_dim || s->ssm_state || s->ssm_groups;
}

/* The known model with this count of parameters: 7.24B is Mistral 7B, 46.7B Mixtral. NULL: none, or more is known than the count. */
static const struct uma_builtin_shape *known_by_count(const struct uma_shape *given) {
    double slack = count_slack(given->params);
    if (uma_shape_more_than_count(given))
        return NULL;
    for (size_t i = 0; i < uma_builtin_shape_count; i++) { /* the table begins with what is most in use */
        const struct uma_builtin_shape *shape = &uma_builtin_shapes[i];
        if (shape->published && fabs((double)shape->published - (double)given->params) < slack)
            return shape;
    }
    return NULL;
}

static int from_count(const struct uma_builtin_shape *shape, struct uma_model **ret_model, struct uma_error *err) {
    char name[BUILTIN_NAME_MAX + 1];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(shape->names, "|"), shape->names);
    int r = uma_model_builtin(name, ret_model, err);
    if (r < 0)
        return r;
    (*ret_model)->basis = UMA_BASIS_GUESS;
    uma_model_warn(*ret_model, "only a number of parameters is known: it is that of %s, whose shape is assumed", name);
    return 0;
}

int uma_model_from_shape(const struct uma_shape *given, struct uma_model **ret_model, struct uma_error *err) {
    struct uma_shape shape = *given;
    _cleanup_model_ struct uma_model *model = NULL;
    int r = check(given, err);
    if (r < 0)
        return r;
    bool whole = exact(given);
    if (!whole && given->params == 0)
        return uma_error_text(err, EINVAL, "params: a number of parameters, or hidden, layers, heads, ffn and vocab, was expected");
    if (given->params > UINT64_MAX / 64)
        return uma_error_text(err, EINVAL, "params %" PRIu64 ": a number up to 2.8e17 was expected", given->params);
    const struct uma_builtin_shape *known = known_by_count(given);
    if (known)
        return from_count(known, ret_model, err);
    shape = complete(given);
    if (!whole)
        r = fit(given, &shape, err);
    if (r == 0)
        r = build(&shape, &model, err);
    if (!model)
        return r;
    uint64_t counted = uma_model_params(model);
    double off = given->params ? ((double)counted - (double)given->params) / (double)given->params : 0;
    if (!whole) {
        model->basis = UMA_BASIS_GUESS;
        uma_model_warn(model,
                       "only a number of parameters is known: the shape is a typical one of this size, and activations and caches are as "
                       "uncertain as that");
    } else {
        model->basis = UMA_BASIS_STRUCTURE;
    }
    if (fabs(off) > 0.02)
        uma_model_warn(model, "the shape has %.2f billion parameters where %.2f billion were given", (double)counted / 1e9,
                       (double)given->params / 1e9);
    if (given->params)
        settle(model, given->params, shape.experts > 0);
    char name[64], source[64];
    snprintf(name, sizeof name, "%.4gB", (double)uma_model_params(model) / 1e9);
    snprintf(source, sizeof source, whole ? "the shape given" : "a number of parameters");
    if (uma_model_string(&model->name, name) < 0 || uma_model_string(&model->source, source) < 0)
        return uma_error_set(err, ENOMEM, "a model from its shape");
    *ret_model = TAKE_PTR(model);
    return 0;
}
