/* SPDX-License-Identifier: MIT */
#include "guard/checksum.h"
#include "guard/trail.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The sums are made right where the first byte is odd: else no input gets behind them. */
static void make_sums(uint8_t *data, size_t size) {
    for (size_t at = UMA_GUARD_TRAIL_START_OF_RECORDS; at + UMA_GUARD_TRAIL_PLACE <= size; at += UMA_GUARD_TRAIL_PLACE) {
        uint32_t sum = uma_guard_checksum(0, data + at, offsetof(struct uma_guard_trail_record, checksum));
        memcpy(data + at + offsetof(struct uma_guard_trail_record, checksum), &sum, sizeof(sum));
    }
}

/* Whoever reads a record does this with it. */
static void use(const struct uma_guard_trail_record *r) {
    size_t letters = strlen(r->text);
    for (uint32_t i = 0; i < r->decision.n; i++)
        letters += r->decision.actions[i].pid == 1;
    for (uint32_t i = 0; i < r->decision.n_candidates; i++)
        letters += strlen(r->decision.candidates[i].name) + r->decision.candidates[i].gpu_known;
    if (letters > sizeof(*r) || (r->decision.want_processes && r->number == 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    /* a short input stands behind a page that is as it is to be */
    size_t length = UMA_GUARD_TRAIL_START_OF_RECORDS + (size - 1);
    uint8_t *trail = calloc(1, length);
    struct uma_guard_trail_record *list = NULL;
    size_t n = 0, bad = 0;
    if (!trail)
        return 0;
    memcpy(trail, UMA_GUARD_TRAIL_HEAD, sizeof(UMA_GUARD_TRAIL_HEAD));
    memcpy(trail + UMA_GUARD_TRAIL_START_OF_RECORDS, data + 1, size - 1);
    if (data[0] & 1)
        make_sums(trail, length);
    if (uma_guard_trail_parse(trail, length, 100, &list, &n, &bad) == 0) {
        if (n > 100 || n + bad > length / UMA_GUARD_TRAIL_PLACE + 1)
            abort();
        for (size_t i = 0; i < n; i++)
            use(&list[i]);
        free(list);
    }
    free(trail);
    if (uma_guard_trail_parse(data, size, 1, &list, &n, &bad) == 0)
        free(list);
    return 0;
}
