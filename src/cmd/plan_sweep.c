/* SPDX-License-Identifier: MIT */
#include "base/units.h"
#include "cmd/layout.h"
#include "cmd/plan.h"
#include "plan/model/structure.h"

#include <string.h>

enum { AXES_MAX = 4, VALUES_MAX = 32, CELLS_MAX = 1024 }; /* a table that somebody reads; a plan takes some microseconds */

struct axis {
    const char *name;
    const char *values[VALUES_MAX];
    size_t count;
};

struct sweep {
    char *words; /* the text, cut up */
    struct axis axes[AXES_MAX];
    size_t count;
};

/* "seq=1024,2048,batch=1,2": a word with '=' begins an axis, one without is a further value of it; ':' and ';' part like ','. */
static int sweep_parse(const char *s, struct sweep *sweep, struct uma_error *err) {
    sweep->words = strdup(s);
    if (!sweep->words)
        return uma_error_set(err, ENOMEM, "--sweep");
    char *rest = sweep->words;
    for (char *word; (word = strsep(&rest, ",;:"));) {
        char *equals = strchr(word, '=');
        if (equals) {
            if (sweep->count == AXES_MAX)
                return uma_error_text(err, EINVAL, "--sweep: more than %d axes", AXES_MAX);
            *equals = 0;
            for (size_t i = 0; i < sweep->count; i++)
                if (strcmp(sweep->axes[i].name, word) == 0)
                    return uma_error_text(err, EINVAL, "--sweep: %.64s comes twice: give its values behind one '='", word);
            sweep->axes[sweep->count++].name = word;
            word = equals + 1;
        }
        if (sweep->count == 0)
            return uma_error_text(err, EINVAL, "--sweep: \"%.64s\": expected NAME=VALUE,VALUE... as in seq=1024,2048,batch=1,2", word);
        struct axis *axis = &sweep->axes[sweep->count - 1];
        if (!*word || !*axis->name)
            return uma_error_text(err, EINVAL, "--sweep: an empty value in \"%.100s\"", s);
        if (axis->count == VALUES_MAX)
            return uma_error_text(err, EINVAL, "--sweep: more than %d values of %.64s", VALUES_MAX, axis->name);
        axis->values[axis->count++] = word;
    }
    size_t cells = 1;
    for (size_t i = 0; i < sweep->count; i++)
        cells *= sweep->axes[i].count;
    return cells > CELLS_MAX ? uma_error_text(err, EINVAL, "--sweep: %zu combinations, the most is %d", cells, CELLS_MAX) : 0;
}

static int cell_request(const struct uma_plan_request *request, const struct sweep *sweep, const size_t *at,
                        struct uma_plan_request *ret_cell, struct uma_error *err) {
    static const char *const fixed[] = { "model", "params", "budget", "explain", "sweep", "worksheet", "projector", "draft" };
    *ret_cell = *request;
    for (size_t i = 0; i < sweep->count; i++) {
        const char *name = sweep->axes[i].name;
        if (uma_name_find(fixed, ELEMENTS(fixed), name) >= 0)
            return uma_error_text(err, EINVAL, "--sweep: %s cannot be swept", name);
        int r = uma_plan_request_set(ret_cell, name, sweep->axes[i].values[at[i]], err);
        if (r < 0)
            return r;
    }
    return uma_plan_request_check(ret_cell, err);
}

/* Does an axis change what the model is made from: its shape, or the format that it is to be served in? */
static bool changes_model(const struct uma_plan_request *request, const struct sweep *sweep) {
    for (size_t i = 0; i < sweep->count; i++)
        if (!request->model_path || (request->job.serving && strcmp(sweep->axes[i].name, "dtype") == 0))
            return true;
    return false;
}

static bool next(const struct sweep *sweep, size_t *at) {
    for (size_t i = sweep->count; i-- > 0;) {
        if (++at[i] < sweep->axes[i].count)
            return true;
        at[i] = 0;
    }
    return false;
}

/* ---- output ------------------------------------------------------------------------------------------------- */

enum { COLUMN = 12 };

static void head(struct uma_text *text, const struct sweep *sweep, const struct uma_model *model, struct uma_u64 budget) {
    (void)uma_text_safe(text, model->name ? model->name : "a model", 60);
    uma_text_append(text, "; in GiB; a new job can have ");
    uma_layout_bytes(text, budget);
    uma_text_char(text, '\n');
    for (size_t i = 0; i < sweep->count; i++) {
        (void)uma_text_safe(text, sweep->axes[i].name, 24);
        uma_layout_to_column(text, (i + 1) * COLUMN);
    }
    uma_text_append(text, "   total    low ..  high   leaves the pool  while loading  verdict\n");
}

static void gib(struct uma_text *text, uint64_t bytes, size_t width) {
    uma_layout_gib_column(text, (struct uma_u64){ bytes, UMA_KNOWN }, width);
}

static void line(struct uma_text *text, const struct sweep *sweep, const size_t *at, const struct uma_plan_answer *answer) {
    for (size_t i = 0; i < sweep->count; i++) {
        (void)uma_text_safe(text, sweep->axes[i].values[at[i]], COLUMN - 1);
        uma_layout_to_column(text, (i + 1) * COLUMN);
    }
    gib(text, answer->estimate.total, 8);
    gib(text, answer->estimate.low, 7);
    uma_text_append(text, " ..");
    gib(text, answer->estimate.high, 6);
    gib(text, answer->estimate.device, 18);
    gib(text, answer->estimate.load.peak, 15);
    uma_text_append(text, answer->fit.fits == UMA_YES  ? answer->fit.close ? "  fits, close" : "  fits"
                          : answer->fit.fits == UMA_NO ? answer->fit.close ? "  does not fit, close" : "  does not fit"
                                                       : "  unknown");
    uma_text_char(text, '\n');
}

static void cell_json(struct uma_json *json, const struct sweep *sweep, const size_t *at, const struct uma_plan_answer *answer) {
    uma_json_begin_object(json, NULL, true);
    for (size_t i = 0; i < sweep->count; i++)
        uma_json_string(json, sweep->axes[i].name, sweep->axes[i].values[at[i]]);
    uma_json_unsigned(json, "total", answer->estimate.total);
    uma_json_unsigned(json, "low", answer->estimate.low);
    uma_json_unsigned(json, "high", answer->estimate.high);
    uma_json_unsigned(json, "device", answer->estimate.device);
    uma_json_unsigned(json, "load_peak", answer->estimate.load.peak);
    uma_json_truth(json, "fits", answer->fit.fits);
    uma_json_i64(json, "margin", (struct uma_i64){ answer->fit.margin, answer->fit.budget.validity });
    uma_json_end_object(json);
}

static void json_head(struct uma_json *json, const struct uma_model *model, struct uma_u64 budget) {
    uma_json_begin_object(json, NULL, false);
    uma_json_string(json, "schema", "umactl.plan/1");
    uma_json_begin_object(json, "model", true);
    uma_json_string(json, "name", model->name);
    uma_json_end_object(json);
    uma_json_u64(json, "budget", budget);
    uma_json_begin_array(json, "sweep", false);
}

static void sweep_done(struct sweep *sweep) {
    free(sweep->words);
}

int uma_plan_sweep(const struct uma_plan_request *request, const struct uma_model *model, struct uma_u64 budget, struct uma_text *text,
                   struct uma_error *err) {
    _cleanup_(sweep_done) struct sweep sweep = { 0 };
    int r = sweep_parse(request->sweep, &sweep, err);
    if (r < 0)
        return r;
    struct uma_json json = { .text = text };
    size_t at[AXES_MAX] = { 0 };
    if (request->common.json)
        json_head(&json, model, budget);
    else
        head(text, &sweep, model, budget);
    do {
        struct uma_plan_request cell;
        struct uma_plan_answer answer = { .fit.budget = budget };
        _cleanup_model_ struct uma_model *own = NULL;
        r = cell_request(request, &sweep, at, &cell, err);
        if (r >= 0 && changes_model(request, &sweep))
            r = uma_plan_model_open(&cell, &own, err);
        if (r >= 0)
            r = uma_plan_answer_build(&cell, own ? own : model, false, &answer, err);
        if (r < 0)
            return r;
        if (request->common.json)
            cell_json(&json, &sweep, at, &answer);
        else
            line(text, &sweep, at, &answer);
    } while (next(&sweep, at));
    if (request->common.json) {
        uma_json_end_array(&json);
        uma_json_end_object(&json);
    }
    return 0;
}
