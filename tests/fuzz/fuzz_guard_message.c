/* SPDX-License-Identifier: MIT */
/* A datagram as it came to the guard's helper: what is accepted can be used without another look. */
#include "guard/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_guard_message m;
    if (!uma_guard_message_fine(data, size))
        return 0;
    if (size != sizeof(m))
        abort();
    memcpy(&m, data, sizeof(m));
    if (m.action.pid < 0 || m.whom.pid < 0 || strlen(m.whom.name) >= sizeof(m.whom.name) || !isfinite(m.whom.score) || m.result > 0 ||
        m.dry_run > 1 || (m.whom.gpu_known && m.action.order >= UMA_GUARD_ORDERS))
        abort();
    return 0;
}
