/* SPDX-License-Identifier: MIT */
/*
 * The words that a redacted document may keep: names of public programs, options, values and kernel files. Whatever is not here becomes a
 * stand-in, so that a forgotten word costs readability and never a secret. Every table is in strcmp order: they are searched by halves
 * (tests/unit/test_redact.c checks the order).
 */
#include "observe/redact.h"

#include "base/cleanup.h"

#include <string.h>

/* Programs, modules, values, path components, units. */
/* clang-format off */
static const char *const words[] = {
    "(sd-pam)", "0.0.0.0", "127.0.0.1", "::", "::1", "ComfyUI", "DMA", "DMA32", "Device", "FLASHINFER", "FLASH_ATTN",
    "False", "HighMem", "ModemManager", "Movable", "NetworkManager", "NetworkManager.service", "None", "Normal",
    "TRITON_ATTN", "True", "UVM", "VLLM::EngineCore", "VLLM::EngineCore_DP", "VLLM::Worker", "VLLM::Worker_TP",
    "VLLM::Worker_TP0", "VLLM::Worker_TP1", "XFORMERS", "Xorg", "Xwayland", "accelerate",
    "accelerate.commands.launch", "accounts-daemon", "accounts-daemon.service", "adafactor", "adamw", "adamw_8bit",
    "adamw_torch", "adamw_torch_fused", "agetty", "all", "api", "api_server.py", "app.slice", "atd", "auto",
    "avahi-daemon", "avahi-daemon.service", "awq", "axolotl", "axolotl.cli.sft", "axolotl.cli.train", "backend",
    "background.slice", "base", "bash", "besteffort", "bf16", "bfloat16", "bin", "bios_date", "bios_version",
    "bitsandbytes", "block", "bluetoothd", "board_name", "boot", "btop", "buddyinfo", "burstable", "c10d", "card",
    "cargo", "cat", "cc1", "cc1plus", "cgroup", "cgroup.procs", "chrome", "chromium", "cicc", "class", "cmake",
    "cmdline", "code", "comfyui", "comfyui.service", "comm", "compatible", "completion", "compressed-tensors",
    "conmon", "constant", "container", "containerd", "containerd-shim", "containerd-shim-runc-v2",
    "containerd.service", "cosine", "cpu", "cpufreq", "cpuhp", "cpuinfo", "cron", "cron.service", "crond",
    "crond.service", "crun", "cuda", "cudaMallocAsync", "cupsd", "curl", "cursor", "dash", "dbus-broker",
    "dbus-daemon", "dbus.service", "dcgm", "dcgm-exporter", "dcgm-exporter.service", "dcgm.service", "deepspeed",
    "default", "dev", "device", "device-tree", "devices", "dgx-dashboard", "dgx-dashboard-service",
    "dgx-dashboard.service", "dgx-release", "dm-", "dm-0", "dm-1", "dmem.capacity", "dmem.current", "dmem.low",
    "dmem.max", "dmem.min", "dmi", "docker", "docker-proxy", "docker.service", "docker.socket", "dockerd", "dpo",
    "dpo.py", "dri", "drm", "dummy", "eager", "eager_mode", "earlyoom", "earlyoom.service", "emacs", "embedding",
    "env", "environ", "etc", "etcd", "expandable_segments", "f16", "f32", "fa3", "false", "fd", "fdinfo", "file",
    "finetune.py", "firefox", "fish", "flash_attention_2", "flashinfer", "float", "float16", "float32", "fork",
    "forkserver", "fp16", "fp32", "fp8", "fp8_e4m3", "fp8_e5m2", "free", "fs", "full", "garbage_collection_threshold",
    "gcc", "gcs_server", "gdm", "gdm.service", "gdm3", "gdm3.service", "generate", "getty.target", "gguf", "git",
    "gloo", "gnome-session", "gnome-shell", "go", "gptq", "gpu", "gpu.json", "grafana", "grep", "grpo", "grpo.py",
    "guaranteed", "gzip", "half", "haproxy", "head", "home", "hostname", "htop", "hwmon", "id", "idle_inject", "init",
    "init.scope", "init.service", "int4", "int8", "io", "iq4_nl", "java", "jupyter", "jupyter-lab",
    "jupyter-notebook", "jupyter.service", "jupyterhub", "k3s.service", "kauditd", "kcompactd0", "kcompactd1",
    "kdevtmpfs", "kernel", "khugepaged", "khungtaskd", "ksoftirqd", "kswapd0", "kswapd1", "kthreadd", "kto",
    "kube-proxy", "kubelet", "kubelet.service", "kubepods", "kubepods-besteffort.slice", "kubepods-burstable.slice",
    "kubepods-guaranteed.slice", "kubepods.slice", "launch", "launch.py", "launch_server", "ld", "less", "lib",
    "lib64", "libexec", "libnvidia-ml.so.1", "libpod_parent", "linear", "lion", "litellm", "llama-bench", "llama-cli",
    "llama-factory", "llama-server", "llama-server.service", "llama-swap", "llama.cpp", "llamafactory-cli",
    "llamafactory.cli", "llamafactory.launcher", "localhost", "login", "lora", "ls", "lxc", "lxc-start",
    "lxc.monitor", "lxc.payload", "lxc.pivot", "lxcfs", "machine.slice", "main.py", "make", "mapper", "marlin",
    "master", "max_split_size_mb", "media", "megatron", "meminfo", "memory", "memory.current", "memory.events",
    "memory.high", "memory.limit_in_bytes", "memory.low", "memory.max", "memory.max_usage_in_bytes",
    "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes", "memory.min", "memory.oom_control", "memory.peak",
    "memory.stat", "memory.swap.current", "memory.swap.max", "memory.usage_in_bytes", "metal", "migration", "mnt",
    "modelopt", "mountinfo", "mounts", "mp", "mpi", "mpirun", "munged", "muon", "mxfp4", "mysqld", "nano", "native",
    "nccl", "nemo", "net", "nf4", "nginx", "nice", "ninja", "no", "node", "node_exporter", "nohang", "nohup", "none",
    "npm", "null", "numactl", "nv-hostengine", "nv-hostengine.service", "nv-monitor", "nvcc", "nvfp4", "nvidia",
    "nvidia-drm", "nvidia-modeset", "nvidia-persiste", "nvidia-persistenced", "nvidia-persistenced.service",
    "nvidia-powerd", "nvidia-settings", "nvidia-smi", "nvme", "nvme0n1", "nvml", "nvsm", "nvtop", "off", "ollama",
    "ollama.service", "on", "oom_reaper", "oom_score_adj", "open-webui", "opt", "orpo", "orted", "os-release",
    "osrelease", "other", "paged_adamw_8bit", "partition", "payload", "per_process_memory_fraction", "perl",
    "pinned_use_cuda_host_register", "pipewire", "podman", "podman.slice", "policy", "policy0", "polkit.service",
    "polkitd", "postgres", "ppo", "pressure", "pretrain_gpt.py", "proc", "product_name", "product_version",
    "prometheus", "ps", "pt", "ptxas", "pulseaudio", "pypy3", "python", "python3", "pytorch", "q4_0", "q4_1", "q5_0",
    "q5_1", "q8_0", "qlora", "ray", "ray::IDLE", "ray::ServeController", "ray::ServeReplica", "raylet", "rcu_preempt",
    "rcu_sched", "rcuog", "rcuop", "rcuos", "redis-server", "renderD", "rm", "rocm", "root",
    "roundup_power2_divisions", "router", "rsync", "rsyslog.service", "rsyslogd", "ruby", "run", "runai_streamer",
    "runc", "runner", "rustc", "safetensors", "sbin", "scp", "screen", "sda", "sdpa", "selective", "self", "serve",
    "server.py", "session.slice", "setsid", "sft", "sft.py", "sftp-server", "sgd", "sglang", "sglang.launch_server",
    "sglang.service", "sglang::detokenizer", "sglang::scheduler", "sglang_router", "sh", "shm", "simpo", "sleep",
    "slurm", "slurmctld", "slurmd", "slurmd.service", "slurmstepd", "slurmstepd.scope", "smaps", "smaps_rollup",
    "snap", "snapd", "snapd.service", "spawn", "srv", "ssh", "ssh.service", "sshd", "sshd.service", "stat", "static",
    "statm", "status", "stdbuf", "su", "sudo", "supervisor", "swap", "swap.img", "swapfile", "swaps", "sys",
    "sys_vendor", "system", "system.slice", "systemd", "systemd-journal", "systemd-journald",
    "systemd-journald.service", "systemd-logind", "systemd-logind.service", "systemd-network", "systemd-networkd",
    "systemd-networkd.service", "systemd-oom", "systemd-oomd", "systemd-oomd.service", "systemd-resolve",
    "systemd-resolved", "systemd-resolved.service", "systemd-timesyn", "systemd-timesyncd",
    "systemd-timesyncd.service", "systemd-udevd", "systemd-udevd.service", "systemd-userdbd", "systemd.slice", "tail",
    "tailscaled", "tailscaled.service", "tar", "taskset", "tensorizer", "tensorrt_llm.commands.serve",
    "text-generation-inference", "text-generation-launcher", "thermal", "thermal_zone", "time", "timeout", "tmp",
    "tmux", "top", "torch.distributed.launch", "torch.distributed.run", "torchrun", "traefik", "train", "train.py",
    "triton", "tritonserver", "trtllm", "trtllm-llmapi-launch", "trtllm-serve", "true", "tune", "udisks2.service",
    "udisksd", "umactl", "umactl-probe", "unified", "uniform", "unsloth", "upower.service", "upowerd", "uptime",
    "user", "user.slice", "usr", "var", "vda", "version", "vim", "vllm", "vllm.entrypoints.api_server",
    "vllm.entrypoints.cli.main", "vllm.entrypoints.openai.api_server", "vllm.service", "vmstat", "vulkan", "watch",
    "wget", "wireplumber", "worker", "wpa_supplicant", "wpa_supplicant.service", "writeback", "xargs", "yes",
    "zoneinfo", "zram", "zram0", "zsh", "zswap",
};
/* clang-format on */

/* Options of engines, trainers and launchers, without dashes before them and with "-" for "_". */
/* clang-format off */
static const char *const options[] = {
    "a", "access-token", "address", "alias", "api-key", "async-offload", "async-scheduling", "attention-backend",
    "attn-implementation", "auth-token", "b", "backend", "batch", "batch-size", "bf16", "block", "block-size",
    "bytes", "c", "cache-classic", "cache-lru", "cache-none", "cache-ram", "cache-type-k", "cache-type-v",
    "chat-template", "chunked-prefill-size", "compilation-config", "config", "config-file", "cont-batching",
    "context-length", "context-parallel-size", "cpu", "cpu-moe", "cpu-offload-gb", "csv", "ctk", "ctv", "ctx-size",
    "cuda-graph-max-bs", "cuda-malloc", "cutoff-len", "d", "data-parallel-size", "data-path", "dataset-name",
    "dataset-path", "deepspeed", "dev", "device", "dio", "direct-io", "disable-cuda-graph", "disable-cuda-malloc",
    "disable-mmap", "disable-radix-cache", "disable-smart-memory", "dist-init-addr", "distributed-backend",
    "distributed-executor-backend", "download-dir", "dp", "dp-size", "dtype", "e", "embedding", "embeddings",
    "enable-auto-tool-choice", "enable-chunked-prefill", "enable-lora", "enable-prefix-caching", "enable-sleep-mode",
    "enforce-eager", "ep-size", "epochs", "expert-model-parallel-size", "extra-llm-api-options", "f", "fa", "fast",
    "ffn-hidden-size", "finetuning-type", "fit", "fit-ctx", "fit-target", "flash-attn", "force-fp16", "fp16",
    "free-gpu-memory-fraction", "fsdp", "gcs-address", "global-batch-size", "gpu-layers", "gpu-memory-utilization",
    "gpu-only", "gradient-accumulation-steps", "gradient-checkpointing", "h", "head", "help", "hf", "hf-file",
    "hf-repo", "hf-token", "hff", "hfr", "hidden-size", "highvram", "host", "i", "interval", "is-embedding", "jinja",
    "k", "key", "kv-cache-dtype", "kv-cache-free-gpu-memory-fraction", "kv-cache-memory-bytes", "kv-offload",
    "kv-transfer-config", "kv-unified", "l", "learning-rate", "limit-mm-per-prompt", "listen", "load", "load-format",
    "load-in-4bit", "load-in-8bit", "log-level", "logging-steps", "lora-alpha", "lora-dropout", "lora-modules",
    "lora-r", "lora-target-modules", "lowvram", "lr", "lr-scheduler-type", "m", "main-gpu", "master-addr",
    "master-port", "max-batch-size", "max-beam-width", "max-completion-length", "max-length", "max-loras",
    "max-model-len", "max-num-batched-tokens", "max-num-seqs", "max-num-tokens", "max-position-embeddings",
    "max-prefill-tokens", "max-prompt-length", "max-restarts", "max-running-requests", "max-seq-len",
    "max-seq-len-to-capture", "max-seq-length", "max-steps", "max-total-tokens", "mem-fraction-static", "mg",
    "micro-batch-size", "mlock", "mmap", "mmproj", "model", "model-name-or-path", "model-path", "models-max",
    "module", "moe-expert-parallel-size", "n", "n-cpu-moe", "n-gpu-layers", "n-predict", "name", "need", "ngl",
    "nnodes", "no-enable-prefix-caching", "no-kv-offload", "no-mmap", "no-python", "no-warmup", "node-ip-address",
    "node-rank", "normalvram", "novram", "np", "nproc-per-node", "num-attention-heads", "num-cpus", "num-generations",
    "num-gpu-blocks-override", "num-gpus", "num-layers", "num-train-epochs", "num-workers", "o",
    "object-store-memory", "ollama-engine", "optim", "ot", "output-dir", "overlap-grad-reduce",
    "overlap-param-gather", "override-tensor", "p", "packing", "parallel", "password", "per-device-eval-batch-size",
    "per-device-train-batch-size", "pipeline-model-parallel-size", "pipeline-parallel-size", "pooling", "port",
    "pp-size", "preview-method", "q", "quantization", "quantization-bit", "r", "raylet-name", "rdzv-backend",
    "rdzv-endpoint", "rdzv-id", "reasoning-parser", "recompute-granularity", "recompute-method",
    "recompute-num-layers", "reranking", "reserve-vram", "revision", "runner", "s", "save", "save-steps",
    "schedule-policy", "secret", "seed", "seq-length", "sequence-parallel", "served-model-name", "session-dir", "sm",
    "speculative-config", "split-mode", "stage", "standalone", "swap-space", "t", "task", "tb", "temp-dir",
    "template", "tensor-model-parallel-size", "tensor-parallel-size", "tensor-split", "tf32", "threads",
    "threads-batch", "token", "tokenizer", "tokenizer-model", "tokenizer-path", "tokenizer-type", "tool-call-parser",
    "tp", "tp-size", "train-file", "train-iters", "transformer-impl", "trust-remote-code", "ts", "u", "ub",
    "ubatch-size", "use-distributed-optimizer", "use-flash-attn", "use-peft", "use-split-cross-attention", "use-vllm",
    "v", "verbose", "version", "vllm-gpu-memory-utilization", "vllm-mode", "w", "wait", "warmup-steps", "workers",
    "x", "y", "z",
};
/* clang-format on */

/* Options whose value names a model. */
/* clang-format off */
static const char *const model_options[] = {
    "a", "alias", "hf", "hf-file", "hf-repo", "hff", "hfr", "load", "mmproj", "model", "model-name-or-path",
    "model-path", "served-model-name", "tokenizer", "tokenizer-model", "tokenizer-path",
};
/* clang-format on */

/* Options whose value is never kept, not even a number. */
/* clang-format off */
static const char *const secret_options[] = {
    "access-token", "api-key", "auth-token", "hf-token", "key", "password", "secret", "token",
};
/* clang-format on */

/* Environment variables, or what they begin with when it ends in "_". */
/* clang-format off */
static const char *const variables[] = {
    "ACCELERATE_", "AXOLOTL_", "COMFYUI_", "CUBLAS_", "CUDA_", "DEEPSPEED_", "FI_", "FLASHINFER_", "GGML_", "GLOO_",
    "GROUP_RANK", "HF_HOME", "HF_HUB_OFFLINE", "HIP_", "HSA_", "JAX_", "LD_PRELOAD", "LLAMA_ARG_", "LOCAL_RANK",
    "LOCAL_WORLD_SIZE", "MALLOC_", "MASTER_ADDR", "MASTER_PORT", "MKL_", "MPI_", "NCCL_", "NODE_RANK", "NVIDIA_",
    "OLLAMA_", "OMPI_", "OMP_", "PMIX_", "PMI_", "PYTORCH_", "RANK", "RAY_", "ROCR_", "SGLANG_", "SGL_", "SLURM_",
    "TF_", "TLLM_", "TOKENIZERS_PARALLELISM", "TORCH_", "TP_SOCKET_", "TRANSFORMERS_", "TRITON_", "TRTLLM_", "UCX_",
    "UNSLOTH_", "VLLM_", "WORLD_SIZE", "XLA_",
};
/* clang-format on */

/* File name extensions: what a thing is, without its name. */
/* clang-format off */
static const char *const extensions[] = {
    "bin", "ckpt", "conf", "csv", "db", "gguf", "img", "ini", "jinja", "json", "jsonl", "log", "mount", "onnx",
    "parquet", "pt", "pth", "py", "safetensors", "scope", "service", "sh", "slice", "so", "sock", "socket", "toml",
    "txt", "yaml", "yml",
};
/* clang-format on */

static const struct {
    const char *const *list;
    size_t n;
} tables[] = {
    [UMA_WORDS] = { words, ELEMENTS(words) },
    [UMA_WORDS_OPTIONS] = { options, ELEMENTS(options) },
    [UMA_WORDS_MODEL_OPTIONS] = { model_options, ELEMENTS(model_options) },
    [UMA_WORDS_SECRET_OPTIONS] = { secret_options, ELEMENTS(secret_options) },
    [UMA_WORDS_VARIABLES] = { variables, ELEMENTS(variables) },
    [UMA_WORDS_EXTENSIONS] = { extensions, ELEMENTS(extensions) },
};

const char *const *uma_redact_table(enum uma_words which, size_t *ret_n) {
    *ret_n = tables[which].n;
    return tables[which].list;
}

bool uma_redact_known(enum uma_words which, const char *s, size_t n) {
    size_t low = 0, high = tables[which].n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *word = tables[which].list[middle];
        int c = strncmp(s, word, n);
        if (c == 0 && word[n])
            c = -1;
        if (c == 0)
            return true;
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

bool uma_redact_known_variable(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= 'A' && s[i] <= 'Z') || (s[i] >= '0' && s[i] <= '9') || s[i] == '_'))
            return false;
    if (uma_redact_known(UMA_WORDS_VARIABLES, s, n))
        return true;
    for (size_t i = 0; i < ELEMENTS(variables); i++) {
        size_t length = strlen(variables[i]);
        if (variables[i][length - 1] == '_' && length < n && memcmp(s, variables[i], length) == 0)
            return true;
    }
    return false;
}
