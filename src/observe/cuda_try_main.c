/* SPDX-License-Identifier: MIT */
/*
 * umactl-cuda - the one process that loads CUDA, to find out by trying whether what should hold a job's memory does (umactl valve --probe). It may block or crash in
 * the driver at any moment: whoever asks has a deadline. It is told one thing a line on standard input and answers with one line each:
 *
 *   begin         the driver and a context of device 0: "begin STEP CODE", the step that it came to and its CUresult (0: ready)
 *   take BYTES    one allocation, given back at once: "take CODE"
 *
 * umactl-cuda PARENT-PID [enter]: with `enter` it first moves itself into the cgroup whose cgroup.procs is open as descriptor 3. It ends with its input.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PROCS_FD = 3 };

typedef int call_init(unsigned);
typedef int call_device(int *, int);
typedef int call_retain(void **, int);
typedef int call_current(void *);
typedef int call_alloc(unsigned long long *, size_t);
typedef int call_free(unsigned long long);

static call_alloc *alloc_call;
static call_free *free_call;

/* POSIX promises that the object pointer holds a function's address; copied, because ISO C has no such conversion. */
static int find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    (void)memcpy(function, &symbol, sizeof(symbol));
    return symbol ? 0 : -1;
}

/* -1 as a code: there is no such library, or it lacks a call. */
static const char *begin(int *ret_code) {
    call_init *init;
    call_device *device;
    call_retain *retain;
    call_current *current;
    int ordinal = 0;
    void *context = NULL, *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    *ret_code = -1;
    if (!library)
        return "library";
    if (find(library, "cuInit", &init) < 0 || find(library, "cuDeviceGet", &device) < 0 ||
        find(library, "cuDevicePrimaryCtxRetain", &retain) < 0 || find(library, "cuCtxSetCurrent", &current) < 0 ||
        find(library, "cuMemAlloc_v2", &alloc_call) < 0 || find(library, "cuMemFree_v2", &free_call) < 0)
        return "calls";
    if ((*ret_code = init(0)) != 0)
        return "init";
    if ((*ret_code = device(&ordinal, 0)) != 0)
        return "device";
    if ((*ret_code = retain(&context, ordinal)) != 0 || (*ret_code = current(context)) != 0)
        return "context";
    return "ready";
}

static int take(size_t bytes) {
    unsigned long long pointer = 0;
    if (!alloc_call)
        return -1;
    int code = alloc_call(&pointer, bytes);
    if (code == 0)
        code = free_call(pointer);
    return code;
}

static int settle(const char *parent, int enters) {
    char self[16];
    (void)signal(SIGPIPE, SIG_IGN);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return 1;
    (void)snprintf(self, sizeof(self), "%d", (int)getppid());
    if (strcmp(self, parent) != 0)
        return 1; /* it died before the line above */
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    if (enters && write(PROCS_FD, "0", 1) != 1) {
        (void)printf("begin group %d\n", errno);
        (void)fflush(stdout);
        return 1;
    }
    (void)close(PROCS_FD);
    return 0;
}

int main(int argc, char **argv) {
    char line[64];
    if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "enter") != 0)) {
        (void)fputs("umactl-cuda tries CUDA for umactl valve --probe and is started by it; it is of no use by itself.\n", stderr);
        return 2;
    }
    if (settle(argv[1], argc == 3))
        return 1;
    while (fgets(line, sizeof(line), stdin)) {
        if (strcmp(line, "begin\n") == 0) {
            int code;
            const char *step = begin(&code);
            (void)printf("begin %s %d\n", step, code);
        } else if (strncmp(line, "take ", 5) == 0)
            (void)printf("take %d\n", take((size_t)strtoull(line + 5, NULL, 10)));
        else
            break;
        (void)fflush(stdout);
    }
    _exit(0); /* the driver's destructors could block, too */
}
