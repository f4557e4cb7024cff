/* SPDX-License-Identifier: MIT */
/* The text of status on accounts made by hand: sizes, folding, unknown numbers, hostile names. */
#include "test.h"

#include "base/units.h"
#include "cmd/layout.h"
#include "cmd/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB(x) ((uint64_t)((x)*1073741824.0))
#define KNOWN(x)                                                                                                                           \
    { (x), UMA_KNOWN }

static struct uma_holder holders[60];
static struct uma_gpu gpu;

/* A serving machine: 3.3 GiB free, 101 available, 11.7 held by an embeddings server. */
static void serving(struct uma_snapshot *s, struct uma_account *a) {
    *s = (struct uma_snapshot){ .time_ns = 1790000000000000000 };
    *a = (struct uma_account){ 0 };
    s->platform.host = "spark-1";
    s->platform.name = UMA_PLATFORM_DGX_SPARK;
    s->platform.unified = UMA_YES;
    s->processes.source.validity = UMA_KNOWN;
    gpu = (struct uma_gpu){ .name = "NVIDIA GB10",
                            .celsius = KNOWN(71),
                            .limit_margin_celsius = KNOWN(13),
                            .watts = KNOWN(91.25),
                            .sm_hertz = KNOWN(2418000000),
                            .utilization = KNOWN(0.96),
                            .throttle_reasons = KNOWN(UMA_REASON_SW_POWER_CAP | UMA_REASON_GPU_IDLE | UMA_REASON_BOARD_LIMIT | 0x800) };
    s->gpus.source.validity = UMA_KNOWN;
    s->gpus.n = 1;
    s->gpus.list = &gpu;
    struct uma_headroom *h = &a->headroom;
    h->total = (struct uma_u64)KNOWN(GIB(121.7));
    h->now = (struct uma_u64)KNOWN(GIB(3.3));
    h->available = (struct uma_u64)KNOWN(GIB(101));
    h->reclaimable_cache = (struct uma_u64)KNOWN(GIB(97.7));
    h->driver_pools = (struct uma_u64)KNOWN(0);
    h->reserve = (struct uma_u64)KNOWN(GIB(6));
    h->reserved = (struct uma_u64)KNOWN(0);
    h->budget = (struct uma_u64)KNOWN(GIB(95));
    h->largest_free_block = (struct uma_u64)KNOWN(4 * UMA_MIB);
    h->swap_free = (struct uma_u64)KNOWN(GIB(16));
    a->ledger.known = true;
    a->ledger.total = GIB(121.7);
    a->ledger.bytes[UMA_LEDGER_FREE] = GIB(3.3);
    a->ledger.bytes[UMA_LEDGER_CACHE_CLEAN] = GIB(97);
    a->ledger.bytes[UMA_LEDGER_CACHE_MAPPED] = GIB(2);
    a->ledger.bytes[UMA_LEDGER_ANON] = GIB(4);
    a->ledger.bytes[UMA_LEDGER_SLAB] = GIB(1);
    a->ledger.bytes[UMA_LEDGER_GPU] = GIB(11.7);
    a->ledger.bytes[UMA_LEDGER_KERNEL] = GIB(0.02);
    a->ledger.bytes[UMA_LEDGER_FREE_PERCPU_LISTS] = GIB(0.04);
    a->ledger.bytes[UMA_LEDGER_UNEXPLAINED] = a->ledger.total;
    for (int i = 0; i < UMA_LEDGER_UNEXPLAINED; i++)
        a->ledger.bytes[UMA_LEDGER_UNEXPLAINED] -= a->ledger.bytes[i];
    holders[0] = (struct uma_holder){ .pid = 4321,
                                      .name = "VLLM::EngineCor",
                                      .kind = "vllm",
                                      .role = UMA_ROLE_SERVE,
                                      .gpu_bytes = KNOWN(GIB(11.7)),
                                      .anon_bytes = KNOWN(GIB(1.9)),
                                      .shmem_bytes = KNOWN(GIB(0.1)),
                                      .cap = { true, KNOWN(0.1), KNOWN(GIB(12.17)), "--gpu-memory-utilization" },
                                      .container = "embeddings" };
    a->n_holders = 1;
    a->gpu_listed = true;
    a->holders = holders;
    a->views = (struct uma_views){
        .nvidia_smi_text = "[N/A]", .cuda_mem_get_info = KNOWN(GIB(3.3)), .free_free = KNOWN(GIB(3.3)), .free_available = KNOWN(GIB(101))
    };
    a->n_problems = 1;
    a->problems[0] =
        (struct uma_problem){ "cache-starves-cuda", UMA_WARNING, "file cache hides most of the pool from CUDA",
                              "MemFree is 3.3 GiB while 97.7 GiB of cache could be dropped", "umactl cache evict --all-models" };
}

/* 40 of everything: nothing of it may make the page larger than the screen. */
static void crowded(struct uma_snapshot *s, struct uma_account *a) {
    serving(s, a);
    for (int i = 0; i < UMA_LEDGER_KINDS; i++)
        a->ledger.bytes[i] = a->ledger.total / UMA_LEDGER_KINDS;
    for (size_t i = 0; i < ELEMENTS(holders); i++) {
        holders[i] = holders[0];
        holders[i].pid = 1000 + (int32_t)i;
    }
    a->n_holders = ELEMENTS(holders);
    a->n_problems = 20;
    for (size_t i = 0; i < a->n_problems; i++) {
        a->problems[i] = a->problems[0];
        a->problems[i].severity = i < 8 ? UMA_CRITICAL : UMA_INFO;
        a->problems[i].evidence =
            "a long piece of evidence that takes more than one line of eighty columns, as evidence with numbers in it does";
    }
}

static char *text_of(const struct uma_snapshot *s, const struct uma_account *a, struct uma_status_style style) {
    struct uma_text t = { 0 };
    uma_status_text(&t, s, a, &(struct uma_claims){ 0 }, &style);
    assert_false(t.failed);
    if (getenv("UMA_SHOW"))
        (void)fprintf(stderr, "%s----\n", t.data);
    return t.data;
}

static void assert_has(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("\"%s\" is missing in:\n%s", part, text);
}

/* Every line at most `columns` wide; returns the number of lines. */
static size_t lines_within(const char *text, size_t columns) {
    size_t n = 0;
    for (const char *line = text; *line; n++) {
        size_t l = strcspn(line, "\n");
        char one[2048];
        assert_true(l < sizeof one);
        (void)memcpy(one, line, l);
        one[l] = '\0';
        if (uma_text_columns(one) > columns)
            fail_msg("%zu columns, %zu allowed: %s", uma_text_columns(one), columns, one);
        line += l + (line[l] == '\n');
    }
    return n;
}

static void test_the_budget_stands_first(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 80, .rows = 24, .utf8 = true });
    assert_int_equal(strncmp(t, "A new job can have 95.0 GiB of 121.7 GiB", 40), 0);
    assert_has(t, "= 101.0 available - 6.0 reserve - 0.0 reserved (GiB)");
    assert_has(t, "now 3.3 GiB");
    assert_has(t, "file cache, clean");
    assert_has(t, "4321  vllm serve");
    assert_has(t, "0.10 = 12.2");
    assert_has(t, "embeddings: VLLM");
    assert_has(t, "nvidia-smi [N/A], cudaMemGetInfo 3.3, free 3.3 (available 101.0)");
    assert_has(t, "97.7 GiB of cache count as used there");
    assert_has(t, "GB10 71 C (13 to limit), 91 W, 2418 MHz, 96 % busy,");
    assert_has(t, "throttled");
    assert_has(t, "sw_power_cap+board_limit+0x800");
    assert_has(t, "spark-1, dgx-spark, ");
    assert_null(strstr(t, "gpu_idle"));
    assert_has(t, "umactl cache evict --all-models");
    assert_has(t, "smaller rows");
    assert_true(lines_within(t, 80) < 24);
}

static void test_fits_the_screen(void **state) {
    (void)state;
    static const struct uma_status_style sizes[] = { { .columns = 80, .rows = 24 },
                                                     { .columns = 200, .rows = 50 },
                                                     { .columns = 100, .rows = 30 } };
    struct uma_snapshot s;
    struct uma_account a;
    crowded(&s, &a);
    for (size_t i = 0; i < ELEMENTS(sizes); i++) {
        _cleanup_free_
        char *t = text_of(&s, &a, sizes[i]);
        assert_true(lines_within(t, sizes[i].columns) < sizes[i].rows);
        assert_has(t, "critical");
        assert_has(t, "more: umactl status --all");
    }
}

static void test_narrow(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    for (unsigned columns = 47; columns <= 132; columns += 17) {
        _cleanup_free_
        char *t = text_of(&s, &a, (struct uma_status_style){ .columns = columns, .utf8 = true });
        (void)lines_within(t, columns);
    }
}

static void test_all_folds_nothing(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    crowded(&s, &a);
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 80, .rows = 24, .all = true });
    assert_null(strstr(t, "and 5"));
    assert_has(t, "1059  vllm serve");
}

static void test_unknown_is_a_question_mark(void **state) {
    (void)state;
    struct uma_snapshot s = { 0 };
    struct uma_account a = { 0 };
    s.meminfo.source = (struct uma_source){ .validity = UMA_DENIED, .path = "proc/meminfo", .detail = "Permission denied" };
    s.gpus.hung = true;
    s.gpus.source = (struct uma_source){ .validity = UMA_FAILED, .path = "nvml", .detail = "no answer within 2.0 s" };
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 80 });
    assert_has(t, "What a new job can have is unknown");
    assert_has(t, "proc/meminfo: Permission denied");
    assert_has(t, "now ?");
    assert_null(strstr(t, "cudaMemGetInfo")); /* no NVIDIA GPU in sight */
    assert_has(t, "no answer within 2.0 s");
    assert_has(t, "processes could not be read");
    assert_null(strstr(t, "0.0"));
}

static void test_hostile_text(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    s.platform.host = "evil\033[2Jhost";
    holders[0].name = "a\nb\033[31m\xe2\x80\xae";
    holders[0].container = "x\r\n999999  fake";
    a.problems[0].evidence = "pid 1 (\033]0;title\a\n) holds it";
    a.problems[0].remedy = "kill \x9b 1";
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 100, .utf8 = true });
    for (const char *c = t; *c; c++)
        assert_true((unsigned char)*c >= 0x20 || *c == '\n');
    assert_has(t, "a\\nb\\x1b[31m\\u202e");
    assert_null(strstr(t, "\xe2\x80\xae"));
    (void)lines_within(t, 100);
}

static void test_ascii(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    holders[0].name = "caf\xc3\xa9 \xe6\xbc\xa2";
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 80 });
    for (const char *c = t; *c; c++)
        assert_true((unsigned char)*c < 0x80);
    assert_has(t, "caf? ??");
    assert_has(t, "#####");
}

static void test_colour_only_when_asked(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    _cleanup_free_
    char *plain = text_of(&s, &a, (struct uma_status_style){ .columns = 80 });
    _cleanup_free_
    char *colour = text_of(&s, &a, (struct uma_status_style){ .columns = 80, .colour = true });
    assert_null(strchr(plain, '\033'));
    assert_non_null(strchr(colour, '\033'));
    /* without its escape sequences it is the same text */
    struct uma_text bare = { 0 };
    for (const char *c = colour; *c; c++) {
        if (*c == '\033')
            c = strchr(c, 'm');
        else
            uma_text_char(&bare, *c);
    }
    assert_string_equal(bare.data, plain);
    uma_text_done(&bare);
}

static void test_holder_phrase(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    struct uma_text t = { 0 };
    uma_holder_phrase(&t, &holders[0], 0);
    assert_string_equal(t.data, "13.7 GiB  vllm serve, pid 4321: embeddings: VLLM::EngineCor");
    uma_text_reset(&t);
    assert_true(uma_text_columns("x") == 1);
    uma_holder_phrase(&t, &holders[0], 20);
    assert_int_equal(uma_text_columns(t.data), 20);
    uma_text_done(&t);
}

/* A pipe, a file: every row, every holder, every name to its end. */
static void test_a_pipe_gets_all(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    crowded(&s, &a);
    a.ledger.bytes[UMA_LEDGER_PINNED] = 4096;
    holders[59].model = "an-organisation/with-a-model-of-a-name-that-is-longer-than-what-is-left-of-the-line-and-ends-here-Z";
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 100 });
    assert_has(t, "pinned for devices          0.0");
    assert_null(strstr(t, "smaller row"));
    assert_has(t, "1059  vllm serve");
    assert_has(t, "Z");
    assert_null(strstr(t, "umactl status --all"));
    (void)lines_within(t, 100);
}

/* A row that a screen does not show is counted, however small. */
static void test_no_row_vanishes(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    a.ledger.bytes[UMA_LEDGER_FREE_PERCPU_LISTS] = a.ledger.bytes[UMA_LEDGER_KERNEL] = 0;
    a.ledger.bytes[UMA_LEDGER_PINNED] = 4096;
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 80, .rows = 50 });
    assert_null(strstr(t, "pinned"));
    assert_has(t, "1 smaller row ");
}

/* Lines that are left on a screen go to the evidence. */
static void test_evidence_where_there_is_room(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    a.n_problems = 3;
    for (size_t i = 1; i < a.n_problems; i++)
        a.problems[i] = (struct uma_problem){ "x", UMA_INFO, "something smaller", "evidence of the smaller", "see: ls" };
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 80, .rows = 25 });
    assert_true(lines_within(t, 80) < 25);
    assert_has(t, "97.7 GiB of cache could be dropped");
    assert_null(strstr(t, "evidence of the smaller")); /* for that there is none */
}

/* And what does not fit whole is begun. */
static void test_evidence_begun(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    char evidence[701];
    (void)memset(evidence, 'e', sizeof(evidence) - 1);
    for (size_t i = 60; i < sizeof(evidence); i += 61)
        evidence[i] = ' ';
    evidence[sizeof(evidence) - 1] = '\0';
    a.problems[0].evidence = evidence;
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 80, .rows = 24 });
    assert_has(t, "            eeee");
    assert_int_equal(lines_within(t, 80), 23);
}

static void test_caps(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    holders[0].cap = (struct uma_cap){ 0 };
    holders[0].container_limit = (struct uma_u64)KNOWN(GIB(4));
    _cleanup_free_
    char *limit = text_of(&s, &a, (struct uma_status_style){ .columns = 100 });
    assert_has(limit, "limit 4.0");
    assert_has(limit, "which does not count GPU memory");
    holders[0].cap.source = "command line: --gpu-memory-utilization is unreadable";
    _cleanup_free_
    char *unread = text_of(&s, &a, (struct uma_status_style){ .columns = 100 });
    assert_null(strstr(unread, "limit 4.0"));
    assert_has(unread, "cap ? of 4321: command line: --gpu-memory-utilization is unreadable");
}

static void test_what_the_driver_does_not_divide(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    a.gpu_listed = true;
    _cleanup_free_
    char *divided = text_of(&s, &a, (struct uma_status_style){ .columns = 100 });
    assert_has(divided, "GPU, by process");
    assert_null(strstr(divided, "not known"));
    assert_null(strstr(divided, "does not divide"));
    a.gpu_listed = false;
    a.ledger.gpu_whole = true;
    holders[0].gpu_bytes.validity = UMA_DENIED;
    _cleanup_free_
    char *whole = text_of(&s, &a, (struct uma_status_style){ .columns = 100 });
    assert_null(strstr(whole, "by process  "));
    assert_has(whole, "GPU, driver's total");
    assert_has(whole, "11.7 GiB of GPU memory that its driver does not divide by process");
    a.ledger.gpu_whole = false;
    a.n_holders = 0;
    s.gpus = (struct uma_gpus){ .source = { .validity = UMA_FAILED, .detail = "no answer within 2.0 s" }, .hung = true };
    a.ledger.bytes[UMA_LEDGER_UNEXPLAINED] = GIB(60);
    _cleanup_free_
    char *hung = text_of(&s, &a, (struct uma_status_style){ .columns = 100 });
    assert_has(hung, "holders of GPU memory are not known (no answer within 2.0 s); 60.0 GiB are unexplained");
    assert_null(strstr(hung, "no process holds"));
}

static void test_memory_of_its_own(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    serving(&s, &a);
    gpu.unified = UMA_NO;
    gpu.numa_node = 1;
    gpu.memory_free = (struct uma_u64)KNOWN(GIB(31.6));
    gpu.memory_total = (struct uma_u64)KNOWN(GIB(95.6));
    a.views.nvidia_smi = gpu.memory_free;
    a.headroom.cma_lost = (struct uma_u64)KNOWN(GIB(1.3));
    _cleanup_free_
    char *t = text_of(&s, &a, (struct uma_status_style){ .columns = 100 });
    assert_has(t, "GPU memory (HBM) is its own part of that: 31.6 of 95.6 GiB free on NVIDIA GB10");
    assert_has(t, "nvidia-smi 31.6 free,");
    assert_has(t, "now 3.3 GiB, 1.3 of it lost to CMA");
    gpu.numa_node = -1;
    a.headroom.hugetlb_rule = true;
    a.views.free_available = (struct uma_u64)KNOWN(GIB(16.6));
    _cleanup_free_
    char *card = text_of(&s, &a, (struct uma_status_style){ .columns = 100 });
    assert_has(card, "GPU memory is separate: 31.6 of 95.6 GiB free");
    assert_has(card, "in huge pages (ordinary allocations have 15.3 GiB available)");
}

/* A server is no row of question marks, and 64 reasons to throttle are no ten lines. */
static void test_heat(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_account a;
    struct uma_text t = { 0 };
    serving(&s, &a);
    gpu.throttle_reasons.value = UINT64_MAX;
    uma_status_heat_text(&t, &s, 4);
    assert_has(t.data, "throttled by applications_clocks+sw_power_cap+hw_slowdown+sync_boost and 59 more");
    s.gpus = (struct uma_gpus){ 0 };
    uma_text_reset(&t);
    uma_status_heat_text(&t, &s, 4);
    assert_string_equal(t.data, "GPU: ? (not asked)");
    s.platform.name = UMA_PLATFORM_GENERIC;
    s.platform.unified = UMA_NO;
    uma_text_reset(&t);
    uma_status_heat_text(&t, &s, 4);
    assert_string_equal(t.data, "no GPU seen; CPU temperature not known");
    struct uma_sensor sensors[] = { { .chip = "nvme", .kind = UMA_SENSOR_TEMPERATURE, .value = KNOWN(80) },
                                    { .chip = "k10temp", .kind = UMA_SENSOR_TEMPERATURE, .value = KNOWN(61.6) } };
    struct uma_thermal_zone zone = { .type = "acpitz", .celsius = KNOWN(41) };
    s.heat.sensors = sensors;
    s.heat.n_sensors = 2;
    s.heat.zones = &zone;
    s.heat.n_zones = 1;
    uma_text_reset(&t);
    uma_status_heat_text(&t, &s, 4);
    assert_string_equal(t.data, "no GPU seen; CPU 62 C; board 41 C");
    uma_text_done(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_budget_stands_first),
        cmocka_unit_test(test_fits_the_screen),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_all_folds_nothing),
        cmocka_unit_test(test_unknown_is_a_question_mark),
        cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_ascii),
        cmocka_unit_test(test_colour_only_when_asked),
        cmocka_unit_test(test_holder_phrase),
        cmocka_unit_test(test_a_pipe_gets_all),
        cmocka_unit_test(test_no_row_vanishes),
        cmocka_unit_test(test_evidence_where_there_is_room),
        cmocka_unit_test(test_evidence_begun),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_what_the_driver_does_not_divide),
        cmocka_unit_test(test_memory_of_its_own),
        cmocka_unit_test(test_heat),
    };
    return cmocka_run_group_tests_name("status_text", tests, NULL, NULL);
}
