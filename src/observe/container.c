/* SPDX-License-Identifier: MIT */
/*
 * Which container a cgroup path belongs to. The path is the one thing every runtime shows to everyone, also without its socket:
 *   Docker        /docker/ID, /system.slice/docker-ID.scope                       (cgroupfs and systemd driver)
 *   Podman        .../libpod-ID.scope[/container], /libpod_parent/libpod-ID
 *   containerd    .../cri-containerd-ID.scope, .../PODSLICE:cri-containerd:ID, .../nerdctl-ID.scope, /default/ID
 *   CRI-O         .../crio-ID.scope, .../crio-ID
 *   Kubernetes    /kubepods/QOS/podUID/ID (cgroupfs driver: does not say which runtime), kubepods-QOS-podUID.slice
 *   LXC           /lxc.payload.NAME, /lxc.payload/NAME, /lxc/NAME
 *   nspawn        /machine.slice/systemd-nspawn@NAME.service, /machine.slice/machine-NAME.scope
 * The innermost one wins: a container in a container is a container of its own. conmon and lxc.monitor are not in one.
 */
#include "observe/container.h"

#include "base/cleanup.h"
#include "observe/process.h"

#include <errno.h>
#include <string.h>

/* Engines use 64 hexadecimal digits; the short form that people see has 12. */
enum { ID_SHORTEST = 12, ID_LONGEST = 64 };
/* A pod uid is a UUID (36) or, for static pods, 32 hexadecimal digits. */
enum { POD_SHORTEST = 32, POD_LONGEST = 36 };
/* Names of LXC and nspawn containers are host names (64) at most. */
enum { NAME_LONGEST = 64 };

struct part {
    const char *s;
    size_t n;
};

static bool hex_digit(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool uma_container_id_valid(const char *id, size_t length) {
    if (length < ID_SHORTEST || length > ID_LONGEST)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!hex_digit(id[i]))
            return false;
    return true;
}

static bool is(struct part p, const char *word) {
    return p.n == strlen(word) && memcmp(p.s, word, p.n) == 0;
}

/* Take `prefix` (and, where it ends so, `suffix`) off. */
static bool cut(struct part *p, const char *prefix, const char *suffix) {
    size_t a = strlen(prefix), b = strlen(suffix);
    if (p->n < a || memcmp(p->s, prefix, a) != 0)
        return false;
    p->s += a;
    p->n -= a;
    if (p->n >= b && memcmp(p->s + p->n - b, suffix, b) == 0)
        p->n -= b;
    return true;
}

/* "docker-ID.scope" and its kind: the prefix says the runtime. */
static const char *by_prefix(struct part p, struct part *ret_id) {
    static const struct {
        const char *prefix, *runtime;
    } table[] = {
        { "docker-", "docker" },      { "libpod-payload-", "podman" },
        { "libpod-", "podman" },      { "cri-containerd-", "containerd" },
        { "nerdctl-", "containerd" }, { "crio-", "crio" },
    };
    for (size_t i = 0; i < ELEMENTS(table); i++) {
        struct part id = p;
        if (cut(&id, table[i].prefix, ".scope") && uma_container_id_valid(id.s, id.n)) {
            *ret_id = id;
            return table[i].runtime;
        }
    }
    /* what runc's cgroupfs driver makes of a systemd-style "slice:prefix:id" */
    static const char *const colon[] = {
        ":cri-containerd:", "containerd", ":crio:", "crio", ":docker:", "docker", ":nerdctl:", "containerd"
    };
    for (size_t i = 0; i < ELEMENTS(colon); i += 2) {
        const char *at = memmem(p.s, p.n, colon[i], strlen(colon[i]));
        struct part id = { at ? at + strlen(colon[i]) : NULL, 0 };
        id.n = at ? (size_t)(p.s + p.n - id.s) : 0;
        if (at && uma_container_id_valid(id.s, id.n)) {
            *ret_id = id;
            return colon[i + 1];
        }
    }
    return NULL;
}

/* A bare ID says nothing; the folder it is in does. */
static const char *by_parent(struct part p, struct part parent, bool in_pods) {
    if (!uma_container_id_valid(p.s, p.n))
        return NULL;
    if (is(parent, "docker"))
        return "docker";
    if (is(parent, "default") && p.n == ID_LONGEST) /* nerdctl and ctr: the namespace is the folder */
        return "containerd";
    return in_pods && p.n == ID_LONGEST ? "kubernetes" : NULL;
}

static bool plain_name(struct part p) {
    return p.n > 0 && p.n <= NAME_LONGEST;
}

/* LXC and nspawn name their containers instead of numbering them. `parent` is the folder. */
static const char *by_name(struct part p, struct part parent, struct part *ret_name) {
    *ret_name = p;
    if (cut(ret_name, "lxc.payload.", "") && plain_name(*ret_name))
        return "lxc";
    *ret_name = p;
    if ((is(parent, "lxc") || is(parent, "lxc.payload")) && plain_name(p))
        return "lxc";
    if (!is(parent, "machine.slice"))
        return NULL;
    *ret_name = p;
    if (cut(ret_name, "systemd-nspawn@", ".service") && plain_name(*ret_name))
        return "systemd-nspawn";
    /* libvirt's machines are there, too: "machine-qemu\x2d1\x2dNAME.scope" is a virtual machine */
    struct part vm = p;
    *ret_name = p;
    if (!cut(&vm, "machine-qemu", "") && cut(ret_name, "machine-", ".scope") && plain_name(*ret_name))
        return "systemd-nspawn";
    return NULL;
}

/* systemd writes what a unit name may not hold as \xHH; undo it: "my\x2dbox" is the machine my-box. */
static const char *unescape(struct part p, struct uma_arena *arena) {
    char out[NAME_LONGEST];
    size_t n = 0;
    for (size_t i = 0; i < p.n; n++) {
        if (p.n - i >= 4 && p.s[i] == '\\' && p.s[i + 1] == 'x' && hex_digit(p.s[i + 2]) && hex_digit(p.s[i + 3])) {
            static const char digits[] = "0123456789abcdef";
            size_t high = (size_t)(strchr(digits, p.s[i + 2] | 0x20) - digits), low = (size_t)(strchr(digits, p.s[i + 3] | 0x20) - digits);
            out[n] = (char)(high << 4 | low);
            i += 4;
        } else {
            out[n] = p.s[i++];
        }
    }
    return uma_arena_utf8(arena, out, n);
}

/* "pod<uid>" and "kubepods-burstable-pod<uid_with_underscores>.slice". */
static bool pod_of(struct part p, struct part *ret_uid) {
    struct part uid = p;
    const char *kube = memmem(p.s, p.n, "kubepods", 8);
    if (kube) {
        const char *at = memmem(kube, (size_t)(p.s + p.n - kube), "-pod", 4);
        if (!at)
            return false;
        uid.s = at + 4;
        uid.n = (size_t)(p.s + p.n - uid.s);
        const char *slice = memmem(uid.s, uid.n, ".slice", 6); /* also in front of ":cri-containerd:ID" */
        if (slice)
            uid.n = (size_t)(slice - uid.s);
    } else if (!cut(&uid, "pod", "")) {
        return false;
    }
    if (uid.n < POD_SHORTEST || uid.n > POD_LONGEST)
        return false;
    for (size_t i = 0; i < uid.n; i++)
        if (!hex_digit(uid.s[i]) && uid.s[i] != '-' && uid.s[i] != '_')
            return false;
    *ret_uid = uid;
    return true;
}

static const char *pod_text(struct part uid, struct uma_arena *arena) {
    char *text = uma_arena_strndup(arena, uid.s, uid.n);
    for (char *c = text; c && *c; c++)
        *c = *c == '_' ? '-' : *c;
    return text;
}

int uma_container_identify(const char *cgroup_path, struct uma_arena *arena, struct uma_container *ret_container) {
    const char *runtime = NULL;
    struct part found = { 0 }, pod = { 0 }, parent = { "", 0 };
    bool named = false, in_pods = false;
    for (const char *at = cgroup_path; *at;) {
        struct part p = { at, strcspn(at, "/") }, id = p, name;
        const char *r = by_prefix(p, &id);
        bool r_named = false;
        in_pods |= p.n >= 8 && memmem(p.s, p.n, "kubepods", 8);
        if (in_pods)
            (void)pod_of(p, &pod);
        if (!r)
            r = by_parent(p, parent, in_pods);
        if (!r && (r = by_name(p, parent, &name))) {
            id = name;
            r_named = true;
        }
        if (r) {
            runtime = r;
            found = id;
            named = r_named;
        }
        if (p.n > 0)
            parent = p;
        at += p.n;
        at += *at == '/';
    }
    if (!runtime)
        return -ENOENT;
    struct uma_container c = { .runtime = runtime };
    c.id = named ? unescape(found, arena) : uma_arena_strndup(arena, found.s, found.n);
    c.name = named ? c.id : NULL;
    c.pod = pod.n ? pod_text(pod, arena) : NULL;
    if (!c.id || (pod.n && !c.pod))
        return -ENOMEM;
    *ret_container = c;
    return 0;
}

const char *uma_cgroup_unit(const char *cgroup_path, struct uma_arena *arena) {
    struct part unit = { 0 };
    for (const char *at = cgroup_path; *at;) {
        struct part p = { at, strcspn(at, "/") };
        static const char *const suffixes[] = { ".service", ".scope" };
        for (size_t i = 0; i < ELEMENTS(suffixes); i++) {
            size_t n = strlen(suffixes[i]);
            if (p.n > n && memcmp(p.s + p.n - n, suffixes[i], n) == 0)
                unit = p;
        }
        at += p.n;
        at += *at == '/';
    }
    return unit.n ? uma_arena_utf8(arena, unit.s, unit.n) : NULL;
}
