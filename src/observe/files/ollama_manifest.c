/* SPDX-License-Identifier: MIT */
#include "observe/files/ollama_manifest.h"

#include "observe/files/model_words.h"
#include "observe/json_tree.h"

#include <string.h>

/* "application/vnd.ollama.image.model", possibly with parameters behind a semicolon (server/internal/manifest of ollama/ollama). */
static bool kind_of(const char *media_type, enum uma_ollama_kind *ret_kind) {
    static const char prefix[] = "application/vnd.ollama.image.";
    static const struct {
        const char *name;
        enum uma_ollama_kind kind;
    } kinds[] = {
        { "model", UMA_OLLAMA_MODEL },   { "projector", UMA_OLLAMA_PROJECTOR }, { "adapter", UMA_OLLAMA_ADAPTER },
        { "params", UMA_OLLAMA_PARAMS }, { "tensor", UMA_OLLAMA_TENSOR },
    };
    if (strncmp(media_type, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *name = media_type + sizeof prefix - 1;
    size_t length = strcspn(name, "; ");
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (strlen(kinds[i].name) == length && strncmp(name, kinds[i].name, length) == 0) {
            *ret_kind = kinds[i].kind;
            return true;
        }
    return false;
}

/* "sha256:" or "sha256-" in small letters and 64 hexadecimal digits to the end; nothing else may become part of a path. */
static bool digest_of(const char *text, char ret_digest[65]) {
    struct uma_word word = { text, strlen(text) };
    return strncmp(text, "sha256", 6) == 0 && word.length == 7 + 64 && uma_word_digest(word, ret_digest);
}

int uma_ollama_manifest_parse(const char *path, const char *text, size_t length, struct uma_ollama_layer ret_layers[UMA_OLLAMA_LAYERS_MAX],
                              size_t *ret_count, struct uma_error *err) {
    struct uma_ollama_layer layers[UMA_OLLAMA_LAYERS_MAX];
    json_error_t where;
    size_t count = 0, tensors = 0;
    if (length > UMA_OLLAMA_MANIFEST_MAX)
        return uma_error_text(err, EINVAL, "%s is longer than %d KiB: not a manifest of Ollama", path, UMA_OLLAMA_MANIFEST_MAX >> 10);
    _cleanup_json_ json_t *manifest = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    if (!manifest)
        return uma_error_text(err, EINVAL, "%s is not a manifest of Ollama: line %d: %s", path, where.line, where.text);
    const json_t *list = json_object_get(manifest, "layers");
    if (!json_is_array(list))
        return uma_error_text(err, EINVAL, "%s is not a manifest of Ollama: it has no \"layers\"", path);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *layer = json_array_get(list, i);
        const char *media_type = json_string_value(json_object_get(layer, "mediaType"));
        const char *digest = json_string_value(json_object_get(layer, "digest"));
        enum uma_ollama_kind kind;
        if (!media_type || !digest)
            return uma_error_text(err, EINVAL, "%s: layer %zu has no \"mediaType\" or no \"digest\"", path, i);
        if (!kind_of(media_type, &kind) || (kind == UMA_OLLAMA_TENSOR && tensors++ > 0))
            continue;
        if (count == UMA_OLLAMA_LAYERS_MAX)
            return uma_error_text(err, EINVAL, "%s: more than %d layers", path, UMA_OLLAMA_LAYERS_MAX);
        if (!digest_of(digest, layers[count].digest))
            return uma_error_text(err, EINVAL, "%s: layer %zu: \"%.80s\" is not a digest", path, i, digest);
        layers[count++].kind = kind;
    }
    memcpy(ret_layers, layers, count * sizeof *layers);
    *ret_count = count;
    return 0;
}
