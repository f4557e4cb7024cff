/* SPDX-License-Identifier: MIT */
/*
 * heat.h - temperatures, power, fans and clocks that the kernel shows without a GPU driver. hwmon chips are found by name (numbers
 * move between boots); channels by label. Sentinels such as 65261.85 C are dropped.
 */
#pragma once

#include "base/arena.h"
#include "base/root.h"
#include "uma.h"

struct uma_heat_reader;
struct uma_heat_reader *uma_heat_reader_new(struct uma_root *root);
struct uma_heat_reader *uma_heat_reader_free(struct uma_heat_reader *reader);
/* Fills snapshot->heat. The first reading discovers the channels, later ones read only values (rediscovering when one vanishes). */
void uma_heat_read(struct uma_heat_reader *reader, struct uma_snapshot *snapshot);
