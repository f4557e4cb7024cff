/* SPDX-License-Identifier: MIT */
/* Setting and taking back, on files that stand for the kernel's. */
#include "test.h"

#include "base/units.h"
#include "cache/tune.h"
#include "record/tuning_record.h"
#include "settings_folder.h"

#include <signal.h>
#include <sys/resource.h>

#define SWAPPINESS "proc/sys/vm/swappiness"
#define BYTES "proc/sys/vm/dirty_bytes"
#define RATIO "proc/sys/vm/dirty_ratio"
#define THP "sys/kernel/mm/transparent_hugepage/defrag"

static struct uma_arena *arena;
static struct uma_tune_results results;
static struct uma_error error;

static int setup(void **state) {
    arena = uma_arena_new(16 * UMA_MIB);
    if (!arena || settings_setup(state) < 0)
        return -1;
    settings_put(*state, SWAPPINESS, "180\n");
    settings_put(*state, BYTES, "0\n");
    settings_put(*state, RATIO, "20\n");
    settings_put(*state, THP, "always\n"); /* a plain file cannot mark what is chosen; one word is that word */
    return 0;
}

static int teardown(void **state) {
    arena = uma_arena_free(arena);
    return settings_teardown(state);
}

static const struct uma_tune_wish wishes[] = {
    { "swappiness", SWAPPINESS, "60", NULL },
    { "dirty-limit", BYTES, "1073741824", RATIO },
    { "thp-defrag", THP, "madvise", NULL },
};

static int apply_n(const struct settings *s, const char *boot, size_t n) {
    const struct uma_tune_place place = { s->path, s->state, boot };
    error = (struct uma_error){ 0 };
    results = (struct uma_tune_results){ 0 };
    return uma_tune_apply(&place, wishes, n, arena, &results, &error);
}

static int apply(const struct settings *s) {
    return apply_n(s, "boot-1", ELEMENTS(wishes));
}

static int undo(const struct settings *s, const char *boot) {
    const struct uma_tune_place place = { s->path, s->state, boot };
    error = (struct uma_error){ 0 };
    results = (struct uma_tune_results){ 0 };
    return uma_tune_undo(&place, arena, &results, &error);
}

static void outcomes(enum uma_tune_outcome a, enum uma_tune_outcome b, enum uma_tune_outcome c) {
    const enum uma_tune_outcome expected[] = { a, b, c };
    assert_int_equal(results.n, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(uma_tune_outcome_name(results.list[i].outcome), uma_tune_outcome_name(expected[i]));
}

static void is(const struct settings *s, const char *path, const char *value) {
    char line[128];
    (void)snprintf(line, sizeof line, "%s\n", value);
    assert_string_equal(settings_get(s, path), line);
}

static bool recorded(const struct settings *s) {
    return settings_get(s, "state/tuning.json")[0] != '\0';
}

static void there_and_back(void **state) {
    const struct settings *s = *state;
    assert_int_equal(apply(s), 0);
    outcomes(UMA_TUNE_SET, UMA_TUNE_SET, UMA_TUNE_SET);
    assert_false(results.incomplete);
    assert_string_equal(results.list[0].before, "180");
    assert_string_equal(results.list[0].now, "60");
    is(s, SWAPPINESS, "60");
    is(s, BYTES, "1073741824");
    is(s, THP, "madvise");
    is(s, RATIO, "20"); /* the kernel would show 0 here now */
    assert_true(recorded(s));
    settings_put(s, RATIO, "0\n");
    assert_int_equal(undo(s, "boot-1"), 0);
    outcomes(UMA_TUNE_RESTORED, UMA_TUNE_RESTORED, UMA_TUNE_RESTORED);
    assert_false(results.incomplete);
    is(s, SWAPPINESS, "180");
    is(s, RATIO, "20"); /* what takes dirty_bytes back, which takes no 0 */
    is(s, THP, "always");
    assert_false(recorded(s));
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.n, 0);
}

static void first_before_is_kept(void **state) {
    const struct settings *s = *state;
    assert_int_equal(apply(s), 0);
    assert_int_equal(apply(s), 0);
    outcomes(UMA_TUNE_ALREADY, UMA_TUNE_ALREADY, UMA_TUNE_ALREADY);
    settings_put(s, SWAPPINESS, "10\n"); /* somebody in between */
    assert_int_equal(apply(s), 0);
    outcomes(UMA_TUNE_SET, UMA_TUNE_ALREADY, UMA_TUNE_ALREADY);
    assert_string_equal(results.list[0].before, "10");
    assert_int_equal(undo(s, "boot-1"), 0);
    is(s, SWAPPINESS, "180");
}

static void nothing_to_do(void **state) {
    const struct settings *s = *state;
    settings_put(s, SWAPPINESS, "60\n");
    assert_int_equal(apply_n(s, "boot-1", 1), 0);
    assert_int_equal(results.list[0].outcome, UMA_TUNE_ALREADY);
    assert_false(recorded(s));
}

static void changed_since(void **state) {
    const struct settings *s = *state;
    assert_int_equal(apply(s), 0);
    settings_put(s, SWAPPINESS, "33\n");
    settings_put(s, THP, "always\n");
    assert_int_equal(undo(s, "boot-1"), 0);
    outcomes(UMA_TUNE_CHANGED, UMA_TUNE_RESTORED, UMA_TUNE_UNTOUCHED);
    assert_true(results.incomplete);
    is(s, SWAPPINESS, "33");
    assert_true(recorded(s)); /* of what was left alone */
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.n, 1);
    settings_put(s, SWAPPINESS, "180\n"); /* taken back by hand */
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.list[0].outcome, UMA_TUNE_UNTOUCHED);
    assert_false(recorded(s));
}

/* A kill between the record and the changes, or in the middle of them: what is recorded and was not set is as it was. */
static void killed(void **state) {
    const struct settings *s = *state;
    assert_int_equal(apply(s), 0);
    settings_put(s, BYTES, "0\n");
    settings_put(s, THP, "always\n");
    assert_int_equal(undo(s, "boot-1"), 0);
    outcomes(UMA_TUNE_RESTORED, UMA_TUNE_UNTOUCHED, UMA_TUNE_UNTOUCHED);
    assert_false(results.incomplete);
    assert_false(recorded(s));
}

/* The same on the second time, with another value: both that were ever set count as ours. */
static void killed_again(void **state) {
    const struct settings *s = *state;
    const struct uma_tune_wish other = { "swappiness", SWAPPINESS, "90", NULL };
    const struct uma_tune_place place = { s->path, s->state, "boot-1" };
    assert_int_equal(apply_n(s, "boot-1", 1), 0);
    assert_int_equal(uma_tune_apply(&place, &other, 1, arena, &results, &error), 0);
    is(s, SWAPPINESS, "90");
    settings_put(s, SWAPPINESS, "60\n");
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.list[0].outcome, UMA_TUNE_RESTORED);
    is(s, SWAPPINESS, "180");
}

static void after_a_restart(void **state) {
    const struct settings *s = *state;
    assert_int_equal(apply(s), 0);
    assert_int_equal(undo(s, "boot-2"), 0);
    outcomes(UMA_TUNE_RESTARTED, UMA_TUNE_RESTARTED, UMA_TUNE_RESTARTED);
    assert_false(results.incomplete);
    is(s, SWAPPINESS, "60"); /* whoever set it in this boot meant it */
    assert_false(recorded(s));
    /* and a record of the boot before is no "before" of this one */
    assert_int_equal(apply_n(s, "boot-2", 1), 0);
    settings_put(s, SWAPPINESS, "100\n");
    assert_int_equal(apply_n(s, "boot-2", 1), 0);
    settings_put(s, SWAPPINESS, "120\n");
    assert_int_equal(apply_n(s, "boot-3", 1), 0);
    assert_int_equal(undo(s, "boot-3"), 0);
    is(s, SWAPPINESS, "120");
}

static void broken_record(void **state) {
    const struct settings *s = *state;
    char path[PATH_MAX + 64];
    assert_int_equal(mkdir(s->state, 0700), 0);
    settings_put(s, "state/tuning.json", "{\"schema\": \"umactl.tuning/1\", \"boot_id\": \"b\", \"chan");
    assert_int_equal(apply(s), -EINVAL);
    assert_non_null(strstr(error.text, "tuning.json"));
    is(s, SWAPPINESS, "180");
    assert_int_equal(undo(s, "boot-1"), -EINVAL);
    assert_true(recorded(s)); /* it may be worth reading to somebody */
    (void)snprintf(path, sizeof path, "%s/state/tuning.json", s->path);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(apply(s), -EINVAL);
    is(s, SWAPPINESS, "180");
}

/* Before anything is recorded or changed all of it is looked at. */
static void one_is_missing(void **state) {
    const struct settings *s = *state;
    char path[PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/" THP, s->path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(apply(s), -ENOENT);
    is(s, SWAPPINESS, "180");
    assert_false(recorded(s));
}

static void full_disk(void **state) {
    const struct settings *s = *state;
    struct rlimit old, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    int r = apply(s);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(r, -EFBIG);
    is(s, SWAPPINESS, "180");
    is(s, BYTES, "0");
    assert_false(recorded(s));
}

/* One that is refused by the kernel: the others are set, and it is told. */
static void one_is_refused(void **state) {
    const struct settings *s = *state;
    char path[PATH_MAX + 64];
    settings_put(s, "real", "180\n");
    assert_int_equal(apply_n(s, "boot-1", 1), 0);
    (void)snprintf(path, sizeof path, "%s/" SWAPPINESS, s->path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.list[0].outcome, UMA_TUNE_FAILED);
    assert_non_null(strstr(results.list[0].error, SWAPPINESS));
    assert_true(results.incomplete);
    assert_true(recorded(s));
    settings_put(s, SWAPPINESS, "60\n");
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.list[0].outcome, UMA_TUNE_RESTORED);
    is(s, SWAPPINESS, "180");
}

static void odd_wishes(void **state) {
    const struct settings *s = *state;
    const struct uma_tune_place place = { s->path, s->state, "boot-1" };
    static const struct uma_tune_wish bad[] = {
        { "x", "proc/sys/kernel/core_pattern", "1", NULL },
        { "x", SWAPPINESS, "1 2", NULL },
        { "x", SWAPPINESS, "", NULL },
        { "x", BYTES, "1", "proc/sys/kernel/core_pattern" },
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        assert_int_equal(uma_tune_apply(&place, &bad[i], 1, arena, &results, &error), -EINVAL);
    assert_false(recorded(s));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(there_and_back), TEST(first_before_is_kept), TEST(nothing_to_do), TEST(changed_since),  TEST(killed),
        TEST(killed_again),   TEST(after_a_restart),      TEST(broken_record), TEST(one_is_missing), TEST(full_disk),
        TEST(one_is_refused), TEST(odd_wishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
