/* SPDX-License-Identifier: MIT */
/*
 * Memory in the order of a stream: pools that take from the machine in blocks and give back at the next synchronisation what they need not keep. Streams do their work at once here.
 */
#include "fake.h"
#include "functions.h"

#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTE_THRESHOLD = 4, ATTRIBUTE_RESERVED_HIGH = 6, ATTRIBUTE_USED_HIGH = 8 };

struct block {
    struct block *next;
    struct fake_backing backing;
};

struct piece {
    struct piece *next;
    uint64_t key, size;
};

struct CUmemPoolHandle_st {
    CUmemoryPool next;
    struct block *blocks;
    struct piece *pieces;
    uint64_t reserved, used, threshold, most;
    bool own; /* of cuMemPoolCreate */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUmemPoolHandle_st defaults[FAKE_DEVICES_MAX];
static CUmemoryPool current[FAKE_DEVICES_MAX], created;

void fake_pools_forget(void) {
    (void)memset(defaults, 0, sizeof(defaults));
    (void)memset(current, 0, sizeof(current));
    created = NULL;
    (void)pthread_mutex_init(&lock, NULL);
}

/* ---- under the lock ---- */

static bool is_pool(CUmemoryPool pool) {
    bool found = pool >= defaults && pool < defaults + FAKE_DEVICES_MAX;
    for (CUmemoryPool p = created; p && !found; p = p->next)
        found = p == pool;
    return found;
}

static bool grow(CUmemoryPool pool, uint64_t least) {
    uint64_t step = fake_cuda_scenario()->block, size = (least + step - 1) / step * step;
    if (pool->most && pool->reserved + size > pool->most)
        return false;
    struct block *block = fake_gate(size) == CUDA_SUCCESS ? calloc(1, sizeof(*block)) : NULL;
    if (!block || !fake_backing_take(size, &block->backing)) {
        free(block);
        return false;
    }
    block->next = pool->blocks;
    pool->blocks = block;
    pool->reserved += size;
    fake_count(FAKE_KIND_POOL, (int64_t)size);
    return true;
}

static void shrink(CUmemoryPool pool, uint64_t keep) {
    keep = keep > pool->used ? keep : pool->used;
    for (struct block **b = &pool->blocks; *b;) {
        struct block *block = *b;
        if (pool->reserved - block->backing.size < keep) {
            b = &block->next;
            continue;
        }
        *b = block->next;
        pool->reserved -= block->backing.size;
        fake_count(FAKE_KIND_POOL, -(int64_t)block->backing.size);
        fake_backing_give(&block->backing);
        free(block);
    }
}

static bool free_piece(CUmemoryPool pool, uint64_t key) {
    for (struct piece **p = &pool->pieces; *p; p = &(*p)->next)
        if ((*p)->key == key) {
            struct piece *piece = *p;
            *p = piece->next;
            pool->used -= piece->size;
            fake_old_key(piece->key, piece->size);
            free(piece);
            return true;
        }
    return false;
}

static CUmemoryPool pool_of(CUdevice device) {
    return current[device] ? current[device] : &defaults[device];
}

/* ---- allocating ---- */

bool fake_pool_free(CUdeviceptr pointer) {
    bool found = false;
    (void)pthread_mutex_lock(&lock);
    for (int i = 0; i < FAKE_DEVICES_MAX && !found; i++)
        found = free_piece(&defaults[i], pointer);
    for (CUmemoryPool p = created; p && !found; p = p->next)
        found = free_piece(p, pointer);
    (void)pthread_mutex_unlock(&lock);
    return found;
}

void fake_pools_settle(void) {
    (void)pthread_mutex_lock(&lock);
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        shrink(&defaults[i], defaults[i].threshold);
    for (CUmemoryPool p = created; p; p = p->next)
        shrink(p, p->threshold);
    (void)pthread_mutex_unlock(&lock);
}

/* `pool` NULL: the current one of the device. */
static CUresult allocate(CUdeviceptr *dptr, uint64_t size, CUmemoryPool pool) {
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
    struct piece *piece = calloc(1, sizeof(*piece));
    (void)pthread_mutex_lock(&lock);
    pool = pool ? pool : pool_of(fake_context_device(fake_context()));
    if (!is_pool(pool))
        r = CUDA_ERROR_INVALID_VALUE;
    else if (piece && (pool->reserved - pool->used >= size || grow(pool, size - (pool->reserved - pool->used)))) {
        *piece = (struct piece){ .next = pool->pieces, .key = fake_new_key(size), .size = size };
        pool->pieces = piece;
        pool->used += size;
        *dptr = piece->key;
        piece = NULL;
        r = CUDA_SUCCESS;
    }
    (void)pthread_mutex_unlock(&lock);
    free(piece);
    return r;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    FAKE_IN_CONTEXT();
    if (!dptr || bytesize == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_capture(hStream, bytesize, dptr))
        return CUDA_SUCCESS;
    return allocate(dptr, bytesize, NULL);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    return cuMemAllocAsync(dptr, bytesize, hStream ? hStream : CU_STREAM_PER_THREAD);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    FAKE_IN_CONTEXT();
    if (!dptr || bytesize == 0 || !pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (fake_capture(hStream, bytesize, dptr))
        return CUDA_SUCCESS;
    return allocate(dptr, bytesize, pool);
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    return cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream ? hStream : CU_STREAM_PER_THREAD);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    FAKE_IN_CONTEXT();
    FAKE_GIVES_BACK();
    (void)hStream;
    return fake_pool_free(dptr) || fake_give(FAKE_KIND_DEVICE, dptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
    return cuMemFreeAsync(dptr, hStream);
}

/* ---- pools ---- */

static CUresult get_pool(CUmemoryPool *pool, CUdevice dev, bool standard) {
    FAKE_READY();
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    (void)pthread_mutex_lock(&lock);
    *pool = standard ? &defaults[dev] : pool_of(dev);
    (void)pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice dev) {
    return get_pool(pool, dev, true);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
    return get_pool(pool, dev, false);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    FAKE_READY();
    if (!fake_device_valid(dev))
        return FAKE_INVALID_DEVICE;
    (void)pthread_mutex_lock(&lock);
    bool valid = is_pool(pool);
    if (valid)
        current[dev] = pool;
    (void)pthread_mutex_unlock(&lock);
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    FAKE_READY();
    if (!pool || !poolProps || poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE || !fake_device_valid(poolProps->location.id))
        return CUDA_ERROR_INVALID_VALUE;
    CUmemoryPool made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->own = true;
    made->most = poolProps->maxSize;
    (void)pthread_mutex_lock(&lock);
    made->next = created;
    created = made;
    (void)pthread_mutex_unlock(&lock);
    *pool = made;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    FAKE_READY();
    FAKE_GIVES_BACK();
    CUmemoryPool ended = NULL;
    (void)pthread_mutex_lock(&lock);
    for (CUmemoryPool *p = &created; *p && !ended; p = ended ? p : &(*p)->next)
        if (*p == pool) {
            ended = pool;
            *p = pool->next;
        }
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        current[i] = current[i] == pool ? NULL : current[i];
    if (ended) {
        while (ended->pieces)
            (void)free_piece(ended, ended->pieces->key);
        shrink(ended, 0);
    }
    (void)pthread_mutex_unlock(&lock);
    free(ended);
    return ended ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    FAKE_READY();
    FAKE_GIVES_BACK();
    (void)pthread_mutex_lock(&lock);
    bool valid = is_pool(pool);
    if (valid)
        shrink(pool, minBytesToKeep);
    (void)pthread_mutex_unlock(&lock);
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attr, void *value) {
    FAKE_READY();
    (void)pthread_mutex_lock(&lock);
    if (pool && (uintptr_t)pool <= UINT32_MAX && !is_pool(pool))
        abort(); /* a driver may follow the handle, and this one leads nowhere */
    bool valid = value && is_pool(pool) && attr >= ATTRIBUTE_THRESHOLD && attr <= ATTRIBUTE_USED_HIGH;
    if (valid)
        *(uint64_t *)value = attr == ATTRIBUTE_THRESHOLD                                                       ? pool->threshold
                             : attr == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || attr == ATTRIBUTE_RESERVED_HIGH ? pool->reserved
                                                                                                               : pool->used;
    (void)pthread_mutex_unlock(&lock);
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attr, void *value) {
    FAKE_READY();
    (void)pthread_mutex_lock(&lock);
    bool valid = value && is_pool(pool) && attr > 0 && attr <= ATTRIBUTE_USED_HIGH;
    if (valid && attr == ATTRIBUTE_THRESHOLD)
        pool->threshold = *(uint64_t *)value;
    (void)pthread_mutex_unlock(&lock);
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
