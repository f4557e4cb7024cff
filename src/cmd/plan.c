/* SPDX-License-Identifier: MIT */
#include "cmd/plan.h"

#include "base/units.h"
#include "cmd/layout.h"
#include "plan/estimate.h"
#include "plan/model/structure.h"
#include "plan/serving.h"

#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: umactl plan train (--model PATH|NAME | --params N) [OPTION...]\n"
    "       umactl plan serve (--model PATH|NAME | --params N) --engine ENGINE [OPTION...]\n"
    "\n"
    "What a job will need, steady and while loading, whether it fits here, and what to change if not.\n"
    "Models are read by their headers, never their weights.\n"
    "\n"
    "the model\n"
    "      --model PATH|NAME    a Hugging Face folder, .safetensors, .gguf, config.json, Ollama model, or a known name\n"
    "      --params N           or its parameters (7.24B, 9e9), and what is known of its shape:\n"
    "      --layers --hidden --heads --kv-heads --head-dim --ffn --vocab N, --tied yes|no\n"
    "      --experts --experts-per-token --expert-ffn --shared-ffn --dense-layers --mtp-layers --positions N\n"
    "      --gated --bias --norm-bias yes|no\n"
    "      --kv-lora-rank --q-lora-rank --qk-nope-dim --qk-rope-dim --v-head-dim N   latent attention\n"
    "      --pattern STRING     a hybrid, a letter for each layer: M * - E; --ssm-heads --ssm-head-dim --ssm-state --ssm-groups N\n"
    "      --dtype FORMAT       its weights: fp32 bf16 fp16 fp8 int8 nf4 nvfp4 mxfp4 gptq4-g128 q4_k ...\n"
    "      --load mmap|eager|streamed|direct, --read-speed SIZE  the loader, and the storage in bytes a second\n"
    "\n"
    "train\n"
    "      --method METHOD      full lora qlora, or dpo orpo kto grpo pretrain (full) (--rank makes those LoRA)\n"
    "      --objective NAME     sft pretrain dpo orpo kto grpo, beside a method\n"
    "      --optimizer NAME     adamw adamw-fused adamw-8bit adamw-4bit paged-adamw paged-adamw-8bit adafactor lion\n"
    "                           lion-8bit sgd sgd-momentum muon galore lomo badam (adamw)\n"
    "      --batch N --seq N    micro batch of one rank, and its packing length (1, 2048)\n"
    "      --tokens N           tokens of a micro batch, where padding-free packing makes them other than batch x seq\n"
    "      --accumulation N     gradient accumulation steps\n"
    "      --rank N --targets LIST  the adapter: q,k,v,o,gate,up,down, qkvo, mlp, experts, all-linear\n"
    "      --dora, --train-embeddings, --freeze-vision, --images N\n"
    "      --checkpointing on|off|selective|offload, --attention flash|eager\n"
    "      --loss full|fused|fused-linear|chunked\n"
    "      --framework NAME     torch unsloth torchtune torchtitan megatron axolotl llama-factory ms-swift litgpt (torch)\n"
    "      --nodes N --gpus N   nodes, and GPUs of each; --shard none|ddp|fsdp|zero1|zero2|zero3|tp, --tp --pp --cp --ep N\n"
    "      --sequence-parallel, --distributed-optimizer (more of Megatron's: umactl-plan(1))\n"
    "      --compute FORMAT, --master --autocast --double-quant --compile --packing --reference-model yes|no\n"
    "      --gradients --moments --residual FORMAT   accumulated gradients, Adam's states, hidden states between layers\n"
    "      --stage N|first|last|largest, --virtual-stages --microbatch-group --expert-tp --recompute-layers N\n"
    "      --recompute-modules LIST  core_attn,mlp,moe,moe_act,layernorm,mla_up_proj,shared_experts\n"
    "      --dropout --transformer-engine --deterministic --grouped-gemm yes|no, --vocab-multiple --compute-capability N\n"
    "      --generation SIZE --group-size N   grpo: the generation engine's share, completions per prompt\n"
    "      --torch RELEASE      of torch (a current one); before 2.1 AdamW's step takes more\n"
    "      --worksheet          the simple accounting sheet beside the estimate\n"
    "\n"
    "serve\n"
    "      --engine ENGINE      vllm sglang llama.cpp ollama trt-llm transformers litgpt\n"
    "      --context N --sequences N   tokens of each sequence, and how many at once\n"
    "      --kv-dtype F[,F]     bf16 fp8 q8_0 q4_0 ...; two: K and V\n"
    "      --tp N --pp N --nodes N\n"
    "      --fraction R         gpu_memory_utilization, mem_fraction_static, free_gpu_memory_fraction\n"
    "      --pool SIZE          what the fraction is of (this machine's memory)\n"
    "      --max-seq-len N      the longest sequence the engine is built for\n"
    "      --batched-tokens N   tokens of one prefill step; llama.cpp: --batch N --ubatch N\n"
    "      --prompt N           transformers: tokens of the prompt; --logits last|all|all-fp32, --cache dynamic|tuple\n"
    "      --gpu-layers N|all, --flash --graphs --compile yes|no, --swa-full, --mla latent|expanded|transposed,\n"
    "      --amb SIZE|none      ik_llama.cpp: what a prompt's latent is multiplied out into at once\n"
    "      --mtp yes|no, --draft MODEL|SIZE, --projector FILE|SIZE\n"
    "\n"
    "the answer\n"
    "      --budget SIZE        instead of what a new job can have on this machine\n"
    "      --explain            each term's formula, inputs and source\n"
    "      --sweep LIST         a table: seq=1024,2048,4096,batch=1,2,4\n"
    "      --json               one JSON document\n"
    "      --from FILE          a snapshot instead of the machine; - is standard input\n"
    "      --root DIR           a machine laid out as a folder (also UMACTL_ROOT)\n"
    "      --version            print the version\n"
    "  -h, --help               print this\n"
    "\n"
    "Exit status: 0 fits, 1 does not fit, 2 usage, 3 unknown (the budget or the model could not be read).\n";

/* What decides the budget; heat and pressure do not. */
#define PLAN_READS (UMA_READ_MEMORY | UMA_READ_PROCESSES | UMA_READ_GPU | UMA_READ_PLATFORM)

/* ---- the model and its companions --------------------------------------------------------------------------- */

/* A name without files: Ollama's library has Q4_K_M under every tag that names no other type; llama.cpp's users choose one themselves. */
static int library_format(enum uma_engine engine, struct uma_model *model, struct uma_error *err) {
    if (engine != UMA_ENGINE_OLLAMA) {
        uma_model_warn(model, "16-bit weights are counted: say --dtype Q4_K_M, or which type of GGUF file it will be");
        return 0;
    }
    int r = uma_model_set_file_type(model, "Q4_K_M");
    if (r < 0)
        return uma_error_set(err, -r, "%s as Q4_K_M", model->name);
    uma_model_warn(model, "Q4_K_M is assumed, which Ollama's library has where a tag names no other type (--dtype)");
    return 0;
}

/*
 * Where no file says otherwise --dtype is the format of the checkpoint that will be served, not one to be made while loading. GGUF files are
 * mixes: their type names a recipe.
 */
static int checkpoint_format(struct uma_plan_request *request, struct uma_model *model, struct uma_error *err) {
    struct uma_serve *serve = &request->job.serve;
    bool ggml = uma_serve_reads_gguf(serve->engine);
    if (!request->job.serving)
        return 0;
    if (!request->file_type)
        return model->file_count == 0 && ggml && !model->quantisation ? library_format(serve->engine, model, err) : 0;
    enum uma_format format = uma_format_from_name(request->file_type);
    if (model->file_count > 0)
        return format == UMA_FORMAT_UNKNOWN
                   ? uma_error_text(err, EINVAL, "--dtype %.64s: a file of this type must be made first; the model's own files are planned",
                                    request->file_type)
                   : 0;
    int r = ggml ? uma_model_set_file_type(model, request->file_type) : -EINVAL;
    if (r == -ENOMEM)
        return uma_error_set(err, ENOMEM, "--dtype %.64s", request->file_type);
    if (r == -EINVAL && format == UMA_FORMAT_UNKNOWN)
        return uma_error_text(err, EINVAL, "--dtype %.64s: a type of GGUF files, which %s does not take", request->file_type,
                              uma_name_of(uma_engine_names, UMA_ENGINE_COUNT, serve->engine));
    if (r == -EINVAL)
        uma_model_set_format(model, format);
    serve->weights = UMA_FORMAT_UNKNOWN;
    return 0;
}

int uma_plan_model_open(struct uma_plan_request *request, struct uma_model **ret_model, struct uma_error *err) {
    struct uma_model *model = NULL;
    int r = request->model_path ? uma_model_open(request->model_path, &model, err) : uma_model_from_shape(&request->shape, &model, err);
    if (r < 0)
        return r;
    r = checkpoint_format(request, model, err);
    if (r < 0) {
        (void)uma_model_free(model);
        return r;
    }
    *ret_model = model;
    return 0;
}

/* A size, or a model, which is the caller's then. */
static int companion_open(const char *what, const char *value, uint64_t *ret_bytes, struct uma_model **ret_model, struct uma_error *err) {
    struct stat st;
    uint64_t bytes;
    if (stat(value, &st) < 0 && uma_parse_size(value, &bytes, NULL) == 0) {
        *ret_bytes = bytes;
        return 0;
    }
    struct uma_error inner = { 0 };
    int r = uma_model_open(value, ret_model, &inner);
    return r < 0 ? uma_error_text(err, -r, "--%s: neither a size nor a model: %s", what, inner.text) : 0;
}

/* Once for all cells of a sweep: files are read here. */
static int companions_open(struct uma_plan_request *request, struct uma_error *err) {
    struct uma_serve *serve = &request->job.serve;
    int r = 0;
    if (request->projector) {
        struct uma_model *projector = NULL;
        r = companion_open("projector", request->projector, &serve->projector_bytes, &projector, err);
        if (projector)
            serve->projector_bytes = uma_model_bytes(projector);
        (void)uma_model_free(projector);
    }
    if (r >= 0 && request->draft)
        r = companion_open("draft", request->draft, &serve->draft_bytes, &request->draft_model, err);
    return r;
}

/* A drafter keeps a cache of its own, as long and as many as the job's. */
static void draft_count(struct uma_plan_request *request) {
    struct uma_serve *serve = &request->job.serve;
    struct uma_kv_options options = { .engine = serve->engine,
                                      .key_format = serve->key_format,
                                      .value_format = serve->value_format,
                                      .context = serve->context,
                                      .sequences = serve->sequences };
    struct uma_kv cache;
    uma_kv_cache(request->draft_model, &options, &cache);
    serve->draft_bytes = uma_plus(uma_model_bytes(request->draft_model), cache.total);
}

/* ---- the answer --------------------------------------------------------------------------------------------- */

/* Engines that take a fraction of the pool and say how many sequences that makes. */
static void capacity(const struct uma_plan_request *request, const struct uma_model *model, struct uma_plan_answer *answer) {
    const struct uma_serve *serve = &request->job.serve;
    uint64_t bytes, tokens, sequences, longest = request->max_seq_len ? request->max_seq_len : serve->context;
    if (!request->job.serving || !(serve->fraction > 0) || serve->pool == 0 ||
        uma_serve_capacity(model, serve, serve->pool, longest, &bytes, &tokens, &sequences, NULL) < 0)
        return;
    answer->capacity.kv_bytes = (struct uma_u64){ bytes, UMA_KNOWN };
    answer->capacity.tokens = (struct uma_u64){ tokens, UMA_KNOWN };
    answer->capacity.sequences = answer->limits.max_sequences = (struct uma_u64){ sequences, UMA_KNOWN };
    if (sequences == 0) { /* vLLM: "No available memory for the cache blocks"; room on the machine does not help */
        answer->starves = true;
        answer->fit.fits = UMA_NO;
    }
}

static uint64_t matrices_of(const struct uma_model *model) {
    struct uma_linear linears[UMA_LINEARS_PER_LAYER_MAX];
    uint64_t bits = 0;
    for (uint32_t layer = 0; layer < model->layer_count; layer++)
        for (size_t i = uma_model_linears(model, layer, linears); i-- > 0;)
            bits |= UMA_LINEAR_BIT(linears[i].role);
    return bits;
}

int uma_plan_answer_build(struct uma_plan_request *request, const struct uma_model *model, bool advise, struct uma_plan_answer *answer,
                          struct uma_error *err) {
    struct uma_u64 budget = answer->fit.budget;
    answer->request = request;
    answer->model = model;
    if (request->job.serving)
        uma_serve_defaults(model, &request->job.serve);
    else
        uma_train_defaults(model, &request->job.train);
    if (request->draft_model)
        draft_count(request);
    int r = uma_plan_job_estimate(model, &request->job, &answer->estimate, err);
    if (r < 0)
        return r;
    uma_fit_judge(&answer->estimate, budget, &answer->fit);
    if (advise) {
        answer->anchor = uma_anchor_nearest(model, &request->job);
        answer->targets = matrices_of(model);
        uma_plan_limits(model, &request->job, budget, &answer->limits);
        uma_ladder_climb(model, &request->job, budget, answer->now, answer->reclaimable, &answer->ladder);
        capacity(request, model, answer);
    }
    return 0;
}

/* What a new job can have: given, or of the machine. A machine that cannot be read leaves it unknown, and says why. */
static int budget_find(struct uma_plan_request *request, struct uma_plan_answer *answer, struct uma_error *err) {
    answer->budget_source = "--budget";
    answer->fit.budget = request->budget;
    if (uma_usable(request->budget.validity) && !request->common.from && !request->common.root)
        return 0;
    struct uma_snapshot snapshot;
    struct uma_account account = { 0 };
    struct uma_claims claims;
    uma_command_claims_read(&request->common, &claims);
    int r = uma_command_snapshot_take(&request->common, PLAN_READS, &snapshot, err);
    uint64_t reserved = r < 0 ? 0 : uma_command_reserved("plan", &claims, &snapshot);
    uma_claims_done(&claims);
    if (r < 0)
        return r;
    r = uma_account_build(&snapshot, reserved, &account, err);
    if (r >= 0) {
        answer->now = account.headroom.now;
        answer->reclaimable = account.headroom.reclaimable_cache;
        if (!uma_usable(request->budget.validity)) {
            answer->fit.budget = account.headroom.budget;
            answer->budget_source = request->common.from   ? request->common.from
                                    : request->common.root ? request->common.root
                                                           : "this machine";
        }
        if (request->job.serving && request->job.serve.pool == 0 && uma_usable(account.headroom.total.validity))
            request->job.serve.pool = account.headroom.total.value;
    }
    uma_account_done(&account);
    uma_snapshot_done(&snapshot);
    return r;
}

static int print(const struct uma_plan_request *request, const struct uma_plan_answer *answer) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (request->common.json)
        uma_plan_json(&text, answer);
    else {
        struct uma_status_style style = uma_status_style_of(STDOUT_FILENO);
        uma_plan_text(&text, &style, answer);
        if (request->explain)
            uma_plan_explain(&text, &style, answer);
        if (request->worksheet)
            uma_plan_worksheet(&text, answer);
        if (!style.utf8)
            uma_layout_ascii(&text);
    }
    if (uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return answer->fit.fits == UMA_YES ? UMA_EXIT_OK : answer->fit.fits == UMA_NO ? UMA_EXIT_NO : UMA_EXIT_UNKNOWN;
}

/* What cannot be is the user's mistake (2) where it was said by options, and a file that could not be read (3) where a file said it. */
static int fault_status(int r, bool by_options) {
    return r == -EINVAL && by_options ? UMA_EXIT_USAGE : UMA_EXIT_UNKNOWN;
}

static int plan_model(struct uma_plan_request *request, const struct uma_model *model) {
    struct uma_error err = { 0 };
    struct uma_plan_answer answer = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    int r = budget_find(request, &answer, &err);
    if (r < 0)
        return uma_command_fail("plan", UMA_EXIT_UNKNOWN, &err);
    r = companions_open(request, &err);
    if (r < 0)
        return uma_command_fail("plan", fault_status(r, true), &err);
    r = request->sweep ? uma_plan_sweep(request, model, answer.fit.budget, &text, &err)
                       : uma_plan_answer_build(request, model, true, &answer, &err);
    if (r < 0)
        return uma_command_fail("plan", fault_status(r, true), &err);
    if (!request->sweep)
        return print(request, &answer);
    return uma_command_print(&text) < 0 ? UMA_EXIT_UNKNOWN : UMA_EXIT_OK;
}

static int plan(struct uma_plan_request *request) {
    struct uma_error err = { 0 };
    struct uma_model *model = NULL;
    int r = uma_plan_model_open(request, &model, &err);
    if (r < 0)
        return uma_command_fail("plan", fault_status(r, !request->model_path), &err);
    int status = plan_model(request, model);
    (void)uma_model_free(model);
    request->draft_model = uma_model_free(request->draft_model);
    return status;
}

/* ---- the command -------------------------------------------------------------------------------------------- */

enum { OPTIONS_MOST = 128 };

static void options_build(struct option *table) {
    static const struct option common[] = { UMA_COMMON_OPTIONS };
    size_t n = 0;
    bool has_value;
    for (const char *name; n < OPTIONS_MOST - ELEMENTS(common) - 1 && (name = uma_plan_option_name(n, &has_value)); n++)
        table[n] = (struct option){ name, has_value ? required_argument : no_argument, NULL, UMA_OPTION_OWN + (int)n };
    (void)memcpy(&table[n], common, sizeof common);
    table[n + ELEMENTS(common)] = (struct option){ 0 };
}

static int run(int argc, char **argv) {
    struct option table[OPTIONS_MOST];
    struct uma_plan_request request = { 0 };
    struct uma_option_reader reader = { .command = &uma_command_plan, .options = table, .letters = ":h", .common = &request.common };
    struct uma_error err = { 0 };
    options_build(table);
    bool train = argc > 1 && strcmp(argv[1], "train") == 0;
    request.job.serving = argc > 1 && strcmp(argv[1], "serve") == 0;
    request.job.serve.gpu_layers = -1;
    bool chosen = train || request.job.serving;
    if (!chosen && argc > 1 && argv[1][0] != '-')
        return uma_command_usage_error(&uma_command_plan, "\"%.64s\": expected train or serve", argv[1]);
    for (int c; (c = uma_option_next(&reader, argc - chosen, argv + chosen)) != -1;) {
        if (c == UMA_OPTION_STOP)
            return reader.status;
        bool has_value;
        if (!chosen)
            break;
        if (uma_plan_request_set(&request, uma_plan_option_name((size_t)(c - UMA_OPTION_OWN), &has_value), optarg, &err) < 0)
            return uma_command_usage_error(&uma_command_plan, "%s", err.text);
    }
    if (!chosen)
        return uma_command_usage_error(&uma_command_plan, "say what: `umactl plan train` or `umactl plan serve`");
    if (uma_plan_request_check(&request, &err) < 0)
        return uma_command_usage_error(&uma_command_plan, "%s", err.text);
    return plan(&request);
}

const struct uma_command uma_command_plan = { "plan", "what a job will need, at load and steady; does it fit here; what to change if not",
                                              usage, run };
