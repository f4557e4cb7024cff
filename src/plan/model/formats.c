/* SPDX-License-Identifier: MIT */
/* formats.c - number formats: names that users, configurations and files give them, and what so many elements take. */
#include "plan/model/formats.h"

#include "plan/estimate.h"

#include <string.h>

static const struct {
    const char *name;
    uint32_t elements, bytes;
} formats[UMA_FORMAT_COUNT] = { [UMA_FORMAT_UNKNOWN] = { "?", 1, 0 },
#define FORMAT_ROW(id, name, elements, bytes) [UMA_FORMAT_##id] = { name, elements, bytes },
                                UMA_FORMATS(FORMAT_ROW)
#undef FORMAT_ROW
};

static bool valid(enum uma_format format) {
    return (unsigned)format < UMA_FORMAT_COUNT;
}

const char *uma_format_name(enum uma_format format) {
    return formats[valid(format) ? format : UMA_FORMAT_UNKNOWN].name;
}

uint64_t uma_format_bytes(enum uma_format format, uint64_t elements) {
    if (!valid(format))
        return 0;
    return uma_times(uma_divide_up(elements, formats[format].elements), formats[format].bytes);
}

double uma_format_bits(enum uma_format format) {
    if (!valid(format))
        return 0;
    return 8.0 * formats[format].bytes / formats[format].elements;
}

/* ---- names -------------------------------------------------------------------------------------------------- */

enum { NAME_MAX_LENGTH = 64 };

static bool letter_or_digit(unsigned char c) { /* ASCII, in every locale */
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Letters and digits only, in lower case: "Q4_K - Medium", "q4-k-medium" and "Q4 K Medium" are one name. What stands in parentheses is a remark. */
static bool squeeze(const char *name, const char *end, char ret_squeezed[NAME_MAX_LENGTH]) {
    size_t n = 0;
    unsigned depth = 0;
    for (; *name && name != end; name++) {
        unsigned char c = (unsigned char)*name;
        if (c == '(') {
            depth++;
        } else if (c == ')') {
            depth -= depth > 0;
        } else if (depth == 0 && letter_or_digit(c)) {
            if (n + 1 == NAME_MAX_LENGTH)
                return false;
            ret_squeezed[n++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        }
    }
    ret_squeezed[n] = '\0';
    return n > 0;
}

static bool ends_with(const char *s, const char *ending) {
    size_t n = strlen(s), m = strlen(ending);
    return n > m && strcmp(s + n - m, ending) == 0;
}

static void cut_prefix(char *s, const char *prefix) {
    size_t n = strlen(prefix);
    if (strncmp(s, prefix, n) == 0 && s[n])
        memmove(s, s + n, strlen(s + n) + 1);
}

/*
 * Other spellings, squeezed: PyTorch and numpy types, the F8_E4M3 of safetensors, quant_method values and bits of Hugging Face configurations,
 * what litgpt, bitsandbytes, torchao, ModelOpt, vLLM and SGLang call their options.
 */
static const struct {
    const char *name;
    enum uma_format format;
} aliases[] = {
    { "float64", UMA_FORMAT_F64 },
    { "double", UMA_FORMAT_F64 },
    { "fp64", UMA_FORMAT_F64 },
    { "float32", UMA_FORMAT_F32 },
    { "float", UMA_FORMAT_F32 },
    { "fp32", UMA_FORMAT_F32 },
    { "tf32", UMA_FORMAT_F32 },
    { "float16", UMA_FORMAT_F16 },
    { "half", UMA_FORMAT_F16 },
    { "fp16", UMA_FORMAT_F16 },
    { "bfloat16", UMA_FORMAT_BF16 },
    { "bfloat", UMA_FORMAT_BF16 },
    { "int64", UMA_FORMAT_I64 },
    { "u64", UMA_FORMAT_I64 },
    { "uint64", UMA_FORMAT_I64 },
    { "int32", UMA_FORMAT_I32 },
    { "u32", UMA_FORMAT_I32 },
    { "uint32", UMA_FORMAT_I32 },
    { "int16", UMA_FORMAT_I16 },
    { "u16", UMA_FORMAT_I16 },
    { "uint16", UMA_FORMAT_I16 },
    { "u8", UMA_FORMAT_I8 },
    { "uint8", UMA_FORMAT_I8 },
    { "f8", UMA_FORMAT_FP8 },
    { "float8", UMA_FORMAT_FP8 },
    { "fp8e4m3", UMA_FORMAT_FP8 },
    { "fp8e5m2", UMA_FORMAT_FP8 },
    { "fp8e4m3fn", UMA_FORMAT_FP8 },
    { "f8e4m3", UMA_FORMAT_FP8 },
    { "f8e4m3fn", UMA_FORMAT_FP8 },
    { "f8e5m2", UMA_FORMAT_FP8 },
    { "f8e8m0", UMA_FORMAT_FP8 },
    { "e4m3", UMA_FORMAT_FP8 },
    { "e5m2", UMA_FORMAT_FP8 },
    { "float8e4m3fn", UMA_FORMAT_FP8 },
    { "float8e5m2", UMA_FORMAT_FP8 },
    { "fp8perchannel", UMA_FORMAT_FP8 },
    { "fp8pertensor", UMA_FORMAT_FP8 },
    { "fp8perchannelpertensor", UMA_FORMAT_FP8 },
    { "fp8dynamic", UMA_FORMAT_FP8 },
    { "w8a8fp8", UMA_FORMAT_FP8 },
    { "fp8block", UMA_FORMAT_FP8_BLOCK128 },
    { "fp8blockwise", UMA_FORMAT_FP8_BLOCK128 },
    { "fp8block128x128", UMA_FORMAT_FP8_BLOCK128 },
    { "llmint8", UMA_FORMAT_INT8 },
    { "bnbint8", UMA_FORMAT_INT8 },
    { "int8wo", UMA_FORMAT_INT8 },
    { "w8a16", UMA_FORMAT_INT8 },
    { "w8a8", UMA_FORMAT_INT8 },
    { "w8a8int8", UMA_FORMAT_INT8 },
    { "gptqint8", UMA_FORMAT_GPTQ8_G128 },
    { "gptq8bit", UMA_FORMAT_GPTQ8_G128 },
    { "8bit", UMA_FORMAT_INT8 },
    { "bnb8bit", UMA_FORMAT_INT8 },
    { "mxfp8e4m3", UMA_FORMAT_MXFP8 },
    { "mxfp4moe", UMA_FORMAT_MXFP4 },
    { "w4a4mxfp4", UMA_FORMAT_MXFP4 },
    { "fp4", UMA_FORMAT_NVFP4 },
    { "w4a4nvfp4", UMA_FORMAT_NVFP4 },
    { "modeloptfp4", UMA_FORMAT_NVFP4 },
    { "modeloptnvfp4", UMA_FORMAT_NVFP4 },
    /* bitsandbytes: FP4 has NF4's layout, other code points */
    { "bnbnf4", UMA_FORMAT_NF4 },
    { "bnbfp4", UMA_FORMAT_NF4 },
    { "bnbnf4dq", UMA_FORMAT_NF4_DQ },
    { "bnbfp4dq", UMA_FORMAT_NF4_DQ },
    { "nf4doublequant", UMA_FORMAT_NF4_DQ },
    { "bnb4bit", UMA_FORMAT_NF4_DQ },
    { "bitsandbytes", UMA_FORMAT_NF4_DQ },
    { "bnb", UMA_FORMAT_NF4_DQ },
    { "qlora", UMA_FORMAT_NF4_DQ },
    { "int4", UMA_FORMAT_GPTQ4_G128 },
    { "4bit", UMA_FORMAT_GPTQ4_G128 },
    { "gptq", UMA_FORMAT_GPTQ4_G128 },
    { "gptq4", UMA_FORMAT_GPTQ4_G128 },
    { "gptq4bit", UMA_FORMAT_GPTQ4_G128 },
    { "gptqint4", UMA_FORMAT_GPTQ4_G128 },
    { "gptqint4g128", UMA_FORMAT_GPTQ4_G128 },
    { "int4gptq", UMA_FORMAT_GPTQ4_G128 },
    { "int4g128", UMA_FORMAT_GPTQ4_G128 },
    { "gptqint4g64", UMA_FORMAT_GPTQ4_G64 },
    { "awqint4g64", UMA_FORMAT_GPTQ4_G64 },
    { "awqgptqint4g64", UMA_FORMAT_GPTQ4_G64 },
    { "awq4g64", UMA_FORMAT_GPTQ4_G64 },
    { "int4g64", UMA_FORMAT_GPTQ4_G64 },
    { "gptqint4g32", UMA_FORMAT_GPTQ4_G32 },
    { "awqint4g32", UMA_FORMAT_GPTQ4_G32 },
    { "awqgptqint4g32", UMA_FORMAT_GPTQ4_G32 },
    { "awq4g32", UMA_FORMAT_GPTQ4_G32 },
    { "int4g32", UMA_FORMAT_GPTQ4_G32 },
    { "gptqint4nogroups", UMA_FORMAT_GPTQ4_CHANNEL },
    { "gptqint4channel", UMA_FORMAT_GPTQ4_CHANNEL },
    { "gptq4nogroup", UMA_FORMAT_GPTQ4_CHANNEL },
    { "awq", UMA_FORMAT_AWQ4_G128 },
    { "awq4", UMA_FORMAT_AWQ4_G128 },
    { "awq4bit", UMA_FORMAT_AWQ4_G128 },
    { "awqint4", UMA_FORMAT_AWQ4_G128 },
    { "awqint4g128", UMA_FORMAT_AWQ4_G128 },
    { "int4awq", UMA_FORMAT_AWQ4_G128 },
    { "w4a16awq", UMA_FORMAT_AWQ4_G128 },
    { "w4a16", UMA_FORMAT_W4A16_G128 },
    { "compressedtensorsw4a16", UMA_FORMAT_W4A16_G128 },
    { "compressedtensorsw4a16g128symmetric", UMA_FORMAT_W4A16_G128 },
    { "autoround", UMA_FORMAT_W4A16_G128 },
    /* torchao's int4 weight-only keeps a bf16 scale and zero per group, as HQQ does */
    { "hqq", UMA_FORMAT_HQQ4_G64 },
    { "hqq4", UMA_FORMAT_HQQ4_G64 },
    { "hqqint4", UMA_FORMAT_HQQ4_G64 },
    { "hqqint4g64", UMA_FORMAT_HQQ4_G64 },
    { "awqhqqint4", UMA_FORMAT_HQQ4_G64 },
    { "int4wo64", UMA_FORMAT_HQQ4_G64 },
    /* the interleaved layouts that older llama.cpp wrote into files: same blocks, other order */
    { "q4044", UMA_FORMAT_Q4_0 },
    { "q4048", UMA_FORMAT_Q4_0 },
    { "q4088", UMA_FORMAT_Q4_0 },
    { "q10g128", UMA_FORMAT_Q1_0 },
};

/*
 * File types of llama-quantize: the format of most tensors, and bits per weight of the whole file. k- and i-quants: as measured for
 * Llama-3.1-8B in llama.cpp's tools/quantize/README.md; a 70B file is some 2 % below, its embeddings being a smaller part. 0: no such
 * table; then the bits of the format are the least that it can be.
 */
static const struct {
    const char *name;
    enum uma_format format;
    double bits;
} file_types[] = {
    { "f32", UMA_FORMAT_F32, 32 },          { "f16", UMA_FORMAT_F16, 16 },
    { "bf16", UMA_FORMAT_BF16, 16 },        { "q40", UMA_FORMAT_Q4_0, 4.66 }, /* output.weight stays Q6_K */
    { "q41", UMA_FORMAT_Q4_1, 5.12 },       { "q50", UMA_FORMAT_Q5_0, 5.57 },
    { "q51", UMA_FORMAT_Q5_1, 6.04 },       { "q80", UMA_FORMAT_Q8_0, 8.5 },
    { "q2ks", UMA_FORMAT_Q2_K, 2.97 },      { "q2k", UMA_FORMAT_Q2_K, 3.16 },
    { "q2km", UMA_FORMAT_Q2_K, 3.16 },      { "q2kl", UMA_FORMAT_Q2_K, 3.3 },
    { "q2kxl", UMA_FORMAT_Q2_K, 3.16 },     { "q3ks", UMA_FORMAT_Q3_K, 3.64 },
    { "q3k", UMA_FORMAT_Q3_K, 3.96 },       { "q3km", UMA_FORMAT_Q3_K, 3.96 },
    { "q3kl", UMA_FORMAT_Q3_K, 4.3 },       { "q3kxl", UMA_FORMAT_Q3_K, 3.96 },
    { "q4ks", UMA_FORMAT_Q4_K, 4.65 },      { "q4k", UMA_FORMAT_Q4_K, 4.87 },
    { "q4km", UMA_FORMAT_Q4_K, 4.87 },      { "q4kl", UMA_FORMAT_Q4_K, 4.95 },
    { "q4kxl", UMA_FORMAT_Q4_K, 4.87 },     { "q5ks", UMA_FORMAT_Q5_K, 5.55 },
    { "q5k", UMA_FORMAT_Q5_K, 5.69 },       { "q5km", UMA_FORMAT_Q5_K, 5.69 },
    { "q5kl", UMA_FORMAT_Q5_K, 5.75 },      { "q5kxl", UMA_FORMAT_Q5_K, 5.69 },
    { "q6k", UMA_FORMAT_Q6_K, 6.56 },       { "q6kl", UMA_FORMAT_Q6_K, 6.6 },
    { "q6kxl", UMA_FORMAT_Q6_K, 6.6 },      { "q8kxl", UMA_FORMAT_Q8_0, 8.5 },
    { "iq1s", UMA_FORMAT_IQ1_S, 2 },        { "iq1m", UMA_FORMAT_IQ1_M, 2.15 },
    { "iq2xxs", UMA_FORMAT_IQ2_XXS, 2.38 }, { "iq2xs", UMA_FORMAT_IQ2_XS, 2.59 },
    { "iq2s", UMA_FORMAT_IQ2_S, 2.74 },     { "iq2m", UMA_FORMAT_IQ2_S, 2.93 },
    { "iq3xxs", UMA_FORMAT_IQ3_XXS, 3.25 }, { "iq3xs", UMA_FORMAT_IQ3_S, 3.5 },
    { "iq3s", UMA_FORMAT_IQ3_S, 3.66 },     { "iq3m", UMA_FORMAT_IQ3_S, 3.76 },
    { "iq3kl", UMA_FORMAT_IQ3_K, 4 },       { "iq4xs", UMA_FORMAT_IQ4_XS, 4.4 },
    { "iq4nl", UMA_FORMAT_IQ4_NL, 4.66 },   { "mxfp4moe", UMA_FORMAT_MXFP4, 4.34 }, /* gpt-oss-120b: experts MXFP4, the rest Q8_0 */
};

/* A name without its file-name decorations: "UD-" of Unsloth's files, "_R4", "_R8", "_R16" of ik_llama.cpp's repacked tensors. */
static void undecorate(char *s) {
    static const char *const prefixes[] = { "torch", "ggmltype", "file", "kv", "ud", "imat", "mostly", "all" };
    static const char *const repacked[] = { "r4", "r8", "r16" };
    for (size_t i = 0; i < ELEMENTS(prefixes); i++)
        cut_prefix(s, prefixes[i]);
    for (size_t i = 0; i < ELEMENTS(repacked); i++)
        if (ends_with(s, repacked[i])) {
            s[strlen(s) - strlen(repacked[i])] = '\0';
            break;
        }
    static const struct {
        const char *word;
        char letter;
    } sizes[] = { { "small", 's' }, { "medium", 'm' }, { "large", 'l' } };
    for (size_t i = 0; i < ELEMENTS(sizes); i++)
        if (ends_with(s, sizes[i].word)) {
            size_t at = strlen(s) - strlen(sizes[i].word);
            s[at] = sizes[i].letter;
            s[at + 1] = '\0';
        }
}

static enum uma_format format_of(const char *squeezed) {
    char own[NAME_MAX_LENGTH];
    for (unsigned i = UMA_FORMAT_UNKNOWN + 1; i < UMA_FORMAT_COUNT; i++)
        if (squeeze(formats[i].name, NULL, own) && strcmp(own, squeezed) == 0)
            return (enum uma_format)i;
    for (size_t i = 0; i < ELEMENTS(aliases); i++)
        if (strcmp(aliases[i].name, squeezed) == 0)
            return aliases[i].format;
    for (size_t i = 0; i < ELEMENTS(file_types); i++)
        if (strcmp(file_types[i].name, squeezed) == 0)
            return file_types[i].format;
    return UMA_FORMAT_UNKNOWN;
}

/* The end of the part of a name that counts when the whole is not known: "IQ4_KSS - 4.0 bpw", "f16/bf16", "q8_0+mxfp4". */
static const char *first_part(const char *name) {
    const char *remark = strstr(name, " - ");
    return remark ? remark : name + strcspn(name, "/+");
}

/* Each reading of a name in turn, the most literal one first, until `known` accepts one. */
static bool read_name(const char *name, bool (*known)(const char *squeezed, void *ret), void *ret) {
    const char *ends[] = { NULL, first_part(name) };
    char s[NAME_MAX_LENGTH];
    for (size_t i = 0; i < ELEMENTS(ends); i++) {
        if (!squeeze(name, ends[i], s))
            continue;
        if (known(s, ret))
            return true;
        undecorate(s);
        if (known(s, ret))
            return true;
    }
    return false;
}

static bool known_format(const char *squeezed, void *ret) {
    enum uma_format format = format_of(squeezed);
    if (format == UMA_FORMAT_UNKNOWN)
        return false;
    *(enum uma_format *)ret = format;
    return true;
}

enum uma_format uma_format_from_name(const char *name) {
    enum uma_format format = UMA_FORMAT_UNKNOWN;
    return name && read_name(name, known_format, &format) ? format : UMA_FORMAT_UNKNOWN;
}

static bool known_file_type(const char *squeezed, void *ret) {
    for (size_t i = 0; i < ELEMENTS(file_types); i++)
        if (strcmp(file_types[i].name, squeezed) == 0) {
            *(size_t *)ret = i;
            return true;
        }
    return false;
}

double uma_file_type_bits(const char *name) {
    size_t i;
    if (name && read_name(name, known_file_type, &i))
        return file_types[i].bits;
    enum uma_format format = uma_format_from_name(name);
    return format == UMA_FORMAT_UNKNOWN ? 0 : uma_format_bits(format);
}

bool uma_file_type_find(const char *name, const char **ret_short, enum uma_format *ret_base) {
    size_t i;
    if (name && read_name(name, known_file_type, &i)) {
        *ret_short = file_types[i].name;
        *ret_base = file_types[i].format;
        return true;
    }
    enum uma_format format = uma_format_from_name(name);
    if (format < UMA_FORMAT_Q4_0) /* those before are of other programs' files */
        return false;
    *ret_short = "";
    *ret_base = format;
    return true;
}
