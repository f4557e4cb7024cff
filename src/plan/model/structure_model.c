/* SPDX-License-Identifier: MIT */
#include "plan/model/structure.h"

#include "plan/estimate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { STRING_MAX = 255 }; /* of a name that a message or a table will show */

struct uma_model *uma_model_new(uint32_t layers) {
    if (layers > UMA_MODEL_LAYERS_MAX)
        return NULL;
    _cleanup_model_ struct uma_model *model = calloc(1, sizeof *model);
    if (!model)
        return NULL;
    model->layers = calloc(layers ? layers : 1, sizeof *model->layers);
    if (!model->layers)
        return NULL;
    model->layer_count = layers;
    model->norms_per_layer = 2;
    return TAKE_PTR(model);
}

struct uma_model *uma_model_free(struct uma_model *model) {
    if (model) {
        free(model->name);
        free(model->architecture);
        free(model->source);
        free(model->quantisation);
        free(model->layers);
        free(model);
    }
    return NULL;
}

int uma_model_string(char **string, const char *value) {
    char *copy = strndup(value, STRING_MAX);
    if (!copy)
        return -ENOMEM;
    free(*string);
    *string = copy;
    return 0;
}

void uma_model_warn(struct uma_model *model, const char *format, ...) {
    char text[UMA_MODEL_WARNING_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < model->warning_count; i++)
        if (strcmp(model->warnings[i], text) == 0)
            return;
    if (model->warning_count < UMA_MODEL_WARNINGS_MAX)
        memcpy(model->warnings[model->warning_count++], text, sizeof text);
}

uint64_t uma_model_params(const struct uma_model *model) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        sum = uma_plus(sum, model->totals[i].params);
    return sum;
}

uint64_t uma_model_bytes(const struct uma_model *model) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        sum = uma_plus(sum, model->totals[i].bytes);
    return sum;
}

uint64_t uma_class_bytes(const struct uma_model *model, enum uma_class class_, uint64_t params) {
    enum uma_format format = model->class_format[class_];
    return uma_format_bytes(format == UMA_FORMAT_UNKNOWN ? UMA_FORMAT_BF16 : format, params);
}

/* What a quantiser replaces: transformers' quantisers, GPTQ, AWQ and modelopt convert the linears of the decoder's blocks and leave
 * embedding, output projection, norms and router in 16 bits (transformers, utils/quantization_config.py: modules_to_not_convert). */
static bool quantised_class(enum uma_class class_) {
    return class_ == UMA_CLASS_ATTENTION || class_ == UMA_CLASS_MIXER || class_ == UMA_CLASS_MLP || class_ == UMA_CLASS_EXPERTS;
}

void uma_model_set_format(struct uma_model *model, enum uma_format format) {
    bool plain = format == UMA_FORMAT_F32 || format == UMA_FORMAT_F16 || format == UMA_FORMAT_BF16 || format == UMA_FORMAT_F64;
    if (format == UMA_FORMAT_UNKNOWN)
        return;
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++) {
        if (!plain && !quantised_class((enum uma_class)i))
            continue;
        model->class_format[i] = format;
        model->totals[i].bytes = uma_class_bytes(model, (enum uma_class)i, model->totals[i].params);
    }
}
