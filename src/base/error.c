/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int set(struct uma_error *err, int code, bool with_errno, const char *format, va_list ap) UMA_PRINTF(4, 0);

static int set(struct uma_error *err, int code, bool with_errno, const char *format, va_list ap) {
    if (!err)
        return -code;
    err->code = -code;
    int n = vsnprintf(err->text, sizeof(err->text), format, ap);
    if (n < 0)
        err->text[0] = '\0';
    else if (with_errno && (size_t)n + 3 < sizeof(err->text))
        (void)snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", strerror(code));
    return -code;
}

int uma_error_set(struct uma_error *err, int code, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int r = set(err, code, true, format, ap);
    va_end(ap);
    return r;
}

int uma_error_text(struct uma_error *err, int code, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    int r = set(err, code, false, format, ap);
    va_end(ap);
    return r;
}

int uma_error_wrap(struct uma_error *err, const char *format, ...) {
    if (!err)
        return -EIO;
    char before[UMA_ERROR_TEXT_MAX];
    (void)memcpy(before, err->text, sizeof(before));
    before[sizeof(before) - 1] = '\0';
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(err->text, sizeof(err->text), format, ap);
    va_end(ap);
    if (n < 0)
        n = 0;
    if ((size_t)n < sizeof(err->text))
        (void)snprintf(err->text + n, sizeof(err->text) - (size_t)n, ": %s", before);
    if (err->code >= 0)
        err->code = -EIO;
    return err->code;
}
