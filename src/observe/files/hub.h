/* SPDX-License-Identifier: MIT */
/*
 * hub.h - where the cache of the Hugging Face hub lies: models--ORG--NAME/{refs/main, snapshots/REVISION/..., blobs/...}, as the documentation of
 * huggingface_hub ("Understand caching") lays it out. One list for whoever looks for a model by name and whoever looks for all that there are.
 */
#pragma once

#include <stddef.h>

/* The cache is `below` the value of the first variable that is set and not empty (src/huggingface_hub/constants.py). */
struct uma_hub_place {
    const char *variable, *below;
};
enum { UMA_HUB_PLACES = 5 };
extern const struct uma_hub_place uma_hub_places[UMA_HUB_PLACES];
