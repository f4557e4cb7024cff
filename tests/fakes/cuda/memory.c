/* SPDX-License-Identifier: MIT */
/* Memory by pointer, arrays, device code, and what programs read. */
#include "fake.h"
#include "functions.h"

#include <dlfcn.h>
#include <unistd.h>

static CUresult take(enum fake_kind kind, uint64_t size, uint64_t *ret_key) {
    CUresult r = fake_gate(size);
    const struct fake_thing *thing = r == CUDA_SUCCESS ? fake_take(kind, size, fake_context(), 0) : NULL;
    if (!thing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret_key = thing->key;
    return CUDA_SUCCESS;
}

static CUresult take_pointer(enum fake_kind kind, CUdeviceptr *dptr, size_t size) {
    FAKE_IN_CONTEXT();
    uint64_t key;
    if (!dptr || size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = take(kind, size, &key);
    if (r == CUDA_SUCCESS)
        *dptr = key;
    return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    return take_pointer(FAKE_KIND_DEVICE, dptr, bytesize);
}

/* As whoever stands before the driver has it, in the scenario where the driver calls that. */
static CUresult again(CUdeviceptr *dptr, size_t bytesize) {
    CUresult (*exported)(CUdeviceptr *, size_t) =
        fake_cuda_scenario()->nested ? (CUresult(*)(CUdeviceptr *, size_t))dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") : NULL;
    return exported ? exported(dptr, bytesize) : cuMemAlloc_v2(dptr, bytesize);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height, unsigned ElementSizeBytes) {
    FAKE_IN_CONTEXT();
    size_t pitch = (WidthInBytes + 511) / 512 * 512, size;
    if (!dptr || !pPitch || WidthInBytes == 0 || Height == 0 || (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (pitch < WidthInBytes || __builtin_mul_overflow(pitch, Height, &size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pPitch = pitch;
    return again(dptr, size);
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned flags) {
    FAKE_IN_CONTEXT();
    if (flags != 1 && flags != 2)
        return CUDA_ERROR_INVALID_VALUE;
    return again(dptr, bytesize);
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
    FAKE_IN_CONTEXT();
    FAKE_GIVES_BACK();
    if (fake_give(FAKE_KIND_DEVICE, dptr))
        return CUDA_SUCCESS;
    if (!fake_pool_free(dptr))
        return CUDA_ERROR_INVALID_VALUE;
    fake_pools_settle();
    return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize) {
    FAKE_IN_CONTEXT();
    uint64_t key;
    if (!pp || bytesize == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = take(FAKE_KIND_HOST, bytesize, &key);
    if (r == CUDA_SUCCESS)
        *pp = (void *)(uintptr_t)key; /* NOLINT(performance-no-int-to-ptr): nobody writes there */
    return r;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned Flags) {
    return Flags > 7 ? CUDA_ERROR_INVALID_VALUE : cuMemAllocHost_v2(pp, bytesize);
}

CUresult cuMemFreeHost(void *p) {
    FAKE_IN_CONTEXT();
    FAKE_GIVES_BACK();
    return fake_give(FAKE_KIND_HOST, (uint64_t)(uintptr_t)p) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned flags) {
    FAKE_IN_CONTEXT();
    return !p || bytesize == 0 || flags > 15 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p) {
    FAKE_IN_CONTEXT();
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- arrays: of 32-bit elements alone, as tests make them; the books hold what the elements need, not a layout ---- */

enum { FLOAT = 0x20, SPARSE = 0x40, DEFERRED = 0x80 };

static CUresult take_array(enum fake_kind kind, uint64_t elements, int format, unsigned channels, uint64_t *ret_key) {
    if (format != FLOAT || (channels != 1 && channels != 2 && channels != 4))
        return CUDA_ERROR_INVALID_VALUE;
    return take(kind, elements * channels * 4, ret_key);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    FAKE_IN_CONTEXT();
    const CUDA_ARRAY_DESCRIPTOR *d = pAllocateArray;
    uint64_t key;
    if (!pHandle || !d || d->Width == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = take_array(FAKE_KIND_ARRAY, (uint64_t)d->Width * (d->Height ? d->Height : 1), d->Format, d->NumChannels, &key);
    if (r == CUDA_SUCCESS)
        *pHandle = (CUarray)(uintptr_t)key; /* NOLINT(performance-no-int-to-ptr) */
    return r;
}

static uint64_t elements_of(size_t width, size_t height, size_t depth) {
    return (uint64_t)width * (height ? height : 1) * (depth ? depth : 1);
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    FAKE_IN_CONTEXT();
    const CUDA_ARRAY3D_DESCRIPTOR *d = pAllocateArray;
    uint64_t key;
    if (!pHandle || !d || d->Width == 0)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t elements = d->Flags & (SPARSE | DEFERRED) ? 0 : elements_of(d->Width, d->Height, d->Depth);
    CUresult r = take_array(FAKE_KIND_ARRAY, elements, d->Format, d->NumChannels, &key);
    if (r == CUDA_SUCCESS)
        *pHandle = (CUarray)(uintptr_t)key; /* NOLINT(performance-no-int-to-ptr) */
    return r;
}

CUresult cuArrayDestroy(CUarray hArray) {
    FAKE_IN_CONTEXT();
    FAKE_GIVES_BACK();
    return fake_give(FAKE_KIND_ARRAY, (uint64_t)(uintptr_t)hArray) ? CUDA_SUCCESS : FAKE_INVALID_HANDLE;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned numMipmapLevels) {
    FAKE_IN_CONTEXT();
    const CUDA_ARRAY3D_DESCRIPTOR *d = pMipmappedArrayDesc;
    uint64_t key, elements = 0;
    if (!pHandle || !d || d->Width == 0 || numMipmapLevels == 0 || numMipmapLevels > 32)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numMipmapLevels; i++)
        elements += elements_of(d->Width >> i ? d->Width >> i : 1, d->Height ? (d->Height >> i ? d->Height >> i : 1) : 0,
                                d->Depth ? (d->Depth >> i ? d->Depth >> i : 1) : 0);
    CUresult r = take_array(FAKE_KIND_MIPMAP, elements, d->Format, d->NumChannels, &key);
    if (r == CUDA_SUCCESS)
        *pHandle = (CUmipmappedArray)(uintptr_t)key; /* NOLINT(performance-no-int-to-ptr) */
    return r;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    FAKE_IN_CONTEXT();
    FAKE_GIVES_BACK();
    return fake_give(FAKE_KIND_MIPMAP, (uint64_t)(uintptr_t)hMipmappedArray) ? CUDA_SUCCESS : FAKE_INVALID_HANDLE;
}

/* ---- device code: any image will do; a module goes with its context, a library does not ---- */

static CUresult load(enum fake_kind kind, const void *image, void *ret_handle, bool of_context) {
    if (!ret_handle || !image)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t size = fake_cuda_scenario()->module;
    CUresult r = fake_gate(size);
    const struct fake_thing *thing = r == CUDA_SUCCESS ? fake_take(kind, size, of_context ? fake_context() : NULL, 0) : NULL;
    if (!thing)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(uint64_t *)ret_handle = thing->key;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    FAKE_IN_CONTEXT();
    return load(FAKE_KIND_MODULE, image, module, true);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname) {
    FAKE_IN_CONTEXT();
    if (fname && access(fname, R_OK) != 0)
        return FAKE_FILE_NOT_FOUND;
    return load(FAKE_KIND_MODULE, fname, module, true);
}

/* NOLINTBEGIN(readability-non-const-parameter): the driver's own signatures */
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned numOptions, int *options, void **optionValues) {
    FAKE_IN_CONTEXT();
    if (numOptions > 0 && (!options || !optionValues))
        return CUDA_ERROR_INVALID_VALUE;
    return load(FAKE_KIND_MODULE, image, module, true);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin) {
    FAKE_IN_CONTEXT();
    return load(FAKE_KIND_MODULE, fatCubin, module, true);
}

CUresult cuModuleUnload(CUmodule hmod) {
    FAKE_IN_CONTEXT();
    FAKE_GIVES_BACK();
    return fake_give(FAKE_KIND_MODULE, (uint64_t)(uintptr_t)hmod) ? CUDA_SUCCESS : FAKE_INVALID_HANDLE;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions,
                           int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions) {
    FAKE_READY();
    if ((numJitOptions && (!jitOptions || !jitOptionsValues)) || (numLibraryOptions && (!libraryOptions || !libraryOptionValues)))
        return CUDA_ERROR_INVALID_VALUE;
    return load(FAKE_KIND_LIBRARY, code, library, false);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions,
                               int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions) {
    FAKE_READY();
    if ((numJitOptions && (!jitOptions || !jitOptionsValues)) || (numLibraryOptions && (!libraryOptions || !libraryOptionValues)))
        return CUDA_ERROR_INVALID_VALUE;
    if (fileName && access(fileName, R_OK) != 0)
        return FAKE_FILE_NOT_FOUND;
    return load(FAKE_KIND_LIBRARY, fileName, library, false);
}
/* NOLINTEND(readability-non-const-parameter) */

CUresult cuLibraryUnload(CUlibrary library) {
    FAKE_READY();
    FAKE_GIVES_BACK();
    return fake_give(FAKE_KIND_LIBRARY, (uint64_t)(uintptr_t)library) ? CUDA_SUCCESS : FAKE_INVALID_HANDLE;
}

/* ---- readers ---- */

static uint64_t total(void) {
    const struct fake_scenario_cuda *s = fake_cuda_scenario();
    return s->total ? s->total : s->integrated ? fake_meminfo("MemTotal") : (uint64_t)16 << 30;
}

/* On a device of the machine's memory: what is free there, cache not counted, as a GB10 answers. */
CUresult cuMemGetInfo_v2(size_t *free, size_t *ret_total) {
    FAKE_IN_CONTEXT();
    struct fake_books books;
    uma_fake_cuda_books(&books);
    uint64_t held = 0;
    for (int i = 1; i < FAKE_KINDS; i++)
        held += i == FAKE_KIND_HOST ? 0 : books.bytes[i];
    if (free)
        *free = fake_cuda_scenario()->integrated ? fake_meminfo("MemFree") : held < total() ? total() - held : 0;
    if (ret_total)
        *ret_total = total();
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    FAKE_READY();
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    *bytes = total();
    return CUDA_SUCCESS;
}
