/* SPDX-License-Identifier: MIT */
/* The first lines of an existing CSV. Whatever is accepted must write rows of that width and be accepted again. */
#include "record/csv.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_csv_layout layout, again;
    struct uma_text text = { 0 };
    struct uma_sample row = { .time_ns = 1 };
    char *copy = malloc(size ? size : 1); /* exactly so long: reading past the end is found */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    if (uma_csv_layout_parse(copy, size, false, "f", &layout, NULL) == 0) {
        unsigned commas = 0;
        if (layout.n == 0 || layout.n > UMA_CSV_WIDTH_MAX || layout.column[0] != UMA_CSV_TIMESTAMP)
            abort();
        layout.plain = true;
        uma_csv_row_format(&text, &layout, &row, NULL);
        for (size_t i = 0; i < text.length; i++)
            commas += text.data[i] == ',';
        if (commas != layout.n - 1)
            abort();
        uma_text_reset(&text);
        uma_csv_header_format(&text, &layout);
        if (uma_csv_layout_parse(text.data, text.length, true, "f", &again, NULL) != 0 || memcmp(&layout, &again, sizeof(layout)) != 0)
            abort();
    }
    uma_text_done(&text);
    free(copy);
    return 0;
}
