/* SPDX-License-Identifier: MIT */
/*
 * Where the bytes come from: nowhere (counted), from receive rings of packet sockets (as root: pages that no process's RSS and no line of /proc/meminfo shows, as a GPU driver's), or from the
 * test module's device in a guest.
 */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../vm/module/uma_test_pool.h"

/* A ring is blocks of pages that hang together; sockets of a process are few, so one ring is large. */
enum { RING_SMALL = 64 << 10, RING_LARGE = 2 << 20, RINGS_MAX = 65536, FD_LOWEST = 300 };

static void give_up(const char *what) {
    (void)fprintf(stderr, "fake libcuda: %s: error %d\n", what, errno);
    abort();
}

static _Atomic uint8_t rings[RINGS_MAX]; /* by descriptor: open here, for a child to close */

static bool ring_take(uint64_t size, struct fake_backing *ret) {
    uint64_t block = size < RING_LARGE ? RING_SMALL : RING_LARGE, n = (size + block - 1) / block;
    struct tpacket_req request = { .tp_block_size = (unsigned)block, .tp_block_nr = (unsigned)n, .tp_frame_size = RING_SMALL };
    request.tp_frame_nr = (unsigned)(n * (block / RING_SMALL));
    int low = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: no packet ever comes */
    if (low < 0)
        give_up("a packet socket (memory:ring is for root)");
    int fd = fcntl(low, F_DUPFD_CLOEXEC, FD_LOWEST);
    (void)close(low);
    if (fd < 0 || fd >= RINGS_MAX)
        give_up("too many rings");
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) != 0) {
        (void)close(fd);
        return false;
    }
    atomic_store(&rings[fd], 1);
    ret->id = (uint64_t)fd;
    return true;
}

static _Atomic int device = -1;

static int device_fd(void) {
    int none = -1, fd = atomic_load(&device);
    if (fd >= 0)
        return fd;
    fd = open(UMA_TEST_POOL_DEVICE, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        give_up(UMA_TEST_POOL_DEVICE);
    if (atomic_compare_exchange_strong(&device, &none, fd))
        return fd;
    (void)close(fd);
    return none;
}

/* Blocks of 2 MiB as long as there are some, as the driver's (order 9 of 4 KiB pages). */
static bool device_take(uint64_t size, struct fake_backing *ret) {
    struct uma_test_pool_alloc a = { .bytes = size, .order = 9, .flags = UMA_TEST_POOL_FALL_BACK };
    if (ioctl(device_fd(), UMA_TEST_POOL_IOC_ALLOC, &a) != 0)
        return false;
    ret->id = a.id;
    return true;
}

static void device_give(uint64_t id) {
    __u64 number = id;
    if (ioctl(device_fd(), UMA_TEST_POOL_IOC_FREE, &number) != 0)
        give_up("free");
}

static void device_forget(void) {
    int fd = atomic_exchange(&device, -1);
    if (fd >= 0)
        (void)close(fd);
}

bool fake_backing_take(uint64_t size, struct fake_backing *ret_backing) {
    *ret_backing = (struct fake_backing){ .size = size };
    if (size == 0)
        return true;
    switch (fake_cuda_scenario()->memory) {
    case FAKE_RING:
        return ring_take(size, ret_backing);
    case FAKE_DEVICE:
        return device_take(size, ret_backing);
    case FAKE_COUNT:
        break;
    }
    return true;
}

void fake_backing_give(const struct fake_backing *backing) {
    if (!backing->id)
        return;
    if (fake_cuda_scenario()->memory == FAKE_DEVICE) {
        device_give(backing->id);
        return;
    }
    if (atomic_exchange(&rings[backing->id], 0))
        (void)close((int)backing->id);
}

void fake_backing_forget(void) {
    device_forget();
    for (unsigned fd = 0; fd < RINGS_MAX; fd++)
        if (atomic_exchange(&rings[fd], 0))
            (void)close((int)fd);
}
