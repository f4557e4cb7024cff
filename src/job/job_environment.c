/* SPDX-License-Identifier: MIT */
#include "job/job_environment.h"

#include "base/cleanup.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static bool is_named(const char *variable, const char *name) {
    size_t n = strlen(name);
    return strncmp(variable, name, n) == 0 && variable[n] == '=';
}

static char *const *list_of(const struct uma_job_environment *environment) {
    return environment->list ? environment->list : environ;
}

const char *uma_job_environment_get(const struct uma_job_environment *environment, const char *name) {
    for (char *const *variable = list_of(environment); *variable; variable++)
        if (is_named(*variable, name))
            return strchr(*variable, '=') + 1;
    return NULL;
}

/* A list of its own, every variable too. */
static int copy(struct uma_job_environment *environment) {
    size_t n = 0;
    while (environ[n])
        n++;
    struct uma_job_environment own = { .list = calloc(n + 1, sizeof(*own.list)) };
    for (; own.list && own.n < n; own.n++) {
        own.list[own.n] = strdup(environ[own.n]);
        if (!own.list[own.n])
            break;
    }
    if (own.n < n || !own.list) {
        uma_job_environment_done(&own);
        return -ENOMEM;
    }
    *environment = own;
    return 0;
}

/* The kernel takes no longer string (execve(2), MAX_ARG_STRLEN: 32 pages). */
enum { LONGEST = 32 * 4096 - 1 };

int uma_job_environment_set(struct uma_job_environment *environment, const char *name, const char *value, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, name);
    uma_text_append(&text, "=");
    uma_text_append(&text, value);
    if (text.failed)
        return uma_error_set(err, ENOMEM, "the job's environment");
    if (text.length > LONGEST)
        return uma_error_text(err, E2BIG, "%s is too long to be given to a job", name);
    if (!environment->list && copy(environment) < 0)
        return uma_error_set(err, ENOMEM, "the job's environment");
    char **longer = realloc(environment->list, (environment->n + 2) * sizeof(*longer));
    if (!longer)
        return uma_error_set(err, ENOMEM, "the job's environment");
    environment->list = longer;
    size_t kept = 0;
    for (size_t i = 0; i < environment->n; i++) /* one that is there twice goes twice */
        if (is_named(longer[i], name))
            free(longer[i]);
        else
            longer[kept++] = longer[i];
    longer[kept++] = TAKE_PTR(text.data);
    longer[kept] = NULL;
    environment->n = kept;
    return 0;
}

int uma_job_environment_preload(struct uma_job_environment *environment, const char *library, struct uma_error *err) {
    _cleanup_text_ struct uma_text text = { 0 };
    const char *before = uma_job_environment_get(environment, "LD_PRELOAD");
    uma_text_append(&text, library);
    if (before && before[0]) {
        uma_text_append(&text, ":");
        uma_text_append(&text, before);
    }
    if (text.failed)
        return uma_error_set(err, ENOMEM, "the job's environment");
    return uma_job_environment_set(environment, "LD_PRELOAD", text.data, err);
}

void uma_job_environment_done(struct uma_job_environment *environment) {
    for (size_t i = 0; i < environment->n; i++)
        free(environment->list[i]);
    free(environment->list);
    *environment = (struct uma_job_environment){ 0 };
}
