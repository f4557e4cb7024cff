/* SPDX-License-Identifier: MIT */
/*
 * stores.h - where models usually lie, and which model a file of such a place is a part of. Names come from folders and manifests: hostile text.
 */
#pragma once

#include "base/arena.h"
#include "base/error.h"
#include "base/root.h"

#include <stdbool.h>

enum uma_store_kind { UMA_STORE_HUB, UMA_STORE_OLLAMA, UMA_STORE_FOLDER };

struct uma_store {
    const char
        *path; /* without links; "/proc/PID/root/..." when only a process of another mount namespace has it; may be a file of weights */
    enum uma_store_kind kind;
};
#define UMA_STORES_MAX 1024

/*
 * Stores that exist and can be entered: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, OLLAMA_MODELS and the like of this process and of running ones (their environment
 * in the snapshot), the same places below every home of /etc/passwd that this user may enter, /usr/share/ollama, LM Studio, llama.cpp, ModelScope, vLLM and
 * PyTorch caches, /models, /data/models, /opt/models, /srv/models, /mnt/models; and the model folders and files that command lines of running processes name.
 * Each real folder once. Nothing is touched that may not answer: what lies on a network or FUSE mount is left out, unless this process's own environment names
 * it. The list with its sources: stores.c. Empty in a folder (--root), whose paths are another machine's.
 */
int uma_stores_find(struct uma_root *root, const struct uma_processes *processes, struct uma_arena *arena, size_t *ret_n,
                    struct uma_store **ret_stores, struct uma_error *err);

/* Names that Ollama gave to blobs: digest -> "llama3.1:8b". */
struct uma_blob_names;
struct uma_blob_names *uma_blob_names_new(void);
struct uma_blob_names *uma_blob_names_free(struct uma_blob_names *names);
/* Read the manifests of one Ollama store (bounded: UMA_BLOB_MANIFESTS_MAX files). Unreadable and malformed ones are passed over and counted in the result. */
int uma_blob_names_add(struct uma_blob_names *names, const char *store, struct uma_error *err);
const char *uma_blob_names_of(const struct uma_blob_names *names, const char *digest_hex);
#define UMA_BLOB_MANIFESTS_MAX 4096

/*
 * The model that the file at `path` is a part of, or NULL: from the path alone (".../models--Qwen--Qwen3-32B/blobs/..." is "Qwen/Qwen3-32B";
 * ".../Qwen3-32B/model-00001-of-00017.safetensors" is "Qwen3-32B"; "x-00001-of-00003.gguf" is "x"; "blobs/sha256-..." by the names). `names` may be NULL.
 * In the arena. Pure.
 */
const char *uma_model_of_path(const char *path, const struct uma_blob_names *names, struct uma_arena *arena);
/* Does the name look like a file of weights (safetensors, gguf, pytorch bin/pt/pth, ckpt, onnx and its data, nemo, engine/plan, distcp, npz, h5, msgpack; a hub or Ollama blob)? Pure. */
bool uma_is_weight_file(const char *path);
