/* SPDX-License-Identifier: MIT */
/*
 * Names and images of containers from their runtimes' files:
 *   Docker      /var/lib/docker/containers/ID/config.v2.json            Name, Config.Image
 *   Podman      STORAGE/overlay-containers/containers.json              names, metadata (containers/storage), rootless in the user's home
 *   containerd  /run/containerd/io.containerd.runtime.v2.task/NS/ID/config.json   annotations of the OCI runtime specification
 *   CRI-O       STORAGE/overlay-containers/ID/userdata/config.json      the same
 */
#include "observe/container.h"

#include "base/text.h"
#include "base/units.h"
#include "observe/lines.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* A config.json is 10-60 kB, a list of a hundred Podman containers about 100 kB; more is not read. */
enum { JSON_FILE_MAX = 1024 * 1024 };
/* Names have 255 bytes at most in every runtime, image references 255 and a digest. */
enum { LABEL_MAX = 512 };
enum { PATH_BYTES_MAX = 1024 };

struct known {
    char *id, *name, *image;
    bool seen;
};

struct uma_container_names {
    struct uma_root *root;
    struct uma_text text;
    struct known *known;
    size_t n, capacity;
};

struct uma_container_names *uma_container_names_new(struct uma_root *root) {
    struct uma_container_names *names = calloc(1, sizeof(*names));
    if (names)
        names->root = root;
    return names;
}

static void forget(struct known *k) {
    free(k->id);
    free(k->name);
    free(k->image);
}

struct uma_container_names *uma_container_names_free(struct uma_container_names *names) {
    if (!names)
        return NULL;
    for (size_t i = 0; i < names->n; i++)
        forget(&names->known[i]);
    free(names->known);
    uma_text_done(&names->text);
    free(names);
    return NULL;
}

void uma_container_names_begin(struct uma_container_names *names) {
    for (size_t i = 0; i < names->n; i++)
        names->known[i].seen = false;
}

void uma_container_names_end(struct uma_container_names *names) {
    size_t kept = 0;
    for (size_t i = 0; i < names->n; i++) {
        if (names->known[i].seen)
            names->known[kept++] = names->known[i];
        else
            forget(&names->known[i]);
    }
    names->n = kept;
}

/* ---- parsers ------------------------------------------------------------------------------------------------ */

static const char *label(json_t *value, struct uma_arena *arena) {
    const char *s = json_string_value(value);
    if (!s || !*s)
        return NULL;
    return uma_arena_utf8(arena, s, LABEL_MAX);
}

int uma_docker_config_parse(const char *text, size_t length, struct uma_arena *arena, const char **ret_name, const char **ret_image) {
    json_t *document = json_loadb(text, length, 0, NULL);
    if (!json_is_object(document)) {
        json_decref(document);
        return -EINVAL;
    }
    const char *name = label(json_object_get(document, "Name"), arena);
    *ret_name = name && name[0] == '/' && name[1] ? name + 1 : name; /* Docker keeps them as paths */
    *ret_image = label(json_object_get(json_object_get(document, "Config"), "Image"), arena);
    json_decref(document);
    return 0;
}

static const char *first_annotation(json_t *annotations, const char *const *keys, size_t n, struct uma_arena *arena) {
    for (size_t i = 0; i < n; i++) {
        const char *s = label(json_object_get(annotations, keys[i]), arena);
        if (s)
            return s;
    }
    return NULL;
}

/* Set by containerd's CRI plugin, by CRI-O and the kubelet, by nerdctl. */
static const char *const name_annotations[] = { "io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name",
                                                "io.kubernetes.cri.sandbox-name" };
static const char *const image_annotations[] = { "io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName" };

int uma_oci_config_parse(const char *text, size_t length, struct uma_arena *arena, const char **ret_name, const char **ret_image) {
    json_t *document = json_loadb(text, length, 0, NULL);
    if (!json_is_object(document)) {
        json_decref(document);
        return -EINVAL;
    }
    json_t *annotations = json_object_get(document, "annotations");
    *ret_name = first_annotation(annotations, name_annotations, ELEMENTS(name_annotations), arena);
    *ret_image = first_annotation(annotations, image_annotations, ELEMENTS(image_annotations), arena);
    json_decref(document);
    return 0;
}

/* containers/storage keeps what Podman says about a container as a JSON text inside the JSON. */
static json_t *podman_metadata(json_t *container) {
    const char *inner = json_string_value(json_object_get(container, "metadata"));
    return inner ? json_loads(inner, 0, NULL) : NULL;
}

int uma_podman_list_parse(const char *text, size_t length, const char *id, struct uma_arena *arena, const char **ret_name,
                          const char **ret_image) {
    json_t *list = json_loadb(text, length, 0, NULL);
    if (!json_is_array(list)) {
        json_decref(list);
        return -EINVAL;
    }
    size_t i;
    json_t *container;
    int r = -ENOENT;
    json_array_foreach(list, i, container) {
        const char *this_id = json_string_value(json_object_get(container, "id"));
        if (!this_id || strcmp(this_id, id) != 0)
            continue;
        json_t *metadata = podman_metadata(container);
        *ret_name = label(json_array_get(json_object_get(container, "names"), 0), arena);
        *ret_image = label(json_object_get(metadata, "image-name"), arena);
        json_decref(metadata);
        r = 0;
        break;
    }
    json_decref(list);
    return r;
}

int uma_passwd_home(const char *text, size_t length, uint32_t uid, const char **ret_home, size_t *ret_length) {
    for (const char *line = text, *end = text + length; line < end;) {
        const char *line_end = uma_line_end(line, end), *field[6];
        size_t n = 0;
        for (const char *at = line; n < 6 && at <= line_end; n++) { /* name:password:uid:gid:gecos:home:shell */
            field[n] = at;
            const char *colon = memchr(at, ':', (size_t)(line_end - at));
            at = colon ? colon + 1 : line_end + 1;
        }
        uint64_t this_uid;
        const char *after = n == 6 ? uma_parse_u64(field[2], line_end, &this_uid) : NULL;
        if (after && *after == ':' && this_uid == uid && field[5] < line_end && field[5][0] == '/') {
            const char *colon = memchr(field[5], ':', (size_t)(line_end - field[5]));
            *ret_home = field[5];
            *ret_length = (size_t)((colon ? colon : line_end) - field[5]);
            return 0;
        }
        line = line_end + 1;
    }
    return -ENOENT;
}

/* ---- files -------------------------------------------------------------------------------------------------- */

/* The two strings as the same kind of file, so that a capture reads back the same and holds nothing else. */
static void record(struct uma_root *root, const char *path, json_t *document) {
    char *text = uma_root_capture(root) && document ? json_dumps(document, JSON_COMPACT) : NULL;
    if (text)
        (void)uma_root_record(root, path, text, strlen(text), NULL);
    free(text);
    json_decref(document);
}

static bool read_file(struct uma_container_names *names, const char *path) {
    return uma_root_read_unrecorded(names->root, path, JSON_FILE_MAX, &names->text, NULL) == 0; /* 1: too long to be one */
}

static bool docker(struct uma_container_names *names, const char *id, struct uma_arena *arena, struct uma_container *c) {
    char path[PATH_BYTES_MAX];
    (void)snprintf(path, sizeof(path), "var/lib/docker/containers/%s/config.v2.json", id);
    if (!read_file(names, path) || uma_docker_config_parse(names->text.data, names->text.length, arena, &c->name, &c->image) < 0)
        return false;
    record(names->root, path, json_pack("{s:s*, s:{s:s*}}", "Name", c->name, "Config", "Image", c->image));
    return true;
}

static bool oci(struct uma_container_names *names, const char *path, struct uma_arena *arena, struct uma_container *c) {
    if (!read_file(names, path) || uma_oci_config_parse(names->text.data, names->text.length, arena, &c->name, &c->image) < 0)
        return false;
    record(names->root, path, json_pack("{s:{s:s*, s:s*}}", "annotations", name_annotations[0], c->name, image_annotations[0], c->image));
    return true;
}

static bool containerd(struct uma_container_names *names, const char *id, struct uma_arena *arena, struct uma_container *c) {
    static const char *const namespaces[] = { "k8s.io", "default", "moby" };
    for (size_t i = 0; i < ELEMENTS(namespaces); i++) {
        char path[PATH_BYTES_MAX];
        (void)snprintf(path, sizeof(path), "run/containerd/io.containerd.runtime.v2.task/%s/%s/config.json", namespaces[i], id);
        if (oci(names, path, arena, c))
            return true;
    }
    return false;
}

static bool crio(struct uma_container_names *names, const char *id, struct uma_arena *arena, struct uma_container *c) {
    static const char *const storages[] = { "run/containers/storage", "var/lib/containers/storage" };
    for (size_t i = 0; i < ELEMENTS(storages); i++) {
        char path[PATH_BYTES_MAX];
        (void)snprintf(path, sizeof(path), "%s/overlay-containers/%s/userdata/config.json", storages[i], id);
        if (oci(names, path, arena, c))
            return true;
    }
    return false;
}

static json_t *podman_filtered(const char *text, size_t length) {
    json_t *list = json_loadb(text, length, 0, NULL), *out = json_array(), *container;
    size_t i;
    json_array_foreach(list, i, container) {
        json_t *metadata = podman_metadata(container);
        json_t *kept = json_pack("{s:s*}", "image-name", json_string_value(json_object_get(metadata, "image-name")));
        char *inner = json_dumps(kept, JSON_COMPACT);
        (void)json_array_append_new(out, json_pack("{s:O*, s:O*, s:s*}", "id", json_object_get(container, "id"), "names",
                                                   json_object_get(container, "names"), "metadata", inner));
        free(inner);
        json_decref(kept);
        json_decref(metadata);
    }
    json_decref(list);
    return out;
}

static bool podman_storage(struct uma_container_names *names, const char *storage, const char *id, struct uma_arena *arena,
                           struct uma_container *c) {
    /* the second: containers started with --rm, since containers/storage 1.43 */
    static const char *const lists[] = { "containers.json", "volatile-containers.json" };
    for (size_t i = 0; i < ELEMENTS(lists); i++) {
        char path[PATH_BYTES_MAX];
        if ((size_t)snprintf(path, sizeof(path), "%s/overlay-containers/%s", storage, lists[i]) >= sizeof(path) || !read_file(names, path))
            continue;
        bool found = uma_podman_list_parse(names->text.data, names->text.length, id, arena, &c->name, &c->image) == 0;
        if (uma_root_capture(names->root))
            record(names->root, path, podman_filtered(names->text.data, names->text.length));
        if (found)
            return true;
    }
    return false;
}

/* The user whose session the cgroup is in: ".../user-1000.slice/...". */
static bool session_user(const char *cgroup_path, uint32_t *ret_uid) {
    const char *at = strstr(cgroup_path, "/user-");
    uint64_t uid;
    const char *after = at ? uma_parse_u64(at + 6, cgroup_path + strlen(cgroup_path), &uid) : NULL;
    if (!after || strncmp(after, ".slice", 6) != 0 || uid > UINT32_MAX)
        return false;
    *ret_uid = (uint32_t)uid;
    return true;
}

static bool podman(struct uma_container_names *names, const char *cgroup_path, const char *id, struct uma_arena *arena,
                   struct uma_container *c) {
    uint32_t uid;
    if (session_user(cgroup_path, &uid) && uma_root_read(names->root, "etc/passwd", JSON_FILE_MAX, &names->text, NULL) >= 0) {
        const char *home;
        size_t home_length;
        char storage[PATH_BYTES_MAX];
        if (uma_passwd_home(names->text.data, names->text.length, uid, &home, &home_length) == 0 && home_length < PATH_BYTES_MAX / 2) {
            (void)snprintf(storage, sizeof(storage), "%.*s/.local/share/containers/storage", (int)home_length - 1, home + 1);
            if (podman_storage(names, storage, id, arena, c))
                return true;
        }
    }
    return podman_storage(names, "var/lib/containers/storage", id, arena, c);
}

static void look_up(struct uma_container_names *names, const char *cgroup_path, struct uma_arena *arena, struct uma_container *c) {
    const char *id = c->id;
    if (!uma_container_id_valid(id, strlen(id)))
        return;
    if (strcmp(c->runtime, "docker") == 0)
        (void)docker(names, id, arena, c);
    else if (strcmp(c->runtime, "podman") == 0)
        (void)podman(names, cgroup_path, id, arena, c);
    else if (strcmp(c->runtime, "containerd") == 0)
        (void)containerd(names, id, arena, c);
    else if (strcmp(c->runtime, "crio") == 0)
        (void)crio(names, id, arena, c);
    else if (strcmp(c->runtime, "kubernetes") == 0)
        (void)(containerd(names, id, arena, c) || docker(names, id, arena, c));
}

static char *copy_or_null(const char *s) {
    return s ? strdup(s) : NULL;
}

static void learn(struct uma_container_names *names, const struct uma_container *c) {
    if (names->n == names->capacity) {
        size_t capacity = names->capacity ? names->capacity * 2 : 16;
        struct known *known = capacity > UMA_CONTAINERS_MAX ? NULL : realloc(names->known, capacity * sizeof(*known));
        if (!known)
            return; /* it is read again next time */
        names->known = known;
        names->capacity = capacity;
    }
    struct known k = { .id = strdup(c->id), .name = copy_or_null(c->name), .image = copy_or_null(c->image), .seen = true };
    if (k.id)
        names->known[names->n++] = k;
    else
        forget(&k);
}

void uma_container_names_fill(struct uma_container_names *names, const char *cgroup_path, struct uma_arena *arena,
                              struct uma_container *container) {
    if (container->name) /* the path said it: LXC, nspawn */
        return;
    bool capturing = uma_root_capture(names->root); /* then every file must be read, to be recorded */
    for (size_t i = 0; i < names->n && !capturing; i++) {
        struct known *k = &names->known[i];
        if (strcmp(k->id, container->id) == 0) {
            k->seen = true;
            container->name = k->name ? uma_arena_utf8(arena, k->name, strlen(k->name)) : NULL;
            container->image = k->image ? uma_arena_utf8(arena, k->image, strlen(k->image)) : NULL;
            return;
        }
    }
    look_up(names, cgroup_path, arena, container);
    if (!capturing)
        learn(names, container);
}
