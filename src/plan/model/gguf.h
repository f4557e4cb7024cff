/* SPDX-License-Identifier: MIT */
/*
 * gguf.h - a model from GGUF files (llama.cpp, Ollama, ik_llama.cpp): header, metadata and the list of tensors; weights are never read.
 * Promises: whatever the files hold, memory stays below 32 MiB, at most UMA_GGUF_HEADER_MAX bytes are read of a file and not much more of all
 * parts of a split model, and every count and length is held against the file's size before it is used.
 */
#pragma once

#include "base/error.h"
#include "uma_model.h"

/* Most bytes read. The largest headers in use (a vocabulary of 262,144 words and its merges) are some 20 MiB. */
enum { UMA_GGUF_HEADER_MAX = 64 << 20 };

/*
 * The model in `path`, any part of a split one. A projector (mmproj) gives a model without layers that has_vision, all its bytes in
 * UMA_CLASS_VISION; a LoRA adapter one without layers and totals, with adapter_rank and adapter_bytes. -ENOENT and other errno of opening;
 * -EINVAL: not GGUF, or malformed; -ENOTSUP: version 1, big-endian, or an importance matrix.
 */
int uma_gguf_open(const char *path, struct uma_model **ret_model, struct uma_error *err);
