/* SPDX-License-Identifier: MIT */
/* holder_caps.c - the model and the memory cap in an engine's flags and environment. */
#include "account/holder_kinds.h"
#include "account/values.h"
#include "base/units.h"

#include <math.h>
#include <string.h>

enum cap_unit {
    OF_TOTAL,       /* fraction of what the engine calls total: MemTotal here */
    OF_SOMETHING,   /* fraction of what is free at some moment: no bytes follow from it */
    KV_BYTES,       /* size of the KV cache alone, "8G" */
    GIB_LEFT_ALONE, /* what others keep, in GiB */
};

struct cap_flag {
    const char *kind, *flag;
    enum cap_unit unit;
    const char *meaning; /* what follows the flag's name in the source */
};

/* In order of precedence within a kind. */
static const struct cap_flag cap_flags[] = {
    /* skips profiling; only the start check still uses the utilization (AEON-7/vllm-ultimate-dgx-spark issue 9) */
    { "vllm", "--kv-cache-memory-bytes", KV_BYTES, "of KV cache, weights and activations come on top" },
    /* not a ceiling: profiling and activations exceed it (vLLM issue 46307) */
    { "vllm", "--gpu-memory-utilization", OF_TOTAL, "of total" },
    { "trl", "--vllm-gpu-memory-utilization", OF_TOTAL, "of total, for generation" },
    { "trl", "--gpu-memory-utilization", OF_TOTAL, "of total" },
    { "sglang", "--mem-fraction-static", OF_SOMETHING, "of what is free at start, for weights and KV cache" },
    { "trt-llm", "--kv-cache-free-gpu-memory-fraction", OF_SOMETHING, "of what is free after loading, for KV cache" },
    { "trt-llm", "--free-gpu-memory-fraction", OF_SOMETHING, "of what is free after loading, for KV cache" },
    { "comfyui", "--reserve-vram", GIB_LEFT_ALONE, "GiB left to others" },
    { "unsloth", "--gpu-memory-utilization", OF_TOTAL, "of total, for generation" },
};

/* What a server does without a flag. */
static const struct cap_default {
    const char *kind;
    double fraction; /* 0: chosen at start */
    enum cap_unit unit;
    const char *source;
} cap_defaults[] = {
    { "vllm", 0.90, OF_TOTAL, "default 0.90 (newer releases: 0.92)" },
    { "sglang", 0, OF_SOMETHING, "default: --mem-fraction-static is chosen at start" },
    { "trt-llm", 0.90, OF_SOMETHING, "default 0.90 of what is free after loading, for KV cache" },
};

/* Environment variables with a fraction in them. */
static const struct cap_variable {
    const char *name, *key; /* key: within "key:value,key:value" */
    enum cap_unit unit;
} cap_variables[] = {
    { "PYTORCH_ALLOC_CONF", "per_process_memory_fraction", OF_TOTAL },
    { "PYTORCH_CUDA_ALLOC_CONF", "per_process_memory_fraction", OF_TOTAL },
    { "XLA_PYTHON_CLIENT_MEM_FRACTION", NULL, OF_TOTAL },
    { "MISTRALRS_IGPU_MEMORY_FRACTION", NULL, OF_SOMETHING },
};

static const struct model_flag {
    const char *kind, *flag; /* kind NULL: all that train */
} model_flags[] = {
    { "vllm", "--model" },         { "sglang", "--model-path" }, { "sglang", "--model" },      { "ollama", "--model" },
    { "llama.cpp", "--model" },    { "llama.cpp", "-m" },        { "llama.cpp", "--hf-repo" }, { "llama.cpp", "-hf" },
    { "llama.cpp", "-hfr" },       { "trt-llm", "--model" },     { "other", "--model-id" },    { NULL, "--model-name-or-path" },
    { "unsloth", "--model-name" }, { "trl", "--model" },
};

/* The value of a variable in a process's kept environment, or NULL. */
static const char *variable(const struct uma_process *process, const char *name) {
    size_t n = strlen(name);
    for (uint32_t i = 0; i < process->envc; i++)
        if (strncmp(process->env[i], name, n) == 0 && process->env[i][n] == '=')
            return process->env[i] + n + 1;
    return NULL;
}

/* A fraction as engines take it: (0, 1], "0.85" or ".85"; NaN, signs, exponents, percent signs and the rest are refused. */
static bool fraction_parse(const char *text, double *ret_fraction) {
    char digits[40] = "0";
    size_t n = strlen(text);
    double value;
    /* Python reads ".85" too; a number that needs more digits than this is not one that a person gave */
    if (n == 0 || n > sizeof(digits) - 2 || strspn(text, "0123456789.") != n)
        return false;
    (void)memcpy(digits + (text[0] == '.' ? 1 : 0), text, n + 1);
    if (uma_parse_f64_all(digits, &value) < 0 || !(value > 0 && value <= 1))
        return false;
    *ret_fraction = value;
    return true;
}

/* "8G", "1.5g", "500000000": k, m, g, t decimal in lower case and binary in upper case, as vLLM's own reader has it. */
static bool size_parse(const char *text, uint64_t *ret_bytes) {
    static const char units[] = "kmgtKMGT";
    static const double factors[] = { 1e3, 1e6, 1e9, 1e12, 0x1p10, 0x1p20, 0x1p30, 0x1p40 };
    char number[40];
    size_t n = strlen(text);
    const char *unit = n > 0 ? strchr(units, text[n - 1]) : NULL;
    size_t digits = n - (unit ? 1 : 0);
    double value;
    if (digits == 0 || digits >= sizeof(number) || strspn(text, "0123456789.") < digits)
        return false;
    (void)memcpy(number, text, digits);
    number[digits] = '\0';
    if (uma_parse_f64_all(number, &value) < 0)
        return false;
    value *= unit ? factors[unit - units] : 1;
    if (!(value >= 1 && value < 0x1p60))
        return false;
    *ret_bytes = (uint64_t)value;
    return true;
}

static void set_fraction(struct uma_cap *cap, double fraction, enum cap_unit unit, struct uma_u64 pool_total) {
    cap->present = true;
    cap->fraction = (struct uma_f64){ fraction, UMA_KNOWN };
    if (unit == OF_TOTAL && uma_usable(pool_total.validity))
        cap->bytes = uma_known_u64((uint64_t)ceil((double)(pool_total.value < (uint64_t)1 << 60 ? pool_total.value : 0) * fraction));
}

static bool set_value(struct uma_cap *cap, enum cap_unit unit, const char *text, struct uma_u64 pool_total) {
    double fraction, gib;
    uint64_t bytes;
    if (unit == OF_TOTAL || unit == OF_SOMETHING) {
        if (!fraction_parse(text, &fraction))
            return false;
        set_fraction(cap, fraction, unit, pool_total);
        return true;
    }
    if (unit == KV_BYTES) {
        if (!size_parse(text, &bytes))
            return false;
        cap->bytes = uma_known_u64(bytes);
    } else {
        /* up to 2^20 GiB: beyond that it is no amount of memory */
        if (uma_parse_f64_all(text, &gib) < 0 || !(gib >= 0 && gib <= 0x1p20))
            return false;
        if (uma_usable(pool_total.validity))
            cap->bytes = uma_known_u64(uma_sub(pool_total.value, (uint64_t)(gib * 0x1p30)));
    }
    cap->present = true;
    return true;
}

static bool is_kind(const char *kind, const char *wanted) {
    return kind && strcmp(kind, wanted) == 0;
}

static bool cap_from_flags(const struct uma_command_words *c, struct uma_u64 pool_total, struct uma_arena *arena, const char *kind,
                           struct uma_cap *cap) {
    for (size_t i = 0; i < ELEMENTS(cap_flags); i++) {
        const struct cap_flag *f = &cap_flags[i];
        const char *value = NULL;
        enum uma_option_state state = is_kind(kind, f->kind) ? uma_option_find(c, f->flag, &value) : UMA_OPTION_NOT_GIVEN;
        if (state == UMA_OPTION_NOT_GIVEN)
            continue;
        if (state == UMA_OPTION_GIVEN && set_value(cap, f->unit, value, pool_total))
            cap->source = uma_arena_printf(arena, "command line: %s (%s)", f->flag, f->meaning);
        else
            cap->source = uma_arena_printf(arena, "command line: %s is unreadable", f->flag);
        return true;
    }
    return false;
}

/* The value of `key` in "key:value,key:value", copied into `into`; the whole text without a key. */
static bool variable_value(const char *text, const char *key, char into[40]) {
    size_t n = key ? strlen(key) : 0, length;
    for (; key; text++) {
        if (strncmp(text, key, n) == 0 && text[n] == ':') {
            text += n + 1;
            break;
        }
        text += strcspn(text, ",");
        if (*text == '\0')
            return false;
    }
    length = strcspn(text, ",");
    length = length < 39 ? length : 39;
    (void)memcpy(into, text, length);
    into[length] = '\0';
    return true;
}

static bool cap_from_environment(const struct uma_process *process, struct uma_u64 pool_total, struct uma_arena *arena,
                                 struct uma_cap *cap) {
    for (size_t i = 0; i < ELEMENTS(cap_variables); i++) {
        const struct cap_variable *v = &cap_variables[i];
        const char *text = variable(process, v->name);
        char value[40];
        if (!text || !variable_value(text, v->key, value))
            continue;
        bool ok = set_value(cap, v->unit, value, pool_total);
        cap->source = uma_arena_printf(arena, ok ? "environment: %s" : "environment: %s is unreadable", v->name);
        return true;
    }
    return false;
}

/* A plain number or word ("8192", "auto"), short enough to be quoted. */
static const char *quotable(const struct uma_command_words *c, const char *const *flags, size_t n) {
    const char *value;
    for (size_t i = 0; i < n; i++)
        if (uma_option_find(c, flags[i], &value) == UMA_OPTION_GIVEN && strlen(value) <= 12 &&
            strspn(value, "0123456789abcdefghijklmnopqrstuvwxyz-") == strlen(value))
            return value;
    return NULL;
}

/* llama.cpp takes what it needs once, at start, by these; nothing else bounds it. */
static void cap_of_llama_cpp(const struct uma_command_words *c, struct uma_arena *arena, struct uma_cap *cap) {
    static const char *const context_flags[] = { "-c", "--ctx-size" }, *const layer_flags[] = { "-ngl", "--n-gpu-layers", "--gpu-layers" };
    const char *context = quotable(c, context_flags, ELEMENTS(context_flags)), *layers = quotable(c, layer_flags, ELEMENTS(layer_flags));
    if (!context && !layers)
        return;
    cap->present = true;
    cap->source = uma_arena_printf(arena, "command line: fixed at start by%s%s%s%s", context ? " -c " : "", context ? context : "",
                                   layers ? " -ngl " : "", layers ? layers : "");
}

static void cap_by_default(const struct uma_process *process, const struct uma_command_words *c, struct uma_u64 pool_total,
                           const struct uma_program *program, struct uma_cap *cap) {
    const char *value;
    for (size_t i = 0; i < ELEMENTS(cap_defaults); i++) {
        if (program->role != UMA_ROLE_SERVE || !is_kind(program->kind, cap_defaults[i].kind))
            continue;
        if (process->cmdline_cut || uma_option_find(c, "--config", &value) == UMA_OPTION_GIVEN ||
            uma_option_find(c, "--extra-llm-api-options", &value) == UMA_OPTION_GIVEN) {
            cap->source = process->cmdline_cut ? "the command line is cut before any cap" : "in a configuration file that is not read";
            return;
        }
        cap->source = cap_defaults[i].source;
        if (cap_defaults[i].fraction > 0)
            set_fraction(cap, cap_defaults[i].fraction, cap_defaults[i].unit, pool_total);
        return;
    }
}

/* "serve MODEL": the word after the verb, or the first that neither is an option nor can be the value of one. */
static const char *positional_model(const struct uma_command_words *c, size_t first) {
    for (size_t i = first; i < c->n; i++) {
        const char *before = i > first ? c->args[i - 1] : NULL;
        if (c->args[i][0] != '-' && c->args[i][0] != '\0' && (!before || before[0] != '-' || strchr(before, '=')))
            return c->args[i];
    }
    return NULL;
}

static const char *model_of(const struct uma_command_words *c, const struct uma_program *program) {
    const char *value;
    for (size_t i = 0; i < ELEMENTS(model_flags); i++) {
        bool applies = model_flags[i].kind ? is_kind(program->kind, model_flags[i].kind) : program->role == UMA_ROLE_TRAIN;
        if (applies && uma_option_find(c, model_flags[i].flag, &value) == UMA_OPTION_GIVEN && value[0] != '\0')
            return value;
    }
    if (!program->kind || c->module || c->n == 0)
        return NULL;
    if (is_kind(program->kind, "vllm") && strcmp(c->args[0], "serve") == 0)
        return positional_model(c, 1);
    if (is_kind(program->kind, "trt-llm") && strcmp(c->program, "trtllm-serve") == 0)
        return positional_model(c, strcmp(c->args[0], "serve") == 0 ? 1 : 0);
    return NULL;
}

/* Triton serves many backends; with TensorRT-LLM's it is that. */
static bool is_trt_backend(const struct uma_command_words *c) {
    for (size_t i = 0; i < c->n; i++)
        if (strstr(c->args[i], "tensorrt_llm") || strstr(c->args[i], "tensorrtllm") || strstr(c->args[i], "trtllm"))
            return true;
    return false;
}

void uma_program_read_flags(const struct uma_process *process, const struct uma_command_words *command, struct uma_u64 pool_total,
                            struct uma_arena *arena, struct uma_program *program) {
    if (strcmp(command->program, "tritonserver") == 0 && is_trt_backend(command))
        program->kind = "trt-llm";
    program->model = model_of(command, program);
    if (cap_from_flags(command, pool_total, arena, program->kind, &program->cap) ||
        cap_from_environment(process, pool_total, arena, &program->cap))
        return;
    if (is_kind(program->kind, "llama.cpp"))
        cap_of_llama_cpp(command, arena, &program->cap);
    else if (strcmp(command->program, "tritonserver") != 0)
        cap_by_default(process, command, pool_total, program, &program->cap);
}
