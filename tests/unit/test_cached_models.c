/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "account/cached_models.h"
#include "base/units.h"

#include <string.h>

static struct uma_arena *arena;

static int begin(void **state) {
    (void)state;
    arena = uma_arena_new(1 << 20);
    return arena ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    arena = uma_arena_free(arena);
    return 0;
}

static struct uma_cached_file file(const char *path, const char *model, uint64_t resident, int64_t used_ns) {
    return (struct uma_cached_file){ .path = path, .model = model, .resident = { resident, UMA_KNOWN }, .used_ns = used_ns };
}

static void test_build(void **state) {
    (void)state;
    struct uma_pid mapper = { 77 }, opener = { 88 };
    struct uma_cached_file files[] = {
        file("/hub/a2", "org/a", 30, 5),
        file("/data/x", NULL, 40, 9),
        file("/hub/b", "b", 60, 1),
        file("/hub/a1", "org/a", 50, 7),
        file("/hub/a3", "org/a", 0, 99), /* nothing of it is in the cache */
        file("/data/y", NULL, 40, 0),
        file("org/a", NULL, 7, 0), /* a file that is called as the model is none of its files */
        { .path = "/denied", .model = "org/a", .resident = { .value = 1 << 30, .validity = UMA_DENIED } },
        { .path = "/dev/shm/m", .kind = UMA_CACHED_MEMORY, .resident = { 1000, UMA_KNOWN } },
        { .path = "/dev/nvme0n1", .kind = UMA_CACHED_BLOCK_DEVICE, .resident = { 1000, UMA_KNOWN } },
        { .resident = { 1000, UMA_KNOWN } }, /* no name at all */
    };
    files[1].shown = "/x of the container";
    files[0].n_open_by = 1;
    files[0].open_by = &opener;
    files[2].n_mapped_by = 1;
    files[2].mapped_by = &mapper;
    struct uma_page_cache cache = { .n_files = ELEMENTS(files), .files = files };
    struct uma_cached_model *m = NULL;
    size_t n = 0;
    assert_int_equal(uma_cached_models_build(&cache, arena, &n, &m), 0);
    assert_int_equal(n, 5);
    assert_string_equal(m[0].name, "org/a");
    assert_true(m[0].is_model);
    assert_int_equal(m[0].resident, 80);
    assert_int_equal(m[0].n_files, 2);
    assert_int_equal(m[0].used_ns, 7);
    assert_int_equal(m[0].open_by, 88);
    assert_int_equal(m[0].mapped_by, 0);
    assert_true(uma_cached_in_use(&m[0]));
    assert_string_equal(m[1].name, "b");
    assert_int_equal(m[1].mapped_by, 77);
    assert_string_equal(m[3].name, "/x of the container");
    assert_string_equal(m[3].path, "/data/x");
    assert_null(m[1].path);
    assert_false(m[2].is_model);
    assert_int_equal(m[2].n_files, 1);
    assert_string_equal(m[2].name, "/data/y");
    assert_int_equal(m[4].resident, 7);

    assert_int_equal(uma_cached_models_build(&(struct uma_page_cache){ 0 }, arena, &n, &m), 0);
    assert_int_equal(n, 0);
    files[0].resident.value = files[3].resident.value = UINT64_MAX - 5; /* nonsense adds up to the largest, not to little */
    assert_int_equal(uma_cached_models_build(&cache, arena, &n, &m), 0);
    assert_true(m[0].resident == UINT64_MAX);
}

static void test_shell_word(void **state) {
    (void)state;
    static const struct {
        const char *name, *word; /* NULL: refused */
    } cases[] = {
        { "Qwen/Qwen3-32B", "Qwen/Qwen3-32B" },
        { "llama3.1:8b", "llama3.1:8b" },
        { "-rf", "'-rf'" },
        { "my model", "'my model'" },
        { "it's", "'it'\"'\"'s'" },
        { "';reboot;'", "''\"'\"';reboot;'\"'\"''" },
        { "$(reboot)", "'$(reboot)'" },
        { "`reboot`", "'`reboot`'" },
        { "a;b", "'a;b'" },
        { "=ls", "'=ls'" },
        { "~root", "'~root'" },
        { "*", "'*'" },
        { "a!b", "'a!b'" },
        { "\xe9\x80\x9a\xe4\xb9\x89", "'\xe9\x80\x9a\xe4\xb9\x89'" },
        { "", NULL },
        { "a\nb", NULL },
        { "a\\xffb", NULL },
        { "a\tb", NULL },
        { "\x1b[2J", NULL },
        { "\x7f", NULL },
        { "\xc2\x9b", NULL },
        { "\xe2\x80\xae", NULL }, /* right to left */
        { "a\xff", NULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_text_ struct uma_text t = { 0 };
        uma_text_append(&t, "#");
        bool fits = uma_shell_word(&t, cases[i].name);
        if (fits != (cases[i].word != NULL) || strcmp(t.data + 1, cases[i].word ? cases[i].word : "") != 0)
            fail_msg("\"%s\" became \"%s\"", cases[i].name, t.data + 1);
    }
    char longest[514];
    (void)memset(longest, 'x', sizeof longest);
    longest[513] = '\0';
    _cleanup_text_ struct uma_text t = { 0 };
    assert_false(uma_shell_word(&t, longest));
    longest[512] = '\0';
    assert_true(uma_shell_word(&t, longest));
}

/* ---- what to evict first ------------------------------------------------------------------------------------ */

static bool at_least(const void *userdata, uint64_t evicted) {
    return evicted >= *(const uint64_t *)userdata;
}

/* `worth` 10; an eviction of `enough` cures. */
static void remedy(const char *expected, uint64_t enough, uint64_t unreadable, const struct uma_cached_model *models, size_t n) {
    _cleanup_text_ struct uma_text t = { 0 };
    struct uma_page_cache cache = { .unreadable = { unreadable, UMA_KNOWN } };
    uma_cached_remedy(&t, &cache, models, n, 10, at_least, &enough);
    assert_string_equal(t.data, expected);
}

static struct uma_cached_model model(const char *name, uint64_t resident, int32_t mapped_by) {
    return (struct uma_cached_model){ .name = name, .is_model = true, .n_files = 1, .resident = resident, .mapped_by = mapped_by };
}

static void test_remedy(void **state) {
    (void)state;
    struct uma_cached_model one[] = { model("org/a", 50, 0), model("b", 20, 0) };
    remedy("umactl cache evict --model org/a", 40, 0, one, 2);
    remedy("umactl cache evict --all-models", 60, 0, one, 2);  /* the first alone would not do */
    remedy("umactl cache evict --model org/a", 60, 0, one, 1); /* there is no other */
    struct uma_cached_model used[] = { model("org/a", 50, 7), model("b", 20, 0), model("c", 11, 0) };
    remedy("umactl cache evict --model b", 40, 0, used, 3); /* not what somebody maps, and no more than what nobody uses */
    used[1].open_by = 9;
    used[2].open_by = 9;
    remedy("see: umactl cache", 40, 0, used, 3);
    used[2].open_by = 0;
    remedy("umactl cache evict --model c", 40, 0, used, 3);
    used[2].resident = 9;
    remedy("see: umactl cache", 40, 0, used, 3); /* not worth it */
    remedy("see: umactl cache", 40, 0, NULL, 0);
    remedy("see: sudo umactl cache", 40, 3, NULL, 0); /* root is told more */

    struct uma_cached_model small[] = { model("x", 50, 7), model("a", 6, 0), model("b", 6, 0) };
    remedy("umactl cache evict --all-models", 40, 0, small, 3);

    struct uma_cached_model set[] = { model("/a set", 50, 0), model("b", 20, 0) };
    set[0].is_model = false;
    set[0].path = "/data/a set";
    remedy("umactl cache evict '/data/a set'", 40, 0, set, 2);
    set[1].resident = 60;
    remedy("umactl cache evict --model b", 40, 0, &set[0], 2);
    set[0].path = "/data/\033[2J";
    set[1].resident = 2;
    remedy("see: umactl cache", 40, 0, set, 2);

    /* names that must not become a command */
    struct uma_cached_model hostile[] = { model("a\nrm -rf /", 50, 0) };
    remedy("umactl cache evict --all-models", 40, 0, hostile, 1);
    hostile[0].name = "--help";
    remedy("umactl cache evict --model='--help'", 40, 0, hostile, 1);
    hostile[0].name = "x; rm -rf ~ #'";
    remedy("umactl cache evict --model 'x; rm -rf ~ #'\"'\"''", 40, 0, hostile, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_build, begin, end),
        cmocka_unit_test(test_shell_word),
        cmocka_unit_test(test_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
