/* SPDX-License-Identifier: MIT */
#include "plan/worksheet.h"

#include "plan/estimate.h"

static double weight_bytes(const struct uma_model *model, const struct uma_train *train) {
    enum uma_format format = train->weights;
    if (format == UMA_FORMAT_UNKNOWN) {
        if (train->method == UMA_METHOD_QLORA)
            return 0.5;
        uint64_t params = uma_model_params(model);
        double bits = params ? (double)uma_model_bytes(model) * 8 / (double)params : 16;
        return bits < 6 ? 0.5 : bits < 12 ? 1 : bits < 24 ? 2 : 4;
    }
    double bits = uma_format_bits(format);
    return bits < 6 ? 0.5 : bits < 12 ? 1 : bits < 24 ? 2 : 4; /* the sheet knows four sizes */
}

static double optimizer_bytes(enum uma_optimizer optimizer) {
    switch (optimizer) {
    case UMA_OPTIMIZER_ADAMW_8BIT:
    case UMA_OPTIMIZER_PAGED_ADAMW_8BIT:
        return 2;
    case UMA_OPTIMIZER_SGD:
    case UMA_OPTIMIZER_LOMO:
        return 0;
    default:
        return 8;
    }
}

void uma_worksheet_build(const struct uma_model *model, const struct uma_train *train, struct uma_worksheet *ret_sheet) {
    struct uma_worksheet sheet = { .params = uma_model_params(model), .weight_bytes_each = weight_bytes(model, train) };
    if (train->method == UMA_METHOD_FULL)
        sheet.trainable = sheet.params;
    sheet.gradient_bytes_each = 2;
    sheet.optimizer_bytes_each = optimizer_bytes(train->optimizer);
    sheet.weights = uma_scale(sheet.params, sheet.weight_bytes_each);
    sheet.gradients = uma_scale(sheet.trainable, sheet.gradient_bytes_each);
    sheet.optimizer = uma_scale(sheet.trainable, sheet.optimizer_bytes_each);
    sheet.total = uma_plus(sheet.weights, uma_plus(sheet.gradients, sheet.optimizer));
    *ret_sheet = sheet;
}
