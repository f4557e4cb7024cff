/* SPDX-License-Identifier: MIT */
/* config_quant.h - what a quantiser's list of module names and patterns means for a model's matrices. Pure functions of a name. */
#pragma once

#include "uma_model.h"

#define UMA_ATTENTION_ROLES                                                                                                                \
    ((uint32_t)(UMA_LINEAR_BIT(UMA_LINEAR_Q) | UMA_LINEAR_BIT(UMA_LINEAR_K) | UMA_LINEAR_BIT(UMA_LINEAR_V) |                               \
                UMA_LINEAR_BIT(UMA_LINEAR_O) | UMA_LINEAR_BIT(UMA_LINEAR_Q_A) | UMA_LINEAR_BIT(UMA_LINEAR_Q_B) |                           \
                UMA_LINEAR_BIT(UMA_LINEAR_KV_A) | UMA_LINEAR_BIT(UMA_LINEAR_KV_B) | UMA_LINEAR_BIT(UMA_LINEAR_INDEX)))
#define UMA_FFN_ROLES                                                                                                                      \
    ((uint32_t)(UMA_LINEAR_BIT(UMA_LINEAR_GATE) | UMA_LINEAR_BIT(UMA_LINEAR_UP) | UMA_LINEAR_BIT(UMA_LINEAR_DOWN) |                        \
                UMA_LINEAR_BIT(UMA_LINEAR_SHARED_GATE) | UMA_LINEAR_BIT(UMA_LINEAR_SHARED_UP) | UMA_LINEAR_BIT(UMA_LINEAR_SHARED_DOWN) |   \
                UMA_LINEAR_BIT(UMA_LINEAR_EXPERT_GATE) | UMA_LINEAR_BIT(UMA_LINEAR_EXPERT_UP) | UMA_LINEAR_BIT(UMA_LINEAR_EXPERT_DOWN) |   \
                UMA_LINEAR_BIT(UMA_LINEAR_ROUTER)))

/* Bits of the roles that a module's name covers; UINT32_MAX: the whole layer; 0: none of them. `experts_apart`: the
 * experts stand beside a module called mlp, not in it (Gemma 4). */
uint32_t uma_config_module_roles(const char *name, bool experts_apart);
/* Is it of a vision or audio tower? */
bool uma_config_module_is_tower(const char *name);
/* The number after "layers."; -1 when the name is for all layers. */
int64_t uma_config_module_layer(const char *name);
