/* SPDX-License-Identifier: MIT */
/* json_tree.h - a tree of jansson that a scope owns. For documents whose size was bounded before; large ones are read as they stream by (plan/model/json_scan.h). */
#pragma once

#include "base/cleanup.h"

#include <jansson.h>

static inline void uma_cleanup_json(json_t **json) {
    json_decref(*json);
}
#define _cleanup_json_ _cleanup_(uma_cleanup_json)
