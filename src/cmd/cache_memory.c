/* SPDX-License-Identifier: MIT */
/* The machine's memory before and after an eviction: two files, because all that a snapshot reads takes as long as evicting 100 MiB. */
#include "cmd/cache_evict.h"

#include "observe/memory.h"

/* zoneinfo has some 150 lines for each zone and CPU of a large machine; what is longer is cut, and its lists are then unknown. */
enum { MEMINFO_MAX = 64 * 1024, ZONEINFO_MAX = 4 * 1024 * 1024, ARENA_MAX = 4 * 1024 * 1024 };

/* Free pages in the lists of CPUs: what was freed a moment ago goes there first, and MemFree does not count it. */
static struct uma_u64 percpu_free(struct uma_root *root, struct uma_arena *arena, struct uma_text *text) {
    struct uma_zones zones = { 0 };
    long page = sysconf(_SC_PAGESIZE);
    uint64_t pages = 0;
    if (page <= 0 || uma_root_read(root, "proc/zoneinfo", ZONEINFO_MAX, text, NULL) != 0 ||
        uma_zoneinfo_parse(text->data, text->length, "proc/zoneinfo", arena, &zones, NULL) < 0)
        return (struct uma_u64){ 0, UMA_FAILED };
    for (size_t i = 0; i < zones.n_zones; i++) {
        struct uma_u64 lists = zones.zones[i].pcp_pages;
        if (!uma_usable(lists.validity)) /* a sum of some zones would look like a number */
            return (struct uma_u64){ 0, lists.validity };
        pages += lists.value;
    }
    return (struct uma_u64){ pages * (uint64_t)page, UMA_KNOWN };
}

struct uma_cache_memory uma_cache_memory_read(struct uma_root *root) {
    struct uma_cache_memory memory = { 0 };
    struct uma_meminfo m = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(ARENA_MAX);
    if (!arena || uma_root_read(root, "proc/meminfo", MEMINFO_MAX, &text, NULL) < 0 ||
        uma_meminfo_parse(text.data ? text.data : "", text.length, "proc/meminfo", arena, &m, NULL) < 0)
        return memory;
    memory.free = m.mem_free;
    memory.available = m.mem_available;
    memory.page_cache = uma_meminfo_page_cache(&m);
    memory.percpu_free = percpu_free(root, arena, &text);
    return memory;
}
