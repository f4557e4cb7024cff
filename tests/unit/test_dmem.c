/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "observe/dmem.h"

#define CAPACITY "drm/0000:00:02.0/stolen 67108864\nnvidia/0000:01:00.0/vidmem 8589934592\n"

static struct uma_dmem_reading read_max(const char *max) {
    struct uma_dmem_reading reading = { 0 };
    uma_dmem_parse(CAPACITY, strlen(CAPACITY), UMA_DMEM_CAPACITY, &reading);
    uma_dmem_parse(max, strlen(max), UMA_DMEM_MAX_FILE, &reading);
    return reading;
}

static enum uma_truth agrees(const char *max, uint64_t limit) {
    struct uma_dmem_reading reading = read_max(max);
    return uma_dmem_agrees(&reading, limit);
}

static void only_nvidias_regions_count(void **state) {
    (void)state;
    struct uma_dmem_reading r = read_max("drm/0000:00:02.0/stolen 4096\nnvidia/0000:01:00.0/vidmem 1073741824\n");
    assert_true(r.nvidia);
    assert_int_equal(r.capacity.value, 8589934592);
    assert_int_equal(r.max.value, 1073741824);
    struct uma_dmem_reading none = { 0 };
    static const char other[] = "drm/0000:00:02.0/stolen 67108864\nnvidia 12\nnvidia/ 12\nnvidiax/1 12\n/nvidia/1 2\n\n";
    uma_dmem_parse(other, sizeof(other) - 1, UMA_DMEM_CAPACITY, &none);
    assert_false(none.nvidia);
    assert_int_equal(uma_dmem_agrees(&none, 1), UMA_MAYBE);
}

static void a_counter_in_pages_may_be_a_little_less_and_never_more(void **state) {
    (void)state;
    assert_int_equal(agrees("nvidia/0/vidmem 1073741824\n", 1073741824), UMA_YES);
    assert_int_equal(agrees("nvidia/0/vidmem 1073741824", 1073741825), UMA_YES);
    assert_int_equal(agrees("nvidia/0/vidmem 1073741824\n", 1073741823), UMA_NO);
    assert_int_equal(agrees("nvidia/0/vidmem 1073676288\n", 1073741824), UMA_NO); /* 64 KiB less */
    assert_int_equal(agrees("nvidia/0/vidmem 1073676289\n", 1073741824), UMA_YES);
    assert_int_equal(agrees("nvidia/0/vidmem max\n", 1073741824), UMA_NO);
    assert_int_equal(agrees("", 1073741824), UMA_NO);
    assert_int_equal(agrees("nvidia/0/vidmem 1073741824\nnvidia/1/vidmem max\n", 1073741824), UMA_NO);
    assert_int_equal(agrees("nvidia/0/vidmem 1073741824\nnvidia/1/vidmem 4096\n", 1073741824), UMA_NO);
    assert_int_equal(agrees("nvidia/0/vidmem x\n", 1073741824), UMA_NO);
}

static void a_sum_stops_at_the_end_of_its_range(void **state) {
    (void)state;
    struct uma_dmem_reading r = { 0 };
    static const char text[] =
        "nvidia/0/a 4000000000000000000\nnvidia/1/a 4000000000000000000\nnvidia/2/a 4000000000000000000\nnvidia/3/a 4000000000000000000\nnvidia/4/a 4000000000000000000\n";
    uma_dmem_parse(text, sizeof(text) - 1, UMA_DMEM_CURRENT, &r);
    assert_true(r.current.validity != UMA_KNOWN || r.current.value >= 4000000000000000000);
}

static void from_a_folder(void **state) {
    (void)state;
    _cleanup_folder_ struct folder f = { 0 };
    _cleanup_root_ struct uma_root *root = NULL;
    struct uma_dmem_reading r;
    assert_int_equal(folder_new(&f), 0);
    folder_put_n(&f, "sys/fs/cgroup/dmem.capacity", CAPACITY, strlen(CAPACITY));
    folder_put_n(&f, "sys/fs/cgroup/a/b/dmem.max", "nvidia/0/vidmem 4096\n", 21);
    folder_put_n(&f, "sys/fs/cgroup/a/b/dmem.current", "nvidia/0/vidmem 512\n", 20);
    assert_int_equal(uma_root_open(f.path, NULL, &root, NULL), 0);
    uma_dmem_read(root, "/sys/fs/cgroup/a/b", &r);
    assert_true(r.nvidia);
    assert_int_equal(r.max.value, 4096);
    assert_int_equal(r.current.value, 512);
    assert_int_equal(uma_dmem_agrees(&r, 4096), UMA_YES);
    uma_dmem_read(root, "/sys/fs/cgroup/a", &r);
    assert_int_equal(r.max.validity, UMA_ABSENT);
    assert_int_equal(uma_dmem_agrees(&r, 4096), UMA_NO);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(only_nvidias_regions_count),
                                        cmocka_unit_test(a_counter_in_pages_may_be_a_little_less_and_never_more),
                                        cmocka_unit_test(a_sum_stops_at_the_end_of_its_range), cmocka_unit_test(from_a_folder) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
