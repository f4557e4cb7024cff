/* SPDX-License-Identifier: MIT */
/* The driver's functions, found as programs find them: by dlsym, or as the CUDA runtime does. */
#include "soak.h"

#include <dlfcn.h>

enum { VERSION = 13000 };

#ifdef SOAK_LINKED
/* What the assembly of resolve.c goes through. */
struct found {
    void *result;
    uintptr_t answered;
};
struct found uma_valve_answer_dlsym(void *handle, const char *name, const void *caller);
int uma_valve_dlopen_flags(int flags);

static void *look_up(void *handle, const char *name) {
    struct found f = uma_valve_answer_dlsym(handle, name, __builtin_return_address(0));
    return f.answered ? f.result : dlsym(handle, name);
}
static void *open_driver(int flags) {
    return dlopen("libcuda.so.1", uma_valve_dlopen_flags(flags));
}
#else
static void *look_up(void *handle, const char *name) {
    return dlsym(handle, name);
}
static void *open_driver(int flags) {
    return dlopen("libcuda.so.1", flags);
}
#endif

bool soak_open(struct soak_actor *actor) {
    typedef CUresult ask(const char *, void **, int, unsigned long long, int *);
    static const unsigned long long flags[] = { 0, CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM };
    struct api *api = &actor->api;
    actor->handle = open_driver(RTLD_NOW | (soak_below(&actor->random, 2) ? RTLD_LOCAL : RTLD_GLOBAL));
    if (!actor->handle) {
        soak_failed("dlopen: %s", dlerror());
        return false;
    }
    unsigned route = soak_below(&actor->random, 4);
#define X(name, base, version) api->name = (__typeof__(api->name))look_up(actor->handle, #name);
    CALLS(X)
#undef X
    if (route > 0) { /* as the CUDA runtime */
        ask *v2 = (ask *)look_up(actor->handle, "cuGetProcAddress_v2");
        int status;
        void *at;
#define X(name, base, version)                                                                                                             \
    at = NULL;                                                                                                                             \
    if (!v2 || v2(#base, &at, (version) ? (version) : VERSION, flags[route - 1], &status) != CUDA_SUCCESS || !at)                          \
        soak_failed("no " #base);                                                                                                          \
    api->name = (__typeof__(api->name))at;
        CALLS(X)
#undef X
    }
    if (!api_all_found(api))
        soak_failed("functions are missing");
    return api_all_found(api);
}

void soak_close(struct soak_actor *actor) {
    if (actor->handle)
        (void)dlclose(actor->handle);
    actor->handle = NULL;
}
