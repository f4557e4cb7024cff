/* SPDX-License-Identifier: MIT */
/*
 * interpose.c - what a program sees of the helper: its own calls that make and change mappings, which do what they always did. The first mapping of a large regular file
 * starts the helper thread; before that nothing happens but the question how large a mapped file is.
 *
 * Everything that is remembered lies in memory that the kernel empties in a child (MADV_WIPEONFORK): whoever forks, by whatever call, has a child that starts anew.
 */
#include "window/protocol.h"
#include "window/serve.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LEAST_FILE ((off_t)16 << 20) /* below it a file is no model, and what it leaves in the cache does not matter */
#define STACK_BYTES ((size_t)256 << 10)

/* File systems whose files are memory themselves: nothing can be paged out of them, and allocators live in them (statfs(2)). */
#define TMPFS 0x01021994L
#define RAMFS 0x858458f6L
#define HUGETLBFS 0x958458f6L

_Static_assert(sizeof(off_t) == 8 && sizeof(long) == 8, "mmap and mmap64 are one function here");

/* Under names of our own: headers may have redirected mmap to mmap64 by now. */
#define EXPORT(name) __asm__(#name) __attribute__((visibility("default")))
void *window_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) EXPORT(mmap);
void *window_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) EXPORT(mmap64);
int window_munmap(void *address, size_t length) EXPORT(munmap);
void *window_mremap(void *address, size_t old_length, size_t length, int flags, ...) EXPORT(mremap);
int window_mprotect(void *address, size_t length, int protection) EXPORT(mprotect);
int window_pkey_mprotect(void *address, size_t length, int protection, int key) EXPORT(pkey_mprotect);
void *window_shmat(int id, const void *address, int flags) EXPORT(shmat);

/* The next library's, which may be another preloaded one; the kernel's call where this library is called before its own constructor ran. */
static struct {
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, ...);
    int (*mprotect)(void *, size_t, int);
    int (*pkey_mprotect)(void *, size_t, int, int);
    void *(*shmat)(int, const void *, int);
} next;

#define DIGITS_OF(version) #version
#define DIGITS(version) DIGITS_OF(version)
static const char mark[] __attribute__((used)) = UMA_WINDOW_MARK DIGITS(UMA_WINDOW_VERSION);

static char socket_path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* "": not in a job of umactl, nothing is done */
static uint64_t page_size;
static struct window_state *_Atomic shared_state;

/* This thread is inside the start of the helper: libc's allocation of the thread comes through here again. */
static _Thread_local __attribute__((tls_model("initial-exec"))) volatile bool starting;

static void find(void *function, const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    (void)memcpy(function, &found, sizeof(found));
}

static __attribute__((constructor)) void begin(void) {
    int saved = errno;
    find(&next.mmap, "mmap");
    find(&next.munmap, "munmap");
    find(&next.mremap, "mremap");
    find(&next.mprotect, "mprotect");
    find(&next.pkey_mprotect, "pkey_mprotect");
    find(&next.shmat, "shmat");
    page_size = (uint64_t)sysconf(_SC_PAGESIZE);
    const char *path = secure_getenv(UMA_WINDOW_VARIABLE);
    if (path && path[0] == '/' && strlen(path) < sizeof(socket_path))
        (void)memcpy(socket_path, path, strlen(path) + 1);
    errno = saved;
}

/* ---- what is remembered ---------------------------------------------------------------------------------------- */

/* NULL: nothing was mapped yet that matters. */
static struct window_state *state_if_any(void) {
    return atomic_load_explicit(&shared_state, memory_order_acquire);
}

static struct window_state *state_or_new(void) {
    struct window_state *state = state_if_any();
    if (state)
        return state;
    size_t size = (sizeof(*state) + page_size - 1) / page_size * page_size;
    /* the bare calls: this memory is nobody else's business */
    long r = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (r == -1)
        return NULL;
    struct window_state *made;
    (void)memcpy(&made, &r, sizeof(r));
    /* without it a child would believe in its parent's mappings and locks (Linux 4.14) */
    if (syscall(SYS_madvise, made, size, MADV_WIPEONFORK) != 0) {
        (void)syscall(SYS_munmap, made, size);
        return NULL;
    }
    if (atomic_compare_exchange_strong(&shared_state, &state, made))
        return made;
    (void)syscall(SYS_munmap, made, size);
    return state;
}

static uint64_t page_up(uint64_t bytes) {
    return (bytes + page_size - 1) / page_size * page_size;
}

/* Before the call that changes it, so that no page of it is dropped from then on. Keeps errno. */
static void forget(const void *address, size_t length) {
    struct window_state *state = state_if_any();
    if (!state || starting)
        return;
    uint64_t start = (uintptr_t)address, end = start + page_up(length);
    int saved = errno;
    if (window_lock_by_program(&state->lock)) {
        window_book_remove(&state->book, start / page_size * page_size, end < start ? UINT64_MAX : end);
        window_unlock(&state->lock);
    }
    errno = saved;
}

static void remember(struct window_state *state, const void *address, size_t length, off_t offset, bool shared) {
    uint64_t start = (uintptr_t)address;
    if (!window_lock_by_program(&state->lock))
        return;
    window_book_add(&state->book, (struct window_mapping){ start, start + page_up(length), (uint64_t)offset, shared, 0 });
    window_unlock(&state->lock);
}

static bool is_large_file(int fd) {
    struct stat st;
    struct statfs fs;
    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= LEAST_FILE && fstatfs(fd, &fs) == 0 && (long)fs.f_type != TMPFS &&
           (long)fs.f_type != RAMFS && (long)fs.f_type != HUGETLBFS;
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

static void *helper(void *userdata) {
    window_serve(userdata, socket_path);
    return NULL;
}

/* Once in a process: a socket that is gone stays gone. */
static void start_helper(struct window_state *state) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (atomic_exchange(&state->started, 1))
        return;
    starting = true;
    (void)sigfillset(&all);
    if (pthread_attr_init(&attributes) == 0) {
        if (pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
            pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 && pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
            (void)pthread_create(&thread, &attributes, helper, state); /* inherits the mask */
            (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        }
        (void)pthread_attr_destroy(&attributes);
    }
    starting = false;
}

/* After a mapping of a file was made. Keeps errno. */
static void made(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    int saved = errno;
    struct window_state *state = is_large_file(fd) ? state_or_new() : NULL;
    if (state) {
        if (!(protection & PROT_WRITE))
            remember(state, address, length, offset, (flags & MAP_TYPE) != MAP_PRIVATE);
        start_helper(state);
    }
    errno = saved;
}

/* ---- the calls ------------------------------------------------------------------------------------------------- */

void *window_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    void *p;
    if (flags & MAP_FIXED)
        forget(address, length);
    if (next.mmap) {
        p = next.mmap(address, length, protection, flags, fd, offset);
    } else {
        long r = syscall(SYS_mmap, address, length, protection, flags, fd, offset);
        (void)memcpy(&p, &r, sizeof(p));
    }
    if (p != MAP_FAILED && socket_path[0] && fd >= 0 && !(flags & MAP_ANONYMOUS) && !starting)
        made(p, length, protection, flags, fd, offset);
    return p;
}

void *window_mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    return window_mmap(address, length, protection, flags, fd, offset);
}

int window_munmap(void *address, size_t length) {
    forget(address, length);
    return next.munmap ? next.munmap(address, length) : (int)syscall(SYS_munmap, address, length);
}

void *window_mremap(void *address, size_t old_length, size_t length, int flags, ...) {
    void *to = NULL;
    if (flags & ~MREMAP_MAYMOVE) { /* MREMAP_FIXED, MREMAP_DONTUNMAP: the argument is there */
        va_list ap;
        va_start(ap, flags);
        to = va_arg(ap, void *);
        va_end(ap);
    }
    forget(address, old_length);
    if (flags & MREMAP_FIXED)
        forget(to, length);
    if (next.mremap)
        return next.mremap(address, old_length, length, flags, to);
    long r = syscall(SYS_mremap, address, old_length, length, flags, to);
    (void)memcpy(&to, &r, sizeof(r));
    return to;
}

int window_mprotect(void *address, size_t length, int protection) {
    if (protection & PROT_WRITE)
        forget(address, length);
    return next.mprotect ? next.mprotect(address, length, protection) : (int)syscall(SYS_mprotect, address, length, protection);
}

int window_pkey_mprotect(void *address, size_t length, int protection, int key) {
    if (protection & PROT_WRITE)
        forget(address, length);
    return next.pkey_mprotect ? next.pkey_mprotect(address, length, protection, key)
                              : (int)syscall(SYS_pkey_mprotect, address, length, protection, key);
}

void *window_shmat(int id, const void *address, int flags) {
    /* how long the segment is, nobody has said: whatever lies above is no longer known */
    if (flags & SHM_REMAP)
        forget(address, SIZE_MAX - (uintptr_t)address - page_size);
    if (next.shmat)
        return next.shmat(id, address, flags);
    long r = syscall(SYS_shmat, id, address, flags);
    void *p;
    (void)memcpy(&p, &r, sizeof(p));
    return p;
}
