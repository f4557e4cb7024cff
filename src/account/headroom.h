/* SPDX-License-Identifier: MIT */
/*
 * headroom.h - what a new job can have: not one number but the vector of the contract, each with its own validity, and the budget that
 * a gate compares a need with. Swap is shown and never added: the GPU cannot use it. Pure.
 */
#pragma once

#include "account/gpu_share.h"
#include "base/text.h"
#include "uma.h"

void uma_headroom_build(const struct uma_snapshot *snapshot, const struct uma_gpu_share *share, const struct uma_ledger *ledger,
                        uint64_t reserved, struct uma_headroom *ret_headroom);
/*
 * Where the budget is in huge pages, which an ordinary allocation cannot have: "in huge pages (ordinary allocations have 15.3 GiB
 * available)"; else nothing, and false.
 */
bool uma_headroom_note(struct uma_text *text, const struct uma_account *account);
