/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include <errno.h>

#include "base/root.h"
#include "base/units.h"
#include "observe/container.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct machine {
    struct folder folder, capture;
    struct uma_arena *arena;
};

static int setup(void **state) {
    struct machine *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    assert_int_equal(folder_new(&m->folder), 0);
    assert_int_equal(folder_new(&m->capture), 0);
    m->arena = uma_arena_new(UMA_MIB);
    *state = m;
    return m->arena ? 0 : -1;
}

static int teardown(void **state) {
    struct machine *m = *state;
    folder_done(&m->folder);
    folder_done(&m->capture);
    (void)uma_arena_free(m->arena);
    free(m);
    return 0;
}

static struct uma_container look(struct machine *m, const char *folder, const char *capture, const char *runtime, const char *path) {
    struct uma_root *root = NULL;
    assert_int_equal(uma_root_open(folder, capture, &root, NULL), 0);
    struct uma_container_names *names = uma_container_names_new(root);
    assert_non_null(names);
    struct uma_container c = { .runtime = runtime, .id = ID };
    uma_container_names_begin(names);
    uma_container_names_fill(names, path, m->arena, &c);
    uma_container_names_end(names);
    /* the second time from memory: the same */
    struct uma_container again = { .runtime = runtime, .id = ID };
    uma_container_names_begin(names);
    uma_container_names_fill(names, path, m->arena, &again);
    uma_container_names_end(names);
    assert_true((c.name == NULL) == (again.name == NULL) && (!c.name || strcmp(c.name, again.name) == 0));
    assert_true((c.image == NULL) == (again.image == NULL) && (!c.image || strcmp(c.image, again.image) == 0));
    (void)uma_container_names_free(names);
    (void)uma_root_close(root);
    return c;
}

/* Read it, read it while capturing, read the capture; no capture holds the secret that every one of these files has. */
static void check(struct machine *m, const char *file, const char *runtime, const char *path, const char *name, const char *image) {
    struct uma_container c = look(m, m->folder.path, m->capture.path, runtime, path);
    assert_string_equal(c.name, name);
    assert_string_equal(c.image, image);
    size_t n = 0;
    char *recorded = folder_get(&m->capture, file, &n);
    assert_non_null(recorded);
    assert_null(strstr(recorded, "SECRET"));
    free(recorded);
    c = look(m, m->capture.path, NULL, runtime, path);
    assert_string_equal(c.name, name);
    assert_string_equal(c.image, image);
}

static void docker(void **state) {
    struct machine *m = *state;
    static const char file[] = "var/lib/docker/containers/" ID "/config.v2.json";
    folder_put(&m->folder, file,
               "{\"ID\":\"x\",\"Name\":\"/vllm-1\",\"Config\":{\"Env\":[\"HF_TOKEN=SECRET\"],\"Image\":\"vllm/vllm-openai:v0.11\"}}");
    check(m, file, "docker", "/docker/" ID, "vllm-1", "vllm/vllm-openai:v0.11");
}

static void kubernetes(void **state) {
    struct machine *m = *state;
    static const char file[] = "run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID "/config.json";
    folder_put(&m->folder, file,
               "{\"process\":{\"env\":[\"T=SECRET\"]},\"annotations\":{\"io.kubernetes.cri.container-name\":\"engine\","
               "\"io.kubernetes.cri.image-name\":\"img:1\"}}");
    check(m, file, "containerd", "/x", "engine", "img:1");
    struct uma_container c = look(m, m->folder.path, NULL, "kubernetes", "/x");
    assert_string_equal(c.name, "engine");
}

static void crio(void **state) {
    struct machine *m = *state;
    static const char file[] = "run/containers/storage/overlay-containers/" ID "/userdata/config.json";
    folder_put(&m->folder, file,
               "{\"process\":{\"env\":[\"T=SECRET\"]},\"annotations\":{\"io.kubernetes.container.name\":\"engine\","
               "\"io.kubernetes.cri-o.ImageName\":\"img:2\"}}");
    check(m, file, "crio", "/x", "engine", "img:2");
}

static void podman_rootless(void **state) {
    struct machine *m = *state;
    static const char file[] = "home/jo/.local/share/containers/storage/overlay-containers/containers.json";
    folder_put(&m->folder, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\nbroken\njo:x:1000:1000:Jo,,,:/home/jo:/bin/bash\n");
    folder_put(&m->folder, file,
               "[{\"id\":\"other\",\"names\":[\"no\"]},{\"id\":\"" ID
               "\",\"names\":[\"comfy\"],\"metadata\":\"{\\\"image-name\\\":\\\"localhost/comfy:1\\\",\\\"x\\\":\\\"SECRET\\\"}\"}]");
    check(m, file, "podman", "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", "comfy", "localhost/comfy:1");
}

/* Nothing there, nonsense, the wrong types, links that lead out: no name, no harm. */
static void nothing(void **state) {
    struct machine *m = *state;
    static const char *const runtimes[] = { "docker", "podman", "containerd", "crio", "kubernetes", "lxc" };
    for (size_t i = 0; i < ELEMENTS(runtimes); i++)
        assert_null(look(m, m->folder.path, NULL, runtimes[i], "/x").name);
    static const char *const texts[] = {
        "", "[", "[1,2]", "{}", "{\"Name\":5,\"Config\":[]}", "null", "{\"Name\":\"\"}", "{\"annotations\":\"x\"}"
    };
    for (size_t i = 0; i < ELEMENTS(texts); i++) {
        folder_put(&m->folder, "var/lib/docker/containers/" ID "/config.v2.json", texts[i]);
        folder_put(&m->folder, "run/containerd/io.containerd.runtime.v2.task/moby/" ID "/config.json", texts[i]);
        folder_put(&m->folder, "var/lib/containers/storage/overlay-containers/containers.json", texts[i]);
        for (size_t j = 0; j < ELEMENTS(runtimes); j++)
            assert_null(look(m, m->folder.path, NULL, runtimes[j], "/user.slice/user-1000.slice/x").name);
    }
}

static void homes(void **state) {
    (void)state;
    static const char text[] = "a:x:1:1::/home/a:/bin/sh\nb:x:22:1::relative:/bin/sh\nc:x:3\nd:x:4:4::/home/d";
    const char *home = NULL;
    size_t n = 0;
    assert_int_equal(uma_passwd_home(text, sizeof(text) - 1, 4, &home, &n), 0);
    assert_int_equal(n, 7);
    assert_memory_equal(home, "/home/d", 7);
    char *exact = malloc(13); /* ends where the home would begin; exactly sized, so that the sanitizer sees a read beyond */
    assert_non_null(exact);
    (void)memcpy(exact, "jo:x:5:5:Jo,:", 13);
    assert_int_equal(uma_passwd_home(exact, 13, 5, &home, &n), -ENOENT);
    free(exact);
    assert_int_equal(uma_passwd_home(text, sizeof(text) - 1, 22, &home, &n), -ENOENT);
    assert_int_equal(uma_passwd_home(text, sizeof(text) - 1, 2, &home, &n), -ENOENT);
    assert_int_equal(uma_passwd_home(text, sizeof(text) - 1, 3, &home, &n), -ENOENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(docker, setup, teardown),  cmocka_unit_test_setup_teardown(kubernetes, setup, teardown),
        cmocka_unit_test_setup_teardown(crio, setup, teardown),    cmocka_unit_test_setup_teardown(podman_rootless, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing, setup, teardown), cmocka_unit_test(homes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
