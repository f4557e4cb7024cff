/* SPDX-License-Identifier: MIT */
#include "guard/names.h"

#include "base/cleanup.h"

#include <string.h>

/* ---- patterns ---------------------------------------------------------------------------------------------------- */

/*
 * After a mismatch only the last `*` is tried with one byte more: what an earlier one could take besides, the last one can take as well. So the text is begun anew at most once for each of its bytes.
 */
bool uma_guard_pattern_matches(const char *pattern, const char *text, size_t length) {
    const char *star = NULL;
    size_t at = 0, at_star = 0;
    for (;;) {
        if (*pattern == '*') {
            star = ++pattern;
            at_star = at;
        } else if (at == length) {
            return !*pattern;
        } else if (*pattern && (*pattern == '?' || *pattern == text[at])) {
            pattern++;
            at++;
        } else if (star) {
            pattern = star;
            at = ++at_star;
        } else {
            return false;
        }
    }
}

static const char *unit_of(const char *pattern) {
    static const char word[] = "unit:";
    return strncmp(pattern, word, sizeof(word) - 1) == 0 ? pattern + sizeof(word) - 1 : NULL;
}

/* A pattern that is longer than any name and has no `*`: its first 15 places are what a name can show of it. */
static bool matches_cut(const char *pattern, const char *name, size_t length) {
    char seen[UMA_GUARD_NAME_MAX] = { 0 };
    if (length != UMA_GUARD_NAME_MAX - 1 || strlen(pattern) < UMA_GUARD_NAME_MAX || strchr(pattern, '*'))
        return false;
    (void)memcpy(seen, pattern, sizeof(seen) - 1);
    return uma_guard_pattern_matches(seen, name, length);
}

bool uma_guard_names_have(const struct uma_guard_patterns *patterns, const char *name) {
    size_t length = strnlen(name, UMA_GUARD_NAME_MAX);
    for (uint32_t i = 0; i < MIN_OF(patterns->n, (uint32_t)UMA_GUARD_PATTERNS); i++) {
        const char *pattern = patterns->list[i];
        if (!unit_of(pattern) && (uma_guard_pattern_matches(pattern, name, length) || matches_cut(pattern, name, length)))
            return true;
    }
    return false;
}

static bool path_has(const char *unit, const char *path, size_t length) {
    for (size_t at = 0; at < length;) {
        const char *slash = memchr(path + at, '/', length - at);
        size_t part = slash ? (size_t)(slash - path) - at : length - at;
        if (part > 0 && uma_guard_pattern_matches(unit, path + at, part))
            return true;
        at += part + 1;
    }
    return false;
}

bool uma_guard_units_have(const struct uma_guard_patterns *patterns, const char *path, size_t length) {
    for (uint32_t i = 0; i < MIN_OF(patterns->n, (uint32_t)UMA_GUARD_PATTERNS); i++) {
        const char *unit = unit_of(patterns->list[i]);
        if (unit && *unit && path_has(unit, path, length))
            return true;
    }
    return false;
}

bool uma_guard_is_shell(const char *name) {
    static const char shells[][8] = { "bash", "sh",   "zsh", "fish", "dash",  "ash",    "ksh",  "ksh93",
                                      "mksh", "tcsh", "csh", "nu",   "xonsh", "elvish", "pwsh", "rbash" };
    for (size_t i = 0; i < ELEMENTS(shells); i++)
        if (strncmp(name, shells[i], UMA_GUARD_NAME_MAX) == 0)
            return true;
    return false;
}

/* ---- the names that are there by default -------------------------------------------------------------------------- */

/*
 * Protected are those without whom the machine, or the way into it, is lost, and those who do nothing but look after others: what they started is the job, and it is stopped or ended by itself. All of them are
 * small; one that is not is for its administrator to see. Units are not used: where no logind is, a user's whole session is in ssh.service, and what docker.service has in it differs by version.
 */
static const char *const protect[] = {
    /* the machine */
    "systemd*",
    "init",
    "(sd-pam)",
    "dbus*",
    "*udevd",
    "polkitd",
    "rsyslogd",
    "auditd",
    "chronyd",
    "multipathd",
    "iscsid",
    "rpc.*",
    "nvidia-persist*",
    "nvidia-cuda-m*",
    "nv-host*",
    /* the way into it */
    "sshd*",
    "dropbear",
    "login",
    "*getty",
    "sudo",
    "su",
    "doas",
    "NetworkManager",
    "wpa_suppl*",
    "iwd",
    "dhc*",
    "dnsmasq",
    "tailscaled",
    "mosh-server",
    "tmux*",
    "screen",
    /* what people sit before: without it their session ends */
    "Xorg",
    "Xwayland",
    "gdm*",
    "sddm*",
    "lightdm*",
    "gnome-shell",
    "gnome-session*",
    "kwin*",
    "plasmashell",
    "sway",
    /* who looks after others */
    "dockerd",
    "containerd*",
    "conmon",
    "crio",
    "kubelet",
    "libvirtd",
    "virtqemud",
    "slurm*",
    "raylet",
    "jupyter*",
    "supervisord",
    "cron*",
    "atd",
    "umactl*",
    "uma-guard*",
};

/* What they hold is more than a run that can be started again. */
static const char *const avoid[] = { "postgres", "mysqld", "mariadbd", "mongod", "redis-server", "etcd", "ceph-*", "qemu-*" };

/* Others take them for dead when they do not answer for seconds, and act on it: a leader is elected, a node is fenced, a file system hangs. */
static const char *const no_brake[] = { "etcd", "corosync", "pacemaker*", "ceph-*", "glusterfs*", "gcs_server" };

/* At least a few places are left for the administrator's own. */
_Static_assert(ELEMENTS(protect) <= UMA_GUARD_PATTERNS - 8, "a policy file can add some");

static void fill(struct uma_guard_patterns *patterns, const char *const *names, size_t n) {
    *patterns = (struct uma_guard_patterns){ 0 };
    for (size_t i = 0; i < n && i < UMA_GUARD_PATTERNS && strlen(names[i]) < UMA_GUARD_PATTERN_MAX; i++)
        (void)memcpy(patterns->list[patterns->n++], names[i], strlen(names[i]) + 1);
}

void uma_guard_names_default(struct uma_guard_policy *policy) {
    fill(&policy->protect, protect, ELEMENTS(protect));
    fill(&policy->avoid, avoid, ELEMENTS(avoid));
    fill(&policy->prefer, NULL, 0); /* whom the machine can best do without is its owner's to say */
    fill(&policy->no_brake, no_brake, ELEMENTS(no_brake));
}
