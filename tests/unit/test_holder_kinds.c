/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "account/holder_kinds.h"
#include "machine.h"
#include "base/arena.h"

#include <math.h>
#include <stdio.h>

static struct uma_arena *arena;

static int make_arena(void **state) {
    (void)state;
    arena = uma_arena_new(16 << 20);
    return arena ? 0 : -1;
}
static int free_arena(void **state) {
    (void)state;
    arena = uma_arena_free(arena);
    return 0;
}

/* Words are separated by '~'. */
static struct uma_program recognise(const char *words, const char *env) {
    struct uma_process p = { .pid = 2, .name = "x", .state = 'S' };
    struct uma_program program;
    const char **argv = uma_arena_array(arena, 64, sizeof(*argv));
    for (char *word = strtok(uma_arena_strndup(arena, words, strlen(words)), "~"); word && p.argc < 64; word = strtok(NULL, "~"))
        argv[p.argc++] = word;
    p.argv = argv;
    p.env = &env;
    p.envc = env ? 1 : 0;
    uma_program_recognise(&p, u64(KB(127601452)), arena, &program);
    return program;
}

static void kinds(void **state) {
    (void)state;
    static const struct {
        const char *words, *kind;
        enum uma_role role;
        const char *model;
    } cases[] = {
        { "vllm~serve~Qwen/Qwen3-32B~--port~8000", "vllm", UMA_ROLE_SERVE, "Qwen/Qwen3-32B" },
        { "vllm~serve~--port~8000~--model=m", "vllm", UMA_ROLE_SERVE, "m" },
        { "vllm~serve~--port~8000", "vllm", UMA_ROLE_SERVE, NULL },
        { "vllm~serve~--port=8000~org/m", "vllm", UMA_ROLE_SERVE, "org/m" },
        { "vllm~bench~serve", "vllm", UMA_ROLE_UNKNOWN, NULL },
        { "python3~-m~vllm.entrypoints.openai.api_server~--model~m", "vllm", UMA_ROLE_SERVE, "m" },
        { "bash~-c~vllm serve m --gpu-memory-utilization 0.5", "vllm", UMA_ROLE_SERVE, "m" },
        { "VLLM::EngineCore", "vllm", UMA_ROLE_SERVE, NULL },
        { "VLLM::Worker_TP0", "vllm", UMA_ROLE_SERVE, NULL },
        { "ray::RayWorkerWrapper.execute_method", "vllm", UMA_ROLE_SERVE, NULL },
        { "python~-m~sglang.launch_server~--model-path~m~--is-embedding", "sglang", UMA_ROLE_SERVE, "m" },
        { "sglang::scheduler_TP0", "sglang", UMA_ROLE_SERVE, NULL },
        { "/usr/local/bin/ollama~serve", "ollama", UMA_ROLE_SERVE, NULL },
        { "/usr/local/bin/ollama~runner~--model~/blobs/sha256-1~--port~4", "ollama", UMA_ROLE_SERVE, "/blobs/sha256-1" },
        { "ollama~run~llama3", "ollama", UMA_ROLE_UNKNOWN, NULL },
        { "./build/bin/llama-server~-m~x.gguf~-ngl~99~-c~8192", "llama.cpp", UMA_ROLE_SERVE, "x.gguf" },
        { "llama-cli~-hf~org/m", "llama.cpp", UMA_ROLE_UNKNOWN, "org/m" },
        { "trtllm-serve~org/m~--port~1", "trt-llm", UMA_ROLE_SERVE, "org/m" },
        { "python3~/usr/bin/trtllm-serve~serve~org/m", "trt-llm", UMA_ROLE_SERVE, "org/m" },
        { "tritonserver~--model-repository=/m", "other", UMA_ROLE_SERVE, NULL },
        { "tritonserver~--backend-config=tensorrt_llm,x=1", "trt-llm", UMA_ROLE_SERVE, NULL },
        { "trl~sft~--model_name_or_path~q", "trl", UMA_ROLE_TRAIN, "q" },
        { "trl~vllm-serve~--model~q", "trl", UMA_ROLE_SERVE, "q" },
        { "accelerate~launch~/x/trl/scripts/sft.py~--model_name_or_path~q", "trl", UMA_ROLE_TRAIN, "q" },
        { "axolotl~train~c.yml", "axolotl", UMA_ROLE_TRAIN, NULL },
        { "accelerate~launch~-m~axolotl.cli.train~c.yml", "axolotl", UMA_ROLE_TRAIN, NULL },
        { "python~unsloth-cli.py~--model_name~m", "unsloth", UMA_ROLE_TRAIN, "m" },
        { "python~/v/bin/tune~run~lora_finetune_single_device", "torchtune", UMA_ROLE_TRAIN, NULL },
        { "llamafactory-cli~train~c.yaml", "llama-factory", UMA_ROLE_TRAIN, NULL },
        { "llamafactory-cli~api~c.yaml", "llama-factory", UMA_ROLE_SERVE, NULL },
        { "torchrun~--nproc_per_node=1~/opt/Megatron-LM/pretrain_gpt.py", "megatron", UMA_ROLE_TRAIN, NULL },
        { "python~/opt/NeMo/examples/x.py", "nemo", UMA_ROLE_TRAIN, NULL },
        { "python~/opt/ComfyUI/main.py~--listen", "comfyui", UMA_ROLE_SERVE, NULL },
        { "python~main.py~--listen~--reserve-vram~4", "comfyui", UMA_ROLE_SERVE, NULL },
        { "/x/raylet~--y", "ray", UMA_ROLE_UNKNOWN, NULL },
        { "ray::IDLE", "ray", UMA_ROLE_UNKNOWN, NULL },
        { "python~/x/ray/_private/workers/default_worker.py", "ray", UMA_ROLE_UNKNOWN, NULL },
        { "torchrun~train.py", "pytorch", UMA_ROLE_TRAIN, NULL },
        { "text-embeddings-router~--model-id~BAAI/bge", "other", UMA_ROLE_SERVE, "BAAI/bge" },
        /* none of these is what its words mention */
        { "vim~notes about vllm.txt", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "tail~-f~/var/log/vllm", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "grep~-r~vllm serve", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "docker~run~vllm/vllm-openai~--model~m", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "python~-m~pip~install~vllm", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "python~my_vllm_client.py~vllm~serve", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "python~-m~vllmx.entry", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "python~main.py~--listen", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "nemo~/home", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "tune~song.mp3", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "bash~-c~echo vllm serve m", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "/opt/vllm/bin/uvicorn~app", NULL, UMA_ROLE_UNKNOWN, NULL },
        { "python~/home/ray/train.py", NULL, UMA_ROLE_TRAIN, NULL },
        { "llama-factory-dashboard", NULL, UMA_ROLE_UNKNOWN, NULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_program p = recognise(cases[i].words, NULL);
        bool same = (!p.kind && !cases[i].kind) || (p.kind && cases[i].kind && strcmp(p.kind, cases[i].kind) == 0);
        bool same_model = (!p.model && !cases[i].model) || (p.model && cases[i].model && strcmp(p.model, cases[i].model) == 0);
        if (!same || p.role != cases[i].role || !same_model)
            print_error("%s: kind %s role %d model %s\n", cases[i].words, p.kind ? p.kind : "-", (int)p.role, p.model ? p.model : "-");
        assert_true(same && p.role == cases[i].role && same_model);
    }
}

/* Arguments denied or gone: the name, which the kernel cuts to 15 bytes. */
static void names_only(void **state) {
    (void)state;
    static const struct {
        const char *name, *kind;
    } cases[] = { { "VLLM::EngineCor", "vllm" },
                  { "sglang::schedul", "sglang" },
                  { "llama-server", "llama.cpp" },
                  { "ray::RayWorkerW", "vllm" },
                  { "ollama", "ollama" },
                  { "text-embeddings", "other" },
                  { "bash", NULL },
                  { "vllm2", NULL },
                  { "tune", NULL },
                  { "nemo", NULL } };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_process p = { .pid = 2, .name = cases[i].name };
        struct uma_program program;
        uma_program_recognise(&p, u64(1), arena, &program);
        if (cases[i].kind)
            assert_string_equal(program.kind, cases[i].kind);
        else
            assert_null(program.kind);
    }
    struct uma_process kernel = { .pid = 2, .name = "ollama", .kernel_thread = true };
    struct uma_program program;
    uma_program_recognise(&kernel, u64(1), arena, &program);
    assert_null(program.kind);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(kinds), cmocka_unit_test(names_only) };
    return cmocka_run_group_tests_name("holder_kinds", tests, make_arena, free_arena);
}
