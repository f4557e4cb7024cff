/* SPDX-License-Identifier: MIT */
/*
 * builtin.h - the table of built-in shapes, and how a name that a user types is compared with the names in it. Pure; nothing is read.
 */
#pragma once

#include "base/text.h"
#include "plan/model/structure.h"

struct uma_builtin_shape {
    const char *names;  /* '|' between them; the first is what it is shown as */
    uint64_t published; /* parameters without multi-token-prediction layers; 0: no figure found */
    const char *fields;
};
extern const struct uma_builtin_shape uma_builtin_shapes[];
extern const size_t uma_builtin_shape_count;

/* The configuration of a line as config.json text. -EINVAL for a line that cannot be read: a test makes sure that none is. */
int uma_builtin_config(const struct uma_builtin_shape *shape, struct uma_text *ret_config, uint64_t *ret_tower);

enum { BUILTIN_WORDS_MAX = 24, BUILTIN_WORD = 32, BUILTIN_NAME_MAX = 255 };

/* What a word of a name says. */
enum uma_word_kind {
    WORD_PLAIN = 0, /* part of what the model is: qwen, 2.5, coder, v3 */
    WORD_SIZE,      /* 7b, 270m, 8.03b */
    WORD_ACTIVE,    /* a3b, 16e: names may leave it out, but not contradict it */
    WORD_SOFT,      /* instruct, hf, 2407, v0.1: helps to choose between equals */
    WORD_FORMAT,    /* awq, bnb, 4bit */
};

struct uma_name_words {
    unsigned count;
    char word[BUILTIN_WORDS_MAX][BUILTIN_WORD];
    enum uma_word_kind kind[BUILTIN_WORDS_MAX];
    enum uma_format format;       /* that the words of its quantisation name; UNKNOWN: none */
    char file_type[BUILTIN_WORD]; /* a GGUF file type in it ("q4_k_m"), or "" */
    bool dynamic;                 /* unsloth's own 4-bit files, which leave some layers in 16 bits */
};

/* Is anything of the shape given beside the count of parameters? */
bool uma_shape_more_than_count(const struct uma_shape *shape);
/* Cut a name into words. The organisation before a slash is left out. `underscore_dot`: 1_8b is read as 1.8b, not as 1 and 8b. */
void uma_name_words(const char *name, size_t length, bool underscore_dot, struct uma_name_words *ret_words);
/* The line that a name stands for, or NULL. *ret_derived: by uma_name_derived; *ret_words: the name's words. */
const struct uma_builtin_shape *uma_builtin_find(const char *name, struct uma_name_words *ret_words, bool *ret_derived);
/* Up to three names of the table that have the most in common with one that is not in it, with ", " between; "" when there are none. */
void uma_builtin_nearest(const char *name, char *buffer, size_t size);
