/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/arena.h"
#include "base/units.h"
#include "observe/memory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Made by hand in the form of each kernel; the numbers are those of public reports or plain inventions. */
static const char kernel_3_10[] = "MemTotal:       32780412 kB\nMemFree:         1534712 kB\nBuffers:          204800 kB\n"
                                  "Cached:         20480000 kB\nSwapCached:            0 kB\nActive:         15000000 kB\n"
                                  "Inactive:       12000000 kB\nActive(anon):    6000000 kB\nInactive(anon):   100000 kB\n"
                                  "Active(file):    9000000 kB\nInactive(file): 11900000 kB\nUnevictable:           0 kB\n"
                                  "Mlocked:               0 kB\nSwapTotal:       8388604 kB\nSwapFree:        8388604 kB\n"
                                  "Dirty:               120 kB\nWriteback:             0 kB\nAnonPages:       6200000 kB\n"
                                  "Mapped:           300000 kB\nShmem:             90000 kB\nSlab:            1700000 kB\n"
                                  "SReclaimable:    1500000 kB\nSUnreclaim:       200000 kB\nKernelStack:       12000 kB\n"
                                  "PageTables:        40000 kB\nNFS_Unstable:          0 kB\nBounce:                0 kB\n"
                                  "WritebackTmp:          0 kB\nCommitLimit:    24778808 kB\nCommitted_AS:    9000000 kB\n"
                                  "VmallocTotal:   34359738367 kB\nVmallocUsed:      100000 kB\nVmallocChunk:   34359600000 kB\n"
                                  "HardwareCorrupted:     0 kB\nAnonHugePages:   2048000 kB\nHugePages_Total:       0\n"
                                  "HugePages_Free:        0\nHugePages_Rsvd:        0\nHugePages_Surp:        0\n"
                                  "Hugepagesize:       2048 kB\nDirectMap4k:      200000 kB\nDirectMap2M:    33300000 kB\n";

/* The driver-pools report of a DGX Spark (6.17, aarch64, 4 KiB pages). */
static const char kernel_6_17[] =
    "MemTotal:       127600816 kB\nMemFree:         3139656 kB\nMemAvailable:   40174336 kB\nBuffers:           13252 kB\n"
    "Cached:         37694160 kB\nUnevictable:       24640 kB\nMlocked:           24640 kB\nSwapTotal:      16777212 kB\n"
    "SwapFree:       16777212 kB\nZswap:                 0 kB\nZswapped:              0 kB\nAnonPages:       1712244 kB\n"
    "Shmem:              3028 kB\nKReclaimable:     477572 kB\nSUnreclaim:       520360 kB\nSecPageTables:         0 kB\n"
    "VmallocTotal:   135288315904 kB\nVmallocUsed:      101620 kB\nPercpu:            27520 kB\nCmaTotal:         131072 kB\n"
    "CmaFree:           69320 kB\nUnaccepted:            0 kB\nBalloon:               0 kB\nGPUActive:             0 kB\n"
    "GPUReclaim:            0 kB\nHugePages_Total:       2\nHugePages_Free:        1\nHugePages_Rsvd:        0\n"
    "HugePages_Surp:        0\nHugepagesize:       2048 kB\nHugetlb:            4096 kB\n";

/* A Jetson's, with the driver's own line at the end. */
static const char kernel_tegra[] =
    "MemTotal:       64350012 kB\nMemFree:        20000000 kB\nMemAvailable:   30000000 kB\n"
    "CmaTotal:         262144 kB\nCmaFree:          240000 kB\nNvMapMemFree:          0 kB\nNvMapMemUsed:   12582912 kB\n";

static int setup(void **state) {
    *state = uma_arena_new(UMA_MIB);
    return *state ? 0 : -1;
}

static int teardown(void **state) {
    *state = uma_arena_free(*state);
    return 0;
}

static int parse(void **state, const char *text, struct uma_meminfo *ret, struct uma_error *err) {
    return uma_meminfo_parse(text, strlen(text), "proc/meminfo", *state, ret, err);
}

static void assert_u64(struct uma_u64 v, uint64_t expected) {
    assert_int_equal(v.validity, UMA_KNOWN);
    assert_int_equal(v.value, expected);
}

static void old_kernel(void **state) {
    struct uma_meminfo m;
    assert_int_equal(parse(state, kernel_3_10, &m, NULL), 0);
    assert_u64(m.mem_total, 32780412 * UMA_KIB);
    assert_int_equal(m.mem_available.validity, UMA_ABSENT); /* since 3.14 */
    assert_int_equal(m.kreclaimable.validity, UMA_ABSENT);  /* since 4.20 */
    assert_int_equal(m.percpu.validity, UMA_ABSENT);
    assert_u64(m.nfs_unstable, 0);
    assert_u64(m.vmalloc_total, 34359738367 * UMA_KIB);
    assert_u64(m.inactive_file, 11900000 * UMA_KIB);
    assert_u64(m.hugepagesize, 2 * UMA_MIB);
    assert_int_equal(m.n_other, 1);
    assert_string_equal(m.other[0].name, "VmallocChunk");
    assert_int_equal(m.other[0].value, 34359600000 * UMA_KIB);
}

static void spark(void **state) {
    struct uma_meminfo m;
    assert_int_equal(parse(state, kernel_6_17, &m, NULL), 0);
    assert_u64(m.mem_free, 3139656 * UMA_KIB);
    assert_u64(m.mem_available, 40174336 * UMA_KIB);
    assert_u64(m.cma_free, 69320 * UMA_KIB);
    assert_u64(m.hugepages_total, 2); /* a count, not kB */
    assert_u64(m.hugepages_free, 1);
    assert_u64(m.hugetlb, 4 * UMA_MIB);
    assert_u64(m.gpu_active, 0);
    assert_int_equal(m.n_other, 0);
    assert_int_equal(m.nvmap_mem_used.validity, UMA_ABSENT);
}

static void tegra(void **state) {
    struct uma_meminfo m;
    assert_int_equal(parse(state, kernel_tegra, &m, NULL), 0);
    assert_u64(m.nvmap_mem_used, 12 * UMA_GIB);
    assert_int_equal(m.n_other, 1);
}

/* Every key by itself lands in its own field, in the table's order and against it. */
static void every_key(void **state) {
    static const struct {
        const char *key;
        size_t offset;
    } all[] = {
#define UMA_X(field, name) { name, offsetof(struct uma_meminfo, field) },
        UMA_MEMINFO_FIELDS(UMA_X)
#undef UMA_X
    };
    for (int backwards = 0; backwards < 2; backwards++) {
        _cleanup_text_ struct uma_text text = { 0 };
        for (size_t k = 0; k < ELEMENTS(all); k++) {
            size_t i = backwards ? ELEMENTS(all) - 1 - k : k;
            uma_text_printf(&text, strncmp(all[i].key, "HugePages_", 10) == 0 ? "%s: %zu\n" : "%s: %zu kB\n", all[i].key, i + 1);
        }
        struct uma_meminfo m;
        assert_int_equal(uma_meminfo_parse(text.data, text.length, "x", *state, &m, NULL), 0);
        assert_int_equal(m.n_other, 0);
        for (size_t i = 0; i < ELEMENTS(all); i++) {
            const struct uma_u64 *v = (const struct uma_u64 *)(const void *)((const char *)&m + all[i].offset);
            assert_u64(*v, (i + 1) * (strncmp(all[i].key, "HugePages_", 10) == 0 ? 1 : UMA_KIB));
        }
    }
}

static void line_ends_and_indentation(void **state) {
    struct uma_meminfo m;
    assert_int_equal(
        parse(state, "\xef\xbb\xbf  MemFree:\t 12 kB \r\n\r\nnoise\r\n   MemTotal: 100 kB\r\nHugePages_Total:   3\r\n", &m, NULL), 0);
    assert_u64(m.mem_total, 100 * UMA_KIB);
    assert_u64(m.mem_free, 12 * UMA_KIB);
    assert_u64(m.hugepages_total, 3);
}

/* At every place where the text can be cut, a field is right or it is not known; never another number. */
static void cut_anywhere(void **state) {
    struct uma_meminfo whole;
    assert_int_equal(parse(state, kernel_6_17, &whole, NULL), 0);
    for (size_t length = 0; length < sizeof(kernel_6_17) - 1; length++) {
        struct uma_meminfo m;
        if (uma_meminfo_parse(kernel_6_17, length, "x", *state, &m, NULL) < 0) {
            assert_true(length < strlen("MemTotal:       127600816 kB"));
            continue;
        }
        bool ends = kernel_6_17[length - 1] == '\n';
#define UMA_X(field, key)                                                                                                                  \
    if (m.field.validity == UMA_KNOWN)                                                                                                     \
        assert_int_equal(m.field.value, whole.field.value);                                                                                \
    else                                                                                                                                   \
        assert_true(m.field.validity == (ends ? UMA_ABSENT : UMA_UNKNOWN) || m.field.validity == UMA_MALFORMED);
        UMA_MEMINFO_FIELDS(UMA_X)
#undef UMA_X
    }
    struct uma_meminfo m;
    struct uma_error err = { 0 };
    assert_int_equal(parse(state, "MemTotal: 100 kB\nMemFree: 123", &m, &err), 1);
    assert_int_equal(m.mem_free.validity, UMA_MALFORMED);
    assert_int_equal(m.mem_available.validity, UMA_UNKNOWN);
    assert_non_null(strstr(err.text, "proc/meminfo:2: MemFree"));
    assert_int_equal(parse(state, "MemTotal: 100 kB\nMemFree: 50 kB", &m, NULL), 0); /* the unit ends the number */
    assert_u64(m.mem_free, 50 * UMA_KIB);
    assert_int_equal(parse(state, "MemTotal: 100 kB\nHugePages_Total: 1", &m, NULL), 1); /* of 1, or of 1024? */
    assert_int_equal(m.hugepages_total.validity, UMA_MALFORMED);
}

static void malformed_values(void **state) {
    static const char *const bad[] = {
        "-5 kB",
        "",
        "kB",
        "12",
        "12 MB",
        "12kB 3",
        "0x10 kB",
        "1.5 kB",
        "99999999999999999999999999 kB",
        "18014398509481984 kB",
        "\xff\xfe kB",
        "1 2 kB",
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        char text[128];
        struct uma_meminfo m;
        struct uma_error err = { 0 };
        (void)snprintf(text, sizeof(text), "MemTotal: 100 kB\nMemFree: %s\nCached: 7 kB\n", bad[i]);
        assert_int_equal(parse(state, text, &m, &err), 1);
        assert_int_equal(m.mem_free.validity, UMA_MALFORMED);
        assert_int_equal(m.mem_free.value, 0);
        assert_u64(m.cached, 7 * UMA_KIB);
        assert_non_null(strstr(err.text, "proc/meminfo:2: MemFree: expected a number of kB"));
    }
    struct uma_meminfo m;
    assert_int_equal(parse(state, "MemTotal: 100 kB\nHugePages_Free: 3 kB\n", &m, NULL), 1);
    assert_int_equal(m.hugepages_free.validity, UMA_MALFORMED);
}

static void not_a_meminfo(void **state) {
    static const char *const bad[] = { "",         "\n",           "MemFree: x\n", "MemTotal: 0 kB\n", "MemTotal: -3 kB\n",
                                       "MemTotal", "MemTotal: 12", "<html>" };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct uma_meminfo m = { .n_other = 77 };
        struct uma_error err = { 0 };
        assert_int_equal(parse(state, bad[i], &m, &err), -EINVAL);
        assert_int_equal(m.n_other, 77); /* untouched */
        assert_non_null(strstr(err.text, "MemTotal"));
    }
}

/* A paste that lost its first line, or has nonsense there: the rest is kept, and the total is no number. */
static void no_total(void **state) {
    static const char *const texts[] = { "MemFree: 3 kB\nCached: 4 kB\n", "MemTotal: 0 kB\nMemFree: 3 kB\nCached: 4 kB\n",
                                         "MemTotal: ? kB\nMemFree: 3 kB\nCached: 4 kB\n" };
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        struct uma_meminfo m;
        struct uma_error err = { 0 };
        assert_int_equal(parse(state, texts[i], &m, &err), 1);
        assert_int_equal(m.mem_total.validity, UMA_MALFORMED);
        assert_int_equal(m.mem_free.value, 3072);
        assert_int_equal(m.cached.value, 4096);
        assert_int_equal(m.mem_available.validity, UMA_ABSENT);
        assert_non_null(strstr(err.text, "MemTotal"));
    }
}

static void twice(void **state) {
    struct uma_meminfo m;
    assert_int_equal(parse(state, "MemTotal: 100 kB\nMemTotal: 5 kB\nOdd: 1\nOdd: 2\nMemTotal: x\n", &m, NULL), 0);
    assert_u64(m.mem_total, 100 * UMA_KIB);
    assert_int_equal(m.n_other, 1);
    assert_int_equal(m.other[0].value, 1);
}

static void hostile_names(void **state) {
    struct uma_meminfo m;
    assert_int_equal(parse(state, "MemTotal: 100 kB\n: 3\n\xff\x1b[2J: 4 kB\n", &m, NULL), 0);
    assert_int_equal(m.n_other, 1);
    assert_string_equal(m.other[0].name, "\\xff\x1b[2J");
}

/* 10 MB of lines with different names, and of one name: bounded in time and in memory (the arena has 1 MiB). */
static void ten_megabytes(void **state) {
    for (int different = 0; different < 2; different++) {
        _cleanup_text_ struct uma_text text = { 0 };
        for (size_t i = 0; text.length < 10 * UMA_MIB; i++)
            uma_text_printf(&text, "N%zu: 1\n", different ? i : 0);
        uma_text_append(&text, "MemTotal: 100 kB\n");
        struct uma_meminfo m;
        clock_t before = clock();
        assert_int_equal(uma_meminfo_parse(text.data, text.length, "x", *state, &m, NULL), 0);
        assert_true(clock() - before < 5 * CLOCKS_PER_SEC);
        assert_int_equal(m.n_other, different ? UMA_MEMINFO_OTHER_MAX : 1);
        assert_u64(m.mem_total, 100 * UMA_KIB);
    }
}

static void out_of_memory(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(16);
    struct uma_meminfo m;
    static const char text[] = "MemTotal: 100 kB\nOdd: 1 kB\n";
    assert_int_equal(uma_meminfo_parse(text, sizeof(text) - 1, "x", arena, &m, NULL), -ENOMEM);
}

static void node(void **state) {
    (void)state;
    static const char text[] =
        "Node 1 MemTotal:       100663296 kB\nNode 1 MemFree:        90000000 kB\nNode 1 MemUsed:  10663296 kB\n"
        "Node 1 FilePages:         1024 kB\nNode 1 AnonPages:         2048 kB\nNode 1 Shmem:  3 kB\nNode 1 MemTotal: 1 kB\n";
    struct uma_node n = { .id = 1, .has_cpu = UMA_NO };
    assert_int_equal(uma_node_meminfo_parse(text, sizeof(text) - 1, "x", &n, NULL), 0);
    assert_int_equal(n.id, 1);
    assert_int_equal(n.has_cpu, UMA_NO);
    assert_u64(n.mem_total, 96 * UMA_GIB);
    assert_u64(n.file_pages, UMA_MIB);
    assert_u64(n.anon_pages, 2 * UMA_MIB);
    assert_u64(n.shmem, 3072);
    assert_int_equal(n.slab.validity, UMA_ABSENT);
    struct uma_error err = { 0 };
    assert_int_equal(uma_node_meminfo_parse("Node 0 MemTotal: 12\n", 20, "x", &n, &err), 1);
    assert_int_equal(n.mem_total.validity, UMA_MALFORMED);
    assert_non_null(strstr(err.text, "x:1: MemTotal"));
    assert_int_equal(uma_node_meminfo_parse("MemTotal: 12 kB\n", 16, "x", &n, &err), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(old_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(spark, setup, teardown),
        cmocka_unit_test_setup_teardown(tegra, setup, teardown),
        cmocka_unit_test_setup_teardown(every_key, setup, teardown),
        cmocka_unit_test_setup_teardown(line_ends_and_indentation, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(malformed_values, setup, teardown),
        cmocka_unit_test_setup_teardown(not_a_meminfo, setup, teardown),
        cmocka_unit_test_setup_teardown(no_total, setup, teardown),
        cmocka_unit_test_setup_teardown(twice, setup, teardown),
        cmocka_unit_test_setup_teardown(hostile_names, setup, teardown),
        cmocka_unit_test_setup_teardown(ten_megabytes, setup, teardown),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(node),
    };
    return cmocka_run_group_tests_name("meminfo", tests, NULL, NULL);
}
