/* SPDX-License-Identifier: MIT */
#include "plan/model/folder.h"

#include "plan/estimate.h"
#include "plan/model/structure.h"

#include <stdio.h>
#include <string.h>

int uma_folder_sum_add(void *userdata, const struct uma_safetensors_tensor *t, struct uma_error *err) {
    (void)err;
    struct uma_folder_sum *sum = userdata;
    struct uma_tensor_storage storage = uma_tensor_storage(t, &sum->packing);
    enum uma_class class_ = uma_tensor_class(t->name, t->name_length, uma_tensor_is_vector(t, &storage), sum->model);
    struct uma_tensor_total *total = &sum->totals[class_];
    total->tensors++;
    total->params = uma_plus(total->params, storage.params);
    total->bytes = uma_plus(total->bytes, t->bytes);
    sum->largest_tensor = MAX_OF(sum->largest_tensor, t->bytes);
    if (storage.part == UMA_PART_PACKED)
        sum->packed_params[class_][storage.packed_as] = uma_plus(sum->packed_params[class_][storage.packed_as], storage.params);
    else if (storage.part == UMA_PART_VALUES)
        sum->format_params[class_][storage.format] = uma_plus(sum->format_params[class_][storage.format], storage.params);
    else if (storage.part == UMA_PART_SCALE)
        sum->scales[class_] = uma_plus(sum->scales[class_], t->elements);
    sum->absmax = sum->absmax || storage.absmax;
    sum->double_quantised = sum->double_quantised || storage.double_quantised;
    if (t->dtype == UMA_DTYPE_UNKNOWN && sum->unknown_types++ == 0)
        (void)snprintf(sum->unknown_type, sizeof(sum->unknown_type), "%s", t->dtype_name);
    if (class_ == UMA_CLASS_MTP) {
        int64_t layer = uma_tensor_layer(t->name, t->name_length);
        if (sum->model && layer >= (int64_t)sum->model->layer_count)
            sum->mtp_last_layer = MAX_OF(sum->mtp_last_layer, (uint32_t)layer + 1);
    }
    if (sum->wants_shape)
        uma_folder_shape_see(&sum->shape, t, class_, &storage);
    return 0;
}

/* ---- formats ------------------------------------------------------------------------------------------------ */

/* GPTQ's and AWQ's groups: what lies nearest to one of the sizes in use; a scale per row or none at all is "channel". */
static enum uma_format words_of_four_bits(const struct uma_model *model, uint64_t group) {
    if (group == 0 || group > 512)
        return UMA_FORMAT_GPTQ4_CHANNEL;
    if (group > 96)
        return model->quantisation && strcasestr(model->quantisation, "awq") ? UMA_FORMAT_AWQ4_G128 : UMA_FORMAT_GPTQ4_G128;
    return group > 48 ? UMA_FORMAT_GPTQ4_G64 : UMA_FORMAT_GPTQ4_G32;
}

/* What packed values are, by the box they come in and the number of values to a scale. */
static enum uma_format packed_format(const struct uma_folder_sum *sum, const struct uma_model *model, enum uma_packed_as as,
                                     uint64_t group) {
    unsigned bits = sum->packing.bits ? sum->packing.bits : 4;
    if (as == UMA_PACKED_BLOCKS)
        return UMA_FORMAT_MXFP4;
    if (bits == 8)
        return UMA_FORMAT_INT8;
    if (bits != 4)
        return UMA_FORMAT_UNKNOWN;
    switch (as) {
    case UMA_PACKED_QWEIGHT:
        return words_of_four_bits(model, group);
    case UMA_PACKED_WEIGHT_PACKED: /* int32 words of 4 bits, or bytes of NVFP4 */
        return group > 0 && group <= 24     ? UMA_FORMAT_NVFP4
               : group > 96 && group <= 512 ? UMA_FORMAT_W4A16_G128
                                            : words_of_four_bits(model, group);
    case UMA_PACKED_BYTES:
        if (sum->absmax)
            return sum->double_quantised ? UMA_FORMAT_NF4_DQ : UMA_FORMAT_NF4;
        return group > 0 && group <= 24 ? UMA_FORMAT_NVFP4 : group <= 48 && group > 0 ? UMA_FORMAT_MXFP4 : UMA_FORMAT_NVFP4;
    case UMA_PACKED_HQQ:
        return UMA_FORMAT_HQQ4_G64;
    case UMA_PACKED_WORDS: /* MLX: a scale and an offset of 16 bits to 64 values, as HQQ has them */
        return group > 48 ? UMA_FORMAT_HQQ4_G64 : UMA_FORMAT_GPTQ4_G32;
    default:
        return UMA_FORMAT_UNKNOWN;
    }
}

/* FP8 with a scale per tensor or row, per 128 x 128 block, or per 32 (MX). */
static enum uma_format fp8_format(uint64_t group) {
    if (group > 0 && group <= 64)
        return UMA_FORMAT_MXFP8;
    /* rows are shorter than a block's 16,384 values in part, and longer in none of the models in use: 28,672 */
    return group > 12000 && group < 17000 ? UMA_FORMAT_FP8_BLOCK128 : UMA_FORMAT_FP8;
}

static enum uma_format class_format(const struct uma_folder_sum *sum, const struct uma_model *model, enum uma_class class_) {
    uint64_t most = 0;
    enum uma_format format = UMA_FORMAT_UNKNOWN;
    enum uma_packed_as as = UMA_PACKED_NOT;
    for (unsigned i = 0; i < UMA_FORMAT_COUNT; i++)
        if (sum->format_params[class_][i] > most) {
            most = sum->format_params[class_][i];
            format = (enum uma_format)i;
        }
    for (unsigned i = 0; i < UMA_PACKED_AS_COUNT; i++)
        if (sum->packed_params[class_][i] > most) {
            most = sum->packed_params[class_][i];
            as = (enum uma_packed_as)i;
        }
    uint64_t group = sum->scales[class_] ? most / sum->scales[class_] : 0;
    if (as != UMA_PACKED_NOT)
        format = packed_format(sum, model, as, group);
    else if (format == UMA_FORMAT_FP8)
        format = fp8_format(group);
    return format == UMA_FORMAT_UNKNOWN ? model->class_format[class_] : format;
}

/* ---- into the model ----------------------------------------------------------------------------------------- */

/* The configuration describes the architecture, the files what was kept of it: towers and MTP layers are often left out, or added. */
static void apply_parts(const struct uma_folder_sum *sum, struct uma_model *model) {
    model->has_vision = sum->totals[UMA_CLASS_VISION].bytes > 0;
    if (sum->totals[UMA_CLASS_MTP].bytes == 0)
        model->mtp_layers = 0;
    else if (model->mtp_layers == 0)
        model->mtp_layers = sum->mtp_last_layer > model->layer_count ? sum->mtp_last_layer - model->layer_count : 1;
    if (sum->totals[UMA_CLASS_EMBEDDING].params > 0)
        model->tied = sum->totals[UMA_CLASS_LM_HEAD].tensors == 0;
}

/* Both count the same thing; when they differ, one of them is not what it seems, and the user should know. */
static void compare_counts(const struct uma_folder_sum *sum, struct uma_model *model) {
    uint64_t shape = 0, tensors = 0;
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++) {
        if (i == UMA_CLASS_VISION || i == UMA_CLASS_MTP || i == UMA_CLASS_LM_HEAD || i == UMA_CLASS_OTHER)
            continue;
        shape = uma_plus(shape, model->totals[i].params);
        tensors = uma_plus(tensors, sum->totals[i].params);
    }
    /* 2 %: norms, biases and small parts that a family adds stay below it; a layer of 40 or a wrong width of packing does not */
    uint64_t apart = shape > tensors ? shape - tensors : tensors - shape;
    if (shape && model->architecture_known && apart > shape / 50)
        uma_model_warn(model, "the tensors hold %.4g billion parameters, the shape in config.json %.4g (without towers and MTP)",
                       (double)tensors / 1e9, (double)shape / 1e9);
}

void uma_folder_sum_apply(const struct uma_folder_sum *sum, struct uma_model *model) {
    if (model->basis == UMA_BASIS_STRUCTURE)
        compare_counts(sum, model);
    for (unsigned i = 0; i < UMA_CLASS_COUNT; i++) {
        model->class_format[i] = class_format(sum, model, (enum uma_class)i);
        model->totals[i] = sum->totals[i];
    }
    apply_parts(sum, model);
    model->largest_tensor = sum->largest_tensor;
    model->basis = UMA_BASIS_TENSORS;
    if (sum->unknown_types)
        uma_model_warn(model, "%llu tensors of a type that is not known (%s): their bytes are counted, each element as one parameter",
                       (unsigned long long)sum->unknown_types, sum->unknown_type);
}
