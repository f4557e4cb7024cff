/* SPDX-License-Identifier: MIT */
#include "account/holder_kinds.h"

#include <string.h>

enum where {
    PROGRAM,     /* the program's name */
    MODULE,      /* python -m: this module, or one inside it */
    SCRIPT,      /* the script's file name */
    SCRIPT_PATH, /* a part of the script's path, whole folder names */
};

struct rule {
    enum where where;
    const char *pattern;
    const char *verb; /* the first argument must be this, or NULL */
    const char *kind;
    enum uma_role role;
    bool python_only; /* a name that other programs have too */
};

#define SERVE UMA_ROLE_SERVE
#define TRAIN UMA_ROLE_TRAIN
#define NEITHER UMA_ROLE_UNKNOWN

/* First match counts. Names are those of the projects' own documentation and entry points. */
static const struct rule rules[] = {
    { PROGRAM, "vllm", "serve", "vllm", SERVE, false },
    { PROGRAM, "vllm", "run-batch", "vllm", SERVE, false },
    { PROGRAM, "vllm", NULL, "vllm", NEITHER, false },
    { MODULE, "vllm.entrypoints", NULL, "vllm", SERVE, false },
    { MODULE, "vllm", NULL, "vllm", NEITHER, false },
    { SCRIPT_PATH, "vllm/entrypoints", NULL, "vllm", SERVE, false },
    { PROGRAM, "sglang", "serve", "sglang", SERVE, false },
    { PROGRAM, "sglang", NULL, "sglang", NEITHER, false },
    { MODULE, "sglang.launch_server", NULL, "sglang", SERVE, false },
    { MODULE, "sglang", NULL, "sglang", NEITHER, false },
    { SCRIPT_PATH, "sglang/launch_server.py", NULL, "sglang", SERVE, false },
    { PROGRAM, "ollama", "serve", "ollama", SERVE, false },
    { PROGRAM, "ollama", "runner", "ollama", SERVE, false },
    { PROGRAM, "ollama", NULL, "ollama", NEITHER, false },
    { PROGRAM, "ollama_llama_server", NULL, "ollama", SERVE, false },
    { PROGRAM, "llama-server", NULL, "llama.cpp", SERVE, false },
    { PROGRAM, "llama-cli", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-run", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-mtmd-cli", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-bench", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-batched-bench", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-perplexity", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-embedding", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-speculative", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-quantize", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-imatrix", NULL, "llama.cpp", NEITHER, false },
    { PROGRAM, "llama-finetune", NULL, "llama.cpp", TRAIN, false },
    { PROGRAM, "llama-rpc-server", NULL, "llama.cpp", SERVE, false },
    { MODULE, "llama_cpp.server", NULL, "llama.cpp", SERVE, false },
    { PROGRAM, "trtllm-serve", NULL, "trt-llm", SERVE, false },
    { PROGRAM, "trtllm-bench", NULL, "trt-llm", NEITHER, false },
    { PROGRAM, "trtllm-build", NULL, "trt-llm", NEITHER, false },
    { PROGRAM, "trtllm-eval", NULL, "trt-llm", NEITHER, false },
    { MODULE, "tensorrt_llm", NULL, "trt-llm", NEITHER, false },
    { PROGRAM, "trl", "vllm-serve", "trl", SERVE, false },
    { PROGRAM, "trl", NULL, "trl", TRAIN, false },
    { MODULE, "trl", NULL, "trl", TRAIN, false },
    { SCRIPT_PATH, "trl/scripts", NULL, "trl", TRAIN, false },
    { SCRIPT_PATH, "trl/examples/scripts", NULL, "trl", TRAIN, false },
    { PROGRAM, "axolotl", "train", "axolotl", TRAIN, false },
    { PROGRAM, "axolotl", NULL, "axolotl", NEITHER, false },
    { MODULE, "axolotl.cli.train", NULL, "axolotl", TRAIN, false },
    { MODULE, "axolotl", NULL, "axolotl", NEITHER, false },
    { SCRIPT_PATH, "axolotl/cli/train.py", NULL, "axolotl", TRAIN, false },
    { PROGRAM, "unsloth", "train", "unsloth", TRAIN, false },
    { PROGRAM, "unsloth", NULL, "unsloth", NEITHER, false },
    { SCRIPT, "unsloth-cli.py", NULL, "unsloth", TRAIN, false },
    { SCRIPT, "unsloth_cli.py", NULL, "unsloth", TRAIN, false },
    { MODULE, "unsloth", NULL, "unsloth", NEITHER, false },
    { MODULE, "unsloth_cli", NULL, "unsloth", NEITHER, false },
    { PROGRAM, "tune", "run", "torchtune", TRAIN, false },
    { PROGRAM, "tune", NULL, "torchtune", NEITHER, true },
    { MODULE, "torchtune", NULL, "torchtune", TRAIN, false },
    { SCRIPT, "full_finetune_single_device.py", NULL, "torchtune", TRAIN, false },
    { SCRIPT, "full_finetune_distributed.py", NULL, "torchtune", TRAIN, false },
    { SCRIPT, "lora_finetune_single_device.py", NULL, "torchtune", TRAIN, false },
    { SCRIPT, "lora_finetune_distributed.py", NULL, "torchtune", TRAIN, false },
    { SCRIPT, "qat_distributed.py", NULL, "torchtune", TRAIN, false },
    { SCRIPT, "lora_dpo_single_device.py", NULL, "torchtune", TRAIN, false },
    { SCRIPT, "lora_dpo_distributed.py", NULL, "torchtune", TRAIN, false },
    { SCRIPT, "knowledge_distillation_single_device.py", NULL, "torchtune", TRAIN, false },
    { PROGRAM, "llamafactory-cli", "train", "llama-factory", TRAIN, false },
    { PROGRAM, "llamafactory-cli", "api", "llama-factory", SERVE, false },
    { PROGRAM, "llamafactory-cli", "chat", "llama-factory", SERVE, false },
    { PROGRAM, "llamafactory-cli", "webchat", "llama-factory", SERVE, false },
    { PROGRAM, "llamafactory-cli", NULL, "llama-factory", NEITHER, false },
    { PROGRAM, "lmf", "train", "llama-factory", TRAIN, false },
    { PROGRAM, "lmf", NULL, "llama-factory", NEITHER, true },
    { MODULE, "llamafactory", NULL, "llama-factory", NEITHER, false },
    { SCRIPT_PATH, "llamafactory/launcher.py", NULL, "llama-factory", TRAIN, false },
    { SCRIPT_PATH, "LLaMA-Factory/src/train.py", NULL, "llama-factory", TRAIN, false },
    { SCRIPT_PATH, "LlamaFactory/src/train.py", NULL, "llama-factory", TRAIN, false },
    { SCRIPT, "megatron_gpt_pretraining.py", NULL, "nemo", TRAIN, false },
    { SCRIPT, "megatron_gpt_finetuning.py", NULL, "nemo", TRAIN, false },
    { SCRIPT, "megatron_gpt_sft.py", NULL, "nemo", TRAIN, false },
    { PROGRAM, "nemo", NULL, "nemo", TRAIN, true }, /* also a file manager */
    { PROGRAM, "automodel", NULL, "nemo", TRAIN, true },
    { MODULE, "nemo", NULL, "nemo", TRAIN, false },
    { MODULE, "nemo_run", NULL, "nemo", TRAIN, false },
    { MODULE, "nemo_automodel", NULL, "nemo", TRAIN, false },
    { MODULE, "nemo_rl", NULL, "nemo", TRAIN, false },
    { SCRIPT_PATH, "NeMo", NULL, "nemo", TRAIN, false },
    { SCRIPT_PATH, "nemo_automodel", NULL, "nemo", TRAIN, false },
    { SCRIPT_PATH, "nemo-rl", NULL, "nemo", TRAIN, false },
    { SCRIPT, "pretrain_gpt.py", NULL, "megatron", TRAIN, false },
    { SCRIPT, "pretrain_bert.py", NULL, "megatron", TRAIN, false },
    { SCRIPT, "pretrain_t5.py", NULL, "megatron", TRAIN, false },
    { SCRIPT, "pretrain_mamba.py", NULL, "megatron", TRAIN, false },
    { SCRIPT, "pretrain_vlm.py", NULL, "megatron", TRAIN, false },
    { MODULE, "megatron", NULL, "megatron", TRAIN, false },
    { SCRIPT_PATH, "Megatron-LM", NULL, "megatron", TRAIN, false },
    { PROGRAM, "comfy", "launch", "comfyui", SERVE, false },
    { MODULE, "comfyui", NULL, "comfyui", SERVE, false },
    { SCRIPT_PATH, "ComfyUI/main.py", NULL, "comfyui", SERVE, false },
    { SCRIPT_PATH, "comfyui/main.py", NULL, "comfyui", SERVE, false },
    { PROGRAM, "raylet", NULL, "ray", NEITHER, false },
    { PROGRAM, "gcs_server", NULL, "ray", NEITHER, false },
    { PROGRAM, "ray", "start", "ray", NEITHER, false },
    { MODULE, "ray", NULL, "ray", NEITHER, false },
    { SCRIPT_PATH, "ray/_private", NULL, "ray", NEITHER, false },
    { SCRIPT_PATH, "ray/dashboard", NULL, "ray", NEITHER, false },
    { SCRIPT_PATH, "ray/autoscaler", NULL, "ray", NEITHER, false },
    /* servers without a kind of their own */
    { PROGRAM, "tritonserver", NULL, "other", SERVE, false },
    { PROGRAM, "text-embeddings-router", NULL, "other", SERVE, false },
    { PROGRAM, "text-generation-launcher", NULL, "other", SERVE, false },
    { PROGRAM, "text-generation-server", NULL, "other", SERVE, false },
    { PROGRAM, "mistralrs-server", NULL, "other", SERVE, false },
    { PROGRAM, "infinity_emb", NULL, "other", SERVE, false },
    { PROGRAM, "lmdeploy", "serve", "other", SERVE, false },
};

/* A title that a program wrote over its arguments (setproctitle), and so into its name, cut to 15 bytes there. */
static const struct title {
    const char *prefix, *kind;
    enum uma_role role;
} titles[] = {
    { "VLLM::", "vllm", SERVE },
    { "sglang::", "sglang", SERVE },
    { "ray::RayWorkerWrapper", "vllm", SERVE }, /* vLLM's worker class when Ray is its executor */
    { "ray::RayWorkerProc", "vllm", SERVE },
    { "ray::", "ray", NEITHER },
    { "trtllm::", "trt-llm", SERVE },
};

enum { NAME_MAX_BYTES = 15 }; /* TASK_COMM_LEN less the NUL */

/* ComfyUI is started as "python main.py" in its folder, which /proc does not tell everyone: flags that are its own do. */
static const char *const comfyui_flags[] = {
    "--reserve-vram",   "--lowvram", "--normalvram", "--highvram", "--novram", "--disable-smart-memory", "--extra-model-paths-config",
    "--fp8_e4m3fn-unet"
};

static bool module_is(const char *module, const char *pattern) {
    size_t n = strlen(pattern);
    return strncmp(module, pattern, n) == 0 && (module[n] == '\0' || module[n] == '.');
}

/* Is `part` in the path, from the start of one folder name to the end of another? */
static bool path_has(const char *path, const char *part) {
    size_t n = strlen(part);
    for (const char *p = path; *p;) {
        if (strncmp(p, part, n) == 0 && (p[n] == '\0' || p[n] == '/'))
            return true;
        p += strcspn(p, "/");
        p += *p == '/' ? 1 : 0;
    }
    return false;
}

static bool rule_matches(const struct rule *rule, const struct uma_command_words *c) {
    if (rule->verb && (c->n == 0 || strcmp(c->args[0], rule->verb) != 0))
        return false;
    if (rule->python_only && !c->python)
        return false;
    switch (rule->where) {
    case PROGRAM:
        return !c->module && !c->script && strcmp(c->program, rule->pattern) == 0;
    case MODULE:
        return c->module && module_is(c->module, rule->pattern);
    case SCRIPT:
        return c->script && strcmp(uma_path_last(c->script), rule->pattern) == 0;
    case SCRIPT_PATH:
        return c->script && path_has(c->script, rule->pattern);
    }
    return false;
}

static bool is_comfyui(const struct uma_command_words *c) {
    const char *value;
    if (!c->script || strcmp(uma_path_last(c->script), "main.py") != 0)
        return false;
    for (size_t i = 0; i < ELEMENTS(comfyui_flags); i++)
        if (uma_option_find(c, comfyui_flags[i], &value) != UMA_OPTION_NOT_GIVEN)
            return true;
    return false;
}

static bool has_word(const char *name, const char *word) {
    return strstr(name, word) != NULL;
}

/* What a script without an engine of its own is for, where its name says so. */
static enum uma_role role_of_script(const struct uma_command_words *c) {
    static const char *const training[] = { "train", "finetune", "fine_tune", "fine-tune", "sft", "dpo", "grpo", "lora" };
    static const char *const serving[] = { "serve", "server" };
    const char *name = c->script ? uma_path_last(c->script) : c->module;
    for (size_t i = 0; name && i < ELEMENTS(training); i++)
        if (has_word(name, training[i]))
            return UMA_ROLE_TRAIN;
    for (size_t i = 0; name && i < ELEMENTS(serving); i++)
        if (has_word(name, serving[i]))
            return UMA_ROLE_SERVE;
    return c->launched ? UMA_ROLE_TRAIN : UMA_ROLE_UNKNOWN;
}

static bool recognise_command(const struct uma_command_words *c, struct uma_program *program) {
    for (size_t i = 0; i < ELEMENTS(rules); i++) {
        if (!rule_matches(&rules[i], c))
            continue;
        program->kind = rules[i].kind;
        program->role = rules[i].role;
        return true;
    }
    if (is_comfyui(c)) {
        program->kind = "comfyui";
        program->role = UMA_ROLE_SERVE;
        return true;
    }
    return false;
}

static bool recognise_title(const char *title, struct uma_program *program) {
    for (size_t i = 0; i < ELEMENTS(titles); i++) {
        size_t n = strlen(titles[i].prefix);
        if (strncmp(title, titles[i].prefix, n) == 0 ||
            (strlen(title) == NAME_MAX_BYTES && strncmp(title, titles[i].prefix, NAME_MAX_BYTES) == 0 && n > NAME_MAX_BYTES)) {
            *program = (struct uma_program){ .kind = titles[i].kind, .role = titles[i].role, .python = true, .worker = true };
            return true;
        }
    }
    return false;
}

/* Without arguments (denied, or the process is on its way out) only the name is left. */
static void recognise_name(const char *name, struct uma_program *program) {
    program->worker = true;
    for (size_t i = 0; i < ELEMENTS(rules); i++) {
        const struct rule *r = &rules[i];
        if (r->where != PROGRAM || r->python_only || r->verb || strncmp(r->pattern, name, NAME_MAX_BYTES) != 0)
            continue;
        program->kind = r->kind;
        program->role = r->role;
        return;
    }
}

void uma_program_recognise(const struct uma_process *process, struct uma_u64 pool_total, struct uma_arena *arena,
                           struct uma_program *ret_program) {
    struct uma_program program = { 0 };
    struct uma_command_words commands[UMA_COMMANDS_MAX];
    const char *title = process->argc > 0 ? process->argv[0] : process->name;
    if (process->kernel_thread || !title || recognise_title(title, &program)) {
        *ret_program = program;
        return;
    }
    if (process->argc == 0) {
        recognise_name(title, &program);
        *ret_program = program;
        return;
    }
    size_t n = uma_command_resolve(process->argv, process->argc, arena, commands);
    for (size_t i = 0; i < n && !program.kind; i++) {
        program.python |= commands[i].python;
        if (recognise_command(&commands[i], &program))
            uma_program_read_flags(process, &commands[i], pool_total, arena, &program);
    }
    for (size_t i = 0; i < n && !program.kind; i++) {
        if (!commands[i].python)
            continue;
        program.role = role_of_script(&commands[i]);
        program.kind = commands[i].launched ? "pytorch" : NULL;
        program.worker = !commands[i].script && !commands[i].module; /* python -c: how multiprocessing starts its children */
        uma_program_read_flags(process, &commands[i], pool_total, arena, &program);
        break;
    }
    *ret_program = program;
}
