/* SPDX-License-Identifier: MIT */
#include "valve/entries.h"

#include "valve/cuda.h"

#include <string.h>

static const struct {
    const char *name, *base;
    int since;
    bool per_thread;
} entries[UMA_VALVE_N_ENTRIES] = {
#define X(name, base, since, per_thread) [UMA_VALVE_##name] = { #name, #base, since, per_thread },
    UMA_VALVE_ENTRIES(X)
#undef X
};

/* Most of what programs look up is neither: two letters tell. */
static bool may_be_one(const char *name) {
    return name && ((name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v'));
}

enum uma_valve_entry uma_valve_entry_exported(const char *name) {
    if (may_be_one(name))
        for (unsigned i = 0; i < UMA_VALVE_N_ENTRIES; i++)
            if (strcmp(entries[i].name, name) == 0)
                return (enum uma_valve_entry)i;
    return UMA_VALVE_N_ENTRIES;
}

enum uma_valve_entry uma_valve_entry_asked(const char *name, int cuda_version, unsigned long long flags) {
    bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    unsigned found = UMA_VALVE_N_ENTRIES;
    if (!may_be_one(name))
        return UMA_VALVE_N_ENTRIES;
    for (unsigned i = 0; i < UMA_VALVE_N_ENTRIES; i++) {
        if (strcmp(entries[i].base, name) != 0 || entries[i].since > cuda_version)
            continue;
        if (found == UMA_VALVE_N_ENTRIES || (per_thread && entries[i].per_thread) ||
            (!entries[i].per_thread && entries[i].since > entries[found].since))
            found = i;
    }
    return found != UMA_VALVE_N_ENTRIES ? (enum uma_valve_entry)found : uma_valve_entry_exported(name);
}

const char *uma_valve_entry_name(enum uma_valve_entry entry) {
    return (unsigned)entry < UMA_VALVE_N_ENTRIES ? entries[entry].name : "?";
}
