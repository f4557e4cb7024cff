/* SPDX-License-Identifier: MIT */
#include "job/job_limit.h"

#include "act/driver_limit.h"
#include "act/limit_group.h"
#include "job/limit_probe.h"
#include "job/limit_proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct uma_job_limit {
    struct uma_cgroup_scope scope;
    const char *library;
};

static bool is_shown(const struct uma_job_limit_options *options, struct uma_limit_proof *ret_proof) {
    /* the driver's version is compared with what it says when the limit is set: here it would cost a second start of NVML */
    return options->limit && geteuid() == 0 && uma_limit_proof_load(uma_limit_proof_folder(), ret_proof, NULL) >= 0 &&
           uma_limit_proof_holds(ret_proof, options->boot_id, ret_proof->driver);
}

struct uma_job_limit *uma_job_limit_begin(const struct uma_job_limit_options *options, char *ret_reason, size_t size) {
    struct uma_limit_proof proof;
    struct uma_driver_limits limits;
    struct uma_error err = { 0 };
    ret_reason[0] = '\0';
    if (!is_shown(options, &proof))
        return NULL;
    struct uma_job_limit *limit = calloc(1, sizeof(*limit));
    if (!limit)
        return NULL;
    limit->library = options->library;
    (void)uma_limit_probe_sweep(options->library);
    uma_limit_group_create(0, &limit->scope);
    if (limit->scope.dir_fd < 0) {
        (void)snprintf(ret_reason, size, "%s", limit->scope.note);
        free(limit);
        return NULL;
    }
    struct uma_driver_limit_place place = { .library = options->library, .cgroup = limit->scope.path };
    int r = uma_driver_limit_set(&place, options->limit, &limits, &err);
    if (r < 0)
        (void)snprintf(ret_reason, size, "%s", err.text);
    else if (strcmp(limits.driver, proof.driver) != 0)
        (void)snprintf(ret_reason, size, "it is another driver than the one that umactl valve --probe tried (%.64s)", proof.driver);
    if (!ret_reason[0])
        return limit;
    (void)uma_job_limit_end(limit);
    return NULL;
}

const struct uma_cgroup_scope *uma_job_limit_scope(const struct uma_job_limit *limit) {
    return &limit->scope;
}

int uma_job_limit_end(struct uma_job_limit *limit) {
    struct uma_driver_limits limits;
    if (!limit)
        return 0;
    struct uma_driver_limit_place place = { .library = limit->library, .cgroup = limit->scope.path };
    bool used = uma_limit_group_is_used(&limit->scope);
    /* first, because a soft limit that somebody gave the group meanwhile was added to those above, and would stay there */
    if (!used)
        (void)uma_driver_limit_release(&place, &limits, NULL);
    int r = uma_cgroup_scope_remove(&limit->scope);
    free(limit);
    return used ? -EBUSY : r;
}
