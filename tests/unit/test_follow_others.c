/* SPDX-License-Identifier: MIT */
/* Which files memory is taken from first. */
#include "test.h"

#include "cache/follow_others.h"

#include <string.h>

static struct uma_cached_file of(const char *path, uint64_t resident, int64_t used_ns) {
    return (struct uma_cached_file){ .path = path, .resident = { resident, UMA_KNOWN }, .dirty = { 0, UMA_KNOWN }, .used_ns = used_ns };
}

static void test_which(void **state) {
    (void)state;
    struct uma_pid pid = { 7 };
    struct uma_cached_file file = of("/m/a.safetensors", 1, 1);
    assert_true(uma_follow_is_idle_weight(&file));
    struct uma_cached_file other = file;
    other.path = "/var/log/syslog";
    assert_false(uma_follow_is_idle_weight(&other));
    other = file;
    other.open_by = &pid;
    other.n_open_by = 1;
    assert_false(uma_follow_is_idle_weight(&other));
    other = file;
    other.mapped_by = &pid;
    other.n_mapped_by = 1;
    assert_false(uma_follow_is_idle_weight(&other));
    other = file;
    other.dirty.value = 4096;
    assert_false(uma_follow_is_idle_weight(&other));
    other = file;
    other.dirty.validity = UMA_UNKNOWN; /* mincore does not tell: eviction looks again */
    assert_true(uma_follow_is_idle_weight(&other));
    other = file;
    other.resident.validity = UMA_DENIED;
    assert_false(uma_follow_is_idle_weight(&other));
    other = file;
    other.kind = UMA_CACHED_MEMORY;
    assert_false(uma_follow_is_idle_weight(&other));
    other = file;
    other.deleted = true;
    assert_false(uma_follow_is_idle_weight(&other));
}

static void test_in_which_order(void **state) {
    (void)state;
    struct uma_cached_file files[] = {
        of("/m/unknown.gguf", 900, 0), of("/m/new.gguf", 500, 30),  of("/m/old-small.gguf", 5, 10),
        of("/m/notes.txt", 999, 1),    of("/m/middle.gguf", 5, 20), of("/m/old-large.gguf", 50, 10),
    };
    struct uma_page_cache cache = { .n_files = 6, .files = files };
    const struct uma_cached_file *order[6];
    static const char *const wanted[] = { "/m/old-large.gguf", "/m/old-small.gguf", "/m/middle.gguf", "/m/new.gguf", "/m/unknown.gguf" };
    assert_int_equal(uma_follow_idle_weights(&cache, order), 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(order[i]->path, wanted[i]);
}

static void test_beside(void **state) {
    (void)state;
    struct uma_cached_file file = of("/proc/7/root/m/x/2.gguf", 1, 1);
    assert_false(uma_follow_is_beside(&file, "/m/x/1.gguf"));
    file.shown = "/m/x/2.gguf";
    assert_true(uma_follow_is_beside(&file, "/m/x/1.gguf"));
    assert_false(uma_follow_is_beside(&file, "/m/x/y/1.gguf"));
    assert_false(uma_follow_is_beside(&file, "/m/1.gguf"));
    assert_false(uma_follow_is_beside(&file, "/m/xx/1.gguf"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which),
        cmocka_unit_test(test_in_which_order),
        cmocka_unit_test(test_beside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
