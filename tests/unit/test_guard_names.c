/* SPDX-License-Identifier: MIT */
#include "guard/names.h"

#include <string.h>

#include "test.h"

static bool matches(const char *pattern, const char *text) {
    return uma_guard_pattern_matches(pattern, text, strlen(text));
}

static void patterns_match(void **state) {
    (void)state;
    static const char *const yes[][2] = {
        { "", "" },
        { "*", "" },
        { "*", "anything" },
        { "**", "" },
        { "a", "a" },
        { "?", "x" },
        { "a*", "a" },
        { "a*c", "abc" },
        { "a*c", "ac" },
        { "*b*", "abc" },
        { "a*b*c", "a_b_b_c" },
        { "*aab", "aaaab" },
        { "a?c", "abc" },
        { "*?", "x" },
        { "foo) Z (", "foo) Z (" },
        { "a\nb", "a\nb" },
        { "[a]", "[a]" },
        { "*.service", "ssh.service" },
    };
    static const char *const no[][2] = {
        { "", "a" },     { "a", "" },     { "?", "" },    { "a", "A" },   { "a*", "ba" },     { "a*c", "abd" },
        { "*b", "abc" }, { "a?c", "ac" }, { "*??", "x" }, { "[a]", "a" }, { "a*b*c", "acb" },
    };
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (!matches(yes[i][0], yes[i][1]))
            fail_msg("%s should match %s", yes[i][0], yes[i][1]);
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        if (matches(no[i][0], no[i][1]))
            fail_msg("%s should not match %s", no[i][0], no[i][1]);
}

/* What takes some matchers longer than the machine will live. */
static void many_stars_end(void **state) {
    (void)state;
    char pattern[UMA_GUARD_PATTERN_MAX] = { 0 };
    static char text[4096];
    for (size_t i = 0; i + 2 < sizeof(pattern); i += 2)
        (void)memcpy(pattern + i, "*a", 2);
    pattern[sizeof(pattern) - 2] = 'b';
    (void)memset(text, 'a', sizeof(text));
    assert_false(uma_guard_pattern_matches(pattern, text, sizeof(text)));
    text[sizeof(text) - 1] = 'b';
    assert_true(uma_guard_pattern_matches(pattern, text, sizeof(text)));
}

static void names(void **state) {
    (void)state;
    struct uma_guard_patterns p = { .n = 4, .list = { "python*", "uma-guard-helper", "unit:bash", "sixteen-bytes-xx" } };
    assert_true(uma_guard_names_have(&p, "python3"));
    assert_true(uma_guard_names_have(&p, "uma-guard-helpe"));
    assert_true(uma_guard_names_have(&p, "sixteen-bytes-x"));
    assert_false(uma_guard_names_have(&p, "uma-guard-help"));
    assert_false(uma_guard_names_have(&p, "bash"));
    assert_false(uma_guard_names_have(&p, "unit:bas"));
    char unended[UMA_GUARD_NAME_MAX];
    (void)memset(unended, 'x', sizeof(unended));
    assert_false(uma_guard_names_have(&p, unended));
    p.n = UINT32_MAX; /* damaged: bounded */
    assert_false(uma_guard_names_have(&p, "zsh"));
}

static bool in(const struct uma_guard_patterns *p, const char *path) {
    return uma_guard_units_have(p, path, strlen(path));
}

static void units(void **state) {
    (void)state;
    struct uma_guard_patterns p = { .n = 4, .list = { "unit:ssh.service", "unit:user-?.slice", "init.scope", "unit:" } };
    assert_true(in(&p, "/system.slice/ssh.service"));
    assert_true(in(&p, "/system.slice/ssh.service/"));
    assert_true(in(&p, "/user.slice/user-0.slice/session-3.scope"));
    assert_false(in(&p, "/user.slice/user-10.slice/session-3.scope"));
    assert_false(in(&p, "/system.slice/ssh.services"));
    assert_false(in(&p, "/init.scope")); /* without unit: it is a program */
    assert_false(in(&p, "/"));
    assert_false(in(&p, "//"));
    assert_false(in(&p, ""));
}

static void shells(void **state) {
    (void)state;
    assert_true(uma_guard_is_shell("bash"));
    assert_true(uma_guard_is_shell("zsh"));
    assert_false(uma_guard_is_shell("bash2"));
    assert_false(uma_guard_is_shell("python3"));
    assert_false(uma_guard_is_shell(""));
}

static void defaults(void **state) {
    (void)state;
    static struct uma_guard_policy policy;
    (void)memset(&policy, 0xee, sizeof(policy));
    uma_guard_names_default(&policy);
    static const char *const protected[] = {
        "systemd",   "systemd-journal", "systemd-logind",  "(sd-pam)",        "dbus-daemon", "sshd",           "sshd-session",
        "login",     "agetty",          "tmux: server",    "containerd-shim", "dockerd",     "NetworkManager", "umactl",
        "uma-guard", "uma-guard-helpe", "nvidia-persiste", "gnome-session-b", "slurmstepd",  "jupyter-lab"
    };
    static const char *const jobs[] = { "python3", "llama-server", "vllm",     "VLLM::EngineCor", "ollama",    "bash",   "java",
                                        "node",    "ray::train",   "torchrun", "trtllm-serve",    "stress-ng", "uma-hog" };
    for (size_t i = 0; i < sizeof(protected) / sizeof(protected[0]); i++)
        if (!uma_guard_names_have(&policy.protect, protected[i]))
            fail_msg("%s is not protected", protected[i]);
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
        if (uma_guard_names_have(&policy.protect, jobs[i]) || uma_guard_names_have(&policy.avoid, jobs[i]) ||
            uma_guard_names_have(&policy.no_brake, jobs[i]))
            fail_msg("%s is spared", jobs[i]);
    assert_true(uma_guard_names_have(&policy.avoid, "postgres"));
    assert_true(uma_guard_names_have(&policy.no_brake, "etcd"));
    assert_int_equal(policy.prefer.n, 0);
    for (uint32_t i = 0; i < policy.protect.n; i++)
        assert_true(strlen(policy.protect.list[i]) < UMA_GUARD_PATTERN_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match), cmocka_unit_test(many_stars_end), cmocka_unit_test(names),
        cmocka_unit_test(units),          cmocka_unit_test(shells),         cmocka_unit_test(defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
