/* SPDX-License-Identifier: MIT */
/* A safetensors file, whole or cut: the first byte says how much longer the file claims to be. */
#include "plan/model/folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sums {
    struct uma_folder_sum sum;
    uint64_t tensors, bytes;
};

static int see(void *userdata, const struct uma_safetensors_tensor *t, struct uma_error *err) {
    struct sums *sums = userdata;
    if (t->name_length > UMA_SAFETENSORS_NAME_MAX || t->name[t->name_length] != '\0')
        abort();
    sums->tensors++;
    sums->bytes += t->bytes;
    return uma_folder_sum_add(&sums->sum, t, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    uint64_t behind = (uint64_t)data[0] << 4;
    _cleanup_safetensors_reader_ struct uma_safetensors_reader *reader = uma_safetensors_reader_new();
    _cleanup_free_
    struct sums *sums = calloc(1, sizeof(*sums));
    struct uma_safetensors_file file = { 0 };
    struct uma_error err = { 0 };
    if (!reader || !sums)
        return 0;
    sums->sum.wants_shape = true;
    int r = uma_safetensors_read_memory(reader, (const char *)data + 1, size - 1, size - 1 + behind, "f", see, sums, &file, &err);
    if (r < 0 && err.text[0] == 0)
        abort(); /* a refusal without a reason */
    /* tensors do not lie over each other, so all of them fit into the file */
    if (r == 0 && (file.tensors != sums->tensors || sums->bytes > size - 1 + behind || file.data_end > size - 1 + behind))
        abort();
    struct uma_model *model = NULL;
    if (r == 0 && uma_folder_shape_apply(&sums->sum.shape, &model, NULL) == 0) {
        uma_folder_sum_apply(&sums->sum, model);
        if (uma_model_bytes(model) != sums->bytes)
            abort();
    }
    (void)uma_model_free(model);
    return 0;
}
