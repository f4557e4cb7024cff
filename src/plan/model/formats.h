/* SPDX-License-Identifier: MIT */
/* formats.h - names of GGUF file types, for what llama-quantize's recipes make of a model. Pure. */
#pragma once

#include "uma_model.h"

/*
 * The file type of this name: its short form as in the table of formats.c ("q4km"), or "" for a plain tensor type without a recipe of its own
 * ("IQ4_KS"). False when the name is none of a GGUF file.
 */
bool uma_file_type_find(const char *name, const char **ret_short, enum uma_format *ret_base);
