/* SPDX-License-Identifier: MIT */
/* A model's name as a user or a file gives it. */
#include "plan/model/builtin.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *name = strndup((const char *)data, size);
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    if (name && uma_model_builtin(name, &model, &err) == 0) {
        if (uma_model_params(model) == 0)
            abort();
        uma_model_free(model);
    } else if (name && err.text[0] == 0)
        abort();
    free(name);
    return 0;
}
