/* SPDX-License-Identifier: MIT */
#include "plan/model/folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_folder_index index;
    struct uma_packing packing = { 0 };
    struct uma_error err = { 0 };
    int r = uma_folder_index_parse((const char *)data, size, "index", &index, &err);
    if (r < 0 && err.text[0] == 0)
        abort(); /* a refusal without a reason */
    if (r == 0) {
        if (index.files.count == 0 || index.files.count > index.tensors)
            abort();
        for (size_t i = 0; i < index.files.count; i++)
            if (index.files.names[i][0] == '/' || index.files.names[i][0] == '\0' || strncmp(index.files.names[i], "../", 3) == 0)
                abort(); /* out of the folder */
        uma_folder_names_done(&index.files);
    }
    r = uma_folder_config_check((const char *)data, size, "config", &packing, &err);
    if (r < 0 && err.text[0] == 0)
        abort();
    return 0;
}
