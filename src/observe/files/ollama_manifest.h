/* SPDX-License-Identifier: MIT */
/*
 * ollama_manifest.h - what a manifest of Ollama's store says: which blobs a model is made of. Everything in it is text from elsewhere: only digests of
 * the right form leave the parser, so that a digest may become a part of a path.
 */
#pragma once

#include "base/error.h"

#include <stddef.h>

enum uma_ollama_kind {
    UMA_OLLAMA_MODEL = 0,
    UMA_OLLAMA_PROJECTOR,
    UMA_OLLAMA_ADAPTER,
    UMA_OLLAMA_PARAMS,
    UMA_OLLAMA_TENSOR, /* weights that are not in a GGUF */
};

enum { UMA_OLLAMA_MANIFEST_MAX = 64 << 10, UMA_OLLAMA_LAYERS_MAX = 64 };

struct uma_ollama_layer {
    enum uma_ollama_kind kind;
    char digest[65]; /* 64 hexadecimal digits, in lower case */
};

/*
 * The layers of a manifest that matter here; templates, licences and the like are passed over. `path` is for messages; -EINVAL.
 */
int uma_ollama_manifest_parse(const char *path, const char *text, size_t length, struct uma_ollama_layer ret_layers[UMA_OLLAMA_LAYERS_MAX],
                              size_t *ret_count, struct uma_error *err);
