/* SPDX-License-Identifier: MIT */
/*
 * folder.h - a model out of a folder as Hugging Face lays it out: config.json, an index, safetensors files of which only headers are read. Used
 * by open.c; the pieces below are each other's and their tests'.
 *
 * Bounds, whatever the folder holds: names of at most UMA_FOLDER_NAMES_MAX weight files, UMA_FOLDER_TEXT_MAX of each JSON beside them,
 * UMA_FOLDER_HEADERS_MAX of headers together. Only regular files are opened (links are followed: the hub cache is made of them).
 */
#pragma once

#include "base/error.h"
#include "base/text.h"
#include "plan/model/tensor_class.h"
#include "uma_model.h"

enum { UMA_FOLDER_NAMES_MAX = 16384 };
/* Entries of a folder that are looked at: more is no model's folder, and reading on would take seconds. */
enum { UMA_FOLDER_ENTRIES_MAX = 1000000 };
/* Configurations with a list of every layer that is not quantised reach 3 MB. */
#define UMA_FOLDER_TEXT_MAX (UINT64_C(4) << 20)
/* Values in a configuration, because a JSON tree takes up to 200 bytes for each; the 3 MB one has 67,000. */
enum { UMA_FOLDER_VALUES_MAX = 200000 };
/* An index is streamed, not kept; the million tensors of the largest checkpoints take some 110 MB. */
#define UMA_FOLDER_INDEX_MAX (UINT64_C(128) << 20)
/* All headers of a model together: those of a million tensors take 170 MB, and all there is more than a second to read. */
#define UMA_FOLDER_HEADERS_MAX (UINT64_C(192) << 20)

/* ---- single files (folder_file.c) --------------------------------------------------------------------------- */

/* Open a regular file in `folder` (AT_FDCWD: `name` is a path). `path` is what messages call it. */
int uma_folder_open_file(int folder, const char *name, const char *path, int *ret_fd, uint64_t *ret_size, struct uma_error *err);
/* The same, read whole: at most `max` bytes, -EFBIG beyond. */
int uma_folder_read_file(int folder, const char *name, const char *path, uint64_t max, struct uma_text *into, struct uma_error *err);
/* What follows the last slash of a path; and the folder that stands before it, "." without one: malloc'ed, NULL when out of memory. */
const char *uma_folder_file_name(const char *path);
char *uma_folder_of(const char *path);
/* "FOLDER/NAME", for messages; malloc'ed. NULL when out of memory. */
char *uma_folder_path(const char *folder, const char *name);

/* ---- names (folder_names.c) --------------------------------------------------------------------------------- */

struct uma_folder_names {
    char **names;
    size_t count, capacity;
};

struct uma_folder_list {
    struct uma_folder_names safetensors, pickles, ggufs, indexes; /* *.safetensors, pytorch_model*.bin, *.gguf, *.safetensors.index*.json */
    bool has_config, has_adapter_config, has_snapshots;
};

int uma_folder_list_read(int folder, const char *path, struct uma_folder_list *ret_list, struct uma_error *err);
void uma_folder_list_done(struct uma_folder_list *list);
int uma_folder_names_add(struct uma_folder_names *names, const char *name, size_t length); /* -E2BIG, -ENOMEM */
bool uma_folder_names_have(const struct uma_folder_names *names, const char *name);
void uma_folder_names_sort(struct uma_folder_names *names);
void uma_folder_names_done(struct uma_folder_names *names);
/* Of a set "NAME-00002-of-00005.safetensors". */
bool uma_folder_name_is_numbered(const char *name);
/* Another copy of the same weights (consolidated*, *.fp16.*), or no weights at all (adapters, optimizer states): may lie beside them. */
bool uma_folder_name_is_beside(const char *name);
/*
 * Which of the list's safetensors are the weights when no index says so: model.safetensors alone, or a numbered set, or all but adapters, optimizer
 * states, second copies (consolidated*, *.fp16.*). -ENOENT names the missing parts of a numbered set.
 */
int uma_folder_choose(const struct uma_folder_list *list, const char *path, struct uma_folder_names *ret_chosen, struct uma_error *err);

/* ---- the index (folder_index.c) ----------------------------------------------------------------------------- */

struct uma_folder_index {
    struct uma_folder_names files; /* each once, sorted */
    uint64_t tensors;
    uint64_t total_size; /* 0: not stated */
};

/* model.safetensors.index.json of `size` bytes from an open file. Names that lead out of the folder are refused. */
int uma_folder_index_read(int fd, uint64_t size, const char *path, struct uma_folder_index *ret_index, struct uma_error *err);
int uma_folder_index_parse(const char *text, size_t length, const char *path, struct uma_folder_index *ret_index, struct uma_error *err);

/* ---- the configuration (folder_config.c) -------------------------------------------------------------------- */

/* Check a JSON text before a tree is made of it (depth, number of values), and take from it how values are packed. */
int uma_folder_config_check(const char *text, size_t length, const char *path, struct uma_packing *ret_packing, struct uma_error *err);
/*
 * The model of config.json and hf_quant_config.json in a folder. -ENOENT when there is no config.json. 1: the file is sound, but says too
 * little to make a model of (what is missing stands in err); *ret_model is NULL, *ret_packing is set.
 */
int uma_folder_config_read(int folder, const char *path, struct uma_model **ret_model, struct uma_packing *ret_packing,
                           struct uma_error *err);

/* ---- sums (folder_sum.c, folder_shape.c) -------------------------------------------------------------------- */

/* What tensors' shapes say of a model without a (whole) configuration. */
struct uma_folder_shape {
    uint64_t vocab, hidden;
    uint32_t layers, experts;
    uint64_t q, k, v, o;      /* outputs of q, k, v projections; inputs of o */
    uint64_t head_dim;        /* of a q or k norm */
    uint64_t kv_a, kv_latent; /* MLA: output of the first KV projection, width of its norm */
    uint64_t q_a;
    uint64_t ffn, expert_ffn, shared_ffn;
    bool gated;
};
void uma_folder_shape_see(struct uma_folder_shape *shape, const struct uma_safetensors_tensor *tensor, enum uma_class class_,
                          const struct uma_tensor_storage *storage);
/* Fill what the model lacks of hidden, vocab and layers. */
int uma_folder_shape_apply(const struct uma_folder_shape *shape, struct uma_model **model, struct uma_error *err);

struct uma_folder_sum {
    const struct uma_model *model; /* or NULL */
    struct uma_packing packing;
    struct uma_tensor_total totals[UMA_CLASS_COUNT];
    uint64_t format_params[UMA_CLASS_COUNT][UMA_FORMAT_COUNT];
    uint64_t packed_params[UMA_CLASS_COUNT][UMA_PACKED_AS_COUNT];
    uint64_t scales[UMA_CLASS_COUNT];
    bool absmax, double_quantised;
    uint64_t largest_tensor, unknown_types;
    char unknown_type[24];
    uint32_t mtp_last_layer; /* 1 + the highest number of an MTP layer that stands behind the others */
    bool wants_shape;
    struct uma_folder_shape shape;
};
/* uma_safetensors_each; userdata: a struct uma_folder_sum. */
int uma_folder_sum_add(void *userdata, const struct uma_safetensors_tensor *t, struct uma_error *err);
/* The sums become the model's: totals, formats, tied, towers and MTP as they are in the files. */
void uma_folder_sum_apply(const struct uma_folder_sum *sum, struct uma_model *model);

/* ---- adapters (folder_adapter.c) ---------------------------------------------------------------------------- */

struct uma_folder_adapter {
    uint32_t rank;
    uint64_t bytes;
    char base[512]; /* base_model_name_or_path; "" when not stated */
};
int uma_folder_adapter_parse(const char *text, size_t length, const char *path, struct uma_folder_adapter *ret_adapter,
                             struct uma_error *err);
/* adapter_config.json and adapter_model.safetensors (or .bin) of a folder. */
int uma_folder_adapter_read(int folder, const char *path, struct uma_folder_adapter *ret_adapter, struct uma_error *err);

/* ---- the folder (folder.c) ---------------------------------------------------------------------------------- */

enum uma_folder_kind {
    UMA_FOLDER_MODEL = 0, /* *ret_model is the model */
    UMA_FOLDER_ADAPTER,   /* the folder is an adapter only: *ret_adapter says of what */
    UMA_FOLDER_SNAPSHOTS, /* a hub cache folder: its model is in a folder below snapshots/ */
    UMA_FOLDER_GGUF,      /* *ret_file, malloc'ed, is the GGUF to open */
};
/* Returns a kind. */
int uma_folder_read(const char *path, struct uma_model **ret_model, struct uma_folder_adapter *ret_adapter, char **ret_file,
                    struct uma_error *err);
/* One .safetensors file, with the configuration beside it if there is one. */
int uma_folder_read_single(const char *path, struct uma_model **ret_model, struct uma_error *err);
