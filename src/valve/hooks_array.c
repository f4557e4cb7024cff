/* SPDX-License-Identifier: MIT */
/* Arrays for textures. Their layout is the driver's own: what is counted is what their elements need, which it rounds up. */
#include "valve/hook.h"

enum {
    SPARSE = 0x40,
    DEFERRED =
        0x80 /* CUDA_ARRAY3D_SPARSE, CUDA_ARRAY3D_DEFERRED_MAPPING: memory comes later, by cuMemMapArrayAsync, from handles that were counted */
};

/* Bits of one element, all channels (CUarray_format); of formats that came later than these: as the largest. */
static uint64_t element_bits(int format, unsigned channels) {
    uint64_t n = channels ? channels : 1;
    switch (format) {
    case 0x01: /* UNSIGNED_INT8 */
    case 0x08: /* SIGNED_INT8 */
        return n * 8;
    case 0x02: /* UNSIGNED_INT16, SIGNED_INT16, HALF */
    case 0x09:
    case 0x10:
        return n * 16;
    case 0x03: /* UNSIGNED_INT32, SIGNED_INT32, FLOAT */
    case 0x0a:
    case 0x20:
        return n * 32;
    case 0xb0: /* NV12: a plane of luma, half of chroma */
        return 12;
    case 0x91: /* BC1, BC4: 8 bytes for 16 elements */
    case 0x92:
    case 0x97:
    case 0x98:
        return 4;
    default:
        if (format >= 0x93 && format <= 0x9e) /* the other BC: 16 bytes for 16 */
            return 8;
        if (format >= 0xc0 && format <= 0xcb) /* [US]NORM_INT{8,16}X{1,2,4} */
            return ((format - 0xc0) % 6 < 3 ? UINT64_C(8) : UINT64_C(16)) << (format - 0xc0) % 3;
        return n * 32;
    }
}

static uint64_t array_bytes(uint64_t width, uint64_t height, uint64_t depth, int format, unsigned channels) {
    uint64_t elements = uma_valve_times(uma_valve_times(width, height ? height : 1), depth ? depth : 1);
    return uma_valve_times(elements, element_bits(format, channels)) / 8;
}

static uint64_t array3d_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    return d->Flags & (SPARSE | DEFERRED) ? 0 : array_bytes(d->Width, d->Height, d->Depth, d->Format, d->NumChannels);
}

/* Each level has half of the one before, in each direction. */
static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels) {
    CUDA_ARRAY3D_DESCRIPTOR level = *d;
    uint64_t sum = 0;
    for (unsigned i = 0; i < levels && i < 64; i++) {
        if (__builtin_add_overflow(sum, array3d_bytes(&level), &sum))
            return 0;
        level.Width = level.Width > 1 ? level.Width / 2 : level.Width;
        level.Height = level.Height > 1 ? level.Height / 2 : level.Height;
        level.Depth = level.Depth > 1 ? level.Depth / 2 : level.Depth;
    }
    return sum;
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    UMA_VALVE_REAL(cuArrayCreate_v2);
    const CUDA_ARRAY_DESCRIPTOR *d = pAllocateArray;
    uint64_t bytes = pHandle && d ? array_bytes(d->Width, d->Height, 1, d->Format, d->NumChannels) : 0;
    UMA_VALVE_TAKE("cuArrayCreate", bytes, UMA_VALVE_ARRAY, real(pHandle, d), pHandle ? *pHandle : NULL, bytes);
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    UMA_VALVE_REAL(cuArray3DCreate_v2);
    uint64_t bytes = pHandle && pAllocateArray ? array3d_bytes(pAllocateArray) : 0;
    UMA_VALVE_TAKE("cuArray3DCreate", bytes, UMA_VALVE_ARRAY, real(pHandle, pAllocateArray), pHandle ? *pHandle : NULL, bytes);
}

CUresult cuArrayDestroy(CUarray hArray) {
    UMA_VALVE_REAL(cuArrayDestroy);
    UMA_VALVE_FREE(UMA_VALVE_ARRAY, hArray, real(hArray));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned numMipmapLevels) {
    UMA_VALVE_REAL(cuMipmappedArrayCreate);
    uint64_t bytes = pHandle && pMipmappedArrayDesc ? mipmap_bytes(pMipmappedArrayDesc, numMipmapLevels) : 0;
    UMA_VALVE_TAKE("cuMipmappedArrayCreate", bytes, UMA_VALVE_MIPMAP, real(pHandle, pMipmappedArrayDesc, numMipmapLevels),
                   pHandle ? *pHandle : NULL, bytes);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    UMA_VALVE_REAL(cuMipmappedArrayDestroy);
    UMA_VALVE_FREE(UMA_VALVE_MIPMAP, hMipmappedArray, real(hMipmappedArray));
}
