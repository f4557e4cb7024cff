/* SPDX-License-Identifier: MIT */
/*
 * advise_loaders.c - how the engines that run now were told to read their weights. On one pool a mapped file and the copy for the GPU are in the same
 * memory until the file's pages go. Advice only: a flag counts at the next start.
 */
#include "cache/advise_parts.h"

#include "account/holder_kinds.h"

#include <string.h>

enum { ENGINES_MAX = 64 };

struct engine {
    const struct uma_process *process;
    const char *kind;
    struct uma_command_words words;
};

/* ---- flags --------------------------------------------------------------------------------------------------- */

static bool given(const struct engine *e, const char *flag) {
    const char *value;
    return uma_option_find(&e->words, flag, &value) != UMA_OPTION_NOT_GIVEN;
}

static const char *value_of(const struct engine *e, const char *flag) {
    const char *value = NULL;
    return uma_option_find(&e->words, flag, &value) == UMA_OPTION_GIVEN ? value : NULL;
}

static bool is(const char *value, const char *word) {
    return value && strcmp(value, word) == 0;
}

static struct uma_advice *add(struct uma_advise_site *site, const struct engine *e, const char *what) {
    int pid = (int)e->process->pid;
    return uma_advise_add(site, uma_advise_text(site, "loader-%d", pid), uma_advise_text(site, "%s %d: %s", e->kind, pid, what));
}

/* ---- llama.cpp ----------------------------------------------------------------------------------------------- */

static const struct uma_evidence llama_evidence[] = {
    { UMA_CERTAIN_VENDOR,
      "a 120B model on a DGX Spark: 110 s mapped, 67 s mapped and warm, 10.5 s by direct reads, and the memory is free afterwards",
      "ggml-org/llama.cpp pull request 18012" },
    { UMA_CERTAIN_VENDOR,
      "on an integrated GPU mapping has the model in memory twice while loading; the newer default, --load-mode auto, does not map there",
      "ggml-org/llama.cpp pull request 26081" },
};

/* What the flags come to, the last one counting (common/arg.cpp): the old ones are modes since --load-mode is there. */
static const char *llama_mode(const struct engine *e) {
    static const struct {
        const char *flag, *mode;
    } flags[] = { { "--mmap", "mmap" }, { "--no-mmap", "none" }, { "--mlock", "mlock" }, { "--direct-io", "dio" }, { "-dio", "dio" } };
    const char *mode = NULL;
    for (size_t i = 0; i < e->words.n; i++) {
        const char *arg = e->words.args[i];
        for (size_t f = 0; f < ELEMENTS(flags); f++)
            if (strcmp(arg, flags[f].flag) == 0)
                mode = flags[f].mode;
        if ((strcmp(arg, "--load-mode") == 0 || strcmp(arg, "-lm") == 0) && i + 1 < e->words.n)
            mode = e->words.args[i + 1];
        else if (strncmp(arg, "--load-mode=", 12) == 0)
            mode = arg + 12;
    }
    return mode;
}

static void llama_cpp(struct uma_advise_site *site, const struct engine *e) {
    struct uma_advice *a = add(site, e, "load mode");
    UMA_ADVISE_EVIDENCE(a, llama_evidence);
    const char *mode = llama_mode(e);
    a->now = mode ? mode : "not given";
    if (is(mode, "dio")) {
        a->why = "it reads past the page cache: nothing is in memory twice";
    } else if (is(mode, "none")) {
        a->why = "it does not map: the cache that its reads leave behind can be evicted at once; --load-mode dio would leave none";
    } else if (is(mode, "mmap") || is(mode, "mlock") || is(mode, "mmap+mlock")) {
        a->verdict = UMA_VERDICT_HURTS;
        a->recommended = "--load-mode dio";
        a->command = "start it with --load-mode dio (older releases: --direct-io, or --no-mmap)";
        a->why =
            is(mode, "mmap")
                ? "the mapped file and the GPU's copy lie in the same pool: twice the model while loading, and page faults instead of reads"
                : "what is read of the file is locked beside the GPU's copy: twice the model for good, and nothing can evict it";
    } else {
        a->verdict = UMA_VERDICT_HELPS;
        a->recommended = "--load-mode dio";
        a->command = "start it with --load-mode dio (older releases: --direct-io, or --no-mmap)";
        a->why = "a release from before --load-mode auto maps by default: twice the model while loading, and page faults instead of reads";
    }
}

/* ---- Ollama --------------------------------------------------------------------------------------------------- */

static const struct uma_evidence ollama_evidence[] = {
    { UMA_CERTAIN_VENDOR, "direct reads are used on integrated GPUs, to avoid taking memory twice", "ollama/ollama pull request 17286" },
};

static void ollama(struct uma_advise_site *site, const struct engine *e) {
    const char *mode = llama_mode(e);
    bool runner = e->words.n > 0 && strcmp(e->words.args[0], "runner") == 0;
    if (!runner && !mode)
        return; /* the server: its runners read the weights */
    struct uma_advice *a = add(site, e, "load mode");
    UMA_ADVISE_EVIDENCE(a, ollama_evidence);
    a->now = mode ? mode : "not given";
    if (is(mode, "dio") || is(mode, "none")) {
        a->why = "it does not map its files";
        return;
    }
    a->verdict = UMA_VERDICT_UNKNOWN;
    a->why = "whether this release maps its files is not on its command line; releases from July 2026 on read directly on integrated GPUs";
}

/* ---- vLLM ----------------------------------------------------------------------------------------------------- */

static const struct uma_evidence vllm_evidence[] = {
    { UMA_CERTAIN_VENDOR,
      "not given, shards are mapped lazily, and on a network file system prefetched where the checkpoint fits in 0.9 of available memory",
      "docs.vllm.ai, vllm.config.load, safetensors_load_strategy" },
    { UMA_CERTAIN_VENDOR,
      "tensors go to CUDA through a small pinned buffer since safetensors 0.8, with the mapping and without; before it a file beyond half of memory failed on a DGX Spark",
      "safetensors/safetensors pull request 760" },
    { UMA_CERTAIN_FIELD,
      "on eight DGX Sparks a model of 805 GiB stalled for an hour while mapped, and started in twelve minutes with prefetch",
      "vllm-project/vllm issue 40988" },
    { UMA_CERTAIN_FIELD, "mapped loading stayed slow on two kernels, one of which reads fast", "lmstudio-ai/lms issue 366" },
    { UMA_CERTAIN_FIELD, "eager took both nodes off the network while it loaded; lazy completed with 8 GiB left",
      "forums.developer.nvidia.com topic 381440, posts 40 and 62" },
    { UMA_CERTAIN_FIELD, "fastsafetensors is faster, but not for models above 0.8 of memory", "eugr/spark-vllm-docker, README" },
    { UMA_CERTAIN_FIELD, "InstantTensor loads in a quarter of the time and keeps 4.4 GiB from the KV cache",
      "MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks issue 204" },
};

static void vllm(struct uma_advise_site *site, const struct engine *e) {
    const char *format = value_of(e, "--load-format"), *strategy = value_of(e, "--safetensors-load-strategy");
    struct uma_advice *a = add(site, e, "loading");
    UMA_ADVISE_EVIDENCE(a, vllm_evidence);
    a->verdict = UMA_VERDICT_DISPUTED;
    a->now = uma_advise_text(site, "%.60s, %.60s", format ? format : "auto", strategy ? strategy : "no strategy given");
    if (format && !is(format, "auto") && !is(format, "safetensors")) {
        a->now = uma_advise_text(site, "%.60s", format);
        if (is(format, "fastsafetensors"))
            a->why = "faster than mapping; its staging is pinned, and a model above 0.8 of memory does not fit beside it";
        else if (is(format, "instanttensor"))
            a->why =
                "much faster than mapping; its buffer is sized by MemFree, which page cache hides, and comes off the KV cache: evict what was copied before starting";
        else {
            a->verdict = UMA_VERDICT_OK;
            a->why = "it does not read safetensors by mapping them";
        }
    } else if (is(strategy, "eager"))
        a->why =
            "whole shards are staged in memory that cannot be evicted: fast where they fit, and several nodes were lost where they did not";
    else if (is(strategy, "prefetch"))
        a->why =
            "the whole checkpoint is pulled into the page cache first: fast, and what ended stalls for one owner; on one pool the cache then stands where the GPU's copy has to go, and is dropped again where it does not fit";
    else
        a->why =
            "shards are mapped: the pages can be evicted, so it survives in little memory, but it reads fault by fault, minutes for a large model. More readahead helps it; so does --load-format fastsafetensors, or eager where a shard for each worker fits twice";
}

/* ---- SGLang --------------------------------------------------------------------------------------------------- */

static const struct uma_evidence sglang_evidence[] = {
    { UMA_CERTAIN_VENDOR, "a 32B model: 258 s mapped, 32 s with --weight-loader-disable-mmap", "sgl-project/sglang pull request 7469" },
    { UMA_CERTAIN_VENDOR, "with it each shard is read whole into memory before its tensors are used",
      "sgl-project/sglang python/sglang/srt/model_loader/weight_utils.py" },
};

static void sglang(struct uma_advise_site *site, const struct engine *e) {
    struct uma_advice *a = add(site, e, "loading");
    bool direct = given(e, "--weight-loader-disable-mmap"), prefetch = given(e, "--weight-loader-prefetch-checkpoints");
    UMA_ADVISE_EVIDENCE(a, sglang_evidence);
    a->verdict = UMA_VERDICT_DISPUTED;
    a->now = direct ? "not mapped" : prefetch ? "prefetch" : "mapped by default";
    if (direct)
        a->why =
            "whole shards are staged in memory that cannot be evicted: much faster where they fit, ended for lack of memory where several large ones do not";
    else if (prefetch)
        a->why = "the checkpoint is pulled into the page cache first, where the GPU's copy has to go";
    else
        a->why =
            "shards are mapped: they can be evicted, but are read fault by fault. --weight-loader-disable-mmap is faster where the shards that are read at a time fit";
}

/* ---- ComfyUI -------------------------------------------------------------------------------------------------- */

static const struct uma_evidence comfyui_evidence[] = {
    { UMA_CERTAIN_FIELD, "on a DGX Spark models beyond half of memory fail while they are mapped; --disable-mmap is the way around",
      "Comfy-Org/ComfyUI issue 10896" },
    { UMA_CERTAIN_VENDOR, "mapping keeps the file's pages beside the copy for the GPU: about twice the model",
      "safetensors/safetensors issue 758" },
};

static void comfyui(struct uma_advise_site *site, const struct engine *e) {
    struct uma_advice *a = add(site, e, "loading");
    UMA_ADVISE_EVIDENCE(a, comfyui_evidence);
    a->now = "not mapped";
    a->why = "files are read, not mapped";
    if (given(e, "--disable-mmap"))
        return;
    a->verdict = UMA_VERDICT_HELPS;
    a->now = "mapped by default";
    a->recommended = "--disable-mmap";
    a->command = "start it with --disable-mmap";
    a->why = "the mapped file and the copy for the GPU lie in the same pool: about twice the model while it is in use";
}

/* ---- PyTorch's allocator -------------------------------------------------------------------------------------- */

static const struct uma_evidence expandable_evidence[] = {
    { UMA_CERTAIN_FIELD, "True kept 6 to 7 GiB that were lost before", "huggingface.co/nvidia/GLM-5.3-Flash-FP4-Local discussion 7" },
    { UMA_CERTAIN_FIELD, "False, with autotuning off, ended hard resets in long prefills", "NVIDIA/dgx-spark-playbooks issue 97" },
};

static void expandable_segments(struct uma_advise_site *site, const struct engine *e) {
    static const char *const names[] = { "PYTORCH_ALLOC_CONF=", "PYTORCH_CUDA_ALLOC_CONF=" };
    for (uint32_t i = 0; i < e->process->envc; i++)
        for (size_t n = 0; n < ELEMENTS(names); n++) {
            const char *variable = e->process->env[i];
            const char *found = strncmp(variable, names[n], strlen(names[n])) == 0 ? strstr(variable, "expandable_segments:") : NULL;
            if (!found)
                continue;
            int pid = (int)e->process->pid;
            struct uma_advice *a = uma_advise_add(site, uma_advise_text(site, "expandable-segments-%d", pid),
                                                  uma_advise_text(site, "%s %d: expandable_segments", e->kind, pid));
            UMA_ADVISE_EVIDENCE(a, expandable_evidence);
            const char *value = found + strlen("expandable_segments:");
            a->now = uma_advise_text(site, "%.*s", (int)MIN_OF(strcspn(value, ","), (size_t)16), value);
            a->verdict = UMA_VERDICT_DISPUTED;
            a->why =
                "it depends on the workload: owners report that each setting cured what the other caused. Change it only to see whether yours is one of them";
            return;
        }
}

/* ---- what runs ------------------------------------------------------------------------------------------------- */

/* The command whose flags count, of a process that has its own. */
static bool engine_of(struct uma_advise_site *site, const struct uma_process *p, struct engine *ret_engine) {
    struct uma_program program;
    struct uma_command_words commands[UMA_COMMANDS_MAX];
    if (p->kernel_thread || p->argc == 0)
        return false;
    uma_program_recognise(p, site->total, site->arena, &program);
    if (!program.kind || program.worker)
        return false;
    size_t n = uma_command_resolve(p->argv, p->argc, site->arena, commands);
    if (n == 0)
        return false;
    *ret_engine = (struct engine){ p, program.kind, commands[n - 1] }; /* "cd x && exec vllm serve y": the last is what stays */
    return true;
}

/* A shell that started an engine has the same words: of parent and child of one kind the child is the engine. */
static bool has_child(const struct engine *engines, size_t n, const struct engine *e) {
    for (size_t i = 0; i < n; i++)
        if (engines[i].process->ppid == e->process->pid && strcmp(engines[i].kind, e->kind) == 0)
            return true;
    return false;
}

void uma_advise_loaders(struct uma_advise_site *site) {
    static const struct {
        const char *kind;
        void (*advise)(struct uma_advise_site *site, const struct engine *engine);
    } kinds[] = { { "llama.cpp", llama_cpp }, { "ollama", ollama }, { "vllm", vllm }, { "sglang", sglang }, { "comfyui", comfyui } };
    const struct uma_processes *processes = &site->snapshot->processes;
    struct engine *engines = uma_arena_array(site->arena, ENGINES_MAX, sizeof *engines);
    size_t n = 0;
    if (!engines) {
        site->failed = true;
        return;
    }
    if (!site->unified)
        return; /* a GPU with memory of its own has its copy there: nothing is in one pool twice */
    for (size_t i = 0; i < processes->n && n < ENGINES_MAX; i++)
        if (engine_of(site, &processes->list[i], &engines[n]))
            n++;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < ELEMENTS(kinds); k++)
            if (strcmp(engines[i].kind, kinds[k].kind) == 0 &&
                !(has_child(engines, n, &engines[i]) && strcmp(engines[i].kind, "ollama") != 0))
                kinds[k].advise(site, &engines[i]);
        expandable_segments(site, &engines[i]);
    }
}
