/* SPDX-License-Identifier: MIT */
#include "observe/files/hub.h"

const struct uma_hub_place uma_hub_places[UMA_HUB_PLACES] = {
    { "HF_HUB_CACHE", "" }, { "HUGGINGFACE_HUB_CACHE", "" }, /* its name before 0.16, read to this day */
    { "HF_HOME", "/hub" },  { "XDG_CACHE_HOME", "/huggingface/hub" }, { "HOME", "/.cache/huggingface/hub" },
};
