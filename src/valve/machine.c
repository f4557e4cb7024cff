/* SPDX-License-Identifier: MIT */
#include "valve/machine.h"

#include "valve/call.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The five lines are among the first ten. */
enum { TEXT_MAX = 1024 };
/* Programs close and reuse low numbers; few have thousands open. */
enum { HIGH = 500 };

static bool line(const char *text, const char *name, uint64_t *ret_bytes) {
    const char *s = strstr(text, name);
    if (!s || (s != text && s[-1] != '\n'))
        return false;
    s += strlen(name);
    while (*s == ' ')
        s++;
    uint64_t kib = 0;
    const char *first = s;
    for (; *s >= '0' && *s <= '9' && s - first < 16; s++)
        kib = kib * 10 + (uint64_t)(*s - '0');
    *ret_bytes = kib << 10;
    return s != first;
}

bool uma_valve_machine_parse(const char *text, struct uma_valve_reading *ret_reading) {
    struct uma_valve_reading r;
    uint64_t active = 0, inactive = 0;
    if (!line(text, "MemTotal:", &r.total) || !line(text, "MemFree:", &r.free) || !line(text, "MemAvailable:", &r.available))
        return false;
    if (!line(text, "Active(file):", &active) || !line(text, "Inactive(file):", &inactive))
        active = inactive = 0;
    r.cache = active + inactive;
    *ret_reading = r;
    return true;
}

static bool reopen(struct uma_valve_machine *machine) {
    int low = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    if (low < 0)
        return false;
    int high = fcntl(low, F_DUPFD_CLOEXEC, HIGH);
    if (high >= 0)
        (void)close(low);
    machine->fd = high >= 0 ? high : low;
    return uma_valve_inode_of(machine->fd, &machine->inode);
}

bool uma_valve_machine_read(struct uma_valve_machine *machine, struct uma_valve_reading *ret_reading) {
    char text[TEXT_MAX];
    uint64_t inode = 0;
    if ((machine->fd < 0 || !uma_valve_inode_of(machine->fd, &inode) || inode != machine->inode) && !reopen(machine))
        return false;
    ssize_t n = pread(machine->fd, text, sizeof(text) - 1, 0);
    if (n <= 0)
        return false;
    text[n] = '\0';
    return uma_valve_machine_parse(text, ret_reading);
}
