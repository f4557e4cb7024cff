/* SPDX-License-Identifier: MIT */
/* environment.h - which variables of a job's environment belong into its record: those that steer it, never secrets. Pure. */
#pragma once

#include <stdbool.h>

/* `assignment`: "NAME=VALUE". True for names that steer memory, devices, threads and collectives, unless the name is that of a secret. */
bool uma_environment_matters(const char *assignment);
