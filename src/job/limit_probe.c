/* SPDX-License-Identifier: MIT */
#include "job/limit_probe.h"

#include "act/driver_limit.h"
#include "act/limit_group.h"
#include "job/cuda_child.h"
#include "job/preload_library.h"
#include "valve/cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *uma_limit_state_word(enum uma_limit_state state) {
    static const char *const words[] = { [UMA_LIMIT_UNTESTED] = "untested",
                                         [UMA_LIMIT_HOLDS] = "holds",
                                         [UMA_LIMIT_NOT_ENFORCED] = "not-enforced",
                                         [UMA_LIMIT_NOT_READ_BACK] = "not-read-back",
                                         [UMA_LIMIT_NOT_TAKEN_BACK] = "not-taken-back",
                                         [UMA_LIMIT_UNSUPPORTED] = "unsupported",
                                         [UMA_LIMIT_NO_SYMBOLS] = "no-symbols",
                                         [UMA_LIMIT_NO_PERMISSION] = "no-permission",
                                         [UMA_LIMIT_NO_GROUP] = "no-group",
                                         [UMA_LIMIT_NO_LIBRARY] = "no-library",
                                         [UMA_LIMIT_NO_DRIVER] = "no-driver",
                                         [UMA_LIMIT_HUNG] = "hung",
                                         [UMA_LIMIT_FAILED] = "failed" };
    return (unsigned)state < ELEMENTS(words) ? words[state] : "failed";
}

enum uma_limit_state uma_limit_judge(const struct uma_limit_findings *findings) {
    if (!findings->set)
        return UMA_LIMIT_FAILED;
    if (!findings->read_back)
        return UMA_LIMIT_NOT_READ_BACK;
    if (findings->refused < 0)
        return UMA_LIMIT_UNTESTED;
    if (findings->refused == CUDA_SUCCESS)
        return UMA_LIMIT_NOT_ENFORCED;
    if (findings->refused != CUDA_ERROR_OUT_OF_MEMORY)
        return UMA_LIMIT_FAILED; /* refused for a reason of its own */
    return findings->taken_back && findings->afterwards == CUDA_SUCCESS ? UMA_LIMIT_HOLDS : UMA_LIMIT_NOT_TAKEN_BACK;
}

static UMA_PRINTF(4, 5) bool step(struct uma_limit_backend *backend, const char *name, enum uma_truth passed, const char *format, ...) {
    if (backend->n_steps < UMA_LIMIT_STEPS_MAX) {
        struct uma_limit_step *s = &backend->steps[backend->n_steps++];
        va_list args;
        s->name = name;
        s->passed = passed;
        va_start(args, format);
        (void)vsnprintf(s->detail, sizeof(s->detail), format, args);
        va_end(args);
    }
    return passed == UMA_YES;
}

/* ---- a child that allocates ------------------------------------------------------------------------------------- */

/* Starts it, with a context. False, and the step says why. */
static bool begin(struct uma_limit_backend *backend, const char *name, const struct uma_cuda_child_options *options,
                  struct uma_cuda_child *ret_child) {
    struct uma_error err = { 0 };
    char at[16];
    int code;
    ret_child->fd = -1;
    if (uma_cuda_child_start(options, ret_child, &err) < 0 || uma_cuda_child_begin(ret_child, at, &code, &err) < 0) {
        if (ret_child->fd >= 0) /* it answered, and that was none */
            uma_cuda_child_end(ret_child);
        return step(backend, name, UMA_MAYBE, "%s", err.text);
    }
    if (strcmp(at, "ready") == 0)
        return true;
    uma_cuda_child_end(ret_child);
    if (code == -1)
        return step(backend, name, UMA_MAYBE, "there is no CUDA driver to try it with (libcuda.so.1)");
    if (strcmp(at, "group") == 0)
        return step(backend, name, UMA_MAYBE, "a child could not enter the group: %s", strerror(code));
    return step(backend, name, UMA_MAYBE, "CUDA came to \"%s\" and error %d", at, code);
}

/* The CUresult of an allocation, or -1. */
static int take(struct uma_cuda_child *child, uint64_t bytes, struct uma_error *err) {
    int code = -1;
    return uma_cuda_child_take(child, bytes, &code, err) < 0 ? -1 : code;
}

/* Without a limit it must be given, or a refusal would say nothing. */
static bool is_given(struct uma_limit_backend *backend, const char *name, uint64_t bytes, struct uma_cuda_child *child) {
    struct uma_error err = { 0 };
    int code = take(child, bytes, &err);
    if (code == CUDA_SUCCESS)
        return step(backend, name, UMA_YES, "%llu MiB given", (unsigned long long)(bytes >> 20));
    if (code < 0)
        return step(backend, name, UMA_MAYBE, "%s", err.text);
    return step(backend, name, UMA_MAYBE, "%llu MiB refused without a limit: error %d", (unsigned long long)(bytes >> 20), code);
}

static void probe_interposer(struct uma_limit_backend *backend) {
    struct uma_error err = { 0 };
    char library[PATH_MAX], settings[64];
    struct uma_cuda_child child;
    backend->state = UMA_LIMIT_NO_LIBRARY;
    int r = uma_library_find(&uma_library_valve, library, &err);
    if (!step(backend, "library", r < 0 ? UMA_NO : UMA_YES, "%.200s", r < 0 ? err.text : library))
        return;
    backend->state = UMA_LIMIT_UNTESTED;
    if (!begin(backend, "without", &(struct uma_cuda_child_options){ .procs = -1 }, &child))
        return;
    bool given = is_given(backend, "without", UMA_LIMIT_PROBE_VALVE_TAKE, &child);
    uma_cuda_child_end(&child);
    (void)snprintf(settings, sizeof(settings), "report:raw,floor:0,ceiling:%llu", UMA_LIMIT_PROBE_VALVE_LIMIT);
    if (!given ||
        !begin(backend, "refused", &(struct uma_cuda_child_options){ .procs = -1, .valve = library, .settings = settings }, &child))
        return;
    int code = take(&child, UMA_LIMIT_PROBE_VALVE_TAKE, &err);
    uma_cuda_child_end(&child);
    struct uma_limit_findings findings = { .set = true, .read_back = true, .refused = code, .taken_back = true };
    backend->state = uma_limit_judge(&findings);
    if (code < 0)
        (void)step(backend, "refused", UMA_MAYBE, "%s", err.text);
    else
        (void)step(backend, "refused", code == CUDA_ERROR_OUT_OF_MEMORY ? UMA_YES : UMA_NO, "%llu MiB under a limit of %llu MiB: error %d",
                   UMA_LIMIT_PROBE_VALVE_TAKE >> 20, UMA_LIMIT_PROBE_VALVE_LIMIT >> 20, code);
}

/* ---- the driver ------------------------------------------------------------------------------------------------- */

static enum uma_limit_state state_of(enum uma_driver_limits_state state) {
    switch (state) {
    case UMA_DRIVER_LIMITS_UNSUPPORTED:
    case UMA_DRIVER_LIMITS_UNSET:
        return UMA_LIMIT_UNSUPPORTED;
    case UMA_DRIVER_LIMITS_DENIED:
        return UMA_LIMIT_NO_PERMISSION;
    case UMA_DRIVER_LIMITS_NO_SYMBOLS:
        return UMA_LIMIT_NO_SYMBOLS;
    case UMA_DRIVER_LIMITS_NO_DRIVER:
    case UMA_DRIVER_LIMITS_NO_GPU:
        return UMA_LIMIT_NO_DRIVER;
    case UMA_DRIVER_LIMITS_NO_LIBRARY:
        return UMA_LIMIT_NO_LIBRARY;
    case UMA_DRIVER_LIMITS_HUNG:
        return UMA_LIMIT_HUNG;
    default:
        return UMA_LIMIT_FAILED;
    }
}

/* Is the driver there at all, and does it have the calls? Asked of a folder that everybody has, and changes nothing. */
static bool look_for_calls(const char *nvml, struct uma_limit_probe *probe) {
    struct uma_driver_limits limits;
    char why[400];
    uma_driver_limits_read(nvml, "/sys/fs/cgroup", &limits);
    (void)snprintf(probe->driver_version, sizeof(probe->driver_version), "%s", limits.driver);
    struct uma_limit_backend *backend = &probe->driver;
    uma_driver_limit_explain(&limits, why, sizeof(why));
    /* a GPU was asked: the calls are there, whatever they say of this folder */
    if (limits.n > 0)
        return step(backend, "library", UMA_YES, "driver %s", limits.driver[0] ? limits.driver : "of an unknown version") &&
               step(backend, "symbols", UMA_YES, "nvmlDeviceSetMemoryLimits_v1");
    backend->state = state_of(limits.state);
    if (limits.state == UMA_DRIVER_LIMITS_NO_SYMBOLS) {
        (void)step(backend, "library", UMA_YES, "driver %s", limits.driver);
        return step(backend, "symbols", UMA_NO, "%.250s", why);
    }
    return step(backend, "library", UMA_NO, "%.250s", why);
}

static bool set(struct uma_limit_probe *probe, const struct uma_driver_limit_place *place, uint64_t limit,
                struct uma_limit_findings *findings) {
    struct uma_driver_limits limits;
    struct uma_error err = { 0 };
    struct uma_limit_backend *backend = &probe->driver;
    int r = uma_driver_limit_set(place, limit, &limits, &err);
    bool taken = r >= 0 || r == -EBADMSG;
    findings->set = taken;
    findings->read_back = r >= 0;
    if (!step(backend, "set", taken ? UMA_YES : UMA_NO, "%.250s", taken ? "64 MiB above what the group has" : err.text)) {
        backend->state = state_of(limits.state);
        return false;
    }
    if (!step(backend, "read-back", r >= 0 ? UMA_YES : UMA_NO, "%.250s", r >= 0 ? "equal" : err.text)) {
        backend->state = UMA_LIMIT_NOT_READ_BACK;
        return false;
    }
    return true;
}

static void witness(struct uma_root *root, const char *group, uint64_t limit, struct uma_limit_probe *probe) {
    uma_dmem_read(root, group, &probe->dmem);
    enum uma_truth agrees = uma_dmem_agrees(&probe->dmem, limit);
    probe->has_dmem = probe->dmem.nvidia;
    (void)step(&probe->driver, "dmem", agrees,
               agrees == UMA_YES  ? "dmem.max of the group says the same"
               : agrees == UMA_NO ? "dmem.max of the group says something else"
                                  : "the kernel's dmem controller lists no memory of NVIDIA's");
}

static void try_beyond(struct uma_limit_backend *backend, struct uma_cuda_child *child, const char *name, int wanted, int *ret_code) {
    struct uma_error err = { 0 };
    if (child->fd < 0)
        return;
    int code = take(child, UMA_LIMIT_PROBE_TAKE, &err);
    if (code < 0)
        (void)step(backend, name, UMA_MAYBE, "%s", err.text);
    else
        (void)step(backend, name, code == wanted ? UMA_YES : UMA_NO, code ? "96 MiB refused: error %d" : "96 MiB given", code);
    *ret_code = code;
}

/* The child has its context before the limit stands, so that what a context takes, which nobody says, does not count. */
static void probe_group(struct uma_root *root, const struct uma_driver_limit_place *place, int procs, struct uma_limit_probe *probe) {
    struct uma_limit_findings findings = { .refused = -1, .afterwards = -1 };
    struct uma_limit_backend *backend = &probe->driver;
    struct uma_driver_limits limits;
    struct uma_error err = { 0 };
    struct uma_cuda_child child;
    if (begin(backend, "without", &(struct uma_cuda_child_options){ .procs = procs }, &child) &&
        !is_given(backend, "without", UMA_LIMIT_PROBE_TAKE, &child))
        uma_cuda_child_end(&child);
    uma_driver_limits_read(place->library, place->cgroup, &limits);
    uint64_t most = 0;
    for (unsigned i = 0; i < limits.n; i++)
        most = MAX_OF(most, limits.gpus[i].used);
    /* what it says is in use is a number of the driver's: an absurd one is none */
    uint64_t limit = (most < UINT64_MAX / 2 ? most : 0) / UMA_LIMIT_PROBE_STEP * UMA_LIMIT_PROBE_STEP + UMA_LIMIT_PROBE_LIMIT;
    if (set(probe, place, limit, &findings)) {
        witness(root, place->cgroup, limit, probe);
        try_beyond(backend, &child, "refused", CUDA_ERROR_OUT_OF_MEMORY, &findings.refused);
        findings.taken_back = uma_driver_limit_release(place, &limits, &err) >= 0;
        (void)step(backend, "taken-back", findings.taken_back ? UMA_YES : UMA_NO, "%.250s",
                   findings.taken_back ? "soft, then hard" : err.text);
        try_beyond(backend, &child, "afterwards", CUDA_SUCCESS, &findings.afterwards);
        backend->state = uma_limit_judge(&findings);
        if (child.fd < 0 && findings.refused < 0 && findings.read_back)
            backend->state = UMA_LIMIT_UNTESTED;
    }
    if (child.fd >= 0)
        uma_cuda_child_end(&child);
}

/* Its removal would take the hard limit along, but not a soft one from the groups above. False: the driver hangs, and would at the next one too. */
static bool release_one(void *userdata, const char *path) {
    struct uma_driver_limits limits;
    struct uma_driver_limit_place place = { .library = userdata, .cgroup = path };
    (void)uma_driver_limit_release(&place, &limits, NULL);
    return limits.state != UMA_DRIVER_LIMITS_HUNG;
}

unsigned uma_limit_probe_sweep(const char *library) {
    void *userdata = NULL;
    (void)memcpy(&userdata, &library, sizeof(library)); /* only read */
    return uma_limit_group_sweep(release_one, userdata);
}

static void probe_driver(const char *nvml, struct uma_root *root, struct uma_limit_probe *probe) {
    struct uma_cgroup_scope group;
    struct uma_limit_backend *backend = &probe->driver;
    if (!look_for_calls(nvml, probe))
        return;
    probe->swept = uma_limit_probe_sweep(nvml);
    uma_limit_group_create(1, &group);
    if (!step(backend, "group", group.dir_fd >= 0 ? UMA_YES : UMA_NO, "%.250s", group.dir_fd >= 0 ? group.path : group.note)) {
        backend->state = geteuid() == 0 ? UMA_LIMIT_NO_GROUP : UMA_LIMIT_NO_PERMISSION;
        return;
    }
    struct uma_driver_limit_place place = { .library = nvml, .cgroup = group.path };
    probe_group(root, &place, group.procs_fd, probe);
    /* a child that was killed a moment ago still holds the group */
    for (int i = 0; i < 100 && uma_limit_group_is_used(&group); i++)
        (void)usleep(10000);
    (void)uma_cgroup_scope_remove(&group);
}

void uma_limit_probe_run(const char *library, struct uma_root *root, struct uma_limit_probe *ret_probe) {
    *ret_probe = (struct uma_limit_probe){ 0 };
    probe_interposer(&ret_probe->interposer);
    probe_driver(library, root, ret_probe);
}
