/* SPDX-License-Identifier: MIT */
#include "observe/gpu_nvml.h"

#include "base/cleanup.h"
#include "observe/gpu_nvml_calls.h"
#include "observe/gpu_probe_protocol.h"
#include "observe/nvml_abi.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* The running-processes calls come in three kinds and three versions; `_v2` and `_v3` fill struct nvml_process, the first struct
 * nvml_process_v1. */
enum { KIND_COMPUTE, KIND_GRAPHICS, KIND_MPS, KINDS };
enum { KIND_V3, KIND_V2, KIND_V1, KIND_VERSIONS };
static const char *const process_calls[KINDS][KIND_VERSIONS] = {
    { "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses" },
    { "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses" },
    { "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
      "nvmlDeviceGetMPSComputeRunningProcesses" },
};
typedef int processes_call(nvml_device, unsigned *, void *);

struct nvml_library {
    char *path;
    void *handle;
    bool initialised;
    char cgroup[4096]; /* the reader's own cgroup v2 folder, "" unknown */
    uint8_t *data;
    size_t length, capacity;
    const char *(*error_string)(int);
    struct nvml_calls calls;
    processes_call *processes[KINDS][KIND_VERSIONS];
};

struct nvml_library *nvml_library_new(const char *path) {
    struct nvml_library *library = calloc(1, sizeof(*library));
    if (!library || !path)
        return library;
    library->path = strdup(path);
    if (library->path)
        return library;
    free(library);
    return NULL;
}

/* ---- the answer's memory ------------------------------------------------------------------------------------ */

/* Room for `size` more zeroed bytes; their offset in *ret_offset (a pointer would move when the buffer grows). */
static bool append(struct nvml_library *library, size_t size, size_t *ret_offset) {
    if (library->capacity - library->length < size) {
        size_t capacity = MAX_OF(library->capacity * 2, library->length + size);
        uint8_t *data = realloc(library->data, capacity);
        if (!data)
            return false;
        library->data = data;
        library->capacity = capacity;
    }
    *ret_offset = library->length;
    (void)memset(library->data + library->length, 0, size);
    library->length += size;
    return true;
}

static struct probe_answer *answer_of(const struct nvml_library *library) {
    return (struct probe_answer *)(void *)library->data;
}

static void refuse(struct nvml_library *library, uint32_t state, int code, const char *detail) {
    struct probe_answer *answer = answer_of(library);
    answer->state = state;
    answer->code = code;
    nvml_copy_text(answer->detail, sizeof(answer->detail), detail);
}

static const char *status_text(const struct nvml_library *library, int code) {
    const char *text = library->error_string ? library->error_string(code) : NULL;
    return text ? text : "an error without a name";
}

/* ---- loading ------------------------------------------------------------------------------------------------ */

/* dlsym gives an object pointer; POSIX promises that it holds a function's address. Copied, because ISO C has no such conversion. */
static void find(void *handle, void *member, size_t size, const char *newest, const char *older) {
    void *symbol = dlsym(handle, newest);
    if (!symbol && older)
        symbol = dlsym(handle, older);
    (void)memcpy(member, &symbol, size);
}

static bool load(struct nvml_library *library) {
    if (!library->handle)
        library->handle = dlopen(library->path ? library->path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library->handle) {
        refuse(library, PROBE_NO_LIBRARY, 0, dlerror());
        return false;
    }
#define X(member, parameters, newest, older) find(library->handle, &library->calls.member, sizeof(library->calls.member), newest, older);
    NVML_CALLS(X)
#undef X
    find(library->handle, &library->error_string, sizeof(library->error_string), "nvmlErrorString", NULL);
    for (int kind = 0; kind < KINDS; kind++)
        for (int version = 0; version < KIND_VERSIONS; version++)
            find(library->handle, &library->processes[kind][version], sizeof(processes_call *), process_calls[kind][version], NULL);
    if (library->calls.init && library->calls.device_count && library->calls.device)
        return true;
    refuse(library, PROBE_NOT_NVML, 0, "the library has no nvmlInit, nvmlDeviceGetCount or nvmlDeviceGetHandleByIndex");
    (void)dlclose(library->handle);
    library->handle = NULL;
    return false;
}

/* The cgroup v2 folder of this process, which is that of the reader: "0::/path" of /proc/self/cgroup under the usual mount. */
static void find_cgroup(struct nvml_library *library) {
    static const char mount[] = "/sys/fs/cgroup";
    char text[4096];
    _cleanup_close_ int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return;
    text[n] = '\0';
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return;
    const char *path = strchr(line, '/');
    size_t length = path ? strcspn(path, "\n") : 0;
    if (length == 0 || sizeof(mount) + length > sizeof(library->cgroup))
        return;
    (void)memcpy(library->cgroup, mount, sizeof(mount) - 1);
    (void)memcpy(library->cgroup + sizeof(mount) - 1, path, length);
    library->cgroup[sizeof(mount) - 1 + length] = '\0';
}

static bool initialise(struct nvml_library *library) {
    if (library->initialised)
        return true;
    if (!load(library))
        return false;
    int status = library->calls.init();
    if (status != NVML_OK) {
        refuse(library, PROBE_INIT_FAILED, status, status_text(library, status));
        return false;
    }
    find_cgroup(library);
    library->initialised = true;
    return true;
}

/* ---- processes ---------------------------------------------------------------------------------------------- */

/* Drivers 535.43 to 535.86 fill 32 bytes for each process in `_v3` (a member that was taken back later): `_v2` is right on all of 535. */
static bool third_is_odd(const struct nvml_library *library) {
    return strncmp(answer_of(library)->driver, "535.", 4) == 0;
}

static bool append_process(struct nvml_library *library, unsigned pid, unsigned long long bytes, bool compute) {
    size_t offset = 0;
    if (!append(library, sizeof(struct probe_process), &offset))
        return false;
    struct probe_process process = { .pid = (int32_t)pid, .compute = compute };
    if (bytes == NVML_BYTES_UNAVAILABLE)
        process.bytes.validity = UMA_UNKNOWN;
    else
        process.bytes = (struct probe_value){ .bits = bytes, .validity = UMA_KNOWN };
    (void)memcpy(library->data + offset, &process, sizeof(process));
    return true;
}

/* One list. It may grow between two calls, so the room given is larger than what was asked for; four tries, then it is "failed". */
static enum uma_validity read_process_list(struct nvml_library *library, nvml_device device, int kind, size_t room, uint32_t *n) {
    int version = KIND_V3;
    if (!library->processes[kind][KIND_V3] || (third_is_odd(library) && library->processes[kind][KIND_V2]))
        version = library->processes[kind][KIND_V2] ? KIND_V2 : KIND_V1;
    processes_call *call = library->processes[kind][version];
    if (!call)
        return UMA_ABSENT;
    enum { TRIES = 4, FIRST_ROOM = 64, SPARE = 32, LARGEST_ELEMENT = 32 };
    _cleanup_free_
    void *list = NULL;
    unsigned count = 0, capacity = FIRST_ROOM;
    int status = NVML_INSUFFICIENT_SIZE;
    for (int i = 0; i < TRIES && status == NVML_INSUFFICIENT_SIZE; i++) {
        free(list);
        list = calloc(capacity, LARGEST_ELEMENT);
        if (!list)
            return UMA_FAILED;
        count = capacity;
        status = call(device, &count, list);
        if (status == NVML_INSUFFICIENT_SIZE)
            capacity = MIN_OF(MAX_OF(count, capacity), (unsigned)UMA_GPU_PROCESSES_MAX - SPARE) + SPARE;
    }
    if (status != NVML_OK)
        return nvml_validity(status);
    if (count > capacity)
        return UMA_MALFORMED; /* more than there was room for */
    for (unsigned i = 0; i < count && *n < room; i++, (*n)++) {
        const struct nvml_process *now = (const struct nvml_process *)list + i;
        const struct nvml_process_v1 *old = (const struct nvml_process_v1 *)list + i;
        if (!append_process(library, version == KIND_V1 ? old->pid : now->pid, version == KIND_V1 ? old->bytes : now->bytes,
                            kind != KIND_GRAPHICS))
            return UMA_FAILED;
    }
    return UMA_KNOWN;
}

static void read_processes(struct nvml_library *library, nvml_device device, size_t gpu_offset, uint32_t *n) {
    enum uma_validity validity = read_process_list(library, device, KIND_COMPUTE, UMA_GPU_PROCESSES_MAX, n);
    /* the other two lists may be refused without making the first one less true */
    (void)read_process_list(library, device, KIND_GRAPHICS, UMA_GPU_PROCESSES_MAX, n);
    (void)read_process_list(library, device, KIND_MPS, UMA_GPU_PROCESSES_MAX, n);
    struct probe_gpu *gpu = (struct probe_gpu *)(void *)(library->data + gpu_offset);
    gpu->processes_validity = validity;
    gpu->n_processes = *n;
}

/* ---- all GPUs ----------------------------------------------------------------------------------------------- */

static bool read_gpus(struct nvml_library *library) {
    unsigned count = 0;
    int status = library->calls.device_count(&count);
    if (status != NVML_OK || count > UMA_GPUS_MAX) {
        bool many = status == NVML_OK;
        refuse(library, PROBE_COUNT_FAILED, status, many ? "NVML counts more GPUs than there can be" : status_text(library, status));
        /* the driver may have been reloaded under us: begin again at the next question */
        if (library->calls.shutdown)
            (void)library->calls.shutdown();
        library->initialised = false;
        return true;
    }
    nvml_device devices[UMA_GPUS_MAX];
    int statuses[UMA_GPUS_MAX];
    size_t first = 0, ignored = 0;
    if (!append(library, count * sizeof(struct probe_gpu), &first))
        return false;
    answer_of(library)->n_gpus = count;
    for (unsigned i = 0; i < count; i++) {
        struct probe_gpu gpu = { .numa_node = -1 };
        devices[i] = NULL;
        statuses[i] = library->calls.device(i, &devices[i]);
        if (statuses[i] == NVML_OK)
            nvml_read_gpu(&library->calls, devices[i], library->cgroup, &gpu);
        else
            nvml_read_nothing(statuses[i], &gpu);
        (void)memcpy(library->data + first + i * sizeof(gpu), &gpu, sizeof(gpu));
    }
    for (unsigned i = 0; i < count; i++) {
        uint32_t n = 0;
        if (statuses[i] == NVML_OK)
            read_processes(library, devices[i], first + i * sizeof(struct probe_gpu), &n);
        answer_of(library)->n_processes += n;
    }
    return append(library, 0, &ignored);
}

static void note_driver(const struct nvml_library *library) {
    char driver[256] = { 0 };
    if (library->calls.driver_version && library->calls.driver_version(driver, NVML_DRIVER_BYTES) == NVML_OK)
        nvml_copy_text(answer_of(library)->driver, sizeof(answer_of(library)->driver), driver);
}

/* The time of the answer goes into it; then it is whole. */
static const uint8_t *finish(struct nvml_library *library, size_t *ret_length) {
    struct timespec now = { 0 };
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    answer_of(library)->finished_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    *ret_length = library->length;
    return library->data;
}

const uint8_t *nvml_library_answer(struct nvml_library *library, size_t *ret_length) {
    size_t offset = 0;
    library->length = 0;
    if (!append(library, sizeof(struct probe_answer), &offset))
        return NULL;
    if (initialise(library)) {
        note_driver(library);
        if (!read_gpus(library))
            return NULL;
    }
    return finish(library, ret_length);
}

const uint8_t *nvml_library_limits(struct nvml_library *library, const struct probe_limits_ask *ask, size_t *ret_length) {
    size_t offset = 0;
    unsigned count = 0;
    library->length = 0;
    if (!append(library, sizeof(struct probe_answer), &offset))
        return NULL;
    if (!initialise(library))
        return finish(library, ret_length);
    note_driver(library);
    int status = library->calls.device_count(&count);
    if (!library->calls.memory_limits || !library->calls.set_memory_limits)
        refuse(library, PROBE_NO_SYMBOLS, NVML_FUNCTION_NOT_FOUND,
               "the library has no nvmlDeviceSetMemoryLimits_v1: a driver from before r615");
    else if (status != NVML_OK || count > UMA_GPUS_MAX)
        refuse(library, PROBE_COUNT_FAILED, status,
               status == NVML_OK ? "NVML counts more GPUs than there can be" : status_text(library, status));
    else {
        answer_of(library)->n_gpus = count;
        for (unsigned i = 0; i < count; i++) {
            struct probe_limits limits = { 0 };
            nvml_device device = NULL;
            limits.status = library->calls.device(i, &device);
            if (limits.status == NVML_OK)
                nvml_limits(&library->calls, device, ask, &limits);
            if (limits.status != NVML_OK && answer_of(library)->code == 0) {
                answer_of(library)->code = limits.status;
                nvml_copy_text(answer_of(library)->detail, sizeof(answer_of(library)->detail), status_text(library, limits.status));
            }
            if (!append(library, sizeof(limits), &offset))
                return NULL;
            (void)memcpy(library->data + offset, &limits, sizeof(limits));
        }
    }
    return finish(library, ret_length);
}
