/* SPDX-License-Identifier: MIT */
/* steps.h - one command of a test, and its answer: shared by the files that carry them out. */
#pragma once

#include "api.h"

enum { WORDS = 6 };

struct step {
    char text[512];
    char *word[WORDS]; /* "" for what is not there */
    uint64_t n[WORDS]; /* the same as numbers */
};

/* The program's functions of the driver. */
extern struct api *api;

/* One line. */
void answer(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Handles come back as the numbers that they were told as. */
void *pointer(uint64_t number);

/* False: it is none of these. */
bool step_reader(const struct step *s);
/* Every call with arguments that the driver refuses; `size`: of those that need one. One answer: what each said. */
void call_invalid(uint64_t size);
