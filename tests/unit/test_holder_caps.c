/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "account/holder_kinds.h"
#include "base/arena.h"
#include "machine.h"

#include <math.h>

static const uint64_t TOTAL = KB(127601452);

/* Words are separated by '~'; the cap's strings are constants or live in the arena of the test, which the caller frees. */
static struct uma_cap cap_of(struct uma_arena *arena, const char *words, const char *env, bool cut) {
    struct uma_process p = { .pid = 2, .name = "x", .state = 'S', .cmdline_cut = cut };
    struct uma_program program;
    const char **argv = uma_arena_array(arena, 64, sizeof(*argv)), **kept = uma_arena_array(arena, 1, sizeof(*kept));
    for (char *word = strtok(uma_arena_strndup(arena, words, strlen(words)), "~"); word && p.argc < 64; word = strtok(NULL, "~"))
        argv[p.argc++] = strcmp(word, "EMPTY") == 0 ? "" : word;
    kept[0] = env;
    p.argv = argv;
    p.env = kept;
    p.envc = env ? 1 : 0;
    uma_program_recognise(&p, u64(TOTAL), arena, &program);
    return program.cap;
}

static void fractions(void **state) {
    (void)state;
    static const struct {
        const char *words;
        double fraction; /* 0: present without one; -1: no cap */
        const char *says;
    } cases[] = {
        { "vllm~serve~m~--gpu-memory-utilization~0.85", 0.85, "--gpu-memory-utilization" },
        { "vllm~serve~m~--gpu-memory-utilization=.85", 0.85, "command line" },
        { "vllm~serve~m~--gpu_memory_utilization~1", 1, "command line" },
        { "vllm~serve~m~--gpu-memory-utilization~0.5~--gpu-memory-utilization~0.6", 0.6, "command line" },
        { "vllm~serve~m", 0.9, "default 0.90" },
        { "vllm~serve~m~--config~c.yaml", -1, "configuration file" },
        { "vllm~serve~m~--gpu-memory-utilization~nan", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~2e9", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~-0.5", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~EMPTY", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization=", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~--port~1", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~90", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~0", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~0.9.9", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~0,9", -1, "unreadable" },
        { "vllm~serve~m~--gpu-memory-utilization~1111111111111111111111111111111111111111111111111", -1, "unreadable" },
        { "vllm~bench~latency", -1, NULL },
        { "python~-m~sglang.launch_server~--mem-fraction-static~0.7", 0.7, "--mem-fraction-static" },
        { "python~-m~sglang.launch_server", -1, "chosen at start" },
        { "trtllm-serve~m~--kv_cache_free_gpu_memory_fraction~0.4", 0.4, "KV cache" },
        { "trtllm-serve~m", 0.9, "default 0.90" },
        { "trl~grpo~--vllm_gpu_memory_utilization~0.3", 0.3, "command line" },
        { "llama-server~-m~x~-ngl~99~-c~8192", 0, "-c 8192 -ngl 99" },
        { "llama-server~-m~x", -1, NULL },
        { "ollama~serve", -1, NULL },
    };
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(8 << 20);
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_cap cap = cap_of(arena, cases[i].words, NULL, false);
        if (cap.present != (cases[i].fraction >= 0))
            print_error("%s: %s\n", cases[i].words, cap.source ? cap.source : "-");
        assert_true(cap.present == (cases[i].fraction >= 0));
        if (cases[i].fraction > 0)
            assert_true(uma_usable(cap.fraction.validity) && fabs(cap.fraction.value - cases[i].fraction) < 1e-12);
        else
            assert_false(uma_usable(cap.fraction.validity));
        if (cases[i].says)
            assert_non_null(strstr(cap.source, cases[i].says));
        else
            assert_null(cap.source);
    }
}

static void bytes(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(8 << 20);
    struct uma_cap cap = cap_of(arena, "vllm~serve~m~--gpu-memory-utilization~0.5", NULL, false);
    assert_int_equal(cap.bytes.value, TOTAL / 2);
    cap = cap_of(arena, "vllm~serve~m~--kv-cache-memory-bytes~8G", NULL, false);
    assert_int_equal(cap.bytes.value, 8 * UMA_GIB);
    cap = cap_of(arena, "vllm~serve~m~--kv-cache-memory-bytes~8g", NULL, false);
    assert_int_equal(cap.bytes.value, 8000000000);
    cap = cap_of(arena, "vllm~serve~m~--kv-cache-memory-bytes~8X", NULL, false);
    assert_false(cap.present);
    cap = cap_of(arena, "python~-m~sglang.launch_server~--mem-fraction-static~0.7", NULL, false);
    assert_false(uma_usable(cap.bytes.validity)); /* of what was free when it started */
    cap = cap_of(arena, "python~/x/ComfyUI/main.py~--reserve-vram~20", NULL, false);
    assert_int_equal(cap.bytes.value, TOTAL - 20 * UMA_GIB);
    cap = cap_of(arena, "python~/x/ComfyUI/main.py~--reserve-vram~1e99", NULL, false);
    assert_false(cap.present);
}

static void environment(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(8 << 20);
    struct uma_cap cap =
        cap_of(arena, "python~train.py", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,per_process_memory_fraction:0.25", false);
    assert_true(cap.present && cap.fraction.value == 0.25);
    assert_int_equal(cap.bytes.value, TOTAL / 4);
    assert_non_null(strstr(cap.source, "environment"));
    cap = cap_of(arena, "python~train.py", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", false);
    assert_true(!cap.present && !cap.source);
    cap = cap_of(arena, "python~train.py", "XLA_PYTHON_CLIENT_MEM_FRACTION=nope", false);
    assert_true(!cap.present && strstr(cap.source, "unreadable"));
    /* a flag counts before the environment */
    cap = cap_of(arena, "vllm~serve~m~--gpu-memory-utilization~0.5", "PYTORCH_ALLOC_CONF=per_process_memory_fraction:0.25", false);
    assert_true(cap.fraction.value == 0.5);
}

static void cut_command_line(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(8 << 20);
    assert_false(cap_of(arena, "vllm~serve~m", NULL, true).present); /* the flag may stand behind the cut */
    assert_true(cap_of(arena, "vllm~serve~m~--gpu-memory-utilization~0.5", NULL, true).present);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(fractions), cmocka_unit_test(bytes), cmocka_unit_test(environment),
                                        cmocka_unit_test(cut_command_line) };
    return cmocka_run_group_tests_name("holder_caps", tests, NULL, NULL);
}
