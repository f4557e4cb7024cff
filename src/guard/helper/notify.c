/* SPDX-License-Identifier: MIT */
#include "guard/helper/notify.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "guard/helper/notify_text.h"
#include "guard/helper/say.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

/* Without a descriptor that tells of the child's end it is looked for this often. */
#define LOOK_NS (UMA_SECOND_NS / 10)
#define SESSIONS "/run/user" /* of systemd-logind, one folder a user, with the socket of his session bus */

/* ---- rarely enough ------------------------------------------------------------------------------------------------ */

static bool ends_something(enum uma_guard_action_kind kind) {
    return kind == UMA_GUARD_TERM || kind == UMA_GUARD_KILL || kind == UMA_GUARD_UNKILLABLE || kind == UMA_GUARD_LAST_RESORT;
}

bool uma_helper_notify_allow(struct uma_helper_notify *notify, enum uma_guard_action_kind kind, int64_t now_ns) {
    int64_t least = (ends_something(kind) ? 1 : 1 + UMA_HELPER_KEPT_FOR_ENDS) * UMA_HELPER_RATE_NS;
    notify->credit_ns = MIN_OF(notify->credit_ns + MAX_OF(now_ns - notify->credited, INT64_C(0)), UMA_HELPER_BURST * UMA_HELPER_RATE_NS);
    notify->credited = now_ns;
    if (notify->credit_ns < least)
        return false;
    notify->credit_ns -= UMA_HELPER_RATE_NS;
    return true;
}

/* ---- the queue ---------------------------------------------------------------------------------------------------- */

static bool tells_anybody(const struct uma_guard_notify *policy) {
    return policy->command[0] || policy->webhook[0] || policy->desktop;
}

void uma_helper_notify_begin(struct uma_helper_notify *notify, const struct uma_guard_notify *policy, int64_t now_ns) {
    *notify = (struct uma_helper_notify){
        .policy = *policy, .child.pidfd = -1, .credit_ns = UMA_HELPER_BURST * UMA_HELPER_RATE_NS, .credited = now_ns
    };
    if (gethostname(notify->host, sizeof(notify->host) - 1) < 0)
        notify->host[0] = '\0';
}

void uma_helper_notify_change(struct uma_helper_notify *notify, const struct uma_guard_notify *policy) {
    notify->policy = *policy;
}

void uma_helper_notify_add(struct uma_helper_notify *notify, const struct uma_guard_message *message, int64_t now_ns) {
    if (!uma_helper_notify_worth(message) || !tells_anybody(&notify->policy))
        return;
    if (notify->n == UMA_HELPER_QUEUE || !uma_helper_notify_allow(notify, message->action.kind, now_ns)) {
        if (notify->left_out++ == 0)
            uma_helper_say(UMA_HELPER_NOTICE, "more to tell than people are told at a time: some is left out, and counted");
        return;
    }
    unsigned at = (notify->first + notify->n++) % UMA_HELPER_QUEUE;
    notify->queue[at].message = *message;
    notify->queue[at].left_out = notify->left_out;
    notify->left_out = 0;
}

/* ---- the ways ----------------------------------------------------------------------------------------------------- */

/* The words of a text in which each ends with a zero byte, and NULL behind them. */
static size_t split(const struct uma_text *text, const char **words, size_t max) {
    size_t n = 0;
    for (size_t at = 0; at < text->length && n + 1 < max; at += strlen(text->data + at) + 1)
        words[n++] = text->data + at;
    words[n] = NULL;
    return n;
}

static int start(struct uma_helper_notify *notify, const struct uma_helper_program *program, const char *what, int64_t now,
                 struct uma_error *err) {
    int r = uma_helper_child_start(program, now + UMA_HELPER_TELL_NS, &notify->child, err);
    if (r >= 0)
        notify->telling = what;
    return r;
}

static int tell_command(struct uma_helper_notify *notify, const struct uma_guard_message *m, uint64_t left_out, int64_t now,
                        struct uma_error *err) {
    _cleanup_text_ struct uma_text variables = { 0 };
    const char *words[UMA_HELPER_VARIABLES + 2];
    const char *argv[] = { notify->policy.command, NULL };
    uma_text_append(&variables, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    uma_text_char(&variables, '\0');
    uma_helper_notify_variables(m, left_out, &variables);
    if (variables.failed)
        return uma_error_set(err, ENOMEM, "the command");
    (void)split(&variables, words, ELEMENTS(words));
    struct uma_helper_program program = { .path = argv[0], .argv = argv, .environment = words, .in = -1, .extra = -1 };
    return start(notify, &program, "the command", now, err);
}

/* The address comes by a file and not by an argument, because everybody can read arguments and it may be a secret. */
static int tell_webhook(struct uma_helper_notify *notify, const struct uma_guard_message *m, uint64_t left_out, int64_t now,
                        struct uma_error *err) {
    static const char *const argv[] = { "curl",
                                        "-q", /* no ~/.curlrc; must be the first */
                                        "--config",
                                        "/dev/fd/3",
                                        "--silent",
                                        "--show-error",
                                        "--fail",
                                        "--globoff",
                                        "--proto",
                                        "=http,https",
                                        "--max-time",
                                        "8", /* below UMA_HELPER_TELL_NS, so that it can say what was the matter */
                                        "--header",
                                        "Content-Type: application/json",
                                        "--data-binary",
                                        "@-",
                                        "--output",
                                        "/dev/null",
                                        NULL };
    _cleanup_text_ struct uma_text body = { 0 };
    _cleanup_text_ struct uma_text config = { 0 };
    char path[64];
    if (!uma_helper_program_find("curl", path, sizeof(path)))
        return uma_error_text(err, ENOENT, "the webhook needs curl, and there is none");
    uma_helper_notify_json(m, notify->host, left_out, &body);
    uma_text_printf(&config, "url = \"%s\"\n", notify->policy.webhook); /* neither quotes nor backslashes: notify_policy.h */
    if (body.failed || config.failed)
        return uma_error_set(err, ENOMEM, "the webhook");
    _cleanup_close_ int in = uma_helper_text_file(body.data, body.length, err);
    _cleanup_close_ int extra = in < 0 ? -1 : uma_helper_text_file(config.data, config.length, err);
    if (extra < 0)
        return -ENOMEM;
    struct uma_helper_program program = {
        .path = path, .argv = argv, .environment = (const char *const *)environ, .in = in, .extra = extra
    };
    return start(notify, &program, "the webhook", now, err);
}

/* Users with a session bus; as any other user than root only one's own. */
static void find_desktops(struct uma_helper_notify *notify) {
    notify->n_desktops = notify->desktop = 0;
    _cleanup_closedir_ DIR *dir = opendir(SESSIONS);
    for (struct dirent *d; dir && notify->n_desktops < UMA_HELPER_DESKTOPS && (d = readdir(dir));) {
        char bus[300];
        struct stat folder, socket;
        uint64_t uid;
        (void)snprintf(bus, sizeof(bus), "%s/bus", d->d_name);
        if (uma_parse_u64_all(d->d_name, &uid) < 0 || fstatat(dirfd(dir), d->d_name, &folder, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISDIR(folder.st_mode) || folder.st_uid != uid || fstatat(dirfd(dir), bus, &socket, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISSOCK(socket.st_mode) || socket.st_uid != uid || (geteuid() != 0 && geteuid() != uid))
            continue;
        notify->desktops[notify->n_desktops++] = (struct uma_helper_desktop){ folder.st_uid, folder.st_gid };
    }
}

static int tell_desktop(struct uma_helper_notify *notify, const struct uma_guard_message *m, uint64_t left_out, int64_t now,
                        struct uma_error *err) {
    struct uma_helper_desktop who = notify->desktops[notify->desktop];
    _cleanup_text_ struct uma_text title = { 0 };
    _cleanup_text_ struct uma_text body = { 0 };
    char path[64], address[96], folder[64];
    if (!uma_helper_program_find("notify-send", path, sizeof(path)))
        return uma_error_text(err, ENOENT, "desktops need notify-send, and there is none");
    (void)snprintf(folder, sizeof(folder), "XDG_RUNTIME_DIR=" SESSIONS "/%u", (unsigned)who.uid);
    (void)snprintf(address, sizeof(address), "DBUS_SESSION_BUS_ADDRESS=unix:path=" SESSIONS "/%u/bus", (unsigned)who.uid);
    uma_helper_notify_title(m, &title);
    uma_helper_notify_body(m, left_out, &body);
    if (title.failed || body.failed)
        return uma_error_set(err, ENOMEM, "the desktop");
    const char *argv[] = { path, "--app-name=uma-guard", "--urgency=critical", "--", title.data, body.data, NULL };
    const char *environment[] = { "PATH=/usr/bin:/bin", folder, address, NULL };
    struct uma_helper_program program = { .path = path,
                                          .argv = argv,
                                          .environment = environment,
                                          .in = -1,
                                          .extra = -1,
                                          .as_other = geteuid() == 0,
                                          .uid = who.uid,
                                          .gid = who.gid };
    return start(notify, &program, "a desktop", now, err);
}

/* The next way of the first action in the queue. 1: a child was started; 0: there is none; -errno: it could not be started. */
static int next_way(struct uma_helper_notify *notify, int64_t now, struct uma_error *err) {
    const struct uma_guard_notify *policy = &notify->policy;
    const struct uma_guard_message *m = &notify->queue[notify->first].message;
    uint64_t left_out = notify->queue[notify->first].left_out;
    switch (notify->way) {
    case UMA_HELPER_COMMAND:
        notify->way = UMA_HELPER_WEBHOOK;
        return policy->command[0] ? tell_command(notify, m, left_out, now, err) : 0;
    case UMA_HELPER_WEBHOOK:
        notify->way = UMA_HELPER_DESKTOP;
        if (policy->desktop)
            find_desktops(notify);
        return policy->webhook[0] ? tell_webhook(notify, m, left_out, now, err) : 0;
    case UMA_HELPER_DESKTOP:
        if (!policy->desktop || notify->desktop >= notify->n_desktops) {
            notify->way = UMA_HELPER_WAYS;
            return 0;
        }
        int r = tell_desktop(notify, m, left_out, now, err);
        notify->desktop = r == -ENOENT ? notify->n_desktops : notify->desktop + 1;
        return r;
    case UMA_HELPER_WAYS:
        break;
    }
    return 0;
}

/* ---- the turn ----------------------------------------------------------------------------------------------------- */

static void look_after(struct uma_helper_notify *notify, int64_t now) {
    int status = 0;
    if (!notify->telling || uma_helper_child_check(&notify->child, now, &status) == 0)
        return;
    if (notify->child.killed)
        uma_helper_say(UMA_HELPER_WARNING, "%s took longer than %d s and was ended", notify->telling,
                       (int)(UMA_HELPER_TELL_NS / UMA_SECOND_NS));
    else if (WIFSIGNALED(status))
        uma_helper_say(UMA_HELPER_WARNING, "%s was ended by signal %d", notify->telling, WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        uma_helper_say(UMA_HELPER_WARNING, "%s ended with status %d", notify->telling, WEXITSTATUS(status));
    notify->telling = NULL;
}

int64_t uma_helper_notify_turn(struct uma_helper_notify *notify, int64_t now_ns) {
    look_after(notify, now_ns);
    while (!notify->telling && notify->n > 0) {
        struct uma_error err = { 0 };
        if (next_way(notify, now_ns, &err) < 0)
            uma_helper_say(UMA_HELPER_WARNING, "not told: %s", err.text);
        if (!notify->telling && notify->way == UMA_HELPER_WAYS) {
            notify->first = (notify->first + 1) % UMA_HELPER_QUEUE;
            notify->n--;
            notify->way = UMA_HELPER_COMMAND;
        }
    }
    if (!notify->telling)
        return INT64_MAX;
    if (notify->child.pidfd < 0 || notify->child.killed)
        return now_ns + LOOK_NS;
    return MAX_OF(notify->child.ends_ns, now_ns);
}

void uma_helper_notify_end(struct uma_helper_notify *notify) {
    uma_helper_child_end(&notify->child);
    notify->telling = NULL;
}
