/* SPDX-License-Identifier: MIT */
#include "valve/resolve.h"

#include "valve/cuda.h"
#include "valve/hooks.h"
#include "valve/libc_old.h"
#include "valve/process.h"

#include <stdatomic.h>
#include <stdint.h>

typedef void *dlsym_function(void *handle, const char *name);
typedef void *dlopen_function(const char *name, int flags);

static _Atomic(void *) reals[UMA_VALVE_N_ENTRIES];

/* ---- the loader's own ---- */

/* Returned in two registers, as the assembly expects (System V AMD64 ABI 3.2.3; AAPCS64 6.9). */
struct found {
    void *result;
    uintptr_t answered; /* 0: the loader's own is to answer */
};

/* The names of the assembly below. */
void uma_valve_find_loader(void);
struct found uma_valve_answer_dlsym(void *handle, const char *name, const void *caller);
int uma_valve_dlopen_flags(int flags);
__attribute__((visibility("hidden"))) dlsym_function *uma_valve_real_dlsym;
__attribute__((visibility("hidden"))) dlopen_function *uma_valve_real_dlopen;

static void *next_of(const char *name) {
    void *found = uma_valve_dlvsym(RTLD_NEXT, name, "GLIBC_2.34");
    return found ? found : uma_valve_dlvsym(RTLD_NEXT, name, UMA_VALVE_LIBC);
}

/* Before the constructor, other libraries' constructors may come through here: whoever is first finds them, twice at most. */
__attribute__((visibility("hidden"), constructor)) void uma_valve_find_loader(void) {
    if (!uma_valve_real_dlopen)
        uma_valve_real_dlopen = (dlopen_function *)next_of("dlopen");
    if (!uma_valve_real_dlsym)
        uma_valve_real_dlsym = (dlsym_function *)next_of("dlsym");
}

static void *loader_dlsym(void *handle, const char *name) {
    uma_valve_find_loader();
    return uma_valve_real_dlsym(handle, name);
}

/* ---- real and hook ---- */

static bool is_of_nvml(enum uma_valve_entry entry) {
    return uma_valve_entry_name(entry)[0] == 'n';
}

/* A library that is there already, opened once more, so that it stays. That it is not is no error of the program's, which may ask for its own next. */
static void *keep(const char *name) {
    uma_valve_find_loader();
    void *handle = uma_valve_real_dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
    if (!handle)
        (void)uma_valve_dlerror();
    return handle;
}

/* What was found once is called again later, perhaps by another library, also when the program has closed the one that it was in. */
static void *remember(enum uma_valve_entry entry, void *real) {
    Dl_info info;
    if (atomic_load_explicit(&reals[entry], memory_order_relaxed) != real) {
        if (uma_valve_dladdr(real, &info) && info.dli_fname)
            (void)keep(info.dli_fname);
        atomic_store_explicit(&reals[entry], real, memory_order_release);
    }
    return real;
}

void *uma_valve_hook_for(enum uma_valve_entry entry, void *real) {
    if (real != uma_valve_hooks[entry])
        (void)remember(entry, real);
    return uma_valve_hooks[entry];
}

/* The library that the hooked ones are from. */
static void *driver(void) {
    static _Atomic(void *) kept;
    void *handle = atomic_load(&kept);
    if (handle)
        return handle;
    handle = keep("libcuda.so.1");
    for (unsigned i = 0; !handle && i < UMA_VALVE_N_ENTRIES; i++) {
        Dl_info info; /* under another name: by where an entry of it lies */
        void *real = atomic_load(&reals[i]);
        if (real && !is_of_nvml((enum uma_valve_entry)i) && uma_valve_dladdr(real, &info) && info.dli_fname)
            handle = keep(info.dli_fname);
    }
    if (handle)
        atomic_store(&kept, handle);
    return handle;
}

/* Nobody looked it up: a program that is linked to the library, where the next one that has the name is meant; or a library of its own that is, as an interpreter's extension modules are, which nobody else sees. */
static void *find(enum uma_valve_entry entry) {
    const char *name = uma_valve_entry_name(entry);
    void *real = loader_dlsym(RTLD_NEXT, name), *library = NULL;
    if (!real)
        library = is_of_nvml(entry) ? keep("libnvidia-ml.so.1") : driver();
    if (library)
        real = loader_dlsym(library, name);
    if (!real)
        (void)uma_valve_dlerror();
    return real != uma_valve_hooks[entry] ? real : NULL;
}

void *uma_valve_real(enum uma_valve_entry entry) {
    void *real = atomic_load_explicit(&reals[entry], memory_order_acquire);
    if (!real && (real = find(entry)))
        (void)remember(entry, real);
    return real;
}

void *uma_valve_real_named(const char *name) {
    void *handle = driver();
    return handle ? loader_dlsym(handle, name) : NULL;
}

void *uma_valve_real_once(_Atomic(void *) *kept, const char *name) {
    void *found = atomic_load_explicit(kept, memory_order_acquire);
    if (!found) {
        found = uma_valve_real_named(name);
        atomic_store_explicit(kept, found, memory_order_release);
    }
    return found;
}

/* ---- dlsym ---- */

static bool of_one_object(const void *a, const void *b) {
    Dl_info of_a, of_b;
    return uma_valve_dladdr(a, &of_a) && uma_valve_dladdr(b, &of_b) && of_a.dli_fbase == of_b.dli_fbase;
}

__attribute__((visibility("hidden"), used)) struct found uma_valve_answer_dlsym(void *handle, const char *name, const void *caller) {
    enum uma_valve_entry entry = uma_valve_entry_exported(name);
    if (entry == UMA_VALVE_N_ENTRIES || uma_valve_settings()->off)
        return (struct found){ NULL, 0 };
    bool everywhere = handle == RTLD_DEFAULT || handle == RTLD_NEXT; /* after the valve is what both mean to find */
    void *real = loader_dlsym(everywhere ? RTLD_NEXT : handle, name);
    if (real == uma_valve_hooks[entry]) { /* dlopen(NULL) */
        real = loader_dlsym(RTLD_NEXT, name);
        everywhere = true;
    }
    if (!real)
        return (struct found){ NULL, everywhere };
    if (handle == RTLD_NEXT && of_one_object(caller, real))
        return (struct found){ NULL, 0 }; /* another that stands before the driver, after the valve: the one after it is meant */
    return (struct found){ uma_valve_hook_for(entry, real), 1 };
}

__attribute__((visibility("hidden"), used)) int uma_valve_dlopen_flags(int flags) {
    uma_valve_find_loader();
    return uma_valve_settings()->off ? flags : flags & ~RTLD_DEEPBIND;
}

/* Linked into a program that is tested (tests/valve/soak.h), it stands before nobody. */
#if defined(UMA_VALVE_LINKED)
#elif defined(__x86_64__)
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, @function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "pushq %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "pushq %rsi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "subq $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "call uma_valve_find_loader\n"
        "movq 8(%rsp), %rsi\n"
        "movq 16(%rsp), %rdi\n"
        "movq 24(%rsp), %rdx\n"
        "call uma_valve_answer_dlsym\n"
        "addq $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "popq %rsi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "popq %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "testq %rdx, %rdx\n"
        "jne 1f\n"
        "movq uma_valve_real_dlsym(%rip), %rax\n"
        "jmp *%rax\n"
        "1: ret\n"
        ".cfi_endproc\n"
        ".size dlsym, .-dlsym\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        ".cfi_startproc\n"
        "endbr64\n"
        "pushq %rdi\n"
        ".cfi_adjust_cfa_offset 8\n"
        "movl %esi, %edi\n"
        "call uma_valve_dlopen_flags\n"
        "movl %eax, %esi\n"
        "popq %rdi\n"
        ".cfi_adjust_cfa_offset -8\n"
        "movq uma_valve_real_dlopen(%rip), %rax\n"
        "jmp *%rax\n"
        ".cfi_endproc\n"
        ".size dlopen, .-dlopen\n");
#else
__asm__(".text\n"
        ".globl dlsym\n"
        ".type dlsym, %function\n"
        "dlsym:\n"
        ".cfi_startproc\n"
        "hint #34\n" /* bti c */
        "stp x29, x30, [sp, #-32]!\n"
        ".cfi_def_cfa_offset 32\n"
        ".cfi_offset x29, -32\n"
        ".cfi_offset x30, -24\n"
        "mov x29, sp\n"
        "stp x0, x1, [sp, #16]\n"
        "bl uma_valve_find_loader\n"
        "ldp x0, x1, [sp, #16]\n"
        "ldr x2, [sp, #8]\n"
        "bl uma_valve_answer_dlsym\n"
        "mov x9, x0\n"
        "mov x10, x1\n"
        "ldp x0, x1, [sp, #16]\n"
        "ldp x29, x30, [sp], #32\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        ".cfi_def_cfa_offset 0\n"
        "cbnz x10, 1f\n"
        "adrp x9, uma_valve_real_dlsym\n"
        "ldr x9, [x9, :lo12:uma_valve_real_dlsym]\n"
        "mov x16, x9\n"
        "br x16\n"
        "1: mov x0, x9\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size dlsym, .-dlsym\n"
        ".globl dlopen\n"
        ".type dlopen, %function\n"
        "dlopen:\n"
        ".cfi_startproc\n"
        "hint #34\n"
        "stp x29, x30, [sp, #-32]!\n"
        ".cfi_def_cfa_offset 32\n"
        ".cfi_offset x29, -32\n"
        ".cfi_offset x30, -24\n"
        "mov x29, sp\n"
        "str x0, [sp, #16]\n"
        "mov w0, w1\n"
        "bl uma_valve_dlopen_flags\n"
        "mov w1, w0\n"
        "ldr x0, [sp, #16]\n"
        "ldp x29, x30, [sp], #32\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        ".cfi_def_cfa_offset 0\n"
        "adrp x9, uma_valve_real_dlopen\n"
        "ldr x9, [x9, :lo12:uma_valve_real_dlopen]\n"
        "mov x16, x9\n"
        "br x16\n"
        ".cfi_endproc\n"
        ".size dlopen, .-dlopen\n");
#endif

/* ---- cuGetProcAddress ---- */

static void answer(const char *name, void **function, int cuda_version, unsigned long long flags) {
    enum uma_valve_entry entry = uma_valve_entry_asked(name, cuda_version, flags);
    if (entry != UMA_VALVE_N_ENTRIES && function && *function && !uma_valve_settings()->off)
        *function = uma_valve_hook_for(entry, *function);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, unsigned long long flags) {
    CUresult (*real)(const char *, void **, int, unsigned long long) = uma_valve_real(UMA_VALVE_cuGetProcAddress);
    if (!real)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult r = real(symbol, pfn, cudaVersion, flags);
    if (r == CUDA_SUCCESS)
        answer(symbol, pfn, cudaVersion, flags);
    return r;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, unsigned long long flags, int *symbolStatus) {
    CUresult (*real)(const char *, void **, int, unsigned long long, int *) = uma_valve_real(UMA_VALVE_cuGetProcAddress_v2);
    if (!real)
        return CUDA_ERROR_NOT_INITIALIZED;
    CUresult r = real(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (r == CUDA_SUCCESS)
        answer(symbol, pfn, cudaVersion, flags);
    return r;
}
