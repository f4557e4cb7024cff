/* SPDX-License-Identifier: MIT */
/* main.c - uma-guard: options, then open, rehearse, lock, run. */
#include "base/standard_files.h"
#include "base/write.h"
#include "guard/loop.h"
#include "guard/respond.h"
#include "guard/self_test.h"

#include <malloc.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 1.5 MiB of room, of which only what is used is there. */
static struct uma_guard_loop loop;

static int print(const char *text) {
    return uma_write_all(STDOUT_FILENO, text, strlen(text)) == 0 ? 0 : 1;
}

static int wrong_option(const char *argument, const char *expected) {
    struct uma_guard_line line;
    uma_guard_line_begin(&line, UMA_GUARD_ERROR);
    uma_guard_line_text(&line, "uma-guard: ");
    uma_guard_line_name(&line, argument, 80);
    uma_guard_line_text(&line, ": expected ");
    uma_guard_line_text(&line, expected);
    uma_guard_say(&line);
    return 2;
}

int main(int argc, char **argv) {
    struct uma_guard_options options;
    const char *wrong, *expected;
    uma_standard_files_guard(); /* else what is said goes into the trail, or a socket */
    uma_guard_say_open();
    if (uma_guard_options_parse(argc, argv, &options, &wrong, &expected) < 0)
        return wrong_option(wrong, expected);
    if (options.help)
        return print(uma_guard_usage);
    if (options.version)
        return print("uma-guard " UMACTL_VERSION "\n");
    (void)mallopt(M_ARENA_MAX, 1); /* threads would get 64 MiB of address space each, which mlockall(2) counts */
    (void)umask(022);
    int r = uma_guard_loop_open(&loop, &options);
    if (r < 0) {
        uma_guard_say_text(UMA_GUARD_ERROR, "uma-guard cannot start", r);
        return 1;
    }
    if (uma_guard_self_test(&loop) < 0)
        return 1;
    if (options.once) {
        (void)uma_guard_loop_look(&loop);
        (void)uma_guard_let_go(&loop, 0, false); /* nobody would be there to do it later */
        uma_guard_loop_close(&loop);
        return loop.failing_since != 0 ? 3 : 0;
    }
    uma_guard_lock(&loop);
    r = uma_guard_loop_run(&loop);
    uma_guard_loop_close(&loop);
    return r;
}
