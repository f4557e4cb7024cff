/* SPDX-License-Identifier: MIT */
/* The ways in which programs come to the driver. Not linked to libcuda: what is, is direct.c. */
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 13000 };

static void *opened; /* by the route */

static void *open_driver(int flags) {
    opened = dlopen("libcuda.so.1", flags);
    if (!opened)
        (void)fprintf(stderr, "%s\n", dlerror());
    return opened;
}

/* dlsym(3) on a handle, or everywhere. */
static bool by_dlsym(void *handle, struct api *api) {
    (void)dlerror();
#define X(name, base, version) api->name = (__typeof__(api->name))dlsym(handle, #name);
    CALLS(X)
#undef X
    return api_all_found(api) && !dlerror(); /* found without an error */
}

static bool dlopen_local(struct api *api) {
    void *handle = open_driver(RTLD_NOW | RTLD_LOCAL);
    return handle && by_dlsym(handle, api);
}

static bool rtld_default(struct api *api) {
    return open_driver(RTLD_NOW | RTLD_GLOBAL) && by_dlsym(RTLD_DEFAULT, api);
}

static bool rtld_next(struct api *api) {
    return open_driver(RTLD_NOW | RTLD_GLOBAL) && by_dlsym(RTLD_NEXT, api);
}

/* dlsym of the program's own handle, as dlopen(NULL) gives it. */
static bool own_handle(struct api *api) {
    return open_driver(RTLD_NOW | RTLD_GLOBAL) && by_dlsym(dlopen(NULL, RTLD_NOW), api);
}

/* Libraries in a namespace of their own, as plugins are kept apart. */
static bool namespace(struct api *api) {
    opened = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        (void)fprintf(stderr, "%s\n", dlerror());
    return opened && by_dlsym(opened, api);
}

/* A library that is linked to libcuda, as extension modules of interpreters are. */
static bool linked_library(struct api *api, const char *variable, int flags) {
    const char *path = getenv(variable);
    opened = path ? dlopen(path, flags) : NULL;
    void (*fill)(struct api *) = opened ? (void (*)(struct api *))dlsym(opened, "fill_direct") : NULL;
    if (!fill) {
        (void)fprintf(stderr, "%s: %s\n", variable, path ? dlerror() : "not set");
        return false;
    }
    fill(api);
    return api_all_found(api);
}

static bool extension(struct api *api) {
    return linked_library(api, "UMA_DIRECT_LIBRARY", RTLD_NOW | RTLD_LOCAL);
}

static bool deepbind(struct api *api) {
    return linked_library(api, "UMA_DIRECT_LIBRARY", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
}

/* ---- by cuGetProcAddress, as the CUDA runtime ---- */

typedef CUresult ask_v1(const char *symbol, void **pfn, int version, unsigned long long flags);
typedef CUresult ask_v2(const char *symbol, void **pfn, int version, unsigned long long flags, int *status);

static ask_v1 *v1;
static ask_v2 *v2;

static void *ask(const char *base, int version, unsigned long long flags) {
    void *function = NULL;
    int status = -1;
    CUresult r = v2 ? v2(base, &function, version, flags, &status) : v1(base, &function, version, flags);
    return r == CUDA_SUCCESS ? function : NULL;
}

static bool by_question(struct api *api, const char *entry, unsigned long long flags) {
    void *handle = open_driver(RTLD_NOW | RTLD_LOCAL), *found = handle ? dlsym(handle, entry) : NULL;
    if (!found)
        return false;
    v1 = strcmp(entry, "cuGetProcAddress") == 0 ? (ask_v1 *)found : NULL;
    v2 = v1 ? NULL : (ask_v2 *)found;
    /* it asks for itself again, as the runtime does */
    void *again = ask("cuGetProcAddress", v1 ? 11030 : 12000, flags);
    if (!again)
        return false;
    v1 = v1 ? (ask_v1 *)again : NULL;
    v2 = v1 ? NULL : (ask_v2 *)again;
#define X(name, base, version) api->name = (__typeof__(api->name))ask(#base, (version) ? (version) : VERSION, flags);
    CALLS(X)
#undef X
    return api_all_found(api);
}

static bool runtime(struct api *api) {
    return by_question(api, "cuGetProcAddress_v2", 0);
}

static bool runtime_legacy(struct api *api) {
    return by_question(api, "cuGetProcAddress_v2", CU_GET_PROC_ADDRESS_LEGACY_STREAM);
}

static bool runtime_per_thread(struct api *api) {
    return by_question(api, "cuGetProcAddress_v2", CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

static bool runtime_v1(struct api *api) {
    return by_question(api, "cuGetProcAddress", 0);
}

/* dlsym of the per-thread variants by their exported names. */
static bool per_thread(struct api *api) {
    if (!dlopen_local(api))
        return false;
#define PTSZ(name) api->name = (__typeof__(api->name))dlsym(opened, #name "_ptsz")
    PTSZ(cuMemAllocAsync);
    PTSZ(cuMemAllocFromPoolAsync);
    PTSZ(cuMemFreeAsync);
    PTSZ(cuStreamSynchronize);
    PTSZ(cuGraphLaunch);
    PTSZ(cuGraphUpload);
#undef PTSZ
    return api_all_found(api);
}

/* Half of the functions from a linked library, half by the runtime's way: what one allocates the other frees. */
static bool several(struct api *api) {
    struct api other;
    if (!extension(api) || !runtime(&other))
        return false;
    api->cuMemFree_v2 = other.cuMemFree_v2;
    api->cuMemHostAlloc = other.cuMemHostAlloc;
    api->cuMemRelease = other.cuMemRelease;
    api->cuMemFreeAsync = other.cuMemFreeAsync;
    api->cuArrayCreate_v2 = other.cuArrayCreate_v2;
    api->cuMemGetInfo_v2 = other.cuMemGetInfo_v2;
    return true;
}

#ifdef DIRECT
static bool direct(struct api *api) {
    fill_direct(api);
    return api_all_found(api);
}
#endif

static const struct {
    const char *name;
    bool (*find)(struct api *api);
} all[] = {
#ifdef DIRECT
    { "direct", direct },
#endif
    { "dlopen", dlopen_local },
    { "default", rtld_default },
    { "next", rtld_next },
    { "own-handle", own_handle },
    { "namespace", namespace },
    { "extension", extension },
    { "deepbind", deepbind },
    { "runtime", runtime },
    { "runtime-legacy", runtime_legacy },
    { "runtime-per-thread", runtime_per_thread },
    { "runtime-v1", runtime_v1 },
    { "per-thread", per_thread },
    { "several", several },
};

bool find_route(const char *name, struct api *ret_api) {
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].find(ret_api);
    (void)fprintf(stderr, "no such route: %s\n", name);
    return false;
}

bool reopen_route(const char *name, struct api *ret_api) {
    if (opened)
        (void)dlclose(opened);
    opened = NULL;
    return find_route(name, ret_api);
}

int main(int argc, char *argv[]) {
    struct api api = { 0 };
    const char *route = argc > 1 ? argv[1] : "";
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(route, "none") != 0 && !find_route(route, &api)) {
        (void)printf("no route\n");
        return 1;
    }
    (void)printf("ready\n");
    return take_steps(route, &api);
}
