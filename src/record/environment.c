/* SPDX-License-Identifier: MIT */
#include "record/environment.h"

#include "base/cleanup.h"
#include "observe/secrets.h"

#include <string.h>

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
    if (n == 0 || uma_secrets_name(assignment, n))
        return false;
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        size_t k = strlen(names[i]);
        if (names[i][k - 1] == '_' ? n > k && memcmp(assignment, names[i], k) == 0 : n == k && memcmp(assignment, names[i], k) == 0)
            return true;
    }
    return false;
}
