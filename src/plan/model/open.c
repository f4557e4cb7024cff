/* SPDX-License-Identifier: MIT */
#include "plan/model/open.h"

#include "plan/model/folder.h"
#include "plan/model/gguf.h"
#include "plan/model/ollama.h"
#include "plan/model/structure.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* An adapter leads to its base model, and that is then a model: nothing leads further. */
enum { STEPS_MAX = 2 };

static int open_any(const char *path, unsigned steps, struct uma_model **ret_model, struct uma_error *err);

/* ---- folders ------------------------------------------------------------------------------------------------ */

/* The adapter's numbers go onto its base model. */
static int open_base(const char *path, const struct uma_folder_adapter *adapter, unsigned steps, struct uma_model **ret_model,
                     struct uma_error *err) {
    struct uma_model *model = NULL;
    struct uma_error why = { 0 };
    char source[256];
    if (!*adapter->base)
        return uma_error_text(err, EINVAL, "%s: an adapter whose adapter_config.json names no base model; give the base model", path);
    if (steps + 1 >= STEPS_MAX)
        return uma_error_text(err, ELOOP, "%s: an adapter where a base model was expected", path);
    int r = open_any(adapter->base, steps + 1, &model, &why);
    if (!model)
        return uma_error_text(err, -r, "%.120s is an adapter of \"%.100s\", which cannot be read; give its folder. %.200s", path,
                              adapter->base, why.text);
    model->adapter_rank = adapter->rank;
    model->adapter_bytes = adapter->bytes;
    (void)snprintf(source, sizeof(source), "adapter %.80s on %.150s", path, model->source ? model->source : adapter->base);
    if (uma_model_string(&model->source, source) < 0) {
        (void)uma_model_free(model);
        return uma_error_set(err, ENOMEM, "%s", path);
    }
    *ret_model = model;
    return 0;
}

static int open_folder(const char *path, unsigned steps, struct uma_model **ret_model, struct uma_error *err) {
    struct uma_folder_adapter adapter;
    _cleanup_free_
    char *file = NULL, *snapshot = NULL;
    int r = uma_folder_read(path, ret_model, &adapter, &file, err);
    if (r == UMA_FOLDER_SNAPSHOTS) {
        r = uma_open_hub_snapshot(path, &snapshot, err);
        if (r == 0)
            r = uma_folder_read(snapshot, ret_model, &adapter, &file, err);
        if (r == UMA_FOLDER_SNAPSHOTS)
            return uma_error_text(err, EINVAL, "%s: neither config.json nor weights in this folder", snapshot);
    }
    if (r == UMA_FOLDER_ADAPTER)
        return open_base(snapshot ? snapshot : path, &adapter, steps, ret_model, err);
    return r == UMA_FOLDER_GGUF ? uma_gguf_open(file, ret_model, err) : r;
}

/* ---- files -------------------------------------------------------------------------------------------------- */

/* A configuration alone. */
static int open_config(const char *path, struct uma_model **ret_model, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_packing packing = { 0 };
    char source[256];
    int r = uma_folder_read_file(AT_FDCWD, path, path, UMA_FOLDER_TEXT_MAX, &text, err);
    if (r == 0)
        r = uma_folder_config_check(text.data, text.length, path, &packing, err);
    struct uma_model *model = NULL;
    if (r == 0 && strcmp(uma_folder_file_name(path), "config.json") == 0) {
        _cleanup_free_
        char *folder = uma_folder_of(path);
        _cleanup_close_ int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (fd < 0)
            return uma_error_set(err, errno, "%s", path);
        r = uma_folder_config_read(fd, folder, &model, &packing, err);
        r = r == 1 ? -EINVAL : r;
    } else if (r == 0)
        r = uma_model_from_config(path, text.data, text.length, NULL, 0, &model, err);
    if (r < 0)
        return r;
    (void)snprintf(source, sizeof(source), "%.250s", path);
    if (uma_model_string(&model->source, source) < 0) {
        (void)uma_model_free(model);
        return uma_error_set(err, ENOMEM, "%s", path);
    }
    *ret_model = model;
    return 0;
}

/* The first bytes of a file whose name tells nothing. */
static int sniff(const char *path, char ret_head[4], struct uma_error *err) {
    _cleanup_close_ int fd = -1;
    uint64_t size = 0;
    (void)memset(ret_head, 0, 4);
    int r = uma_folder_open_file(AT_FDCWD, path, path, &fd, &size, err);
    if (r < 0)
        return r;
    return pread(fd, ret_head, 4, 0) < 0 ? uma_error_set(err, errno, "%s: cannot read it", path) : 0;
}

static int open_file(const char *path, unsigned steps, struct uma_model **ret_model, struct uma_error *err) {
    const char *name = uma_folder_file_name(path);
    char head[4];
    /* one file of a model of many, or what lies beside its weights, stands for the folder */
    if (uma_folder_name_is_numbered(name) || strncmp(name, "adapter_", 8) == 0 || strstr(name, ".safetensors.index") ||
        (strncmp(name, "pytorch_model", 13) == 0 && uma_ends_with(name, ".bin"))) {
        _cleanup_free_
        char *folder = uma_folder_of(path);
        return folder ? open_folder(folder, steps, ret_model, err) : uma_error_set(err, ENOMEM, "%s", path);
    }
    if (uma_ends_with(name, ".safetensors"))
        return uma_folder_read_single(path, ret_model, err);
    if (uma_ends_with(name, ".json"))
        return open_config(path, ret_model, err);
    int r = sniff(path, head, err);
    if (r < 0)
        return r;
    if (uma_ends_with(name, ".gguf") || memcmp(head, "GGUF", 4) == 0)
        return uma_gguf_open(path, ret_model, err);
    if (head[0] == '{') /* Ollama's manifests are JSON, and have a tag for a name */
        return uma_ollama_open(path, ret_model, err);
    return uma_error_text(err, EINVAL, "%s: a folder, a .safetensors or .gguf file, a config.json or an Ollama manifest was expected",
                          path);
}

/* ---- names -------------------------------------------------------------------------------------------------- */

static int open_name(const char *name, unsigned steps, struct uma_model **ret_model, struct uma_error *err) {
    _cleanup_free_
    char *cache = uma_open_hub_cache(), *snapshot = NULL, *manifest = NULL;
    struct uma_error why = { 0 };
    int r = cache ? uma_open_hub_find(cache, name, &snapshot, err) : -ENOENT;
    if (r == 0)
        return open_folder(snapshot, steps, ret_model, err);
    if (r != -ENOENT)
        return r;
    if (uma_ollama_find(name, &manifest, &why) == 0)
        return uma_ollama_open(manifest, ret_model, err);
    r = uma_model_builtin(name, ret_model, &why);
    if (r == 0)
        return 0;
    return uma_error_text(
        err, ENOENT,
        "%.100s: no such file or folder, and no model of that name in the hub cache (%.100s), in Ollama's store or among the "
        "built-in shapes%s%.160s",
        name, cache ? cache : "none", *why.text ? ". " : "", why.text);
}

static int open_any(const char *path, unsigned steps, struct uma_model **ret_model, struct uma_error *err) {
    struct stat st;
    if (stat(path, &st) < 0) {
        struct stat link;
        if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG)
            return uma_error_set(err, errno, "%s: cannot open it", path);
        if (lstat(path, &link) == 0)
            return uma_error_text(err, ENOENT, "%s: a link to what is not there", path);
        return open_name(path, steps, ret_model, err);
    }
    if (S_ISDIR(st.st_mode))
        return open_folder(path, steps, ret_model, err);
    if (!S_ISREG(st.st_mode))
        return uma_error_text(err, EINVAL, "%s: neither a folder nor a regular file", path);
    return open_file(path, steps, ret_model, err);
}

int uma_model_open(const char *path, struct uma_model **ret_model, struct uma_error *err) {
    if (!path || !*path)
        return uma_error_text(err, EINVAL, "no model: a folder, a file or a name was expected");
    return open_any(path, 0, ret_model, err);
}
