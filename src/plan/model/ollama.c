/* SPDX-License-Identifier: MIT */
#include "plan/model/ollama.h"

#include "base/text.h"
#include "observe/files/ollama_manifest.h"
#include "observe/json_tree.h"
#include "plan/estimate.h"
#include "plan/model/folder.h"
#include "plan/model/gguf.h"
#include "plan/model/structure.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* ---- names -------------------------------------------------------------------------------------------------- */

/* MaxNamePartLen and isValidPart of types/model/name.go of ollama/ollama; a part is a folder's name here, so none begins with a dot. */
static bool valid_part(const char *s, size_t n) {
    if (n == 0 || n > 128 || s[0] == '.')
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '.' && c != '-' && c != '_')
            return false;
    }
    return true;
}

/* "NAME[:TAG]", "NAMESPACE/NAME" or "HOST/NAMESPACE/NAME" as the path below manifests/. False: none of Ollama's names. */
static bool manifest_below(const char *name, struct uma_text *ret_path) {
    const char *end = name + strlen(name), *colon = strrchr(name, ':');
    if (colon && strchr(colon, '/')) /* a port of the host */
        colon = NULL;
    const char *tag = colon ? colon + 1 : "latest", *stop = colon ? colon : end;
    size_t slashes = 0;
    for (const char *p = name; p < stop; p++)
        slashes += *p == '/';
    if (slashes > 2 || !valid_part(tag, strlen(tag)))
        return false;
    uma_text_append(ret_path, slashes < 2 ? "registry.ollama.ai/" : "");
    uma_text_append(ret_path, slashes < 1 ? "library/" : "");
    for (const char *part = name; part <= stop;) {
        const char *slash = memchr(part, '/', (size_t)(stop - part)), *part_end = slash ? slash : stop;
        if (!valid_part(part, (size_t)(part_end - part)))
            return false;
        uma_text_append_n(ret_path, part, (size_t)(part_end - part));
        uma_text_char(ret_path, '/');
        part = part_end + 1;
    }
    uma_text_append(ret_path, tag);
    return !ret_path->failed;
}

static bool is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_store(const char *path) {
    _cleanup_text_ struct uma_text manifests = { 0 };
    struct stat st;
    uma_text_printf(&manifests, "%s/manifests", path);
    return !manifests.failed && stat(manifests.data, &st) == 0 && S_ISDIR(st.st_mode);
}

/* 1: found, 0: not there. */
static int look_in(const char *store, const char *name, char **ret_path) {
    _cleanup_text_ struct uma_text below = { 0 }, path = { 0 };
    if (!manifest_below(name, &below))
        return below.failed ? -ENOMEM : 0;
    uma_text_printf(&path, "%s/manifests/%s", store, below.data);
    if (path.failed)
        return -ENOMEM;
    if (!is_file(path.data))
        return 0;
    *ret_path = TAKE_PTR(path.data);
    return 1;
}

/* DIR:NAME:TAG. DIR may have colons of its own: the first that leaves a store before it counts. */
static int look_in_named_store(const char *name, char **ret_path) {
    for (const char *colon = name; (colon = strchr(colon, ':')); colon++) {
        _cleanup_text_ struct uma_text store = { 0 };
        uma_text_append_n(&store, name, (size_t)(colon - name));
        if (store.failed)
            return -ENOMEM;
        if (store.length && is_store(store.data))
            return look_in(store.data, colon + 1, ret_path);
    }
    return 0;
}

static int look_everywhere(const char *name, char **ret_path) {
    int r = look_in_named_store(name, ret_path);
    const char *set = getenv("OLLAMA_MODELS"), *home = getenv("HOME");
    if (r == 0 && set && set[0])
        r = look_in(set, name, ret_path);
    if (r == 0 && home && home[0]) {
        _cleanup_text_ struct uma_text store = { 0 };
        uma_text_printf(&store, "%s/.ollama/models", home);
        r = store.failed ? -ENOMEM : look_in(store.data, name, ret_path);
    }
    /* the service's own user, as Ollama's install script makes it */
    return r == 0 ? look_in("/usr/share/ollama/.ollama/models", name, ret_path) : r;
}

int uma_ollama_find(const char *name, char **ret_manifest_path, struct uma_error *err) {
    int r = look_everywhere(name, ret_manifest_path);
    if (r < 0)
        return uma_error_set(err, -r, "cannot look for the Ollama model \"%s\"", name);
    if (r == 0)
        return uma_error_text(err, ENOENT, "no Ollama store here has a model \"%s\"", name);
    return 0;
}

/* ---- manifests ---------------------------------------------------------------------------------------------- */

/* The store that a manifest lies in, and its "NAME:TAG". */
static bool store_of(const char *manifest_path, struct uma_text *ret_store, struct uma_text *ret_name) {
    static const char folder[] = "manifests/";
    const char *found = NULL;
    for (const char *p = manifest_path; (p = strstr(p, folder)); p++)
        if (p == manifest_path || p[-1] == '/')
            found = p;
    if (!found)
        return false;
    uma_text_append_n(ret_store, manifest_path, (size_t)(found - manifest_path));
    uma_text_append(ret_store, "./");
    const char *tag = strrchr(manifest_path, '/');
    const char *name = tag;
    while (name > found && name[-1] != '/')
        name--;
    uma_text_append_n(ret_name, name, (size_t)(tag - name));
    uma_text_printf(ret_name, ":%s", tag + 1);
    return true;
}

struct blobs {
    const char *store;
    struct uma_text path; /* of the last one asked for */
};

static void blobs_done(struct blobs *blobs) {
    uma_text_done(&blobs->path);
}

static int blob_path(struct blobs *blobs, const struct uma_ollama_layer *layer, struct uma_error *err) {
    uma_text_reset(&blobs->path);
    uma_text_printf(&blobs->path, "%sblobs/sha256-%s", blobs->store, layer->digest);
    return blobs->path.failed ? uma_error_set(err, ENOMEM, "cannot read the store %s", blobs->store) : 0;
}

static void add_files(struct uma_model *model, const struct uma_model *part) {
    model->file_count += part->file_count;
    model->file_bytes = uma_plus(model->file_bytes, part->file_bytes);
    model->largest_file = MAX_OF(model->largest_file, part->largest_file);
    model->largest_tensor = MAX_OF(model->largest_tensor, part->largest_tensor);
}

static void add_projector(struct uma_model *model, const struct uma_model *projector) {
    struct uma_tensor_total *total = &model->totals[UMA_CLASS_VISION];
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++) {
        total->tensors = uma_plus(total->tensors, projector->totals[i].tensors);
        total->params = uma_plus(total->params, projector->totals[i].params);
        total->bytes = uma_plus(total->bytes, projector->totals[i].bytes);
    }
    model->has_vision = true;
    model->class_format[UMA_CLASS_VISION] = projector->class_format[UMA_CLASS_VISION];
    model->vision_hidden = projector->vision_hidden;
    model->vision_layers = projector->vision_layers;
    model->vision_tokens = projector->vision_tokens;
    add_files(model, projector);
}

static int add_adapter(struct uma_model *model, const char *path, struct uma_error *err) {
    _cleanup_model_ struct uma_model *adapter = NULL;
    struct stat st;
    int e = uma_gguf_open(path, &adapter, err);
    if (e >= 0) {
        uint64_t bytes = adapter->adapter_bytes ? adapter->adapter_bytes : uma_model_bytes(adapter);
        model->adapter_bytes = uma_plus(model->adapter_bytes, bytes);
        model->adapter_rank = MAX_OF(model->adapter_rank, adapter->adapter_rank);
        add_files(model, adapter);
        return 0;
    }
    if (e != -EINVAL || stat(path, &st) < 0)
        return e;
    /* the format before GGUF ("ggla"): nearly all of the file is weights */
    uma_model_warn(model, "the adapter %s is not GGUF: its file's size is taken", path);
    model->adapter_bytes = uma_plus(model->adapter_bytes, (uint64_t)st.st_size);
    return 0;
}

/* {"num_ctx": 8192, ...}: what a Modelfile sets. Not readable or without it: nothing is set. */
static void add_params(struct uma_model *model, const char *path) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (uma_folder_read_file(AT_FDCWD, path, path, UMA_OLLAMA_MANIFEST_MAX, &text, NULL) < 0)
        return;
    _cleanup_json_ json_t *params = json_loadb(text.data, text.length, 0, NULL);
    json_int_t context = json_integer_value(json_object_get(params, "num_ctx"));
    if (context > 0)
        model->default_context = (uint64_t)context;
}

static int add_layer(struct uma_model *model, struct blobs *blobs, const struct uma_ollama_layer *layer, struct uma_error *err) {
    int e = blob_path(blobs, layer, err);
    if (e < 0)
        return e;
    if (layer->kind == UMA_OLLAMA_PARAMS)
        add_params(model, blobs->path.data);
    else if (layer->kind == UMA_OLLAMA_ADAPTER)
        return add_adapter(model, blobs->path.data, err);
    else if (layer->kind == UMA_OLLAMA_PROJECTOR) {
        _cleanup_model_ struct uma_model *projector = NULL;
        if ((e = uma_gguf_open(blobs->path.data, &projector, err)) < 0)
            return e;
        add_projector(model, projector);
    }
    return 0;
}

static int open_layers(const char *manifest_path, struct blobs *blobs, const struct uma_ollama_layer *layers, size_t count,
                       struct uma_model **ret_model, struct uma_error *err) {
    _cleanup_model_ struct uma_model *model = NULL;
    int e;
    for (size_t i = 0; i < count; i++) {
        if (layers[i].kind == UMA_OLLAMA_TENSOR)
            return uma_error_text(err, ENOTSUP, "%s: the weights of this model are not in a GGUF", manifest_path);
        if (layers[i].kind != UMA_OLLAMA_MODEL)
            continue;
        if (model)
            return uma_error_text(err, ENOTSUP, "%s: a model of more than one file", manifest_path);
        if ((e = blob_path(blobs, &layers[i], err)) < 0 || (e = uma_gguf_open(blobs->path.data, &model, err)) < 0)
            return e;
    }
    if (!model)
        return uma_error_text(err, EINVAL, "%s names no model", manifest_path);
    for (size_t i = 0; i < count; i++)
        if ((e = add_layer(model, blobs, &layers[i], err)) < 0)
            return e;
    *ret_model = TAKE_PTR(model);
    return 0;
}

int uma_ollama_open(const char *manifest_path, struct uma_model **ret_model, struct uma_error *err) {
    struct uma_ollama_layer layers[UMA_OLLAMA_LAYERS_MAX];
    size_t count;
    _cleanup_text_ struct uma_text text = { 0 }, store = { 0 }, name = { 0 };
    int e = uma_folder_read_file(AT_FDCWD, manifest_path, manifest_path, UMA_OLLAMA_MANIFEST_MAX, &text, err);
    if (e < 0)
        return e;
    if ((e = uma_ollama_manifest_parse(manifest_path, text.data, text.length, layers, &count, err)) < 0)
        return e;
    if (!store_of(manifest_path, &store, &name))
        return uma_error_text(err, EINVAL, "%s does not lie in a \"manifests\" folder: its blobs cannot be found", manifest_path);
    if (store.failed || name.failed)
        return uma_error_set(err, ENOMEM, "cannot read %s", manifest_path);
    _cleanup_model_ struct uma_model *model = NULL;
    _cleanup_(blobs_done) struct blobs blobs = { .store = store.data };
    if ((e = open_layers(manifest_path, &blobs, layers, count, &model, err)) < 0)
        return e;
    char source[UMA_MODEL_WARNING_TEXT];
    snprintf(source, sizeof source, "tensors of %s in Ollama's store", name.data);
    if (uma_model_string(&model->name, name.data) < 0 || uma_model_string(&model->source, source) < 0)
        return uma_error_set(err, ENOMEM, "cannot read %s", manifest_path);
    *ret_model = TAKE_PTR(model);
    return 0;
}
