/* SPDX-License-Identifier: MIT */
/* A pattern, a zero byte and a text: the matcher ends, and agrees with one that tries everything, on texts short enough for that. */
#include "guard/names.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* can[i][j]: the first i bytes of the pattern match the first j of the text. */
static bool by_table(const char *pattern, const char *text, size_t length) {
    static bool can[UMA_GUARD_PATTERN_MAX + 1][257];
    size_t n = strlen(pattern);
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= length; j++) {
            if (i == 0)
                can[i][j] = j == 0;
            else if (pattern[i - 1] == '*')
                can[i][j] = can[i - 1][j] || (j > 0 && can[i][j - 1]);
            else
                can[i][j] = j > 0 && can[i - 1][j - 1] && (pattern[i - 1] == '?' || pattern[i - 1] == text[j - 1]);
        }
    return can[n][length];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct uma_guard_patterns patterns;
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    if (!zero || (size_t)(zero - data) >= UMA_GUARD_PATTERN_MAX)
        return 0;
    patterns.n = 1;
    memset(patterns.list[0], 0, sizeof(patterns.list[0]));
    memcpy(patterns.list[0], data, (size_t)(zero - data));
    const char *text = (const char *)zero + 1;
    size_t length = size - (size_t)(zero - data) - 1;
    bool is = uma_guard_pattern_matches(patterns.list[0], text, length);
    if (length <= 256 && is != by_table(patterns.list[0], text, length))
        abort();
    char name[UMA_GUARD_NAME_MAX] = { 0 };
    memcpy(name, text, length < sizeof(name) - 1 ? length : sizeof(name) - 1);
    (void)uma_guard_names_have(&patterns, name);
    (void)uma_guard_units_have(&patterns, text, length);
    (void)uma_guard_is_shell(name);
    return 0;
}
