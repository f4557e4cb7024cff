/* SPDX-License-Identifier: MIT */
/* The files of /proc that tell of the whole machine, as text. Formats: proc(5), the kernel's Documentation/filesystems/proc.rst and Documentation/accounting/psi.rst. */
#include "guard/observe.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/scan.h"

static bool is(const char *line, size_t length, const char *key) {
    return strlen(key) == length && memcmp(line, key, length) == 0;
}

static bool begins(const char *line, size_t length, const char *key) {
    return length >= strlen(key) && memcmp(line, key, strlen(key)) == 0;
}

/* ---- /proc/meminfo ---------------------------------------------------------------------------------------------- */

enum meminfo_line {
    TOTAL,
    FREE,
    AVAILABLE,
    BUFFERS,
    CACHED,
    SWAP_TOTAL,
    SWAP_FREE,
    DIRTY,
    WRITEBACK,
    ANON,
    SHMEM,
    NEEDED, /* those above are in every kernel since 3.14 (MemAvailable) */
    CMA_TOTAL = NEEDED,
    CMA_FREE,
    MEMINFO_LINES
};

static const char *const meminfo_key[MEMINFO_LINES] = {
    [TOTAL] = "MemTotal", [FREE] = "MemFree",         [AVAILABLE] = "MemAvailable", [BUFFERS] = "Buffers",     [CACHED] = "Cached",
    [DIRTY] = "Dirty",    [SWAP_TOTAL] = "SwapTotal", [SWAP_FREE] = "SwapFree",     [WRITEBACK] = "Writeback", [ANON] = "AnonPages",
    [SHMEM] = "Shmem",    [CMA_TOTAL] = "CmaTotal",   [CMA_FREE] = "CmaFree",
};

/* "Key:   123 kB" to bytes, where it is one of ours and the first of its name. */
static void meminfo_line(const char *line, const char *end, uint64_t value[MEMINFO_LINES], uint32_t *found) {
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (!colon)
        return;
    for (unsigned i = 0; i < MEMINFO_LINES; i++) {
        if (!is(line, (size_t)(colon - line), meminfo_key[i]) || (*found & 1u << i))
            continue;
        uint64_t kib;
        const char *after = uma_parse_u64(uma_guard_skip_blanks(colon + 1, end), end, &kib);
        after = after ? uma_guard_skip_blanks(after, end) : NULL;
        if (!after || !begins(after, (size_t)(end - after), "kB") || kib > UINT64_MAX / 1024)
            return;
        value[i] = kib * 1024;
        *found |= 1u << i;
        return;
    }
}

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

bool uma_guard_meminfo_parse(const char *text, size_t n, struct uma_guard_reading *reading) {
    uint64_t value[MEMINFO_LINES] = { 0 };
    uint32_t found = 0;
    const char *end = text + n;
    for (const char *line = text, *line_end; (line_end = uma_guard_line_end(line, end)); line = line_end + 1)
        meminfo_line(line, line_end, value, &found);
    if ((found & ((1u << NEEDED) - 1)) != (1u << NEEDED) - 1)
        return false;
    /* What CMA is said to have beyond its size is lost to everybody (kernel 7.0 with KHO; shared with account/ledger.c). */
    uint64_t lost = value[CMA_FREE] > value[CMA_TOTAL] && (found & 1u << CMA_TOTAL) ? value[CMA_FREE] : 0;
    reading->total = value[TOTAL];
    reading->free = value[FREE];
    reading->available = less(value[AVAILABLE], lost);
    reading->anon = value[ANON];
    reading->shmem = value[SHMEM];
    reading->cache = less(uma_guard_add(value[BUFFERS], value[CACHED]), value[SHMEM]); /* Cached has the shared memory in it */
    reading->dirty = uma_guard_add(value[DIRTY], value[WRITEBACK]);
    reading->swap_total = value[SWAP_TOTAL];
    reading->swap_free = value[SWAP_FREE];
    reading->known |= UMA_GUARD_KNOWS_MEMINFO;
    return true;
}

/* ---- /proc/vmstat ----------------------------------------------------------------------------------------------- */

enum vmstat_line {
    ALLOCSTALL,
    SCAN_DIRECT,
    VMSTAT_NEEDED,
    STEAL_DIRECT = VMSTAT_NEEDED,
    COMPACT_STALL,
    COMPACT_FAIL,
    SWAP_IN,
    SWAP_OUT,
    REFAULT,
    VMSTAT_LINES
};

/* Without swap or compaction in the kernel their counters are not there, and nothing that they count ever happens. */
static const char *const vmstat_key[VMSTAT_LINES] = {
    [ALLOCSTALL] = "allocstall",
    [SCAN_DIRECT] = "pgscan_direct",
    [STEAL_DIRECT] = "pgsteal_direct",
    [COMPACT_STALL] = "compact_stall",
    [COMPACT_FAIL] = "compact_fail",
    [SWAP_IN] = "pswpin",
    [SWAP_OUT] = "pswpout",
    [REFAULT] = "workingset_refault_file",
};

static void vmstat_line(const char *line, const char *end, uint64_t value[VMSTAT_LINES], uint32_t *found) {
    const char *space = memchr(line, ' ', (size_t)(end - line));
    if (!space)
        return;
    size_t length = (size_t)(space - line);
    for (unsigned i = 0; i < VMSTAT_LINES; i++) {
        /* allocstall is one number for each zone since 4.10: allocstall_dma, allocstall_normal, ... */
        if (!is(line, length, vmstat_key[i]) && !(i == ALLOCSTALL && begins(line, length, "allocstall_")))
            continue;
        uint64_t number;
        const char *after = uma_parse_u64(space + 1, end, &number);
        if (after == end) {
            value[i] = i == ALLOCSTALL ? uma_guard_add(value[i], number) : number;
            *found |= 1u << i;
        }
        return;
    }
}

bool uma_guard_vmstat_parse(const char *text, size_t n, struct uma_guard_reading *reading) {
    uint64_t value[VMSTAT_LINES] = { 0 };
    uint32_t found = 0;
    const char *end = text + n;
    for (const char *line = text, *line_end; (line_end = uma_guard_line_end(line, end)); line = line_end + 1)
        if (*line == 'a' || *line == 'p' || *line == 'c' || *line == 'w') /* of 180 lines, two in three are none of ours */
            vmstat_line(line, line_end, value, &found);
    if ((found & ((1u << VMSTAT_NEEDED) - 1)) != (1u << VMSTAT_NEEDED) - 1)
        return false;
    reading->allocstall = value[ALLOCSTALL];
    reading->pgscan_direct = value[SCAN_DIRECT];
    reading->pgsteal_direct = value[STEAL_DIRECT];
    reading->compact_stall = value[COMPACT_STALL];
    reading->compact_fail = value[COMPACT_FAIL];
    reading->pswpin = value[SWAP_IN];
    reading->pswpout = value[SWAP_OUT];
    reading->refault_file = value[REFAULT];
    reading->known |= UMA_GUARD_KNOWS_VMSTAT;
    return true;
}

/* ---- /proc/pressure/memory --------------------------------------------------------------------------------------- */

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=123": microseconds. */
static bool pressure_total(const char *line, const char *end, uint64_t *ret_ns) {
    const char *total = memmem(line, (size_t)(end - line), " total=", 7);
    uint64_t us = 0;
    if (!total || uma_parse_u64(total + 7, end, &us) != end)
        return false;
    *ret_ns = uma_guard_times(us, 1000);
    return true;
}

bool uma_guard_pressure_parse(const char *text, size_t n, struct uma_guard_reading *reading) {
    uint64_t some = 0, full = 0;
    bool has_some = false, has_full = false;
    const char *end = text + n;
    for (const char *line = text, *line_end; (line_end = uma_guard_line_end(line, end)); line = line_end + 1) {
        if (begins(line, (size_t)(line_end - line), "some "))
            has_some = pressure_total(line, line_end, &some);
        else if (begins(line, (size_t)(line_end - line), "full "))
            has_full = pressure_total(line, line_end, &full);
    }
    if (!has_some || !has_full)
        return false;
    reading->psi_some = some;
    reading->psi_full = full;
    reading->known |= UMA_GUARD_KNOWS_PRESSURE;
    return true;
}

/* ---- /proc/zoneinfo ---------------------------------------------------------------------------------------------- */

/* "              count:    63", one for each processor of each zone. No other line of the file has that key. */
bool uma_guard_zoneinfo_parse(const char *text, size_t n, uint64_t page_size, struct uma_guard_reading *reading) {
    uint64_t pages = 0;
    bool any = false;
    const char *end = text + n;
    for (const char *line = text, *line_end; (line_end = uma_guard_line_end(line, end)); line = line_end + 1) {
        const char *key = uma_guard_skip_blanks(line, line_end);
        uint64_t count;
        if (!begins(key, (size_t)(line_end - key), "count:"))
            continue;
        if (uma_parse_u64(uma_guard_skip_blanks(key + 6, line_end), line_end, &count) != line_end)
            return false;
        pages = uma_guard_add(pages, count);
        any = true;
    }
    if (!any)
        return false;
    reading->per_cpu = uma_guard_times(pages, page_size);
    reading->known |= UMA_GUARD_KNOWS_LISTS;
    return true;
}

/* ---- /proc/buddyinfo --------------------------------------------------------------------------------------------- */

/* "Node 0, zone   Normal    435      8 ...": one number for each order. A kernel that has more orders (64 KiB pages) tells of blocks that are several of our largest. */
static bool buddyinfo_line(const char *line, const char *end, uint64_t blocks[UMA_GUARD_ORDERS]) {
    const char *at = memmem(line, (size_t)(end - line), ", zone", 6);
    if (!at || !begins(line, (size_t)(end - line), "Node "))
        return false;
    at = uma_guard_skip_blanks(at + 6, end);
    while (at < end && *at != ' ') /* the zone's name */
        at++;
    unsigned order = 0;
    for (at = uma_guard_skip_blanks(at, end); at < end; at = uma_guard_skip_blanks(at, end), order++) {
        uint64_t count;
        at = uma_parse_u64(at, end, &count);
        if (!at || (at < end && *at != ' ') || order >= UMA_GUARD_ORDERS + 16)
            return false;
        unsigned into = MIN_OF(order, (unsigned)UMA_GUARD_ORDERS - 1);
        blocks[into] = uma_guard_add(blocks[into], uma_guard_times(count, UINT64_C(1) << (order - into)));
    }
    return order > 0;
}

bool uma_guard_buddyinfo_parse(const char *text, size_t n, struct uma_guard_reading *reading) {
    uint64_t blocks[UMA_GUARD_ORDERS] = { 0 };
    bool any = false;
    const char *end = text + n, *line = text;
    for (const char *line_end; (line_end = uma_guard_line_end(line, end)); line = line_end + 1) {
        if (!buddyinfo_line(line, line_end, blocks))
            return false;
        any = true;
    }
    if (!any || line != end) /* a zone that is cut would be blocks that are not there */
        return false;
    memcpy(reading->blocks, blocks, sizeof(blocks));
    reading->known |= UMA_GUARD_KNOWS_BLOCKS;
    return true;
}
