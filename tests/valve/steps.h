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

/* A call by its name (steps_calls.c), and what gives back what it took. */
CUresult take_call(const char *call, uint64_t size, uint64_t extra, uint64_t *ret_key);
CUresult give_call(const char *call, uint64_t key);
/* A graph that needs so much memory, made and run. */
CUresult run_graph(const char *how, uint64_t size, bool upload);

/* False: it is none of these. */
bool step_reader(const struct step *s);
bool step_call(const struct step *s);
/* Every call with arguments that the driver refuses; `size`: of those that need one. One answer: what each said. */
void call_invalid(uint64_t size);
