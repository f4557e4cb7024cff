/* SPDX-License-Identifier: MIT */
/*
 * A process that uses files, for tests that look at it from outside. usage: use_files WORD...
 * Words are done one after another; then it prints "ready" and waits until its standard input ends. Exit 77: this user may not.
 *   open:PATH  map:PATH (and close)  unlink:PATH  memfd:NAME  sysv  chdir:PATH  chroot:PATH  user:ID
 *   thread (the first thread ends; another waits)
 *   unshare (mount namespace)  bind:FROM=ON  tmpfs:ON  overlay:LOWER=UPPER=WORK=ON  detach:ON
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <unistd.h>

enum { PARTS = 4, PAGE = 4096, EXIT_SKIP = 77 };

static volatile char touched;
static bool ends;

static int open_file(const char *path) {
    return open(path, O_RDONLY | O_CLOEXEC);
}

static int map_file(const char *path) {
    int fd = open_file(path);
    if (fd < 0)
        return -1;
    const char *at = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (at == MAP_FAILED)
        return -1;
    touched = at[0];
    return 0;
}

static int make_memfd(const char *name) {
    int fd = memfd_create(name, MFD_CLOEXEC);
    return fd < 0 ? -1 : ftruncate(fd, 3L * PAGE);
}

static int make_sysv(void) {
    int id = shmget(IPC_PRIVATE, 5 * PAGE, IPC_CREAT | 0600);
    if (id < 0 || shmat(id, NULL, 0) == MAP_FAILED)
        return -1;
    return shmctl(id, IPC_RMID, NULL);
}

static int become(const char *id) {
    char *end = NULL;
    unsigned long number = strtoul(id, &end, 10);
    if (!end || *end)
        return -1;
    return setresgid((gid_t)number, (gid_t)number, (gid_t)number) < 0 || setresuid((uid_t)number, (uid_t)number, (uid_t)number) < 0 ? -1
                                                                                                                                    : 0;
}

static int make_overlay(char *const part[PARTS]) {
    char options[4096];
    (void)snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", part[0], part[1], part[2]);
    return mount("none", part[3], "overlay", 0, options);
}

static int leave_namespace(void) {
    return unshare(CLONE_NEWNS) < 0 ? -1 : mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* -2: no such word. */
static int perform(const char *word, char *const part[PARTS]) {
    const char *a = part[0];
    if (strcmp(word, "open") == 0)
        return open_file(a);
    if (strcmp(word, "map") == 0)
        return map_file(a);
    if (strcmp(word, "unlink") == 0)
        return unlink(a);
    if (strcmp(word, "memfd") == 0)
        return make_memfd(a);
    if (strcmp(word, "sysv") == 0)
        return make_sysv();
    if (strcmp(word, "chdir") == 0)
        return chdir(a);
    if (strcmp(word, "chroot") == 0)
        return chroot(a) < 0 ? -1 : chdir("/");
    if (strcmp(word, "user") == 0)
        return become(a);
    if (strcmp(word, "unshare") == 0)
        return leave_namespace();
    if (strcmp(word, "bind") == 0)
        return mount(a, part[1], NULL, MS_BIND, NULL);
    if (strcmp(word, "tmpfs") == 0)
        return mount("none", a, "tmpfs", 0, "size=1m");
    if (strcmp(word, "overlay") == 0)
        return make_overlay(part);
    if (strcmp(word, "thread") == 0)
        return (ends = true, 0);
    if (strcmp(word, "detach") == 0)
        return umount2(a, MNT_DETACH);
    return -2;
}

static void *wait_for_end(void *unused) {
    char byte;
    (void)puts("ready");
    (void)fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    exit(0);
    return unused;
}

int main(int argc, char **argv) {
    static char none[] = "";
    for (int i = 1; i < argc; i++) {
        char *part[PARTS] = { none, none, none, none };
        char *rest = strchr(argv[i], ':');
        if (rest)
            *rest++ = '\0';
        for (int k = 0; k < PARTS && rest; k++)
            part[k] = strsep(&rest, "=");
        int r = perform(argv[i], part);
        if (r < 0) {
            int code = errno;
            (void)fprintf(stderr, "%s %s: %s\n", argv[i], part[0], r == -2 ? "unknown" : strerror(code));
            return r == -1 && (code == EPERM || code == ENODEV || code == ENOSYS) ? EXIT_SKIP : 1;
        }
    }
    if (!ends) {
        (void)wait_for_end(NULL);
        return 0;
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, wait_for_end, NULL) != 0)
        return 1;
    pthread_exit(NULL);
}
