/* SPDX-License-Identifier: MIT */
/* One table: what was read, and what machine that is. */
#include "test.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "observe/platform.h"

#include <string.h>

#define GIB (1024ull * 1024 * 1024)

struct gpu_case {
    const char *vendor, *name;
    uint64_t total; /* 0: UMA_UNSUPPORTED */
    enum uma_truth says, expected;
};

struct machine_case {
    const char *what;
    const char *product, *board, *cpu;
    uint64_t nvmap;  /* 0: absent */
    bool hbm_node;   /* a second node, without CPUs */
    bool empty_node; /* the same without memory, as GH200 shows seven of */
    size_t n_gpus;
    struct gpu_case gpus[2];
    enum uma_platform_name name;
    enum uma_truth unified;
    const char *evidence; /* part of it */
};

#define SPARK_CPU "Cortex-A725 x10, Cortex-X925 x10"
#define HALO_CPU "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S"
#define GPUS(n, ...) .n_gpus = n, .gpus = { __VA_ARGS__ }
#define GB10(says)                                                                                                                         \
    { "nvidia", "NVIDIA GB10", 0, says, UMA_YES }

static const struct machine_case cases[] = {
    { "Founders Edition", .product = "NVIDIA_DGX_Spark", .board = "P4242", .cpu = SPARK_CPU, GPUS(1, GB10(UMA_MAYBE)),
      .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "NVIDIA_DGX_Spark" },
    { "the same without a driver", .product = "NVIDIA_DGX_Spark", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES,
      .evidence = "product" },
    { "memory total as MemTotal", .product = "NVIDIA_DGX_Spark", GPUS(1, { "nvidia", "NVIDIA GB10", 121 * GIB, UMA_MAYBE, UMA_YES }),
      .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "product" },
    { "only the GPU's name", GPUS(1, GB10(UMA_MAYBE)), .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "NVIDIA GB10" },
    { "ASUS", .product = "Ascent GX10", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "GX10" },
    { "ASUS", .product = "ASUS_GX10", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "GX10" },
    { "Dell", .product = "Dell Pro Max with GB10 FCM1253", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "Dell" },
    { "HP", .product = "HP ZGX Nano G1n AI Station", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "ZGX" },
    { "Lenovo", .product = "ThinkStation PGX (30KL0005GF)", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "PGX" },
    { "MSI", .product = "MS-C931", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "MS-C931" },
    { "MSI", .product = "EdgeXpert", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "EdgeXpert" },
    { "Gigabyte", .product = "AI TOP ATOM", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "ATOM" },
    { "Acer", .product = "Veriton GN100", .name = UMA_PLATFORM_DGX_SPARK, .unified = UMA_YES, .evidence = "GN100" },
    { "names that only look alike", .product = "DGX100 GB100 GX1000", GPUS(1, { "nvidia", "NVIDIA GB100", 80 * GIB, UMA_MAYBE, UMA_NO }),
      .name = UMA_PLATFORM_GENERIC, .unified = UMA_NO, .evidence = "own" },

    { "Orin", .product = "NVIDIA Jetson AGX Orin Developer Kit", .cpu = "Cortex-A78AE x12", .nvmap = 3 * GIB,
      GPUS(1, { "tegra", "ga10b", 0, UMA_MAYBE, UMA_YES }), .name = UMA_PLATFORM_JETSON, .unified = UMA_YES, .evidence = "Jetson" },
    { "another maker's board", .product = "Vision Box", .board = "acme,box nvidia,tegra234", .name = UMA_PLATFORM_JETSON,
      .unified = UMA_YES, .evidence = "tegra234" },
    { "Thor: NVML, no NvMapMemUsed", .product = "NVIDIA Jetson AGX Thor Developer Kit", .cpu = "Neoverse-V3AE x14",
      GPUS(1, { "nvidia", "NVIDIA Thor", 0, UMA_MAYBE, UMA_YES }), .name = UMA_PLATFORM_JETSON, .unified = UMA_YES, .evidence = "Thor" },
    { "only meminfo", .nvmap = GIB, .name = UMA_PLATFORM_JETSON, .unified = UMA_YES, .evidence = "NvMapMemUsed" },
    { "only a Tegra GPU", GPUS(1, { "tegra", NULL, 0, UMA_MAYBE, UMA_YES }), .name = UMA_PLATFORM_JETSON, .unified = UMA_YES,
      .evidence = "Tegra" },

    { "Strix Halo", .product = "GMKtec NucBox_EVO-X2", .cpu = HALO_CPU, GPUS(1, { "amd", "AMD Radeon Graphics", 0, UMA_MAYBE, UMA_YES }),
      .name = UMA_PLATFORM_STRIX_HALO, .unified = UMA_YES, .evidence = "RYZEN AI MAX" },
    { "by the GPU", .cpu = "AMD Eng Sample", GPUS(1, { "amd", "Radeon 8060S Graphics", 0, UMA_MAYBE, UMA_YES }),
      .name = UMA_PLATFORM_STRIX_HALO, .unified = UMA_YES, .evidence = "8060S" },
    { "with an eGPU", .cpu = HALO_CPU,
      GPUS(2, { "amd", "gfx1151", 0, UMA_MAYBE, UMA_YES }, { "nvidia", "NVIDIA GeForce RTX 3090", 24 * GIB, UMA_MAYBE, UMA_NO }),
      .name = UMA_PLATFORM_STRIX_HALO, .unified = UMA_YES, .evidence = "RYZEN" },
    { "no Halo: Strix Point", .cpu = "AMD Ryzen AI 9 HX 370 w/ Radeon 890M", GPUS(1, { "amd", "890M", 0, UMA_MAYBE, UMA_MAYBE }),
      .name = UMA_PLATFORM_GENERIC, .unified = UMA_MAYBE, .evidence = "told" },

    { "GH200", .product = "GH200", .cpu = "Neoverse-V2 x72", .hbm_node = true,
      GPUS(1, { "nvidia", "NVIDIA GH200 480GB", 96 * GIB, UMA_MAYBE, UMA_MAYBE }), .name = UMA_PLATFORM_GH200, .unified = UMA_MAYBE,
      .evidence = "NUMA node 1" },
    { "whose driver says so", .cpu = "Neoverse-V2 x72", .hbm_node = true,
      GPUS(1, { "nvidia", "NVIDIA GH200 480GB", 96 * GIB, UMA_YES, UMA_YES }), .name = UMA_PLATFORM_GH200, .unified = UMA_YES,
      .evidence = "GH200" },
    { "DGX Station", .cpu = "Neoverse-V2 x72", GPUS(1, { "nvidia", "NVIDIA GB300", 250 * GIB, UMA_MAYBE, UMA_MAYBE }),
      .name = UMA_PLATFORM_GH200, .unified = UMA_MAYBE, .evidence = "GB300" },
    { "without a driver", .cpu = "Neoverse-V2 x72", .hbm_node = true, .name = UMA_PLATFORM_GH200, .unified = UMA_MAYBE,
      .evidence = "NUMA node 1" },
    { "Grace alone", .cpu = "Neoverse-V2 x144", .empty_node = true, .name = UMA_PLATFORM_GENERIC, .unified = UMA_MAYBE,
      .evidence = "no GPU" },
    { "CXL memory, no Grace", .cpu = "AMD EPYC", .hbm_node = true, .name = UMA_PLATFORM_GENERIC, .unified = UMA_MAYBE,
      .evidence = "no GPU" },

    { "workstation", .product = "Precision 7960", .cpu = "Xeon", GPUS(1, { "nvidia", "NVIDIA RTX 4090", 24 * GIB, UMA_MAYBE, UMA_NO }),
      .name = UMA_PLATFORM_GENERIC, .unified = UMA_NO, .evidence = "own" },
    { "an unknown part whose memory is the system's", GPUS(1, { "nvidia", "NVIDIA N1X", 121 * GIB + GIB / 2, UMA_MAYBE, UMA_YES }),
      .name = UMA_PLATFORM_GENERIC, .unified = UMA_YES, .evidence = "system's" },
    { "an unknown part that does not say", GPUS(1, { "nvidia", "NVIDIA N1X", 0, UMA_MAYBE, UMA_MAYBE }), .name = UMA_PLATFORM_GENERIC,
      .unified = UMA_MAYBE, .evidence = "told" },
    { "the driver's word counts", GPUS(1, { "nvidia", "x", 24 * GIB, UMA_YES, UMA_YES }), .name = UMA_PLATFORM_GENERIC, .unified = UMA_YES,
      .evidence = "system's" },
    { "two cards", GPUS(2, { "nvidia", "a", 24 * GIB, UMA_MAYBE, UMA_NO }, { "amd", "b", 0, UMA_MAYBE, UMA_MAYBE }),
      .name = UMA_PLATFORM_GENERIC, .unified = UMA_MAYBE, .evidence = "told" },
    { "virtual machine", .cpu = "AMD EPYC", .name = UMA_PLATFORM_GENERIC, .unified = UMA_MAYBE, .evidence = "no GPU" },
};

static void build(const struct machine_case *c, struct uma_arena *arena, struct uma_snapshot *s) {
    *s = (struct uma_snapshot){ .arena = arena };
    s->platform.product = c->product;
    s->platform.board = c->board;
    s->platform.cpu = c->cpu;
    s->meminfo.mem_total = (struct uma_u64){ 121 * GIB, UMA_KNOWN };
    s->meminfo.nvmap_mem_used = (struct uma_u64){ c->nvmap, c->nvmap ? UMA_KNOWN : UMA_ABSENT };
    s->gpus.source.path = "nvml";
    s->gpus.driver = "580.95.05";
    s->gpus.n = c->n_gpus;
    s->gpus.list = uma_arena_array(arena, 2, sizeof(*s->gpus.list));
    for (size_t i = 0; i < c->n_gpus; i++) {
        s->gpus.list[i].vendor = c->gpus[i].vendor;
        s->gpus.list[i].name = c->gpus[i].name;
        s->gpus.list[i].unified = c->gpus[i].says;
        s->gpus.list[i].memory_total = (struct uma_u64){ c->gpus[i].total, c->gpus[i].total ? UMA_KNOWN : UMA_UNSUPPORTED };
    }
    s->n_nodes = c->hbm_node || c->empty_node ? 2 : 1;
    s->nodes = uma_arena_array(arena, 2, sizeof(*s->nodes));
    s->nodes[0] = (struct uma_node){ .id = 0, .has_cpu = UMA_YES, .mem_total = { 121 * GIB, UMA_KNOWN } };
    s->nodes[1] = (struct uma_node){ .id = 1, .has_cpu = UMA_NO, .mem_total = { c->hbm_node ? 96 * GIB : 0, UMA_KNOWN } };
}

static void table(void **state) {
    (void)state;
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        const struct machine_case *c = &cases[i];
        _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 16);
        struct uma_snapshot s;
        build(c, arena, &s);
        for (int again = 0; again < 2; again++) { /* concluding from a conclusion changes nothing */
            uma_platform_conclude(&s);
            if (s.platform.name != c->name || s.platform.unified != c->unified)
                fail_msg("%s (%zu): platform %d, unified %d", c->what, i, (int)s.platform.name, (int)s.platform.unified);
            if (!s.platform.evidence || !strstr(s.platform.evidence, c->evidence))
                fail_msg("%s (%zu): evidence: %s", c->what, i, s.platform.evidence);
            for (size_t g = 0; g < c->n_gpus; g++)
                if (s.gpus.list[g].unified != c->gpus[g].expected)
                    fail_msg("%s (%zu): GPU %zu unified %d", c->what, i, g, (int)s.gpus.list[g].unified);
        }
        assert_string_equal(s.platform.driver, "580.95.05");
    }
}

static void gpus_not_read_or_hung(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 16);
    struct uma_snapshot s = { .arena = arena };
    uma_platform_conclude(&s);
    assert_string_equal(s.platform.evidence, "GPUs were not read");
    assert_int_equal(s.platform.unified, UMA_MAYBE);
    s.gpus.source.path = "nvml";
    s.gpus.hung = true;
    s.platform.driver = "1.2";
    s.gpus.driver = "3.4";
    uma_platform_conclude(&s);
    assert_string_equal(s.platform.evidence, "the GPU driver did not answer");
    assert_string_equal(s.platform.driver, "1.2");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(table), cmocka_unit_test(gpus_not_read_or_hung) };
    return cmocka_run_group_tests_name("platform_conclude", tests, NULL, NULL);
}
