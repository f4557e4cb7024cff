/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/units.h"
#include "observe/container.h"
#include "observe/process.h"

#include <errno.h>
#include <string.h>

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID2 "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define POD "6f1c2a3b-0d4e-4f5a-8b6c-7d8e9f0a1b2c"
#define POD_ "6f1c2a3b_0d4e_4f5a_8b6c_7d8e9f0a1b2c"

static int setup(void **state) {
    *state = uma_arena_new(UMA_MIB);
    return *state ? 0 : -1;
}
static int teardown(void **state) {
    (void)uma_arena_free(*state);
    return 0;
}

static void same(const char *a, const char *b) {
    if (!a || !b)
        assert_ptr_equal(a, b);
    else
        assert_string_equal(a, b);
}

static void identities(void **state) {
    static const struct {
        const char *path, *runtime, *id, *pod, *name;
    } cases[] = {
        { "/system.slice/docker-" ID ".scope", "docker", ID, NULL, NULL },
        { "/docker/" ID, "docker", ID, NULL, NULL },
        { "/docker/0123456789ab", "docker", "0123456789ab", NULL, NULL },
        { "/docker/" ID "/system.slice/nginx.service", "docker", ID, NULL, NULL },
        { "/docker/" ID "/docker/" ID2, "docker", ID2, NULL, NULL }, /* the innermost */
        { "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container", "podman", ID, NULL, NULL },
        { "/machine.slice/libpod-" ID ".scope", "podman", ID, NULL, NULL },
        { "/libpod_parent/libpod-" ID, "podman", ID, NULL, NULL },
        { "/machine.slice/libpod-conmon-" ID ".scope", NULL, NULL, NULL, NULL }, /* watches one, is not in it */
        { "/default/" ID, "containerd", ID, NULL, NULL },
        { "/system.slice/nerdctl-" ID ".scope", "containerd", ID, NULL, NULL },
        { "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_ ".slice/cri-containerd-" ID ".scope", "containerd", ID,
          POD, NULL },
        { "/kubepods.slice/kubepods-pod" POD_ ".slice/crio-" ID ".scope", "crio", ID, POD, NULL },
        { "/kubepods/besteffort/pod" POD "/" ID, "kubernetes", ID, POD, NULL },
        { "/kubepods-besteffort-pod" POD_ ".slice:cri-containerd:" ID, "containerd", ID, POD, NULL },
        { "/kubepods/podaabbccddaabbccddaabbccddaabbccdd/" ID, "kubernetes", ID, "aabbccddaabbccddaabbccddaabbccdd",
          NULL }, /* static pod */
        { "/docker/" ID "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" POD_
          ".slice/cri-containerd-" ID2 ".scope",
          "containerd", ID2, POD, NULL },
        { "/lxc.payload.web", "lxc", "web", NULL, "web" },
        { "/lxc.payload/web/system.slice/x.service", "lxc", "web", NULL, "web" },
        { "/lxc/100/ns/init.scope", "lxc", "100", NULL, "100" },
        { "/lxc.monitor.web", NULL, NULL, NULL, NULL },
        { "/machine.slice/systemd-nspawn@box.service/payload", "systemd-nspawn", "box", NULL, "box" },
        { "/machine.slice/machine-my\\x2dbox.scope", "systemd-nspawn", "my-box", NULL, "my-box" },
        { "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", NULL, NULL, NULL, NULL }, /* a virtual machine */
        { "/system.slice/docker.service", NULL, NULL, NULL, NULL },
        { "/system.slice/docker-xyz.scope", NULL, NULL, NULL, NULL },
        { "/docker/" ID "0", NULL, NULL, NULL, NULL }, /* 65 digits */
        { "/docker/..", NULL, NULL, NULL, NULL },
        { "/" ID, NULL, NULL, NULL, NULL },
        { "/", NULL, NULL, NULL, NULL },
        { "", NULL, NULL, NULL, NULL },
        { "////docker////", NULL, NULL, NULL, NULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_container c = { 0 };
        int r = uma_container_identify(cases[i].path, *state, &c);
        assert_int_equal(r, cases[i].runtime ? 0 : -ENOENT);
        same(c.runtime, cases[i].runtime);
        same(c.id, cases[i].id);
        same(c.pod, cases[i].pod);
        same(c.name, cases[i].name);
    }
}

static void units(void **state) {
    static const struct {
        const char *path, *unit;
    } cases[] = {
        { "/system.slice/vllm.service", "vllm.service" },
        { "/system.slice/docker-" ID ".scope", "docker-" ID ".scope" },
        { "/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope/sub", "run-r1.scope" },
        { "/user.slice/user-1000.slice/session-3.scope", "session-3.scope" },
        { "/system.slice/ollama.service/child", "ollama.service" },
        { "/system.slice/a\xff.service", "a\\xff.service" },
        { "/user.slice", NULL },
        { "/.service", NULL },
        { "/", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++)
        same(uma_cgroup_unit(cases[i].path, *state), cases[i].unit);
}

static void ids(void **state) {
    (void)state;
    assert_true(uma_container_id_valid(ID, 64));
    assert_false(uma_container_id_valid(ID "0", 65));
    assert_false(uma_container_id_valid("0123456789a", 11));
    assert_false(uma_container_id_valid("../../../etc/x", 14));
    assert_false(uma_container_id_valid("0123456789ab/cdef", 17));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(identities), cmocka_unit_test(units), cmocka_unit_test(ids) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
