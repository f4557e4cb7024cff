/* SPDX-License-Identifier: MIT */
#include "valve/numbers.h"

#include "valve/call.h"

#include <stdint.h>

/* getdents(2): struct linux_dirent64 */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};

bool uma_valve_each_number(int folder, uma_valve_visitor *visit, void *userdata) {
    _Alignas(8) char buffer[4096];
    long n;
    while ((n = syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0)
        for (long at = 0; at < n;) {
            const struct entry *e = (const void *)(buffer + at);
            if (e->name[0] >= '0' && e->name[0] <= '9' && visit(folder, e->name, userdata))
                return true;
            at += e->length;
        }
    return false;
}
