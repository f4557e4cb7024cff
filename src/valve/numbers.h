/* SPDX-License-Identifier: MIT */
/* numbers.h - the entries of a folder of /proc whose names are numbers (processes, descriptors), by the bare call: opendir(3) allocates. */
#pragma once

#include <stdbool.h>

/* `name`: of one entry, good until it returns. True: no more of them. */
typedef bool uma_valve_visitor(int folder, const char *name, void *userdata);

/* Until one says true, which is returned, or there is no more. `folder`: open at its begin. */
bool uma_valve_each_number(int folder, uma_valve_visitor *visit, void *userdata);
