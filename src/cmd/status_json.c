/* SPDX-License-Identifier: MIT */
#include "cmd/status.h"

#include "base/values.h"
#include "observe/snapshot_fields.h"

#include <stdio.h>
#include <string.h>

static void platform_json(struct uma_json *json, const struct uma_snapshot *snapshot) {
    const struct uma_platform *p = &snapshot->platform;
    uma_json_begin_object(json, "platform", false);
    uma_json_string(json, "name", uma_platform_text(p->name));
    uma_json_truth(json, "unified", p->unified);
    uma_json_string(json, "gpu", snapshot->gpus.n ? snapshot->gpus.list[0].name : NULL);
    uma_json_string(json, "driver", p->driver ? p->driver : snapshot->gpus.driver);
    uma_json_string(json, "kernel", p->kernel);
    uma_json_string(json, "firmware", p->firmware);
    uma_json_string(json, "product", p->product);
    uma_json_string(json, "architecture", p->architecture);
    uma_json_string(json, "os", p->os);
    uma_json_string(json, "dgx_release", p->dgx_release);
    uma_json_string(json, "evidence", p->evidence);
    uma_json_truth(json, "in_container", p->in_container);
    uma_json_f64(json, "uptime_seconds", p->uptime_seconds);
    uma_json_end_object(json);
}

static void headroom_json(struct uma_json *json, const struct uma_snapshot *snapshot, const struct uma_account *account) {
    const struct uma_headroom *h = &account->headroom;
    uma_json_begin_object(json, "headroom", false);
    uma_json_u64(json, "total", h->total);
    uma_json_u64(json, "now", h->now);
    uma_json_u64(json, "available", h->available);
    uma_json_u64(json, "reclaimable_cache", h->reclaimable_cache);
    uma_json_u64(json, "driver_pools", h->driver_pools);
    uma_json_u64(json, "reserve", h->reserve);
    uma_json_u64(json, "budget", h->budget);
    uma_json_u64(json, "reserved", h->reserved);
    uma_json_u64(json, "largest_free_block", h->largest_free_block);
    uma_json_u64(json, "swap_free", h->swap_free);
    uma_json_string(json, "reserve_reason", h->reserve_reason);
    uma_json_bool(json, "available_estimated", h->available_estimated);
    uma_json_bool(json, "hugetlb_rule", h->hugetlb_rule);
    uma_json_u64(json, "hugetlb_available", h->hugetlb_available);
    uma_json_u64(json, "cma_lost", h->cma_lost);
    uma_json_u64(json, "gpu_limit", h->gpu_limit);
    if (h->n_orders && uma_usable(snapshot->zones.page_size.validity)) {
        uma_json_begin_array(json, "free_by_order", false);
        for (uint32_t i = 0; i < h->n_orders && i < UMA_ORDERS_MAX; i++) {
            uma_json_begin_object(json, NULL, true);
            uint64_t page = snapshot->zones.page_size.value, block = page > UINT64_MAX >> i ? UINT64_MAX : page << i;
            uma_json_u64(json, "block", uma_known_u64(block));
            uma_json_u64(json, "bytes", uma_known_u64(h->free_by_order[i]));
            uma_json_end_object(json);
        }
        uma_json_end_array(json);
    } else
        uma_json_null(json, "free_by_order");
    uma_json_end_object(json);
}

static void ledger_json(struct uma_json *json, const struct uma_ledger *ledger) {
    if (!ledger->known) {
        uma_json_null(json, "ledger");
        return;
    }
    uma_json_begin_array(json, "ledger", false);
    for (int i = 0; i < UMA_LEDGER_KINDS; i++) {
        uma_json_begin_object(json, NULL, true);
        uma_json_string(json, "kind", uma_ledger_kind_name((enum uma_ledger_kind)i));
        uma_json_unsigned(json, "bytes", ledger->bytes[i]);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
}

static void cap_json(struct uma_json *json, const struct uma_cap *cap) {
    if (!cap->present && !cap->source) {
        uma_json_null(json, "cap");
        return;
    }
    uma_json_begin_object(json, "cap", true);
    uma_json_f64(json, "fraction", cap->fraction);
    uma_json_u64(json, "bytes", cap->bytes);
    uma_json_string(json, "source", cap->source);
    uma_json_end_object(json);
}

void uma_holders_json(struct uma_json *json, const char *key, const struct uma_account *account) {
    uma_json_begin_array(json, key, false);
    for (size_t i = 0; i < account->n_holders; i++) {
        const struct uma_holder *h = &account->holders[i];
        uma_json_begin_object(json, NULL, false);
        uma_json_signed(json, "pid", h->pid);
        uma_json_string(json, "name", h->name);
        uma_json_string(json, "kind", h->kind);
        uma_json_string(json, "role", uma_role_name(h->role));
        uma_json_u64(json, "gpu_bytes", h->gpu_bytes);
        uma_json_u64(json, "anon_bytes", h->anon_bytes);
        uma_json_u64(json, "shmem_bytes", h->shmem_bytes);
        cap_json(json, &h->cap);
        uma_json_string(json, "container", h->container);
        uma_json_string(json, "unit", h->unit);
        uma_json_string(json, "model", h->model);
        uma_json_u64(json, "swap_bytes", h->swap_bytes);
        uma_json_u64(json, "container_limit", h->container_limit);
        uma_json_bool(json, "exited", h->exited);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
}

static void views_json(struct uma_json *json, const struct uma_views *views) {
    uma_json_begin_object(json, "views", false);
    uma_json_u64(json, "nvidia_smi", views->nvidia_smi);
    uma_json_u64(json, "cuda_mem_get_info", views->cuda_mem_get_info);
    uma_json_u64(json, "free_free", views->free_free);
    uma_json_u64(json, "free_available", views->free_available);
    uma_json_string(json, "nvidia_smi_text", views->nvidia_smi_text);
    uma_json_end_object(json);
}

static void throttle_json(struct uma_json *json, struct uma_u64 reasons) {
    if (!uma_usable(reasons.validity)) {
        uma_json_null(json, "throttle");
        return;
    }
    uma_json_begin_array(json, "throttle", true);
    for (unsigned i = 0; i < 64; i++) {
        uint64_t bit = 1ull << i;
        if (!(reasons.value & bit) || bit == UMA_REASON_GPU_IDLE)
            continue;
        char unknown[24];
        (void)snprintf(unknown, sizeof unknown, "0x%llx", (unsigned long long)bit);
        const char *name = uma_reason_name(bit);
        uma_json_string(json, NULL, name ? name : unknown);
    }
    uma_json_end_array(json);
}

static void gpu_heat_json(struct uma_json *json, const struct uma_gpu *gpu, const struct uma_f64 *board) {
    uma_json_f64(json, "gpu_celsius", gpu->celsius);
    uma_json_f64(json, "limit_margin_celsius", gpu->limit_margin_celsius);
    if (board)
        uma_json_f64(json, "board_celsius", *board);
    uma_json_f64(json, "watts", gpu->watts);
    uma_json_u64(json, "sm_hertz", gpu->sm_hertz);
    uma_json_f64(json, "utilization", gpu->utilization);
    throttle_json(json, gpu->throttle_reasons);
    uma_json_begin_object(json, "throttle_seconds", false);
    for (int i = 0; i < UMA_THROTTLE_MAX; i++)
        uma_json_f64(json, uma_throttle_name((enum uma_throttle)i), gpu->throttle_seconds[i]);
    uma_json_end_object(json);
    uma_json_f64(json, "watts_instant", gpu->watts_instant);
    uma_json_f64(json, "limit_watts", gpu->limit_watts);
    uma_json_i64(json, "pstate", gpu->pstate);
}

/* The contract's object is the first GPU's; a machine with several has all of them in "gpus". */
static void heat_json(struct uma_json *json, const struct uma_snapshot *snapshot) {
    static const struct uma_gpu none;
    const struct uma_gpus *gpus = &snapshot->gpus;
    struct uma_f64 board = uma_status_board_celsius(snapshot);
    uma_json_begin_object(json, "heat", false);
    gpu_heat_json(json, gpus->n ? &gpus->list[0] : &none, &board);
    uma_json_end_object(json);
}

static void gpus_json(struct uma_json *json, const struct uma_snapshot *snapshot) {
    const struct uma_gpus *gpus = &snapshot->gpus;
    uma_json_begin_object(json, "gpu_source", false);
    uma_json_string(json, "state", gpus->source.validity < UMA_VALIDITY_MAX ? uma_validity_words[gpus->source.validity] : NULL);
    uma_json_string(json, "detail", gpus->source.detail);
    uma_json_bool(json, "hung", gpus->hung);
    uma_json_time(json, "time", gpus->source.time_ns);
    uma_json_end_object(json);
    uma_json_begin_array(json, "gpus", false);
    for (size_t i = 0; i < gpus->n; i++) {
        const struct uma_gpu *gpu = &gpus->list[i];
        uma_json_begin_object(json, NULL, false);
        uma_json_signed(json, "index", gpu->index);
        uma_json_string(json, "vendor", gpu->vendor);
        uma_json_string(json, "name", gpu->name);
        uma_json_truth(json, "unified", gpu->unified);
        gpu_heat_json(json, gpu, NULL);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
}

static void pressure_json(struct uma_json *json, const struct uma_pressure *pressure) {
    uma_json_begin_object(json, "pressure", false);
    uma_json_f64(json, "memory_some_avg10", pressure->some.avg10);
    uma_json_f64(json, "memory_full_avg10", pressure->full.avg10);
    uma_json_end_object(json);
}

static void problems_json(struct uma_json *json, const struct uma_account *account) {
    uma_json_begin_array(json, "problems", false);
    for (size_t i = 0; i < account->n_problems; i++) {
        const struct uma_problem *p = &account->problems[i];
        uma_json_begin_object(json, NULL, false);
        uma_json_string(json, "id", p->id);
        uma_json_string(json, "severity", uma_severity_name(p->severity));
        uma_json_string(json, "summary", p->summary);
        uma_json_string(json, "evidence", p->evidence);
        uma_json_string(json, "remedy", p->remedy);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
}

void uma_status_json(struct uma_json *json, const struct uma_snapshot *snapshot, const struct uma_account *account,
                     const struct uma_claims *claims) {
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "schema", "umactl.status/1");
    uma_json_time(json, "time", snapshot->time_ns);
    uma_json_string(json, "host", snapshot->platform.host);
    platform_json(json, snapshot);
    headroom_json(json, snapshot, account);
    ledger_json(json, &account->ledger);
    uma_holders_json(json, "holders", account);
    views_json(json, &account->views);
    heat_json(json, snapshot);
    problems_json(json, account);
    gpus_json(json, snapshot);
    pressure_json(json, &snapshot->memory_pressure);
    uma_reservations_json(json, claims);
    uma_json_end_object(json);
}
