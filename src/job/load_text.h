/* SPDX-License-Identifier: MIT */
/* load_text.h - what came of a load window, in one line for people and for the record's event. Pure. Unknown is "?". */
#pragma once

#include "base/text.h"
#include "record/run_record.h"

/* "4.0 GiB of weights read in 12.3 s, peak 4.3 GiB (8.0 GiB without), lowest free 9.1 GiB"; no newline. */
void uma_load_text(const struct uma_run_load *load, struct uma_text *text);
