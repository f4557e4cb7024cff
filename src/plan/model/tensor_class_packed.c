/* SPDX-License-Identifier: MIT */
/*
 * How many parameters a stored tensor is: names of packed values and of what belongs to them, as AutoGPTQ, AutoAWQ, compressed-tensors,
 * ModelOpt, bitsandbytes, HQQ, MLX, gpt-oss and DeepSeek write them.
 */
#include "plan/model/tensor_class.h"

#include "plan/estimate.h"

#include <string.h>

static const struct last {
    const char *text;
    enum uma_tensor_part part;
} lasts[] = {
    { "scales", UMA_PART_SCALE },
    { "weight_scale", UMA_PART_SCALE },
    { "weight_scale_inv", UMA_PART_SCALE },
    { "scale_inv", UMA_PART_SCALE },
    { "SCB", UMA_PART_SCALE },
    { "absmax", UMA_PART_SCALE },
    { "biases", UMA_PART_AUXILIARY }, /* MLX's zero points */
    { "qzeros", UMA_PART_AUXILIARY },
    { "zeros", UMA_PART_AUXILIARY },
    { "zero", UMA_PART_AUXILIARY },
    { "g_idx", UMA_PART_AUXILIARY },
    { "perm", UMA_PART_AUXILIARY },
    { "weight_scale_2", UMA_PART_AUXILIARY },
    { "weight_global_scale", UMA_PART_AUXILIARY },
    { "input_global_scale", UMA_PART_AUXILIARY },
    { "input_scale", UMA_PART_AUXILIARY },
    { "output_scale", UMA_PART_AUXILIARY },
    { "activation_scale", UMA_PART_AUXILIARY },
    { "pre_quant_scale", UMA_PART_AUXILIARY },
    { "q_scale", UMA_PART_AUXILIARY },
    { "k_scale", UMA_PART_AUXILIARY },
    { "v_scale", UMA_PART_AUXILIARY },
    { "kv_scale", UMA_PART_AUXILIARY },
    { "weight_zero_point", UMA_PART_AUXILIARY },
    { "input_zero_point", UMA_PART_AUXILIARY },
    { "weight_shape", UMA_PART_AUXILIARY },
    { "weight_g_idx", UMA_PART_AUXILIARY },
    { "weight_format", UMA_PART_AUXILIARY },
    { "quant_map", UMA_PART_AUXILIARY },
    { "nested_absmax", UMA_PART_AUXILIARY },
    { "nested_quant_map", UMA_PART_AUXILIARY },
    { "inv_freq", UMA_PART_BUFFER },
    { "rope_freqs", UMA_PART_BUFFER },
    { "position_ids", UMA_PART_BUFFER },
    { "masked_bias", UMA_PART_BUFFER },
    { "num_batches_tracked", UMA_PART_BUFFER },
    { "relative_position_index", UMA_PART_BUFFER },
};

static bool ends_with(const char *s, size_t n, const char *end) {
    size_t m = strlen(end);
    return n >= m && memcmp(s + n - m, end, m) == 0;
}

/* The part of a name behind its last dot. */
static const char *last_of(const struct uma_safetensors_tensor *t, size_t *ret_length) {
    const char *dot = memrchr(t->name, '.', t->name_length);
    const char *last = dot ? dot + 1 : t->name;
    *ret_length = t->name_length - (size_t)(last - t->name);
    return last;
}

/* "scale" alone is a norm's weight in some models, a router's in Gemma 4, and a quantiser's in DeepSeek's own layout. */
static bool scale_is_learned(const struct uma_safetensors_tensor *t) {
    return memmem(t->name, t->name_length, "norm", 4) || memmem(t->name, t->name_length, "router", 6);
}

static enum uma_tensor_part part_of(const struct uma_safetensors_tensor *t, const struct uma_packing *packing) {
    size_t n;
    const char *last = last_of(t, &n);
    if (n == 6 && memcmp(last, "weight", 6) == 0) /* nearly all are: no need to look further */
        return UMA_PART_VALUES;
    for (size_t i = 0; i < ELEMENTS(lasts); i++)
        if (*last == *lasts[i].text && n == strlen(lasts[i].text) && memcmp(last, lasts[i].text, n) == 0)
            return lasts[i].part;
    if (memmem(t->name, t->name_length, "quant_state", 11))
        return UMA_PART_AUXILIARY;
    if (t->dims == 4 && ends_with(t->name, t->name_length, "attn.bias")) /* GPT-2 keeps its causal mask under this name */
        return UMA_PART_BUFFER;
    if (packing->known_unquantised || scale_is_learned(t))
        return UMA_PART_VALUES;
    /* fused experts have no dot before it: gate_up_proj_scales, down_proj_weight_scale */
    if ((n == 5 && memcmp(last, "scale", 5) == 0) || ends_with(last, n, "_scales") || ends_with(last, n, "_scale_inv"))
        return UMA_PART_SCALE;
    if (ends_with(last, n, "_scale_2") || ends_with(last, n, "_input_scale") || ends_with(last, n, "_zero_point") ||
        ends_with(last, n, "_global_scale"))
        return UMA_PART_AUXILIARY;
    if (packing->quantised && ends_with(last, n, "_scale"))
        return UMA_PART_SCALE;
    return UMA_PART_VALUES;
}

static enum uma_packed_as packed_as(const struct uma_safetensors_tensor *t) {
    size_t n;
    const char *last = last_of(t, &n);
    if (n == 7 && memcmp(last, "qweight", 7) == 0)
        return UMA_PACKED_QWEIGHT;
    if (ends_with(last, n, "weight_packed"))
        return UMA_PACKED_WEIGHT_PACKED;
    if (n == 3 && memcmp(last, "W_q", 3) == 0)
        return UMA_PACKED_HQQ;
    if (t->dtype == UMA_DTYPE_U8 && ends_with(last, n, "_blocks"))
        return UMA_PACKED_BLOCKS;
    /* no model has parameters that are unsigned: such a weight is a box for smaller values */
    if (t->dtype == UMA_DTYPE_U8)
        return UMA_PACKED_BYTES;
    if (t->dtype == UMA_DTYPE_U32)
        return UMA_PACKED_WORDS;
    return UMA_PACKED_NOT;
}

static enum uma_format format_of(enum uma_dtype dtype) {
    switch (dtype) {
    case UMA_DTYPE_F64:
        return UMA_FORMAT_F64;
    case UMA_DTYPE_F32:
        return UMA_FORMAT_F32;
    case UMA_DTYPE_F16:
        return UMA_FORMAT_F16;
    case UMA_DTYPE_BF16:
        return UMA_FORMAT_BF16;
    case UMA_DTYPE_I8:
        return UMA_FORMAT_INT8;
    case UMA_DTYPE_F8_E4M3:
    case UMA_DTYPE_F8_E5M2:
    case UMA_DTYPE_F8_E4M3FNUZ:
    case UMA_DTYPE_F8_E5M2FNUZ:
        return UMA_FORMAT_FP8;
    default:
        return UMA_FORMAT_UNKNOWN;
    }
}

/* Types that only ever hold masks, numbers of positions, tables of experts. */
static bool is_index(enum uma_dtype dtype) {
    return dtype == UMA_DTYPE_BOOL || dtype == UMA_DTYPE_I16 || dtype == UMA_DTYPE_U16 || dtype == UMA_DTYPE_I32 ||
           dtype == UMA_DTYPE_I64 || dtype == UMA_DTYPE_U64;
}

/* Values of `bits` in so many bytes. */
static uint64_t values_in(uint64_t bytes, unsigned bits) {
    return bytes > UINT64_MAX / 8 ? UINT64_MAX : bytes * 8 / bits;
}

struct uma_tensor_storage uma_tensor_storage(const struct uma_safetensors_tensor *t, const struct uma_packing *packing) {
    struct uma_tensor_storage storage = { .part = part_of(t, packing) };
    if (storage.part != UMA_PART_VALUES) {
        size_t n;
        const char *last = last_of(t, &n);
        storage.double_quantised = n == 13 && memcmp(last, "nested_absmax", 13) == 0;
        storage.absmax = n == 6 && memcmp(last, "absmax", 6) == 0;
        return storage;
    }
    storage.packed_as = packed_as(t);
    unsigned bits = packing->bits ? packing->bits : 4;
    if (storage.packed_as == UMA_PACKED_BLOCKS || t->dtype == UMA_DTYPE_F4)
        bits = 4;
    if (packing->fp4_experts && (t->dtype == UMA_DTYPE_I8 || t->dtype == UMA_DTYPE_U8) && memmem(t->name, t->name_length, "experts", 7) &&
        !memmem(t->name, t->name_length, "shared_experts", 14)) {
        storage.packed_as = UMA_PACKED_BYTES;
        bits = 4;
    }
    if (storage.packed_as != UMA_PACKED_NOT) {
        storage.part = UMA_PART_PACKED;
        storage.params = values_in(t->bytes, bits);
    } else if (t->dtype == UMA_DTYPE_F4) {
        storage.part = UMA_PART_PACKED;
        storage.packed_as = UMA_PACKED_BYTES;
        storage.params = t->elements;
    } else if (is_index(t->dtype)) {
        storage.part = UMA_PART_BUFFER;
    } else {
        storage.params = t->elements;
        storage.format = format_of(t->dtype);
    }
    return storage;
}

bool uma_tensor_is_vector(const struct uma_safetensors_tensor *t, const struct uma_tensor_storage *storage) {
    if (storage->part != UMA_PART_VALUES && storage->part != UMA_PART_BUFFER)
        return false;
    unsigned wide = 0;
    for (unsigned i = 0; i < UMA_SAFETENSORS_DIMS_KEPT; i++)
        wide += t->shape[i] > 1;
    return wide <= 1;
}
