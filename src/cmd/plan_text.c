/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "cmd/layout.h"
#include "cmd/plan.h"
#include "plan/worksheet.h"

#include <string.h>

#define NAME_OF(names, value) uma_name_of(names, ELEMENTS(names), (unsigned)(value))

static const char *const term_titles[UMA_TERM_COUNT] = { "weights",     "adapter",  "gradients",       "optimizer",
                                                         "activations", "KV cache", "compute buffers", "overhead" };

/* ---- what was planned --------------------------------------------------------------------------------------- */

static void params_text(struct uma_text *text, uint64_t params) {
    double billions = (double)params / 1e9;
    unsigned decimals = billions >= 100 ? 0 : billions >= 10 ? 1 : billions >= 1 ? 2 : 3;
    uma_text_fixed(text, billions, decimals);
    uma_text_append(text, " B parameters");
}

static void add_target(void *userdata, const char *name) {
    struct uma_text *text = userdata;
    bool first = text->length == 0 || text->data[text->length - 1] == ' ';
    uma_text_printf(text, first ? "%s" : "+%s", name);
}

static void describe_train(struct uma_text *text, const struct uma_plan_answer *answer) {
    const struct uma_train *train = &answer->request->job.train;
    static const char *const titles[] = { "full fine-tune", "LoRA", "QLoRA" };
    if (train->objective == UMA_OBJECTIVE_PRETRAIN && train->method == UMA_METHOD_FULL)
        uma_text_append(text, "pre-training");
    else
        uma_text_append(text, titles[train->method]);
    if (train->objective != UMA_OBJECTIVE_SFT && train->objective != UMA_OBJECTIVE_PRETRAIN)
        uma_text_printf(text, " (%s)", NAME_OF(uma_objective_names, train->objective));
    if (train->method != UMA_METHOD_FULL)
        uma_text_printf(text, ", rank %u on ", train->rank);
    if (train->method != UMA_METHOD_FULL)
        uma_plan_targets_list(train->targets & answer->targets, add_target, text);
    if (train->weights != UMA_FORMAT_UNKNOWN)
        uma_text_printf(text, ", weights %s", uma_format_name(train->weights));
    uma_text_printf(text, ", %s", NAME_OF(uma_optimizer_names, train->optimizer));
    if (train->tokens)
        uma_text_printf(text, ", %llu tokens a micro batch", (unsigned long long)train->tokens);
    else
        uma_text_printf(text, ", micro batch %llu x %llu tokens", (unsigned long long)train->batch, (unsigned long long)train->seq);
    uma_text_printf(text, ", checkpointing %s, %s attention, loss %s, %s", NAME_OF(uma_checkpointing_names, train->checkpointing),
                    NAME_OF(uma_attention_names, train->attention), NAME_OF(uma_loss_names, train->loss),
                    NAME_OF(uma_framework_names, train->framework));
    unsigned ranks = MAX_OF(train->nodes, 1u) * MAX_OF(train->gpus_per_node, 1u);
    if (ranks > 1)
        uma_text_printf(text, ", %u ranks (%s); figures and verdict are of one rank", ranks, NAME_OF(uma_shard_names, train->shard));
}

static void describe_serve(struct uma_text *text, const struct uma_plan_answer *answer) {
    const struct uma_serve *serve = &answer->request->job.serve;
    uma_text_printf(text, "%s", NAME_OF(uma_engine_names, serve->engine));
    if (serve->weights != UMA_FORMAT_UNKNOWN)
        uma_text_printf(text, ", weights %s", uma_format_name(serve->weights));
    uma_text_printf(text, ", %llu sequence%s of %llu tokens", (unsigned long long)serve->sequences, serve->sequences == 1 ? "" : "s",
                    (unsigned long long)serve->context);
    uma_text_printf(text, ", KV cache %s", uma_format_name(serve->key_format));
    if (serve->value_format != serve->key_format)
        uma_text_printf(text, "/%s", uma_format_name(serve->value_format));
    if (serve->tp > 1)
        uma_text_printf(text, ", tensor parallel %u", serve->tp);
    if (serve->pp > 1)
        uma_text_printf(text, ", pipeline parallel %u", serve->pp);
    if (serve->tp > 1 || serve->pp > 1)
        uma_text_append(text, "; figures and verdict are of one rank");
}

/* One line that says what was planned: "full fine-tune, adamw, micro batch 4 x 2048 tokens, checkpointing on, ...". */
static void describe(struct uma_text *text, const struct uma_plan_answer *answer) {
    if (answer->request->job.serving)
        describe_serve(text, answer);
    else
        describe_train(text, answer);
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

enum { VALUE_COLUMN = 34, VALUE_WIDTH = 9 };

static struct uma_u64 known(uint64_t bytes) {
    return (struct uma_u64){ bytes, UMA_KNOWN };
}

static void row(struct uma_text *text, const char *title, uint64_t bytes) {
    uma_text_printf(text, "  %s", title);
    uma_layout_to_column(text, VALUE_COLUMN - VALUE_WIDTH);
    uma_layout_gib_column(text, known(bytes), VALUE_WIDTH);
}

static void range(struct uma_text *text, uint64_t low, uint64_t high) {
    uma_text_append(text, "   ");
    uma_layout_gib(text, low);
    uma_text_append(text, " .. ");
    uma_layout_gib(text, high);
}

static void load_text(struct uma_text *text, const struct uma_status_style *style, const struct uma_estimate *e) {
    _cleanup_text_ struct uma_text line = { 0 };
    uma_text_append(&line, e->load.loader);
    if (e->load.page_cache) {
        uma_text_append(&line, ", and ");
        uma_layout_gib(&line, e->load.page_cache);
        uma_text_append(&line, " of page cache");
    }
    if (uma_usable(e->load.seconds.validity)) {
        uma_text_append(&line, ", ");
        uma_text_duration(&line, e->load.seconds.value);
    }
    row(text, "while loading", e->load.peak);
    uma_text_append(text, "   ");
    uma_layout_wrap(text, style, line.data ? line.data : "", VALUE_COLUMN + 3, 0);
}

static void table_text(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer) {
    const struct uma_estimate *e = &answer->estimate;
    uma_layout_to_column(text, VALUE_COLUMN - 3);
    uma_text_append(text, "GiB\n");
    for (unsigned i = 0; i < UMA_TERM_COUNT; i++)
        if (e->groups[i] >= UMA_GIB / 20) { /* less would be printed as 0.0 */
            row(text, term_titles[i], e->groups[i]);
            uma_text_char(text, '\n');
        }
    uma_layout_ink(text, style, UMA_INK_BOLD);
    row(text, answer->request->job.serving ? "total" : "allocated at the peak", e->total);
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    range(text, e->low, e->high);
    uma_text_char(text, '\n');
    if (!answer->request->job.serving) {
        row(text, "allocated between steps", e->between_steps);
        uma_text_char(text, '\n');
    }
    if (e->reserved > e->total) {
        row(text, "held by the allocator", e->reserved);
        uma_text_char(text, '\n');
    }
    row(text, "CUDA context, libraries", e->context);
    uma_text_char(text, '\n');
    if (e->host) {
        row(text, "host memory of the job", e->host);
        uma_text_char(text, '\n');
    }
    uma_layout_ink(text, style, UMA_INK_BOLD);
    row(text, "leaves the pool", e->device);
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_text_append(text, "   up to ");
    uma_layout_gib(text, e->device_high);
    uma_text_char(text, '\n');
    if (e->load.loader)
        load_text(text, style, e);
}

/* ---- the verdict -------------------------------------------------------------------------------------------- */

/* The verdict's word in its colour, its reason in lines behind it. */
static void verdict_text(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer) {
    const struct uma_fit *fit = &answer->fit;
    const char *word = answer->starves        ? "would not start"
                       : fit->fits == UMA_YES ? "fits"
                       : fit->fits == UMA_NO  ? "does not fit"
                                              : "unknown";
    _cleanup_text_ struct uma_text line = { 0 };
    if (answer->starves)
        uma_text_append(&line, "the engine's share of the pool holds not one such sequence beside the weights; ");
    uma_text_bytes(&line, fit->need);
    uma_text_append(&line, fit->load_decides ? " needed while loading" : " needed");
    if (uma_usable(fit->budget.validity)) {
        uma_text_append(&line, ", a new job can have ");
        uma_text_bytes(&line, fit->budget.value);
        uma_text_printf(&line, " (%s); ", answer->budget_source);
        uma_text_bytes(&line, (uint64_t)(fit->margin < 0 ? -fit->margin : fit->margin));
        uma_text_append(&line, fit->margin < 0 ? " short" : " to spare");
        if (fit->close)
            uma_text_append(&line, fit->fits == UMA_YES ? "; close: the interval's upper end does not fit"
                                                        : "; close: the interval's lower end would fit");
    } else
        uma_text_append(&line, "; what a new job can have here is not known (give --budget)");
    uma_layout_ink(text, style, fit->fits == UMA_NO ? UMA_INK_RED : fit->fits == UMA_MAYBE || fit->close ? UMA_INK_YELLOW : UMA_INK_GREEN);
    uma_text_append(text, word);
    uma_layout_ink(text, style, UMA_INK_PLAIN);
    uma_text_append(text, ": ");
    uma_layout_wrap(text, style, line.data ? line.data : "", strlen(word) + 2, 0);
}

static void limit(struct uma_text *line, const char *what, struct uma_u64 value) {
    if (uma_usable(value.validity))
        uma_text_printf(line, "%s%s %llu", line->length ? ", or " : "room for: ", what, (unsigned long long)value.value);
}

static void limits_text(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer) {
    _cleanup_text_ struct uma_text line = { 0 };
    limit(&line, "a packing length of", answer->limits.max_seq);
    limit(&line, "a micro batch of", answer->limits.max_batch);
    limit(&line, "a context of", answer->limits.max_context);
    limit(&line, "sequences at once:", answer->limits.max_sequences);
    if (line.length)
        uma_layout_wrap(text, style, line.data, 0, 0);
    if (!uma_usable(answer->capacity.tokens.validity))
        return;
    uma_text_reset(&line);
    uma_text_append(&line, "the engine then offers ");
    uma_text_bytes(&line, answer->capacity.kv_bytes.value);
    uma_text_printf(&line, " of KV cache: %llu tokens, %llu sequences", (unsigned long long)answer->capacity.tokens.value,
                    (unsigned long long)answer->capacity.sequences.value);
    uma_layout_wrap(text, style, line.data ? line.data : "", 0, 0);
}

static void anchor_text(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer) {
    const struct uma_anchor *anchor = answer->anchor;
    if (!anchor)
        return;
    _cleanup_text_ struct uma_text line = { 0 };
    uma_text_printf(&line, "nearest known: %s, ", anchor->name);
    uma_text_bytes(&line, anchor->bytes);
    uma_text_append(&line, "; this is ");
    uma_text_fixed(&line, (double)uma_plan_anchor_bytes(answer) / (double)anchor->bytes, 2);
    uma_text_printf(&line, " of it. That holds for %s (%s)", anchor->condition, anchor->source);
    uma_layout_wrap(text, style, line.data ? line.data : "", 0, 0);
}

static void ladder_text(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer) {
    if (answer->ladder.count == 0)
        return;
    uma_text_char(text, '\n');
    uma_layout_wrap(text, style,
                    answer->fit.fits == UMA_YES && answer->fit.close
                        ? "what to change to fit with the interval's upper end, too, in this order (each with all above it):"
                        : "what to change, in this order (each with all above it):",
                    0, 0);
    for (uint32_t i = 0; i < answer->ladder.count; i++) {
        const struct uma_advice *advice = &answer->ladder.advice[i];
        uma_text_printf(text, "%3u. ", i + 1);
        uma_layout_wrap(text, style, advice->action, 5, 0);
        uma_text_append(text, advice->rung == UMA_RUNG_FLUSH ? "     frees " : "     saves ");
        uma_text_bytes(text, advice->saves);
        if (advice->rung != UMA_RUNG_FLUSH) {
            uma_text_append(text, ", then ");
            uma_text_bytes(text, advice->then_need);
            uma_text_append(text, advice->then_fits ? " and it fits" : "");
        }
        uma_text_char(text, '\n');
    }
}

static void list_text(struct uma_text *text, const struct uma_status_style *style, const char *mark, const char *s) {
    uma_text_append(text, mark);
    uma_layout_wrap(text, style, s, strlen(mark), 0);
}

void uma_plan_text(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer) {
    _cleanup_text_ struct uma_text line = { 0 };
    uma_text_append(&line, answer->model->name ? answer->model->name : "a model");
    uma_text_append(&line, ": ");
    params_text(&line, uma_model_params(answer->model));
    uma_text_append(&line, ", ");
    describe(&line, answer);
    uma_layout_wrap(text, style, line.data ? line.data : "", 0, 0);
    uma_text_append(text, "from ");
    uma_layout_wrap(text, style, answer->model->source ? answer->model->source : "?", 5, 2);
    uma_text_char(text, '\n');
    table_text(text, style, answer);
    uma_text_char(text, '\n');
    verdict_text(text, style, answer);
    limits_text(text, style, answer);
    anchor_text(text, style, answer);
    ladder_text(text, style, answer);
    if (answer->estimate.flag_count) {
        uma_text_append(text, "\noptions for the engine:\n");
        for (uint32_t i = 0; i < answer->estimate.flag_count; i++)
            list_text(text, style, "  ", answer->estimate.flags[i]);
    }
    if (answer->model->warning_count + answer->estimate.warning_count)
        uma_text_append(text, "\nto know:\n");
    for (uint32_t i = 0; i < answer->model->warning_count; i++)
        list_text(text, style, "  - ", answer->model->warnings[i]);
    for (uint32_t i = 0; i < answer->estimate.warning_count; i++)
        list_text(text, style, "  - ", answer->estimate.warnings[i]);
}

/* ---- explain, worksheet ------------------------------------------------------------------------------------- */

void uma_plan_explain(struct uma_text *text, const struct uma_status_style *style, const struct uma_plan_answer *answer) {
    const struct uma_estimate *e = &answer->estimate;
    uma_text_append(text, "\nhow it was computed:\n");
    for (unsigned group = 0; group < UMA_TERM_COUNT; group++)
        for (uint32_t i = 0; i < e->term_count; i++) {
            const struct uma_plan_term *term = &e->terms[i];
            if (term->group != group)
                continue;
            uma_text_append(text, "  ");
            (void)uma_text_safe(text, term->what, 0);
            uma_text_printf(text, " (%s): ", term_titles[group]);
            uma_text_bytes(text, term->bytes);
            if (term->low != term->high) {
                uma_text_append(text, ", ");
                uma_text_bytes(text, term->low);
                uma_text_append(text, " .. ");
                uma_text_bytes(text, term->high);
            }
            uma_text_append(text, "\n      = ");
            uma_layout_wrap(text, style, term->formula, 8, 0);
            uma_text_append(text, "      ");
            uma_layout_wrap(text, style, term->source ? term->source : "", 6, 0);
        }
}

static void sheet_line(struct uma_text *text, const char *title, uint64_t count, double each, uint64_t bytes) {
    uma_text_printf(text, "  %s", title);
    uma_layout_to_column(text, 14);
    uma_text_fixed(text, (double)count / 1e9, 3);
    uma_text_append(text, " B x ");
    uma_text_fixed(text, each, 1);
    uma_text_append(text, " bytes");
    uma_layout_to_column(text, 42);
    uma_text_append(text, "= ");
    uma_text_fixed(text, (double)bytes / 1e9, 1);
    uma_text_append(text, " GB\n");
}

void uma_plan_worksheet(struct uma_text *text, const struct uma_plan_answer *answer) {
    struct uma_worksheet sheet;
    uma_worksheet_build(answer->model, &answer->request->job.train, &sheet);
    uma_text_append(text, "\nthe plain worksheet, in decimal GB and without activations:\n");
    sheet_line(text, "weights", sheet.params, sheet.weight_bytes_each, sheet.weights);
    sheet_line(text, "gradients", sheet.trainable, sheet.gradient_bytes_each, sheet.gradients);
    sheet_line(text, "optimizer", sheet.trainable, sheet.optimizer_bytes_each, sheet.optimizer);
    uma_text_append(text, "  adapter     counted as nothing\n  total");
    uma_layout_to_column(text, 42);
    uma_text_append(text, "= ");
    uma_text_fixed(text, (double)sheet.total / 1e9, 1);
    uma_text_append(text, " GB; the full estimate is ");
    uma_text_fixed(text, (double)answer->estimate.device / 1e9, 1);
    uma_text_append(text, " GB\n");
}
