/* SPDX-License-Identifier: MIT */
#include "plan/model/gguf_types.h"

#include "plan/estimate.h"

/*
 * ggml.h of ggml-org/llama.cpp up to 42, ggml.h and the type traits in ggml.c of ikawrakow/ik_llama.cpp from 97. In number order: looked up
 * by halving. 4, 5, 36 to 38 were never in files that can still be read; 31 to 33 are Q4_0 in another order. The two projects agree on 39;
 * 41 is Q1_0 in both.
 */
static const struct uma_ggml_type types[] = {
    { 0, UMA_FORMAT_F32, 0, 1, 4 },          { 1, UMA_FORMAT_F16, 0, 1, 2 },          { 2, UMA_FORMAT_Q4_0, 0, 32, 18 },
    { 3, UMA_FORMAT_Q4_1, 0, 32, 20 },       { 6, UMA_FORMAT_Q5_0, 0, 32, 22 },       { 7, UMA_FORMAT_Q5_1, 0, 32, 24 },
    { 8, UMA_FORMAT_Q8_0, 0, 32, 34 },       { 9, UMA_FORMAT_Q8_1, 0, 32, 36 },       { 10, UMA_FORMAT_Q2_K, 0, 256, 84 },
    { 11, UMA_FORMAT_Q3_K, 0, 256, 110 },    { 12, UMA_FORMAT_Q4_K, 0, 256, 144 },    { 13, UMA_FORMAT_Q5_K, 0, 256, 176 },
    { 14, UMA_FORMAT_Q6_K, 0, 256, 210 },    { 15, UMA_FORMAT_Q8_K, 0, 256, 292 },    { 16, UMA_FORMAT_IQ2_XXS, 0, 256, 66 },
    { 17, UMA_FORMAT_IQ2_XS, 0, 256, 74 },   { 18, UMA_FORMAT_IQ3_XXS, 0, 256, 98 },  { 19, UMA_FORMAT_IQ1_S, 0, 256, 50 },
    { 20, UMA_FORMAT_IQ4_NL, 0, 32, 18 },    { 21, UMA_FORMAT_IQ3_S, 0, 256, 110 },   { 22, UMA_FORMAT_IQ2_S, 0, 256, 82 },
    { 23, UMA_FORMAT_IQ4_XS, 0, 256, 136 },  { 24, UMA_FORMAT_I8, 0, 1, 1 },          { 25, UMA_FORMAT_I16, 0, 1, 2 },
    { 26, UMA_FORMAT_I32, 0, 1, 4 },         { 27, UMA_FORMAT_I64, 0, 1, 8 },         { 28, UMA_FORMAT_F64, 0, 1, 8 },
    { 29, UMA_FORMAT_IQ1_M, 0, 256, 56 },    { 30, UMA_FORMAT_BF16, 0, 1, 2 },        { 31, UMA_FORMAT_Q4_0, 0, 32, 18 },
    { 32, UMA_FORMAT_Q4_0, 0, 32, 18 },      { 33, UMA_FORMAT_Q4_0, 0, 32, 18 },      { 34, UMA_FORMAT_TQ1_0, 0, 256, 54 },
    { 35, UMA_FORMAT_TQ2_0, 0, 256, 66 },    { 39, UMA_FORMAT_MXFP4, 0, 32, 17 },     { 40, UMA_FORMAT_NVFP4, 0, 64, 36 },
    { 41, UMA_FORMAT_Q1_0, 0, 128, 18 },     { 133, UMA_FORMAT_Q6_0, 0, 32, 26 },     { 134, UMA_FORMAT_IQ1_BN, 2, 64, 13 },
    { 135, UMA_FORMAT_IQ2_BN, 4, 64, 16 },   { 137, UMA_FORMAT_IQ2_K, 0, 256, 76 },   { 138, UMA_FORMAT_IQ3_K, 0, 256, 110 },
    { 139, UMA_FORMAT_IQ4_K, 0, 256, 144 },  { 140, UMA_FORMAT_IQ5_K, 0, 256, 176 },  { 141, UMA_FORMAT_IQ6_K, 0, 256, 212 },
    { 144, UMA_FORMAT_IQ4_KS, 4, 256, 136 }, { 145, UMA_FORMAT_IQ2_KS, 2, 256, 70 },  { 146, UMA_FORMAT_IQ4_KSS, 4, 256, 128 },
    { 151, UMA_FORMAT_Q8_KV, 8, 32, 32 },    { 152, UMA_FORMAT_IQ5_KS, 4, 256, 168 }, { 153, UMA_FORMAT_IQ2_KT, 4, 256, 68 },
    { 154, UMA_FORMAT_IQ3_KT, 4, 256, 100 }, { 155, UMA_FORMAT_IQ4_KT, 4, 256, 128 }, { 156, UMA_FORMAT_IQ3_KS, 2, 256, 102 },
    { 157, UMA_FORMAT_IQ2_KL, 2, 256, 86 },  { 158, UMA_FORMAT_IQ1_KT, 4, 256, 56 },  { 202, UMA_FORMAT_Q4_0, 0, 32, 18 },
    { 206, UMA_FORMAT_Q5_0, 0, 32, 22 },     { 208, UMA_FORMAT_Q8_0, 0, 32, 34 },     { 210, UMA_FORMAT_Q2_K, 0, 256, 84 },
    { 211, UMA_FORMAT_Q3_K, 0, 256, 110 },   { 212, UMA_FORMAT_Q4_K, 0, 256, 144 },   { 213, UMA_FORMAT_Q5_K, 0, 256, 176 },
    { 214, UMA_FORMAT_Q6_K, 0, 256, 210 },   { 216, UMA_FORMAT_IQ2_XXS, 0, 256, 66 }, { 217, UMA_FORMAT_IQ2_XS, 0, 256, 74 },
    { 218, UMA_FORMAT_IQ3_XXS, 0, 256, 98 }, { 219, UMA_FORMAT_IQ1_S, 2, 32, 6 }, /* a layout of its own: 1.5 bits */
    { 220, UMA_FORMAT_IQ4_NL, 0, 32, 18 },   { 221, UMA_FORMAT_IQ3_S, 0, 256, 110 },  { 222, UMA_FORMAT_IQ2_S, 0, 256, 82 },
    { 223, UMA_FORMAT_IQ4_XS, 0, 256, 136 }, { 229, UMA_FORMAT_IQ1_M, 2, 32, 7 },     { 230, UMA_FORMAT_BF16, 0, 1, 2 },
    { 233, UMA_FORMAT_Q6_0, 0, 32, 26 },     { 335, UMA_FORMAT_IQ2_BN, 4, 64, 16 },   { 337, UMA_FORMAT_IQ2_K, 0, 256, 76 },
    { 338, UMA_FORMAT_IQ3_K, 0, 256, 110 },  { 339, UMA_FORMAT_IQ4_K, 0, 256, 144 },  { 340, UMA_FORMAT_IQ5_K, 0, 256, 176 },
    { 344, UMA_FORMAT_IQ4_KS, 4, 256, 136 }, { 352, UMA_FORMAT_IQ5_KS, 4, 256, 168 }, { 353, UMA_FORMAT_MXFP4, 0, 32, 17 },
    { 397, UMA_FORMAT_Q8_K, 0, 256, 258 }, /* one half-precision scale per 256: smaller than Q8_K */
    { 398, UMA_FORMAT_Q8_KV, 4, 32, 32 },    { 399, UMA_FORMAT_Q8_K, 0, 256, 258 },
};

const struct uma_ggml_type *uma_ggml_type_find(uint32_t number) {
    size_t low = 0, high = ELEMENTS(types);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (types[middle].number == number)
            return &types[middle];
        if (types[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

uint64_t uma_ggml_type_bytes(const struct uma_ggml_type *type, uint64_t row, uint64_t rows) {
    if (row % type->elements != 0)
        return 0;
    return uma_times(uma_plus(uma_times(row / type->elements, type->bytes), type->row_extra), rows);
}

/* enum llama_ftype of llama.h and the descriptions that llama.cpp prints of it; from 135 those of ik_llama.cpp. */
const char *uma_gguf_file_type_name(uint64_t file_type) {
    static const char *const names[] = {
        [0] = "F32",           [1] = "F16",           [2] = "Q4_0",           [3] = "Q4_1",          [7] = "Q8_0",
        [8] = "Q5_0",          [9] = "Q5_1",          [10] = "Q2_K",          [11] = "Q3_K - Small", [12] = "Q3_K - Medium",
        [13] = "Q3_K - Large", [14] = "Q4_K - Small", [15] = "Q4_K - Medium", [16] = "Q5_K - Small", [17] = "Q5_K - Medium",
        [18] = "Q6_K",         [19] = "IQ2_XXS",      [20] = "IQ2_XS",        [21] = "Q2_K - Small", [22] = "IQ3_XS",
        [23] = "IQ3_XXS",      [24] = "IQ1_S",        [25] = "IQ4_NL",        [26] = "IQ3_S",        [27] = "IQ3_M",
        [28] = "IQ2_S",        [29] = "IQ2_M",        [30] = "IQ4_XS",        [31] = "IQ1_M",        [32] = "BF16",
        [36] = "TQ1_0",        [37] = "TQ2_0",        [38] = "MXFP4 MoE",     [39] = "NVFP4",        [135] = "Q6_0",
        [136] = "IQ1_BN",      [137] = "IQ2_BN",      [138] = "IQ2_K",        [139] = "IQ3_K",       [140] = "IQ4_K",
        [141] = "IQ5_K",       [142] = "IQ6_K",       [145] = "IQ4_KS",       [146] = "IQ3_KL",      [147] = "IQ2_KS",
        [148] = "IQ4_KSS",     [149] = "Q8_KV",       [150] = "IQ5_KS",       [151] = "IQ2_KT",      [152] = "IQ3_KT",
        [153] = "IQ4_KT",      [154] = "IQ3_KS",      [155] = "IQ2_KL",       [156] = "IQ1_KT",
    };
    return file_type < ELEMENTS(names) ? names[file_type] : NULL;
}
