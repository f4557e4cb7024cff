/* SPDX-License-Identifier: MIT */
/* advise_driver.c - what is decided when the machine starts: the NVIDIA driver's pools, the kernel's command line, and limits of this user. */
#include "cache/advise_parts.h"

#include "base/units.h"

#include <string.h>

static const struct uma_evidence pools_evidence[] = {
    { UMA_CERTAIN_VENDOR,
      "the pools keep freed memory to speed up taking it again; a set of page sizes, by default 4 KiB, 64 KiB and 2 MiB; they shrink under pressure",
      "NVIDIA/open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h, NVreg_EnableSystemMemoryPools, and nv-vm.c" },
    { UMA_CERTAIN_FIELD, "they held what a large test had freed, and vLLM's check at start failed; with 0 it came back to the host",
      "christopherowen/spark3-vllm-ds41f, experiments/2026-10-02-driver-cuda-refresh" },
};

static void pools(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->nvidia_pools;
    if (v.validity == UMA_ABSENT)
        return; /* no such driver, or one without pools */
    struct uma_advice *a = uma_advise_add(site, "nvidia-memory-pools", "NVIDIA driver: system memory pools");
    UMA_ADVISE_EVIDENCE(a, pools_evidence);
    if (!uma_usable(v.validity)) {
        a->verdict = UMA_VERDICT_UNKNOWN;
        a->why = "/proc/driver/nvidia/params could not be read";
        return;
    }
    a->now = uma_advise_text(site, "0x%llx", (unsigned long long)v.value);
    a->why = "memory that CUDA frees goes back to the kernel";
    if (v.value == 0)
        return;
    a->verdict = UMA_VERDICT_DISPUTED;
    a->command = "options nvidia NVreg_EnableSystemMemoryPools=0 in /etc/modprobe.d, then sudo update-initramfs -u and a restart";
    a->why =
        "memory that CUDA freed stays with the driver: the next CUDA program has it at once, every other, and every engine that checks MemAvailable first, misses it until the kernel presses. By the driver's source, writing 2 to vm.drop_caches makes it press; not measured here. Without pools every allocation asks the kernel, which takes longer";
}

static const struct uma_evidence kho_evidence[] = {
    { UMA_CERTAIN_VENDOR,
      "with kexec handover on kernel 7.0 the contiguous area is counted wrong, about 9.3 GiB are lost; kho=off gave MemFree 114 instead of 88 GiB",
      "NVIDIA/NV-Kernels pull requests 590 and 591" },
};

static void kho(struct uma_advise_site *site) {
    const struct uma_meminfo *m = &site->snapshot->meminfo;
    struct uma_advice *a = uma_advise_add(site, "kho", "kernel: kexec handover (kho)");
    UMA_ADVISE_EVIDENCE(a, kho_evidence);
    const char *word = site->tuning->kho;
    if (!uma_usable(m->cma_total.validity) || !uma_usable(m->cma_free.validity)) {
        a->verdict = m->cma_total.validity == UMA_ABSENT ? UMA_VERDICT_OK : UMA_VERDICT_UNKNOWN;
        a->now = word ? word : "?";
        a->why = "this kernel counts no contiguous area";
        return;
    }
    uint64_t lost = uma_sub(m->cma_free.value, m->cma_total.value);
    a->now = word ? word : "not said";
    a->why = "the contiguous area is counted as it should be";
    if (lost == 0)
        return;
    a->verdict = UMA_VERDICT_HURTS;
    a->recommended = "off";
    a->command = "kho=off on the kernel's command line (GRUB_CMDLINE_LINUX, sudo update-grub), then a restart";
    a->why = uma_advise_text(site, "CmaFree is %s beyond CmaTotal: that much of MemFree is nobody's to have", uma_advise_bytes(site, lost));
}

static const struct uma_evidence init_evidence[] = {
    { UMA_CERTAIN_KERNEL, "every page is filled with zeros when it is handed out; hardening against reading what others left",
      "Documentation/admin-guide/kernel-parameters.txt, init_on_alloc" },
};

static void init_on_alloc(struct uma_advise_site *site) {
    const char *word = site->tuning->init_on_alloc;
    if (!word)
        return; /* the kernel's own default cannot be read */
    struct uma_advice *a = uma_advise_add(site, "init-on-alloc", "kernel: init_on_alloc");
    UMA_ADVISE_EVIDENCE(a, init_evidence);
    a->now = word;
    a->why = "pages are handed out as they are where nobody sees them";
    if (strcmp(word, "1") != 0 && strcmp(word, "on") != 0)
        return;
    a->verdict = UMA_VERDICT_DISPUTED;
    a->why =
        "each page of cache and of a load is written twice, once with zeros: time while loading, against a hardening that is worth having where several people share the machine. Nobody has published what it costs here";
}

static const struct uma_evidence memlock_evidence[] = {
    { UMA_CERTAIN_KERNEL, "RLIMIT_MEMLOCK limits mlock(2) and memory registered for RDMA", "getrlimit(2)" },
};

static void memlock(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->memlock;
    struct uma_advice *a = uma_advise_add(site, "memlock", "locked memory (ulimit -l)");
    UMA_ADVISE_EVIDENCE(a, memlock_evidence);
    if (v.validity != UMA_UNLIMITED && !uma_usable(v.validity)) {
        a->verdict = UMA_VERDICT_UNKNOWN;
        a->why = "the limits of this process could not be read";
        return;
    }
    bool unlimited = v.validity == UMA_UNLIMITED;
    a->now = unlimited ? "unlimited" : uma_advise_bytes(site, v.value);
    a->why =
        unlimited
            ? "programs of this user may lock and register what they need"
            : "enough unless programs of this user lock weights (--mlock) or register memory for a network between nodes: those are refused beyond it";
}

void uma_advise_driver(struct uma_advise_site *site) {
    pools(site);
    kho(site);
    init_on_alloc(site);
    memlock(site);
}
