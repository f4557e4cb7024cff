/* SPDX-License-Identifier: MIT */
/* platform_conclude.c - which machine, and whether CPU and GPU share its pool, from what was read. Pure. */
#include "observe/platform.h"

#include <string.h>

/* ---- names -------------------------------------------------------------------------------------------------- */

static bool word_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* '_' and '-' stand for spaces in DMI names ("NVIDIA_DGX_Spark"), and case does not count. ASCII only: no locale has a say in it. */
static char folded(char c) {
    if (c == '_' || c == '-')
        return ' ';
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Does `name` stand in `text` as whole words? "GX10" is in "ASUS GX10", not in "DGX100"; "GB10" not in "GB100". */
static bool names(const char *text, const char *name) {
    if (!text)
        return false;
    size_t n = strlen(name), length = strlen(text);
    for (size_t at = 0; at + n <= length; at++) {
        size_t i = 0;
        while (i < n && folded(text[at + i]) == folded(name[i]))
            i++;
        if (i == n && (at == 0 || !word_character(text[at - 1])) && !word_character(text[at + n]))
            return true;
    }
    return false;
}

static const char *first_named(const char *text, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (names(text, list[i]))
            return list[i];
    return NULL;
}

/*
 * Product names under which makers sell the GB10 board: NVIDIA DGX Spark, ASUS Ascent GX10, Dell Pro Max with GB10, HP ZGX Nano, Lenovo
 * ThinkStation PGX, MSI EdgeXpert (MS-C931), Gigabyte AI TOP ATOM, Acer Veriton GN100.
 */
static const char *const gb10_products[] = { "DGX Spark",       "GX10",      "GB10",    "ZGX Nano",    "ThinkStation PGX",
                                             "ThinkStationPGX", "EdgeXpert", "MS C931", "AI TOP ATOM", "Veriton GN100" };

/* "Radeon 8060S" and its smaller brothers are what ROCm calls gfx1151: the graphics of Ryzen AI Max. */
static const char *const strix_halo_gpus[] = { "8060S", "8050S", "8040S", "gfx1151" };

/* Parts whose GPU memory is a coherent NUMA node of its own. */
static const char *const coherent_gpus[] = { "GH200", "GB200", "GB300" };

bool uma_platform_is_gb10(const char *product) {
    return first_named(product, gb10_products, ELEMENTS(gb10_products)) != NULL;
}

/* ---- the platforms ------------------------------------------------------------------------------------------ */

/* Each fills platform->name and evidence and returns true, or leaves all as it is. */

static bool conclude(struct uma_snapshot *s, enum uma_platform_name name, const char *what, const char *value) {
    s->platform.name = name;
    s->platform.evidence = value ? uma_arena_printf(s->arena, "%s \"%s\"", what, value) : what;
    return true;
}

static const struct uma_gpu *gpu_named(const struct uma_snapshot *s, const char *const *list, size_t n) {
    for (size_t i = 0; i < s->gpus.n; i++)
        if (first_named(s->gpus.list[i].name, list, n))
            return &s->gpus.list[i];
    return NULL;
}

static bool is_spark(struct uma_snapshot *s) {
    static const char *const gb10[] = { "GB10" };
    const struct uma_gpu *gpu = gpu_named(s, gb10, ELEMENTS(gb10));
    if (uma_platform_is_gb10(s->platform.product))
        return conclude(s, UMA_PLATFORM_DGX_SPARK, "product name", s->platform.product);
    if (uma_platform_is_gb10(s->platform.board))
        return conclude(s, UMA_PLATFORM_DGX_SPARK, "board name", s->platform.board);
    return gpu && conclude(s, UMA_PLATFORM_DGX_SPARK, "GPU name", gpu->name);
}

static bool is_jetson(struct uma_snapshot *s) {
    const struct uma_platform *p = &s->platform;
    if (names(p->product, "Jetson"))
        return conclude(s, UMA_PLATFORM_JETSON, "product name", p->product);
    if (p->board && strstr(p->board, "nvidia,tegra")) /* the device tree's "compatible": also on other makers' carrier boards */
        return conclude(s, UMA_PLATFORM_JETSON, "device tree", p->board);
    for (size_t i = 0; i < s->gpus.n; i++)
        if (s->gpus.list[i].vendor && strcmp(s->gpus.list[i].vendor, "tegra") == 0)
            return conclude(s, UMA_PLATFORM_JETSON, "a Tegra GPU", s->gpus.list[i].name);
    return s->meminfo.nvmap_mem_used.validity == UMA_KNOWN && conclude(s, UMA_PLATFORM_JETSON, "NvMapMemUsed in proc/meminfo", NULL);
}

static bool is_strix_halo(struct uma_snapshot *s) {
    const struct uma_gpu *gpu = gpu_named(s, strix_halo_gpus, ELEMENTS(strix_halo_gpus));
    if (names(s->platform.cpu, "Ryzen AI Max"))
        return conclude(s, UMA_PLATFORM_STRIX_HALO, "CPU name", s->platform.cpu);
    return gpu && conclude(s, UMA_PLATFORM_STRIX_HALO, "GPU name", gpu->name);
}

/* A memory node without CPUs, with memory: HBM as the kernel shows it (a CXL expander looks the same, hence only beside a Grace CPU). */
static const struct uma_node *memory_only_node(const struct uma_snapshot *s) {
    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i].has_cpu == UMA_NO && uma_usable(s->nodes[i].mem_total.validity) && s->nodes[i].mem_total.value > 0)
            return &s->nodes[i];
    return NULL;
}

static bool is_grace_hopper(struct uma_snapshot *s) {
    const struct uma_gpu *gpu = gpu_named(s, coherent_gpus, ELEMENTS(coherent_gpus));
    const struct uma_node *node = memory_only_node(s);
    bool grace = names(s->platform.cpu, "Neoverse V2") || names(s->platform.product, "Grace") || names(s->platform.product, "GH200");
    if (!gpu && !(grace && node))
        return false;
    s->platform.name = UMA_PLATFORM_GH200;
    s->platform.evidence = node ? uma_arena_printf(s->arena, "%s \"%s\"; NUMA node %d has memory and no CPU: the GPU's own",
                                                   gpu ? "GPU name" : "CPU name", gpu ? gpu->name : s->platform.cpu, node->id)
                                : uma_arena_printf(s->arena, "GPU name \"%s\"", gpu->name);
    return true;
}

/* ---- does a GPU share the pool? ------------------------------------------------------------------------------ */

/* How near a GPU's "total" must be to MemTotal to be the same memory: GB10's CUDA total and MemTotal agree to the page, Tegra's
 * within 1 %. */
static bool is_the_pool(uint64_t gpu_total, uint64_t mem_total) {
    uint64_t apart = gpu_total > mem_total ? gpu_total - mem_total : mem_total - gpu_total;
    return apart <= mem_total / 64;
}

static bool vendor_is(const struct uma_gpu *gpu, const char *vendor) {
    return gpu->vendor && strcmp(gpu->vendor, vendor) == 0;
}

/* The pool's own GPU on a platform that is known; a second, discrete card beside it (an eGPU on Strix Halo) is not. */
static bool is_platform_gpu(const struct uma_snapshot *s, const struct uma_gpu *gpu) {
    switch (s->platform.name) {
    case UMA_PLATFORM_DGX_SPARK:
        return vendor_is(gpu, "nvidia") && (s->gpus.n == 1 || names(gpu->name, "GB10"));
    case UMA_PLATFORM_JETSON:
        return vendor_is(gpu, "tegra") || (vendor_is(gpu, "nvidia") && s->gpus.n == 1);
    case UMA_PLATFORM_STRIX_HALO:
        return vendor_is(gpu, "amd") && (s->gpus.n == 1 || first_named(gpu->name, strix_halo_gpus, ELEMENTS(strix_halo_gpus)));
    default:
        return false;
    }
}

static enum uma_truth gpu_shares(const struct uma_snapshot *s, const struct uma_gpu *gpu) {
    if (is_platform_gpu(s, gpu))
        return UMA_YES;
    if (s->platform.name == UMA_PLATFORM_GH200)
        return UMA_MAYBE;
    /* AMD's "VRAM" is a carve-out of the same memory on an APU and a card's own on a card: from sysfs alone that cannot be told */
    if (!vendor_is(gpu, "nvidia") || !uma_usable(gpu->memory_total.validity) || gpu->memory_total.value == 0 ||
        !uma_usable(s->meminfo.mem_total.validity))
        return UMA_MAYBE;
    return is_the_pool(gpu->memory_total.value, s->meminfo.mem_total.value) ? UMA_YES : UMA_NO;
}

/* The machine as its GPUs are: yes when any shares the pool; no when none does; else not known. */
static enum uma_truth machine_shares(const struct uma_snapshot *s) {
    size_t no = 0;
    for (size_t i = 0; i < s->gpus.n; i++) {
        if (s->gpus.list[i].unified == UMA_YES)
            return UMA_YES;
        no += s->gpus.list[i].unified == UMA_NO;
    }
    return s->gpus.n > 0 && no == s->gpus.n ? UMA_NO : UMA_MAYBE;
}

static const char *generic_evidence(const struct uma_snapshot *s) {
    if (s->gpus.n == 0)
        return s->gpus.source.path ? (s->gpus.hung ? "the GPU driver did not answer" : "no GPU was found") : "GPUs were not read";
    switch (s->platform.unified) {
    case UMA_YES:
        return "the GPU's memory is the system's";
    case UMA_NO:
        return "the GPU has memory of its own";
    default:
        return "it cannot be told whose memory the GPU uses";
    }
}

void uma_platform_conclude(struct uma_snapshot *snapshot) {
    struct uma_platform *p = &snapshot->platform;
    p->name = UMA_PLATFORM_GENERIC;
    p->evidence = NULL;
    /* the CPU is looked at before GPUs that can be plugged in: an eGPU does not make a Strix Halo something else */
    bool known = is_spark(snapshot) || is_jetson(snapshot) || is_strix_halo(snapshot) || is_grace_hopper(snapshot);
    for (size_t i = 0; i < snapshot->gpus.n; i++)
        if (snapshot->gpus.list[i].unified == UMA_MAYBE)
            snapshot->gpus.list[i].unified = gpu_shares(snapshot, &snapshot->gpus.list[i]);
    p->unified = known && p->name != UMA_PLATFORM_GH200 ? UMA_YES : machine_shares(snapshot);
    if (!known)
        p->evidence = generic_evidence(snapshot);
    if (!p->driver)
        p->driver = snapshot->gpus.driver;
}
