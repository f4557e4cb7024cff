/* SPDX-License-Identifier: MIT */
/*
 * cache_advise.h - the faces of `umactl cache advise`: advice, and what became of changes, as text and as JSON. Functions of what is given alone.
 */
#pragma once

#include "base/json_write.h"
#include "cache/advise.h"
#include "cache/tune.h"
#include "cmd/status.h"

struct uma_advise_view {
    bool all;           /* also what is ok */
    bool from_snapshot; /* read from a snapshot, which has no settings */
};
void uma_advise_text_write(struct uma_text *text, const struct uma_advice_list *advice, const struct uma_advise_view *view,
                           const struct uma_status_style *style);
/* The whole document, schema umactl.cache-advise/1. */
void uma_advise_json(struct uma_json *json, const struct uma_advice_list *advice);

/* `undo`: it was taking back. */
void uma_tune_text(struct uma_text *text, const struct uma_tune_results *results, bool undo, const struct uma_status_style *style);
void uma_tune_json(struct uma_json *json, const struct uma_tune_results *results, bool undo);

/* One line of a file for /etc/sysctl.d, or of what must stand elsewhere, as a comment. `path` as in struct uma_advice. */
void uma_sysctl_line(struct uma_text *text, const char *path, const char *value);
