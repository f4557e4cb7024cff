/* SPDX-License-Identifier: MIT */
/*
 * For a runtime or a program that looks up hundreds of names and does without none of them: a function for each name that this driver does not have, which says that it is not supported; and a list of what was
 * asked for.
 */
#include "fake.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fake_note(const char *format, ...) {
    const char *path = fake_cuda_scenario()->asked;
    char line[256];
    va_list list;
    if (!path[0])
        return;
    va_start(list, format);
    int n = vsnprintf(line, sizeof(line) - 1, format, list);
    va_end(list);
    n = n < 0 ? 0 : n < (int)sizeof(line) - 1 ? n : (int)sizeof(line) - 2;
    line[n++] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    (void)close(fd);
}

/* As many as a toolkit's header has names, and some more; each must be a function of its own to know which it is. */
enum { FUNCTIONS = 512, NAME = 64 };
static char names[FUNCTIONS][NAME];
static unsigned n_names;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static CUresult called(unsigned i) {
    fake_note("called %s", names[i]);
    return FAKE_NOT_SUPPORTED;
}

#define EIGHT(X, i) X(i##0) X(i##1) X(i##2) X(i##3) X(i##4) X(i##5) X(i##6) X(i##7)
#define SIXTY_FOUR(X, i)                                                                                                                   \
    EIGHT(X, i##0) EIGHT(X, i##1) EIGHT(X, i##2) EIGHT(X, i##3) EIGHT(X, i##4) EIGHT(X, i##5) EIGHT(X, i##6) EIGHT(X, i##7)
#define ALL(X)                                                                                                                             \
    SIXTY_FOUR(X, 0) SIXTY_FOUR(X, 1) SIXTY_FOUR(X, 2) SIXTY_FOUR(X, 3) SIXTY_FOUR(X, 4) SIXTY_FOUR(X, 5) SIXTY_FOUR(X, 6) SIXTY_FOUR(X, 7)
/* digits of base 8 */
#define FUNCTION(i)                                                                                                                        \
    static CUresult unknown_##i(void) {                                                                                                    \
        return called(0##i);                                                                                                               \
    }
#define POINTER(i) unknown_##i,
ALL(FUNCTION)
static CUresult (*const functions[FUNCTIONS])(void) = { ALL(POINTER) };

void *fake_unknown(const char *symbol) {
    unsigned i = 0;
    if (strncmp(symbol, "cu", 2) != 0 || strlen(symbol) >= NAME)
        return NULL;
    (void)pthread_mutex_lock(&lock);
    while (i < n_names && strcmp(names[i], symbol) != 0)
        i++;
    if (i == n_names && i < FUNCTIONS)
        (void)snprintf(names[n_names++], NAME, "%s", symbol);
    bool found = i < n_names;
    (void)pthread_mutex_unlock(&lock);
    return found ? (void *)functions[i] : NULL;
}
