/* SPDX-License-Identifier: MIT */
/* The probe's answer about limits: any bytes may come over the socket; texts end, and no more GPUs are told than there are. */
#include "observe/driver_limits.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_driver_limits limits;
    if (uma_driver_limits_parse(data, size, &limits) < 0)
        return 0;
    if (limits.n > ELEMENTS(limits.gpus) || !memchr(limits.detail, '\0', sizeof(limits.detail)) ||
        !memchr(limits.driver, '\0', sizeof(limits.driver)))
        __builtin_trap();
    for (unsigned i = 0; i < limits.n; i++)
        if (limits.gpus[i].state > limits.state)
            __builtin_trap(); /* one GPU's trouble is the whole answer's */
    return 0;
}
