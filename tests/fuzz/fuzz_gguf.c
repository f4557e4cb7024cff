/* SPDX-License-Identifier: MIT */
/* A GGUF file, by the one way in. Its data may lie beyond what the input holds: the file is as long as its first four bytes say. */
#include "base/cleanup.h"
#include "plan/model/gguf.h"
#include "plan/model/structure.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint32_t longer;
    if (size < sizeof longer)
        return 0;
    memcpy(&longer, data, sizeof longer);
    data += sizeof longer;
    size -= sizeof longer;
    _cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
    char path[64];
    struct uma_error err = { 0 };
    _cleanup_model_ struct uma_model *model = NULL;
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || ftruncate(fd, (off_t)(size + longer)) < 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int e = uma_gguf_open(path, &model, &err);
    if (e < 0 ? model || !err.text[0] || err.code != e : !model)
        __builtin_trap();
    if (!model)
        return 0;
    uint64_t stored = uma_model_bytes(model);
    if (model->layer_count > UMA_MODEL_LAYERS_MAX || (stored > size + longer && stored != UINT64_MAX) ||
        model->largest_tensor > size + longer)
        __builtin_trap();
    struct uma_kv kv;
    uma_kv_cache(model, &(struct uma_kv_options){ .engine = UMA_ENGINE_LLAMA_CPP, .context = 4096 }, &kv);
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (uma_model_linears(model, i, linears) > UMA_LINEARS_PER_LAYER_MAX)
            __builtin_trap();
    return 0;
}
