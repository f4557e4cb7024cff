/* SPDX-License-Identifier: MIT */
/*
 * What a snapshot means does not depend on whether it was read here or came from a document: for every machine folder and for random
 * snapshots, the account of the parsed document is that of the original. A folder's document is also the same each time, keeps its
 * kinds of holders when it is redacted, and its recorded GPU answer has no member that would be passed over.
 */
#include "test.h"

#include "base/error.h"
#include "base/json_write.h"
#include "cmd/status.h"
#include "observe/gpu.h"
#include "random_snapshot.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>

static char *format(const struct uma_snapshot *s) {
    char *text = NULL;
    size_t n;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_format(s, &text, &n, &err), 0);
    return text;
}

/* Everything of an account as text. */
static char *account_text(const struct uma_snapshot *s) {
    struct uma_account a;
    struct uma_error err = { 0 };
    struct uma_text text = { 0 };
    if (uma_account_build(s, 0, &a, &err) < 0)
        fail_msg("%s", err.text);
    uma_status_json(&(struct uma_json){ .text = &text }, s, &a, &(struct uma_claims){ 0 });
    const struct uma_headroom *h = &a.headroom;
    const struct uma_u64 numbers[] = { h->total,
                                       h->now,
                                       h->available,
                                       h->reclaimable_cache,
                                       h->driver_pools,
                                       h->reserve,
                                       h->budget,
                                       h->reserved,
                                       h->largest_free_block,
                                       h->swap_free,
                                       h->hugetlb_available,
                                       h->cma_lost,
                                       h->gpu_limit,
                                       a.views.nvidia_smi,
                                       a.views.cuda_mem_get_info,
                                       a.views.free_free,
                                       a.views.free_available };
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        uma_text_printf(&text, "%d %llu\n", (int)numbers[i].validity,
                        uma_usable(numbers[i].validity) ? (unsigned long long)numbers[i].value : 0);
    uma_text_printf(&text, "%d %d %s %u\n", h->hugetlb_rule, h->available_estimated, h->reserve_reason ? h->reserve_reason : "-",
                    h->n_orders);
    for (uint32_t i = 0; i < h->n_orders; i++)
        uma_text_printf(&text, "%llu\n", (unsigned long long)h->free_by_order[i]);
    for (int i = 0; i < UMA_LEDGER_KINDS; i++)
        uma_text_printf(&text, "%llu\n", (unsigned long long)a.ledger.bytes[i]);
    uma_text_printf(&text, "%llu %s\n", (unsigned long long)a.ledger.overcounted, a.views.nvidia_smi_text ? a.views.nvidia_smi_text : "-");
    for (size_t i = 0; i < a.n_holders; i++)
        uma_text_printf(&text, "%d %s %s %d %s %s\n", (int)a.holders[i].pid, a.holders[i].kind ? a.holders[i].kind : "-",
                        a.holders[i].model ? a.holders[i].model : "-", a.holders[i].exited, a.holders[i].unit ? a.holders[i].unit : "-",
                        uma_validity_name(a.holders[i].container_limit.validity));
    assert_false(text.failed);
    uma_account_done(&a);
    return text.data;
}

static void same(const char *what, const char *a, const char *b) {
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    if (a[at] || b[at])
        fail_msg("%s differs at byte %zu:\n%.160s\nand\n%.160s", what, at, a + (at > 80 ? at - 80 : 0), b + (at > 80 ? at - 80 : 0));
}

static void check(const char *what, const struct uma_snapshot *s) {
    _cleanup_free_
    char *text = format(s);
    struct uma_snapshot back;
    struct uma_error err = { 0 };
    if (uma_snapshot_parse(text, strlen(text), what, &back, &err) < 0)
        fail_msg("%s", err.text);
    _cleanup_free_
    char *again = format(&back);
    same(what, text, again);
    _cleanup_free_
    char *first = account_text(s), *second = account_text(&back);
    same(what, first, second);
    uma_snapshot_done(&back);
}

/* ---- machine folders ------------------------------------------------------------------------------------------ */

static void read_folder(const char *root, struct uma_snapshot *s) {
    struct uma_observer *o = NULL;
    struct uma_error err = { 0 };
    if (uma_observer_open(&(struct uma_observe_options){ .root = root }, &o, &err) < 0 || uma_observer_read(o, UMA_READ_ALL, s, &err) < 0)
        fail_msg("%s", err.text);
    (void)uma_observer_close(o);
}

/* Kinds, roles and sizes of holders, which a redacted report must still show. */
static char *kinds(const struct uma_snapshot *s) {
    struct uma_account a;
    struct uma_error err = { 0 };
    struct uma_text text = { 0 };
    assert_int_equal(uma_account_build(s, 0, &a, &err), 0);
    for (size_t i = 0; i < a.n_holders; i++)
        uma_text_printf(&text, "%d %s %d %d %d %llu\n", (int)a.holders[i].pid, a.holders[i].kind ? a.holders[i].kind : "-",
                        (int)a.holders[i].role, a.holders[i].cap.present, a.holders[i].model != NULL,
                        uma_usable(a.holders[i].gpu_bytes.validity) ? (unsigned long long)a.holders[i].gpu_bytes.value : 0);
    for (size_t i = 0; i < a.n_problems; i++)
        uma_text_printf(&text, "%s\n", a.problems[i].id);
    uma_text_printf(&text, "%llu\n", (unsigned long long)a.headroom.budget.value);
    uma_account_done(&a);
    return text.data;
}

static void only_known(const char *where, const struct uma_fields *fields, const json_t *object) {
    const char *key;
    const json_t *value;
    void *at = json_object_iter((json_t *)(uintptr_t)object);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)object, at)) {
        key = json_object_iter_key(at);
        value = json_object_iter_value(at);
        const struct uma_field *field = NULL;
        for (size_t i = 0; i < fields->n; i++)
            if (strcmp(fields->list[i].name, key) == 0)
                field = &fields->list[i];
        if (strcmp(key, UMA_SNAPSHOT_REASONS) == 0)
            only_known(where, fields, value);
        else if (!field)
            fail_msg("%s: \"%s\" is no member of %s", where, key, fields->name);
        else if (field->type == UMA_FIELD_OBJECT)
            only_known(where, field->of, value);
        else if (field->of)
            for (size_t i = 0; i < json_array_size(value); i++)
                only_known(where, field->of, json_array_get(value, i));
    }
}

static void check_folder(const char *root) {
    struct uma_snapshot s, again;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_init(&s), 0);
    assert_int_equal(uma_snapshot_init(&again), 0);
    read_folder(root, &s);
    check(root, &s);
    _cleanup_free_
    char *record = NULL;
    assert_true(asprintf(&record, "%s/%s", root, UMA_GPU_RECORD) > 0);
    json_error_t e;
    json_t *gpus = json_load_file(record, 0, &e);
    if (gpus)
        only_known(record, &uma_gpus_fields, gpus);
    json_decref(gpus);
    if (s.time_ns % 1000000000 == 0) { /* it has a recorded time: the document is the same each time */
        read_folder(root, &again);
        _cleanup_free_
        char *first = format(&s), *second = format(&again);
        same(root, first, second);
    }
    _cleanup_free_
    char *before = kinds(&s);
    assert_int_equal(uma_snapshot_redact(&s, &err), 0);
    _cleanup_free_
    char *after = kinds(&s);
    same(root, before, after);
    check(root, &s);
    uma_snapshot_done(&again);
    uma_snapshot_done(&s);
}

static void test_folders(void **state) {
    (void)state;
    const char *fixtures = getenv("UMA_FIXTURES");
    assert_non_null(fixtures);
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/machines", fixtures);
    _cleanup_closedir_ DIR *d = opendir(path);
    assert_non_null(d);
    size_t seen = 0;
    for (const struct dirent *entry = readdir(d); entry; entry = readdir(d)) {
        if (entry->d_name[0] == '.' || strchr(entry->d_name, '.'))
            if (strncmp(entry->d_name, "kernel-", 7) != 0)
                continue;
        (void)snprintf(path, sizeof(path), "%s/machines/%s", fixtures, entry->d_name);
        check_folder(path);
        seen++;
    }
    assert_true(seen >= 14); /* one for each kind of machine that there is to test */
}

/* ---- anything at all ------------------------------------------------------------------------------------------ */

static void test_random(void **state) {
    (void)state;
    struct uma_snapshot s;
    assert_int_equal(uma_snapshot_init(&s), 0);
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct dice dice = { .state = seed * 0x9e3779b97f4a7c15ull, .most = seed % 9 };
        dice_snapshot(&dice, &s);
        char what[32];
        (void)snprintf(what, sizeof(what), "seed %llu", (unsigned long long)seed);
        check(what, &s);
    }
    uma_snapshot_done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_folders), cmocka_unit_test(test_random) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
