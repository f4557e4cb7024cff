/* SPDX-License-Identifier: MIT */
/*
 * hold KIND BYTES - take memory of one kind from this machine's kernel, say "ready" on stdout, and give it back when stdin ends.
 * Exit 77: this machine or user cannot (the reason is on stderr). The kinds are those that a ledger of a machine must tell apart:
 *   anon     private anonymous pages                      -> AnonPages
 *   tmpfs    a file in /dev/shm, closed                   -> Shmem
 *   memfd    a memfd, never mapped                        -> Shmem
 *   pipe     written and never read                       -> no row of meminfo
 *   packet   an AF_PACKET receive ring: kernel pages, no RSS, no cgroup, no row of meminfo: what a GPU driver's memory looks like
 *   uring    io_uring fixed buffers whose mapping is gone -> on the anonymous LRU, but mapped by nobody
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SKIP = 77, MIB = 1024 * 1024 };

static int cannot(const char *what) {
    (void)fprintf(stderr, "%s: %s\n", what, strerror(errno));
    return SKIP;
}

static char *touched(size_t bytes) {
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static int fill(int fd, size_t bytes) {
    char *block = malloc(MIB);
    if (!block)
        return -1;
    (void)memset(block, 0x5a, MIB);
    for (size_t done = 0; done < bytes;) {
        ssize_t n = write(fd, block, bytes - done < MIB ? bytes - done : MIB);
        if (n < 0) {
            free(block);
            return -1;
        }
        done += (size_t)n;
    }
    free(block);
    return 0;
}

static int hold_tmpfs(size_t bytes) {
    char path[] = "/dev/shm/umactl-hold-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0)
        return cannot("/dev/shm");
    (void)unlink(path); /* deleted but open: freed when this program ends, however it ends */
    return fill(fd, bytes) < 0 ? cannot("writing to /dev/shm") : 0;
}

static int hold_memfd(size_t bytes) {
    int fd = memfd_create("umactl-hold", MFD_CLOEXEC);
    if (fd < 0)
        return cannot("memfd_create");
    return fill(fd, bytes) < 0 ? cannot("writing to the memfd") : 0;
}

static int hold_pipe(size_t bytes) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    for (size_t done = 0; done < bytes; done += MIB) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
            return cannot("pipe");
        if (fcntl(ends[1], F_SETPIPE_SZ, MIB) < MIB)
            return cannot("F_SETPIPE_SZ to 1 MiB");
        if (fill(ends[1], MIB) < 0)
            return cannot("filling a pipe");
    }
    return 0;
}

static int hold_packet(size_t bytes) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return cannot("AF_PACKET socket (needs CAP_NET_RAW)");
    struct tpacket_req ring = { .tp_block_size = 64 * 1024, .tp_frame_size = 2048 };
    ring.tp_block_nr = (unsigned)(bytes / ring.tp_block_size);
    ring.tp_frame_nr = ring.tp_block_nr * (ring.tp_block_size / ring.tp_frame_size);
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)) < 0)
        return cannot("PACKET_RX_RING");
    return 0;
}

static int hold_uring(size_t bytes) {
    struct io_uring_params parameters = { 0 };
    long fd = syscall(SYS_io_uring_setup, 4, &parameters);
    if (fd < 0)
        return cannot("io_uring_setup");
    char *p = touched(bytes);
    if (!p)
        return cannot("mmap");
    enum { PIECES = 16 }; /* a single registered buffer is at most 1 GiB */
    struct iovec pieces[PIECES];
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){ p + (size_t)i * (bytes / PIECES), bytes / PIECES };
    if (syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, pieces, PIECES) < 0)
        return cannot("IORING_REGISTER_BUFFERS (needs CAP_IPC_LOCK or RLIMIT_MEMLOCK)");
    return munmap(p, bytes) < 0 ? cannot("munmap") : 0;
}

static int hold_anon(size_t bytes) {
    return touched(bytes) ? 0 : cannot("mmap");
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*hold)(size_t bytes);
    } kinds[] = { { "anon", hold_anon }, { "tmpfs", hold_tmpfs },   { "memfd", hold_memfd },
                  { "pipe", hold_pipe }, { "packet", hold_packet }, { "uring", hold_uring } };
    unsigned long long bytes;
    if (argc != 3 || sscanf(argv[2], "%llu", &bytes) != 1 || bytes == 0 || bytes > (1ull << 40)) {
        (void)fprintf(stderr, "usage: %s anon|tmpfs|memfd|pipe|packet|uring BYTES\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(argv[1], kinds[i].name) != 0)
            continue;
        int r = kinds[i].hold((size_t)bytes);
        if (r != 0)
            return r;
        (void)printf("ready\n");
        (void)fflush(stdout);
        char byte;
        while (read(STDIN_FILENO, &byte, 1) > 0) {
        }
        return 0;
    }
    (void)fprintf(stderr, "unknown kind %s\n", argv[1]);
    return 2;
}
