/* SPDX-License-Identifier: MIT */
/* What long work shows on a terminal, and how it is told to stop. */
#include "cmd/cache.h"

#include "base/units.h"
#include "cmd/layout.h"

#include <signal.h>

static volatile sig_atomic_t signal_noted;
static bool line_shown;

static void on_signal(int number) {
    signal_noted = number;
}

void uma_cache_catch_signals(void) {
    /* No SA_RESTART: sleeps must end. The default comes back after the first, so that a second Ctrl-C always works. */
    struct sigaction act = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
}

int uma_cache_signal(void) {
    return (int)signal_noted;
}

bool uma_cache_is_stopped(void *userdata) {
    (void)userdata;
    return signal_noted != 0;
}

void uma_cache_progress(const char *text) {
    if (isatty(STDERR_FILENO) != 1)
        return;
    struct uma_status_style style = uma_status_style_of(STDERR_FILENO);
    _cleanup_text_ struct uma_text line = { 0 };
    uma_text_char(&line, '\r');
    (void)uma_text_safe(&line, text, style.columns - 1);
    uma_text_append(&line, "\033[K");
    if (!style.utf8)
        uma_layout_ascii(&line);
    (void)uma_command_write(STDERR_FILENO, line.data ? line.data : "", line.length);
    line_shown = true;
}

bool uma_cache_search_progress(void *userdata, uint64_t files, uint64_t resident_bytes, const char *at) {
    const char *before = userdata;
    _cleanup_text_ struct uma_text t = { 0 };
    uma_text_printf(&t, "%s%llu files, ", before ? before : "", (unsigned long long)files);
    uma_text_gib(&t, resident_bytes);
    uma_text_printf(&t, " in the cache: %s", at ? at : "");
    uma_cache_progress(t.data ? t.data : "");
    return uma_cache_signal() == 0;
}

void uma_cache_progress_end(void) {
    if (line_shown)
        (void)uma_command_write(STDERR_FILENO, "\r\033[K", 4);
    line_shown = false;
}
