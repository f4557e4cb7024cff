/* SPDX-License-Identifier: MIT */
/* The memory reader: which files, in which order, and what is said about one that cannot be read. The formats are in the files beside. */
#include "observe/memory.h"

#include "observe/nodes.h"
#include "observe/source.h"
#include "observe/zones.h"

#include <elf.h>
#include <string.h>

/*
 * Most bytes read of each. meminfo is below 2 KiB, vmstat below 8 KiB and PSI below 200 bytes on every kernel so far; zoneinfo has
 * about 150 bytes per CPU and zone, so 4 MiB is a machine with 4096 CPUs and some zones each.
 */
enum { SMALL_MAX = 64 * 1024, ZONEINFO_MAX = 4 * 1024 * 1024 };

enum file { MEMINFO, VMSTAT, MEMORY_PRESSURE, CPU_PRESSURE, IO_PRESSURE, ZONEINFO, BUDDYINFO, SWAPS, FILES };

static const struct {
    const char *path;
    size_t max;
} files[FILES] = {
    [MEMINFO] = { "proc/meminfo", SMALL_MAX },
    [VMSTAT] = { "proc/vmstat", SMALL_MAX },
    [MEMORY_PRESSURE] = { "proc/pressure/memory", SMALL_MAX },
    [CPU_PRESSURE] = { "proc/pressure/cpu", SMALL_MAX },
    [IO_PRESSURE] = { "proc/pressure/io", SMALL_MAX },
    [ZONEINFO] = { "proc/zoneinfo", ZONEINFO_MAX },
    [BUDDYINFO] = { "proc/buddyinfo", SMALL_MAX },
    [SWAPS] = { "proc/swaps", SMALL_MAX },
};

#define AUXV_PATH "proc/self/auxv"

struct uma_memory_reader {
    struct uma_root *root;
    int kept[FILES];
    struct uma_nodes_reader nodes;
    struct uma_text text; /* of the file being read; its memory is used again */
    uint64_t page_size;   /* of this machine; 0 in a folder */
    bool auxv_recorded;
};

struct uma_memory_reader *uma_memory_reader_new(struct uma_root *root) {
    struct uma_memory_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return NULL;
    reader->root = root;
    for (size_t i = 0; i < FILES; i++)
        reader->kept[i] = -1;
    uma_nodes_reader_init(&reader->nodes);
    long size = uma_root_is_live(root) ? sysconf(_SC_PAGESIZE) : 0;
    reader->page_size = size > 0 ? (uint64_t)size : 0;
    return reader;
}

struct uma_memory_reader *uma_memory_reader_free(struct uma_memory_reader *reader) {
    if (!reader)
        return NULL;
    for (size_t i = 0; i < FILES; i++)
        uma_root_forget(&reader->kept[i]);
    uma_nodes_reader_done(&reader->nodes);
    uma_text_done(&reader->text);
    free(reader);
    return NULL;
}

static int read_file(struct uma_memory_reader *reader, enum file file, struct uma_error *err) {
    int r = uma_root_read_kept(reader->root, files[file].path, files[file].max, &reader->kept[file], &reader->text, err);
    return MIN_OF(r, 0); /* cut at the limit: the parser sees the last line cut */
}

/* How it went, from what the read (negative) or the parser (negative, or how many places it did not understand) said. */
static void conclude(struct uma_snapshot *snapshot, struct uma_source *source, enum file file, int r, const struct uma_error *err) {
    if (r < 0) {
        uma_source_failed(source, snapshot->arena, files[file].path, r, err);
        return;
    }
    uma_source_ok(source, files[file].path);
    if (r > 0)
        source->detail = r == 1 ? uma_arena_utf8(snapshot->arena, err->text, sizeof(err->text))
                                : uma_arena_printf(snapshot->arena, "%s (and %d more)", err->text, r - 1);
}

static void read_meminfo(struct uma_memory_reader *reader, struct uma_snapshot *snapshot) {
    struct uma_error err = { 0 };
    int r = read_file(reader, MEMINFO, &err);
    if (r >= 0)
        r = uma_meminfo_parse(reader->text.data, reader->text.length, files[MEMINFO].path, snapshot->arena, &snapshot->meminfo, &err);
    conclude(snapshot, &snapshot->meminfo.source, MEMINFO, r, &err);
}

static void read_vmstat(struct uma_memory_reader *reader, struct uma_snapshot *snapshot) {
    struct uma_error err = { 0 };
    int r = read_file(reader, VMSTAT, &err);
    if (r >= 0)
        r = uma_vmstat_parse(reader->text.data, reader->text.length, files[VMSTAT].path, &snapshot->vmstat, &err);
    conclude(snapshot, &snapshot->vmstat.source, VMSTAT, r, &err);
}

static void read_pressure(struct uma_memory_reader *reader, struct uma_snapshot *snapshot, enum file file, struct uma_pressure *pressure) {
    struct uma_error err = { 0 };
    int r = read_file(reader, file, &err);
    if (r >= 0)
        r = uma_pressure_parse(reader->text.data, reader->text.length, files[file].path, pressure, &err);
    else if (r == -EOPNOTSUPP) /* an empty file stands for it in a capture */
        (void)uma_root_record(reader->root, files[file].path, "", 0, NULL);
    conclude(snapshot, &pressure->source, file, r, &err);
}

/* Only the page size goes into a capture: the rest of the vector is addresses of this process. */
static void record_page_size(struct uma_memory_reader *reader) {
    const uint64_t vector[] = { AT_PAGESZ, reader->page_size, AT_NULL, 0 };
    if (reader->auxv_recorded || !uma_root_capture(reader->root))
        return;
    (void)uma_root_record(reader->root, AUXV_PATH, (const char *)vector, sizeof(vector), NULL);
    reader->auxv_recorded = true;
}

static void read_page_size(struct uma_memory_reader *reader, struct uma_snapshot *snapshot) {
    /* an auxiliary vector has about 25 pairs of 16 bytes */
    enum { AUXV_MAX = 4096 };
    if (reader->page_size) {
        snapshot->zones.page_size = uma_known_u64(reader->page_size);
        record_page_size(reader);
        return;
    }
    int r = uma_root_read(reader->root, AUXV_PATH, AUXV_MAX, &reader->text, NULL);
    snapshot->zones.page_size =
        uma_page_size_infer(&snapshot->zones, &snapshot->meminfo, r < 0 ? NULL : reader->text.data, r < 0 ? 0 : reader->text.length);
}

static void read_zones(struct uma_memory_reader *reader, struct uma_snapshot *snapshot) {
    struct uma_zones *zones = &snapshot->zones;
    struct uma_error err = { 0 };
    int r = read_file(reader, ZONEINFO, &err);
    if (r >= 0)
        r = uma_zoneinfo_parse(reader->text.data, reader->text.length, files[ZONEINFO].path, snapshot->arena, zones, &err);
    conclude(snapshot, &zones->zoneinfo, ZONEINFO, r, &err);
    err = (struct uma_error){ 0 };
    r = read_file(reader, BUDDYINFO, &err);
    if (r >= 0)
        r = uma_buddyinfo_parse(reader->text.data, reader->text.length, files[BUDDYINFO].path, snapshot->arena, zones, &err);
    conclude(snapshot, &zones->buddyinfo, BUDDYINFO, r, &err);
    read_page_size(reader, snapshot);
}

static void read_swaps(struct uma_memory_reader *reader, struct uma_snapshot *snapshot) {
    struct uma_error err = { 0 };
    int r = read_file(reader, SWAPS, &err);
    if (r >= 0)
        r = uma_swaps_parse(reader->text.data, reader->text.length, files[SWAPS].path, snapshot->arena, &snapshot->n_swaps,
                            &snapshot->swaps, &err);
    conclude(snapshot, &snapshot->swaps_source, SWAPS, r, &err);
}

void uma_memory_read(struct uma_memory_reader *reader, struct uma_snapshot *snapshot) {
    /* meminfo and zoneinfo back to back: the ledger adds the per-CPU lists of one to the free pages of the other */
    read_meminfo(reader, snapshot);
    read_zones(reader, snapshot);
    read_vmstat(reader, snapshot);
    read_pressure(reader, snapshot, MEMORY_PRESSURE, &snapshot->memory_pressure);
    read_pressure(reader, snapshot, CPU_PRESSURE, &snapshot->cpu_pressure);
    read_pressure(reader, snapshot, IO_PRESSURE, &snapshot->io_pressure);
    read_swaps(reader, snapshot);
    uma_nodes_read(&reader->nodes, reader->root, &reader->text, snapshot);
}
