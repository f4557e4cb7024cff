/* SPDX-License-Identifier: MIT */
/* resume.h - what a guard before this one left behind in the run folder: trees that stand stopped, a victim that is under way. Kept apart from the loop: it runs once, before the first look. */
#pragma once

#include "guard/loop.h"

/* Takes it over, or lets it go on where this guard only decides (dry run). Nothing where the guard before ended in order. */
void uma_guard_resume(struct uma_guard_loop *loop);
