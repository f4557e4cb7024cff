/* SPDX-License-Identifier: MIT */
/*
 * limits.h - what a driver's limits on cgroups are in the stand-ins: a file that both fake libraries, in several processes, keep together. As the real one by its documents: a soft limit is added to all
 * groups above and only taken back by another call; a limit goes with its group; the nearest group that has one counts.
 */
#pragma once

#include <stdbool.h>

/* The group that this process is in, as a full path; "" unknown. */
void fake_limits_own_group(char *into, unsigned size);
/* `dmem`: a folder in which the kernel's dmem files are played, or "". */
void fake_limits_set(const char *file, int gpu, const char *cgroup, unsigned long long soft, unsigned long long hard, const char *dmem);
/* False: no limit on it, nor above. */
bool fake_limits_get(const char *file, int gpu, const char *cgroup, unsigned long long *soft, unsigned long long *hard,
                     unsigned long long *used);
/* May this process have so much in all? (Of GPU 0.) */
bool fake_limits_allow(const char *file, unsigned long long total);
/* It has so much. */
void fake_limits_note(const char *file, unsigned long long total);
