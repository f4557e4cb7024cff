/* SPDX-License-Identifier: MIT */
#include "observe/dmem.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "base/values.h"
#include "observe/cgroup.h"
#include "observe/lines.h"
#include "observe/source.h"

#include <stdio.h>
#include <string.h>

/* A line for each GPU and kind of memory; 64 GPUs have 5 KiB. */
enum { FILE_MAX = 1 << 16 };

static void add(struct uma_u64 *sum, uint64_t bytes) {
    bool had = sum->validity == UMA_KNOWN;
    *sum = uma_known_u64(!had ? bytes : sum->value > UINT64_MAX - bytes ? UINT64_MAX : sum->value + bytes);
}

void uma_dmem_parse(const char *text, size_t length, enum uma_dmem_file file, struct uma_dmem_reading *reading) {
    static const char maker[] = "nvidia/";
    for (const char *line = text, *end = text + length; line < end;) {
        const char *line_end = uma_line_end(line, end), *space = memchr(line, ' ', (size_t)(line_end - line));
        if (space && (size_t)(space - line) > sizeof(maker) - 1 && memcmp(line, maker, sizeof(maker) - 1) == 0) {
            struct uma_u64 value = uma_cgroup_number_parse(space + 1, (size_t)(line_end - space - 1));
            if (file == UMA_DMEM_CAPACITY)
                reading->nvidia = true;
            if (value.validity == UMA_KNOWN && file == UMA_DMEM_MAX_FILE)
                reading->max = reading->max.validity == UMA_KNOWN && reading->max.value < value.value ? reading->max : value;
            else if (file == UMA_DMEM_MAX_FILE)
                reading->unlimited = true;
            else if (value.validity == UMA_KNOWN)
                add(file == UMA_DMEM_CAPACITY ? &reading->capacity : &reading->current, value.value);
        }
        line = line_end + 1;
    }
}

void uma_dmem_read(struct uma_root *root, const char *group, struct uma_dmem_reading *ret_reading) {
    static const char *const capacities[] = { "sys/fs/cgroup/dmem.capacity", "sys/fs/cgroup/unified/dmem.capacity" };
    static const char *const names[] = { [UMA_DMEM_MAX_FILE] = "dmem.max", [UMA_DMEM_CURRENT] = "dmem.current" };
    struct uma_dmem_reading reading = { .capacity = uma_no_u64(UMA_ABSENT),
                                        .max = uma_no_u64(UMA_ABSENT),
                                        .current = uma_no_u64(UMA_ABSENT) };
    _cleanup_text_ struct uma_text text = { 0 };
    char path[4300];
    for (size_t i = 0; i < ELEMENTS(capacities) && !reading.nvidia; i++)
        if (uma_root_read(root, capacities[i], FILE_MAX, &text, NULL) == 0)
            uma_dmem_parse(text.data, text.length, UMA_DMEM_CAPACITY, &reading);
    for (int file = UMA_DMEM_MAX_FILE; file <= UMA_DMEM_CURRENT && reading.nvidia; file++) {
        (void)snprintf(path, sizeof(path), "%.4200s/%s", group + (group[0] == '/'), names[file]);
        if (uma_root_read(root, path, FILE_MAX, &text, NULL) == 0)
            uma_dmem_parse(text.data, text.length, (enum uma_dmem_file)file, &reading);
    }
    *ret_reading = reading;
}

enum uma_truth uma_dmem_agrees(const struct uma_dmem_reading *reading, uint64_t limit) {
    if (!reading->nvidia)
        return UMA_MAYBE;
    if (reading->unlimited)
        return UMA_NO;
    /* its counter works in pages, and rounds down */
    return reading->max.validity == UMA_KNOWN && reading->max.value <= limit && limit - reading->max.value < 64 * UMA_KIB ? UMA_YES
                                                                                                                          : UMA_NO;
}
