/* SPDX-License-Identifier: MIT */
/* gguf_layers.h - the structure of a model from a GGUF's metadata and, where that is silent, from which tensors its blocks have. Pure. */
#pragma once

#include "plan/model/gguf_metadata.h"
#include "plan/model/gguf_tensors.h"

/* Does llama.cpp, ik_llama.cpp or Ollama have code for general.architecture? */
bool uma_gguf_architecture_known(const char *architecture);

/* How many blocks are layers, and how many MTP layers follow them. */
uint32_t uma_gguf_layer_count(const struct uma_gguf_metadata *metadata, const struct uma_gguf_tensors *tensors);

/*
 * Fill the layers (model->layer_count of them) and all numbers of the shape. Attention tensors of recurrent blocks are counted as the mixer's
 * from here on, in `tensors`.
 */
void uma_gguf_layers_fill(struct uma_model *model, const struct uma_gguf_metadata *metadata, struct uma_gguf_tensors *tensors);
