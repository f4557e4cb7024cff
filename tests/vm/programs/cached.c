/* SPDX-License-Identifier: MIT */
/* cached FILE - "cached=BYTES dirty=BYTES evicted=BYTES" of one file's page cache, by cachestat(2). Exit 77: this kernel has no cachestat. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* the same on every architecture; Linux 6.5 */
#endif

int main(int argc, char **argv) {
    struct {
        uint64_t offset, length;
    } range = { 0, 0 }; /* to the end of the file */
    struct {
        uint64_t cache, dirty, writeback, evicted, recently_evicted;
    } pages = { 0 };
    int fd = argc == 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return perror("cached"), 2;
    if (syscall(SYS_cachestat, fd, &range, &pages, 0) < 0)
        return perror("cached: cachestat"), errno == ENOSYS ? 77 : 1;
    uint64_t page = (uint64_t)getpagesize();
    (void)printf("cached=%llu dirty=%llu evicted=%llu\n", (unsigned long long)(pages.cache * page),
                 (unsigned long long)(pages.dirty * page), (unsigned long long)(pages.evicted * page));
    return 0;
}
