/* SPDX-License-Identifier: MIT */
/*
 * worksheet.h - the simple accounting sheet that people use on these machines: parameters x bytes, line by line, in decimal
 * GB, with activations left to the reader. Printed beside the full estimate so that the difference can be seen. Pure.
 */
#pragma once

#include "uma_plan.h"

struct uma_worksheet {
    uint64_t params, trainable;
    double weight_bytes_each, gradient_bytes_each, optimizer_bytes_each;
    uint64_t weights, gradients, optimizer, total; /* bytes; an adapter rounds to zero on the sheet */
};

/*
 * The sheet's rules (wshobson/agents uma-accounting.md): weights by type (fp32 4, bf16 2, int8 1, int4 0.5 bytes), gradients 2 bytes per
 * trainable parameter, AdamW 8 bytes per trainable parameter, 8-bit 2; LoRA and QLoRA adapters "round to zero"; no activations, no KV.
 */
void uma_worksheet_build(const struct uma_model *model, const struct uma_train *train, struct uma_worksheet *ret_sheet);
