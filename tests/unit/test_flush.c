/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "base/units.h"
#include "base/values.h"
#include "cache/flush.h"

#include <string.h>

static void blocks(void **state) {
    (void)state;
    struct uma_headroom h = { .n_orders = 11 };
    for (uint32_t order = 0; order < 11; order++)
        h.free_by_order[order] = UINT64_C(1) << order;
    struct uma_u64 large = uma_free_in_blocks(&h, uma_known_u64(4096), UMA_LARGE_BLOCK);
    assert_int_equal(large.validity, UMA_KNOWN);
    assert_int_equal(large.value, (1 << 9) + (1 << 10)); /* 2 MiB are 512 pages of 4 KiB */
    large = uma_free_in_blocks(&h, uma_known_u64(65536), UMA_LARGE_BLOCK);
    assert_int_equal(large.value, (1 << 11) - (1 << 5));
    assert_int_equal(uma_free_in_blocks(&h, uma_known_u64(4096), 0).value, (1 << 11) - 1);
    assert_int_equal(uma_free_in_blocks(&h, uma_no_u64(UMA_UNKNOWN), 1).validity, UMA_UNKNOWN);
    h.n_orders = 0;
    assert_int_equal(uma_free_in_blocks(&h, uma_known_u64(4096), 1).validity, UMA_UNKNOWN);
}

/* The switches are files of a folder, the machine is this one. */
struct machine {
    struct folder folder;
    struct uma_observer *observer;
    unsigned stop_at; /* the question that is answered with yes; 0: none */
    unsigned asked;
    char told[UMA_FLUSH_STEPS * 16];
};

static int setup(void **state) {
    static struct machine machine;
    struct uma_observe_options options = { 0 };
    machine = (struct machine){ 0 };
    *state = &machine;
    if (folder_new(&machine.folder) < 0)
        return -1;
    folder_put(&machine.folder, "proc/sys/vm/drop_caches", "");
    folder_put(&machine.folder, "proc/sys/vm/compact_memory", "");
    return uma_observer_open(&options, &machine.observer, NULL);
}

static int teardown(void **state) {
    struct machine *m = *state;
    (void)uma_observer_close(m->observer);
    folder_done(&m->folder);
    return 0;
}

static bool stop(void *userdata) {
    struct machine *m = userdata;
    return ++m->asked == m->stop_at;
}

static void tell(void *userdata, enum uma_flush_step step) {
    struct machine *m = userdata;
    size_t n = strlen(m->told);
    (void)snprintf(m->told + n, sizeof(m->told) - n, "%s ", uma_flush_step_name(step));
}

static struct uma_flush_options options_of(struct machine *m) {
    return (struct uma_flush_options){ .prefix = m->folder.path, .stop = stop, .tell = tell, .userdata = m };
}

static void expect_switch(const struct machine *m, const char *name, const char *text) {
    char path[512], found[16] = "";
    (void)snprintf(path, sizeof path, "%s/proc/sys/vm/%s", m->folder.path, name);
    _cleanup_fclose_ FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(found, 1, sizeof found - 1, f);
    found[n] = '\0';
    assert_string_equal(found, text);
}

static void all_steps(void **state) {
    struct machine *m = *state;
    struct uma_flush_options options = options_of(m);
    struct uma_flush_receipt receipt;
    struct uma_error err = { 0 };
    assert_int_equal(uma_flush(m->observer, &options, &receipt, &err), 0);
    assert_string_equal(m->told, "before page_cache slab compact ");
    assert_false(receipt.interrupted);
    assert_false(receipt.synced);
    for (size_t i = 0; i < UMA_FLUSH_STEPS; i++) {
        const struct uma_flush_reading *r = &receipt.steps[i];
        uint64_t sum = 0;
        assert_true(r->done);
        assert_true(r->ledger.known);
        for (size_t k = 0; k < UMA_LEDGER_KINDS; k++)
            sum += r->ledger.bytes[k];
        assert_int_equal(sum, r->ledger.total);
        assert_true(uma_usable(r->free.validity));
    }
    /* page cache first, then slab: the second write replaced the first in a file */
    expect_switch(m, "drop_caches", "2\n");
    expect_switch(m, "compact_memory", "1\n");
    assert_string_equal(receipt.compact_failed, "");
}

static void stopped_between_steps(void **state) {
    struct machine *m = *state;
    struct uma_flush_options options = options_of(m);
    struct uma_flush_receipt receipt;
    m->stop_at = 2;
    assert_int_equal(uma_flush(m->observer, &options, &receipt, NULL), 0);
    assert_true(receipt.interrupted);
    assert_true(receipt.steps[UMA_FLUSH_PAGE_CACHE].done);
    assert_false(receipt.steps[UMA_FLUSH_SLAB].done);
    expect_switch(m, "drop_caches", "1\n");
    expect_switch(m, "compact_memory", "");
}

static void dry_run_changes_nothing(void **state) {
    struct machine *m = *state;
    struct uma_flush_options options = options_of(m);
    struct uma_flush_receipt receipt;
    options.dry_run = true;
    assert_int_equal(uma_flush(m->observer, &options, &receipt, NULL), 0);
    assert_true(receipt.steps[UMA_FLUSH_BEFORE].done);
    assert_false(receipt.steps[UMA_FLUSH_PAGE_CACHE].done);
    expect_switch(m, "drop_caches", "");
    expect_switch(m, "compact_memory", "");
}

static void without_compaction(void **state) {
    struct machine *m = *state;
    struct uma_flush_options options = options_of(m);
    struct uma_flush_receipt receipt;
    folder_drop(&m->folder, "proc/sys/vm/compact_memory");
    assert_int_equal(uma_flush(m->observer, &options, &receipt, NULL), 0);
    assert_non_null(strstr(receipt.compact_failed, "compact_memory"));
    assert_true(receipt.steps[UMA_FLUSH_COMPACT].done); /* what came back is read nevertheless */
}

static void without_the_switch(void **state) {
    struct machine *m = *state;
    struct uma_flush_options options = options_of(m);
    struct uma_flush_receipt receipt;
    struct uma_error err = { 0 };
    folder_drop(&m->folder, "proc/sys/vm/drop_caches");
    assert_int_equal(uma_flush(m->observer, &options, &receipt, &err), -ENOENT);
    assert_non_null(strstr(err.text, "drop_caches"));
    expect_switch(m, "compact_memory", "");
}

#define MACHINE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(blocks),
                                        MACHINE_TEST(all_steps),
                                        MACHINE_TEST(stopped_between_steps),
                                        MACHINE_TEST(dry_run_changes_nothing),
                                        MACHINE_TEST(without_compaction),
                                        MACHINE_TEST(without_the_switch) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
