/* SPDX-License-Identifier: MIT */
#include "job/window_helper.h"

#include "act/page_out.h"
#include "job/preload_library.h"
#include "window/protocol.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int uma_window_helper_parse(const char *s, enum uma_window_helper_when *ret_when, struct uma_error *err) {
    static const char *const names[] = { "auto", "always", "never" };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(s, names[i]) == 0) {
            *ret_when = (enum uma_window_helper_when)i;
            return 0;
        }
    return uma_error_text(err, EINVAL, "\"%.64s\" is not one of auto, always, never", s);
}

/* ---- whether it is needed -------------------------------------------------------------------------------------- */

/* May umactl page out of a process that it started? Only the kernel knows (capabilities, namespaces, seccomp), so it is asked about a child that does nothing. */
static int ask_kernel(struct uma_error *err) {
    pid_t umactl = getpid(), child = fork();
    if (child < 0)
        return uma_error_set(err, errno, "fork");
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == umactl)
            (void)pause();
        _exit(0);
    }
    int r = uma_page_out_allowed(child, err);
    (void)kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static int preload(struct uma_window_helper *helper, struct uma_job_environment *environment, struct uma_error *err) {
    char library[PATH_MAX];
    int r = uma_library_find(&uma_library_window, library, err);
    if (r >= 0)
        r = uma_window_folder_make(&helper->folder, err);
    if (r >= 0)
        r = uma_follow_helpers_listen(helper->folder.path, &helper->helpers, err);
    if (r >= 0)
        r = uma_job_environment_set(environment, UMA_WINDOW_VARIABLE, uma_follow_helpers_path(helper->helpers), err);
    if (r >= 0)
        r = uma_job_environment_preload(environment, library, err);
    return r;
}

/* A library that somebody named and that is none is told of even where none is needed. */
static void check_named(struct uma_window_helper *helper) {
    char library[PATH_MAX];
    struct uma_error err = { 0 };
    const char *named = secure_getenv(uma_library_window.variable);
    if (!named || !named[0] || uma_library_find(&uma_library_window, library, &err) >= 0)
        return;
    helper->failed = true;
    (void)snprintf(helper->note, sizeof(helper->note), "the helper cannot be used: %.300s; here it is not needed", err.text);
}

void uma_window_helper_prepare(enum uma_window_helper_when when, struct uma_job_environment *environment,
                               struct uma_window_helper *ret_helper) {
    struct uma_window_helper *helper = ret_helper;
    struct uma_error why = { 0 }, err = { 0 };
    memset(helper, 0, sizeof(*helper));
    int allowed = when == UMA_WINDOW_HELPER_ALWAYS ? 0 : ask_kernel(&why);
    helper->use = when == UMA_WINDOW_HELPER_NEVER ? "never" : "not needed";
    if (when == UMA_WINDOW_HELPER_NEVER && allowed < 0)
        (void)snprintf(helper->note, sizeof(helper->note), "files that are mapped stay in memory, files that are read do not: %.300s",
                       why.text);
    if (when == UMA_WINDOW_HELPER_NEVER)
        return;
    if (when == UMA_WINDOW_HELPER_AUTO && allowed >= 0) {
        check_named(helper);
        return;
    }
    if (preload(helper, environment, &err) >= 0) {
        helper->use = "preloaded";
        (void)snprintf(helper->note, sizeof(helper->note), "%.300s", when == UMA_WINDOW_HELPER_ALWAYS ? "" : why.text);
        return;
    }
    uma_window_helper_done(helper);
    helper->use = "unavailable";
    helper->failed = true;
    (void)snprintf(helper->note, sizeof(helper->note), "the helper cannot be used: %.300s; the job runs without it", err.text);
}

void uma_window_helper_done(struct uma_window_helper *helper) {
    helper->helpers = uma_follow_helpers_close(helper->helpers);
    uma_window_folder_remove(&helper->folder);
}
