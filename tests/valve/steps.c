/* SPDX-License-Identifier: MIT */
/* Commands of a test, one a line, and an answer to each, one a line: numbers, of which the first is what CUDA said. Only unbuffered reads, so that children go on where their parent was. */
#include "steps.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { THREADS = 32 };

struct api *api;
static const char *route;

static bool read_step(struct step *ret) {
    size_t n = 0;
    char c;
    while (read(0, &c, 1) == 1 && c != '\n')
        if (n + 1 < sizeof(ret->text))
            ret->text[n++] = c;
    ret->text[n] = '\0';
    char *rest = ret->text;
    for (int i = 0; i < WORDS; i++) {
        char *word = rest ? strsep(&rest, " ") : NULL;
        ret->word[i] = word ? word : ret->text + n;
        ret->n[i] = strtoull(ret->word[i], NULL, 0);
    }
    return n > 0;
}

void answer(const char *format, ...) {
    va_list list;
    va_start(list, format);
    (void)vprintf(format, list);
    va_end(list);
    (void)putchar('\n');
    (void)fflush(stdout);
}

void *pointer(uint64_t number) {
    return (void *)(uintptr_t)number; /* NOLINT(performance-no-int-to-ptr): handles come back as the numbers that they were told as */
}

static bool step_memory(const struct step *s) {
    const char *what = s->word[0];
    uint64_t key = 0;
    CUresult r;
    if (strcmp(what, "take") == 0) {
        r = take_call(s->word[1], s->n[2], s->n[3], &key);
        answer("%d %llu", r, (unsigned long long)key);
    } else if (strcmp(what, "give") == 0)
        answer("%d", give_call(s->word[1], s->n[2]));
    else if (strcmp(what, "reserve") == 0) {
        r = api->cuMemAddressReserve(&key, s->n[1], 0, 0, 0);
        answer("%d %llu", r, (unsigned long long)key);
    } else if (strcmp(what, "map") == 0)
        answer("%d", api->cuMemMap(s->n[1], s->n[2], 0, s->n[3], 0));
    else if (strcmp(what, "unmap") == 0)
        answer("%d", api->cuMemUnmap(s->n[1], s->n[2]));
    else if (strcmp(what, "retain-handle") == 0) {
        r = api->cuMemRetainAllocationHandle(&key, pointer(s->n[1]));
        answer("%d %llu", r, (unsigned long long)key);
    } else if (strcmp(what, "import") == 0) { /* of a handle that is gone by then */
        int fd = -1;
        CUmemAllocationProp prop = { .type = 1, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE } };
        uint64_t made = 0;
        if (api->cuMemCreate(&made, 2 << 20, &prop, 0) != CUDA_SUCCESS ||
            api->cuMemExportToShareableHandle(&fd, made, 1, 0) != CUDA_SUCCESS || api->cuMemRelease(made) != CUDA_SUCCESS)
            abort();
        r = api->cuMemImportFromShareableHandle(&key, pointer((uint64_t)fd), 1);
        (void)close(fd);
        answer("%d %llu", r, (unsigned long long)key);
    } else
        return false;
    return true;
}

/* ---- pools and graphs ---- */

static bool step_pool(const struct step *s) {
    const char *what = s->word[0];
    CUmemoryPool pool = NULL;
    CUmemPoolProps props = { .allocType = 1, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)s->n[1] } };
    if (strcmp(what, "pool-create") == 0) {
        CUresult r = api->cuMemPoolCreate(&pool, &props);
        answer("%d %llu", r, (unsigned long long)(uintptr_t)pool);
    } else if (strcmp(what, "pool-of-device") == 0) {
        CUresult r = api->cuDeviceGetMemPool(&pool, (int)s->n[1]);
        answer("%d %llu", r, (unsigned long long)(uintptr_t)pool);
    } else if (strcmp(what, "pool-destroy") == 0)
        answer("%d", api->cuMemPoolDestroy(pointer(s->n[1])));
    else if (strcmp(what, "pool-trim") == 0)
        answer("%d", api->cuMemPoolTrimTo(pointer(s->n[1]), s->n[2]));
    else if (strcmp(what, "pool-keep") == 0) {
        uint64_t threshold = s->n[2];
        answer("%d", api->cuMemPoolSetAttribute(pointer(s->n[1]), 4 /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD */, &threshold));
    } else if (strcmp(what, "synchronize") == 0)
        answer("%d", api->cuStreamSynchronize(NULL));
    else if (strcmp(what, "graph") == 0)
        answer("%d", run_graph(s->word[2], s->n[1], strcmp(s->word[3], "upload") == 0));
    else if (strcmp(what, "graph-trim") == 0)
        answer("%d", api->cuDeviceGraphMemTrim((int)s->n[1]));
    else
        return false;
    return true;
}

/* ---- contexts ---- */

static bool step_context(const struct step *s) {
    const char *what = s->word[0];
    CUcontext context = NULL;
    CUresult r = -1;
    if (strcmp(what, "init") == 0)
        answer("%d", api->cuInit(0));
    else if (strcmp(what, "context") == 0) {
        if (strcmp(s->word[2], "v4") == 0)
            r = api->cuCtxCreate_v4(&context, NULL, 0, (int)s->n[1]);
        else if (strcmp(s->word[2], "v3") == 0)
            r = api->cuCtxCreate_v3(&context, NULL, 0, 0, (int)s->n[1]);
        else
            r = api->cuCtxCreate_v2(&context, 0, (int)s->n[1]);
        answer("%d %llu", r, (unsigned long long)(uintptr_t)context);
    } else if (strcmp(what, "context-destroy") == 0)
        answer("%d", api->cuCtxDestroy_v2(pointer(s->n[1])));
    else if (strcmp(what, "context-set") == 0)
        answer("%d", api->cuCtxSetCurrent(pointer(s->n[1])));
    else if (strcmp(what, "retain") == 0) {
        r = api->cuDevicePrimaryCtxRetain(&context, (int)s->n[1]);
        if (r == CUDA_SUCCESS)
            r = api->cuCtxSetCurrent(context);
        answer("%d %llu", r, (unsigned long long)(uintptr_t)context);
    } else if (strcmp(what, "release") == 0)
        answer("%d", api->cuDevicePrimaryCtxRelease_v2((int)s->n[1]));
    else if (strcmp(what, "green") == 0) {
        r = api->cuGreenCtxCreate((CUgreenCtx *)&context, pointer(1), (int)s->n[1], 1);
        answer("%d %llu", r, (unsigned long long)(uintptr_t)context);
    } else if (strcmp(what, "green-destroy") == 0)
        answer("%d", api->cuGreenCtxDestroy(pointer(s->n[1])));
    else if (strcmp(what, "reset") == 0)
        answer("%d", api->cuDevicePrimaryCtxReset_v2((int)s->n[1]));
    else
        return false;
    return true;
}

/* ---- threads, processes, time ---- */

struct work {
    pthread_t thread;
    CUcontext context;
    unsigned seed, rounds;
    uint64_t size;
    unsigned failed, refused;
};

/* Takes and gives back by all calls in turn, some things held for a while. */
static void *work(void *argument) {
    static const char *const calls[] = { "cuMemAlloc",     "cuMemAllocPitch", "cuMemAllocManaged",
                                         "cuMemAllocHost", "cuMemHostAlloc",  "cuMemAllocAsync",
                                         "cuArrayCreate",  "cuArray3DCreate", "cuMipmappedArrayCreate" };
    enum { N_CALLS = sizeof(calls) / sizeof(calls[0]), KEPT = 8 };
    struct work *w = argument;
    struct {
        const char *call;
        uint64_t key;
    } kept[KEPT] = { 0 };
    if (api->cuCtxSetCurrent(w->context) != CUDA_SUCCESS)
        w->failed++;
    for (unsigned i = 0; i < w->rounds + KEPT; i++) {
        unsigned at = i % KEPT;
        if (kept[at].key && give_call(kept[at].call, kept[at].key) != CUDA_SUCCESS)
            w->failed++;
        kept[at].key = 0;
        if (i >= w->rounds)
            continue;
        kept[at].call = calls[(unsigned)rand_r(&w->seed) % N_CALLS];
        CUresult r = take_call(kept[at].call, w->size * (1 + (unsigned)rand_r(&w->seed) % 4), 0, &kept[at].key);
        w->refused += r == CUDA_ERROR_OUT_OF_MEMORY;
        w->failed += r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY;
        if (r != CUDA_SUCCESS)
            kept[at].key = 0;
    }
    return NULL;
}

static void threads(unsigned n, unsigned rounds, uint64_t size) {
    struct work all[THREADS] = { 0 };
    unsigned failed = 0, refused = 0;
    CUcontext context = NULL;
    (void)api->cuCtxGetCurrent(&context);
    n = n > THREADS ? THREADS : n;
    for (unsigned i = 0; i < n; i++) {
        all[i] = (struct work){ .context = context, .seed = i + 1, .rounds = rounds, .size = size };
        if (pthread_create(&all[i].thread, NULL, work, &all[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < n; i++) {
        (void)pthread_join(all[i].thread, NULL);
        failed += all[i].failed;
        refused += all[i].refused;
    }
    answer("%u %u", failed, refused);
}

static void measure(const char *call, uint64_t size, unsigned n) {
    struct timespec before, after;
    unsigned failed = 0;
    uint64_t key;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    for (unsigned i = 0; i < n; i++)
        failed += take_call(call, size, 0, &key) != CUDA_SUCCESS || give_call(call, key) != CUDA_SUCCESS;
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    double ns = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    answer("%u %.0f", failed, ns / n);
}

static int wait_for(pid_t child) {
    int status = -1;
    (void)waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static bool step_process(const struct step *s) {
    const char *what = s->word[0];
    char *const again[] = { (char *)"/proc/self/exe", s->word[1], NULL };
    if (strcmp(what, "fork") == 0 || strcmp(what, "vfork") == 0) {
        bool shared = what[0] == 'v'; /* the child of vfork can only execute */
        if (shared && !s->word[1][0])
            return false;
        /* NOLINTNEXTLINE(clang-analyzer-unix.Vfork, clang-analyzer-security.insecureAPI.vfork): what is tested */
        pid_t child = shared ? vfork() : fork();
        if (child == 0 && shared) {
            (void)execv(again[0], again);
            _exit(127);
        }
        if (child == 0) {
            answer("%d", (int)getpid());
            exit(take_steps(route, api));
        }
        answer("%d", wait_for(child));
    } else if (strcmp(what, "exec") == 0) {
        (void)execv(again[0], again);
        answer("-1");
    } else if (strcmp(what, "exec-other") == 0) { /* a program that has nothing to do with CUDA */
        char *const cat[] = { (char *)"cat", NULL };
        (void)execvp(cat[0], cat);
        answer("-1");
    } else if (strcmp(what, "spawn") == 0) {
        pid_t child = -1;
        int r = posix_spawn(&child, again[0], NULL, NULL, again, environ);
        answer("%d", r == 0 ? wait_for(child) : -r);
    } else if (strcmp(what, "close-all") == 0) {
        for (int fd = 3; fd < 4096; fd++)
            (void)close(fd);
        answer("0");
    } else if (strcmp(what, "open") == 0) { /* a file that stays open, as a loader's */
        int fd = open(s->word[1], O_RDONLY | O_CLOEXEC);
        answer("%d", fd >= 0 ? 0 : -1);
    } else if (strcmp(what, "reopen") == 0)
        answer("%d", reopen_route(s->word[1][0] ? s->word[1] : route, api) ? 0 : -1);
    else if (strcmp(what, "threads") == 0)
        threads((unsigned)s->n[1], (unsigned)s->n[2], s->n[3]);
    else if (strcmp(what, "time") == 0)
        measure(s->word[1], s->n[2], (unsigned)s->n[3]);
    else if (strcmp(what, "pid") == 0)
        answer("%d", (int)getpid());
    else if (strcmp(what, "behind") == 0) {
        const unsigned *calls = dlsym(RTLD_DEFAULT, "behind_calls");
        answer("%d", calls ? (int)*calls : -1);
    } else if (strcmp(what, "invalid") == 0)
        call_invalid(s->n[1]);
    else
        return false;
    return true;
}

int take_steps(const char *the_route, struct api *the_api) {
    struct step s;
    route = the_route;
    api = the_api;
    while (read_step(&s) && strcmp(s.word[0], "exit") != 0)
        if (!step_memory(&s) && !step_pool(&s) && !step_context(&s) && !step_reader(&s) && !step_call(&s) && !step_process(&s))
            answer("what? %s", s.word[0]);
    return 0;
}
