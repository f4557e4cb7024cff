/* SPDX-License-Identifier: MIT */
#include "guard/helper/say.h"

#include "base/text.h"
#include "base/write.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LINE_MAX_BYTES = 2048 };

void uma_helper_say(enum uma_helper_level level, const char *format, ...) {
    char message[LINE_MAX_BYTES], plain[LINE_MAX_BYTES];
    _cleanup_text_ struct uma_text line = { 0 };
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    if (getenv("JOURNAL_STREAM"))
        uma_text_printf(&line, "<%d>", (int)level);
    uma_text_append(&line, "uma-guard-helper: ");
    (void)uma_text_safe(&line, message, 0);
    uma_text_char(&line, '\n');
    if (!line.failed) {
        (void)uma_write_all(STDERR_FILENO, line.data, line.length);
        return;
    }
    size_t n = uma_text_copy_plain(plain, sizeof(plain) - 1, message); /* memory has run out: this is when lines are needed */
    plain[n++] = '\n';
    (void)uma_write_all(STDERR_FILENO, plain, n);
}
