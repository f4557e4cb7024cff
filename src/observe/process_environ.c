/* SPDX-License-Identifier: MIT */
/* The variables of a process that say what it may take of the pool and whom it works with. Everything else in an environment is left. */
#include "observe/process.h"

#include "observe/secrets.h"

#include <string.h>

/* Longest value kept: allocator settings and folders are shorter; more is not ours to carry around. */
enum { VALUE_MAX = 512 };

/*
 * The list. Never a token, key or password (uma_secrets_name() is asked as well, for the families). A name ending in '*' is a family.
 * Sources: the documentation of the program named.
 */
static const char *const kept_names[] = {
    /* PyTorch's caching allocator: expandable_segments, max_split_size_mb (both spellings; the newer since 2.9) */
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    /* CUDA: which device, and how modules and managed memory are loaded */
    "CUDA_VISIBLE_DEVICES",
    "CUDA_MODULE_LOADING",
    "CUDA_MANAGED_FORCE_DEVICE_ALLOC",
    "NVIDIA_VISIBLE_DEVICES",
    /* AMD's runtime: which device, and the override that Strix Halo users set */
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HSA_XNACK",
    /* rendezvous of a distributed job: which rank of which job this is (torchrun, MPI launchers, Slurm) */
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    /* the network that NCCL and Gloo take */
    "NCCL_IB_HCA",
    "NCCL_SOCKET_IFNAME",
    "NCCL_IB_DISABLE",
    "NCCL_NVLS_ENABLE",
    "NCCL_CUMEM_ENABLE",
    "NCCL_BUFFSIZE",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "UCX_NET_DEVICES",
    /* Ollama (envconfig/config.go): caps, cache and how much is loaded at once */
    "OLLAMA_MAX_VRAM",
    "OLLAMA_GPU_OVERHEAD",
    "OLLAMA_CONTEXT_LENGTH",
    "OLLAMA_NUM_PARALLEL",
    "OLLAMA_MAX_LOADED_MODELS",
    "OLLAMA_MAX_QUEUE",
    "OLLAMA_KV_CACHE_TYPE",
    "OLLAMA_FLASH_ATTENTION",
    "OLLAMA_KEEP_ALIVE",
    "OLLAMA_MODELS",
    "OLLAMA_HOST",
    "OLLAMA_LLM_LIBRARY",
    "OLLAMA_SCHED_SPREAD",
    "OLLAMA_IGPU_ENABLE",
    "OLLAMA_LOAD_TIMEOUT",
    "OLLAMA_NEW_ENGINE",
    /* vLLM (vllm/envs.py): attention backend and workspace sizes, where it listens for its other nodes */
    "VLLM_HOST_IP",
    "VLLM_USE_V1",
    "VLLM_ATTENTION_BACKEND",
    "VLLM_WORKER_MULTIPROC_METHOD",
    "VLLM_CPU_KVCACHE_SPACE",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "VLLM_ENABLE_CUDAGRAPH_GC",
    "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE",
    "VLLM_SLEEP_WHEN_IDLE",
    "VLLM_ENABLE_SLEEP_MODE",
    /* SGLang: all its tuning goes by this family */
    "SGLANG_*",
    /* llama.cpp: unified memory and VMM pools; LLAMA_ARG_ is the environment form of its flags */
    "GGML_CUDA_ENABLE_UNIFIED_MEMORY",
    "GGML_CUDA_NO_VMM",
    "GGML_CUDA_FORCE_MMQ",
    "LLAMA_ARG_MODEL",
    "LLAMA_ARG_HF_REPO",
    "LLAMA_ARG_HF_FILE",
    "LLAMA_ARG_ALIAS",
    "LLAMA_ARG_CTX_SIZE",
    "LLAMA_ARG_N_PARALLEL",
    "LLAMA_ARG_N_PREDICT",
    "LLAMA_ARG_N_GPU_LAYERS",
    "LLAMA_ARG_BATCH",
    "LLAMA_ARG_UBATCH",
    "LLAMA_ARG_CACHE_TYPE_K",
    "LLAMA_ARG_CACHE_TYPE_V",
    "LLAMA_ARG_CACHE_RAM",
    "LLAMA_ARG_FLASH_ATTN",
    "LLAMA_ARG_NO_MMAP",
    "LLAMA_ARG_MMAP",
    "LLAMA_ARG_MLOCK",
    "LLAMA_ARG_DIO",
    "LLAMA_ARG_FIT",
    "LLAMA_ARG_FIT_TARGET",
    "LLAMA_ARG_MODELS_MAX",
    /* where models lie: the hub's cache (huggingface_hub, constants.py; TRANSFORMERS_CACHE is its name in transformers before 5), ModelScope, torch.hub,
     * llama.cpp's downloads and models, NIM, LM Studio's and vLLM's own folders. OLLAMA_MODELS is above. */
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "HF_HOME",
    "HF_XET_CACHE",
    "TRANSFORMERS_CACHE",
    "XDG_CACHE_HOME",
    "MODELSCOPE_CACHE",
    "TORCH_HOME",
    "LLAMA_CACHE",
    "LLAMA_ARG_MODELS_DIR",
    "NIM_CACHE_PATH",
    "VLLM_CACHE_ROOT",
    "VLLM_ASSETS_CACHE",
    "COMFYUI_PATH",
    "SENTENCE_TRANSFORMERS_HOME",
    /* JAX and TensorFlow: how much of the device is taken at start */
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR",
    /* mistral.rs: its share of an integrated GPU's pool */
    "MISTRALRS_IGPU_MEMORY_FRACTION",
    /* Ray's own memory monitor: 0 switches it off */
    "RAY_memory_monitor_refresh_ms",
    "RAY_memory_usage_threshold",
    "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE",
    /* where a job started by `umactl run` says which job it is */
    "UMACTL_JOB",
};
/* Families can give more names than the list has; this many variables of one process are kept. */
enum { KEPT_MAX = 128 };

static bool plain(const char *name, size_t length) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    for (size_t i = 0; i < length; i++)
        if (!memchr(allowed, name[i], sizeof(allowed) - 1))
            return false;
    return true;
}

static bool wanted(const char *name, size_t length) {
    for (size_t i = 0; i < ELEMENTS(kept_names) && length > 0; i++) {
        if (kept_names[i][0] != name[0]) /* an environment has a hundred names: most are turned away by one letter */
            continue;
        size_t n = strlen(kept_names[i]);
        if (kept_names[i][n - 1] == '*' ? length > n - 1 && memcmp(name, kept_names[i], n - 1) == 0
                                        : length == n && memcmp(name, kept_names[i], n) == 0)
            return plain(name, length) && !uma_secrets_name(name, length);
    }
    return false;
}

/* The process itself sees the first of two equal names (getenv(3)); so do we. */
static bool have(const char *const *env, uint32_t n, const char *name, size_t length) {
    for (uint32_t i = 0; i < n; i++)
        if (strncmp(env[i], name, length) == 0 && env[i][length] == '=')
            return true;
    return false;
}

static const char *keep(struct uma_arena *arena, const char *variable, size_t length, size_t name_length) {
    _cleanup_text_ struct uma_text masked = { 0 }; /* a value may be an address with a password in it */
    size_t bounded = MIN_OF(length, name_length + 1 + VALUE_MAX);
    uma_secrets_mask(variable, bounded, &masked);
    return masked.failed || !masked.data ? NULL : uma_arena_utf8(arena, masked.data, masked.length);
}

int uma_process_environ_parse(const char *text, size_t length, struct uma_arena *arena, struct uma_process *process) {
    const char *env[KEPT_MAX];
    uint32_t n = 0;
    for (size_t at = 0; at < length && n < KEPT_MAX;) {
        size_t size = strnlen(text + at, length - at);
        const char *variable = text + at, *equals = memchr(variable, '=', size);
        size_t name_length = equals ? (size_t)(equals - variable) : 0;
        if (equals && wanted(variable, name_length) && !have(env, n, variable, name_length)) {
            env[n] = keep(arena, variable, size, name_length);
            if (!env[n])
                return -ENOMEM;
            n++;
        }
        at += size + 1;
    }
    if (n == 0)
        return 0;
    const char **list = uma_arena_array(arena, n, sizeof(*list));
    if (!list)
        return -ENOMEM;
    (void)memcpy(list, env, n * sizeof(*list));
    process->env = list;
    process->envc = n;
    return 0;
}
