/* SPDX-License-Identifier: MIT */
/* checksum.h - CRC-32 (ISO 3309, the one of gzip and Ethernet: polynomial 0x04C11DB7 reflected) of what the guard keeps on disk: it finds records that a power loss cut. Pure. No protection from malice. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Of `length` bytes after those that gave `before`; 0 for the first. */
uint32_t uma_guard_checksum(uint32_t before, const void *data, size_t length);
