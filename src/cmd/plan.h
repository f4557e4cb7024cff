/* SPDX-License-Identifier: MIT */
/* plan.h - what the files of `umactl plan` share: the request that options make, and its answers as text and JSON. */
#pragma once

#include "base/json_write.h"
#include "cmd/command.h"
#include "cmd/status.h"
#include "plan/anchors.h"
#include "plan/fit.h"
#include "plan/ladder.h"
#include "plan/names.h"

struct uma_plan_request {
    struct uma_common_options common;
    struct uma_plan_job job;
    struct uma_shape shape;
    const char *model_path;        /* --model */
    const char *projector, *draft; /* a file, a model or a size */
    struct uma_model *draft_model; /* what --draft names, once it is opened; NULL where it is a size. The command's, freed by it */
    const char *file_type;         /* --dtype as given, where it may be a type of GGUF files */
    const char *sweep;             /* --sweep text */
    struct uma_u64 budget;         /* --budget */
    uint64_t max_seq_len;          /* capacity of an engine: longest sequence it is built for */
    bool explain, worksheet;
    bool last_stage; /* --stage last */
    bool full_given; /* --method full */
};

/* ---- options (plan_options.c) ------------------------------------------------------------------------------- */

/*
 * Set one option of the request by its name; value NULL for one without a value. "context" belongs to serving only: of a name that belongs to
 * the other kind, or to none, the error says so. -EINVAL with a message that names option, value and what was expected.
 */
int uma_plan_request_set(struct uma_plan_request *request, const char *name, const char *value, struct uma_error *err);
/* The i-th option's name (with train's and serve's), or NULL after the last; whether it takes a value. */
const char *uma_plan_option_name(size_t i, bool *ret_has_value);
/* The values that are lists (plan_values.c): "q,v,gate", "core_attn,mlp". */
int uma_plan_targets_set(struct uma_plan_request *request, const char *value, struct uma_error *err);
/* The names of what an adapter is on, as --targets takes them. */
void uma_plan_targets_list(uint64_t bits, void (*each)(void *userdata, const char *name), void *userdata);
int uma_plan_recompute_set(struct uma_plan_request *request, const char *value, struct uma_error *err);
/* "\"7x\": expected a ratio"; -EINVAL. */
int uma_plan_invalid(struct uma_error *err, const char *value, const char *expected);
/* What no single option can see: a model and a shape, a method that needs another option. */
int uma_plan_request_check(struct uma_plan_request *request, struct uma_error *err);

/* ---- answers ------------------------------------------------------------------------------------------------ */

struct uma_plan_answer {
    const struct uma_plan_request *request; /* with defaults filled in */
    const struct uma_model *model;
    struct uma_estimate estimate;
    struct uma_fit fit;
    struct uma_limits limits;
    struct uma_ladder ladder;
    const struct uma_anchor *anchor; /* NULL: none is near */
    struct uma_u64 now, reclaimable; /* of the machine; unknown where none was read */
    const char *budget_source;       /* "--budget", "this machine", the snapshot's name */
    uint64_t targets;                /* bits of the matrices that the model has at all */
    bool starves;                    /* the engine's share holds not one sequence: it would not start */
    struct {                         /* what the engine would offer with the fraction it is given; unknown where it has none */
        struct uma_u64 kv_bytes, tokens, sequences;
    } capacity;
};

/* The model that a request names, in the format that it asks to serve. */
int uma_plan_model_open(struct uma_plan_request *request, struct uma_model **ret_model, struct uma_error *err);
/* Fill in defaults, estimate, judge against answer->fit.budget, and (advise) climb the ladder and find the limits. */
int uma_plan_answer_build(struct uma_plan_request *request, const struct uma_model *model, bool advise, struct uma_plan_answer *answer,
                          struct uma_error *err);

/* Bytes that an anchor is compared with: of all nodes together, as they are reported. */
uint64_t uma_plan_anchor_bytes(const struct uma_plan_answer *answer);
void uma_plan_json(struct uma_text *text, const struct uma_plan_answer *answer);
void uma_plan_text(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer);
/* Every term with its formula, numbers and source. */
void uma_plan_explain(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer);
void uma_plan_worksheet(struct uma_text *text, const struct uma_plan_answer *answer);

/* ---- sweep (plan_sweep.c) ----------------------------------------------------------------------------------- */

/* A table (or, with --json, an array of plans) over all combinations of "seq=1024,2048,batch=1,2". -EINVAL for a list that makes none. */
int uma_plan_sweep(const struct uma_plan_request *request, const struct uma_model *model, struct uma_u64 budget, struct uma_text *text,
                   struct uma_error *err);
