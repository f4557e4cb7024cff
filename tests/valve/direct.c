/* SPDX-License-Identifier: MIT */
/* Linked to libcuda: the dynamic linker finds the functions. */
#include "api.h"

void fill_direct(struct api *api) {
#define X(name, base, version) api->name = name;
    CALLS(X)
#undef X
}
