/* SPDX-License-Identifier: MIT */
/* zones.h - the page size of a machine that is only a folder: nobody can be asked, so it is inferred from numbers that must agree. Pure. */
#pragma once

#include "uma.h"

/*
 * Bytes per page, or UMA_UNKNOWN. AT_PAGESZ of `auxv`, a recorded /proc/PID/auxv (may be NULL), is a fact and comes first. Else
 *   - MemTotal over the managed pages of all zones, which the kernel counts from the same pages, and
 *   - MemFree over the pages in buddyinfo's blocks.
 * Only 4, 16 and 64 KiB exist on Linux machines of this kind; a ratio that is near none of them says nothing, and two that differ say
 * nothing either. (Virtual machines exist whose MemTotal counts memory that no zone manages yet; one was seen at a ratio of 4.2 pages,
 * 5 % from being taken for 16 KiB pages.)
 */
struct uma_u64 uma_page_size_infer(const struct uma_zones *zones, const struct uma_meminfo *meminfo, const char *auxv, size_t auxv_length);
