/* SPDX-License-Identifier: MIT */
#include "base/json_write.h"
#include "cmd/plan.h"
#include "plan/estimate.h"

#define NAME_OF(names, value) uma_name_of(names, ELEMENTS(names), (unsigned)(value))

uint64_t uma_plan_anchor_bytes(const struct uma_plan_answer *answer) {
    const struct uma_plan_job *job = &answer->request->job;
    uint64_t nodes = job->serving ? job->serve.nodes : job->train.nodes;
    return uma_times(answer->estimate.device, nodes ? nodes : 1);
}

static void model_json(struct uma_json *json, const struct uma_plan_answer *answer) {
    const struct uma_model *model = answer->model;
    uma_json_begin_object(json, "model", false);
    uma_json_unsigned(json, "params", uma_model_params(model));
    if (answer->request->job.serving)
        uma_json_null(json, "params_trainable");
    else
        uma_json_unsigned(json, "params_trainable", answer->estimate.params_trainable);
    uma_json_string(json, "architecture", model->architecture);
    uma_json_unsigned(json, "weights_bytes", uma_model_bytes(model));
    uma_json_string(json, "source", model->source);
    uma_json_string(json, "name", model->name);
    uma_json_string(json, "basis", NAME_OF(uma_basis_names, model->basis));
    uma_json_bool(json, "architecture_known", model->architecture_known);
    uma_json_string(json, "quantisation", model->quantisation);
    uma_json_unsigned(json, "layers", model->layer_count);
    uma_json_unsigned(json, "hidden_size", model->hidden);
    uma_json_unsigned(json, "vocab_size", model->vocab);
    uma_json_unsigned(json, "files", model->file_count);
    uma_json_end_object(json);
}

static void loader_json(struct uma_json *json, enum uma_loader loader) {
    uma_json_string(json, "loader", loader == UMA_LOADER_DEFAULT ? NULL : NAME_OF(uma_loader_names, loader));
}

static void add_target(void *userdata, const char *name) {
    uma_json_string(userdata, NULL, name);
}

static void train_json(struct uma_json *json, const struct uma_train *train, uint64_t present) {
    uma_json_string(json, "method", NAME_OF(uma_method_names, train->method));
    uma_json_string(json, "objective", NAME_OF(uma_objective_names, train->objective));
    uma_json_string(json, "framework", NAME_OF(uma_framework_names, train->framework));
    uma_json_string(json, "optimizer", NAME_OF(uma_optimizer_names, train->optimizer));
    uma_json_string(json, "weights", train->weights == UMA_FORMAT_UNKNOWN ? NULL : uma_format_name(train->weights));
    uma_json_unsigned(json, "batch", train->batch);
    uma_json_unsigned(json, "seq", train->seq);
    if (train->tokens)
        uma_json_unsigned(json, "tokens", train->tokens);
    else
        uma_json_null(json, "tokens");
    if (train->method == UMA_METHOD_FULL)
        uma_json_null(json, "rank");
    else
        uma_json_unsigned(json, "rank", train->rank);
    uma_json_begin_array(json, "targets", true);
    if (train->method != UMA_METHOD_FULL)
        uma_plan_targets_list(train->targets & present, add_target, json);
    uma_json_end_array(json);
    uma_json_string(json, "compute", uma_format_name(train->compute));
    uma_json_unsigned(json, "accumulation", MAX_OF(train->accumulation, 1u));
    uma_json_string(json, "checkpointing", NAME_OF(uma_checkpointing_names, train->checkpointing));
    uma_json_string(json, "attention", NAME_OF(uma_attention_names, train->attention));
    uma_json_string(json, "loss", NAME_OF(uma_loss_names, train->loss));
    uma_json_string(json, "shard", NAME_OF(uma_shard_names, train->shard));
    uma_json_unsigned(json, "nodes", MAX_OF(train->nodes, 1u));
    uma_json_unsigned(json, "gpus_per_node", MAX_OF(train->gpus_per_node, 1u));
    loader_json(json, train->loader);
}

static void serve_json(struct uma_json *json, const struct uma_serve *serve) {
    uma_json_string(json, "engine", NAME_OF(uma_engine_names, serve->engine));
    uma_json_string(json, "weights", serve->weights == UMA_FORMAT_UNKNOWN ? NULL : uma_format_name(serve->weights));
    uma_json_unsigned(json, "context", serve->context);
    uma_json_unsigned(json, "sequences", serve->sequences);
    uma_json_string(json, "key_dtype", uma_format_name(serve->key_format));
    uma_json_string(json, "value_dtype", uma_format_name(serve->value_format));
    uma_json_unsigned(json, "tp", MAX_OF(serve->tp, 1u));
    uma_json_unsigned(json, "pp", MAX_OF(serve->pp, 1u));
    uma_json_unsigned(json, "nodes", MAX_OF(serve->nodes, 1u));
    if (serve->fraction > 0)
        uma_json_double(json, "fraction", serve->fraction);
    else
        uma_json_null(json, "fraction");
    loader_json(json, serve->loader);
    uma_json_unsigned(json, "batched_tokens", serve->batched_tokens);
}

static void estimate_json(struct uma_json *json, const struct uma_estimate *estimate) {
    uma_json_begin_object(json, "steady", false);
    for (unsigned i = 0; i < UMA_TERM_COUNT; i++)
        uma_json_unsigned(json, uma_term_names[i], estimate->groups[i]);
    uma_json_unsigned(json, "total", estimate->total);
    uma_json_end_object(json);
    uma_json_begin_object(json, "load", true);
    uma_json_unsigned(json, "peak", estimate->load.peak);
    uma_json_string(json, "loader", estimate->load.loader);
    uma_json_unsigned(json, "page_cache", estimate->load.page_cache);
    uma_json_f64(json, "seconds", estimate->load.seconds);
    uma_json_unsigned(json, "staging", estimate->load.staging);
    uma_json_end_object(json);
    uma_json_begin_object(json, "interval", true);
    uma_json_unsigned(json, "low", estimate->low);
    uma_json_unsigned(json, "high", estimate->high);
    uma_json_end_object(json);
    uma_json_begin_object(json, "allocated", true);
    uma_json_unsigned(json, "peak", estimate->total);
    uma_json_unsigned(json, "between_steps", estimate->between_steps);
    uma_json_end_object(json);
    uma_json_begin_object(json, "device", true);
    uma_json_unsigned(json, "reserved", estimate->reserved);
    uma_json_unsigned(json, "context", estimate->context);
    uma_json_unsigned(json, "host", estimate->host);
    uma_json_unsigned(json, "total", estimate->device);
    uma_json_unsigned(json, "high", estimate->device_high);
    uma_json_end_object(json);
}

static void verdict_json(struct uma_json *json, const struct uma_plan_answer *answer) {
    const struct uma_fit *fit = &answer->fit;
    uma_json_u64(json, "budget", fit->budget);
    uma_json_truth(json, "fits", fit->fits);
    uma_json_i64(json, "margin", (struct uma_i64){ fit->margin, fit->budget.validity });
    uma_json_unsigned(json, "need", fit->need);
    uma_json_bool(json, "close", fit->close);
    uma_json_begin_object(json, "limits", true);
    uma_json_u64(json, "max_seq", answer->limits.max_seq);
    uma_json_u64(json, "max_batch", answer->limits.max_batch);
    uma_json_u64(json, "max_sequences", answer->limits.max_sequences);
    uma_json_u64(json, "max_context", answer->limits.max_context);
    uma_json_end_object(json);
}

static void advice_json(struct uma_json *json, const struct uma_plan_answer *answer) {
    if (answer->anchor) {
        uma_json_begin_object(json, "anchor", false);
        uma_json_string(json, "name", answer->anchor->name);
        uma_json_unsigned(json, "bytes", answer->anchor->bytes);
        uma_json_double(json, "ratio", (double)uma_plan_anchor_bytes(answer) / (double)answer->anchor->bytes);
        uma_json_string(json, "condition", answer->anchor->condition);
        uma_json_string(json, "source", answer->anchor->source);
        uma_json_end_object(json);
    } else
        uma_json_null(json, "anchor");
    uma_json_begin_array(json, "advice", false);
    for (uint32_t i = 0; i < answer->ladder.count; i++) {
        const struct uma_advice *advice = &answer->ladder.advice[i];
        uma_json_begin_object(json, NULL, true);
        uma_json_unsigned(json, "step", (uint64_t)advice->rung);
        uma_json_string(json, "do", advice->action);
        uma_json_unsigned(json, "saves", advice->saves);
        uma_json_unsigned(json, "then_total", advice->then_total);
        uma_json_unsigned(json, "then_need", advice->then_need);
        uma_json_bool(json, "then_fits", advice->then_fits);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
    uma_json_begin_array(json, "flags", false);
    for (uint32_t i = 0; i < answer->estimate.flag_count; i++)
        uma_json_string(json, NULL, answer->estimate.flags[i]);
    uma_json_end_array(json);
}

static void terms_json(struct uma_json *json, const struct uma_estimate *estimate) {
    uma_json_begin_array(json, "terms", false);
    for (uint32_t i = 0; i < estimate->term_count; i++) {
        const struct uma_plan_term *term = &estimate->terms[i];
        uma_json_begin_object(json, NULL, true);
        uma_json_string(json, "group", uma_term_names[term->group]);
        uma_json_string(json, "what", term->what);
        uma_json_unsigned(json, "bytes", term->bytes);
        uma_json_unsigned(json, "low", term->low);
        uma_json_unsigned(json, "high", term->high);
        uma_json_bool(json, "between_steps", term->between_steps);
        uma_json_string(json, "formula", term->formula);
        uma_json_string(json, "source", term->source);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
}

static void warnings_json(struct uma_json *json, const struct uma_plan_answer *answer) {
    uma_json_begin_array(json, "warnings", false);
    for (uint32_t i = 0; i < answer->model->warning_count; i++)
        uma_json_string(json, NULL, answer->model->warnings[i]);
    for (uint32_t i = 0; i < answer->estimate.warning_count; i++)
        uma_json_string(json, NULL, answer->estimate.warnings[i]);
    uma_json_end_array(json);
}

void uma_plan_json(struct uma_text *text, const struct uma_plan_answer *answer) {
    struct uma_json json = { .text = text };
    const struct uma_plan_job *job = &answer->request->job;
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.plan/1");
    model_json(&json, answer);
    uma_json_string(&json, "kind", job->serving ? "serve" : "train");
    uma_json_begin_object(&json, "assumed", false);
    if (job->serving)
        serve_json(&json, &job->serve);
    else
        train_json(&json, &job->train, answer->targets);
    uma_json_end_object(&json);
    estimate_json(&json, &answer->estimate);
    verdict_json(&json, answer);
    uma_json_begin_object(&json, "capacity", true);
    uma_json_u64(&json, "kv_bytes", answer->capacity.kv_bytes);
    uma_json_u64(&json, "tokens", answer->capacity.tokens);
    uma_json_u64(&json, "sequences", answer->capacity.sequences);
    uma_json_end_object(&json);
    advice_json(&json, answer);
    terms_json(&json, &answer->estimate);
    warnings_json(&json, answer);
    uma_json_end_object(&json);
}
