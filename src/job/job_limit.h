/* SPDX-License-Identifier: MIT */
/*
 * job_limit.h - `umactl run --limit` by the driver itself, beside the valve: where umactl valve --probe has shown that the driver holds a limit on this machine, the job gets a group of
 * its own on cgroup v2, with the limit set before the first of its processes is in it. It is taken back when the job has ended and nobody of it is left; what is left keeps its limit, and
 * the next run or probe that finds the group empty takes it back then, as it does after a killed umactl (act/limit_group.h). A failure here never keeps a job from running.
 */
#pragma once

#include "act/cgroup_scope.h"
#include "base/error.h"

#include <stdint.h>

struct uma_job_limit;

struct uma_job_limit_options {
    uint64_t limit;      /* bytes; 0: none was asked for */
    const char *library; /* NVML; NULL: the loader's search */
    const char *boot_id; /* of this boot; NULL: not known */
};

/*
 * Before the job. NULL: no limit by the driver; ret_reason says why where somebody has to know: the driver was shown to hold limits, and now did not take this one. Else it is empty: the valve holds it
 * alone, as everywhere else.
 */
struct uma_job_limit *uma_job_limit_begin(const struct uma_job_limit_options *options, char *ret_reason, size_t size);
/* The group that the job has to be in. It stays the limit's own. */
const struct uma_cgroup_scope *uma_job_limit_scope(const struct uma_job_limit *limit);
/* The job has ended (or never began). Frees it; NULL is fine. 0; -EBUSY: processes of the job are left, which keep their limit. */
int uma_job_limit_end(struct uma_job_limit *limit);
