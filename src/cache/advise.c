/* SPDX-License-Identifier: MIT */
#include "cache/advise_parts.h"

#include "base/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *uma_verdict_name(enum uma_verdict verdict) {
    static const char *const names[UMA_VERDICT_MAX] = { "hurts", "helps", "disputed", "unknown", "ok" };
    return (unsigned)verdict < UMA_VERDICT_MAX ? names[verdict] : "unknown";
}

const char *uma_certainty_name(enum uma_certainty certainty) {
    static const char *const names[UMA_CERTAIN_MAX] = { "measured", "kernel", "vendor", "field report" };
    return (unsigned)certainty < UMA_CERTAIN_MAX ? names[certainty] : "field report";
}

bool uma_advice_is_default(const struct uma_advice *advice) {
    return advice->verdict == UMA_VERDICT_HELPS && advice->path && advice->recommended;
}

/* ---- what the rules use -------------------------------------------------------------------------------------- */

const char *uma_advise_text(struct uma_advise_site *site, const char *format, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    const char *copy = n < 0 ? NULL : uma_arena_strndup(site->arena, text, sizeof text - 1);
    if (!copy)
        site->failed = true;
    return copy ? copy : "";
}

const char *uma_advise_bytes(struct uma_advise_site *site, uint64_t bytes) {
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_bytes(&t, bytes);
    const char *copy = t.data ? uma_arena_strndup(site->arena, t.data, t.length) : NULL;
    if (!copy)
        site->failed = true;
    return copy ? copy : "";
}

struct uma_advice *uma_advise_add(struct uma_advise_site *site, const char *id, const char *subject) {
    static struct uma_advice scratch;
    struct uma_advice *a = site->list.n < UMA_ADVICE_MAX ? &site->list.list[site->list.n++] : &scratch;
    *a = (struct uma_advice){ .id = id, .subject = subject, .now = "?", .verdict = UMA_VERDICT_OK, .why = "" };
    return a;
}

/* "proc/sys/vm/dirty_bytes" is vm.dirty_bytes to sysctl(8); of others the path is the name. */
static const char *subject_of(struct uma_advise_site *site, const char *path) {
    static const char vm[] = "proc/sys/vm/";
    if (strncmp(path, vm, sizeof vm - 1) == 0)
        return uma_advise_text(site, "vm.%s", path + sizeof vm - 1);
    return uma_advise_text(site, "/%s", path);
}

struct uma_advice *uma_advise_number(struct uma_advise_site *site, const char *id, const char *path, struct uma_u64 value) {
    if (value.validity == UMA_ABSENT && site->settings)
        return NULL;
    struct uma_advice *a = uma_advise_add(site, id, subject_of(site, path));
    a->path = path;
    if (uma_usable(value.validity)) {
        a->now = uma_advise_text(site, "%llu", (unsigned long long)value.value);
        return a;
    }
    a->verdict = UMA_VERDICT_UNKNOWN;
    a->why = uma_advise_text(site, "it could not be read: %s", uma_validity_name(value.validity));
    return NULL;
}

void uma_advise_set(struct uma_advise_site *site, struct uma_advice *advice, enum uma_verdict verdict, const char *recommended) {
    advice->verdict = verdict;
    advice->recommended = recommended;
    if (strncmp(advice->path, "proc/sys/vm/", 12) == 0)
        advice->command = uma_advise_text(site, "sudo sysctl -w vm.%s=%s", advice->path + 12, recommended);
    else
        advice->command = uma_advise_text(site, "echo %s | sudo tee /%s", recommended, advice->path);
}

/* ---- all rules ---------------------------------------------------------------------------------------------- */

/* By verdict, else in the order in which the rules were asked: insertion, because the list is short and equal ones must keep their order. */
static void sort(struct uma_advice_list *list) {
    for (size_t i = 1; i < list->n; i++) {
        struct uma_advice one = list->list[i];
        size_t at = i;
        for (; at > 0 && list->list[at - 1].verdict > one.verdict; at--)
            list->list[at] = list->list[at - 1];
        list->list[at] = one;
    }
}

int uma_advise(const struct uma_tuning *tuning, const struct uma_snapshot *snapshot, struct uma_arena *arena,
               struct uma_advice_list *ret_advice, struct uma_error *err) {
    struct uma_advise_site site = {
        .tuning = tuning,
        .snapshot = snapshot,
        .arena = arena,
        .total = snapshot->meminfo.mem_total,
        .page = snapshot->zones.page_size,
        .unified = snapshot->platform.unified != UMA_NO,
        .settings = tuning->min_free_kbytes.validity != UMA_ABSENT, /* every kernel has this one */
        .list = { .list = uma_arena_array(arena, UMA_ADVICE_MAX, sizeof(struct uma_advice)) },
    };
    if (!site.list.list)
        return uma_error_set(err, ENOMEM, "weighing the settings");
    uma_advise_free_memory(&site);
    uma_advise_huge_pages(&site);
    uma_advise_disks(&site);
    uma_advise_swap(&site);
    uma_advise_driver(&site);
    uma_advise_loaders(&site);
    if (site.failed)
        return uma_error_set(err, ENOMEM, "weighing the settings");
    sort(&site.list);
    *ret_advice = site.list;
    return 0;
}
