/* SPDX-License-Identifier: MIT */
/* What comes over the guard's control socket. */
#include "guard/control.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum uma_guard_ask ask;
    int32_t pid;
    if (uma_guard_question_parse((const char *)data, size, &ask, &pid) && (pid < 0 || (ask == UMA_GUARD_ASK_STATUS && pid != 0)))
        abort();
    return 0;
}
