/* SPDX-License-Identifier: MIT */
/*
 * What programs read. Under "report:pool", all readers say one truth: what this job may still take, by the same rule by which its calls are let through, and its limit or the pool as the total. NVML
 * says NOT_SUPPORTED on these machines; it is answered with the same.
 */
#include "valve/gate.h"
#include "valve/hook.h"
#include "valve/process.h"

/* The process, when the readers are to say the pool's truth. `unified`: the device's memory is known to be the machine's, whether or not the driver can be asked yet. */
static struct uma_valve_process *telling(bool unified) {
    const struct uma_valve_settings *settings = uma_valve_settings();
    struct uma_valve_process *process = settings->off || settings->report == UMA_VALVE_REPORT_RAW ? NULL : uma_valve_process();
    if (process && settings->report == UMA_VALVE_REPORT_AUTO && !unified && !uma_valve_process_unified(process))
        return NULL;
    return process;
}

struct truth {
    uint64_t free, total;
};

/* `total`: of the device, as the driver says; `unified`: its memory is the machine's. False: not known. */
static bool tell_truth(struct uma_valve_process *process, uint64_t total, bool unified, struct truth *ret_truth) {
    struct uma_valve_reading machine = { 0 };
    struct uma_valve_account *account = process->account;
    (void)uma_valve_pools_look(process); /* what nobody has any more is room, as it will be when it is asked for */
    (void)uma_valve_account_prune(account);
    struct uma_valve_question q = { .used = uma_valve_account_used(account),
                                    .ceiling = atomic_load(&account->ceiling),
                                    .unified = unified,
                                    .floor = atomic_load(&account->floor) };
    if (q.unified) {
        q.reserved = uma_valve_reserved(&process->reserved);
        q.known = uma_valve_process_read(process, &machine);
        q.available = machine.available;
        q.under_way = uma_valve_account_under_way(account);
        if (q.known && (!total || machine.total < total))
            total = machine.total;
    }
    if (!q.known && q.ceiling == UMA_VALVE_NONE)
        return false;
    ret_truth->total = q.ceiling < total ? q.ceiling : total;
    uint64_t room = uma_valve_room(&q);
    ret_truth->free = room < ret_truth->total ? room : ret_truth->total;
    return ret_truth->total > 0;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    UMA_VALVE_REAL(cuMemGetInfo_v2);
    struct truth truth;
    size_t real_free = 0, real_total = 0;
    struct uma_valve_process *process = uma_valve_inside() ? NULL : telling(false);
    if (!process)
        return real(free, total);
    CUresult r = real(&real_free, &real_total); /* some callers pass one NULL */
    bool told = r == CUDA_SUCCESS && tell_truth(process, real_total, uma_valve_process_unified(process), &truth);
    if (told && !uma_valve_process_unified(process) && truth.free > real_free)
        truth.free = real_free; /* others use the device, too */
    if (r == CUDA_SUCCESS && free)
        *free = told ? truth.free : real_free;
    if (r == CUDA_SUCCESS && total)
        *total = told ? truth.total : real_total;
    return r;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    UMA_VALVE_REAL(cuDeviceTotalMem_v2);
    struct truth truth;
    CUresult r = real(bytes, dev);
    struct uma_valve_process *process = r == CUDA_SUCCESS && bytes && !uma_valve_inside() ? telling(false) : NULL;
    if (process && tell_truth(process, *bytes, uma_valve_process_unified(process), &truth))
        *bytes = truth.total;
    return r;
}

enum { NVML_ERROR_UNINITIALIZED = 1 };

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    __typeof__(nvmlDeviceGetMemoryInfo) *real = (__typeof__(nvmlDeviceGetMemoryInfo) *)uma_valve_real(UMA_VALVE_nvmlDeviceGetMemoryInfo);
    struct truth truth;
    if (!real)
        return NVML_ERROR_UNINITIALIZED;
    nvmlReturn_t r = real(device, memory);
    bool unified =
        r == NVML_ERROR_NOT_SUPPORTED; /* it says that of devices without memory of their own; a program may ask it before the driver */
    struct uma_valve_process *process = (r == NVML_SUCCESS || r == NVML_ERROR_NOT_SUPPORTED) && memory ? telling(unified) : NULL;
    if (!process || !tell_truth(process, r == NVML_SUCCESS ? memory->total : 0, unified || uma_valve_process_unified(process), &truth))
        return r;
    *memory = (nvmlMemory_t){ .total = truth.total, .free = truth.free, .used = truth.total - truth.free };
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    __typeof__(nvmlDeviceGetMemoryInfo_v2) *real =
        (__typeof__(nvmlDeviceGetMemoryInfo_v2) *)uma_valve_real(UMA_VALVE_nvmlDeviceGetMemoryInfo_v2);
    struct truth truth;
    if (!real)
        return NVML_ERROR_UNINITIALIZED;
    unsigned version = memory ? memory->version : 0;
    nvmlReturn_t r = real(device, memory);
    bool unified = r == NVML_ERROR_NOT_SUPPORTED;
    bool ours = memory && version == (2U << 24 | (unsigned)sizeof(*memory));
    struct uma_valve_process *process = (r == NVML_SUCCESS || r == NVML_ERROR_NOT_SUPPORTED) && ours ? telling(unified) : NULL;
    if (!process || !tell_truth(process, r == NVML_SUCCESS ? memory->total : 0, unified || uma_valve_process_unified(process), &truth))
        return r;
    *memory = (nvmlMemory_v2_t){ .version = version, .total = truth.total, .free = truth.free, .used = truth.total - truth.free };
    return NVML_SUCCESS;
}
