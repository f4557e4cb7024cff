/* SPDX-License-Identifier: MIT */
/* A tensor's name, in front of it its type and the shape of its part of the file. */
#include "plan/model/structure.h"
#include "plan/model/tensor_class.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4)
        return 0;
    char name[UMA_SAFETENSORS_NAME_MAX + 1];
    size_t n = MIN_OF(size - 4, sizeof(name) - 1);
    (void)memcpy(name, data + 4, n);
    name[n] = '\0';
    struct uma_safetensors_tensor t = { .name = name, .name_length = n, .dtype = (enum uma_dtype)(data[0] % UMA_DTYPE_COUNT) };
    t.dims = data[1] % 10;
    for (unsigned i = 0; i < t.dims && i < UMA_SAFETENSORS_DIMS_KEPT; i++)
        t.shape[i] = data[2];
    t.elements = t.bytes = UINT64_C(1) << data[3] % 64;
    struct uma_packing packing = { .bits = data[1] >> 4, .quantised = data[2] & 1, .fp4_experts = data[2] & 2 };
    struct uma_tensor_storage storage = uma_tensor_storage(&t, &packing);
    if (storage.part != UMA_PART_VALUES && storage.part != UMA_PART_PACKED && storage.params != 0)
        abort(); /* what is no value is no parameter */
    _cleanup_model_ struct uma_model *model = uma_model_new(data[3] % 4);
    bool vector = uma_tensor_is_vector(&t, &storage);
    if ((unsigned)uma_tensor_class(name, n, vector, NULL) >= UMA_CLASS_COUNT ||
        (unsigned)uma_tensor_class(name, n, vector, model) >= UMA_CLASS_COUNT)
        abort();
    if (uma_tensor_layer(name, n) < -1)
        abort();
    return 0;
}
