/* SPDX-License-Identifier: MIT */
/* A manifest of Ollama's store: whatever it says, a digest is 64 hexadecimal digits and nothing else. */
#include "observe/files/ollama_manifest.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_ollama_layer layers[UMA_OLLAMA_LAYERS_MAX];
    struct uma_error err = { 0 };
    size_t count = 0;
    int e = uma_ollama_manifest_parse("fuzz", (const char *)data, size, layers, &count, &err);
    if (e < 0 ? !err.text[0] || count : count > UMA_OLLAMA_LAYERS_MAX)
        __builtin_trap();
    for (size_t i = 0; i < count; i++)
        if (strlen(layers[i].digest) != 64 || strspn(layers[i].digest, "0123456789abcdef") != 64)
            __builtin_trap();
    return 0;
}
