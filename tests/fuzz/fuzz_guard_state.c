/* SPDX-License-Identifier: MIT */
/* The head of a place of the guard's state file. */
#include "guard/state_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct uma_guard_state_head head;
    if (size < sizeof(head))
        return 0;
    memcpy(&head, data, sizeof(head));
    if (uma_guard_state_head_fine(&head, size) &&
        (head.n_stopped > UMA_GUARD_HELD_MAX || head.n_ended > UMA_GUARD_HELD_MAX || head.state.n_braked > UMA_GUARD_BRAKED))
        abort();
    return 0;
}
