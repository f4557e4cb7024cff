/* SPDX-License-Identifier: MIT */
/* cache_advise_select.c - which settings are meant by names, or by none. */
#include "cmd/cache_advise.h"

#include "cmd/cache.h"

#include <string.h>

static bool equals(const char *s, const char *name, size_t length) {
    return strlen(s) == length && memcmp(s, name, length) == 0;
}

/* "vm.dirty_ratio", "vm/dirty_ratio", "dirty_ratio", "/proc/sys/vm/dirty_ratio", and of others the path. */
static bool path_named(const char *path, const char *name, size_t length) {
    static const char vm[] = "proc/sys/vm/";
    if (length && *name == '/')
        return equals(path, name + 1, length - 1);
    if (strncmp(path, vm, sizeof vm - 1) != 0)
        return equals(path, name, length);
    const char *own = path + sizeof vm - 1;
    if (length > 3 && (strncmp(name, "vm.", 3) == 0 || strncmp(name, "vm/", 3) == 0))
        return equals(own, name + 3, length - 3);
    return equals(own, name, length) || equals(path, name, length);
}

bool uma_advise_named(const char *id, const char *path, const char *name, size_t length) {
    const char *counterpart = path ? uma_tunable_counterpart(path) : NULL;
    return equals(id, name, length) || (path && path_named(path, name, length)) || (counterpart && path_named(counterpart, name, length));
}

const char *uma_advise_unset_why(const struct uma_advice *a, struct uma_arena *arena) {
    _cleanup_text_ struct uma_text text = { 0 };
    if (a->verdict == UMA_VERDICT_OK)
        uma_text_printf(&text, "ok as it is, %s", a->now);
    else if (a->verdict == UMA_VERDICT_UNKNOWN)
        uma_text_printf(&text, "%s", a->why);
    else if (!a->recommended)
        uma_text_printf(&text, "it is %s, so umactl sets nothing: %s", uma_verdict_name(a->verdict), a->why);
    else
        uma_text_printf(&text, "umactl does not set it");
    if (a->command && a->verdict != UMA_VERDICT_OK)
        uma_text_printf(&text, ". By hand: %s", a->command);
    const char *copy = text.data ? uma_arena_strndup(arena, text.data, text.length) : NULL;
    return copy ? copy : "";
}

static bool add(const struct uma_advice **list, size_t *n, const struct uma_advice *a) {
    for (size_t i = 0; i < *n; i++)
        if (list[i] == a)
            return true;
    if (*n == UMA_TUNING_CHANGES_MAX)
        return false;
    list[(*n)++] = a;
    return true;
}

static const char *advice_id(const void *userdata, size_t i) {
    const struct uma_advice_list *advice = userdata;
    return advice->list[i].id;
}

static int unknown_name(const struct uma_advice_list *advice, const char *name) {
    const struct uma_command *command = &uma_command_cache_advise;
    if (strchr(name, '='))
        return uma_command_usage_error(command, "\"%.64s\": only the advised value is set; another one is set with sysctl(8)", name);
    const char *nearest = uma_command_nearest(name, advice_id, advice, advice->n);
    if (nearest)
        return uma_command_usage_error(command, "there is no setting \"%.64s\"; did you mean \"%s\"?", name, nearest);
    return uma_command_usage_error(command, "there is no setting \"%.64s\": `umactl cache advise --all` lists them", name);
}

/* 0, or UMA_EXIT_USAGE: told. */
static int select_name(struct uma_advise_selection *s, const struct uma_advice_list *advice, const char *name) {
    for (size_t i = 0; i < advice->n; i++) {
        const struct uma_advice *a = &advice->list[i];
        if (!uma_advise_named(a->id, a->path, name, strlen(name)))
            continue;
        bool fits = a->path && a->recommended ? add(s->list, &s->n, a) : add(s->unset, &s->n_unset, a);
        return fits ? 0 : uma_command_usage_error(&uma_command_cache_advise, "too many settings at once");
    }
    return unknown_name(advice, name);
}

int uma_advise_select(const struct uma_advice_list *advice, char *const *words, int n_words, struct uma_advise_selection *ret_selection) {
    struct uma_advise_selection s = { 0 };
    for (int i = 0; i < n_words; i++)
        for (const char *p = words[i]; *p || p == words[i];) {
            char name[UMA_TUNABLE_PATH_MAX + 2];
            size_t n = strcspn(p, ",");
            if (n == 0 || n >= sizeof name)
                return uma_command_usage_error(&uma_command_cache_advise, "\"%.64s\": expected names of settings with commas between them",
                                               words[i]);
            (void)memcpy(name, p, n);
            name[n] = '\0';
            int status = select_name(&s, advice, name);
            if (status)
                return status;
            p += n + (p[n] == ',');
        }
    for (size_t i = 0; i < advice->n && n_words == 0; i++)
        if (uma_advice_is_default(&advice->list[i]))
            (void)add(s.list, &s.n, &advice->list[i]);
    *ret_selection = s;
    return 0;
}
