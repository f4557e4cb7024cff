/* SPDX-License-Identifier: MIT */
/* notify_text.h - what people are told of an action, in the form that each way takes. Pure. Names in it are hostile text: escaped for terminals, JSON and markup. */
#pragma once

#include "base/text.h"
#include "guard/message.h"

enum { UMA_HELPER_VARIABLES = 12 };

/* Is it worth telling people? What was really done to a process; not room, and nothing of a dry run. */
bool uma_helper_notify_worth(const struct uma_guard_message *message);

/* "UMA_GUARD_ACTION=kill" and so on; each ends with a zero byte. `left_out`: actions before this one that nobody was told of. */
void uma_helper_notify_variables(const struct uma_guard_message *message, uint64_t left_out, struct uma_text *into);
/* One JSON object, umactl.guard-notification/1 (docs/json.md). */
void uma_helper_notify_json(const struct uma_guard_message *message, const char *host, uint64_t left_out, struct uma_text *into);
/* "killed python (pid 77): 12.0 GiB" */
void uma_helper_notify_title(const struct uma_guard_message *message, struct uma_text *into);
/* For a desktop, which takes its text as markup. */
void uma_helper_notify_body(const struct uma_guard_message *message, uint64_t left_out, struct uma_text *into);
/* & < > as a markup's words. */
void uma_helper_markup(const char *text, struct uma_text *into);
