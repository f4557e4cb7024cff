/* SPDX-License-Identifier: MIT */
/* The reader as a whole: this machine, folders made here, and a capture that reads back the same. nodes.c is tested here too. */
#include "test.h"

#include "base/units.h"
#include "observe/memory.h"
#include "observe/nodes.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct machine {
    char folder[64];
    struct uma_root *root;
    struct uma_memory_reader *reader;
    struct uma_snapshot snapshot;
};

static int setup(void **state) {
    struct machine *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    (void)snprintf(m->folder, sizeof(m->folder), "/tmp/uma-test-memory-XXXXXX");
    assert_non_null(mkdtemp(m->folder));
    m->snapshot.arena = uma_arena_new(8 * UMA_MIB);
    assert_non_null(m->snapshot.arena);
    *state = m;
    return 0;
}

static void close_machine(struct machine *m) {
    m->reader = uma_memory_reader_free(m->reader);
    m->root = uma_root_close(m->root);
}

static int teardown(void **state) {
    struct machine *m = *state;
    char command[128];
    close_machine(m);
    (void)uma_arena_free(m->snapshot.arena);
    (void)snprintf(command, sizeof(command), "rm -r %s", m->folder);
    int r = system(command);
    free(m);
    return r;
}

static void put_n(const struct machine *m, const char *path, const char *text, size_t length) {
    char full[256];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(full, sizeof(full), "%s/%.*s", m->folder, (int)(slash - path), path);
        assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
    }
    (void)snprintf(full, sizeof(full), "%s/%s", m->folder, path);
    FILE *f = fopen(full, "we");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    assert_int_equal(fclose(f), 0);
}

static void put(const struct machine *m, const char *path, const char *text) {
    put_n(m, path, text, strlen(text));
}

static void open_machine(struct machine *m, const char *path, const char *capture) {
    close_machine(m);
    assert_int_equal(uma_root_open(path, capture, &m->root, NULL), 0);
    m->reader = uma_memory_reader_new(m->root);
    assert_non_null(m->reader);
}

static void take(struct machine *m) {
    struct uma_arena *arena = m->snapshot.arena;
    uma_arena_reset(arena);
    m->snapshot = (struct uma_snapshot){ .arena = arena };
    uma_memory_read(m->reader, &m->snapshot);
}

static void assert_u64(struct uma_u64 v, uint64_t expected) {
    assert_int_equal(v.validity, UMA_KNOWN);
    assert_int_equal(v.value, expected);
}

static void this_machine(void **state) {
    struct machine *m = *state;
    open_machine(m, NULL, NULL);
    take(m);
    const struct uma_snapshot *s = &m->snapshot;
    assert_int_equal(s->meminfo.source.validity, UMA_KNOWN);
    assert_string_equal(s->meminfo.source.path, "proc/meminfo");
    assert_true(s->meminfo.source.time_ns > 0);
    assert_null(s->meminfo.source.detail);
    assert_int_equal(s->vmstat.source.validity, UMA_KNOWN);
    assert_int_equal(s->vmstat.nr_free_pages.validity, UMA_KNOWN);
    assert_int_equal(s->zones.zoneinfo.validity, UMA_KNOWN);
    assert_int_equal(s->zones.buddyinfo.validity, UMA_KNOWN);
    assert_u64(s->zones.page_size, (uint64_t)sysconf(_SC_PAGESIZE));
    /*
     * What the kernel counts in several places must agree, up to what moved between the reads. Not with meminfo: virtual machines exist
     * whose MemTotal and MemFree count memory that no zone manages yet.
     */
    uint64_t managed = 0, in_blocks = 0, in_zones = 0;
    for (size_t i = 0; i < s->zones.n_zones; i++) {
        const struct uma_zone *z = &s->zones.zones[i];
        assert_int_equal(z->pcp_pages.validity, UMA_KNOWN);
        managed += z->managed_pages.value;
        in_zones += z->free_pages.value;
        for (uint32_t order = 0; order < z->n_orders; order++)
            in_blocks += z->blocks[order] << order;
    }
    uint64_t page = s->zones.page_size.value, counted = s->vmstat.nr_free_pages.value;
    assert_true(managed * page <= s->meminfo.mem_total.value);
    assert_true((in_blocks > counted ? in_blocks - counted : counted - in_blocks) * page < 256 * UMA_MIB);
    assert_true((in_zones > counted ? in_zones - counted : counted - in_zones) * page < 256 * UMA_MIB);
    assert_true(s->memory_pressure.source.validity == UMA_KNOWN || s->memory_pressure.source.validity == UMA_ABSENT ||
                s->memory_pressure.source.validity == UMA_UNSUPPORTED);
}

/* After the first readings a tick takes no memory from the heap (error texts of absent files included). */
static void steady_tick(void **state) {
    struct machine *m = *state;
    open_machine(m, NULL, NULL);
    take(m);
    take(m);
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 20; i++)
        take(m);
    struct mallinfo2 after = mallinfo2();
    assert_int_equal(before.uordblks, after.uordblks);
    assert_int_equal(before.arena, after.arena);
}

static void empty_folder(void **state) {
    struct machine *m = *state;
    open_machine(m, m->folder, NULL);
    take(m);
    const struct uma_snapshot *s = &m->snapshot;
    const struct uma_source *sources[] = {
        &s->meminfo.source, &s->vmstat.source,   &s->memory_pressure.source, &s->cpu_pressure.source, &s->io_pressure.source,
        &s->zones.zoneinfo, &s->zones.buddyinfo, &s->swaps_source,           &s->nodes_source,
    };
    for (size_t i = 0; i < ELEMENTS(sources); i++) {
        assert_int_equal(sources[i]->validity, UMA_ABSENT);
        assert_non_null(sources[i]->path);
        assert_non_null(sources[i]->detail);
    }
    assert_int_equal(s->meminfo.mem_total.validity, UMA_UNKNOWN);
    assert_int_equal(s->zones.page_size.validity, UMA_UNKNOWN); /* never guessed */
}

static void two_nodes(void **state) {
    struct machine *m = *state;
    put(m, "sys/devices/system/node/online", "0,9\n");
    put(m, "sys/devices/system/node/has_cpu", "0\n");
    put(m, "sys/devices/system/node/power", "not a node\n");
    put(m, "sys/devices/system/node/node9/meminfo", "Node 9 MemTotal: 100 kB\nNode 9 MemFree: 90 kB\n");
    put(m, "sys/devices/system/node/node0/meminfo", "Node 0 MemTotal: 200 kB\nNode 0 MemFree: 9");
    put(m, "sys/devices/system/node/nodex/meminfo", "Node 1 MemTotal: 200 kB\n");
    open_machine(m, m->folder, NULL);
    for (int i = 0; i < 2; i++) {
        take(m);
        const struct uma_snapshot *s = &m->snapshot;
        assert_int_equal(s->n_nodes, 2);
        assert_int_equal(s->nodes[0].id, 0);
        assert_int_equal(s->nodes[0].has_cpu, UMA_YES);
        assert_u64(s->nodes[0].mem_total, 200 * UMA_KIB);
        assert_int_equal(s->nodes[0].mem_free.validity, UMA_MALFORMED);
        assert_int_equal(s->nodes[1].id, 9);
        assert_int_equal(s->nodes[1].has_cpu, UMA_NO);
        assert_u64(s->nodes[1].mem_free, 90 * UMA_KIB);
        assert_non_null(s->nodes_source.detail);
    }
    /* a node comes: the kernel's list says so */
    put(m, "sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 300 kB\n");
    take(m);
    assert_int_equal(m->snapshot.n_nodes, 2);
    put(m, "sys/devices/system/node/online", "0-1,9\n");
    take(m);
    assert_int_equal(m->snapshot.n_nodes, 3);
    assert_int_equal(m->snapshot.nodes[1].id, 1);
}

static void id_lists(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int32_t id;
        enum uma_truth has;
    } cases[] = {
        { "0\n", 0, UMA_YES }, { "0\n", 1, UMA_NO },      { "0-3,8\n", 2, UMA_YES }, { "0-3,8", 8, UMA_YES }, { "0-3,8", 4, UMA_NO },
        { "\n", 0, UMA_NO },   { "3-0\n", 1, UMA_MAYBE }, { "x", 0, UMA_MAYBE },     { "0-", 0, UMA_MAYBE },  { "0;1", 0, UMA_MAYBE },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        assert_int_equal(uma_id_list_has(cases[i].text, strlen(cases[i].text), cases[i].id), cases[i].has);
}

static void bad_files(void **state) {
    struct machine *m = *state;
    put(m, "proc/meminfo", "MemTotal: 4096 kB\nMemFree: 2048 kB\nCached: x kB\nSlab: y kB\n");
    put(m, "proc/vmstat", "\xff\xfe\n");
    put(m, "proc/pressure/memory", ""); /* stands for disabled */
    put(m, "proc/pressure/cpu", "some avg10=1.00 avg60=1.00 avg300=1.00 total=1000000\n");
    put(m, "proc/buddyinfo", "Node 0, zone Normal 512\nNode 0, zone Dev");
    put_n(m, "proc/swaps", "Filename\0\n", 10);
    open_machine(m, m->folder, NULL);
    take(m);
    const struct uma_snapshot *s = &m->snapshot;
    assert_int_equal(s->meminfo.source.validity, UMA_KNOWN);
    assert_non_null(strstr(s->meminfo.source.detail, "proc/meminfo:3: Cached"));
    assert_non_null(strstr(s->meminfo.source.detail, "(and 1 more)"));
    assert_int_equal(s->vmstat.source.validity, UMA_MALFORMED);
    assert_int_equal(s->vmstat.pgpgin.validity, UMA_UNKNOWN);
    assert_int_equal(s->memory_pressure.source.validity, UMA_UNSUPPORTED);
    assert_int_equal(s->cpu_pressure.source.validity, UMA_KNOWN);
    assert_int_equal(s->cpu_pressure.full.avg10.validity, UMA_ABSENT);
    assert_int_equal(s->io_pressure.source.validity, UMA_ABSENT);
    assert_non_null(s->zones.buddyinfo.detail);
    assert_int_equal(s->zones.page_size.validity, UMA_UNKNOWN); /* a zone is missing: its pages too */
    assert_int_equal(s->swaps_source.validity, UMA_KNOWN);
    assert_int_equal(s->n_swaps, 0);
}

static void folder_page_size(void **state) {
    struct machine *m = *state;
    put(m, "proc/meminfo", "MemTotal: 65536 kB\nMemFree: 32768 kB\n");
    put(m, "proc/buddyinfo", "Node 0, zone Normal 256 128\n");
    open_machine(m, m->folder, NULL);
    take(m);
    assert_u64(m->snapshot.zones.page_size, 65536);
    put_n(m, "proc/self/auxv", "\6\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0", 16);
    put(m, "proc/buddyinfo", "Node 0, zone Normal 1 1\n");
    take(m);
    assert_u64(m->snapshot.zones.page_size, 4096);
}

/* 10 MB of meminfo are read up to the limit and no further. */
static void huge_file(void **state) {
    struct machine *m = *state;
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "MemTotal: 4096 kB\n");
    while (text.length < 10 * UMA_MIB)
        uma_text_append(&text, "Unheard: 1 kB\n");
    uma_text_append(&text, "MemFree: 2048 kB\n");
    put_n(m, "proc/meminfo", text.data, text.length);
    open_machine(m, m->folder, NULL);
    take(m);
    assert_u64(m->snapshot.meminfo.mem_total, 4 * UMA_MIB);
    assert_int_equal(m->snapshot.meminfo.mem_free.validity, UMA_UNKNOWN); /* beyond the limit: not absent */
}

/* What a capture of this machine holds gives the same reading as the machine did. */
static void capture(void **state) {
    struct machine *m = *state;
    open_machine(m, NULL, m->folder);
    take(m);
    uint64_t total = m->snapshot.meminfo.mem_total.value, mem_free = m->snapshot.meminfo.mem_free.value;
    uint64_t page_size = m->snapshot.zones.page_size.value;
    size_t zones = m->snapshot.zones.n_zones, nodes = m->snapshot.n_nodes;
    enum uma_validity pressure = m->snapshot.memory_pressure.source.validity;
    struct uma_f64 pressure_total = m->snapshot.memory_pressure.some.total_seconds;
    open_machine(m, m->folder, NULL);
    take(m);
    assert_u64(m->snapshot.meminfo.mem_total, total);
    assert_u64(m->snapshot.meminfo.mem_free, mem_free);
    assert_u64(m->snapshot.zones.page_size, page_size);
    assert_int_equal(m->snapshot.zones.n_zones, zones);
    assert_int_equal(m->snapshot.n_nodes, nodes);
    assert_int_equal(m->snapshot.memory_pressure.source.validity, pressure);
    assert_true(m->snapshot.memory_pressure.some.total_seconds.value == pressure_total.value);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(this_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(steady_tick, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(two_nodes, setup, teardown),
        cmocka_unit_test(id_lists),
        cmocka_unit_test_setup_teardown(bad_files, setup, teardown),
        cmocka_unit_test_setup_teardown(folder_page_size, setup, teardown),
        cmocka_unit_test_setup_teardown(huge_file, setup, teardown),
        cmocka_unit_test_setup_teardown(capture, setup, teardown),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
