/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/memory.h"
#include "observe/zones.h"

#include <elf.h>
#include <string.h>
#include <time.h>

/* 6.17, aarch64: per-node statistics in the first zone, boost, cma, high_min and high_max in the lists, an empty zone at the end. */
static const char zoneinfo_new[] =
    "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 2627\n      nr_mapped    2692\n"
    "  pages free     1000\n        boost    5\n        min      69\n        low      86\n        high     103\n"
    "        promo    120\n        spanned  524288\n        present  524288\n        managed  510000\n        cma      32768\n"
    "        protection: (0, 0, 122000, 122000)\n      nr_free_pages 1000\n      nr_free_cma  17330\n"
    "  pagesets\n    cpu: 0\n              count:    100\n              high:     5571\n              batch:    63\n"
    "              high_min: 5571\n              high_max: 48307\n  vm stats threshold: 24\n"
    "    cpu: 1\n              count:    23\n              high:     0\n              batch:    63\n"
    "  vm stats threshold: 24\n  node_unreclaimable:  0\n  start_pfn:           1048576\n"
    "Node 0, zone  Movable\n  pages free     0\n        boost    0\n        min      32\n        low      32\n"
    "        high     32\n        spanned  0\n        present  0\n        managed  0\n        cma      0\n"
    "        protection: (0, 0, 0, 0)\n";

static const char zoneinfo_3_10[] =
    "Node 0, zone   Normal\n  pages free     12345\n        min      11\n        low      13\n        high     16\n"
    "        scanned  0\n        spanned  262144\n        present  262144\n        managed  250000\n"
    "    nr_free_pages 12345\n    nr_inactive_anon 5\n        protection: (0, 0)\n  pagesets\n    cpu: 0\n"
    "              count: 7\n              high:  186\n              batch: 31\n  vm stats threshold: 30\n"
    "  all_unreclaimable: 0\n  start_pfn:         1\n  inactive_ratio:    1\n";

static int setup(void **state) {
    *state = uma_arena_new(8 * UMA_MIB);
    return *state ? 0 : -1;
}

static int teardown(void **state) {
    *state = uma_arena_free(*state);
    return 0;
}

static void assert_u64(struct uma_u64 v, uint64_t expected) {
    assert_int_equal(v.validity, UMA_KNOWN);
    assert_int_equal(v.value, expected);
}

static int zoneinfo(void **state, const char *text, struct uma_zones *zones, struct uma_error *err) {
    return uma_zoneinfo_parse(text, strlen(text), "proc/zoneinfo", *state, zones, err);
}

static int buddyinfo(void **state, const char *text, struct uma_zones *zones, struct uma_error *err) {
    return uma_buddyinfo_parse(text, strlen(text), "proc/buddyinfo", *state, zones, err);
}

static void new_kernel(void **state) {
    struct uma_zones z = { 0 };
    assert_int_equal(zoneinfo(state, zoneinfo_new, &z, NULL), 0);
    assert_int_equal(z.n_zones, 2);
    const struct uma_zone *dma = &z.zones[0], *movable = &z.zones[1];
    assert_string_equal(dma->name, "DMA");
    assert_int_equal(dma->node, 0);
    assert_u64(dma->free_pages, 1000);
    assert_u64(dma->boost_pages, 5);
    assert_u64(dma->min_pages, 69);
    assert_u64(dma->low_pages, 86);
    assert_u64(dma->high_pages, 103); /* not the lists' "high:" */
    assert_u64(dma->spanned_pages, 524288);
    assert_u64(dma->present_pages, 524288);
    assert_u64(dma->managed_pages, 510000);
    assert_u64(dma->cma_pages, 32768);
    assert_u64(dma->pcp_pages, 123);
    assert_int_equal(dma->n_orders, 0);
    assert_string_equal(movable->name, "Movable");
    assert_u64(movable->managed_pages, 0);
    assert_u64(movable->pcp_pages, 0); /* a zone without pages prints no lists */
}

static void old_kernel(void **state) {
    struct uma_zones z = { 0 };
    assert_int_equal(zoneinfo(state, zoneinfo_3_10, &z, NULL), 0);
    assert_int_equal(z.n_zones, 1);
    assert_u64(z.zones[0].free_pages, 12345);
    assert_u64(z.zones[0].managed_pages, 250000);
    assert_u64(z.zones[0].pcp_pages, 7);
    assert_int_equal(z.zones[0].boost_pages.validity, UMA_ABSENT);
    assert_int_equal(z.zones[0].cma_pages.validity, UMA_ABSENT);
}

/* Wherever it is cut: a number is the right one or none, above all the sum over the CPUs. */
static void cut_anywhere(void **state) {
    for (size_t length = 0; length < sizeof(zoneinfo_new) - 1; length++) {
        struct uma_zones z = { 0 };
        int r = uma_zoneinfo_parse(zoneinfo_new, length, "x", *state, &z, NULL);
        uma_arena_reset(*state);
        assert_true(r >= 0 || z.n_zones == 0);
        if (z.n_zones == 0)
            continue;
        const struct uma_zone *dma = &z.zones[0];
        assert_true(dma->pcp_pages.validity != UMA_KNOWN || dma->pcp_pages.value == 123);
        assert_true(dma->free_pages.validity != UMA_KNOWN || dma->free_pages.value == 1000);
        assert_true(dma->managed_pages.validity != UMA_KNOWN || dma->managed_pages.value == 510000);
        assert_true(dma->high_pages.validity != UMA_KNOWN || dma->high_pages.value == 103);
        assert_true(z.n_zones == 1 || dma->pcp_pages.validity == UMA_KNOWN);
    }
}

static void bad_counts(void **state) {
    struct uma_zones z = { 0 };
    struct uma_error err = { 0 };
    assert_int_equal(
        zoneinfo(state,
                 "Node 0, zone Normal\n  pages free -1\n managed 99999999999999999\n present 1\n  pagesets\n    cpu: 0\n  count: x\n"
                 "    cpu: 1\n  count: 5\n  start_pfn: 1\nNode 0, zone Normal\n  pages free 3\n",
                 &z, &err),
        3);
    assert_int_equal(z.n_zones, 1);
    assert_int_equal(z.zones[0].free_pages.validity, UMA_MALFORMED);
    assert_int_equal(z.zones[0].managed_pages.validity, UMA_MALFORMED);
    assert_int_equal(z.zones[0].pcp_pages.validity, UMA_MALFORMED);
    assert_non_null(strstr(err.text, "proc/zoneinfo:2"));
    assert_int_equal(zoneinfo(state, "hello\n", &z, &err), -EINVAL);
    assert_int_equal(zoneinfo(state,
                              "Node 0, zone NameThatIsLongerThanAnyKernelHas\nNode x, zone A\nNode 4294967296, zone A\nNode 0, zone \xff\n",
                              &z, &err),
                     -EINVAL);
}

static void blocks(void **state) {
    struct uma_zones z = { 0 };
    assert_int_equal(zoneinfo(state, zoneinfo_new, &z, NULL), 0);
    assert_int_equal(buddyinfo(state,
                               "Node 0, zone      DMA      0      1      2      3      4      5      6      7      8      9     10 \r\n"
                               "Node 0, zone   Normal    819    754    601    485    224     97     42     35      5      2    483 \n",
                               &z, NULL),
                     0);
    assert_int_equal(z.n_zones, 3); /* joined by name; what zoneinfo did not list is added */
    assert_int_equal(z.zones[0].n_orders, 11);
    assert_int_equal(z.zones[0].blocks[10], 10);
    assert_int_equal(z.zones[1].n_orders, 0);
    assert_string_equal(z.zones[2].name, "Normal");
    assert_int_equal(z.zones[2].blocks[0], 819);
    assert_int_equal(z.zones[2].free_pages.validity, UMA_UNKNOWN);
    /* the other way round */
    struct uma_zones w = { 0 };
    assert_int_equal(buddyinfo(state, "Node 0, zone DMA 1 2 3\nNode 1, zone DMA 4 5 6\n", &w, NULL), 0);
    assert_int_equal(zoneinfo(state, zoneinfo_new, &w, NULL), 0);
    assert_int_equal(w.n_zones, 3);
    assert_u64(w.zones[0].free_pages, 1000);
    assert_int_equal(w.zones[0].blocks[2], 3);
    assert_int_equal(w.zones[1].node, 1);
    assert_int_equal(w.zones[1].free_pages.validity, UMA_UNKNOWN);
}

static void truncated_blocks(void **state) {
    static const struct {
        const char *last;
        bool kept;
    } cases[] = {
        { "Node 0, zone Normal 1 2 3 4\n", true },
        { "Node 0, zone Normal 1 2 3 4", false }, /* of 4, or of 4096? */
        { "Node 0, zone Normal 1 2 3\n", false }, /* fewer orders than the first */
        { "Node 0, zone Normal 1 2 3 4 5\n", false },
        { "Node 0, zone Normal\n", false },
        { "Node 0, zone Normal 1 2 x 4\n", false },
        { "Node 0, zone Normal 1 2 -3 4\n", false },
        { "Node 0, zone Normal 1 2 3 4503599627370496\n", false }, /* beyond 2^52 pages */
        { "Node 0, zone Normal 1 2 3 99999999999999999999999\n", false },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_zones z = { 0 };
        struct uma_error err = { 0 };
        _cleanup_text_ struct uma_text text = { 0 };
        uma_text_printf(&text, "Node 0, zone DMA 9 8 7 6\n%s", cases[i].last);
        assert_int_equal(buddyinfo(state, text.data, &z, &err), cases[i].kept ? 0 : 1);
        assert_int_equal(z.n_zones, cases[i].kept ? 2 : 1);
        assert_true(cases[i].kept || strstr(err.text, "proc/buddyinfo:2"));
    }
    struct uma_zones z = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "Node 0, zone DMA");
    for (int i = 0; i < UMA_ORDERS_MAX + 1; i++)
        uma_text_append(&text, " 0");
    uma_text_append(&text, "\n");
    assert_int_equal(buddyinfo(state, text.data, &z, NULL), 1);
    assert_int_equal(z.n_zones, 0);
    assert_int_equal(buddyinfo(state, "", &z, NULL), -EINVAL);
}

/* Many zones: the array grows and keeps what it had; beyond the limit it is refused, and soon, in whatever order they come. */
static void many_zones(void **state) {
    _cleanup_text_ struct uma_text text = { 0 };
    for (int i = 0; i < UMA_ZONES_MAX; i++)
        uma_text_printf(&text, "Node %d, zone Normal\n  pages free %d\n", i, i + 1);
    struct uma_zones z = { 0 };
    assert_int_equal(zoneinfo(state, text.data, &z, NULL), 0);
    assert_int_equal(z.n_zones, UMA_ZONES_MAX);
    for (int i = 0; i < UMA_ZONES_MAX; i++)
        assert_u64(z.zones[i].free_pages, (uint64_t)i + 1);
    _cleanup_text_ struct uma_text huge = { 0 };
    for (int i = 0; huge.length < 10 * UMA_MIB; i++)
        uma_text_printf(&huge, "Node %d, zone Normal 1\n", 5000000 - i);
    clock_t before = clock();
    struct uma_zones w = { 0 };
    assert_int_equal(buddyinfo(state, huge.data, &w, NULL), -EINVAL);
    assert_int_equal(zoneinfo(state, huge.data, &w, NULL), -EINVAL);
    assert_true(clock() - before < 5 * CLOCKS_PER_SEC);
}

static void page_size(void **state) {
    (void)state;
    struct uma_zone zone = { .managed_pages = { 31900204, UMA_KNOWN }, .n_orders = 2, .blocks = { 1000, 2000 } };
    struct uma_zones z = { .n_zones = 1, .zones = &zone };
    struct uma_meminfo m = { .mem_total = { 31900204 * 4096ull, UMA_KNOWN } };
    assert_u64(uma_page_size_infer(&z, &m, NULL, 0), 4096);
    m.mem_total.value = 31900204 * 65536ull / 100 * 99; /* near enough */
    assert_u64(uma_page_size_infer(&z, &m, NULL, 0), 65536);
    m.mem_total.value = 31900204 * 16384ull;
    assert_u64(uma_page_size_infer(&z, &m, NULL, 0), 16384);
    m.mem_total.value = 24684092 * 1024ull; /* as seen on a virtual machine: 4.2 pages of 4 KiB are not a page of 16 KiB */
    zone.managed_pages.value = 5859540 / 4;
    assert_int_equal(uma_page_size_infer(&z, &m, NULL, 0).validity, UMA_UNKNOWN);
    m.mem_free = (struct uma_u64){ 5000 * 4096ull, UMA_KNOWN }; /* buddyinfo says */
    assert_u64(uma_page_size_infer(&z, &m, NULL, 0), 4096);
    m.mem_total.value = zone.managed_pages.value * 65536; /* and the two contradict each other */
    assert_int_equal(uma_page_size_infer(&z, &m, NULL, 0).validity, UMA_UNKNOWN);
    zone.managed_pages.validity = UMA_UNKNOWN;
    assert_u64(uma_page_size_infer(&z, &m, NULL, 0), 4096);
    z.buddyinfo.detail = "a zone was left out";
    assert_int_equal(uma_page_size_infer(&z, &m, NULL, 0).validity, UMA_UNKNOWN);
    uint64_t auxv[] = { AT_HWCAP, 4096, AT_PAGESZ, 65536, AT_NULL, 0 };
    assert_u64(uma_page_size_infer(&z, &m, (const char *)auxv, sizeof(auxv)), 65536);
    assert_int_equal(uma_page_size_infer(&z, &m, (const char *)auxv, 24).validity, UMA_UNKNOWN); /* cut off */
    auxv[3] = 12345;
    assert_int_equal(uma_page_size_infer(&z, &m, (const char *)auxv, sizeof(auxv)).validity, UMA_UNKNOWN);
    struct uma_zones none = { 0 };
    assert_int_equal(uma_page_size_infer(&none, &m, NULL, 0).validity, UMA_UNKNOWN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(new_kernel, setup, teardown),   cmocka_unit_test_setup_teardown(old_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_anywhere, setup, teardown), cmocka_unit_test_setup_teardown(bad_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(blocks, setup, teardown),       cmocka_unit_test_setup_teardown(truncated_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(many_zones, setup, teardown),   cmocka_unit_test(page_size),
    };
    return cmocka_run_group_tests_name("zones", tests, NULL, NULL);
}
