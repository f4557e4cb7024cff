/* SPDX-License-Identifier: MIT */
/* The record of changes. Whatever is accepted names only settings that may be changed, and reads back as itself. */
#include "record/tuning_record.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct uma_tuning_record record, again;
    char *copy = malloc(size ? size : 1); /* exactly so long: reading past the end is found */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (uma_tuning_record_parse(copy, size, "f", &record, NULL) == 0) {
        struct uma_text text = { 0 };
        if (record.n > UMA_TUNING_CHANGES_MAX)
            abort();
        for (size_t i = 0; i < record.n; i++)
            if (!uma_tunable_path_fine(record.changes[i].path) || !uma_tunable_path_fine(record.changes[i].restore_path) ||
                !uma_tunable_value_fine(record.changes[i].restore) || strstr(record.changes[i].path, "/.."))
                abort();
        uma_tuning_record_format(&record, &text);
        if (uma_tuning_record_parse(text.data, text.length, "f", &again, NULL) != 0 || again.n != record.n ||
            strcmp(again.boot_id, record.boot_id) != 0)
            abort();
        uma_text_done(&text);
    }
    free(copy);
    return 0;
}
