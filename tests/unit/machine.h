/* SPDX-License-Identifier: MIT */
/* machine.h - small hand-made machines for the account's tests: a snapshot on the stack and setters that keep each test to what matters. */
#pragma once

#include "base/cleanup.h"
#include "base/units.h"
#include "uma.h"

#include <string.h>

#define KB(n) ((uint64_t)(n)*1024)

static inline struct uma_u64 u64(uint64_t value) {
    return (struct uma_u64){ value, UMA_KNOWN };
}
static inline struct uma_f64 f64(double value) {
    return (struct uma_f64){ value, UMA_KNOWN };
}

/* A Spark at rest, as its meminfo reads (kB): total and the constants from public pastes, the rest filled so that about 1.2 GiB remain. */
static inline void machine_meminfo(struct uma_meminfo *m, uint64_t free_kb, uint64_t available_kb, uint64_t cached_kb, uint64_t anon_kb) {
    m->source.validity = UMA_KNOWN;
    m->mem_total = u64(KB(127601452));
    m->mem_free = u64(KB(free_kb));
    m->mem_available = u64(KB(available_kb));
    m->buffers = u64(KB(13252));
    m->cached = u64(KB(cached_kb));
    m->swap_cached = u64(0);
    m->anon_pages = u64(KB(anon_kb));
    m->shmem = u64(KB(3028));
    m->mapped = u64(KB(400000));
    m->dirty = u64(KB(1000));
    m->writeback = u64(0);
    m->kreclaimable = m->sreclaimable = u64(KB(477572));
    m->sunreclaim = u64(KB(520360));
    m->slab = u64(KB(477572 + 520360));
    m->kernel_stack = u64(KB(20000));
    m->page_tables = u64(KB(40000));
    m->percpu = u64(KB(27520));
    m->vmalloc_used = u64(KB(101620));
    m->cma_total = u64(KB(131072));
    m->cma_free = u64(KB(69320));
    m->hugepages_total = m->hugepages_free = u64(0);
    m->hugepagesize = u64(KB(2048));
    m->hugetlb = u64(0);
    m->swap_total = m->swap_free = u64(KB(16777212));
}

/* One NVIDIA GB10 with nothing running; `gpu` must live as long as the snapshot. */
static inline void machine_gb10(struct uma_snapshot *s, struct uma_gpu *gpu) {
    *gpu = (struct uma_gpu){ .vendor = "nvidia", .name = "NVIDIA GB10", .unified = UMA_YES, .numa_node = -1 };
    gpu->memory_total.validity = gpu->memory_used.validity = gpu->memory_free.validity = UMA_UNSUPPORTED;
    gpu->celsius = f64(36);
    gpu->limit_margin_celsius = f64(57);
    gpu->watts = f64(4.5);
    gpu->sm_hertz = u64(208000000);
    gpu->sm_max_hertz = u64(3003000000);
    gpu->utilization = f64(0);
    gpu->throttle_reasons = u64(UMA_REASON_GPU_IDLE);
    gpu->pstate = (struct uma_i64){ 8, UMA_KNOWN };
    gpu->processes_validity = UMA_KNOWN;
    s->gpus.source.validity = UMA_KNOWN;
    s->gpus.list = gpu;
    s->gpus.n = 1;
    s->gpus.driver = "580.95.05";
    s->platform.name = UMA_PLATFORM_DGX_SPARK;
    s->platform.unified = UMA_YES;
    s->platform.kernel = "6.17.0-1014-nvidia";
    s->platform.driver = "580.95.05";
    s->platform.in_container = UMA_NO;
}

static inline void machine_idle_spark(struct uma_snapshot *s, struct uma_gpu *gpu) {
    machine_meminfo(&s->meminfo, 105000000, 118566368, 18100000, 1400000);
    machine_gb10(s, gpu);
}

static inline uint64_t machine_sum(const struct uma_ledger *l) {
    uint64_t sum = 0;
    for (int i = 0; i < UMA_LEDGER_KINDS; i++)
        sum += l->bytes[i];
    return sum;
}
