/* SPDX-License-Identifier: MIT */
/* A model's name as words: "unsloth/Qwen2.5-7B-Instruct-bnb-4bit" is qwen, 2.5, 7b and, softer, instruct, bnb, 4bit. */
#include "plan/model/builtin.h"

#include "base/units.h"

#include <stdlib.h>
#include <string.h>

static bool digit(char c) {
    return c >= '0' && c <= '9';
}
static bool letter(char c) {
    return c >= 'a' && c <= 'z';
}
static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool listed(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; *p;) {
        size_t length = strcspn(p, "|");
        if (length == n && memcmp(p, word, n) == 0)
            return true;
        p += length + (p[length] == '|');
    }
    return false;
}

/* Words that say how a model was tuned, packed or published, not what it is. */
static const char soft_words[] =
    "hf|instruct|it|pt|base|chat|meta|latest|preview|sft|model|main|text|turbo|exl2|exl3|c4ai|qat|gguf|mlx|unquantized|release|"
    "huggingface|pretrained|finetuned|ft|lora|adapter|unsloth|dynamic|ud|autoround|static|pertensor|quantized|w|mixed|safetensors|"
    "nvidia|ibm|moe|full|multilingual|en|zh";
static const char format_words[] =
    "gptq|awq|bnb|bitsandbytes|4bit|8bit|int4|int8|fp8|nvfp4|fp4|mxfp4|mxfp8|mxfp6|nf4|bf16|fp16|f16|fp32|f32|w4a16|w8a8|w8a16|"
    "hqq|quark|modelopt|compressed|e4m3";

/* 7b, 8.03b, 270m, 1t; not 1m, which speaks of the context. */
static bool is_size(const char *word) {
    size_t n = strlen(word);
    size_t digits = strspn(word, "0123456789.");
    const char *point = strchr(word, '.');
    if (point && strchr(point + 1, '.'))
        return false;
    return n >= 2 && digits == n - 1 && (word[n - 1] == 'b' || word[n - 1] == 't' || (word[n - 1] == 'm' && n >= 3));
}

/* a3b, a800m; 16e, 128e (experts) */
static bool is_active(const char *word) {
    size_t n = strlen(word);
    if (word[0] == 'a' && n >= 3 && strspn(word + 1, "0123456789.") == n - 2 && (word[n - 1] == 'b' || word[n - 1] == 'm'))
        return true;
    return n >= 3 && word[n - 1] == 'e' && strspn(word, "0123456789") == n - 1;
}

static bool is_soft(const char *word) {
    size_t n = strlen(word), digits = strspn(word, "0123456789");
    if (listed(soft_words, word))
        return true;
    if (n == 4 && digits == 4 && word[0] <= '3')
        return true; /* 2407, 0324: dates */
    if (n == 2 && digits == 2 && word[0] == '0')
        return true; /* 08-2024 */
    if (digits > 0 && digits == n - 1 && (word[n - 1] == 'k' || (word[n - 1] == 'm' && n == 2)))
        return true; /* 128k, 1m: contexts */
    if (word[0] == '0' && word[1] == '.' && digits == 1)
        return true; /* a version below 1 */
    if (word[0] == 'v' && (word[1] == '0' || word[1] == '1') && strspn(word + 1, "0123456789.") == n - 1 && n > 1)
        return true; /* v0.1, v1, v1.5 */
    return false;
}

static enum uma_word_kind kind_of(const char *word) {
    if (listed(format_words, word))
        return WORD_FORMAT;
    if (is_size(word))
        return WORD_SIZE;
    if (is_active(word))
        return WORD_ACTIVE;
    return is_soft(word) ? WORD_SOFT : WORD_PLAIN;
}

static void add_word(struct uma_name_words *words, const char *start, size_t n) {
    if (n == 0 || words->count == BUILTIN_WORDS_MAX)
        return;
    n = n < BUILTIN_WORD - 1 ? n : BUILTIN_WORD - 1;
    char *word = words->word[words->count];
    memcpy(word, start, n);
    word[n] = 0;
    words->kind[words->count++] = kind_of(word);
}

/* "llama3.1" is llama and 3.1, "qwen2vl" qwen, 2 and vl; but r7b, v0.3, k2, fp8, 8x7b and 4e1t are one word. */
static void split_word(struct uma_name_words *words, const char *word, size_t n) {
    char copy[BUILTIN_WORD] = "";
    memcpy(copy, word, n < BUILTIN_WORD - 1 ? n : BUILTIN_WORD - 1);
    size_t letters = 0;
    while (letters < n && letter(word[letters]))
        letters++;
    if (letters >= 2 && letters < n && !listed(format_words, copy)) {
        add_word(words, word, letters);
        word += letters;
        n -= letters;
    }
    size_t digits = 0;
    while (digits < n && (digit(word[digits]) || word[digits] == '.'))
        digits++;
    size_t tail = 0;
    while (digits + tail < n && letter(word[digits + tail]))
        tail++;
    if (digits > 0 && tail >= 2 && digits + tail == n && !listed(format_words, copy)) {
        add_word(words, word, digits);
        add_word(words, word + digits, tail);
        return;
    }
    add_word(words, word, n);
}

/* A GGUF file type ("UD-Q4_K_XL", "iq3_xxs") is taken out of the text before words are cut, for its underscores. */
static void take_file_type(char *text, struct uma_name_words *words) {
    for (char *p = text; *p; p++) {
        if (p > text && (letter(p[-1]) || digit(p[-1])))
            continue;
        char *q = p;
        q += *q == 'i';
        bool ternary = *q == 't';
        q += ternary;
        if (*q != 'q' || !digit(q[1]) || q[2] != '_')
            continue;
        q += 3;
        size_t n = (size_t)(q - p);
        while (letter(p[n]) || digit(p[n]) || (p[n] == '_' && (letter(p[n + 1]) || digit(p[n + 1]))))
            n++;
        if (n >= BUILTIN_WORD)
            return;
        memcpy(words->file_type, p, n);
        words->file_type[n] = 0;
        memset(p, ' ', n);
        return;
    }
}

static bool has(const struct uma_name_words *words, const char *list) {
    for (unsigned i = 0; i < words->count; i++)
        if (listed(list, words->word[i]))
            return true;
    return false;
}

/* Only what says "these weights are packed so"; bf16 in a name says that they are not. */
static enum uma_format format_of(const struct uma_name_words *words) {
    static const struct {
        const char *words;
        enum uma_format format, eight_bits;
    } rules[] = {
        { "gptq", UMA_FORMAT_GPTQ4_G128, UMA_FORMAT_INT8 },
        { "awq", UMA_FORMAT_AWQ4_G128, UMA_FORMAT_INT8 },
        { "bnb|bitsandbytes|nf4", UMA_FORMAT_NF4_DQ, UMA_FORMAT_INT8 },
        { "hqq", UMA_FORMAT_HQQ4_G64, UMA_FORMAT_INT8 },
        { "nvfp4|fp4", UMA_FORMAT_NVFP4, UMA_FORMAT_NVFP4 },
        { "mxfp4", UMA_FORMAT_MXFP4, UMA_FORMAT_MXFP4 },
        { "mxfp6", UMA_FORMAT_MXFP6, UMA_FORMAT_MXFP6 },
        { "mxfp8", UMA_FORMAT_MXFP8, UMA_FORMAT_MXFP8 },
        { "fp8", UMA_FORMAT_FP8, UMA_FORMAT_FP8 },
        { "w4a16|int4|4bit", UMA_FORMAT_W4A16_G128, UMA_FORMAT_W4A16_G128 },
        { "w8a8|w8a16|int8|8bit", UMA_FORMAT_INT8, UMA_FORMAT_INT8 },
        { "bf16", UMA_FORMAT_BF16, UMA_FORMAT_BF16 },
        { "fp16|f16", UMA_FORMAT_F16, UMA_FORMAT_F16 },
        { "fp32|f32", UMA_FORMAT_F32, UMA_FORMAT_F32 },
    };
    for (size_t i = 0; i < ELEMENTS(rules); i++)
        if (has(words, rules[i].words))
            return has(words, "8bit|int8") ? rules[i].eight_bits : rules[i].format;
    return UMA_FORMAT_UNKNOWN;
}

void uma_name_words(const char *name, size_t length, bool underscore_dot, struct uma_name_words *ret_words) {
    char text[BUILTIN_NAME_MAX + 2];
    *ret_words = (struct uma_name_words){ 0 };
    for (size_t i = 0; i + 1 < length; i++) /* the organisation */
        if (name[i] == '/') {
            name += i + 1;
            length -= i + 1;
            i = (size_t)-1;
        }
    size_t n = length < BUILTIN_NAME_MAX ? length : BUILTIN_NAME_MAX;
    for (size_t i = 0; i < n; i++)
        text[i] = lower(name[i]);
    text[n] = text[n + 1] = 0;
    take_file_type(text, ret_words);
    size_t start = 0;
    bool pointed = false; /* the number that is being read has its point already */
    for (size_t i = 0; i <= n; i++) {
        bool between = i > 0 && digit(text[i - 1]) && digit(text[i + 1]);
        if (text[i] == '_' && between && underscore_dot && !pointed)
            text[i] = '.';
        pointed = text[i] == '.' ? between : pointed && digit(text[i]);
        if (letter(text[i]) || digit(text[i]) || (text[i] == '.' && between))
            continue;
        split_word(ret_words, text + start, i - start);
        start = i + 1;
    }
    ret_words->dynamic = strstr(text, "unsloth-bnb") != NULL;
    ret_words->format = format_of(ret_words);
    if (ret_words->file_type[0])
        ret_words->format = uma_format_from_name(ret_words->file_type);
}
