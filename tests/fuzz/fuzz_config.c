/* SPDX-License-Identifier: MIT */
/* A configuration and, behind the first NUL, an hf_quant_config.json. */
#include "plan/model/structure.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct uma_model *model) {
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    if (model->layer_count == 0 || model->layer_count > UMA_MODEL_LAYERS_MAX || model->warning_count > UMA_MODEL_WARNINGS_MAX)
        abort();
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (uma_model_linears(model, i, linears) > UMA_LINEARS_PER_LAYER_MAX)
            abort();
    for (int engine = 0; engine < UMA_ENGINE_COUNT; engine++) {
        struct uma_kv_options options = { .engine = (enum uma_engine)engine, .context = 100000, .sequences = 3, .tp = (uint32_t)engine };
        struct uma_kv kv;
        uma_kv_cache(model, &options, &kv);
        if (kv.total < kv.sequence || kv.growing > kv.per_token || kv.padding > kv.total)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data;
    size_t length = strnlen(text ? text : "", size);
    const char *quant = length < size ? text + length + 1 : NULL;
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    if (!text)
        return 0;
    int r = uma_model_from_config("config.json", text, length, quant, quant ? size - length - 1 : 0, &model, &err);
    if (r < 0) {
        if (model || err.text[0] == 0)
            abort(); /* a refusal without a reason, or with a model */
        return 0;
    }
    use(model);
    uma_model_set_format(model, UMA_FORMAT_NVFP4);
    (void)uma_model_bytes(model);
    (void)uma_model_free(model);
    return 0;
}
