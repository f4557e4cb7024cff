/* SPDX-License-Identifier: MIT */
/*
 * open.h - from what a user gives to the file or folder that is read. uma_model_open itself is public (uma_plan.h); here is what it takes
 * from the cache of the Hugging Face hub (observe/files/hub.h).
 */
#pragma once

#include "base/error.h"

/* Where the hub cache is: the first of uma_hub_places that is set. malloc'ed; NULL: nowhere, or out of memory. */
char *uma_open_hub_cache(void);
/* The snapshot in a folder models--ORG--NAME that `main` points to, else the newest. The path is malloc'ed. -ENOENT: there is none. */
int uma_open_hub_snapshot(const char *folder, char **ret_path, struct uma_error *err);
/* The snapshot of "ORG/NAME" (or "NAME") in a cache. -ENOENT without a message when the cache does not have it, or it is no such name. */
int uma_open_hub_find(const char *cache, const char *name, char **ret_path, struct uma_error *err);
