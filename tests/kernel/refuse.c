/* SPDX-License-Identifier: MIT */
/*
 * refuse ENOSYS|EPERM SYSCALL... -- COMMAND [ARGUMENT...]
 *
 * Runs a command as on an older kernel, or under a container's filter: the named system calls fail with that error in it and in all that it starts (seccomp(2)).
 * No privilege is needed; the command cannot gain any either (PR_SET_NO_NEW_PRIVS). Exit status 77: this machine has no filters.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "which architecture is this? See linux/audit.h"
#endif

/* The calls that have a fallback. Those since 5.1 have one number everywhere; headers of older systems lack them. */
static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    { "cachestat", 451 },
    { "faccessat2", 439 },
    { "fadvise64", SYS_fadvise64 },
    { "fdatasync", SYS_fdatasync },
    { "memfd_create", SYS_memfd_create },
    { "mincore", SYS_mincore },
    { "openat2", 437 },
    { "pidfd_getfd", 438 },
    { "pidfd_open", 434 },
    { "process_madvise", 440 },
    { "process_vm_readv", SYS_process_vm_readv },
    { "statx", SYS_statx },
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]), REFUSED_MAX = 32, INSTRUCTIONS_MAX = 4 + 2 * REFUSED_MAX + 1 };

static int usage(void) {
    (void)fputs("usage: refuse ENOSYS|EPERM SYSCALL... -- COMMAND [ARGUMENT...]\nSYSCALL:", stderr);
    for (size_t i = 0; i < CALLS; i++)
        (void)fprintf(stderr, " %s", calls[i].name);
    (void)fputs("\n", stderr);
    return 2;
}

/* 0 is no such name: read(2) or io_setup(2), which nobody could do without. */
static unsigned number_of(const char *name) {
    for (size_t i = 0; i < CALLS; i++)
        if (strcmp(name, calls[i].name) == 0)
            return calls[i].number;
    return 0;
}

int main(int argc, char **argv) {
    unsigned error = argc < 2                         ? 0u
                     : strcmp(argv[1], "ENOSYS") == 0 ? (unsigned)ENOSYS
                     : strcmp(argv[1], "EPERM") == 0  ? (unsigned)EPERM
                                                      : 0u;
    if (error == 0)
        return usage();
    struct sock_filter program[INSTRUCTIONS_MAX] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0), /* other calling conventions have other numbers */
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    unsigned short n = 4;
    int i = 2;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        unsigned number = number_of(argv[i]);
        if (number == 0 || n + 3 > INSTRUCTIONS_MAX)
            return usage();
        program[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
        program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
    }
    program[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    if (i == 2 || i + 1 >= argc)
        return usage();
    struct sock_fprog filter = { .len = n, .filter = program };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0) {
        perror("refuse: no filter of system calls here");
        return 77;
    }
    (void)execvp(argv[i + 1], argv + i + 1);
    perror(argv[i + 1]);
    return 127;
}
