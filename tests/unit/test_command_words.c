/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "account/command_words.h"
#include "base/arena.h"

#include <stdio.h>
#include <string.h>

/* Words are separated by '~' here, so that arguments may hold spaces. "a;b" in the answer: two commands. */
static void resolve(const char *words, char *answer, size_t size) {
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(1 << 20);
    struct uma_command_words commands[UMA_COMMANDS_MAX];
    const char *argv[64];
    size_t argc = 0;
    char *copy = uma_arena_strndup(arena, words, strlen(words));
    for (char *word = strtok(copy, "~"); word; word = strtok(NULL, "~"))
        argv[argc++] = strcmp(word, "EMPTY") == 0 ? "" : word;
    size_t n = uma_command_resolve(argv, argc, arena, commands);
    answer[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        const struct uma_command_words *c = &commands[i];
        size_t used = strlen(answer);
        (void)snprintf(answer + used, size - used, "%s%s%s%s%s%s%s", i > 0 ? ";" : "", c->python ? "py " : "",
                       c->launched ? "launched " : "",
                       c->module   ? "-m "
                       : c->script ? ""
                                   : c->program,
                       c->module   ? c->module
                       : c->script ? c->script
                                   : "",
                       c->n > 0 ? " " : "", c->n > 0 ? c->args[0] : "");
    }
}

static void unwraps(void **state) {
    (void)state;
    static const struct {
        const char *words, *answer;
    } cases[] = {
        { "vllm~serve~M", "vllm serve" },
        { "/opt/venv/bin/vllm~serve~M", "vllm serve" },
        { "/usr/bin/python3~/opt/venv/bin/vllm~serve~M", "py vllm serve" },
        { "python3.12~-u~-m~vllm.entrypoints.openai.api_server~--model~M", "py -m vllm.entrypoints.openai.api_server --model" },
        { "python~-Im~sglang.launch_server~--tp~2", "py -m sglang.launch_server --tp" },
        { "python~-mtrl", "py -m trl" },
        { "python~-X~dev~-W~ignore~-O~train.py~--lr~1", "py train.py --lr" },
        { "python~-c~from multiprocessing.spawn import spawn_main~--multiprocessing-fork", "py python -c" },
        { "python~-", "py python" },
        { "python", "py python" },
        { "python~-m", "py python" },
        { "env~-u~HOME~CUDA_VISIBLE_DEVICES=0~X=~vllm~serve", "vllm serve" },
        { "sudo~-u~bob~-E~A=b~nice~-n~5~numactl~--cpunodebind~0~--membind=0~taskset~-c~0-3~llama-server~-c~1", "llama-server -c" },
        { "timeout~-k~5~3600~stdbuf~-oL~tritonserver~--x", "tritonserver --x" },
        { "uv~run~--with~x~--python~3.12~--~axolotl~train", "axolotl train" },
        { "uv~pip~install~vllm", "uv pip" },
        { "conda~run~-n~e~--no-capture-output~python~a.py", "py a.py" },
        { "torchrun~--nproc_per_node~2~--standalone~pretrain_gpt.py~--x", "py launched pretrain_gpt.py --x" },
        { "torchrun~--nproc-per-node=2~-m~axolotl.cli.train~c.yml", "py launched -m axolotl.cli.train c.yml" },
        { "python~-m~torch.distributed.run~--nnodes~1~train.py", "py launched train.py" },
        { "python~/venv/bin/accelerate~launch~--mixed_precision~bf16~--multi_gpu~-m~trl.scripts.sft~--x",
          "py launched -m trl.scripts.sft --x" },
        { "accelerate~config", "accelerate config" },
        { "torchrun~--no-python~--~vllm~serve", "launched vllm serve" },
        { "torchrun~--nproc_per_node", "py launched python" },
        { "umactl~run~--need~12G~--~trl~sft", "trl sft" },
        { "tini~--~vllm~serve", "vllm serve" },
        { "nohup~env~EMPTY~vllm", "" }, /* an empty word is no program */
    };
    char answer[512];
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        resolve(cases[i].words, answer, sizeof(answer));
        if (cases[i].answer[0])
            assert_string_equal(answer, cases[i].answer);
        else
            assert_null(strstr(answer, "vllm serve"));
    }
}

static void shells(void **state) {
    (void)state;
    static const struct {
        const char *words, *answer;
    } cases[] = {
        { "bash~-c~vllm serve M", "vllm serve" },
        { "/bin/sh~-ec~cd /x && A=1 exec vllm serve M", "cd /x;vllm serve" },
        { "bash~-eo~pipefail~-c~ulimit -l unlimited; python3 -m \"sglang.launch_server\" --model 'a b' 2>&1 | tee /tmp/log",
          "ulimit -l;py -m sglang.launch_server --model;tee /tmp/log" },
        { "sh~-c~>out 2>err llama-server -m x", "llama-server -m" },
        { "sh~-c~echo vllm serve M > vllm.log # vllm serve", "echo vllm" },
        { "sh~-c~if true; then vllm serve M; fi", "true;vllm serve;fi" },
        { "bash~-c~bash -c 'env X=1 trl sft'; ls", "trl sft;ls" },
        { "bash~-c~echo \"unclosed vllm serve", "echo unclosed vllm serve" },
        { "bash~-c", "" },
        { "bash~-c~", "" },
        { "bash~-c~;;&&||", "" },
        { "bash~run.sh~vllm", "bash run.sh" },
        { "bash", "bash" },
        { "-bash", "-bash" },
        { "sh~-c~a \\\n b\\ c", "a b c" },
    };
    char answer[512];
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        resolve(cases[i].words, answer, sizeof(answer));
        assert_string_equal(answer, cases[i].answer);
    }
}

static void options(void **state) {
    (void)state;
    const char *value = "untouched";
    const char *const args[] = {
        "serve", "--gpu_memory_utilization", "0.5", "--x", "--gpu-memory-utilization=0.7", "-c", "8", "--", "--late", "1"
    };
    struct uma_command_words c = { .n = ELEMENTS(args), .args = args };
    assert_int_equal(uma_option_find(&c, "--gpu-memory-utilization", &value), UMA_OPTION_GIVEN);
    assert_string_equal(value, "0.7"); /* the last one */
    assert_int_equal(uma_option_find(&c, "--gpu-memory", &value), UMA_OPTION_NOT_GIVEN);
    assert_int_equal(uma_option_find(&c, "--late", &value), UMA_OPTION_NOT_GIVEN);
    assert_int_equal(uma_option_find(&c, "-c", &value), UMA_OPTION_GIVEN);
    assert_string_equal(value, "8");
    assert_int_equal(uma_option_find(&c, "--x", &value), UMA_OPTION_WITHOUT_VALUE);
    c.n = 2;
    assert_int_equal(uma_option_find(&c, "--gpu-memory-utilization", &value), UMA_OPTION_WITHOUT_VALUE);
}

/* Thousands of separators, quotes and nested shells neither run away nor overflow. */
static void bounded(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(8 << 20);
    struct uma_command_words commands[UMA_COMMANDS_MAX];
    static char text[UMA_CMDLINE_MAX];
    for (size_t i = 0; i + 1 < sizeof(text); i++)
        text[i] = "a;b "[i % 4];
    const char *argv[] = { "bash", "-c", text };
    assert_int_equal(uma_command_resolve(argv, 3, arena, commands), UMA_COMMANDS_MAX);
    (void)strcpy(text, "bash -c 'bash -c \"bash -c x; bash -c y\"; sh -c sh; sh -c \"sh -c z\"'");
    assert_true(uma_command_resolve(argv, 3, arena, commands) <= UMA_COMMANDS_MAX);
    static const char *nested[4096];
    for (size_t i = 0; i < ELEMENTS(nested); i++)
        nested[i] = i % 2 ? "python" : "env";
    assert_true(uma_command_resolve(nested, ELEMENTS(nested), arena, commands) <= 1);
    assert_int_equal(uma_command_resolve(nested, 0, arena, commands), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(unwraps), cmocka_unit_test(shells), cmocka_unit_test(options),
                                        cmocka_unit_test(bounded) };
    return cmocka_run_group_tests_name("command_words", tests, NULL, NULL);
}
