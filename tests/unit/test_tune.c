/* SPDX-License-Identifier: MIT */
/* Setting and taking back, on files that stand for the kernel's. */
#include "test.h"

#include "base/units.h"
#include "cache/tune.h"
#include "record/tuning_record.h"
#include "settings_folder.h"

/* its write(2) is the one that is called here */
#include "../fakes/settings_kernel.c"

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
    { "swappiness", SWAPPINESS, "60" },
    { "dirty-limit", BYTES, "1073741824" },
    { "thp-defrag", THP, "madvise" },
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

static int undo_how(const struct settings *s, const char *boot, bool force) {
    const struct uma_tune_place place = { s->path, s->state, boot };
    error = (struct uma_error){ 0 };
    results = (struct uma_tune_results){ 0 };
    return uma_tune_undo(&place, force, arena, &results, &error);
}

static int undo(const struct settings *s, const char *boot) {
    return undo_how(s, boot, false);
}

static void outcomes(enum uma_tune_outcome a, enum uma_tune_outcome b, enum uma_tune_outcome c) {
    const enum uma_tune_outcome expected[] = { a, b, c };
    assert_int_equal(results.n, 3);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(uma_tune_outcome_name(results.list[i].outcome), uma_tune_outcome_name(expected[i]));
}

static void is(const struct settings *s, const char *path, const char *value) {
    const char *text = settings_get(s, path);
    char line[128];
    (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    assert_string_equal(line, value);
}

static bool recorded(const struct settings *s) {
    return settings_get(s, "state/tuning.json")[0] != '\0';
}

static void there_and_back(void **state) {
    const struct settings *s = *state;
    assert_int_equal(apply(s), 0);
    outcomes(UMA_TUNE_SET, UMA_TUNE_SET, UMA_TUNE_SET);
    assert_false(results.incomplete);
    assert_string_equal(results.list[0].before.own, "180");
    assert_string_equal(results.list[0].now.own, "60");
    assert_null(results.list[0].counterpart);
    assert_string_equal(results.list[1].counterpart, RATIO);
    assert_string_equal(results.list[1].before.own, "0");
    assert_string_equal(results.list[1].before.counterpart, "20");
    assert_string_equal(results.list[1].now.counterpart, "0");
    is(s, SWAPPINESS, "60");
    is(s, BYTES, "1073741824");
    is(s, THP, "madvise");
    is(s, RATIO, "0");
    assert_true(recorded(s));
    assert_int_equal(undo(s, "boot-1"), 0);
    outcomes(UMA_TUNE_RESTORED, UMA_TUNE_RESTORED, UMA_TUNE_RESTORED);
    assert_false(results.incomplete);
    assert_string_equal(results.list[1].now.own, "0");
    assert_string_equal(results.list[1].now.counterpart, "20");
    is(s, SWAPPINESS, "180");
    is(s, RATIO, "20"); /* what takes dirty_bytes back, which takes no 0 */
    is(s, BYTES, "0");
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
    assert_string_equal(results.list[0].before.own, "10");
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
    settings_put(s, RATIO, "20\n");
    settings_put(s, THP, "always\n");
    assert_int_equal(undo(s, "boot-1"), 0);
    outcomes(UMA_TUNE_RESTORED, UMA_TUNE_UNTOUCHED, UMA_TUNE_UNTOUCHED);
    assert_false(results.incomplete);
    assert_false(recorded(s));
}

/* The same on the second time, with another value: both that were ever set count as ours. */
static void killed_again(void **state) {
    const struct settings *s = *state;
    const struct uma_tune_wish other = { "swappiness", SWAPPINESS, "90" };
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

/* What is in force is the pair: each face, and what somebody made of it since. */
static void pairs(void **state) {
    const struct settings *s = *state;
    static const struct uma_tune_wish wish = { "dirty-limit", BYTES, "1073741824" };
    const struct uma_tune_place place = { s->path, s->state, "boot-1" };
    static const struct { const char *bytes, *ratio; } before[] = { { "0", "20" }, { "4294967296", "0" }, { "0", "0" } };
    char line[64];
    for (size_t i = 0; i < ELEMENTS(before); i++) {
        (void)snprintf(line, sizeof line, "%s\n", before[i].bytes);
        settings_put(s, BYTES, line);
        (void)snprintf(line, sizeof line, "%s\n", before[i].ratio);
        settings_put(s, RATIO, line);
        assert_int_equal(uma_tune_apply(&place, &wish, 1, arena, &results, &error), 0);
        assert_int_equal(results.list[0].outcome, UMA_TUNE_SET);
        is(s, RATIO, "0");
        assert_int_equal(undo(s, "boot-1"), 0);
        assert_int_equal(results.list[0].outcome, UMA_TUNE_RESTORED);
        is(s, BYTES, before[i].bytes);
        is(s, RATIO, before[i].ratio);
        assert_false(recorded(s));
    }
    /* another ratio since: dirty_bytes shows 0, as before, and yet it is not as before */
    settings_put(s, RATIO, "20\n");
    assert_int_equal(uma_tune_apply(&place, &wish, 1, arena, &results, &error), 0);
    settings_put(s, BYTES, "0\n");
    settings_put(s, RATIO, "35\n");
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.list[0].outcome, UMA_TUNE_CHANGED);
    assert_string_equal(results.list[0].now.counterpart, "35");
    is(s, RATIO, "35");
    assert_true(recorded(s));
    assert_int_equal(undo_how(s, "boot-1", true), 0);
    assert_int_equal(results.list[0].outcome, UMA_TUNE_RESTORED);
    assert_string_equal(results.list[0].found.counterpart, "35");
    is(s, RATIO, "20");
    assert_false(recorded(s));
}

/* What does not hold after it was written is not called restored, and stays in the record. */
static void does_not_hold(void **state) {
    const struct settings *s = *state;
    assert_int_equal(apply(s), 0);
    (void)setenv("UMA_SETTINGS_TAKE", "dirty_ratio=15", 1);
    int r = undo(s, "boot-1");
    (void)unsetenv("UMA_SETTINGS_TAKE");
    assert_int_equal(r, 0);
    outcomes(UMA_TUNE_RESTORED, UMA_TUNE_FAILED, UMA_TUNE_RESTORED);
    assert_string_equal(results.list[1].now.counterpart, "15");
    assert_non_null(strstr(results.list[1].error, "and it is 15"));
    assert_true(results.incomplete);
    assert_true(recorded(s));
    settings_put(s, BYTES, "0\n"); /* as the kernel would */
    assert_int_equal(undo_how(s, "boot-1", true), 0);
    assert_int_equal(results.n, 1);
    is(s, RATIO, "20");
}

static void forced(void **state) {
    const struct settings *s = *state;
    assert_int_equal(apply(s), 0);
    settings_put(s, SWAPPINESS, "33\n");
    assert_int_equal(undo_how(s, "boot-1", true), 0);
    outcomes(UMA_TUNE_RESTORED, UMA_TUNE_RESTORED, UMA_TUNE_RESTORED);
    assert_string_equal(results.list[0].found.own, "33");
    assert_false(results.incomplete);
    is(s, SWAPPINESS, "180");
    assert_false(recorded(s));
}

/* One that is missing is told; the others are set, and only they are recorded. */
static void one_is_missing(void **state) {
    const struct settings *s = *state;
    char path[PATH_MAX + 64];
    (void)snprintf(path, sizeof path, "%s/" THP, s->path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(apply(s), 0);
    outcomes(UMA_TUNE_SET, UMA_TUNE_SET, UMA_TUNE_FAILED);
    assert_non_null(strstr(results.list[2].error, THP));
    assert_true(results.incomplete);
    is(s, SWAPPINESS, "60");
    assert_null(strstr(settings_get(s, "state/tuning.json"), "thp-defrag"));
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.n, 2);
    is(s, SWAPPINESS, "180");
}

/* Refused by the kernel when it is written: the same; and with a record of before, that stays as it was. */
static void refused(void **state) {
    const struct settings *s = *state;
    static const char *const errors[] = { "22", "1", "30" }; /* EINVAL, EPERM, EROFS */
    for (size_t i = 0; i < ELEMENTS(errors); i++) {
        char list[32];
        (void)snprintf(list, sizeof list, "dirty_bytes=%s", errors[i]);
        (void)setenv("UMA_SETTINGS_REFUSE", list, 1);
        int r = apply(s);
        (void)unsetenv("UMA_SETTINGS_REFUSE");
        assert_int_equal(r, 0);
        outcomes(UMA_TUNE_SET, UMA_TUNE_FAILED, UMA_TUNE_SET);
        assert_non_null(strstr(results.list[1].error, BYTES));
        assert_true(results.incomplete);
        assert_null(strstr(settings_get(s, "state/tuning.json"), "dirty-limit"));
        is(s, RATIO, "20");
        assert_int_equal(undo(s, "boot-1"), 0);
        assert_int_equal(results.n, 2);
    }
    (void)setenv("UMA_SETTINGS_REFUSE", "swappiness=22", 1);
    assert_int_equal(apply_n(s, "boot-1", 1), 0);
    (void)unsetenv("UMA_SETTINGS_REFUSE");
    assert_int_equal(results.list[0].outcome, UMA_TUNE_FAILED);
    assert_false(recorded(s));
    const struct uma_tune_wish other = { "swappiness", SWAPPINESS, "90" };
    const struct uma_tune_place place = { s->path, s->state, "boot-1" };
    assert_int_equal(apply_n(s, "boot-1", 1), 0);
    (void)setenv("UMA_SETTINGS_REFUSE", "swappiness=22", 1);
    assert_int_equal(uma_tune_apply(&place, &other, 1, arena, &results, &error), 0);
    (void)unsetenv("UMA_SETTINGS_REFUSE");
    assert_null(strstr(settings_get(s, "state/tuning.json"), "\"90\""));
    assert_int_equal(undo(s, "boot-1"), 0);
    is(s, SWAPPINESS, "180");
}

/* The kernel made another value of it: told as a failure, and still taken back. */
static void other_value(void **state) {
    const struct settings *s = *state;
    (void)setenv("UMA_SETTINGS_TAKE", "swappiness=64", 1);
    assert_int_equal(apply_n(s, "boot-1", 1), 0);
    (void)unsetenv("UMA_SETTINGS_TAKE");
    assert_int_equal(results.list[0].outcome, UMA_TUNE_FAILED);
    assert_string_equal(results.list[0].now.own, "64");
    assert_int_equal(undo(s, "boot-1"), 0);
    assert_int_equal(results.list[0].outcome, UMA_TUNE_RESTORED);
    is(s, SWAPPINESS, "180");
}

/* The record that counts is this user's or root's, a plain file, and nobody else's to write. */
static void whose_record(void **state) {
    const struct settings *s = *state;
    char path[PATH_MAX + 64], link[PATH_MAX + 64];
    assert_int_equal(apply(s), 0);
    (void)snprintf(path, sizeof path, "%s/state/tuning.json", s->path);
    (void)snprintf(link, sizeof link, "%s/state/elsewhere", s->path);
    assert_int_equal(chmod(path, 0666), 0);
    assert_int_equal(undo(s, "boot-1"), -EINVAL);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(s->state, 0777), 0);
    assert_int_equal(undo(s, "boot-1"), -EINVAL);
    assert_int_equal(apply(s), 0); /* all so already: nothing of it is needed */
    assert_int_equal(chmod(s->state, 0755), 0);
    assert_int_equal(rename(path, link), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    assert_int_equal(undo(s, "boot-1"), -EINVAL);
    assert_non_null(strstr(error.text, "a link"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_int_equal(undo(s, "boot-1"), -EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(link, path), 0);
    is(s, SWAPPINESS, "60");
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 65534, (gid_t)-1), 0);
        assert_int_equal(undo(s, "boot-1"), -EINVAL);
        assert_non_null(strstr(error.text, "another user"));
        assert_int_equal(chown(path, 0, (gid_t)-1), 0);
    }
    assert_int_equal(undo(s, "boot-1"), 0);
    is(s, SWAPPINESS, "180");
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

/* Taking back one that is gone: told, and kept for the next time. */
static void one_is_gone(void **state) {
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
        { "x", "proc/sys/kernel/core_pattern", "1" },
        { "x", SWAPPINESS, "1 2" },
        { "x", SWAPPINESS, "" },
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        assert_int_equal(uma_tune_apply(&place, &bad[i], 1, arena, &results, &error), 0);
        assert_int_equal(results.list[0].outcome, UMA_TUNE_FAILED);
    }
    is(s, SWAPPINESS, "180");
    assert_false(recorded(s));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(there_and_back),  TEST(first_before_is_kept), TEST(nothing_to_do),  TEST(changed_since), TEST(killed),      TEST(killed_again),
        TEST(after_a_restart), TEST(broken_record),        TEST(one_is_missing), TEST(full_disk),     TEST(one_is_gone), TEST(odd_wishes),
        TEST(pairs),           TEST(does_not_hold),        TEST(forced),         TEST(refused),       TEST(other_value), TEST(whose_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
