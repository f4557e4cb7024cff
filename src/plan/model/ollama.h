/* SPDX-License-Identifier: MIT */
/*
 * ollama.h - models in Ollama's store: manifests/HOST/NAMESPACE/NAME/TAG names blobs/sha256-..., one of them a GGUF.
 * Everything in a manifest is text from elsewhere: only digests of the right form are followed, and only inside the store.
 */
#pragma once

#include "base/error.h"
#include "uma_model.h"

/*
 * The manifest of "qwen3", "llama3.1:8b", "hf.co/ORG/REPO:Q4_K_M" or "DIR:NAME:TAG" (DIR: a models folder) in $OLLAMA_MODELS, ~/.ollama/models
 * or /usr/share/ollama/.ollama/models. The path is the caller's to free. -ENOENT when no store has it, or the name is none of Ollama's.
 */
int uma_ollama_find(const char *name, char **ret_manifest_path, struct uma_error *err);
/*
 * The model of a manifest: its GGUF, with the bytes of projectors (UMA_CLASS_VISION) and adapters (adapter_bytes) added.
 * -EINVAL: not a manifest; -ENOENT names the blob that is missing.
 */
int uma_ollama_open(const char *manifest_path, struct uma_model **ret_model, struct uma_error *err);
