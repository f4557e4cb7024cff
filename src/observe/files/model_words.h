/* SPDX-License-Identifier: MIT */
/*
 * model_words.h - what single names of files and folders say about models: the vocabulary of model_of_path.c, and nothing about paths. Names are any bytes of
 * any length; letters are compared without case (ASCII). Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes, not NUL-terminated. */
struct uma_word {
    const char *text;
    size_t length;
};

bool uma_word_is(struct uma_word word, const char *text);
bool uma_word_begins(struct uma_word word, const char *prefix);
bool uma_word_ends(struct uma_word word, const char *suffix); /* and is longer */

/* ---- files -------------------------------------------------------------------------------------------------- */

/* By its ending, and for endings that others use too (.bin) by its beginning. Unfinished downloads (".part", ".incomplete") count as what they become. */
bool uma_word_is_weights(struct uma_word file);
/* "model-00001-of-00002.safetensors" -> "model-00001-of-00002". */
struct uma_word uma_weight_stem(struct uma_word file);
/* Cut "-00001-of-00002" off; false when there is none. */
bool uma_word_unnumber(struct uma_word *stem);
/* "model", "pytorch_model", "optimizer", "step_1000", "rank0": the same in every model's folder. */
bool uma_word_is_generic_file(struct uma_word stem);
/* "sha256-" (or "sha256:") and 64 hexadecimal digits, perhaps with "-partial..." behind: the digits in lower case. */
bool uma_word_digest(struct uma_word file, char ret_digest[65]);
/* 64 hexadecimal digits, perhaps with ".incomplete" behind. */
bool uma_word_is_sha256(struct uma_word file);

/* ---- folders ------------------------------------------------------------------------------------------------ */

bool uma_word_is_part(struct uma_word folder); /* which part or step of a model, not which model: "transformer", "checkpoint-500", "1" */
bool uma_word_is_revision(struct uma_word folder);   /* "snapshots", or a commit's hash */
bool uma_word_is_collection(struct uma_word folder); /* single files lie in it, each a model: "models", "checkpoints" */
bool uma_word_is_model_kind(struct uma_word folder); /* below a folder "models", in ComfyUI and A1111: "loras", "Stable-diffusion" */
bool uma_word_is_place(struct uma_word folder);      /* nothing about what lies in it: "tmp", "Downloads" */
