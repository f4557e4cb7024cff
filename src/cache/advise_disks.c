/* SPDX-License-Identifier: MIT */
/* advise_disks.c - when what was written goes to the disk, and how much a disk reads ahead of a fault. */
#include "cache/advise_parts.h"

#include "base/units.h"

/* ---- writing back -------------------------------------------------------------------------------------------- */

static const struct uma_evidence dirty_evidence[] = {
    { UMA_CERTAIN_KERNEL, "a dirty page cannot be dropped; drop_caches leaves it; ratios are of free and reclaimable memory",
      "Documentation/admin-guide/sysctl/vm.rst, dirty_background_ratio, drop_caches" },
    { UMA_CERTAIN_KERNEL, "the settings in bytes exist because a percentage of a large memory is no longer sufficient",
      "Linux commit 2da02997e08d, \"mm: add dirty_background_bytes and dirty_bytes sysctls\"" },
    { UMA_CERTAIN_VENDOR, "advises 300 and 600 MiB instead of ratios for servers with large memory", "SUSE document 7010287" },
};

/*
 * 256 MiB is a tenth of a second of an NVMe disk: the disk starts with the copy instead of behind it, and what is dirty at its end is gone soon. 1 GiB
 * more than lets a burst through.
 */
#define BACKGROUND_BYTES "268435456"
#define LIMIT_BYTES "1073741824"
/* Below these nobody waits long for what is left to write. */
#define BACKGROUND_WORTH_TELLING UMA_GIB
#define LIMIT_WORTH_TELLING (2 * UMA_GIB)

/* What the ratios are of: mm/page-writeback.c, global_dirtyable_memory(): free pages and both lists of file pages, without the reserve. */
static struct uma_u64 dirtyable(const struct uma_advise_site *site) {
    const struct uma_meminfo *m = &site->snapshot->meminfo;
    if (uma_usable(m->mem_free.validity) && uma_usable(m->active_file.validity) && uma_usable(m->inactive_file.validity))
        return uma_known_u64(uma_add(m->mem_free.value, uma_add(m->active_file.value, m->inactive_file.value)));
    return m->mem_available;
}

struct limit {
    const char *id, *bytes_path, *value;
    struct uma_u64 bytes, ratio;
    uint64_t worth_telling;
};

/* The larger of the two says 0 and is in force by the other: they are one setting with two faces. */
static struct uma_advice *limit_read(struct uma_advise_site *site, const struct limit *limit, struct uma_u64 *ret_bytes) {
    struct uma_advice *a = uma_advise_number(site, limit->id, limit->bytes_path, limit->bytes);
    if (!a)
        return NULL;
    UMA_ADVISE_EVIDENCE(a, dirty_evidence);
    *ret_bytes = limit->bytes;
    if (limit->bytes.value > 0) {
        a->now = uma_advise_bytes(site, limit->bytes.value);
        return a;
    }
    struct uma_u64 of = dirtyable(site);
    if (!uma_usable(limit->ratio.validity) || !uma_usable(of.validity)) {
        a->verdict = UMA_VERDICT_UNKNOWN;
        a->now = "?";
        a->why = "the ratio, or the memory that it is of, could not be read";
        return NULL;
    }
    *ret_bytes = uma_known_u64(uma_mul(of.value / 100, limit->ratio.value));
    a->now = uma_advise_text(site, "%llu %% = %s", (unsigned long long)limit->ratio.value, uma_advise_bytes(site, ret_bytes->value));
    return a;
}

static void dirty(struct uma_advise_site *site) {
    const struct uma_tuning *t = site->tuning;
    const struct limit background = { "dirty-background",        "proc/sys/vm/dirty_background_bytes",
                                      BACKGROUND_BYTES,          t->dirty_background_bytes,
                                      t->dirty_background_ratio, BACKGROUND_WORTH_TELLING };
    const struct limit most = {
        "dirty-limit", "proc/sys/vm/dirty_bytes", LIMIT_BYTES, t->dirty_bytes, t->dirty_ratio, LIMIT_WORTH_TELLING
    };
    struct uma_u64 bytes;
    struct uma_advice *a = limit_read(site, &background, &bytes);
    if (a && bytes.value > background.worth_telling) {
        uma_advise_set(site, a, UMA_VERDICT_HELPS, background.value);
        a->why = uma_advise_text(
            site,
            "the disk is left idle until %s are dirty: that much of a model that was just copied or downloaded cannot be evicted, for half a minute or until it is written, and a program that asks CUDA how much is free, which counts free pages alone, misses it meanwhile",
            uma_advise_bytes(site, bytes.value));
    } else if (a)
        a->why = "what is written goes to the disk at once";
    a = limit_read(site, &most, &bytes);
    if (a && bytes.value > most.worth_telling) {
        uma_advise_set(site, a, UMA_VERDICT_HELPS, most.value);
        a->why = uma_advise_text(
            site,
            "a copy faster than the disk may make %s of the pool dirty before it is slowed down; all of that has to be written before it can be evicted. The price: a job that saves a large checkpoint waits for the disk from 1 GiB on",
            uma_advise_bytes(site, bytes.value));
    } else if (a)
        a->why = "a copy is slowed to the disk's speed before much is dirty";
}

static const struct uma_evidence expire_evidence[] = {
    { UMA_CERTAIN_KERNEL,
      "data older than dirty_expire_centisecs is written when a flusher wakes, every dirty_writeback_centisecs; 0 there switches it off",
      "Documentation/admin-guide/sysctl/vm.rst" },
};

static void expire(struct uma_advise_site *site) {
    struct uma_u64 v = site->tuning->dirty_writeback_centisecs;
    struct uma_advice *a = uma_advise_number(site, "dirty-writeback", "proc/sys/vm/dirty_writeback_centisecs", v);
    if (a) {
        UMA_ADVISE_EVIDENCE(a, expire_evidence);
        a->why = "old data is written from time to time";
        if (v.value == 0) {
            uma_advise_set(site, a, UMA_VERDICT_HURTS, "500");
            a->why =
                "data below the background limit is never written by itself: it stays dirty, and so in memory, until somebody calls sync";
        }
    }
    v = site->tuning->dirty_expire_centisecs;
    a = uma_advise_number(site, "dirty-expire", "proc/sys/vm/dirty_expire_centisecs", v);
    if (!a)
        return;
    UMA_ADVISE_EVIDENCE(a, expire_evidence);
    a->why = uma_advise_text(site, "the last of what was written is clean after %llu s at most, or after a sync",
                             (unsigned long long)(v.value / 100));
    if (v.value > 30000) { /* five minutes; laptop modes set ten */
        uma_advise_set(site, a, UMA_VERDICT_HURTS, "3000");
        a->why = uma_advise_text(site, "the last of a copied model stays dirty, and cannot be evicted, for %llu s",
                                 (unsigned long long)(v.value / 100));
    }
}

/* ---- reading ahead ------------------------------------------------------------------------------------------- */

static const struct uma_evidence readahead_evidence[] = {
    { UMA_CERTAIN_MEASURED,
      "on a loop device of a virtual machine's disk, not on a DGX Spark: a cold GiB read through a mapping took 4.0 s at 128 KiB, 1.5 s at 1 MiB, 1.3 s at 4 MiB, 1.2 s at 8 MiB; by read(2) 2.7, 1.7, 2.2 and 1.2 s",
      "docs/measurements.md, reading ahead" },
    { UMA_CERTAIN_FIELD,
      "on a DGX Spark reading became fast with a newer kernel, and mapped loading stayed slow, in llama.cpp and vLLM alike",
      "lmstudio-ai/lms issue 366" },
};

/* 1 MiB has most of the gain and the kernel's own 128 KiB none (docs/measurements.md); between them nothing was measured: up to half is told. */
#define READAHEAD_LEAST (512 * UMA_KIB)

static void readahead(struct uma_advise_site *site) {
    const struct uma_tuning *t = site->tuning;
    for (size_t i = 0; i < t->n_disks; i++) {
        const struct uma_disk *d = &t->disks[i];
        struct uma_advice *a = uma_advise_add(site, uma_advise_text(site, "readahead-%s", d->name),
                                              uma_advise_text(site, "readahead of %s (%s)", d->name, d->mount));
        a->path = uma_advise_text(site, "sys/block/%s/queue/read_ahead_kb", d->name);
        UMA_ADVISE_EVIDENCE(a, readahead_evidence);
        if (!uma_usable(d->read_ahead.validity)) {
            a->verdict = UMA_VERDICT_UNKNOWN;
            a->why = uma_advise_text(site, "it could not be read: %s", uma_validity_name(d->read_ahead.validity));
            continue;
        }
        a->now = uma_advise_bytes(site, d->read_ahead.value);
        a->why = "a fault in a mapped file brings enough of what comes next";
        if (d->read_ahead.value > READAHEAD_LEAST)
            continue;
        uma_advise_set(site, a, UMA_VERDICT_HELPS, "4096");
        a->why =
            "loaders that map their files (safetensors, llama.cpp by default) read them fault by fault, and each brings no more than this: the disk idles. It costs nothing where files are read in large pieces or directly; databases with small random reads on the same disk read more than they use";
    }
    if (t->disks_validity != UMA_KNOWN || t->n_disks == 0) {
        struct uma_advice *a = uma_advise_add(site, "readahead", "readahead");
        a->verdict = UMA_VERDICT_UNKNOWN;
        a->why = t->disks_validity == UMA_KNOWN ? "no disk is seen to have a file system mounted from it" : "the disks could not be listed";
    }
}

void uma_advise_disks(struct uma_advise_site *site) {
    dirty(site);
    expire(site);
    readahead(site);
}
