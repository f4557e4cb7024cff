/* SPDX-License-Identifier: MIT */
/* A register of reservations as its user left it, into the guard's envelopes: bounded, and nobody has more than his share. The same bytes as a name. */
#include "guard/declared.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool lives(void *userdata, unsigned slot) {
    return slot % 7 != *(unsigned *)userdata;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct uma_guard_declared declared;
    static struct uma_reservations all;
    size_t n = size < sizeof(all) ? size : sizeof(all);
    memset(&declared, 0, offsetof(struct uma_guard_declared, read));
    memset(&all, 0, sizeof(all));
    memcpy(&all, data, n);
    if (uma_reservations_check(&all, n))
        for (unsigned uid = 0; uid < 3; uid++) {
            uma_guard_declared_take(&declared, &all, uid, lives, &uid);
            unsigned of_user = 0;
            for (uint32_t i = 0; i < declared.n && i < UMA_GUARD_ENVELOPES; i++) {
                of_user += declared.uids[i] == uid;
                if (declared.list[i].pid <= 0 || declared.list[i].need == 0 || declared.list[i].id == 0)
                    abort();
            }
            if (declared.n > UMA_GUARD_ENVELOPES || of_user > UMA_GUARD_USER_ENVELOPES)
                abort();
        }
    uint32_t uid;
    (void)uma_guard_register_name((const char *)data, size, &uid);
    return 0;
}
