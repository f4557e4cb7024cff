/* SPDX-License-Identifier: MIT */
/* cleanup.h - scope-owned resources. `_cleanup_close_ int fd = -1;` closes itself; TAKE_FD/TAKE_PTR hand ownership on. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void uma_cleanup_close(const int *fd) {
    if (*fd >= 0)
        (void)close(*fd);
}
static inline void uma_cleanup_free(void *p) {
    free(*(void **)p);
}
static inline void uma_cleanup_fclose(FILE **f) {
    if (*f)
        (void)fclose(*f);
}
static inline void uma_cleanup_closedir(DIR **d) {
    if (*d)
        (void)closedir(*d);
}

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _cleanup_close_ _cleanup_(uma_cleanup_close)
#define _cleanup_free_ _cleanup_(uma_cleanup_free)
#define _cleanup_fclose_ _cleanup_(uma_cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(uma_cleanup_closedir)

#define TAKE_PTR(p)                                                                                                                        \
    __extension__({                                                                                                                        \
        __typeof__(p) taken_ = (p);                                                                                                        \
        (p) = NULL;                                                                                                                        \
        taken_;                                                                                                                            \
    })
#define TAKE_FD(fd)                                                                                                                        \
    __extension__({                                                                                                                        \
        int taken_ = (fd);                                                                                                                 \
        (fd) = -1;                                                                                                                         \
        taken_;                                                                                                                            \
    })

#define UMA_PRINTF(a, b) __attribute__((format(printf, a, b)))
#define ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define MAX_OF(a, b) ((a) > (b) ? (a) : (b))
