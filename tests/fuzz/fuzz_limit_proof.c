/* SPDX-License-Identifier: MIT */
/* What umactl valve --probe wrote down: texts end and are printable. */
#include "job/limit_proof.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_limit_proof proof;
    if (uma_limit_proof_parse((const char *)data, size, &proof, NULL) < 0)
        return 0;
    for (const char *s = proof.driver; *s; s++)
        if (*s <= ' ' || *s > '~')
            __builtin_trap();
    if (proof.holds != uma_limit_proof_holds(&proof, proof.boot_id, proof.driver))
        __builtin_trap();
    return 0;
}
