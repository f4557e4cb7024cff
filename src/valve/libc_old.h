/* SPDX-License-Identifier: MIT */
/*
 * libc_old.h - functions whose default version in libc is newer than the oldest libc that the valve is to run with (2.31), bound to the version that all have: they moved from libdl to libc in 2.34 and kept
 * their old versions there.
 */
#pragma once

#include <dlfcn.h>

#if defined(__x86_64__)
#define UMA_VALVE_LIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define UMA_VALVE_LIBC "GLIBC_2.17"
#else
#error "the valve knows how to stand in for dlsym on x86-64 and aarch64"
#endif

void *uma_valve_dlvsym(void *handle, const char *name, const char *version);
int uma_valve_dladdr(const void *address, Dl_info *info);
char *uma_valve_dlerror(void);
__asm__(".symver uma_valve_dlvsym, dlvsym@" UMA_VALVE_LIBC);
__asm__(".symver uma_valve_dladdr, dladdr@" UMA_VALVE_LIBC);
__asm__(".symver uma_valve_dlerror, dlerror@" UMA_VALVE_LIBC);
