/* SPDX-License-Identifier: MIT */
/* What is said of engines that run, from their command lines alone. */
#include "test.h"

#include "advise_machine.h"

#include <stdio.h>

static char words[4][32][96];
static const char *argv_of[4][32];

static void run(struct advised *m, int32_t pid, int32_t ppid, const char *line) {
    size_t i = m->s.processes.n++;
    uint32_t argc = 0;
    for (const char *p = line; *p; argc++) {
        size_t n = strcspn(p, " ");
        assert_true(argc < 32 && n < sizeof words[0][0]);
        (void)memcpy(words[i][argc], p, n);
        words[i][argc][n] = '\0';
        argv_of[i][argc] = words[i][argc];
        p += n + (p[n] == ' ');
    }
    m->processes[i] = (struct uma_process){
        .pid = pid, .ppid = ppid, .state = 'S', .name = "x", .argc = argc, .argv = argv_of[i], .cgroup = -1, .container = -1
    };
}

static void flags(void **state) {
    struct advised *m = *state;
    static const struct {
        const char *line;
        int verdict; /* -1: nothing is said */
        const char *now;
    } table[] = {
        { "llama-server -m a.gguf", UMA_VERDICT_HELPS, "not given" },
        { "llama-server -m a.gguf --no-mmap", UMA_VERDICT_OK, "none" },
        { "llama-server -m a.gguf --mmap", UMA_VERDICT_HURTS, "mmap" },
        { "llama-server -m a.gguf --mlock", UMA_VERDICT_HURTS, "mlock" },
        { "llama-server -m a.gguf --direct-io", UMA_VERDICT_OK, "dio" },
        { "llama-server -m a.gguf -dio", UMA_VERDICT_OK, "dio" },
        { "llama-server -m a.gguf --load-mode mmap", UMA_VERDICT_HURTS, "mmap" },
        { "llama-server -m a.gguf --load-mode=dio", UMA_VERDICT_OK, "dio" },
        { "llama-server -m a.gguf -lm auto", UMA_VERDICT_HELPS, "auto" },
        { "llama-server -m a.gguf --mmap --load-mode none", UMA_VERDICT_OK, "none" }, /* the last one counts */
        { "llama-server -m a.gguf --load-mode", UMA_VERDICT_HELPS, "not given" },
        { "/usr/bin/llama-cli -m a.gguf --mlock", UMA_VERDICT_HURTS, "mlock" },
        { "ollama serve", -1, NULL },
        { "ollama runner --model x --load-mode dio", UMA_VERDICT_OK, "dio" },
        { "ollama runner --model x --no-mmap", UMA_VERDICT_OK, "none" },
        { "ollama runner --model x", UMA_VERDICT_UNKNOWN, "not given" },
        { "vllm serve m", UMA_VERDICT_DISPUTED, "auto, no strategy given" },
        { "vllm serve m --safetensors-load-strategy eager", UMA_VERDICT_DISPUTED, "auto, eager" },
        { "vllm serve m --safetensors-load-strategy=prefetch --load-format safetensors", UMA_VERDICT_DISPUTED, "safetensors, prefetch" },
        { "vllm serve m --load-format fastsafetensors", UMA_VERDICT_DISPUTED, "fastsafetensors" },
        { "vllm serve m --load-format instanttensor", UMA_VERDICT_DISPUTED, "instanttensor" },
        { "vllm serve m --load-format gguf", UMA_VERDICT_OK, "gguf" },
        { "python3 -m sglang.launch_server --model-path m", UMA_VERDICT_DISPUTED, "mapped by default" },
        { "python3 -m sglang.launch_server --weight-loader-disable-mmap", UMA_VERDICT_DISPUTED, "not mapped" },
        { "python3 -m sglang.launch_server --weight-loader-prefetch-checkpoints", UMA_VERDICT_DISPUTED, "prefetch" },
        { "python3 /opt/ComfyUI/main.py", UMA_VERDICT_HELPS, "mapped by default" },
        { "python3 /opt/ComfyUI/main.py --disable-mmap", UMA_VERDICT_OK, "not mapped" },
        { "VLLM::EngineCore", -1, NULL }, /* a title: its own arguments are gone */
        { "cat --mlock llama-server", -1, NULL },
        { "python3 train.py --mmap", -1, NULL },
    };
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        m->s.processes.n = 0;
        run(m, 4242, 1, table[i].line);
        const struct uma_advice *a = advised(m, "loader-4242");
        if ((a ? (int)a->verdict : -1) != table[i].verdict)
            print_message("%s\n", table[i].line);
        assert_int_equal(a ? (int)a->verdict : -1, table[i].verdict);
        if (a) {
            assert_string_equal(a->now, table[i].now);
            assert_null(a->path); /* a flag is the owner's to give */
        }
    }
}

static void only_the_engine(void **state) {
    struct advised *m = *state;
    static const char *const shell[] = { "/bin/sh", "-c", "cd /models && exec vllm serve m" };
    run(m, 100, 1, "x");
    m->processes[0].argc = 3;
    m->processes[0].argv = shell;
    run(m, 101, 100, "vllm serve m --safetensors-load-strategy eager");
    assert_null(advised(m, "loader-100"));
    assert_non_null(advised(m, "loader-101"));
    m->s.processes.n = 1; /* the child is another user's */
    assert_non_null(advised(m, "loader-100"));
}

static void memory_of_its_own(void **state) {
    struct advised *m = *state;
    run(m, 4242, 1, "llama-server -m a.gguf --mlock");
    m->s.platform.unified = UMA_NO;
    assert_null(advised(m, "loader-4242"));
    m->s.platform.unified = UMA_MAYBE;
    assert_non_null(advised(m, "loader-4242"));
}

static void allocator(void **state) {
    struct advised *m = *state;
    static const char *const env[] = { "RANK=0", "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True,x:y" };
    static const char *const other[] = { "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64" };
    run(m, 4242, 1, "vllm serve m");
    m->processes[0].envc = 2;
    m->processes[0].env = env;
    ASSERT_VERDICT(m, "expandable-segments-4242", UMA_VERDICT_DISPUTED, NULL);
    assert_string_equal(advised(m, "expandable-segments-4242")->now, "True");
    m->processes[0].envc = 1;
    m->processes[0].env = other;
    assert_null(advised(m, "expandable-segments-4242"));
}

static void hostile_arguments(void **state) {
    struct advised *m = *state;
    static char large[9000];
    static const char *const argv[] = { "vllm", "serve", "\x1b[31m", "--load-format", large, "--safetensors-load-strategy" };
    (void)memset(large, 'x', sizeof large - 1);
    run(m, 4242, 1, "x");
    m->processes[0].argc = 6;
    m->processes[0].argv = argv;
    const struct uma_advice *a = advised(m, "loader-4242");
    assert_non_null(a);
    assert_true(strlen(a->now) < 200);
}

/* More engines than are looked at, each with two pieces of advice: the list stays within its bound. */
static void many(void **state) {
    struct advised *m = *state;
    enum { N = 500 };
    static struct uma_process list[N];
    static const char *const argv[] = { "vllm", "serve", "m" }, *const env[] = { "PYTORCH_ALLOC_CONF=expandable_segments:True" };
    for (int i = 0; i < N; i++)
        list[i] = (struct uma_process){
            .pid = 1000 + i, .ppid = 1, .name = "vllm", .argc = 3, .argv = argv, .envc = 1, .env = env, .cgroup = -1, .container = -1
        };
    m->s.processes.list = list;
    m->s.processes.n = N;
    assert_non_null(advised(m, "loader-1000"));
    assert_true(m->advice.n <= UMA_ADVICE_MAX);
    m->s.processes.list = m->processes;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, advised_setup, advised_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(flags), TEST(only_the_engine), TEST(memory_of_its_own), TEST(allocator), TEST(hostile_arguments), TEST(many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
