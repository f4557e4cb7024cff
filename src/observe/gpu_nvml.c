/* SPDX-License-Identifier: MIT */
#include "observe/gpu_nvml.h"

#include "base/cleanup.h"
#include "observe/gpu_probe_protocol.h"
#include "observe/nvml_abi.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

/*
 * The entry points. X(member, parameters, newest name, older names ...): the first name that the library has is used. A member that stays
 * NULL is a field that this driver cannot answer.
 */
#define NVML_CALLS(X)                                                                                                                      \
    X(init, (void), "nvmlInit_v2", "nvmlInit")                                                                                             \
    X(shutdown, (void), "nvmlShutdown", NULL)                                                                                              \
    X(driver_version, (char *, unsigned), "nvmlSystemGetDriverVersion", NULL)                                                              \
    X(device_count, (unsigned *), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")                                                           \
    X(device, (unsigned, nvml_device *), "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")                                    \
    X(name, (nvml_device, char *, unsigned), "nvmlDeviceGetName", NULL)                                                                    \
    X(uuid, (nvml_device, char *, unsigned), "nvmlDeviceGetUUID", NULL)                                                                    \
    X(pci_v3, (nvml_device, struct nvml_pci *), "nvmlDeviceGetPciInfo_v3", NULL)                                                           \
    X(pci, (nvml_device, struct nvml_pci *), "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo")                                            \
    X(memory_v2, (nvml_device, struct nvml_memory_v2 *), "nvmlDeviceGetMemoryInfo_v2", NULL)                                               \
    X(memory, (nvml_device, struct nvml_memory *), "nvmlDeviceGetMemoryInfo", NULL)                                                        \
    X(memory_limits, (nvml_device, struct nvml_memory_limits *), "nvmlDeviceGetMemoryLimits_v1", NULL)                                     \
    X(numa_node, (nvml_device, unsigned *), "nvmlDeviceGetNumaNodeId", NULL)                                                               \
    X(temperature, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetTemperature", NULL)                                                  \
    X(margin, (nvml_device, struct nvml_margin_temperature *), "nvmlDeviceGetMarginTemperature", NULL)                                     \
    X(power, (nvml_device, unsigned *), "nvmlDeviceGetPowerUsage", NULL)                                                                   \
    X(power_limit, (nvml_device, unsigned *), "nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit")                      \
    X(energy, (nvml_device, unsigned long long *), "nvmlDeviceGetTotalEnergyConsumption", NULL)                                            \
    X(clock, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetClockInfo", NULL)                                                          \
    X(clock_max, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetMaxClockInfo", NULL)                                                   \
    X(utilization, (nvml_device, struct nvml_utilization *), "nvmlDeviceGetUtilizationRates", NULL)                                        \
    X(pstate, (nvml_device, unsigned *), "nvmlDeviceGetPerformanceState", NULL)                                                            \
    X(reasons, (nvml_device, unsigned long long *), "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons") \
    X(fields, (nvml_device, int, struct nvml_field *), "nvmlDeviceGetFieldValues", NULL)

/* The running-processes calls come in three kinds and three versions; `_v2` and `_v3` fill struct nvml_process, the first struct nvml_process_v1. */
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
#define X(member, parameters, ...) int(*member) parameters;
    NVML_CALLS(X)
#undef X
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

static void copy_text(char *into, size_t size, const char *from) {
    size_t n = from ? strnlen(from, size - 1) : 0;
    (void)memcpy(into, from ? from : "", n);
    into[n] = '\0';
}

static void refuse(struct nvml_library *library, uint32_t state, int code, const char *detail) {
    struct probe_answer *answer = answer_of(library);
    answer->state = state;
    answer->code = code;
    copy_text(answer->detail, sizeof(answer->detail), detail);
}

static const char *status_text(const struct nvml_library *library, int code) {
    const char *text = library->error_string ? library->error_string(code) : NULL;
    return text ? text : "an error without a name";
}

/* What a status says about the field that was asked for. */
static enum uma_validity validity_of(int status) {
    switch (status) {
    case NVML_OK:
        return UMA_KNOWN;
    case NVML_NOT_SUPPORTED:
    case NVML_INVALID_ARGUMENT:
    case NVML_ARGUMENT_VERSION_MISMATCH:
    case NVML_DEPRECATED:
        return UMA_UNSUPPORTED;
    case NVML_NO_PERMISSION:
    case NVML_OPERATING_SYSTEM:
        return UMA_DENIED;
    case NVML_FUNCTION_NOT_FOUND:
    case NVML_NOT_FOUND:
        return UMA_ABSENT;
    case NVML_NO_DATA:
        return UMA_UNKNOWN;
    default:
        return UMA_FAILED;
    }
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
#define X(member, parameters, newest, older) find(library->handle, &library->member, sizeof(library->member), newest, older);
    NVML_CALLS(X)
#undef X
    find(library->handle, &library->error_string, sizeof(library->error_string), "nvmlErrorString", NULL);
    for (int kind = 0; kind < KINDS; kind++)
        for (int version = 0; version < KIND_VERSIONS; version++)
            find(library->handle, &library->processes[kind][version], sizeof(processes_call *), process_calls[kind][version], NULL);
    if (library->init && library->device_count && library->device)
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
    int status = library->init();
    if (status != NVML_OK) {
        refuse(library, PROBE_INIT_FAILED, status, status_text(library, status));
        return false;
    }
    find_cgroup(library);
    library->initialised = true;
    return true;
}

/* ---- one GPU ------------------------------------------------------------------------------------------------ */

static void set(struct probe_gpu *gpu, int number, int status, uint64_t bits) {
    enum uma_validity validity = validity_of(status);
    gpu->numbers[number] = (struct probe_value){ .bits = validity == UMA_KNOWN ? bits : 0, .validity = validity };
}

static void read_identity(const struct nvml_library *library, nvml_device device, struct probe_gpu *gpu) {
    /* each is written into memory of its own, larger than what is promised: a longer text must not spill into the next field */
    char text[256] = { 0 };
    if (library->name && library->name(device, text, NVML_NAME_BYTES) == NVML_OK)
        copy_text(gpu->name, sizeof(gpu->name), text);
    (void)memset(text, 0, sizeof(text));
    if (library->uuid && library->uuid(device, text, NVML_UUID_BYTES) == NVML_OK)
        copy_text(gpu->uuid, sizeof(gpu->uuid), text);
    struct nvml_pci pci = { 0 };
    if (library->pci_v3 && library->pci_v3(device, &pci) == NVML_OK)
        (void)memcpy(gpu->pci, pci.bus_id, sizeof(gpu->pci) - 1);
    else if (library->pci && library->pci(device, &pci) == NVML_OK)
        (void)memcpy(gpu->pci, pci.bus_id_legacy, sizeof(pci.bus_id_legacy) - 1);
    unsigned node = 0;
    if (library->numa_node && library->numa_node(device, &node) == NVML_OK && node <= INT16_MAX) {
        gpu->numa_node = (int32_t)node;
        gpu->unified = UMA_NO; /* its memory is a node of its own */
    }
}

static void read_memory(const struct nvml_library *library, nvml_device device, struct probe_gpu *gpu) {
    struct nvml_memory_v2 v2 = { .version = NVML_VERSIONED(struct nvml_memory_v2, 2) };
    struct nvml_memory v1 = { 0 };
    int status = library->memory_v2 ? library->memory_v2(device, &v2) : NVML_FUNCTION_NOT_FOUND;
    if (status == NVML_OK) {
        v1 = (struct nvml_memory){ .total = v2.total, .free = v2.free, .used = v2.used };
    } else if (library->memory) {
        v1 = (struct nvml_memory){ 0 };
        status = library->memory(device, &v1);
    }
    set(gpu, PROBE_MEMORY_TOTAL, status, v1.total);
    set(gpu, PROBE_MEMORY_USED, status, v1.used);
    set(gpu, PROBE_MEMORY_FREE, status, v1.free);
    /* NVML API reference, nvmlDeviceGetMemoryInfo: an SoC's integrated GPU without a framebuffer of its own answers "not supported" */
    if (status == NVML_NOT_SUPPORTED && gpu->unified == UMA_MAYBE)
        gpu->unified = UMA_YES;

    struct nvml_memory_limits limits = { .cgroup = library->cgroup };
    status = NVML_FUNCTION_NOT_FOUND;
    if (library->memory_limits)
        status = library->cgroup[0] ? library->memory_limits(device, &limits) : NVML_NOT_FOUND;
    set(gpu, PROBE_CONTAINER_USED, status, limits.used);
    set(gpu, PROBE_CONTAINER_LIMIT, status, limits.hard);
    if (status == NVML_OK && limits.hard == NVML_LIMIT_MAX)
        gpu->numbers[PROBE_CONTAINER_LIMIT] = (struct probe_value){ .validity = UMA_UNLIMITED };
}

/* A second source for a number: its answer counts when it has one, and its reason where the first source had none of its own. */
static void set_otherwise(struct probe_gpu *gpu, int number, int status, uint64_t bits) {
    enum uma_validity first = (enum uma_validity)gpu->numbers[number].validity;
    if (status == NVML_OK || first == UMA_UNKNOWN || (first == UMA_ABSENT && status != NVML_FUNCTION_NOT_FOUND))
        set(gpu, number, status, bits);
}

/* Does nothing when the number is already known: the callers go from the better source to the worse one. */
static void read_unsigned(int (*call)(nvml_device, unsigned *), nvml_device device, struct probe_gpu *gpu, int number) {
    if (gpu->numbers[number].validity == UMA_KNOWN)
        return;
    unsigned value = 0;
    int status = call ? call(device, &value) : NVML_FUNCTION_NOT_FOUND;
    set_otherwise(gpu, number, status, value);
}

static void read_indexed(int (*call)(nvml_device, unsigned, unsigned *), nvml_device device, unsigned index, struct probe_gpu *gpu,
                         int number) {
    unsigned value = 0;
    int status = call ? call(device, index, &value) : NVML_FUNCTION_NOT_FOUND;
    set(gpu, number, status, value);
}

/* A field's value as an unsigned number; a type or a sign that it cannot have is malformed. */
static struct probe_value value_of(const struct nvml_field *field) {
    enum uma_validity validity = validity_of(field->result);
    if (validity != UMA_KNOWN)
        return (struct probe_value){ .validity = validity };
    bool negative = false;
    uint64_t bits = 0;
    switch (field->type) {
    case NVML_TYPE_DOUBLE:
        negative = !(field->value.d >= 0 && field->value.d < 18446744073709551616.0); /* also NaN */
        bits = negative ? 0 : (uint64_t)field->value.d;
        break;
    case NVML_TYPE_UNSIGNED:
        bits = field->value.u;
        break;
    case NVML_TYPE_ULONG:
        bits = field->value.ul;
        break;
    case NVML_TYPE_ULONGLONG:
        bits = field->value.ull;
        break;
    case NVML_TYPE_LONGLONG:
        negative = field->value.ll < 0;
        bits = (uint64_t)field->value.ll;
        break;
    case NVML_TYPE_INT:
        negative = field->value.i < 0;
        bits = (uint64_t)field->value.i;
        break;
    case NVML_TYPE_USHORT:
        bits = field->value.us;
        break;
    default:
        negative = true;
    }
    return negative ? (struct probe_value){ .validity = UMA_MALFORMED } : (struct probe_value){ .bits = bits, .validity = UMA_KNOWN };
}

static void read_fields(const struct nvml_library *library, nvml_device device, struct probe_gpu *gpu) {
    static const struct {
        unsigned id;
        int number;
    } wanted[] = {
        { NVML_FIELD_SW_POWER_CAP, PROBE_THROTTLE + UMA_THROTTLE_SW_POWER_CAP },
        { NVML_FIELD_SYNC_BOOST, PROBE_THROTTLE + UMA_THROTTLE_SYNC_BOOST },
        { NVML_FIELD_SW_THERMAL, PROBE_THROTTLE + UMA_THROTTLE_SW_THERMAL },
        { NVML_FIELD_HW_THERMAL, PROBE_THROTTLE + UMA_THROTTLE_HW_THERMAL },
        { NVML_FIELD_HW_POWER_BRAKE, PROBE_THROTTLE + UMA_THROTTLE_HW_POWER_BRAKE },
        { NVML_FIELD_POWER_AVERAGE, PROBE_POWER },
        { NVML_FIELD_POWER_INSTANT, PROBE_POWER_INSTANT },
        { NVML_FIELD_POWER_LIMIT, PROBE_POWER_LIMIT },
        { NVML_FIELD_TOTAL_ENERGY, PROBE_ENERGY },
    };
    struct nvml_field fields[ELEMENTS(wanted)] = { 0 };
    /* `result` starts as "no data", so that a field which the library never touched is not taken for an answer */
    for (size_t i = 0; i < ELEMENTS(wanted); i++)
        fields[i] = (struct nvml_field){ .id = wanted[i].id, .result = NVML_NO_DATA };
    int status = library->fields ? library->fields(device, (int)ELEMENTS(fields), fields) : NVML_FUNCTION_NOT_FOUND;
    for (size_t i = 0; i < ELEMENTS(wanted); i++) {
        if (status == NVML_OK)
            gpu->numbers[wanted[i].number] = value_of(&fields[i]);
        else
            set(gpu, wanted[i].number, status, 0);
    }
}

static void read_heat(const struct nvml_library *library, nvml_device device, struct probe_gpu *gpu) {
    read_indexed(library->temperature, device, NVML_TEMPERATURE_GPU, gpu, PROBE_CELSIUS);
    struct nvml_margin_temperature margin = { .version = NVML_VERSIONED(struct nvml_margin_temperature, 1) };
    int status = library->margin ? library->margin(device, &margin) : NVML_FUNCTION_NOT_FOUND;
    set(gpu, PROBE_LIMIT_MARGIN, status, (uint64_t)(int64_t)margin.celsius);

    read_fields(library, device, gpu);
    read_unsigned(library->power, device, gpu, PROBE_POWER); /* the same one-second average since Ampere */
    read_unsigned(library->power_limit, device, gpu, PROBE_POWER_LIMIT);
    if (gpu->numbers[PROBE_ENERGY].validity != UMA_KNOWN && library->energy) {
        unsigned long long millijoules = 0;
        status = library->energy(device, &millijoules);
        set_otherwise(gpu, PROBE_ENERGY, status, millijoules);
    }

    read_indexed(library->clock, device, NVML_CLOCK_SM, gpu, PROBE_SM_CLOCK);
    read_indexed(library->clock_max, device, NVML_CLOCK_SM, gpu, PROBE_SM_CLOCK_MAX);
    read_indexed(library->clock, device, NVML_CLOCK_MEMORY, gpu, PROBE_MEMORY_CLOCK);
    struct nvml_utilization utilization = { 0 };
    status = library->utilization ? library->utilization(device, &utilization) : NVML_FUNCTION_NOT_FOUND;
    set(gpu, PROBE_UTILIZATION, status, utilization.gpu);
    set(gpu, PROBE_MEMORY_UTILIZATION, status, utilization.memory);
    read_unsigned(library->pstate, device, gpu, PROBE_PSTATE);
    unsigned long long reasons = 0;
    status = library->reasons ? library->reasons(device, &reasons) : NVML_FUNCTION_NOT_FOUND;
    set(gpu, PROBE_REASONS, status, reasons);
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
        return validity_of(status);
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

static void read_gpu(const struct nvml_library *library, nvml_device device, struct probe_gpu *gpu) {
    read_identity(library, device, gpu);
    read_memory(library, device, gpu);
    read_heat(library, device, gpu);
}

/* A GPU whose handle is refused (lost from the bus, no permission) is listed, with the reason in every field. */
static void read_nothing(int status, struct probe_gpu *gpu) {
    for (int i = 0; i < PROBE_NUMBERS; i++)
        set(gpu, i, status, 0);
    gpu->processes_validity = validity_of(status);
}

static bool read_gpus(struct nvml_library *library) {
    unsigned count = 0;
    int status = library->device_count(&count);
    if (status != NVML_OK || count > UMA_GPUS_MAX) {
        bool many = status == NVML_OK;
        refuse(library, PROBE_COUNT_FAILED, status, many ? "NVML counts more GPUs than there can be" : status_text(library, status));
        /* the driver may have been reloaded under us: begin again at the next question */
        if (library->shutdown)
            (void)library->shutdown();
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
        statuses[i] = library->device(i, &devices[i]);
        if (statuses[i] == NVML_OK)
            read_gpu(library, devices[i], &gpu);
        else
            read_nothing(statuses[i], &gpu);
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

const uint8_t *nvml_library_answer(struct nvml_library *library, size_t *ret_length) {
    size_t offset = 0;
    library->length = 0;
    if (!append(library, sizeof(struct probe_answer), &offset))
        return NULL;
    if (initialise(library)) {
        char driver[256] = { 0 };
        if (library->driver_version && library->driver_version(driver, NVML_DRIVER_BYTES) == NVML_OK)
            copy_text(answer_of(library)->driver, sizeof(answer_of(library)->driver), driver);
        if (!read_gpus(library))
            return NULL;
    }
    *ret_length = library->length;
    return library->data;
}
