/* SPDX-License-Identifier: MIT */
/* What each layer is: the many ways in which configurations say it, in the order in which they win. */
#include "plan/model/config.h"

#include "base/error.h"

#include <string.h>

static char kind_of_word(const char *word) {
    static const struct {
        const char *word;
        char kind;
    } words[] = {
        { "full_attention", KIND_FULL },
        { "attention", KIND_FULL },
        { "global", KIND_FULL },
        { "global_attention", KIND_FULL },
        { "sliding_attention", KIND_SLIDING },
        { "sliding_window_attention", KIND_SLIDING },
        { "local", KIND_SLIDING },
        { "local_attention", KIND_SLIDING },
        { "chunked_attention", KIND_SLIDING },
        { "linear_attention", KIND_LINEAR },
        { "kda", KIND_LINEAR },
        { "mamba", KIND_MAMBA },
        { "mamba2", KIND_MAMBA },
        { "moe", KIND_EXPERTS },
        { "mlp", KIND_DENSE },
        { "ffn", KIND_DENSE },
        { "hybrid", KIND_HYBRID },
        { "compressed_sparse_attention", KIND_FULL },
        { "heavily_compressed_attention", KIND_FULL },
    };
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strcmp(word, words[i].word) == 0)
            return words[i].kind;
    /* new kinds of softmax attention get new names ("deepseek_sparse_attention") */
    return strstr(word, "sliding") ? KIND_SLIDING : strstr(word, "attention") ? KIND_FULL : 0;
}

static char kind_of_letter(char letter) {
    switch (letter) {
    case 'M':
        return KIND_MAMBA;
    case '*':
    case 'A':
        return KIND_FULL;
    case '-':
        return KIND_DENSE;
    case 'E':
        return KIND_EXPERTS;
    default:
        return 0;
    }
}

/* layer_types, layers_block_type: a word per layer. */
static bool from_words(struct uma_config *config) {
    json_t *words = uma_config_list(config, "layer_types|layers_block_type");
    if (!words || !json_is_string(json_array_get(words, 0)))
        return false;
    size_t n = json_array_size(words);
    for (uint32_t i = 0; i < config->kind_count && i < n; i++) {
        const char *word = json_string_value(json_array_get(words, i));
        char kind = word ? kind_of_word(word) : 0;
        if (!kind) {
            uma_model_warn(config->model, "layer %u is of a kind that is not known; it is counted as full attention", i);
            kind = KIND_FULL;
        }
        config->kinds[i] = kind;
        config->ffn_in_pattern |= kind == KIND_DENSE || kind == KIND_EXPERTS;
    }
    return true;
}

/* hybrid_override_pattern: a letter per layer (Nemotron-H). */
static bool from_letters(struct uma_config *config) {
    const char *letters = uma_config_string(config, "hybrid_override_pattern");
    uint32_t n = 0;
    if (!letters)
        return false;
    for (; *letters && n < config->kind_count; letters++) {
        char kind = kind_of_letter(*letters);
        if (kind)
            config->kinds[n++] = kind;
    }
    config->ffn_in_pattern = true;
    return true;
}

/* A list of 0 and 1 per layer, or of the layers' indices. */
static bool from_lists(struct uma_config *config) {
    json_t *list;
    uint32_t n = config->kind_count;
    if ((list = uma_config_list(config, "hybrid_layer_pattern"))) { /* MiMo-V2: 1 slides */
        for (uint32_t i = 0; i < n; i++)
            config->kinds[i] = json_integer_value(json_array_get(list, i)) == 1 ? KIND_SLIDING : KIND_FULL;
        return true;
    }
    if ((list = uma_config_list(config, "attn_type_list"))) { /* MiniMax: 0 linear, 1 softmax */
        for (uint32_t i = 0; i < n; i++)
            config->kinds[i] = json_integer_value(json_array_get(list, i)) == 0 ? KIND_LINEAR : KIND_FULL;
        return true;
    }
    if ((list = uma_config_list(config, "attn_layer_indices"))) { /* Bamba */
        memset(config->kinds, KIND_MAMBA, n);
        for (size_t i = 0; i < json_array_size(list); i++) {
            json_int_t at = json_integer_value(json_array_get(list, i));
            if (at >= 0 && at < (json_int_t)n)
                config->kinds[at] = KIND_FULL;
        }
        return true;
    }
    const json_t *kimi = uma_config_object(config, "linear_attn_config");
    if (kimi && (list = json_object_get(kimi, "kda_layers"))) { /* counted from 1 */
        for (size_t i = 0; i < json_array_size(list); i++) {
            json_int_t at = json_integer_value(json_array_get(list, i));
            if (at >= 1 && at <= (json_int_t)n)
                config->kinds[at - 1] = KIND_LINEAR;
        }
        return true;
    }
    return false;
}

/* One attention layer in so many (Qwen3-Next, Jamba), or one full layer in so many sliding ones (Gemma, Cohere 2, EXAONE 4). */
static void from_periods(struct uma_config *config) {
    uint32_t n = config->kind_count;
    uint64_t interval = uma_config_number(config, "full_attention_interval", UMA_MODEL_LAYERS_MAX, 0);
    bool linear = uma_config_find(config, "linear_num_value_heads");
    if (linear && interval == 0)
        interval = 4; /* the default of Qwen3NextConfig */
    uint64_t jamba = uma_config_number(config, "attn_layer_period", UMA_MODEL_LAYERS_MAX, 0);
    uint64_t offset = uma_config_number(config, "attn_layer_offset", UMA_MODEL_LAYERS_MAX, 0);
    const char *letters = uma_config_string(config, "sliding_window_pattern");
    uint64_t period = letters ? 0 : uma_config_number(config, "sliding_window_pattern|_sliding_window_pattern", UMA_MODEL_LAYERS_MAX, 0);
    if (period == 0 && config->arch)
        period = config->arch->sliding_period;
    size_t letter_count = letters ? strlen(letters) : 0;
    bool late = uma_config_flag(config, "use_sliding_window", false);
    uint64_t from = uma_config_number(config, "max_window_layers", UMA_MODEL_LAYERS_MAX, 0);
    uint32_t flags = config->arch ? config->arch->flags : 0;
    bool attention = uma_config_find(config, "num_attention_heads|n_head|n_heads|num_heads");
    for (uint32_t i = 0; i < n; i++) {
        char kind = KIND_FULL;
        if (linear && interval)
            kind = (i + 1) % interval == 0 ? KIND_FULL : KIND_LINEAR;
        else if (jamba)
            kind = i % jamba == offset ? KIND_FULL : KIND_MAMBA;
        else if (letter_count)
            kind = letters[i % letter_count] == 'L' ? KIND_SLIDING : KIND_FULL;
        else if ((flags & ARCH_MAMBA1 || flags & ARCH_MAMBA2) && !(flags & (ARCH_PARALLEL_MIXERS | ARCH_RESIDUAL_FFN)) &&
                 (!attention || strncmp(config->arch->names, "mamba", 5) == 0))
            kind = KIND_MAMBA;
        else if (period)
            kind = (i + 1) % period == 0 ? KIND_FULL : KIND_SLIDING;
        else if (flags & ARCH_ALL_SLIDING || (late && i >= from))
            kind = KIND_SLIDING;
        config->kinds[i] = kind;
    }
}

/* Layers that hold two mixers become two layers of the model: memory rules are told per mixer. */
static void expand(struct uma_config *config) {
    uint32_t flags = config->arch ? config->arch->flags : 0, n = 0;
    uint64_t blocks = uma_config_number(config, "num_mem_blocks", UMA_MODEL_LAYERS_MAX, 1), seen = 0;
    char out[UMA_MODEL_LAYERS_MAX];
    for (uint32_t i = 0; i < config->kind_count; i++) {
        char kind = config->kinds[i], before = 0;
        if (kind == KIND_HYBRID) {
            uma_model_warn(config->model, "the adapters of the shared attention blocks are not counted (about 5 %% of the weights)");
            before = seen++ < blocks ? KIND_FULL : KIND_SHARED;
            kind = KIND_NO_FFN;
        } else if (kind == KIND_FULL && flags & ARCH_PARALLEL_MIXERS)
            before = KIND_NO_FFN;
        else if (kind == KIND_FULL && flags & ARCH_TWO_IN_ONE)
            before = KIND_FIRST;
        if (n + (before ? 2 : 1) > UMA_MODEL_LAYERS_MAX) {
            uma_config_fail(config, "num_hidden_layers", "fewer layers than 1024, of two mixers each");
            return;
        }
        if (before)
            out[n++] = before;
        out[n++] = kind;
    }
    memcpy(config->kinds, out, n);
    config->kind_count = n;
}

void uma_config_kinds(struct uma_config *config) {
    static const char layers[] = "num_hidden_layers|n_layer|n_layers|num_layers|num_decoder_layers";
    uint64_t n = uma_config_number(config, layers, UMA_MODEL_LAYERS_MAX, 0);
    const json_t *list = uma_config_list(config, "layers_block_type|block_configs");
    if (n == 0 && list)
        n = MIN_OF(json_array_size(list), (size_t)UMA_MODEL_LAYERS_MAX);
    const char *letters = uma_config_string(config, "hybrid_override_pattern");
    if (n == 0 && letters)
        n = MIN_OF(strlen(letters), (size_t)UMA_MODEL_LAYERS_MAX);
    if (n == 0 && config->status == 0)
        uma_config_fail(config, "num_hidden_layers", "there, a number from 1 to 2048");
    if (config->status != 0)
        return;
    config->kind_count = (uint32_t)n;
    memset(config->kinds, KIND_FULL, n);
    if (!from_letters(config) && !from_words(config) && !from_lists(config))
        from_periods(config);
    expand(config);
    if (config->status != 0)
        return;
    struct uma_model_layer *resized = calloc(MAX_OF(config->kind_count, 1u), sizeof *resized);
    if (!resized) {
        config->status = uma_error_set(config->err, ENOMEM, "%s", config->file);
        return;
    }
    free(config->model->layers);
    config->model->layers = resized;
    config->model->layer_count = config->kind_count;
}
