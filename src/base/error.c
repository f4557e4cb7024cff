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

#undef uma_error_set
#undef uma_error_text

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
