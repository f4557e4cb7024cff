/* SPDX-License-Identifier: MIT */
/* Formats of the weights: torch_dtype, quantization_config, hf_quant_config.json. */
#include "plan/model/config.h"

#include "plan/estimate.h"

#include <string.h>

void uma_config_formats(struct uma_config *config) {
    const char *name = uma_config_string(config, "torch_dtype|dtype");
    enum uma_format format = name ? uma_format_from_name(name) : UMA_FORMAT_UNKNOWN;
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++)
        config->model->class_format[i] = format == UMA_FORMAT_UNKNOWN ? UMA_FORMAT_BF16 : format;
}

void uma_config_quantise(struct uma_config *config, const json_t *quant) {
    (void)config;
    (void)quant;
}
