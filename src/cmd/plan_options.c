/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "cmd/plan.h"
#include "plan/model/builtin.h"

#include <stddef.h>
#include <string.h>

enum kind {
    COUNT32, /* a count into a uint32_t */
    COUNT64,
    TOKENS, /* a count whose K is 1,024: context lengths are said so */
    LAYERS, /* -ngl: a count or "all" */
    SIZE,
    RATIO,
    CHOICE, /* one of names into an enumeration */
    FORMAT,
    FORMAT_PAIR,
    TRUTH, /* yes or no */
    FLAG,
    TEXT,
    SPECIAL,
};

enum group { BOTH, TRAIN, SERVE };

struct entry {
    const char *name;
    enum kind kind;
    enum group group;
    size_t offset; /* in struct uma_plan_request */
    const char *const *names;
    size_t names_count;
    int (*set)(struct uma_plan_request *request, const char *value, struct uma_error *err);
};

/* ---- options with rules of their own ------------------------------------------------------------------------ */

/* Methods as users say them: an adapter method, or an objective. */
static int set_method(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    int method = uma_name_find(uma_method_names, ELEMENTS(uma_method_names), value);
    int objective = uma_name_find(uma_objective_names, ELEMENTS(uma_objective_names), value);
    if (method >= 0)
        request->job.train.method = (enum uma_method)method;
    else if (objective >= 0)
        request->job.train.objective = (enum uma_objective)objective;
    else
        return uma_plan_invalid(err, value, "full, lora, qlora, sft, pretrain, dpo, orpo, kto or grpo");
    request->full_given = method == UMA_METHOD_FULL;
    return 0;
}

static int set_dtype(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    enum uma_format format = uma_format_from_name(value);
    if (request->job.serving)
        request->file_type = value; /* "Q4_K_M": the engine, which may come later, decides whether it is one */
    if (format == UMA_FORMAT_UNKNOWN && !(request->job.serving && uma_file_type_bits(value) > 0))
        return uma_plan_invalid(err, value, "a number format: fp32, bf16, fp16, fp8, int8, nf4, nvfp4, mxfp4, gptq4-g128, q4_k ...");
    request->job.train.weights = request->job.serve.weights = format;
    return 0;
}

static int set_mla(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    struct uma_serve *serve = &request->job.serve;
    bool latent = strcmp(value, "latent") == 0, expanded = strcmp(value, "expanded") == 0, transposed = strcmp(value, "transposed") == 0;
    if (!latent && !expanded && !transposed)
        return uma_plan_invalid(err, value, "latent, expanded or transposed");
    serve->mla_expanded = expanded;
    serve->mla_transposed = transposed;
    return 0;
}

static int set_cache(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    bool tuple = strcmp(value, "tuple") == 0;
    if (!tuple && strcmp(value, "dynamic") != 0)
        return uma_plan_invalid(err, value, "dynamic or tuple");
    request->job.serve.tuple_cache = tuple;
    return 0;
}

static int set_amb(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    if (strcmp(value, "none") != 0)
        return uma_parse_size(value, &request->job.serve.mla_batch, err);
    request->job.serve.mla_batch = UINT64_MAX; /* all heads at once */
    return 0;
}

static int truth_parse(const char *value, enum uma_truth *ret_truth, struct uma_error *err) {
    static const char *const yes[] = { "yes", "on", "true", "1" }, *const no[] = { "no", "off", "false", "0" };
    if (uma_name_find(yes, ELEMENTS(yes), value) >= 0)
        *ret_truth = UMA_YES;
    else if (uma_name_find(no, ELEMENTS(no), value) >= 0)
        *ret_truth = UMA_NO;
    else
        return uma_plan_invalid(err, value, "yes or no");
    return 0;
}

static int set_mtp(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    enum uma_truth truth = UMA_MAYBE;
    int r = truth_parse(value, &truth, err);
    if (r < 0)
        return r;
    request->job.serve.mtp = truth == UMA_YES;
    request->job.serve.no_mtp = truth == UMA_NO;
    return 0;
}

static int count_into(const char *value, uint64_t most, uint64_t *ret_count, struct uma_error *err) {
    uint64_t count;
    int r = uma_parse_count(value, &count, err);
    if (r < 0)
        return r;
    if (count == 0 || count > most)
        return uma_error_text(err, ERANGE, "\"%.64s\": expected a count from 1 to %llu", value, (unsigned long long)most);
    *ret_count = count;
    return 0;
}

enum {
    RANKS_MOST = 65536,   /* more ranks than any job had */
    BATCH_MOST = 1 << 20, /* nor such a micro batch; llama.cpp's is in tokens */
};

/* One --batch, --tp, --pp and --nodes for both kinds: the other kind's job is never looked at. */
static int set_ranks(const char *value, uint32_t *train, uint32_t *serve, struct uma_error *err) {
    uint64_t count = 0;
    int r = count_into(value, RANKS_MOST, &count, err);
    if (r >= 0)
        *train = *serve = (uint32_t)count;
    return r;
}
static int set_tp(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    return set_ranks(value, &request->job.train.tp, &request->job.serve.tp, err);
}
static int set_pp(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    return set_ranks(value, &request->job.train.pp, &request->job.serve.pp, err);
}
static int set_nodes(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    return set_ranks(value, &request->job.train.nodes, &request->job.serve.nodes, err);
}
static int set_batch(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    uint64_t count = 0;
    int r = count_into(value, BATCH_MOST, &count, err);
    if (r >= 0) {
        request->job.train.batch = count;
        request->job.serve.batch = (uint32_t)count;
    }
    return r;
}
static int set_compile(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    enum uma_truth truth = UMA_MAYBE;
    int r = truth_parse(value, &truth, err);
    if (r >= 0)
        request->job.train.compile = request->job.serve.compile = truth;
    return r;
}
static int set_size(uint64_t *at, const char *value, struct uma_error *err) {
    uint64_t bytes;
    int r = uma_parse_size(value, &bytes, err);
    if (r < 0)
        return r;
    if (bytes == 0)
        return uma_plan_invalid(err, value, "a size above 0");
    *at = bytes;
    return 0;
}

static int set_load(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    int found = uma_name_find(uma_loader_names, ELEMENTS(uma_loader_names), value);
    if (found < 0)
        return uma_plan_invalid(err, value, "mmap, eager, streamed or direct");
    request->job.train.loader = request->job.serve.loader = (enum uma_loader)found;
    return 0;
}
static int set_read_speed(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    uint64_t bytes = 0;
    int r = set_size(&bytes, value, err);
    if (r < 0)
        return r;
    request->job.train.read_bytes_per_second = request->job.serve.read_bytes_per_second = (double)bytes;
    return 0;
}
/* "first" and "last" of the pipeline, or its number; "largest" is what is estimated unasked. */
static int set_stage(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    uint64_t count = 0;
    if (strcmp(value, "first") == 0)
        count = 1;
    else if (strcmp(value, "last") == 0)
        request->last_stage = true; /* pp may be given behind it */
    else if (strcmp(value, "largest") != 0) {
        int r = count_into(value, RANKS_MOST, &count, err);
        if (r < 0)
            return r;
    }
    request->job.train.pipeline_stage = (uint32_t)count;
    return 0;
}

/* "8.0", "12.1": kept as ten times the number. */
static int set_capability(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    double number;
    if (uma_parse_f64_all(value, &number) < 0 || number < 5 || number > 20)
        return uma_plan_invalid(err, value, "a compute capability such as 8.0, 9.0 or 12.1");
    request->job.train.compute_capability = (uint32_t)(number * 10 + 0.5);
    return 0;
}

/* "2.0", "2.10": 1000 x major + minor. */
static int set_torch(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    unsigned major = 0, minor = 0;
    const char *dot = strchr(value, '.');
    bool digits = dot && dot > value && dot[1] != '\0' && strlen(value) <= 6;
    for (const char *at = value; digits && *at; at++) {
        if (at == dot)
            continue;
        digits = *at >= '0' && *at <= '9';
        unsigned *part = at < dot ? &major : &minor;
        *part = *part * 10 + (unsigned)(*at - '0');
    }
    if (!digits || major < 1 || major > 9 || minor > 999)
        return uma_plan_invalid(err, value, "a release of torch such as 2.0");
    request->job.train.torch_release = major * 1000 + minor;
    return 0;
}

static int set_budget(struct uma_plan_request *request, const char *value, struct uma_error *err) {
    uint64_t bytes;
    int r = uma_parse_size(value, &bytes, err);
    if (r < 0)
        return r;
    if (bytes < UMA_MIB)
        return uma_error_text(err, EINVAL, "\"%.64s\" is %llu bytes: give a unit, as in 80G or 80GB", value, (unsigned long long)bytes);
    request->budget = (struct uma_u64){ bytes, UMA_KNOWN };
    return 0;
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct uma_plan_request, field)
#define NAMES(table) table, ELEMENTS(table), NULL
#define PLAIN NULL, 0, NULL
/* clang-format off */
static const struct entry table[] = {
    { "model", TEXT, BOTH, AT(model_path), PLAIN },
    { "params", COUNT64, BOTH, AT(shape.params), PLAIN },
    { "layers", COUNT32, BOTH, AT(shape.layers), PLAIN },
    { "hidden", COUNT32, BOTH, AT(shape.hidden), PLAIN },
    { "heads", COUNT32, BOTH, AT(shape.heads), PLAIN },
    { "kv-heads", COUNT32, BOTH, AT(shape.kv_heads), PLAIN },
    { "head-dim", COUNT32, BOTH, AT(shape.head_dim), PLAIN },
    { "ffn", COUNT64, BOTH, AT(shape.ffn), PLAIN },
    { "vocab", COUNT64, BOTH, AT(shape.vocab), PLAIN },
    { "experts", COUNT32, BOTH, AT(shape.experts), PLAIN },
    { "experts-per-token", COUNT32, BOTH, AT(shape.experts_per_token), PLAIN },
    { "expert-ffn", COUNT64, BOTH, AT(shape.expert_ffn), PLAIN },
    { "tied", TRUTH, BOTH, AT(shape.tied), PLAIN },
    { "gated", TRUTH, BOTH, AT(shape.gated), PLAIN },
    { "bias", TRUTH, BOTH, AT(shape.bias), PLAIN },
    { "norm-bias", TRUTH, BOTH, AT(shape.norm_bias), PLAIN },
    { "positions", COUNT64, BOTH, AT(shape.positions), PLAIN },
    { "shared-ffn", COUNT64, BOTH, AT(shape.shared_ffn), PLAIN },
    { "dense-layers", COUNT32, BOTH, AT(shape.dense_layers), PLAIN },
    { "mtp-layers", COUNT32, BOTH, AT(shape.mtp_layers), PLAIN },
    { "q-lora-rank", COUNT32, BOTH, AT(shape.q_lora_rank), PLAIN },
    { "kv-lora-rank", COUNT32, BOTH, AT(shape.kv_lora_rank), PLAIN },
    { "qk-nope-dim", COUNT32, BOTH, AT(shape.qk_nope_dim), PLAIN },
    { "qk-rope-dim", COUNT32, BOTH, AT(shape.qk_rope_dim), PLAIN },
    { "v-head-dim", COUNT32, BOTH, AT(shape.v_head_dim), PLAIN },
    { "pattern", TEXT, BOTH, AT(shape.pattern), PLAIN },
    { "ssm-heads", COUNT32, BOTH, AT(shape.ssm_heads), PLAIN },
    { "ssm-head-dim", COUNT32, BOTH, AT(shape.ssm_head_dim), PLAIN },
    { "ssm-state", COUNT32, BOTH, AT(shape.ssm_state), PLAIN },
    { "ssm-groups", COUNT32, BOTH, AT(shape.ssm_groups), PLAIN },
    { "dtype", SPECIAL, BOTH, 0, NULL, 0, set_dtype },
    { "batch", SPECIAL, BOTH, 0, NULL, 0, set_batch },
    { "tp", SPECIAL, BOTH, 0, NULL, 0, set_tp },
    { "pp", SPECIAL, BOTH, 0, NULL, 0, set_pp },
    { "nodes", SPECIAL, BOTH, 0, NULL, 0, set_nodes },
    { "compile", SPECIAL, BOTH, 0, NULL, 0, set_compile },
    { "load", SPECIAL, BOTH, 0, NULL, 0, set_load },
    { "read-speed", SPECIAL, BOTH, 0, NULL, 0, set_read_speed },
    { "budget", SPECIAL, BOTH, 0, NULL, 0, set_budget },
    { "explain", FLAG, BOTH, AT(explain), PLAIN },
    { "sweep", TEXT, BOTH, AT(sweep), PLAIN },

    { "method", SPECIAL, TRAIN, 0, NULL, 0, set_method },
    { "objective", CHOICE, TRAIN, AT(job.train.objective), NAMES(uma_objective_names) },
    { "compute", FORMAT, TRAIN, AT(job.train.compute), PLAIN },
    { "optimizer", CHOICE, TRAIN, AT(job.train.optimizer), NAMES(uma_optimizer_names) },
    { "seq", TOKENS, TRAIN, AT(job.train.seq), PLAIN },
    { "tokens", TOKENS, TRAIN, AT(job.train.tokens), PLAIN },
    { "accumulation", COUNT64, TRAIN, AT(job.train.accumulation), PLAIN },
    { "rank", COUNT32, TRAIN, AT(job.train.rank), PLAIN },
    { "targets", SPECIAL, TRAIN, 0, NULL, 0, uma_plan_targets_set },
    { "train-embeddings", FLAG, TRAIN, AT(job.train.train_embeddings), PLAIN },
    { "dora", FLAG, TRAIN, AT(job.train.dora), PLAIN },
    { "freeze-vision", FLAG, TRAIN, AT(job.train.freeze_vision), PLAIN },
    { "checkpointing", CHOICE, TRAIN, AT(job.train.checkpointing), NAMES(uma_checkpointing_names) },
    { "attention", CHOICE, TRAIN, AT(job.train.attention), NAMES(uma_attention_names) },
    { "loss", CHOICE, TRAIN, AT(job.train.loss), NAMES(uma_loss_names) },
    { "framework", CHOICE, TRAIN, AT(job.train.framework), NAMES(uma_framework_names) },
    { "shard", CHOICE, TRAIN, AT(job.train.shard), NAMES(uma_shard_names) },
    { "gpus", COUNT32, TRAIN, AT(job.train.gpus_per_node), PLAIN },
    { "cp", COUNT32, TRAIN, AT(job.train.cp), PLAIN },
    { "ep", COUNT32, TRAIN, AT(job.train.ep), PLAIN },
    { "sequence-parallel", FLAG, TRAIN, AT(job.train.sequence_parallel), PLAIN },
    { "distributed-optimizer", FLAG, TRAIN, AT(job.train.distributed_optimizer), PLAIN },
    { "master", TRUTH, TRAIN, AT(job.train.master), PLAIN },
    { "autocast", TRUTH, TRAIN, AT(job.train.autocast), PLAIN },
    { "double-quant", TRUTH, TRAIN, AT(job.train.double_quant), PLAIN },
    { "packing", TRUTH, TRAIN, AT(job.train.packing), PLAIN },
    { "reference-model", TRUTH, TRAIN, AT(job.train.reference_model), PLAIN },
    { "images", COUNT64, TRAIN, AT(job.train.images), PLAIN },
    { "generation", SIZE, TRAIN, AT(job.train.generation_bytes), PLAIN },
    { "group-size", COUNT32, TRAIN, AT(job.train.group_size), PLAIN },
    { "stage", SPECIAL, TRAIN, 0, NULL, 0, set_stage },
    { "virtual-stages", COUNT32, TRAIN, AT(job.train.virtual_stages), PLAIN },
    { "microbatch-group", COUNT32, TRAIN, AT(job.train.microbatch_group), PLAIN },
    { "expert-tp", COUNT32, TRAIN, AT(job.train.expert_tp), PLAIN },
    { "recompute-layers", COUNT32, TRAIN, AT(job.train.recompute_layers), PLAIN },
    { "recompute-modules", SPECIAL, TRAIN, 0, NULL, 0, uma_plan_recompute_set },
    { "gradients", FORMAT, TRAIN, AT(job.train.gradients), PLAIN },
    { "moments", FORMAT, TRAIN, AT(job.train.moments), PLAIN },
    { "residual", FORMAT, TRAIN, AT(job.train.residual), PLAIN },
    { "dropout", TRUTH, TRAIN, AT(job.train.dropout), PLAIN },
    { "transformer-engine", TRUTH, TRAIN, AT(job.train.transformer_engine), PLAIN },
    { "deterministic", TRUTH, TRAIN, AT(job.train.deterministic), PLAIN },
    { "grouped-gemm", TRUTH, TRAIN, AT(job.train.grouped_gemm), PLAIN },
    { "vocab-multiple", COUNT32, TRAIN, AT(job.train.vocab_multiple), PLAIN },
    { "compute-capability", SPECIAL, TRAIN, 0, NULL, 0, set_capability },
    { "torch", SPECIAL, TRAIN, 0, NULL, 0, set_torch },
    { "worksheet", FLAG, TRAIN, AT(worksheet), PLAIN },

    { "engine", CHOICE, SERVE, AT(job.serve.engine), NAMES(uma_engine_names) },
    { "kv-dtype", FORMAT_PAIR, SERVE, AT(job.serve.key_format), PLAIN },
    { "context", TOKENS, SERVE, AT(job.serve.context), PLAIN },
    { "sequences", COUNT64, SERVE, AT(job.serve.sequences), PLAIN },
    { "fraction", RATIO, SERVE, AT(job.serve.fraction), PLAIN },
    { "pool", SIZE, SERVE, AT(job.serve.pool), PLAIN },
    { "batched-tokens", TOKENS, SERVE, AT(job.serve.batched_tokens), PLAIN },
    { "ubatch", COUNT32, SERVE, AT(job.serve.ubatch), PLAIN },
    { "gpu-layers", LAYERS, SERVE, AT(job.serve.gpu_layers), PLAIN },
    { "flash", TRUTH, SERVE, AT(job.serve.flash_attention), PLAIN },
    { "graphs", TRUTH, SERVE, AT(job.serve.cuda_graphs), PLAIN },
    { "swa-full", FLAG, SERVE, AT(job.serve.full_window), PLAIN },
    { "mla", SPECIAL, SERVE, 0, NULL, 0, set_mla },
    { "amb", SPECIAL, SERVE, 0, NULL, 0, set_amb },
    { "cache", SPECIAL, SERVE, 0, NULL, 0, set_cache },
    { "mtp", SPECIAL, SERVE, 0, NULL, 0, set_mtp },
    { "projector", TEXT, SERVE, AT(projector), PLAIN },
    { "draft", TEXT, SERVE, AT(draft), PLAIN },
    { "prompt", TOKENS, SERVE, AT(job.serve.prompt_tokens), PLAIN },
    { "logits", CHOICE, SERVE, AT(job.serve.logits), NAMES(uma_logits_names) },
    { "max-seq-len", TOKENS, SERVE, AT(max_seq_len), PLAIN },
};
/* clang-format on */

const char *uma_plan_option_name(size_t i, bool *ret_has_value) {
    if (i >= ELEMENTS(table))
        return NULL;
    *ret_has_value = table[i].kind != FLAG;
    return table[i].name;
}

/* ---- setting ------------------------------------------------------------------------------------------------ */

static int set_choice(const struct entry *entry, void *at, const char *value, struct uma_error *err) {
    int found = uma_name_find(entry->names, entry->names_count, value);
    if (found >= 0) {
        *(unsigned *)at = (unsigned)found; /* enumerations are as large as int */
        return 0;
    }
    _cleanup_text_ struct uma_text known = { 0 };
    for (size_t i = 0; i < entry->names_count; i++)
        if (entry->names[i])
            uma_text_printf(&known, "%s%s", known.length ? ", " : "", entry->names[i]);
    return uma_plan_invalid(err, value, known.failed || !known.data ? "another word" : known.data);
}

static int set_format_pair(enum uma_format *at, const char *value, struct uma_error *err) {
    char first[32];
    const char *comma = strchr(value, ',');
    size_t length = comma ? (size_t)(comma - value) : strlen(value);
    if (length >= sizeof first)
        return uma_plan_invalid(err, value, "a number format");
    (void)memcpy(first, value, length);
    first[length] = 0;
    enum uma_format key = uma_format_from_name(first), val = comma ? uma_format_from_name(comma + 1) : key;
    if (key == UMA_FORMAT_UNKNOWN || val == UMA_FORMAT_UNKNOWN)
        return uma_plan_invalid(err, value, "a number format for K and V, or two with a comma: bf16, fp8, q8_0, q8_0,f16 ...");
    at[0] = key; /* value_format stands behind key_format */
    at[1] = val;
    return 0;
}
_Static_assert(AT(job.serve.value_format) == AT(job.serve.key_format) + sizeof(enum uma_format), "K and V formats stand side by side");

static int set_number(const struct entry *entry, void *at, const char *value, struct uma_error *err) {
    uint64_t count = 0;
    int r;
    switch (entry->kind) {
    case COUNT32:
        r = count_into(value, 1u << 30, &count, err);
        if (r >= 0)
            *(uint32_t *)at = (uint32_t)count;
        return r;
    case COUNT64:
        r = count_into(value, UINT64_C(1) << 52, &count, err);
        if (r >= 0)
            *(uint64_t *)at = count;
        return r;
    case TOKENS:
        r = uma_parse_tokens(value, &count, err);
        if (r >= 0 && (count == 0 || count > UINT64_C(1) << 40))
            return uma_plan_invalid(err, value, "a number of tokens from 1 to 1T");
        if (r >= 0)
            *(uint64_t *)at = count;
        return r;
    case LAYERS:
        if (strcmp(value, "all") == 0) {
            *(int64_t *)at = -1;
            return 0;
        }
        if (uma_parse_u64_all(value, &count) < 0 || count > UMA_MODEL_LAYERS_MAX)
            return uma_plan_invalid(err, value, "a number of layers, or all");
        *(int64_t *)at = (int64_t)count;
        return 0;
    default: {
        double ratio;
        if (uma_parse_f64_all(value, &ratio) < 0 || !(ratio > 0) || ratio > 1)
            return uma_plan_invalid(err, value, "a ratio above 0 and up to 1");
        *(double *)at = ratio;
        return 0;
    }
    }
}

static int set_entry(struct uma_plan_request *request, const struct entry *entry, const char *value, struct uma_error *err) {
    void *at = (char *)request + entry->offset;
    switch (entry->kind) {
    case FLAG:
        *(bool *)at = true;
        return 0;
    case TEXT:
        if (!*value)
            return uma_error_text(err, EINVAL, "it is empty");
        *(const char **)at = value;
        return 0;
    case SPECIAL:
        return entry->set(request, value, err);
    case CHOICE:
        return set_choice(entry, at, value, err);
    case FORMAT:
        *(enum uma_format *)at = uma_format_from_name(value);
        return *(enum uma_format *)at == UMA_FORMAT_UNKNOWN ? uma_plan_invalid(err, value, "a number format: bf16, fp16, fp32") : 0;
    case FORMAT_PAIR:
        return set_format_pair(at, value, err);
    case TRUTH:
        return truth_parse(value, at, err);
    case SIZE:
        return set_size(at, value, err);
    default:
        return set_number(entry, at, value, err);
    }
}

int uma_plan_request_set(struct uma_plan_request *request, const char *name, const char *value, struct uma_error *err) {
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        const struct entry *entry = &table[i];
        if (strcmp(entry->name, name) != 0)
            continue;
        if (entry->group != BOTH && (entry->group == SERVE) != request->job.serving)
            return uma_error_text(err, EINVAL, "--%s is of `umactl plan %s`", name, request->job.serving ? "train" : "serve");
        struct uma_error inner = { 0 };
        int r = set_entry(request, entry, value, &inner);
        return r < 0 ? uma_error_text(err, -r, "--%s: %s", name, inner.text) : 0;
    }
    return uma_error_text(err, EINVAL, "there is no option --%.64s", name);
}

/* ---- together ----------------------------------------------------------------------------------------------- */

/* What only Megatron has would change nothing elsewhere: it is refused rather than ignored. */
static const char *foreign_option(const struct uma_train *train) {
    const struct {
        const char *name;
        bool given;
    } megatron[] = {
        { "stage", train->pipeline_stage > 0 },
        { "virtual-stages", train->virtual_stages > 0 },
        { "microbatch-group", train->microbatch_group > 0 },
        { "expert-tp", train->expert_tp > 0 },
        { "recompute-layers", train->recompute_layers > 0 },
        { "recompute-modules", train->recompute_modules > 0 },
        { "moments", train->moments != UMA_FORMAT_UNKNOWN },
        { "gradients", train->gradients != UMA_FORMAT_UNKNOWN },
        { "transformer-engine", train->transformer_engine != UMA_MAYBE },
        { "deterministic", train->deterministic != UMA_MAYBE },
        { "grouped-gemm", train->grouped_gemm != UMA_MAYBE },
        { "vocab-multiple", train->vocab_multiple > 0 },
        { "sequence-parallel", train->sequence_parallel },
        { "distributed-optimizer", train->distributed_optimizer },
    };
    for (size_t i = 0; train->framework != UMA_FRAMEWORK_MEGATRON && i < ELEMENTS(megatron); i++)
        if (megatron[i].given)
            return megatron[i].name;
    return NULL;
}

static int train_check(const struct uma_plan_request *request, struct uma_error *err) {
    const struct uma_train *train = &request->job.train;
    const char *foreign = foreign_option(train);
    if (foreign)
        return uma_error_text(err, EINVAL, "--%s is of --framework megatron; %s has no such thing", foreign,
                              uma_name_of(uma_framework_names, UMA_FRAMEWORK_COUNT, train->framework));
    if (request->full_given && (train->rank || train->targets || train->dora))
        return uma_error_text(err, EINVAL, "--rank, --targets and --dora are of an adapter: say --method lora or qlora, not full");
    return 0;
}

/* dpo and its kin say nothing of the adapter: --rank, or 4-bit weights, do. */
static void settle_method(struct uma_plan_request *request) {
    struct uma_train *train = &request->job.train;
    bool adapter_rank = train->rank || train->targets || train->dora;
    bool four_bit = train->weights != UMA_FORMAT_UNKNOWN && uma_format_bits(train->weights) < 9 && train->weights != UMA_FORMAT_FP8 &&
                    train->weights != UMA_FORMAT_FP8_BLOCK128 && train->weights != UMA_FORMAT_MXFP8;
    if (train->method == UMA_METHOD_FULL && (adapter_rank || four_bit) && !request->full_given)
        train->method = four_bit ? UMA_METHOD_QLORA : UMA_METHOD_LORA;
}

int uma_plan_request_check(struct uma_plan_request *request, struct uma_error *err) {
    bool has_shape = request->shape.params > 0 || uma_shape_more_than_count(&request->shape);
    if (!request->model_path && !has_shape)
        return uma_error_text(err, EINVAL, "say which model: --model PATH or NAME, or --params N");
    if (request->model_path && has_shape)
        return uma_error_text(err, EINVAL, "--model has its own shape: give --model, or --params and the shape, not both");
    if (!request->model_path && !request->shape.params && !(request->shape.layers && request->shape.hidden))
        return uma_error_text(err, EINVAL, "a shape needs --params N, or at least --layers and --hidden");
    if (request->job.serving && request->job.serve.engine == UMA_ENGINE_UNKNOWN)
        return uma_error_text(err, EINVAL, "say which engine: --engine vllm, sglang, llama.cpp, ollama, trt-llm, transformers or litgpt");
    if (!request->job.serving) {
        int r = train_check(request, err);
        if (r < 0)
            return r;
        settle_method(request);
    }
    if (request->last_stage)
        request->job.train.pipeline_stage = MAX_OF(request->job.train.pp, 1u);
    return 0;
}
