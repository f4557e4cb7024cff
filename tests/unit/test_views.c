/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "account/views.h"
#include "base/arena.h"
#include "machine.h"

static struct uma_views build(const struct uma_snapshot *s, struct uma_arena *arena) {
    struct uma_views v;
    assert_int_equal(uma_views_build(s, arena, &v), 0);
    return v;
}

static void gb10(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    struct uma_views v = build(&s, arena);
    assert_int_equal(v.nvidia_smi.validity, UMA_UNSUPPORTED);
    assert_string_equal(v.nvidia_smi_text, "[N/A]");
    assert_int_equal(v.cuda_mem_get_info.value, KB(105000000)); /* MemFree, not MemAvailable */
    assert_int_equal(v.free_free.value, KB(105000000));
    assert_int_equal(v.free_available.value, KB(118566368));
    gpu.memory_free = u64(0); /* some drivers answer, with zeros */
    assert_string_equal(build(&s, arena).nvidia_smi_text, "0 B");
    gpu.memory_free = u64(117 * UMA_GIB); /* and some with the machine's own figures */
    assert_string_equal(build(&s, arena).nvidia_smi_text, "117 GiB");
    gpu.memory_free.validity = UMA_FAILED;
    assert_null(build(&s, arena).nvidia_smi_text);
}

static void others(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_snapshot s = { 0 };
    struct uma_gpu gpu;
    machine_idle_spark(&s, &gpu);
    gpu.unified = UMA_NO; /* a card: CUDA says what the card has */
    gpu.memory_free = u64(20 * UMA_GIB);
    assert_int_equal(build(&s, arena).cuda_mem_get_info.value, 20 * UMA_GIB);
    gpu.numa_node = 1; /* GH200: HBM is in MemTotal, and CUDA still means HBM */
    assert_int_equal(build(&s, arena).cuda_mem_get_info.value, 20 * UMA_GIB);
    gpu.memory_free.validity = UMA_UNSUPPORTED; /* and what is not known there is not MemFree */
    assert_int_equal(build(&s, arena).cuda_mem_get_info.validity, UMA_UNSUPPORTED);
    gpu.numa_node = -1;
    gpu.unified = UMA_MAYBE; /* not known to have memory of its own, on a machine that shares or may share */
    assert_int_equal(build(&s, arena).cuda_mem_get_info.value, KB(105000000));
    s.platform.unified = UMA_MAYBE;
    assert_int_equal(build(&s, arena).cuda_mem_get_info.value, KB(105000000));
    gpu.vendor = "amd";
    assert_int_equal(build(&s, arena).cuda_mem_get_info.value, KB(105000000));
    s.gpus.n = 0; /* a driver that hangs or is missing: MemFree it stays */
    assert_int_equal(build(&s, arena).cuda_mem_get_info.value, KB(105000000));
    assert_int_equal(build(&s, arena).nvidia_smi.validity, UMA_ABSENT);
    assert_null(build(&s, arena).nvidia_smi_text);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(gb10), cmocka_unit_test(others) };
    return cmocka_run_group_tests_name("views", tests, NULL, NULL);
}
