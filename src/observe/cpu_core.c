/* SPDX-License-Identifier: MIT */
#include "observe/cpu_core.h"

#include "base/cleanup.h"
#include "base/units.h"

#include <errno.h>
#include <string.h>

/* Arm Ltd.'s implementer code ('A'). */
enum { IMPLEMENTER_ARM = 0x41 };

/* Part numbers as in Linux arch/arm64/include/asm/cputype.h and each core's technical reference manual. */
static const struct {
    uint16_t part;
    const char *name;
} arm_parts[] = {
    { 0xd03, "Cortex-A53" },  { 0xd04, "Cortex-A35" },  { 0xd05, "Cortex-A55" },   { 0xd07, "Cortex-A57" },    { 0xd08, "Cortex-A72" },
    { 0xd09, "Cortex-A73" },  { 0xd0a, "Cortex-A75" },  { 0xd0b, "Cortex-A76" },   { 0xd0c, "Neoverse-N1" },   { 0xd0d, "Cortex-A77" },
    { 0xd40, "Neoverse-V1" }, { 0xd41, "Cortex-A78" },  { 0xd42, "Cortex-A78AE" }, /* Jetson Orin */
    { 0xd44, "Cortex-X1" },   { 0xd46, "Cortex-A510" }, { 0xd47, "Cortex-A710" },  { 0xd48, "Cortex-X2" },     { 0xd49, "Neoverse-N2" },
    { 0xd4b, "Cortex-A78C" }, { 0xd4d, "Cortex-A715" }, { 0xd4e, "Cortex-X3" },    { 0xd4f, "Neoverse-V2" },   /* Grace */
    { 0xd80, "Cortex-A520" }, { 0xd81, "Cortex-A720" }, { 0xd82, "Cortex-X4" },    { 0xd83, "Neoverse-V3AE" }, /* Jetson Thor */
    { 0xd84, "Neoverse-V3" }, { 0xd85, "Cortex-X925" },                                                        /* GB10 */
    { 0xd87, "Cortex-A725" },                                                                                  /* GB10 */
    { 0xd8e, "Neoverse-N3" },
};

const char *uma_arm_core_name(uint64_t implementer, uint64_t part) {
    if (implementer != IMPLEMENTER_ARM)
        return NULL;
    for (size_t i = 0; i < ELEMENTS(arm_parts); i++)
        if (arm_parts[i].part == part)
            return arm_parts[i].name;
    return NULL;
}

const char *uma_midr_core_name(uint64_t midr) {
    return uma_arm_core_name((midr >> 24) & 0xff, (midr >> 4) & 0xfff);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

int uma_midr_parse(const char *text, size_t length, uint64_t *ret_midr) {
    while (length > 0 && strchr(" \t\r\n", text[length - 1]))
        length--;
    if (length < 3 || length > 18 || text[0] != '0' || (text[1] != 'x' && text[1] != 'X'))
        return -EINVAL;
    uint64_t value = 0;
    for (size_t i = 2; i < length; i++) {
        int digit = hex_digit(text[i]);
        if (digit < 0)
            return -EINVAL;
        value = value << 4 | (uint64_t)digit;
    }
    if (value > UINT32_MAX)
        return -EINVAL;
    *ret_midr = value;
    return 0;
}

/* Linux builds for at most 8192 CPUs; a larger id is not a CPU list but something else, and must not make us count for minutes. */
enum { CPU_ID_MAX = 65535 };

int uma_cpu_list_parse(const char *text, size_t length, size_t max, int32_t *ids) {
    const char *s = text, *end = text + length;
    while (end > s && strchr(" \t\r\n", end[-1]))
        end--;
    int64_t previous = -1;
    size_t n = 0;
    while (s < end) {
        uint64_t first, last;
        s = uma_parse_u64(s, end, &first);
        if (!s)
            return -EINVAL;
        last = first;
        if (s < end && *s == '-') {
            s = uma_parse_u64(s + 1, end, &last);
            if (!s)
                return -EINVAL;
        }
        if (last > CPU_ID_MAX || first > last || (int64_t)first <= previous)
            return -EINVAL;
        for (uint64_t id = first; id <= last; id++, n++)
            if (ids && n < max)
                ids[n] = (int32_t)id;
        previous = (int64_t)last;
        if (s < end && (*s++ != ',' || s == end))
            return -EINVAL;
    }
    return n > 0 ? (int)n : -EINVAL;
}
