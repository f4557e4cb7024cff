/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "observe/memory.h"
#include "observe/zones.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* the same bytes as both files: names are then found again, in both orders */
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(8 * UMA_MIB);
    struct uma_zones zones = { 0 }, reverse = { 0 };
    struct uma_meminfo meminfo = { .mem_total = { 1ull << 37, UMA_KNOWN }, .mem_free = { 1ull << 35, UMA_KNOWN } };
    if (!arena)
        return 0;
    (void)uma_zoneinfo_parse((const char *)data, size, "zoneinfo", arena, &zones, NULL);
    (void)uma_buddyinfo_parse((const char *)data, size, "buddyinfo", arena, &zones, NULL);
    (void)uma_buddyinfo_parse((const char *)data, size, "buddyinfo", arena, &reverse, NULL);
    (void)uma_zoneinfo_parse((const char *)data, size, "zoneinfo", arena, &reverse, NULL);
    if (zones.n_zones > UMA_ZONES_MAX || reverse.n_zones > UMA_ZONES_MAX)
        abort();
    for (size_t i = 0; i < zones.n_zones; i++)
        if (zones.zones[i].n_orders > UMA_ORDERS_MAX || zones.zones[i].name[0] == 0)
            abort();
    (void)uma_page_size_infer(&zones, &meminfo, (const char *)data, size);
    return 0;
}
