/* SPDX-License-Identifier: MIT */
/*
 * cpu_core.h - what Arm's main ID register (MIDR_EL1) says about a core, and the kernel's CPU lists ("0-3,7"). Pure functions of text.
 * They never guess: a part that the table does not name is NULL, and parts are only looked up under Arm's own implementer code, because
 * each implementer numbers its parts by itself.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The text of regs/identification/midr_el1: "0x00000000410fd850" (Documentation/arch/arm64/cpu-feature-registers.rst). 0 or -EINVAL. A
 * value beyond 32 bits is refused: bits 63..32 of the register are reserved as zero.
 */
int uma_midr_parse(const char *text, size_t length, uint64_t *ret_midr);
/* "Cortex-X925", static; NULL for another implementer or an unknown part. */
const char *uma_midr_core_name(uint64_t midr);
/* The same from the two numbers that /proc/cpuinfo prints. */
const char *uma_arm_core_name(uint64_t implementer, uint64_t part);

/*
 * A list as in sys/devices/system/cpu/online. Stores at most `max` ids (ids may be NULL: only count), ascending as the kernel prints them.
 * Returns how many CPUs the list names (which may be more than max), or -EINVAL: not a list, not ascending, or an id beyond 65535.
 */
int uma_cpu_list_parse(const char *text, size_t length, size_t max, int32_t *ids);
