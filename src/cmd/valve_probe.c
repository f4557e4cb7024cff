/* SPDX-License-Identifier: MIT */
/* umactl valve --probe: what holds a limit here, as tried. */
#include "base/json_write.h"
#include "base/units.h"
#include "cmd/valve_limits.h"
#include "job/limit_probe.h"
#include "job/limit_proof.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *state_text(enum uma_limit_state state) {
    static const char *const texts[] = { [UMA_LIMIT_UNTESTED] = "not tried: CUDA could not be used here",
                                         [UMA_LIMIT_HOLDS] = "holds",
                                         [UMA_LIMIT_NOT_ENFORCED] = "does not hold: more than the limit was given",
                                         [UMA_LIMIT_NOT_READ_BACK] = "does not hold: the limit is not there when it is read back",
                                         [UMA_LIMIT_NOT_TAKEN_BACK] = "is not used: it holds, but does not go away again",
                                         [UMA_LIMIT_UNSUPPORTED] = "not supported by this GPU, or by the driver as it is set up",
                                         [UMA_LIMIT_NO_SYMBOLS] = "not in this driver: it comes with r615",
                                         [UMA_LIMIT_NO_PERMISSION] = "not tried: the driver takes limits from root alone",
                                         [UMA_LIMIT_NO_GROUP] = "not to be had: no group of cgroup v2 could be made",
                                         [UMA_LIMIT_NO_LIBRARY] = "not there: its library is not to be found",
                                         [UMA_LIMIT_NO_DRIVER] = "not there: no driver that works",
                                         [UMA_LIMIT_HUNG] = "not known: the driver did not answer",
                                         [UMA_LIMIT_FAILED] = "not known: it could not be tried to the end" };
    return (unsigned)state < ELEMENTS(texts) ? texts[state] : "?";
}

static void write_backend(const char *name, const struct uma_limit_backend *backend, struct uma_text *text) {
    uma_text_printf(text, "%s: %s\n", name, state_text(backend->state));
    for (unsigned i = 0; i < backend->n_steps; i++) {
        const struct uma_limit_step *s = &backend->steps[i];
        uma_text_printf(text, "  %-3s  %-10s  ", s->passed == UMA_YES ? "yes" : s->passed == UMA_NO ? "no" : "?", s->name);
        (void)uma_text_safe(text, s->detail, 0);
        uma_text_char(text, '\n');
    }
}

static void write_backend_json(struct uma_json *json, const char *name, const struct uma_limit_backend *backend) {
    uma_json_begin_object(json, name, false);
    uma_json_string(json, "state", uma_limit_state_word(backend->state));
    uma_json_begin_array(json, "steps", false);
    for (unsigned i = 0; i < backend->n_steps; i++) {
        uma_json_begin_object(json, NULL, true);
        uma_json_string(json, "step", backend->steps[i].name);
        uma_json_truth(json, "passed", backend->steps[i].passed);
        uma_json_string(json, "detail", backend->steps[i].detail);
        uma_json_end_object(json);
    }
    uma_json_end_array(json);
    uma_json_end_object(json);
}

static void write_json(const struct uma_limit_probe *probe, bool kept, struct uma_text *text) {
    struct uma_json json = { .text = text };
    uma_json_begin_object(&json, NULL, false);
    uma_json_string(&json, "schema", "umactl.valve-probe/1");
    uma_json_string(&json, "driver_version", probe->driver_version[0] ? probe->driver_version : NULL);
    write_backend_json(&json, "interposer", &probe->interposer);
    write_backend_json(&json, "driver", &probe->driver);
    if (probe->has_dmem) {
        uma_json_begin_object(&json, "dmem", true);
        uma_json_u64(&json, "capacity", probe->dmem.capacity);
        uma_json_u64(&json, "max", probe->dmem.max);
        uma_json_u64(&json, "current", probe->dmem.current);
        uma_json_end_object(&json);
    } else
        uma_json_null(&json, "dmem");
    uma_json_unsigned(&json, "groups_removed", probe->swept);
    uma_json_bool(&json, "kept", kept);
    uma_json_end_object(&json);
}

static void read_boot_id(struct uma_root *root, char *into, size_t size) {
    _cleanup_text_ struct uma_text text = { 0 };
    into[0] = '\0';
    if (uma_root_read_line(root, "proc/sys/kernel/random/boot_id", size - 1, &text, NULL) >= 0 && text.length < size)
        (void)snprintf(into, size, "%s", text.data);
}

/* What run --limit goes by. Only root's word counts, and only of what was really tried. 1: it is written down; 0: it is not for this process; -errno. */
static int keep(const struct uma_limit_probe *probe, struct uma_error *err) {
    _cleanup_root_ struct uma_root *root = NULL;
    struct uma_limit_proof proof = { .holds = probe->driver.state == UMA_LIMIT_HOLDS };
    if (geteuid() != 0 || !probe->driver_version[0] || uma_root_open(NULL, NULL, &root, err) < 0)
        return 0;
    read_boot_id(root, proof.boot_id, sizeof(proof.boot_id));
    (void)snprintf(proof.driver, sizeof(proof.driver), "%s", probe->driver_version);
    int r = uma_limit_proof_save(uma_limit_proof_folder(), &proof, err);
    return r < 0 ? r : 1;
}

/* 0: a limit is held; 1: neither of the two does; 3: it could not be tried. */
static int status_of(const struct uma_limit_probe *probe) {
    enum uma_limit_state a = probe->interposer.state, b = probe->driver.state;
    if (a == UMA_LIMIT_HOLDS || b == UMA_LIMIT_HOLDS)
        return UMA_EXIT_OK;
    return a == UMA_LIMIT_UNTESTED || a == UMA_LIMIT_FAILED || a == UMA_LIMIT_HUNG ? UMA_EXIT_UNKNOWN : UMA_EXIT_NO;
}

int uma_valve_probe(const struct uma_observe_options *observe, bool as_json) {
    _cleanup_root_ struct uma_root *root = NULL;
    _cleanup_text_ struct uma_text text = { 0 };
    struct uma_error err = { 0 };
    struct uma_limit_probe probe;
    if (uma_root_open(observe->root, NULL, &root, &err) < 0)
        return uma_command_fail("valve", UMA_EXIT_UNKNOWN, &err);
    uma_limit_probe_run(observe->nvml, root, &probe);
    int kept = keep(&probe, &err);
    if (kept < 0)
        (void)uma_command_fail("valve", UMA_EXIT_UNKNOWN, &err);
    if (as_json)
        write_json(&probe, kept > 0, &text);
    else {
        write_backend("the valve (interposer)", &probe.interposer, &text);
        write_backend("the driver's own limit", &probe.driver, &text);
        if (probe.swept)
            uma_text_printf(&text, "%u group%s of killed runs removed\n", probe.swept, probe.swept == 1 ? "" : "s");
        if (kept > 0 && probe.driver.state == UMA_LIMIT_HOLDS)
            uma_text_append(&text, "umactl run --limit uses both until the next boot.\n");
    }
    if (text.failed || uma_command_print(&text) < 0)
        return UMA_EXIT_UNKNOWN;
    return status_of(&probe);
}
