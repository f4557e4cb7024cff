/* SPDX-License-Identifier: MIT */
/* A policy file by whoever wrote it: what is accepted stays within its bounds, and what is printed of it reads back as the same policy. */
#include "guard/policy_file.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_bounds(const struct uma_guard_policy *policy) {
    for (unsigned i = 0; i < UMA_GUARD_KEYS; i++) {
        const struct uma_guard_key *key = &uma_guard_keys[i];
        if (key->of_notify)
            continue;
        const void *value = (const char *)policy + key->offset;
        const struct uma_guard_patterns *patterns = value;
        double number = key->kind == UMA_GUARD_KEY_SIZE                                             ? (double)*(const uint64_t *)value
                        : key->kind == UMA_GUARD_KEY_COUNT                                          ? (double)*(const uint32_t *)value
                        : key->kind == UMA_GUARD_KEY_SECONDS || key->kind == UMA_GUARD_KEY_MULTIPLE ? *(const double *)value
                                                                                                    : key->least;
        if (!(number >= key->least && number <= key->most) && !(key->automatic && number == 0))
            abort();
        if (key->kind != UMA_GUARD_KEY_PATTERNS)
            continue;
        if (patterns->n > UMA_GUARD_PATTERNS)
            abort();
        for (uint32_t k = 0; k < patterns->n; k++)
            if (!memchr(patterns->list[k], '\0', UMA_GUARD_PATTERN_MAX) || !patterns->list[k][0])
                abort();
    }
}

static void check_round_trip(const struct uma_guard_policy *policy, bool reasons) {
    struct uma_guard_policy back;
    _cleanup_text_ struct uma_text text = { 0 };
    uma_guard_policy_default(&back);
    uma_guard_policy_print(policy, reasons, &text);
    if (text.failed || uma_guard_policy_parse(text.data, text.length, "printed", &back, NULL) < 0)
        abort();
    for (unsigned i = 0; i < UMA_GUARD_KEYS; i++)
        if (!uma_guard_policy_same(policy, &back, &uma_guard_keys[i]))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct uma_guard_policy policy, before;
    struct uma_error err = { 0 };
    memset(&policy, 0, sizeof(policy));
    uma_guard_policy_default(&policy);
    before = policy;
    if (uma_guard_policy_parse((const char *)data, size, "guard.conf", &policy, &err) < 0) {
        if (memcmp(&before, &policy, sizeof(policy)) != 0 || !err.text[0] || !memchr(err.text, '\0', sizeof(err.text)))
            abort();
        return 0;
    }
    check_bounds(&policy);
    check_round_trip(&policy, false);
    check_round_trip(&policy, true);
    return 0;
}
