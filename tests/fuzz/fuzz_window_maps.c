/* SPDX-License-Identifier: MIT */
#include "window/maps.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A maps file as it is read, and each of its lines alone in memory of its own length: what is found is what the first matching line says. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    struct window_area found, area;
    if (fd < 0)
        fd = memfd_create("maps", MFD_CLOEXEC);
    if (size > 65536 || fd < 0 || ftruncate(fd, 0) < 0 || (size && pwrite(fd, data, size, 0) != (ssize_t)size))
        return 0;
    uint64_t address = size >= 8 ? data[0] * UINT64_C(0x1000) : 0;
    bool is = window_maps_area(fd, address, &found);
    if (is && (found.start >= found.end || found.end <= address))
        abort();
    for (size_t at = 0; at < size;) {
        const uint8_t *newline = memchr(data + at, '\n', size - at);
        size_t length = (newline ? (size_t)(newline - data) : size) - at;
        char *line = malloc(length ? length : 1);
        if (!line)
            return 0;
        memcpy(line, data + at, length);
        bool good = window_maps_line(line, length, &area);
        free(line);
        if (!good) {
            if (is)
                abort();
            break;
        }
        if (area.end > address) {
            if (!is || area.start != found.start || area.end != found.end || area.file != found.file || area.writable != found.writable)
                abort();
            break;
        }
        at += length + 1;
    }
    return 0;
}
