/* SPDX-License-Identifier: MIT */
/* umactl valve --set, --get, --release: the driver's limit on one group. */
#include "act/driver_limit.h"
#include "base/json_write.h"
#include "base/units.h"
#include "cmd/valve_limits.h"
#include "job/limit_proof.h"
#include "observe/cgroup_leaf.h"

#include <stdio.h>
#include <string.h>

static int find_group(struct uma_root *root, const struct uma_valve_limit_options *options, char *ret_path, size_t size,
                      struct uma_error *err) {
    if (!options->cgroup)
        return uma_cgroup_leaf_of(root, options->pid, ret_path, size, err);
    int r = uma_cgroup_leaf_check(root, options->cgroup, err);
    if (r >= 0 && snprintf(ret_path, size, "%s", options->cgroup) >= (int)size)
        return uma_error_text(err, ENAMETOOLONG, "the group's path is too long");
    return r;
}

static void append_bytes(struct uma_text *text, uint64_t bytes, bool limit) {
    if (limit && bytes == UMA_DRIVER_LIMIT_NONE)
        uma_text_append(text, "none");
    else
        uma_text_bytes(text, bytes);
}

static void write_text(const char *group, const struct uma_driver_limits *limits, bool asked_only, struct uma_text *text) {
    (void)uma_text_safe(text, group, 0);
    uma_text_char(text, '\n');
    for (unsigned i = 0; i < limits->n; i++) {
        const struct uma_driver_limit *gpu = &limits->gpus[i];
        uma_text_printf(text, "  GPU %u: ", i);
        if (gpu->state != UMA_DRIVER_LIMITS_DONE) {
            uma_text_append(text, "no limit\n");
            continue;
        }
        uma_text_append(text, "limit ");
        append_bytes(text, gpu->hard, true);
        uma_text_append(text, ", guaranteed ");
        append_bytes(text, gpu->soft, false);
        uma_text_append(text, ", in use ");
        append_bytes(text, gpu->used, false);
        uma_text_char(text, '\n');
    }
    if (!asked_only)
        uma_text_append(text, "The driver says so; whether it holds it on this machine is what umactl valve --probe tries.\n");
}

static struct uma_u64 limit_of(uint64_t bytes) {
    return (struct uma_u64){ bytes == UMA_DRIVER_LIMIT_NONE ? 0 : bytes, bytes == UMA_DRIVER_LIMIT_NONE ? UMA_ABSENT : UMA_KNOWN };
}

static void write_json(const char *group, const struct uma_driver_limits *limits, struct uma_text *text) {
    struct uma_json json = { .text = text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.valve-limit/1");
    uma_json_string(&json, "cgroup", group);
    uma_json_string(&json, "driver", limits->driver[0] ? limits->driver : NULL);
    uma_json_begin_array(&json, "gpus", false);
    for (unsigned i = 0; i < limits->n; i++) {
        bool unset = limits->gpus[i].state != UMA_DRIVER_LIMITS_DONE;
        uma_json_begin_object(&json, NULL, true);
        uma_json_u64(&json, "limit", limit_of(unset ? UMA_DRIVER_LIMIT_NONE : limits->gpus[i].hard));
        uma_json_unsigned(&json, "guaranteed", limits->gpus[i].soft);
        uma_json_u64(&json, "used", (struct uma_u64){ limits->gpus[i].used, unset ? UMA_UNKNOWN : UMA_KNOWN });
        uma_json_end_object(&json);
    }
    uma_json_end_array(&json);
    uma_json_end_object(&json);
}

/* 0, or -errno with what failed. */
static int act(const struct uma_driver_limit_place *place, const struct uma_valve_limit_options *options,
               struct uma_driver_limits *ret_limits, struct uma_error *err) {
    char why[400];
    if (options->action == UMA_VALVE_LIMIT_SET)
        return uma_driver_limit_set(place, options->limit, ret_limits, err);
    if (options->action == UMA_VALVE_LIMIT_RELEASE) {
        int r = uma_driver_limit_release(place, ret_limits, err);
        if (r < 0)
            return r;
    }
    uma_driver_limits_read(place->library, place->cgroup, ret_limits);
    /* a group without a limit is "not found" by the documents, and "not supported" as some have seen it: after a release that was taken, both say the same */
    if (ret_limits->state == UMA_DRIVER_LIMITS_DONE || ret_limits->state == UMA_DRIVER_LIMITS_UNSET ||
        (options->action == UMA_VALVE_LIMIT_RELEASE && ret_limits->state == UMA_DRIVER_LIMITS_UNSUPPORTED))
        return 0;
    uma_driver_limit_explain(ret_limits, why, sizeof(why));
    return uma_error_text(err, EIO, "the driver's limit: %s", why);
}

int uma_valve_limit(const struct uma_observe_options *observe, const struct uma_valve_limit_options *options, bool json) {
    _cleanup_root_ struct uma_root *root = NULL;
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    struct uma_driver_limits limits;
    char group[4096];
    int r = uma_root_open(observe->root, NULL, &root, &err);
    if (r >= 0)
        r = find_group(root, options, group, sizeof(group), &err);
    if (r < 0)
        return uma_command_fail("valve", UMA_EXIT_UNKNOWN, &err);
    struct uma_driver_limit_place place = { .library = observe->nvml, .cgroup = group };
    r = act(&place, options, &limits, &err);
    if (r < 0)
        return uma_command_fail("valve", limits.state < UMA_DRIVER_LIMITS_FAILED ? UMA_EXIT_NO : UMA_EXIT_UNKNOWN, &err);
    if (json)
        write_json(group, &limits, &text);
    else
        write_text(group, &limits, options->action != UMA_VALVE_LIMIT_SET, &text);
    return !text.failed && uma_command_print(&text) >= 0 ? UMA_EXIT_OK : UMA_EXIT_UNKNOWN;
}
