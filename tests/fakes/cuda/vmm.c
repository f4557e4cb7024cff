/* SPDX-License-Identifier: MIT */
/* Virtual memory management: handles, ranges of addresses, mappings. */
#include "fake.h"
#include "functions.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POSIX_DESCRIPTOR = 1 };

struct mapping {
    struct mapping *next;
    uint64_t at, size, handle;
};

static struct mapping *mappings; /* under fake_lock */

void fake_mappings_forget(void) {
    mappings = NULL;
}

static bool location_valid(const CUmemLocation *l) {
    return (l->type == CU_MEM_LOCATION_TYPE_DEVICE && fake_device_valid(l->id)) ||
           (l->type >= CU_MEM_LOCATION_TYPE_HOST && l->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    FAKE_READY();
    if (!handle || !prop || size == 0 || size % FAKE_GRANULARITY != 0 || flags != 0 || prop->type != 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (!location_valid(&prop->location))
        return prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? FAKE_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    CUresult r = fake_gate(size);
    const struct fake_thing *thing = r == CUDA_SUCCESS ? fake_take(FAKE_KIND_HANDLE, size, NULL, 0) : NULL;
    if (!thing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = thing->key;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    FAKE_READY();
    FAKE_GIVES_BACK();
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_thing *thing = fake_find(FAKE_KIND_HANDLE, handle);
    bool valid = thing && thing->users > 0;
    if (valid)
        thing->users--;
    (void)pthread_mutex_unlock(&fake_lock);
    if (!valid)
        return CUDA_ERROR_INVALID_VALUE;
    fake_give_if_unused(handle);
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    FAKE_READY();
    uint64_t at = (uint64_t)(uintptr_t)addr, found = 0;
    if (!handle || !addr)
        return CUDA_ERROR_INVALID_VALUE;
    (void)pthread_mutex_lock(&fake_lock);
    for (const struct mapping *m = mappings; m && !found; m = m->next)
        found = at >= m->at && at - m->at < m->size ? m->handle : 0;
    struct fake_thing *thing = found ? fake_find(FAKE_KIND_HANDLE, found) : NULL;
    if (thing)
        thing->users++;
    (void)pthread_mutex_unlock(&fake_lock);
    if (!thing)
        return CUDA_ERROR_INVALID_VALUE;
    *handle = found;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    FAKE_READY();
    if (!ptr || size == 0 || size % FAKE_GRANULARITY != 0 || offset != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct mapping *m = calloc(1, sizeof(*m));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *m = (struct mapping){ .at = ptr, .size = size, .handle = handle };
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_thing *thing = fake_find(FAKE_KIND_HANDLE, handle);
    if (thing && thing->users > 0 && size <= thing->backing.size) {
        thing->mappings++;
        m->next = mappings;
        mappings = m;
        m = NULL;
    }
    (void)pthread_mutex_unlock(&fake_lock);
    free(m);
    return m ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* One that begins in the range is taken out: it, or NULL. */
static struct mapping *take_one(uint64_t ptr, uint64_t size) {
    struct mapping *found = NULL;
    (void)pthread_mutex_lock(&fake_lock);
    for (struct mapping **m = &mappings; *m && !found;)
        if ((*m)->at >= ptr && (*m)->at - ptr < size) {
            found = *m;
            *m = found->next;
            struct fake_thing *thing = fake_find(FAKE_KIND_HANDLE, found->handle);
            if (thing)
                thing->mappings--;
        } else
            m = &(*m)->next;
    (void)pthread_mutex_unlock(&fake_lock);
    return found;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
    FAKE_READY();
    FAKE_GIVES_BACK();
    unsigned n = 0;
    if (size % FAKE_GRANULARITY != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct mapping *m; (m = take_one(ptr, size)); n++) {
        fake_give_if_unused(m->handle);
        free(m);
    }
    return n > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags) {
    FAKE_READY();
    (void)addr;
    if (!ptr || size == 0 || size % FAKE_GRANULARITY != 0 || flags != 0 || (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t step = alignment > FAKE_GRANULARITY ? alignment : FAKE_GRANULARITY;
    *ptr = (fake_new_key(size + step) + step - 1) / step * step;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    FAKE_READY();
    return ptr && size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const void *desc, size_t count) {
    FAKE_READY();
    return ptr && size && desc && count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, int option) {
    FAKE_READY();
    if (!granularity || !prop || (option != 0 && option != 1))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = FAKE_GRANULARITY;
    return CUDA_SUCCESS;
}

/* As a descriptor of which nothing but its existence means anything; what is imported is another's memory, and no bytes here. */
CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle, int handleType,
                                      unsigned long long flags) {
    FAKE_READY();
    (void)pthread_mutex_lock(&fake_lock);
    bool valid = shareableHandle && flags == 0 && fake_find(FAKE_KIND_HANDLE, handle);
    (void)pthread_mutex_unlock(&fake_lock);
    if (!valid)
        return CUDA_ERROR_INVALID_VALUE;
    if (handleType != POSIX_DESCRIPTOR)
        return FAKE_NOT_SUPPORTED;
    int fd = memfd_create("shared-handle", MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(int *)shareableHandle = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle, int shHandleType) {
    FAKE_READY();
    if (!handle || shHandleType != POSIX_DESCRIPTOR || lseek((int)(intptr_t)osHandle, 0, SEEK_CUR) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    const struct fake_thing *thing = fake_take(FAKE_KIND_HANDLE, 0, NULL, 0);
    if (!thing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *handle = thing->key;
    return CUDA_SUCCESS;
}
