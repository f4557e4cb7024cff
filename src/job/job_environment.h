/* SPDX-License-Identifier: MIT */
/* job_environment.h - the environment that a job is to have: umactl's own with a few variables set and libraries before the others of LD_PRELOAD. umactl's own stays as it is. */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct uma_job_environment {
    char **list; /* NULL-terminated; NULL: umactl's own, unchanged */
    size_t n;
};

/* `name` is `value` in it. -ENOMEM; -E2BIG where the kernel would not take it. */
int uma_job_environment_set(struct uma_job_environment *environment, const char *name, const char *value, struct uma_error *err);
/* `library` is loaded before whatever was to be. */
int uma_job_environment_preload(struct uma_job_environment *environment, const char *library, struct uma_error *err);
/* As it stands; NULL where it is not set. */
const char *uma_job_environment_get(const struct uma_job_environment *environment, const char *name);
void uma_job_environment_done(struct uma_job_environment *environment);
