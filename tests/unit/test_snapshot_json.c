/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/error.h"
#include "observe/snapshot_json.h"
#include "random_snapshot.h"

static char *format(const struct uma_snapshot *s, size_t *ret_length) {
    char *text = NULL;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_format(s, &text, ret_length, &err), 0);
    assert_non_null(text);
    assert_int_equal(strlen(text), *ret_length);
    return text;
}

static void round_trip(const struct uma_snapshot *s) {
    size_t n = 0, m = 0;
    _cleanup_free_
    char *text = format(s, &n);
    struct uma_snapshot back;
    struct uma_error err = { 0 };
    int r = uma_snapshot_parse(text, n, "text", &back, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    _cleanup_free_
    char *again = format(&back, &m);
    if (n != m || memcmp(text, again, n) != 0) {
        size_t at = 0;
        while (at < MIN_OF(n, m) && text[at] == again[at])
            at++;
        fail_msg("differs at byte %zu: \"%.60s\" and \"%.60s\"", at, text + (at > 20 ? at - 20 : 0), again + (at > 20 ? at - 20 : 0));
    }
    const char *field = first_difference(&uma_snapshot_fields, s, &back);
    if (field)
        fail_msg("field \"%s\" is not the same", field);
    uma_snapshot_done(&back);
}

static void test_round_trip_empty(void **state) {
    (void)state;
    struct uma_snapshot s;
    assert_int_equal(uma_snapshot_init(&s), 0);
    round_trip(&s);
    uma_snapshot_done(&s);
}

static void test_round_trip_random(void **state) {
    (void)state;
    struct uma_snapshot s;
    assert_int_equal(uma_snapshot_init(&s), 0);
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct dice dice = { .state = seed * 0x9e3779b97f4a7c15ull, .most = seed % 9 };
        dice_snapshot(&dice, &s);
        round_trip(&s);
    }
    uma_snapshot_done(&s);
}

/* Every list at its maximum, where that is not a matter of gigabytes. */
static void test_round_trip_full(void **state) {
    (void)state;
    struct uma_snapshot s;
    assert_int_equal(uma_snapshot_init(&s), 0);
    s.n_swaps = UMA_SWAPS_MAX;
    s.swaps = uma_arena_array(s.arena, s.n_swaps, sizeof(*s.swaps));
    s.n_cgroups = UMA_CGROUPS_MAX;
    s.cgroups = uma_arena_array(s.arena, s.n_cgroups, sizeof(*s.cgroups));
    s.cgroups[7].n_dmem = UMA_DMEM_MAX;
    s.zones.n_zones = UMA_ZONES_MAX;
    s.zones.zones = uma_arena_array(s.arena, s.zones.n_zones, sizeof(*s.zones.zones));
    for (size_t i = 0; i < s.zones.n_zones; i++)
        s.zones.zones[i].n_orders = UMA_ORDERS_MAX;
    s.gpus.n = UMA_GPUS_MAX;
    s.gpus.list = uma_arena_array(s.arena, s.gpus.n, sizeof(*s.gpus.list));
    s.gpus.list[3].n_processes = UMA_GPU_PROCESSES_MAX;
    s.gpus.list[3].processes = uma_arena_array(s.arena, UMA_GPU_PROCESSES_MAX, sizeof(*s.gpus.list[3].processes));
    char *longest = uma_arena_alloc(s.arena, UMA_SNAPSHOT_STRING_MAX + 1);
    (void)memset(longest, 'x', UMA_SNAPSHOT_STRING_MAX);
    const char **argv = uma_arena_array(s.arena, UMA_CMDLINE_MAX, sizeof(*argv));
    for (size_t i = 0; i < UMA_CMDLINE_MAX; i++)
        argv[i] = "";
    argv[0] = longest;
    s.processes.n = 1;
    s.processes.list = uma_arena_array(s.arena, 1, sizeof(*s.processes.list));
    s.processes.list[0] =
        (struct uma_process){ .pid = 4194304, .argc = UMA_CMDLINE_MAX, .argv = argv, .cgroup = UMA_CGROUPS_MAX - 1, .container = -1 };
    round_trip(&s);
    uma_snapshot_done(&s);
}

/* What JSON has no way to say becomes "malformed", never another number; and what breaks a promise of uma.h is cut, so that it parses. */
static void test_format_limits(void **state) {
    (void)state;
    struct uma_snapshot s;
    assert_int_equal(uma_snapshot_init(&s), 0);
    s.meminfo.mem_total = (struct uma_u64){ (uint64_t)INT64_MAX + 1, UMA_KNOWN };
    s.meminfo.mem_free = (struct uma_u64){ (uint64_t)INT64_MAX, UMA_KNOWN };
    s.memory_pressure.some.avg10 = (struct uma_f64){ NAN, UMA_KNOWN };
    s.memory_pressure.some.avg60 = (struct uma_f64){ -INFINITY, UMA_STALE };
    s.memory_pressure.some.avg300 = (struct uma_f64){ -0.0, UMA_KNOWN };
    s.meminfo.n_other = 3;
    s.meminfo.other = uma_arena_array(s.arena, 3, sizeof(*s.meminfo.other));
    s.meminfo.other[0] = s.meminfo.other[1] = (struct uma_named_u64){ "Twice", 1 };
    s.meminfo.other[2] = (struct uma_named_u64){ NULL, 1 };
    s.zones.n_zones = 1;
    s.zones.zones = uma_arena_array(s.arena, 1, sizeof(*s.zones.zones));
    (void)memset(s.zones.zones[0].name, 0xff, 16);
    s.zones.zones[0].n_orders = 4000;
    s.processes.n = 1;
    s.processes.list = uma_arena_array(s.arena, 1, sizeof(*s.processes.list));
    char *longer = uma_arena_alloc(s.arena, UMA_SNAPSHOT_STRING_MAX + 10);
    for (size_t i = 0; i + 3 < UMA_SNAPSHOT_STRING_MAX + 10; i += 3)
        (void)memcpy(longer + i, "\xe2\x82\xac", 3);
    s.processes.list[0] =
        (struct uma_process){ .pid = -1, .state = '\n', .name = longer, .start_ticks = UINT64_MAX, .cgroup = -1, .container = -1 };
    s.time_ns = INT64_MAX;
    size_t n = 0;
    _cleanup_free_
    char *text = format(&s, &n);
    struct uma_snapshot back;
    struct uma_error err = { 0 };
    if (uma_snapshot_parse(text, n, "text", &back, &err) < 0)
        fail_msg("%s", err.text);
    assert_null(strstr(text, "-0")); /* a JSON reader takes "-0" for the integer 0, and the text would change */
    assert_int_equal(back.meminfo.mem_total.validity, UMA_MALFORMED);
    assert_int_equal(back.meminfo.mem_free.validity, UMA_KNOWN);
    assert_int_equal(back.meminfo.mem_free.value, INT64_MAX);
    assert_int_equal(back.memory_pressure.some.avg10.validity, UMA_MALFORMED);
    assert_int_equal(back.memory_pressure.some.avg60.validity, UMA_MALFORMED);
    assert_int_equal(back.memory_pressure.some.avg300.validity, UMA_KNOWN);
    assert_int_equal(back.meminfo.n_other, 1);
    assert_string_equal(back.zones.zones[0].name, "???????????????");
    assert_int_equal(back.zones.zones[0].n_orders, UMA_ORDERS_MAX);
    assert_int_equal(back.processes.list[0].pid, 1);
    assert_int_equal(back.processes.list[0].state, 0);
    assert_int_equal(strlen(back.processes.list[0].name), UMA_SNAPSHOT_STRING_MAX / 3 * 3);
    assert_int_equal(back.time_ns, 0);
    uma_snapshot_done(&back);
    uma_snapshot_done(&s);
}

/* A document that knows nothing of the page cache, and one whose files are in no order. */
static void test_page_cache(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_error err = { 0 };
    static const char without[] = "{\"schema\": \"umactl.snapshot/1\"}";
    assert_int_equal(uma_snapshot_parse(without, sizeof(without) - 1, "f", &s, &err), 0);
    assert_int_equal(s.page_cache.source.validity, UMA_UNKNOWN);
    assert_int_equal(s.page_cache.total.validity, UMA_UNKNOWN);
    assert_int_equal(s.page_cache.left_out.validity, UMA_UNKNOWN);
    assert_int_equal(s.page_cache.n_files, 0);
    assert_false(s.page_cache.complete);
    uma_snapshot_done(&s);

    static const char cache[] =
        "{\"source\": {\"state\": \"known\", \"time\": 1790000000}, \"total\": 8192, \"explained\": 8192, \"complete\": true,"
        " \"files\": [{\"path\": \"/z\", \"resident\": null, \"unknown\": {\"resident\": \"denied\"}},"
        " {\"path\": \"/b\", \"resident\": 4096, \"used\": 1789999000.5, \"mapped_by\": [{\"pid\": 7}, {\"pid\": 9}]},"
        " {\"path\": \"/a\", \"resident\": 4096, \"kind\": \"memory\", \"deleted\": true, \"inode\": 12, \"later\": 1}]}";
    struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_page_cache c;
    if (uma_page_cache_parse(cache, sizeof(cache) - 1, "f", arena, &c, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(c.n_files, 3);
    assert_string_equal(c.files[0].path, "/a");
    assert_int_equal(c.files[0].kind, UMA_CACHED_MEMORY);
    assert_true(c.files[0].deleted);
    assert_string_equal(c.files[1].path, "/b");
    assert_int_equal(c.files[1].used_ns, 1789999000500000000);
    assert_int_equal(c.files[1].n_mapped_by, 2);
    assert_int_equal(c.files[1].mapped_by[1].pid, 9);
    assert_string_equal(c.files[2].path, "/z");
    assert_int_equal(c.files[2].resident.validity, UMA_DENIED);

    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_page_cache back;
    uma_page_cache_write(&(struct uma_json){ .text = &text }, NULL, &c);
    assert_int_equal(uma_page_cache_parse(text.data, text.length, "text", arena, &back, &err), 0);
    assert_null(first_difference(&uma_page_cache_fields, &c, &back));

    static const char *const refused[] = {
        "{\"files\": [{\"kind\": \"socket\"}]}",
        "{\"files\": [{\"mapped_by\": [{}]}]}",
        "{\"files\": [{\"mapped_by\": [7]}]}",
        "{\"files\": [{\"resident\": -1}]}",
        "{\"files\": [{\"used\": \"yesterday\"}]}",
        "{\"files\": {}}",
        "{\"complete\": 1}",
        "[]",
    };
    for (size_t i = 0; i < ELEMENTS(refused); i++)
        assert_int_equal(uma_page_cache_parse(refused[i], strlen(refused[i]), "f", arena, &c, &err), -EINVAL);
    (void)uma_arena_free(arena);
}

#define DOCUMENT(members) "{\"schema\": \"umactl.snapshot/1\"" members "}"

/* What must be refused, with the place and what was expected. */
static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *message;
    } cases[] = {
        { "", EINVAL, "f: empty" },
        { " \n", EINVAL, "f: empty" },
        { "MemTotal:       131072 kB\n", EINVAL, "--root" },
        { "{", EINVAL, "f:1:1: not JSON" },
        { "{\n  \"schema\": tru\n}", EINVAL, "f:2:" },
        { DOCUMENT("") "x", EINVAL, "not JSON" },
        { "[]", EPROTO, "no \"schema\"" },
        { "{}", EPROTO, "expected a snapshot with \"umactl.snapshot/1\"" },
        { "{\"schema\": 1}", EPROTO, "no \"schema\"" },
        { "{\"schema\": \"umactl.snapshot/2\"}", EPROTO, "another version, \"umactl.snapshot/2\"" },
        { "{\"schema\": \"umactl.status/1\"}", EPROTO, "the output of `umactl status --json`" },
        { "{\"schema\": \"else\"}", EPROTO, "the schema is \"else\", expected \"umactl.snapshot/1\"" },
        { DOCUMENT(", \"schema\": \"umactl.snapshot/1\""), EINVAL, "duplicate" },
        { DOCUMENT(", \"meminfo\": 3"), EINVAL, "f: meminfo: expected an object, found a number" },
        { DOCUMENT(", \"meminfo\": {\"mem_total\": \"3\"}"), EINVAL, "f: meminfo.mem_total: expected a number, found a string" },
        { DOCUMENT(", \"meminfo\": {\"mem_total\": -1}"), EINVAL, "f: meminfo.mem_total: -1 is out of range" },
        { DOCUMENT(", \"meminfo\": {\"mem_total\": 1.5}"), EINVAL, "f: meminfo.mem_total: expected a whole number" },
        { DOCUMENT(", \"meminfo\": {\"mem_total\": 1e300}"), EINVAL, "expected a whole number" },
        { DOCUMENT(", \"meminfo\": {\"mem_total\": 18446744073709551615}"), EINVAL, "too big integer" },
        { DOCUMENT(", \"meminfo\": {\"mem_total\": 1, \"unknown\": {\"mem_total\": \"absent\"}}"), EINVAL,
          "f: meminfo.unknown.mem_total: \"absent\", but \"mem_total\" is a number" },
        { DOCUMENT(", \"meminfo\": {\"unknown\": {\"mem_total\": \"stale\"}}"), EINVAL, "\"mem_total\" is null or missing" },
        { DOCUMENT(", \"meminfo\": {\"unknown\": {\"mem_total\": \"lost\"}}"), EINVAL, "\"lost\" is not one of unknown, known, stale" },
        { DOCUMENT(", \"meminfo\": {\"unknown\": []}"), EINVAL, "f: meminfo.unknown: expected an object, found a list" },
        { DOCUMENT(", \"meminfo\": {\"other\": {\"A\": null}}"), EINVAL, "f: meminfo.other.A: expected a number, found null" },
        { DOCUMENT(", \"meminfo\": {\"source\": {\"state\": \"fine\"}}"), EINVAL, "f: meminfo.source.state: \"fine\" is not one of" },
        { DOCUMENT(", \"memory_pressure\": {\"some\": {\"avg10\": true}}"), EINVAL, "f: memory_pressure.some.avg10: expected a number" },
        { DOCUMENT(", \"time\": -5"), EINVAL, "f: time: expected a time in seconds" },
        { DOCUMENT(", \"time\": 1e10"), EINVAL, "f: time: expected a time in seconds" },
        { DOCUMENT(", \"swaps\": {}"), EINVAL, "f: swaps: expected a list, found an object" },
        { DOCUMENT(", \"swaps\": null"), EINVAL, "f: swaps: expected a list, found null" },
        { DOCUMENT(", \"swaps\": [{}, {\"path\": 5}]"), EINVAL, "f: swaps[1].path: expected a string or null, found a number" },
        { DOCUMENT(", \"processes\": {\"list\": [{}]}"), EINVAL, "f: processes.list[0].pid: missing" },
        { DOCUMENT(", \"processes\": {\"list\": [{\"pid\": null}]}"), EINVAL, "f: processes.list[0].pid: missing" },
        { DOCUMENT(", \"processes\": {\"list\": [{\"pid\": 0}]}"), EINVAL, "pid: 0 is out of range: expected 1 to 4194304" },
        { DOCUMENT(", \"processes\": {\"list\": [{\"pid\": -1}]}"), EINVAL, "pid: -1 is out of range" },
        { DOCUMENT(", \"processes\": {\"list\": [{\"pid\": 2, \"cgroup\": 0}]}"), EINVAL,
          "f: processes.list[0].cgroup: 0, but there are 0 cgroups" },
        { DOCUMENT(", \"processes\": {\"list\": [{\"pid\": 2, \"cgroup\": -2}]}"), EINVAL, "cgroup: -2 is out of range" },
        { DOCUMENT(", \"containers\": [{}], \"processes\": {\"list\": [{\"pid\": 2, \"container\": 1}]}"), EINVAL,
          "but there are 1 containers" },
        { DOCUMENT(", \"processes\": {\"list\": [{\"pid\": 2}, {\"pid\": 2}]}"), EINVAL, "two processes have the pid 2" },
        { DOCUMENT(", \"processes\": {\"list\": [{\"pid\": 2, \"argv\": [\"a\", null]}]}"), EINVAL,
          "f: processes.list[0].argv[1]: expected a string" },
        { DOCUMENT(", \"processes\": {\"list\": [{\"pid\": 2, \"state\": \"RS\"}]}"), EINVAL, "at most 1 are allowed" },
        { DOCUMENT(", \"zones\": {\"zones\": [{\"name\": \"0123456789abcdef\"}]}"), EINVAL, "a string of 16 bytes, at most 15" },
        { DOCUMENT(", \"zones\": {\"zones\": [{\"blocks\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]}"), EINVAL,
          "f: zones.zones[0].blocks: 33 elements, at most 32 are allowed" },
        { DOCUMENT(", \"zones\": {\"zones\": [{\"blocks\": [-1]}]}"), EINVAL, "f: zones.zones[0].blocks[0]: -1 is out of range" },
        { DOCUMENT(", \"cgroups\": [{\"dmem\": [{},{},{},{},{},{},{},{},{}]}]"), EINVAL, "f: cgroups[0].dmem: 9 elements" },
        { DOCUMENT(", \"platform\": {\"name\": \"toaster\"}"), EINVAL, "\"toaster\" is not one of generic, dgx-spark" },
        { DOCUMENT(", \"platform\": {\"unified\": \"yes\"}"), EINVAL, "f: platform.unified: expected true or false, found a string" },
        { DOCUMENT(", \"platform\": {\"host\": \"a\\u0000b\"}"), EINVAL, "not JSON" },
        { DOCUMENT(", \"platform\": {\"host\": \"\xff\"}"), EINVAL, "not JSON" },
        { DOCUMENT(", \"gpus\": {\"list\": [{\"throttle_seconds\": [1]}]}"), EINVAL,
          "f: gpus.list[0].throttle_seconds: expected an object" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_snapshot s = { .time_ns = 42 };
        struct uma_error err = { 0 };
        int r = uma_snapshot_parse(cases[i].text, strlen(cases[i].text), "f", &s, &err);
        if (r != -cases[i].code || err.code != r || !strstr(err.text, cases[i].message))
            fail_msg("%s: returned %d, \"%s\", expected \"%s\"", cases[i].text, r, err.text, cases[i].message);
        assert_int_equal(s.time_ns, 42); /* untouched */
    }
}

static void test_nul_and_depth(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_error err = { 0 };
    static const char nul[] = "{\"schema\": \"umactl.snapshot/1\"}\0";
    assert_int_equal(uma_snapshot_parse(nul, sizeof(nul) - 1, "f", &s, &err), -EINVAL);
    char deep[4000];
    (void)memset(deep, '[', sizeof(deep));
    assert_int_equal(uma_snapshot_parse(deep, sizeof(deep), "f", &s, &err), -EINVAL);
    assert_non_null(strstr(err.text, "nested more than 64 deep"));
    /* a text that is cut off anywhere is an error, not a smaller snapshot */
    static const char whole[] = DOCUMENT(", \"time\": 1790000000.5, \"meminfo\": {\"mem_total\": 1}, \"swaps\": [{\"path\": \"/s\"}]");
    for (size_t n = 0; n < sizeof(whole) - 1; n++)
        assert_true(uma_snapshot_parse(whole, n, "f", &s, &err) < 0);
    /* more values than could ever be meant */
    size_t n = 20 * 1000 * 1000;
    _cleanup_free_
    char *many = malloc(n);
    (void)memset(many, ',', n);
    many[0] = '[';
    assert_int_equal(uma_snapshot_parse(many, n, "f", &s, &err), -EFBIG);
    assert_non_null(strstr(err.text, "too many values"));
}

static void test_tolerance(void **state) {
    (void)state;
    static const char text[] = "\xef\xbb\xbf" DOCUMENT(
        ", \"a_later_member\": {\"x\": [[[1]]]}, \"time\": 1790000000.123456, \"meminfo\": {\"mem_total\": 1.28e11, \"mem_free\": null, \"cma_total\": null,"
        " \"unknown\": {\"cma_total\": \"absent\", \"later\": \"weird\"}}, \"containers\": [{}],"
        " \"processes\": {\"list\": [{\"pid\": 9, \"container\": 0}, {\"pid\": 3, \"uid\": null, \"cgroup\": null, \"container\": null}]},"
        " \"gpus\": {\"list\": [{\"watts\": 4, \"unknown\": {\"watts\": \"stale\"}}]}");
    struct uma_snapshot s;
    struct uma_error err = { 0 };
    if (uma_snapshot_parse(text, sizeof(text) - 1, "f", &s, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(s.time_ns, 1790000000123456000);
    assert_int_equal(s.meminfo.mem_total.value, 128000000000);
    assert_int_equal(s.meminfo.mem_total.validity, UMA_KNOWN);
    assert_int_equal(s.meminfo.mem_free.validity, UMA_UNKNOWN);
    assert_int_equal(s.meminfo.cma_total.validity, UMA_ABSENT);
    assert_int_equal(s.processes.list[0].pid, 3); /* put in order */
    assert_int_equal(s.processes.list[0].cgroup, -1);
    assert_int_equal(s.processes.list[0].container, -1);
    assert_int_equal(s.processes.list[1].container, 0);
    assert_int_equal(s.gpus.list[0].watts.validity, UMA_STALE);
    assert_float_equal(s.gpus.list[0].watts.value, 4, 0);
    assert_int_equal(s.gpus.list[0].numa_node, -1);
    uma_snapshot_done(&s);
}

static void test_gpus_alone(void **state) {
    (void)state;
    static const char text[] =
        "{\"source\": {\"state\": \"known\", \"time\": 1790000000, \"path\": \"nvml\"}, \"driver\": \"580.95.05\","
        " \"list\": [{\"vendor\": \"nvidia\", \"name\": \"NVIDIA GB10\", \"memory_total\": null, \"unknown\": {\"memory_total\": \"unsupported\"},"
        " \"throttle_seconds\": {\"sw_thermal\": 1.5}, \"processes_validity\": \"known\","
        " \"processes\": [{\"pid\": 77, \"bytes\": 1073741824, \"compute\": true}]}]}";
    struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_gpus gpus;
    struct uma_error err = { 0 };
    if (uma_gpus_parse(text, sizeof(text) - 1, "umactl/gpu.json", arena, &gpus, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(gpus.n, 1);
    assert_string_equal(gpus.driver, "580.95.05");
    assert_int_equal(gpus.list[0].memory_total.validity, UMA_UNSUPPORTED);
    assert_float_equal(gpus.list[0].throttle_seconds[UMA_THROTTLE_SW_THERMAL].value, 1.5, 0);
    assert_int_equal(gpus.list[0].throttle_seconds[UMA_THROTTLE_HW_THERMAL].validity, UMA_UNKNOWN);
    assert_int_equal(gpus.list[0].processes[0].bytes.value, 1073741824);
    _cleanup_text_ struct uma_text first = { 0 }, second = { 0 };
    uma_gpus_write(&(struct uma_json){ .text = &first }, NULL, &gpus);
    struct uma_gpus again;
    assert_int_equal(uma_gpus_parse(first.data, first.length, "f", arena, &again, &err), 0);
    uma_gpus_write(&(struct uma_json){ .text = &second }, NULL, &again);
    assert_string_equal(first.data, second.data);
    assert_int_equal(uma_gpus_parse("{\"list\": 4}", 11, "umactl/gpu.json", arena, &again, &err), -EINVAL);
    assert_string_equal(err.text, "umactl/gpu.json: list: expected a list, found a number");
    (void)uma_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_empty), cmocka_unit_test(test_round_trip_random), cmocka_unit_test(test_round_trip_full),
        cmocka_unit_test(test_format_limits),    cmocka_unit_test(test_page_cache),        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nul_and_depth),    cmocka_unit_test(test_tolerance),         cmocka_unit_test(test_gpus_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
