/* SPDX-License-Identifier: MIT */
/* summary.h - what people read at the end of a run. Pure. Unknown is "?". */
#pragma once

#include "base/text.h"
#include "record/run_record.h"

/* `record`: the folder's path, or NULL when nothing was kept. */
void uma_run_summary(const struct uma_run *run, const char *record, struct uma_text *text);
