/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "act/tunable.h"
#include "settings_folder.h"

static void paths(void **state) {
    static const struct {
        const char *path;
        bool fine;
    } table[] = {
        { "proc/sys/vm/swappiness", true },
        { "proc/sys/vm/page-cluster", true },
        { "sys/kernel/mm/lru_gen/min_ttl_ms", true },
        { "sys/kernel/mm/transparent_hugepage/khugepaged/defrag", true },
        { "sys/block/nvme0n1/queue/read_ahead_kb", true },
        { "sys/block/cciss!c0d0/queue/read_ahead_kb", true },
        { "/proc/sys/vm/swappiness", false },
        { "proc/sys/vm/", false },
        { "proc/sys/vm/a/b", false },
        { "proc/sys/vm/..", false },
        { "proc/sys/vm/.hidden", false },
        { "proc/sys/vm/a\n", false },
        { "proc/sys/vm/a b", false },
        { "proc/sys/kernel/core_pattern", false },
        { "proc/sysrq-trigger", false },
        { "sys/kernel/mm/x", false },
        { "sys/kernel/mm/a/b/c/d", false },
        { "sys/block/sda/queue/", false },
        { "sys/block/sda/queue/../device/delete", false },
        { "sys/block/sda/device/delete", false },
        { "sys/block/../queue/read_ahead_kb", false },
        { "etc/passwd", false },
        { "", false },
    };
    char longest[UMA_TUNABLE_PATH_MAX + 2] = "proc/sys/vm/";
    (void)state;
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        if (uma_tunable_path_fine(table[i].path) != table[i].fine)
            print_message("%s\n", table[i].path);
        assert_int_equal(uma_tunable_path_fine(table[i].path), table[i].fine);
    }
    (void)memset(longest + strlen(longest), 'a', sizeof longest - 1 - strlen(longest));
    assert_false(uma_tunable_path_fine(longest));
}

static void counterparts(void **state) {
    (void)state;
    assert_string_equal(uma_tunable_counterpart("proc/sys/vm/dirty_bytes"), "proc/sys/vm/dirty_ratio");
    assert_string_equal(uma_tunable_counterpart("proc/sys/vm/dirty_background_ratio"), "proc/sys/vm/dirty_background_bytes");
    assert_null(uma_tunable_counterpart("proc/sys/vm/swappiness"));
    assert_null(uma_tunable_counterpart(""));
}

static void values(void **state) {
    static const char *const good[] = { "0", "268435456", "madvise", "defer+madvise", "-1", "0x0007" };
    static const char *const bad[] = { "",    " ",    "1 2",      "1\n",
                                       "a;b", "$(x)", "\x1b[31m", "1234567890123456789012345678901234567890123456789012345678901234" };
    (void)state;
    for (size_t i = 0; i < ELEMENTS(good); i++)
        assert_true(uma_tunable_value_fine(good[i]));
    for (size_t i = 0; i < ELEMENTS(bad); i++)
        assert_false(uma_tunable_value_fine(bad[i]));
}

static void reads(void **state) {
    const struct settings *s = *state;
    char value[UMA_TUNABLE_VALUE_MAX] = "untouched";
    struct uma_error err = { 0 };
    settings_put(s, "proc/sys/vm/swappiness", "60\n");
    settings_put(s, "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    settings_put(s, "proc/sys/vm/lowmem_reserve_ratio", "256\t256\t32\n");
    assert_int_equal(uma_tunable_read(s->path, "proc/sys/vm/absent", value, &err), -ENOENT);
    assert_int_equal(uma_tunable_read(s->path, "proc/sys/vm/lowmem_reserve_ratio", value, &err), -EINVAL);
    assert_non_null(strstr(err.text, "expected one value"));
    assert_int_equal(uma_tunable_read(s->path, "etc/passwd", value, &err), -EINVAL);
    assert_string_equal(value, "untouched");
    assert_int_equal(uma_tunable_read(s->path, "proc/sys/vm/swappiness", value, &err), 0);
    assert_string_equal(value, "60");
    assert_int_equal(uma_tunable_read(s->path, "sys/kernel/mm/transparent_hugepage/enabled", value, &err), 0);
    assert_string_equal(value, "madvise");
}

static void writes(void **state) {
    const struct settings *s = *state;
    char now[UMA_TUNABLE_VALUE_MAX] = "";
    struct uma_error err = { 0 };
    settings_put(s, "proc/sys/vm/dirty_bytes", "12345678901234\n");
    assert_int_equal(uma_tunable_write(s->path, "proc/sys/vm/dirty_bytes", "7", now, &err), 0);
    assert_string_equal(now, "7");
    assert_string_equal(settings_get(s, "proc/sys/vm/dirty_bytes"), "7\n");
    assert_int_equal(uma_tunable_write(s->path, "proc/sys/vm/dirty_bytes", "8\n9", now, &err), -EINVAL);
    assert_int_equal(uma_tunable_write(s->path, "proc/sys/vm/absent", "8", now, &err), -ENOENT);
    assert_int_equal(uma_tunable_write(s->path, "proc/sys/../x", "8", now, &err), -EINVAL);
    assert_string_equal(settings_get(s, "proc/sys/vm/dirty_bytes"), "7\n");
    assert_string_equal(settings_get(s, "proc/sys/vm/absent"), ""); /* never made */
}

/* A file that takes what it is given and shows something else, as the kernel does with values out of its range. */
static void another_value(void **state) {
    const struct settings *s = *state;
    char now[UMA_TUNABLE_VALUE_MAX] = "", path[PATH_MAX + 64];
    struct uma_error err = { 0 };
    settings_put(s, "proc/sys/vm/x", "");
    (void)snprintf(path, sizeof path, "%s/proc/sys/vm/null", s->path);
    assert_int_equal(symlink("/dev/null", path), 0); /* takes all, shows nothing */
    assert_int_equal(uma_tunable_write(s->path, "proc/sys/vm/null", "8", now, &err), -EINVAL);
    assert_string_equal(now, "");
    (void)snprintf(path, sizeof path, "%s/proc/sys/vm/full", s->path);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(uma_tunable_write(s->path, "proc/sys/vm/full", "8", now, &err), -ENOSPC);
    assert_non_null(strstr(err.text, "proc/sys/vm/full"));
}

static void rights(void **state) {
    const struct settings *s = *state;
    char now[UMA_TUNABLE_VALUE_MAX], path[PATH_MAX + 64];
    struct uma_error err = { 0 };
    settings_put(s, "proc/sys/vm/swappiness", "60\n");
    assert_int_equal(uma_tunable_writable(s->path, "proc/sys/vm/swappiness", &err), 0);
    if (geteuid() == 0)
        SKIP_BECAUSE("root may write whatever the mode; tests/cli does it as another user");
    (void)snprintf(path, sizeof path, "%s/proc/sys/vm/swappiness", s->path);
    assert_int_equal(chmod(path, 0444), 0);
    assert_int_equal(uma_tunable_writable(s->path, "proc/sys/vm/swappiness", &err), -EACCES);
    assert_non_null(strstr(err.text, "only root may change it"));
    assert_int_equal(uma_tunable_write(s->path, "proc/sys/vm/swappiness", "1", now, &err), -EACCES);
    assert_string_equal(settings_get(s, "proc/sys/vm/swappiness"), "60\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, settings_setup, settings_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),
        cmocka_unit_test(values),
        cmocka_unit_test(counterparts),
        TEST(reads),
        TEST(writes),
        TEST(another_value),
        TEST(rights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
