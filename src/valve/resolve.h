/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - how programs come to the valve instead of the driver, and the valve to the driver. Three ways lead in: the exported names themselves (a program linked to libcuda), dlsym(3)
 * (who opens it), and cuGetProcAddress (the CUDA runtime, static or shared). dlopen(3) is taken off RTLD_DEEPBIND, which would bind a library's calls to libcuda past the valve.
 *
 * dlsym and dlopen are jumped to with the caller's return address in place, because both look at it (RTLD_NEXT, RUNPATH).
 */
#pragma once

#include "valve/entries.h"

/* The driver's own, as the program last got it, or as the next library exports it; NULL: there is none. */
void *uma_valve_real(enum uma_valve_entry entry);

/* Any entry of the driver's that is not hooked, by its exported name, from the object that hooked ones come from; NULL: it has none. Remember it. */
void *uma_valve_real_named(const char *name);
/* The same, remembered in `kept` (all zeros at first). */
void *uma_valve_real_once(_Atomic(void *) *kept, const char *name);

/*
 * The driver's answer to a question for an entry point (by dlsym or cuGetProcAddress) is remembered, and what the program is to have instead is returned: the hook.
 */
void *uma_valve_hook_for(enum uma_valve_entry entry, void *real);
