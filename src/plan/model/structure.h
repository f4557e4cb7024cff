/* SPDX-License-Identifier: MIT */
/*
 * structure.h - a model built in memory: its allocation, its warnings, and the number of parameters that follow from its shape.
 * For the readers of model files, each of which fills struct uma_model from what it has. Never reads files.
 */
#pragma once

#include "base/cleanup.h"
#include "uma_model.h"

/* Zeroed, with `layers` zeroed layers (at most UMA_MODEL_LAYERS_MAX; 0 is fine) and norms_per_layer 2. NULL when out of memory or beyond it. */
struct uma_model *uma_model_new(uint32_t layers);
static inline void uma_cleanup_model(struct uma_model **model) {
    (void)uma_model_free(*model);
}
#define _cleanup_model_ _cleanup_(uma_cleanup_model)

/* Append a warning; beyond UMA_MODEL_WARNINGS_MAX it is dropped, text is cut at its field's end. A text that stands there already is not repeated. */
void uma_model_warn(struct uma_model *model, const char *format, ...) UMA_PRINTF(2, 3);
/* Replace a string of the model (name, architecture, source, quantisation) by a copy of at most 255 bytes. 0 or -ENOMEM. */
int uma_model_string(char **string, const char *value);

/*
 * Totals of every class from the shape (layers, details, vocab ...) and the classes' formats: params, bytes and a count of matrices. What
 * stood in totals is replaced; class_format UNKNOWN counts as bf16. Sums saturate.
 */
void uma_structure_count(struct uma_model *model);
/* Parameters of one layer, its vectors included (what an MTP layer that repeats it has). */
uint64_t uma_structure_layer_params(const struct uma_model *model, uint32_t layer);
/* Bytes of so many elements in a class's format (UNKNOWN: bf16). */
uint64_t uma_class_bytes(const struct uma_model *model, enum uma_class class_, uint64_t params);
