/* SPDX-License-Identifier: MIT */
#include "record/mask.h"

#include <string.h>
#include <strings.h>

static bool word_is_secret(const char *word, size_t n) {
    static const char *const words[] = { "key",        "apikey",     "token",       "secret", "password",  "passwd",   "pass",
                                         "passphrase", "credential", "credentials", "auth",   "accesskey", "authtoken" };
    for (size_t i = 0; i < ELEMENTS(words); i++)
        if (strlen(words[i]) == n && strncasecmp(words[i], word, n) == 0)
            return true;
    return false;
}

static bool separates(char c) {
    return c == '-' || c == '_' || c == '.' || c == ':';
}

bool uma_mask_name(const char *name, size_t n) {
    for (size_t i = 0; i < n;) {
        size_t start = i;
        while (i < n && !separates(name[i]))
            i++;
        if (word_is_secret(name + start, i - start))
            return true;
        i++;
    }
    return false;
}

static bool is_number(const char *s) {
    return *s && strspn(s, "0123456789.,") == strlen(s);
}

static bool name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

/* Prefixes that the services document for their tokens: Hugging Face, OpenAI and compatible, GitHub, NVIDIA NGC, Weights & Biases, AWS. */
static bool has_token_prefix(const char *s) {
    static const char *const prefixes[] = { "hf_", "sk-", "ghp_", "github_pat_", "nvapi-", "wandb_v1_", "AKIA" };
    for (size_t i = 0; i < ELEMENTS(prefixes); i++)
        if (strncmp(s, prefixes[i], strlen(prefixes[i])) == 0 && strlen(s) >= strlen(prefixes[i]) + 12)
            return true;
    return false;
}

/* scheme://user:password@host, the password replaced. False when there is none. */
static bool mask_address(struct uma_text *text, const char *s) {
    const char *scheme = strstr(s, "://");
    if (!scheme)
        return false;
    const char *host = scheme + 3, *at = memchr(host, '@', strcspn(host, "/?#"));
    const char *colon = at ? memchr(host, ':', (size_t)(at - host)) : NULL;
    if (!colon)
        return false;
    uma_text_append_n(text, s, (size_t)(colon + 1 - s));
    uma_text_append(text, UMA_MASKED);
    uma_text_append(text, at);
    return true;
}

void uma_mask_argument(struct uma_text *text, char *const *argv, int i) {
    const char *s = argv[i];
    const char *before = i > 0 ? argv[i - 1] : "";
    size_t name = 0;
    if (before[0] == '-' && !strchr(before, '=') && uma_mask_name(before, strlen(before)) && s[0] != '-' && !is_number(s)) {
        uma_text_append(text, UMA_MASKED);
        return;
    }
    while (name_character(s[name]))
        name++;
    if (name && s[name] == '=') {
        const char *value = s + name + 1;
        if ((uma_mask_name(s, name) && *value && !is_number(value)) || has_token_prefix(value)) {
            uma_text_append_n(text, s, name + 1);
            uma_text_append(text, UMA_MASKED);
            return;
        }
    }
    if (has_token_prefix(s)) {
        uma_text_append(text, UMA_MASKED);
        return;
    }
    if (!mask_address(text, s))
        uma_text_append(text, s);
}

bool uma_environment_matters(const char *assignment) {
    /* What steers allocators, devices, threads, collectives and caches of the frameworks (their own documentation names them) and the
     * scheduler's placement; a prefix ends in '_'. */
    static const char *const names[] = { "CUDA_",
                                         "NVIDIA_",
                                         "PYTORCH_",
                                         "TORCH_",
                                         "NCCL_",
                                         "OMP_",
                                         "MKL_",
                                         "OPENBLAS_NUM_THREADS",
                                         "VLLM_",
                                         "SGLANG_",
                                         "OLLAMA_",
                                         "GGML_",
                                         "LLAMA_",
                                         "HF_HOME",
                                         "HF_HUB_OFFLINE",
                                         "TRANSFORMERS_",
                                         "XLA_",
                                         "JAX_",
                                         "TF_GPU_ALLOCATOR",
                                         "TF_FORCE_GPU_ALLOW_GROWTH",
                                         "HIP_",
                                         "ROCR_",
                                         "HSA_",
                                         "WORLD_SIZE",
                                         "RANK",
                                         "LOCAL_RANK",
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "SLURM_JOB_ID",
                                         "SLURM_PROCID",
                                         "SLURM_NTASKS",
                                         "MALLOC_",
                                         "LD_PRELOAD",
                                         "UMACTL_",
                                         "TOKENIZERS_PARALLELISM",
                                         "ACCELERATE_" };
    const char *equals = strchr(assignment, '=');
    size_t n = equals ? (size_t)(equals - assignment) : 0;
    if (n == 0 || uma_mask_name(assignment, n))
        return false;
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        size_t k = strlen(names[i]);
        if (names[i][k - 1] == '_' ? n > k && memcmp(assignment, names[i], k) == 0 : n == k && memcmp(assignment, names[i], k) == 0)
            return true;
    }
    return false;
}
