/* SPDX-License-Identifier: MIT */
/* advise_machine.h - a DGX Spark as it comes, with its settings, and setters that keep each test of the advice to what matters. */
#pragma once

#include "base/values.h"
#include "cache/advise.h"
#include "machine.h"

struct advised {
    struct uma_snapshot s;
    struct uma_gpu gpu;
    struct uma_zone zones[3];
    struct uma_swap swap;
    struct uma_process processes[4];
    struct uma_tuning t;
    struct uma_disk disk;
    struct uma_zram zram;
    struct uma_arena *arena;
    struct uma_advice_list advice;
};

static inline int advised_setup(void **state) {
    struct advised *m = calloc(1, sizeof *m);
    if (!m || !(m->arena = uma_arena_new(16 * UMA_MIB)))
        return -1;
    machine_idle_spark(&m->s, &m->gpu);
    m->s.meminfo.active_file = u64(2 * UMA_GIB);
    m->s.meminfo.inactive_file = u64(6 * UMA_GIB);
    m->s.meminfo.commit_limit = u64(75 * UMA_GIB);
    m->s.meminfo.committed_as = u64(70 * UMA_GIB);
    m->zones[0] = (struct uma_zone){ .name = "DMA", .present_pages = u64(510443), .managed_pages = u64(507904) };
    m->zones[1] = (struct uma_zone){ .name = "Normal", .present_pages = u64(32000000), .managed_pages = u64(31392283) };
    m->zones[2] = (struct uma_zone){ .name = "Movable", .present_pages = u64(0), .managed_pages = u64(0) };
    m->s.zones = (struct uma_zones){ .page_size = u64(4096), .n_zones = 3, .zones = m->zones };
    m->swap = (struct uma_swap){ .path = "/swap.img", .type = "file", .size = 16 * UMA_GIB, .priority = -2 };
    m->s.swaps_source.validity = UMA_KNOWN;
    m->s.n_swaps = 1;
    m->s.swaps = &m->swap;
    m->s.processes = (struct uma_processes){ .source = { .validity = UMA_KNOWN }, .n = 0, .list = m->processes };
    m->disk = (struct uma_disk){ .name = "nvme0n1", .mount = "/", .read_ahead = u64(4 * UMA_MIB), .rotational = UMA_NO };
    m->t = (struct uma_tuning){
        .min_free_kbytes = u64(45184),
        .watermark_scale_factor = u64(10),
        .watermark_boost_factor = u64(15000),
        .dirty_background_bytes = u64(256 * UMA_MIB),
        .dirty_background_ratio = u64(0),
        .dirty_bytes = u64(UMA_GIB),
        .dirty_ratio = u64(0),
        .dirty_expire_centisecs = u64(3000),
        .dirty_writeback_centisecs = u64(500),
        .swappiness = u64(60),
        .page_cluster = u64(3),
        .vfs_cache_pressure = u64(100),
        .overcommit_memory = u64(0),
        .overcommit_ratio = u64(50),
        .zone_reclaim_mode = u64(0),
        .compaction_proactiveness = u64(20),
        .extfrag_threshold = u64(500),
        .max_map_count = u64(1048576),
        .nr_hugepages = u64(0),
        .thp_enabled = { "madvise", UMA_KNOWN },
        .thp_defrag = { "madvise", UMA_KNOWN },
        .thp_shmem = { "never", UMA_KNOWN },
        .lru_gen_enabled = u64(7),
        .lru_gen_min_ttl_ms = u64(0),
        .zswap = UMA_NO,
        .command_line = UMA_KNOWN,
        .nvidia_pools = u64(0),
        .memlock = uma_no_u64(UMA_UNLIMITED),
        .disks_validity = UMA_KNOWN,
        .n_disks = 1,
        .disks = &m->disk,
    };
    *state = m;
    return 0;
}

static inline int advised_teardown(void **state) {
    struct advised *m = *state;
    (void)uma_arena_free(m->arena);
    free(m);
    return 0;
}

/* Ask for all, check what holds for every piece, and give the one with this id, or NULL. */
static inline const struct uma_advice *advised(struct advised *m, const char *id) {
    const struct uma_advice *found = NULL;
    uma_arena_reset(m->arena);
    assert_int_equal(uma_advise(&m->t, &m->s, m->arena, &m->advice, NULL), 0);
    for (size_t i = 0; i < m->advice.n; i++) {
        const struct uma_advice *a = &m->advice.list[i];
        assert_true(a->id && a->id[0] && a->subject && a->subject[0] && a->now && a->now[0] && a->why && a->why[0]);
        assert_true(i == 0 || m->advice.list[i - 1].verdict <= a->verdict);
        if (a->verdict == UMA_VERDICT_HURTS || a->verdict == UMA_VERDICT_HELPS)
            assert_true(a->recommended && a->command);
        else
            assert_null(a->recommended); /* where reports disagree nothing is recommended, and so nothing can be applied */
        if (a->verdict != UMA_VERDICT_UNKNOWN)
            assert_true(a->n_evidence > 0);
        for (size_t k = 0; k < a->n_evidence; k++)
            assert_true(a->evidence[k].says[0] && a->evidence[k].source[0]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(m->advice.list[k].id, a->id);
        if (strcmp(a->id, id) == 0)
            found = a;
    }
    return found;
}

#define ASSERT_VERDICT(m, id, expected, value)                                                                                             \
    do {                                                                                                                                   \
        const struct uma_advice *advice_ = advised(m, id);                                                                                 \
        const char *value_ = (value);                                                                                                      \
        assert_non_null(advice_);                                                                                                          \
        assert_string_equal(uma_verdict_name(advice_->verdict), uma_verdict_name(expected));                                               \
        if (value_)                                                                                                                        \
            assert_string_equal(advice_->recommended, value_);                                                                             \
    } while (0)
