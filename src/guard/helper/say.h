/* SPDX-License-Identifier: MIT */
/* say.h - the helper's lines on stderr, which is the journal: escaped, whole, and with their level in front ("<4>", sd-daemon(3)) where the journal reads them. From any thread. */
#pragma once

#include "base/cleanup.h"

enum uma_helper_level { UMA_HELPER_ERROR = 3, UMA_HELPER_WARNING = 4, UMA_HELPER_NOTICE = 5, UMA_HELPER_INFO = 6 };

void uma_helper_say(enum uma_helper_level level, const char *format, ...) UMA_PRINTF(2, 3);
