/* SPDX-License-Identifier: MIT */
/* The rules about settings, each where it must speak and close by where it must not. */
#include "test.h"

#include "advise_machine.h"

#define HURTS UMA_VERDICT_HURTS
#define HELPS UMA_VERDICT_HELPS
#define DISPUTED UMA_VERDICT_DISPUTED
#define UNKNOWN UMA_VERDICT_UNKNOWN
#define OK UMA_VERDICT_OK

static void tuned_machine(void **state) {
    struct advised *m = *state;
    (void)advised(m, "");
    size_t notable = 0;
    for (size_t i = 0; i < m->advice.n; i++)
        notable += m->advice.list[i].verdict != OK;
    assert_int_equal(notable, 1); /* swap, about which owners disagree */
    assert_string_equal(m->advice.list[0].id, "swap");
    assert_true(m->advice.n > 20);
}

/* One number changed: the verdict of one setting. */
static void numbers(void **state) {
    struct advised *m = *state;
    const struct {
        size_t offset;
        uint64_t value;
        const char *id;
        enum uma_verdict verdict;
        const char *recommended;
    } table[] = {
#define ROW(field, value, id, verdict, recommended) { offsetof(struct uma_tuning, field), value, id, verdict, recommended }
        ROW(min_free_kbytes, 45184, "min-free-kbytes", OK, NULL),
        ROW(min_free_kbytes, 92792, "min-free-kbytes", OK, NULL),
        ROW(min_free_kbytes, 512 * 1024, "min-free-kbytes", OK, NULL), /* 0.7 GiB of MemAvailable: nobody was seen to fail for that */
        ROW(min_free_kbytes, 4 * 1024 * 1024, "min-free-kbytes", HURTS, "45184"),
        ROW(min_free_kbytes, 1023, "min-free-kbytes", HURTS, "45184"),
        ROW(min_free_kbytes, 0, "min-free-kbytes", HURTS, "45184"),
        ROW(min_free_kbytes, INT64_MAX, "min-free-kbytes", HURTS, "45184"),
        ROW(watermark_scale_factor, 30, "watermark-scale-factor", OK, NULL),
        ROW(watermark_scale_factor, 125, "watermark-scale-factor", DISPUTED, NULL),
        ROW(watermark_scale_factor, INT64_MAX, "watermark-scale-factor", DISPUTED, NULL),
        ROW(watermark_boost_factor, 0, "watermark-boost-factor", OK, NULL),
        ROW(watermark_boost_factor, 15000, "watermark-boost-factor", OK, NULL),
        ROW(watermark_boost_factor, INT64_MAX, "watermark-boost-factor", DISPUTED, NULL),
        ROW(compaction_proactiveness, 0, "compaction-proactiveness", HURTS, "20"),
        ROW(compaction_proactiveness, 20, "compaction-proactiveness", OK, NULL),
        ROW(compaction_proactiveness, 50, "compaction-proactiveness", OK, NULL),
        ROW(compaction_proactiveness, 51, "compaction-proactiveness", DISPUTED, NULL),
        ROW(extfrag_threshold, 999, "extfrag-threshold", OK, NULL),
        ROW(extfrag_threshold, 1000, "extfrag-threshold", HURTS, "500"),
        ROW(zone_reclaim_mode, 1, "zone-reclaim-mode", HURTS, "0"),
        ROW(overcommit_memory, 1, "overcommit-memory", OK, NULL),
        ROW(overcommit_memory, 2, "overcommit-memory", HURTS, "0"),
        ROW(vfs_cache_pressure, 0, "vfs-cache-pressure", HURTS, "100"),
        ROW(vfs_cache_pressure, 50, "vfs-cache-pressure", OK, NULL),
        ROW(max_map_count, 65529, "max-map-count", HURTS, "65530"),
        ROW(max_map_count, 65530, "max-map-count", OK, NULL),
        ROW(lru_gen_min_ttl_ms, 1000, "lru-min-ttl", HURTS, "0"),
        ROW(nr_hugepages, 16, "nr-hugepages", HURTS, "0"),
        ROW(nr_hugepages, 50000, "nr-hugepages", DISPUTED, NULL), /* 97.7 of 121.7 GiB: the machine's way of having memory */
        ROW(nr_hugepages, INT64_MAX, "nr-hugepages", DISPUTED, NULL),
        ROW(dirty_writeback_centisecs, 0, "dirty-writeback", HURTS, "500"),
        ROW(dirty_writeback_centisecs, 1500, "dirty-writeback", OK, NULL),
        ROW(dirty_expire_centisecs, 30000, "dirty-expire", OK, NULL),
        ROW(dirty_expire_centisecs, 60000, "dirty-expire", HURTS, "3000"),
        ROW(dirty_background_bytes, UMA_GIB, "dirty-background", OK, NULL),
        ROW(dirty_background_bytes, 2 * UMA_GIB, "dirty-background", HELPS, "268435456"),
        ROW(dirty_bytes, 2 * UMA_GIB, "dirty-limit", OK, NULL),
        ROW(dirty_bytes, 4 * UMA_GIB, "dirty-limit", HELPS, "1073741824"),
        ROW(swappiness, 0, "swappiness", OK, NULL),
        ROW(swappiness, 100, "swappiness", OK, NULL),
        ROW(swappiness, 180, "swappiness", HURTS, "60"),
        ROW(page_cluster, 0, "page-cluster", OK, NULL),
        ROW(nvidia_pools, 0x211, "nvidia-memory-pools", DISPUTED, NULL),
#undef ROW
    };
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        struct uma_tuning tuning = m->t;
        *(struct uma_u64 *)(void *)((char *)&m->t + table[i].offset) = u64(table[i].value);
        ASSERT_VERDICT(m, table[i].id, table[i].verdict, table[i].recommended);
        m->t = tuning;
    }
}

/* A setting that could not be read is unknown; one that this kernel does not have is not spoken of. */
static void unknown(void **state) {
    struct advised *m = *state;
    m->t.compaction_proactiveness = uma_no_u64(UMA_DENIED);
    m->t.vfs_cache_pressure = uma_no_u64(UMA_MALFORMED);
    m->t.extfrag_threshold = uma_no_u64(UMA_ABSENT);
    m->t.thp_defrag = (struct uma_choice){ NULL, UMA_ABSENT };
    m->t.thp_shmem = (struct uma_choice){ NULL, UMA_DENIED };
    m->t.lru_gen_min_ttl_ms = uma_no_u64(UMA_ABSENT);
    m->t.nvidia_pools = uma_no_u64(UMA_ABSENT);
    m->t.zswap = UMA_MAYBE;
    m->t.disks_validity = UMA_DENIED;
    m->t.n_disks = 0;
    m->s.swaps_source.validity = UMA_FAILED;
    m->s.meminfo.cma_free = uma_no_u64(UMA_MALFORMED);
    m->t.memlock = uma_no_u64(UMA_MALFORMED);
    ASSERT_VERDICT(m, "compaction-proactiveness", UNKNOWN, NULL);
    ASSERT_VERDICT(m, "vfs-cache-pressure", UNKNOWN, NULL);
    ASSERT_VERDICT(m, "thp-shmem", UNKNOWN, NULL);
    ASSERT_VERDICT(m, "zswap", UNKNOWN, NULL);
    ASSERT_VERDICT(m, "readahead", UNKNOWN, NULL);
    ASSERT_VERDICT(m, "swap", UNKNOWN, NULL);
    ASSERT_VERDICT(m, "kho", UNKNOWN, NULL);
    ASSERT_VERDICT(m, "memlock", UNKNOWN, NULL);
    assert_null(advised(m, "extfrag-threshold"));
    assert_null(advised(m, "thp-defrag"));
    assert_null(advised(m, "lru-min-ttl"));
    assert_null(advised(m, "nvidia-memory-pools"));
}

/* A snapshot, or a folder without settings: everything is unknown, nothing is ok by being absent. */
static void nothing_read(void **state) {
    struct advised *m = *state;
    struct uma_tuning none = { 0 };
    m->t = none;
    for (int pass = 0; pass < 2; pass++) {
        (void)advised(m, "");
        for (size_t i = 0; i < m->advice.n; i++) {
            const struct uma_advice *a = &m->advice.list[i];
            if (strcmp(a->id, "swap") != 0 && strcmp(a->id, "kho") != 0)
                assert_int_equal(a->verdict, UNKNOWN);
        }
        assert_true(m->advice.n > 18);
#define UMA_X(field, file) m->t.field = uma_no_u64(UMA_ABSENT);
        UMA_VM_SETTINGS(UMA_X)
#undef UMA_X
        m->t.thp_enabled.validity = m->t.thp_defrag.validity = m->t.thp_shmem.validity = UMA_ABSENT;
    }
    m->s.meminfo.mem_total = uma_no_u64(UMA_ABSENT);
    m->t.min_free_kbytes = u64(45184);
    ASSERT_VERDICT(m, "min-free-kbytes", UNKNOWN, NULL);
}

/* What this kernel itself would choose: 11 page blocks for each of two zones, or the root of memory where that is more. */
static void min_free_of_the_kernel(void **state) {
    struct advised *m = *state;
    m->s.zones.page_size = u64(65536); /* a page block of 512 MiB: 11 GiB, cut to 5 % */
    m->t.min_free_kbytes = u64(127601452 / 20);
    const struct uma_advice *a = advised(m, "min-free-kbytes");
    assert_int_equal(a->verdict, HURTS);
    assert_string_equal(a->recommended, "45184");
    assert_non_null(strstr(a->why, "the kernel chose it"));
    m->t.thp_enabled = (struct uma_choice){ "never", UMA_KNOWN };
    a = advised(m, "min-free-kbytes");
    assert_int_equal(a->verdict, HURTS); /* no longer the kernel's choice */
    assert_non_null(strstr(a->why, "somebody raised it"));
    m->s.meminfo.mem_total = u64(KB(16384)); /* mm/page_alloc.c: 16 MiB is 512 kB; below 1 MiB the least of that file would be named */
    m->t.min_free_kbytes = u64(2048);
    a = advised(m, "min-free-kbytes");
    assert_int_equal(a->verdict, OK);
    assert_non_null(strstr(a->why, "512 kB"));
}

static void dirty_ratios(void **state) {
    struct advised *m = *state;
    m->t.dirty_background_bytes = m->t.dirty_bytes = u64(0);
    m->t.dirty_background_ratio = u64(10);
    m->t.dirty_ratio = u64(20);
    const struct uma_advice *a = advised(m, "dirty-background");
    assert_int_equal(a->verdict, HELPS);
    assert_string_equal(a->path, "proc/sys/vm/dirty_background_bytes");
    assert_non_null(strstr(a->now, "10 % = "));
    a = advised(m, "dirty-limit");
    assert_int_equal(a->verdict, HELPS);
    /* ratios are of what is free or file: on a small machine they are small */
    m->s.meminfo.mem_free = u64(3 * UMA_GIB);
    m->s.meminfo.active_file = m->s.meminfo.inactive_file = u64(UMA_GIB);
    ASSERT_VERDICT(m, "dirty-background", OK, NULL);
    ASSERT_VERDICT(m, "dirty-limit", OK, NULL);
    m->t.dirty_ratio = uma_no_u64(UMA_DENIED);
    ASSERT_VERDICT(m, "dirty-limit", UNKNOWN, NULL);
    m->t.dirty_ratio = u64(INT64_MAX);
    ASSERT_VERDICT(m, "dirty-limit", HELPS, "1073741824");
    m->s.meminfo.mem_free = m->s.meminfo.mem_available = uma_no_u64(UMA_ABSENT);
    ASSERT_VERDICT(m, "dirty-limit", UNKNOWN, NULL);
}

static void readahead(void **state) {
    struct advised *m = *state;
    const struct {
        uint64_t bytes;
        enum uma_verdict verdict;
    } table[] = { { 0, HELPS }, { 128 * UMA_KIB, HELPS }, { 512 * UMA_KIB, HELPS }, { UMA_MIB, OK }, { 8 * UMA_MIB, OK } };
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        m->disk.read_ahead = u64(table[i].bytes);
        ASSERT_VERDICT(m, "readahead-nvme0n1", table[i].verdict, table[i].verdict == HELPS ? "4096" : NULL);
    }
    assert_string_equal(advised(m, "readahead-nvme0n1")->path, "sys/block/nvme0n1/queue/read_ahead_kb");
    m->disk.read_ahead = uma_no_u64(UMA_DENIED);
    ASSERT_VERDICT(m, "readahead-nvme0n1", UNKNOWN, NULL);
}

static void swap(void **state) {
    struct advised *m = *state;
    assert_string_equal(advised(m, "swap")->now, "16.0 GiB file, 0 B used");
    assert_null(advised(m, "zram"));
    m->s.n_swaps = 0;
    ASSERT_VERDICT(m, "swap", DISPUTED, NULL);
    assert_string_equal(advised(m, "swap")->now, "none");
    m->t.swappiness = u64(180); /* without swap it decides nothing */
    m->t.zswap = UMA_YES;
    ASSERT_VERDICT(m, "swappiness", OK, NULL);
    ASSERT_VERDICT(m, "zswap", OK, NULL);
    m->s.n_swaps = 1;
    ASSERT_VERDICT(m, "zswap", DISPUTED, NULL);
    m->swap.path = "/dev/zram0";
    m->swap.type = "partition";
    ASSERT_VERDICT(m, "zram", DISPUTED, NULL);
    assert_string_equal(advised(m, "zram")->now, "?");
    ASSERT_VERDICT(m, "swappiness", OK, NULL); /* beyond 100 is for swap in memory */
    ASSERT_VERDICT(m, "page-cluster", DISPUTED, NULL);
    ASSERT_VERDICT(m, "zswap", OK, NULL);
    m->zram = (struct uma_zram){ "zram0", u64(3 * UMA_GIB), u64(UMA_GIB) };
    m->t.zrams = &m->zram;
    m->t.n_zrams = 1;
    assert_string_equal(advised(m, "zram")->now, "3.0 GiB in 1.0 GiB");
}

static void choices(void **state) {
    struct advised *m = *state;
    m->t.thp_enabled.selected = "always";
    m->t.transparent_hugepage = "always";
    ASSERT_VERDICT(m, "thp", DISPUTED, NULL);
    assert_non_null(strstr(advised(m, "thp")->why, "command line"));
    m->t.thp_enabled.selected = "never";
    ASSERT_VERDICT(m, "thp", OK, NULL);
    m->t.thp_defrag.selected = "always";
    ASSERT_VERDICT(m, "thp-defrag", HURTS, "madvise");
    m->t.thp_defrag.selected = "defer+madvise";
    ASSERT_VERDICT(m, "thp-defrag", OK, NULL);
    m->t.thp_shmem.selected = "force";
    ASSERT_VERDICT(m, "thp-shmem", HURTS, "never");
    assert_non_null(strstr(advised(m, "thp-shmem")->command, "/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
}

static void boot(void **state) {
    struct advised *m = *state;
    ASSERT_VERDICT(m, "kho", OK, NULL);
    m->s.meminfo.cma_free = u64(9 * UMA_GIB);
    ASSERT_VERDICT(m, "kho", HURTS, "off");
    assert_null(advised(m, "kho")->path); /* said, never set */
    m->s.meminfo.cma_total = m->s.meminfo.cma_free = uma_no_u64(UMA_ABSENT);
    ASSERT_VERDICT(m, "kho", OK, NULL);
    assert_null(advised(m, "init-on-alloc"));
    m->t.init_on_alloc = "1";
    ASSERT_VERDICT(m, "init-on-alloc", DISPUTED, NULL);
    m->t.init_on_alloc = "0";
    ASSERT_VERDICT(m, "init-on-alloc", OK, NULL);
    m->t.nvidia_pools = uma_no_u64(UMA_DENIED);
    ASSERT_VERDICT(m, "nvidia-memory-pools", UNKNOWN, NULL);
    m->t.memlock = u64(8 * UMA_MIB);
    assert_string_equal(advised(m, "memlock")->now, "8.0 MiB");
}

static void commands(void **state) {
    struct advised *m = *state;
    m->t.compaction_proactiveness = u64(0);
    m->t.lru_gen_min_ttl_ms = u64(1);
    assert_string_equal(advised(m, "compaction-proactiveness")->command, "sudo sysctl -w vm.compaction_proactiveness=20");
    assert_string_equal(advised(m, "lru-min-ttl")->command, "echo 0 | sudo tee /sys/kernel/mm/lru_gen/min_ttl_ms");
    assert_string_equal(advised(m, "compaction-proactiveness")->subject, "vm.compaction_proactiveness");
}

/* Each allocation may fail: never a list with holes in it. */
static void out_of_memory(void **state) {
    struct advised *m = *state;
    struct uma_advice_list list = { 0 };
    for (size_t limit = 0; limit < 48 * 1024; limit += 512) {
        struct uma_arena *arena = uma_arena_new(limit);
        if (!arena)
            continue;
        struct uma_error err = { 0 };
        list.n = 77;
        int r = uma_advise(&m->t, &m->s, arena, &list, &err);
        assert_true(r == 0 || (r == -ENOMEM && err.text[0] && list.n == 77));
        for (size_t i = 0; r == 0 && i < list.n; i++)
            assert_true(list.list[i].why[0] && list.list[i].now[0] && list.list[i].id[0]);
        (void)uma_arena_free(arena);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, advised_setup, advised_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(tuned_machine), TEST(numbers),       TEST(unknown), TEST(nothing_read), TEST(min_free_of_the_kernel),
        TEST(dirty_ratios),  TEST(readahead),     TEST(swap),    TEST(choices),      TEST(boot),
        TEST(commands),      TEST(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
