/* SPDX-License-Identifier: MIT */
#include "job/window_helper.h"

#include "act/page_out.h"
#include "window/protocol.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#ifndef UMACTL_LIBDIR
#define UMACTL_LIBDIR "/usr/lib"
#endif

#define LIBRARY "libuma-window.so"

int uma_window_helper_parse(const char *s, enum uma_window_helper_when *ret_when, struct uma_error *err) {
    static const char *const names[] = { "auto", "always", "never" };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(s, names[i]) == 0) {
            *ret_when = (enum uma_window_helper_when)i;
            return 0;
        }
    return uma_error_text(err, EINVAL, "\"%.64s\" is not one of auto, always, never", s);
}

/* ---- where the library is -------------------------------------------------------------------------------------- */

/* The loader divides LD_PRELOAD at spaces and colons, and replaces what begins with $ (ld.so(8)): a path with one of them cannot be said. */
static int resolve(const char *path, char ret_path[PATH_MAX], struct uma_error *err) {
    char real[PATH_MAX];
    if (!realpath(path, real) || access(real, R_OK) < 0)
        return uma_error_set(err, errno, "%s", path);
    if (strpbrk(real, " \t\n:;$"))
        return uma_error_text(err, EINVAL, "%s: LD_PRELOAD cannot hold this path", real);
    (void)memcpy(ret_path, real, strlen(real) + 1);
    return 0;
}

int uma_window_library_find(char ret_path[PATH_MAX], struct uma_error *err) {
    const char *named = secure_getenv("UMACTL_WINDOW_LIBRARY");
    if (named && named[0])
        return resolve(named, ret_path, err);
    static const char *const beside[] = { "window/" LIBRARY, LIBRARY }; /* as it is built, as somebody copied it */
    char self[PATH_MAX], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    while (n > 0 && self[n - 1] != '/')
        n--;
    for (size_t i = 0; n > 0 && i < ELEMENTS(beside); i++)
        if (snprintf(path, sizeof(path), "%.*s%s", (int)n, self, beside[i]) < PATH_MAX && access(path, R_OK) == 0)
            return resolve(path, ret_path, err);
    if (access(UMACTL_LIBDIR "/umactl/" LIBRARY, R_OK) == 0)
        return resolve(UMACTL_LIBDIR "/umactl/" LIBRARY, ret_path, err);
    return uma_error_text(
        err, ENOENT, LIBRARY " is neither beside the program nor in " UMACTL_LIBDIR "/umactl (UMACTL_WINDOW_LIBRARY names another place)");
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

/* ---- the socket ------------------------------------------------------------------------------------------------ */

static int make_folder(char folder[64], struct uma_error *err) {
    const char *places[] = { secure_getenv("XDG_RUNTIME_DIR"), secure_getenv("TMPDIR"), "/tmp" };
    int error = ENOENT;
    for (size_t i = 0; i < ELEMENTS(places); i++) {
        char path[64];
        if (!places[i] || places[i][0] != '/' ||
            snprintf(path, sizeof(path), "%s/umactl-window-XXXXXX", places[i]) >= (int)sizeof(path)) /* with room for the socket's name */
            continue;
        if (mkdtemp(path)) { /* mode 0700 */
            (void)memcpy(folder, path, sizeof(path));
            return 0;
        }
        error = errno;
    }
    return uma_error_set(err, error, "a folder for the helper's socket");
}

/* ---- the job's environment ------------------------------------------------------------------------------------- */

static bool is_named(const char *variable, const char *name) {
    size_t n = strlen(name);
    return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

int uma_window_environment(char *const *environment, const char *library, const char *socket, char variables[2][PATH_MAX + 4096],
                           char ***ret_environment, struct uma_error *err) {
    const size_t room = PATH_MAX + 4096;
    const char *before = NULL;
    size_t n = 0, kept = 0;
    for (; environment[n]; n++)
        if (!before && is_named(environment[n], "LD_PRELOAD"))
            before = strchr(environment[n], '=') + 1;
    if ((size_t)snprintf(variables[0], room, "LD_PRELOAD=%s%s%s", library, before && before[0] ? ":" : "", before ? before : "") >= room)
        return uma_error_text(err, E2BIG, "LD_PRELOAD is too long to be added to");
    (void)snprintf(variables[1], room, "%s=%s", UMA_WINDOW_VARIABLE, socket);
    char **list = calloc(n + 3, sizeof(*list));
    if (!list)
        return uma_error_set(err, ENOMEM, "the job's environment");
    for (size_t i = 0; i < n; i++)
        if (!is_named(environment[i], "LD_PRELOAD") && !is_named(environment[i], UMA_WINDOW_VARIABLE))
            list[kept++] = environment[i];
    list[kept++] = variables[0];
    list[kept] = variables[1];
    *ret_environment = list;
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

static int preload(struct uma_window_helper *helper, struct uma_error *err) {
    char library[PATH_MAX];
    int r = uma_window_library_find(library, err);
    if (r >= 0)
        r = make_folder(helper->folder, err);
    if (r >= 0)
        r = uma_follow_helpers_listen(helper->folder, &helper->helpers, err);
    if (r >= 0)
        r = uma_window_environment(environ, library, uma_follow_helpers_path(helper->helpers), helper->variables, &helper->environment,
                                   err);
    return r;
}

void uma_window_helper_prepare(enum uma_window_helper_when when, struct uma_window_helper *ret_helper) {
    struct uma_window_helper *helper = ret_helper;
    struct uma_error why = { 0 }, err = { 0 };
    memset(helper, 0, sizeof(*helper));
    int allowed = when == UMA_WINDOW_HELPER_ALWAYS ? 0 : ask_kernel(&why);
    helper->use = when == UMA_WINDOW_HELPER_NEVER ? "never" : "not needed";
    if (when == UMA_WINDOW_HELPER_NEVER && allowed < 0)
        (void)snprintf(helper->note, sizeof(helper->note), "files that are mapped stay in memory, files that are read do not: %.160s",
                       why.text);
    if (when == UMA_WINDOW_HELPER_NEVER || (when == UMA_WINDOW_HELPER_AUTO && allowed >= 0))
        return;
    if (preload(helper, &err) >= 0) {
        helper->use = "preloaded";
        (void)snprintf(helper->note, sizeof(helper->note), "%.250s", when == UMA_WINDOW_HELPER_ALWAYS ? "" : why.text);
        return;
    }
    uma_window_helper_done(helper);
    helper->use = "unavailable";
    (void)snprintf(helper->note, sizeof(helper->note),
                   "files that are mapped stay in memory, files that are read do not: %.80s; no helper: %.80s",
                   when == UMA_WINDOW_HELPER_ALWAYS ? "unless umactl may page them out itself" : why.text, err.text);
}

void uma_window_helper_done(struct uma_window_helper *helper) {
    helper->helpers = uma_follow_helpers_close(helper->helpers);
    if (helper->folder[0])
        (void)rmdir(helper->folder);
    helper->folder[0] = '\0';
    free(helper->environment);
    helper->environment = NULL;
}
