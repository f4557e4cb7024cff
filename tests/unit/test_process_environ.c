/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/process.h"

#include <errno.h>
#include <string.h>

static int setup(void **state) {
    *state = uma_arena_new(UMA_MIB);
    return *state ? 0 : -1;
}
static int teardown(void **state) {
    (void)uma_arena_free(*state);
    return 0;
}

static void only_the_list(void **state) {
    static const char text[] =
        "PATH=/bin\0HF_TOKEN=hf_secret\0RANK=3\0OLLAMA_GPU_OVERHEAD=1073741824\0RANK=4\0OPENAI_API_KEY=x\0"
        "SGLANG_ENABLE_TORCH_COMPILE=1\0SGLANG_API_KEY=x\0SGLANG_=1\0XRANK=1\0RANKX=1\0SGLANG_://X=5:p@h\0VLLM_API_KEY=x\0LLAMA_ARG_API_KEY=x\0"
        "broken\0=\0=x\0RANK\0OLLAMA_HOST=http://me:pw@0.0.0.0:11434\0UMACTL_JOB=7";
    struct uma_process p = { 0 };
    assert_int_equal(uma_process_environ_parse(text, sizeof(text) - 1, *state, &p), 0);
    static const char *const expected[] = { "RANK=3", "OLLAMA_GPU_OVERHEAD=1073741824", "SGLANG_ENABLE_TORCH_COMPILE=1",
                                            "OLLAMA_HOST=http://***@0.0.0.0:11434", "UMACTL_JOB=7" };
    assert_int_equal(p.envc, ELEMENTS(expected));
    for (size_t i = 0; i < ELEMENTS(expected); i++)
        assert_string_equal(p.env[i], expected[i]);
}

/* Where models lie, for whoever looks for them; a hub's token lies in the same folder and is not among these. */
static void stores(void **state) {
    static const char text[] =
        "HF_HOME=/data/hf\0HF_HUB_CACHE=/data/hub\0HF_TOKEN_PATH=/data/hf/token\0OLLAMA_MODELS=/srv/ollama\0XDG_CACHE_HOME=/c\0"
        "MODELSCOPE_CACHE=/m\0TORCH_HOME=/t\0LLAMA_CACHE=/l";
    struct uma_process p = { 0 };
    assert_int_equal(uma_process_environ_parse(text, sizeof(text), *state, &p), 0);
    static const char *const expected[] = { "HF_HOME=/data/hf",  "HF_HUB_CACHE=/data/hub", "OLLAMA_MODELS=/srv/ollama",
                                            "XDG_CACHE_HOME=/c", "MODELSCOPE_CACHE=/m",    "TORCH_HOME=/t",
                                            "LLAMA_CACHE=/l" };
    assert_int_equal(p.envc, ELEMENTS(expected));
    for (size_t i = 0; i < ELEMENTS(expected); i++)
        assert_string_equal(p.env[i], expected[i]);
}

static void bounded(void **state) {
    enum { SIZE = 1000 * 1000 };
    char *text = malloc(SIZE);
    assert_non_null(text);
    (void)memset(text, 'a', SIZE);
    (void)memcpy(text, "PYTORCH_CUDA_ALLOC_CONF=", 24);
    struct uma_process p = { 0 };
    assert_int_equal(uma_process_environ_parse(text, SIZE, *state, &p), 0);
    assert_int_equal(p.envc, 1);
    assert_int_equal(strlen(p.env[0]), 24 + 512);
    /* a family cannot flood: names are all different */
    size_t n = 0;
    for (int i = 0; i < 20000; i++) {
        (void)memcpy(text + n, "SGLANG_A0000=1", 15);
        for (int digit = 0, v = i; digit < 4; digit++, v /= 26)
            text[n + 8 + (size_t)digit] = (char)('A' + v % 26);
        n += 15;
    }
    struct uma_process flood = { 0 };
    assert_int_equal(uma_process_environ_parse(text, n, *state, &flood), 0);
    assert_int_equal(flood.envc, 128);
    free(text);
    _cleanup_arena_ struct uma_arena *small = uma_arena_new(16);
    struct uma_process starved = { 0 };
    assert_int_equal(uma_process_environ_parse("MASTER_ADDR=10.0.0.1.long", 25, small, &starved), -ENOMEM);
    assert_int_equal(starved.envc, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(only_the_list), cmocka_unit_test(stores), cmocka_unit_test(bounded) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
