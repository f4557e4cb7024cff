/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "folder.h"

#include "base/text.h"
#include "guard/policy_file.h"

#include <unistd.h>

#define MIB (1024ull * 1024)
#define GIB (1024 * MIB)

static struct uma_guard_policy defaults(void) {
    struct uma_guard_policy policy;
    memset(&policy, 0, sizeof(policy));
    uma_guard_policy_default(&policy);
    return policy;
}

static int parse(const char *text, struct uma_guard_policy *policy, struct uma_error *err) {
    return uma_guard_policy_parse(text, strlen(text), "guard.conf", policy, err);
}

static bool same(const struct uma_guard_policy *a, const struct uma_guard_policy *b) {
    for (unsigned i = 0; i < UMA_GUARD_KEYS; i++)
        if (!uma_guard_policy_same(a, b, &uma_guard_keys[i]))
            return false;
    return true;
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

static void table(void **state) {
    (void)state;
    for (unsigned i = 0; i < UMA_GUARD_KEYS; i++) {
        const struct uma_guard_key *key = &uma_guard_keys[i];
        assert_int_equal(uma_guard_key_find(key->section, key->name), (int)i);
        assert_true(strlen(key->reason) > 20 && key->reason[strlen(key->reason) - 1] == '.');
        assert_true(key->least <= key->most &&
                    key->offset < (key->of_notify ? sizeof(struct uma_guard_notify) : sizeof(struct uma_guard_policy)));
        for (unsigned k = i + 1; k < UMA_GUARD_KEYS; k++) {
            assert_true(uma_guard_keys[k].of_notify != key->of_notify || uma_guard_keys[k].offset != key->offset);
            assert_true(strcmp(uma_guard_keys[k].name, key->name) != 0);
        }
    }
    assert_int_equal(uma_guard_key_find("Floor", "Brake"), -1);
    assert_int_equal(uma_guard_section_find("floor"), -1);
}

/* A default that the file could not say would be a trap: whoever takes the comment sign away gets an error. */
static void defaults_are_within_bounds(void **state) {
    (void)state;
    struct uma_guard_policy policy = defaults(), back = defaults();
    struct uma_error err = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    uma_guard_policy_print(&policy, false, &text);
    if (parse(text.data, &back, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(same(&policy, &back));
}

/* ---- values ------------------------------------------------------------------------------------------------- */

static void every_kind(void **state) {
    (void)state;
    struct uma_guard_policy policy = defaults();
    struct uma_error err = { 0 };
    static const char text[] = "# a comment\n"
                               "; another\n"
                               "\n"
                               "  [Floor]  \r\n"
                               "Floor = 4G\n"
                               "\tHardFloor=512MiB\n"
                               "Horizon=1500ms\n"
                               "[Brake]\n"
                               "Brake=off\n"
                               "BrakeRelease=1.375\n"
                               "BrakeTimes=7\n"
                               "[Room]\n"
                               "FreeFloor=0\n"
                               "[Floor]\n"
                               "Floor=5GB\n"
                               "[Victims]\n"
                               "Prefer=\n"
                               "Prefer=  vllm  unit:batch-*.service\n"
                               "Prefer=python? vllm";
    assert_int_equal(parse(text, &policy, &err), 0);
    assert_true(policy.floor == 5000000000ull); /* the later one */
    assert_true(policy.hard_floor == 512 * MIB);
    assert_true(policy.horizon == 1.5 && policy.brake_release == 1.375);
    assert_false(policy.brake);
    assert_int_equal(policy.brake_times, 7);
    assert_int_equal(policy.free_floor, 0);
    assert_int_equal(policy.prefer.n, 3);
    assert_string_equal(policy.prefer.list[0], "vllm");
    assert_string_equal(policy.prefer.list[1], "unit:batch-*.service");
    assert_string_equal(policy.prefer.list[2], "python?");
    assert_int_equal(parse("[Victims]\nPrefer=\n", &policy, &err), 0);
    assert_int_equal(policy.prefer.n, 0);
}

static void switches(void **state) {
    (void)state;
    static const char *const yes[] = { "yes", "true", "on", "1" }, *const no[] = { "no", "false", "off", "0" };
    char text[64];
    for (size_t i = 0; i < ELEMENTS(yes); i++) {
        struct uma_guard_policy policy = defaults();
        (void)snprintf(text, sizeof(text), "[Guard]\nDryRun=%s", yes[i]);
        assert_int_equal(parse(text, &policy, NULL), 0);
        assert_true(policy.dry_run);
        (void)snprintf(text, sizeof(text), "[Guard]\nDryRun=%s", no[i]);
        assert_int_equal(parse(text, &policy, NULL), 0);
        assert_false(policy.dry_run);
    }
}

/* A mistake, and all of what must be said of it. */
static const struct {
    const char *text, *line, *expected;
} mistakes[] = {
    { "[Floor]\nFlor=4G\n", "guard.conf:2: ", "unknown key \"Flor\" in [Floor], expected one of Floor, HardFloor, Horizon" },
    { "[Floor]\nfloor=4G\n", "guard.conf:2: ", "unknown key \"floor\"" },
    { "\n\n[Flor]\n", "guard.conf:3: ",
      "unknown section [Flor], expected one of [Floor], [Brake], [Warn], [Kill], [Room], [LastResort], [Victims], [Guard], [Notify]" },
    { "[Brake]\nFloor=4G\n", "guard.conf:2: ", "unknown key \"Floor\" in [Brake]" },
    { "Floor=4G\n", "guard.conf:1: ", "before any section" },
    { "[Floor\n", "guard.conf:1: ", "a section ends with \"]\"" },
    { "[\n", "guard.conf:1: ", "a section ends" },
    { "[]\n", "guard.conf:1: ", "unknown section []" },
    { "[Floor]\nFloor 4G\n", "guard.conf:2: ", "neither [Section] nor Key=value" },
    { "[Floor]\n=4G\n", "guard.conf:2: ", "unknown key \"\"" },
    { "[Floor]\nFloor=4Q\n", "guard.conf:2: ", "Floor: \"4Q\": unknown unit \"Q\"" },
    { "[Floor]\nFloor=\n", "guard.conf:2: ", "is not a size" },
    { "[Floor]\nFloor=4\n", "guard.conf:2: ", "out of range, expected 0 (by the machine's size) or 16 MiB to 16384 GiB" },
    { "[Floor]\nFloor=4G # of 128\n", "guard.conf:2: ", "unknown unit" },
    { "[Floor]\nFloor=99999T\n", "guard.conf:2: ", "out of range" },
    { "[Floor]\nFloor=-4G\n", "guard.conf:2: ", "is not a size" },
    { "[Floor]\nHorizon=nan\n", "guard.conf:2: ", "is not a duration" },
    { "[Floor]\nHorizon=0.01\n", "guard.conf:2: ", "out of range, expected 0.05 to 600 seconds" },
    { "[Floor]\nHorizon=5 years\n", "guard.conf:2: ", "unknown unit \"years\"" },
    { "[Brake]\nBrakeRelease=0.5\n", "guard.conf:2: ", "out of range, expected 1 to 100" },
    { "[Brake]\nBrakeRelease=1e300\n", "guard.conf:2: ", "is not a number" },
    { "[Brake]\nBrakeTimes=3.5\n", "guard.conf:2: ", "is not a whole number" },
    { "[Brake]\nBrakeTimes=4294967297\n", "guard.conf:2: ", "out of range, expected 1 to 1000" },
    { "[Brake]\nBrakeTimes=99999999999999999999999\n", "guard.conf:2: ", "is not a whole number" },
    { "[Brake]\nBrake=maybe\n", "guard.conf:2: ", "neither yes nor no" },
    { "[Brake]\nBrake=\n", "guard.conf:2: ", "neither yes nor no" },
    { "[Victims]\nPrefer=vllm # big\n", "guard.conf:2: ", "a comment has a line of its own" },
    { "[Victims]\nPrefer=\"my job\"\n", "guard.conf:2: ", "plain letters without quotes" },
    { "[Victims]\nPrefer=caf\xc3\xa9\n", "guard.conf:2: ", "plain letters" },
    { "[Victims]\nPrefer=unit:\n", "guard.conf:2: ", "without the name of a unit" },
    { "[Victims]\nPrefer=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n",
      "guard.conf:2: ", "longer than 63 letters" },
};

static void all_mistakes(void **state) {
    (void)state;
    for (size_t i = 0; i < ELEMENTS(mistakes); i++) {
        struct uma_guard_policy policy = defaults(), before = defaults();
        struct uma_error err = { 0 };
        char text[512];
        /* what stands before the mistake does not count either */
        (void)snprintf(text, sizeof(text), "%s", mistakes[i].text);
        if (parse(text, &policy, &err) != -EINVAL)
            fail_msg("taken: %s", text);
        if (strncmp(err.text, mistakes[i].line, strlen(mistakes[i].line)) != 0 || !strstr(err.text, mistakes[i].expected))
            fail_msg("%s said: %s", text, err.text);
        assert_true(same(&policy, &before));
    }
}

static void nothing_of_a_broken_file_counts(void **state) {
    (void)state;
    struct uma_guard_policy policy = defaults(), before = defaults();
    struct uma_error err = { 0 };
    assert_int_equal(parse("[Floor]\nFloor=7G\n[Guard]\nDryRun=perhaps\n", &policy, &err), -EINVAL);
    assert_true(same(&policy, &before));
    assert_int_equal(uma_guard_policy_parse("[Guard]\n\0", 9, "guard.conf", &policy, &err), -EINVAL);
    assert_non_null(strstr(err.text, "guard.conf:2: a zero byte"));
}

static void bounds_of_the_text(void **state) {
    (void)state;
    struct uma_guard_policy policy = defaults();
    struct uma_error err = { 0 };
    char *text = malloc(UMA_GUARD_POLICY_BYTES + 2);
    assert_non_null(text);
    memset(text, '#', UMA_GUARD_POLICY_LINE + 1);
    assert_int_equal(uma_guard_policy_parse(text, UMA_GUARD_POLICY_LINE, "a", &policy, &err), 0);
    assert_int_equal(uma_guard_policy_parse(text, UMA_GUARD_POLICY_LINE + 1, "a", &policy, &err), -EINVAL);
    assert_non_null(strstr(err.text, "a:1: a line of more than 512 bytes"));
    memset(text, '\n', UMA_GUARD_POLICY_BYTES + 1);
    assert_int_equal(uma_guard_policy_parse(text, UMA_GUARD_POLICY_BYTES, "a", &policy, &err), 0);
    assert_int_equal(uma_guard_policy_parse(text, UMA_GUARD_POLICY_BYTES + 1, "a", &policy, &err), -EFBIG);
    free(text);

    char many[UMA_GUARD_PATTERNS * 32] = "[Victims]\nPrefer=\n";
    for (int i = 0; i <= UMA_GUARD_PATTERNS; i++)
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "Prefer=job%d\n", i);
    assert_int_equal(parse(many, &policy, &err), -EINVAL);
    assert_non_null(strstr(err.text, "Prefer: more than 64 patterns"));
}

/* ---- printing ----------------------------------------------------------------------------------------------- */

static void printed_reads_back(void **state) {
    (void)state;
    struct uma_guard_policy policy = defaults(), back = defaults();
    struct uma_error err = { 0 };
    policy.floor = 3 * GIB + 1;
    policy.hard_floor = 1536 * MIB;
    policy.horizon = 0.333;
    policy.brake_release = 1.001;
    policy.dry_run = true;
    policy.protect.n = 0;
    policy.prefer.n = UMA_GUARD_PATTERNS;
    for (int i = 0; i < UMA_GUARD_PATTERNS; i++)
        (void)snprintf(policy.prefer.list[i], UMA_GUARD_PATTERN_MAX, "unit:a-rather-long-name-of-a-unit-that-is-number-%d.service", i);
    for (int reasons = 0; reasons < 2; reasons++) {
        _cleanup_text_ struct uma_text text = { 0 };
        uma_guard_policy_print(&policy, reasons, &text);
        assert_false(text.failed);
        back = defaults();
        if (parse(text.data, &back, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(same(&policy, &back));
        assert_non_null(strstr(text.data, "\nHardFloor=1536M\n"));
        assert_non_null(strstr(text.data, "\nFloor=3221225473\n"));
        assert_non_null(strstr(text.data, "\nBrakeRelease=1.001\n"));
        for (const char *line = text.data; *line; line = strchr(line, '\n') + 1)
            assert_true(strcspn(line, "\n") <= 140);
    }
}

/* Without a change the commented file says nothing, and every key stands in it. */
static void comments_alone(void **state) {
    (void)state;
    struct uma_guard_policy policy = defaults();
    _cleanup_text_ struct uma_text text = { 0 };
    uma_guard_policy_print(&policy, true, &text);
    for (const char *line = text.data; *line; line = strchr(line, '\n') + 1)
        assert_true(*line == '#' || *line == '[' || *line == '\n');
    for (unsigned i = 0; i < UMA_GUARD_KEYS; i++) {
        char wanted[64];
        (void)snprintf(wanted, sizeof(wanted), "\n#%s=", uma_guard_keys[i].name);
        assert_non_null(strstr(text.data, wanted));
    }
}

/* What a person reads in the source tree is what the program would print. */
static void shared_file_is_what_is_printed(void **state) {
    (void)state;
    struct uma_guard_policy policy = defaults();
    _cleanup_text_ struct uma_text text = { 0 };
    struct folder share = { 0 };
    const char *path = getenv("UMA_SHARE");
    if (!path)
        SKIP_BECAUSE("UMA_SHARE is not set");
    (void)snprintf(share.path, sizeof(share.path), "%s", path);
    _cleanup_free_
    char *file = folder_get(&share, "guard.conf", NULL);
    uma_guard_policy_print(&policy, true, &text);
    assert_non_null(file);
    assert_string_equal(file, text.data);
}

/* ---- files -------------------------------------------------------------------------------------------------- */

static struct folder machine;

static int begin(void **state) {
    (void)state;
    return folder_new(&machine);
}

static int end(void **state) {
    (void)state;
    folder_done(&machine);
    return 0;
}

/* mode 0644 and no less, whatever the umask is */
static void put(const char *path, const char *text) {
    char whole[512];
    folder_put(&machine, path, text);
    (void)snprintf(whole, sizeof(whole), "%s/%s", machine.path, path);
    assert_int_equal(chmod(whole, 0644), 0);
}

static void nothing_there(void **state) {
    (void)state;
    struct uma_guard_policy policy = { .horizon = 77 }, expected = defaults();
    static struct uma_guard_policy_sources sources;
    struct uma_error err = { 0 };
    assert_int_equal(uma_guard_policy_load_sources(machine.path, NULL, &policy, &sources, &err), 0);
    assert_true(same(&policy, &expected));
    assert_int_equal(sources.n_files, 0);
    assert_int_equal(sources.list[0].line, 0);

    policy.horizon = 77;
    assert_int_equal(uma_guard_policy_load(machine.path, "/nonexistent/guard.conf", &policy, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/guard.conf: No such file"));
    assert_true(policy.horizon == 77);
}

static void order_of_files(void **state) {
    (void)state;
    struct uma_guard_policy policy;
    static struct uma_guard_policy_sources sources;
    struct uma_error err = { 0 };
    put("usr/lib/umactl/guard.conf", "[Floor]\nFloor=1G\n");
    put("etc/umactl/guard.conf", "[Floor]\nFloor=2G\nHorizon=2\n[Brake]\nBrakeTimes=9\n[Victims]\nPrefer=one\n");
    put("usr/lib/umactl/guard.conf.d/20-vendor.conf", "[Floor]\nHorizon=3\n\n[Victims]\nPrefer=two\n");
    put("usr/lib/umactl/guard.conf.d/30-hidden.conf", "[Floor]\nHorizon=4\n");
    put("etc/umactl/guard.conf.d/30-hidden.conf", "[Brake]\nBrakeTimes=4\n");
    put("etc/umactl/guard.conf.d/10-first.conf", "[Floor]\nHorizon=5\n");
    put("etc/umactl/guard.conf.d/.40-editor.conf", "rubbish\n");
    put("etc/umactl/guard.conf.d/50-old.conf.bak", "rubbish\n");
    put("etc/umactl/guard.conf.d/.conf", "rubbish\n");
    if (uma_guard_policy_load_sources(machine.path, NULL, &policy, &sources, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(policy.floor == 2 * GIB); /* /usr/lib's is not read where there is one in /etc */
    assert_true(policy.horizon == 3);
    assert_int_equal(policy.brake_times, 4);
    assert_int_equal(policy.prefer.n, 2);
    assert_int_equal(sources.n_files, 4);
    assert_true(uma_ends_with(sources.files[0], "/etc/umactl/guard.conf"));
    assert_true(uma_ends_with(sources.files[1], "/etc/umactl/guard.conf.d/10-first.conf"));
    assert_true(uma_ends_with(sources.files[2], "/usr/lib/umactl/guard.conf.d/20-vendor.conf"));
    assert_true(uma_ends_with(sources.files[3], "/etc/umactl/guard.conf.d/30-hidden.conf"));
    int horizon = uma_guard_key_find("Floor", "Horizon"), prefer = uma_guard_key_find("Victims", "Prefer");
    assert_true(uma_ends_with(sources.list[horizon].path, "20-vendor.conf") && sources.list[horizon].line == 2);
    assert_true(uma_ends_with(sources.list[prefer].path, "20-vendor.conf") && sources.list[prefer].line == 5);

    folder_drop(&machine, "etc/umactl/guard.conf");
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), 0);
    assert_true(policy.floor == 1 * GIB);

    /* hidden by a link to nothing */
    char link[512];
    (void)snprintf(link, sizeof(link), "%s/etc/umactl/guard.conf.d/20-vendor.conf", machine.path);
    assert_int_equal(symlink("/dev/null", link), 0);
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), 0);
    assert_true(policy.horizon == 5);
    assert_int_equal(unlink(link), 0);
    folder_drop(&machine, "etc");
    folder_drop(&machine, "usr");
}

static void broken_drop_in(void **state) {
    (void)state;
    struct uma_guard_policy policy = { .horizon = 77 };
    struct uma_error err = { 0 };
    put("etc/umactl/guard.conf", "[Floor]\nHorizon=2\n");
    put("etc/umactl/guard.conf.d/10-broken.conf", "[Floor]\n\nHorizon=soon\n");
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -EINVAL);
    assert_non_null(strstr(err.text, "/etc/umactl/guard.conf.d/10-broken.conf:3: Horizon: "));
    assert_true(policy.horizon == 77);
    put("etc/umactl/guard.conf.d/10-broken.conf", "[Floor]\nFloor=1G\nHardFloor=2G\n");
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -EINVAL);
    assert_non_null(strstr(err.text, "HardFloor (2147483648 bytes) is above Floor"));
    folder_drop(&machine, "etc");
}

/* Lines across the ends of the reader's buffer, and the same text by both ways. */
static void long_file(void **state) {
    (void)state;
    struct uma_guard_policy policy, parsed = defaults();
    struct uma_error err = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "[Floor]\n");
    for (int i = 0; text.length < 60000; i++) {
        for (int k = 0; k < i % 511; k++)
            uma_text_char(&text, '#');
        uma_text_printf(&text, "\nHorizon=%d.%03d\n", i % 50 + 1, i % 1000);
    }
    put("etc/umactl/guard.conf", text.data);
    if (uma_guard_policy_load(machine.path, NULL, &policy, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(parse(text.data, &parsed, &err), 0);
    assert_true(same(&policy, &parsed));

    for (int i = 0; i < UMA_GUARD_POLICY_LINE + 1; i++)
        uma_text_char(&text, '#');
    put("etc/umactl/guard.conf", text.data);
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -EINVAL);
    assert_non_null(strstr(err.text, "a line of more than 512 bytes"));
    while (text.length <= UMA_GUARD_POLICY_BYTES)
        uma_text_append(&text, "\n#");
    put("etc/umactl/guard.conf", text.data + 8);
    assert_true(uma_guard_policy_load(machine.path, NULL, &policy, &err) < 0);
    folder_drop(&machine, "etc");
}

/* What only the helper keeps is checked for everybody. */
static void notify(void **state) {
    (void)state;
    struct uma_guard_policy policy, expected = defaults();
    struct uma_guard_notify notify = { .desktop = true };
    struct uma_error err = { 0 };
    put("etc/umactl/guard.conf", "[Notify]\nCommand=/usr/local/bin/tell-me\nWebhook=https://example.org/hook?key=secret\nDesktop=yes\n");
    assert_int_equal(uma_guard_notify_load(machine.path, NULL, &notify, &err), 0);
    assert_string_equal(notify.command, "/usr/local/bin/tell-me");
    assert_string_equal(notify.webhook, "https://example.org/hook?key=secret");
    assert_true(notify.desktop);
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), 0);
    assert_true(same(&policy, &expected));
    put("etc/umactl/guard.conf.d/2.conf", "[Notify]\nCommand=\nWebhook=\nDesktop=no\n");
    assert_int_equal(uma_guard_notify_load(machine.path, NULL, &notify, &err), 0);
    assert_true(!notify.command[0] && !notify.webhook[0] && !notify.desktop);
    put("etc/umactl/guard.conf.d/2.conf", "[Notify]\nCommand=tell-me --loud\n");
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -EINVAL);
    assert_non_null(strstr(err.text, "2.conf:2: Command: \"tell-me --loud\" is not the absolute path"));
    put("etc/umactl/guard.conf.d/2.conf", "[Notify]\nWebhook=ftp://example.org/secret\n");
    assert_int_equal(uma_guard_notify_load(machine.path, NULL, &notify, &err), -EINVAL);
    assert_non_null(strstr(err.text, "2.conf:2: Webhook: not an address"));
    assert_null(strstr(err.text, "secret"));
    folder_drop(&machine, "etc");
}

static void too_many_files(void **state) {
    (void)state;
    struct uma_guard_policy policy;
    struct uma_error err = { 0 };
    char name[64];
    for (int i = 0; i < UMA_GUARD_POLICY_FILES; i++) {
        (void)snprintf(name, sizeof(name), "etc/umactl/guard.conf.d/%02d.conf", i);
        put(name, "[Floor]\n");
        assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), i < UMA_GUARD_POLICY_FILES - 1 ? 0 : -E2BIG);
    }
    folder_drop(&machine, "etc");
}

static void odd_files(void **state) {
    (void)state;
    struct uma_guard_policy policy;
    struct uma_error err = { 0 };
    char path[512];
    put("etc/umactl/guard.conf/file", "");
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -EINVAL);
    assert_non_null(strstr(err.text, "guard.conf: not a file"));
    folder_drop(&machine, "etc/umactl/guard.conf");
    (void)snprintf(path, sizeof(path), "%s/etc/umactl/guard.conf", machine.path);
    assert_int_equal(mkfifo(path, 0644), 0); /* and nobody writes into it */
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -EINVAL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("not-mounted/guard.conf", path), 0); /* whom it protects is not known */
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -ENOENT);
    assert_non_null(strstr(err.text, "guard.conf: a link to a file that is not there"));
    assert_int_equal(unlink(path), 0);
    put("etc/umactl/guard.conf.d/a.conf", "");
    (void)snprintf(path, sizeof(path), "%s/etc/umactl/guard.conf.d/b.conf", machine.path);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -ENOENT);
    folder_drop(&machine, "etc");
}

static void files_of_others(void **state) {
    (void)state;
    struct uma_guard_policy policy;
    struct uma_error err = { 0 };
    char path[512];
    if (geteuid() != 0)
        SKIP_BECAUSE("only root's policy must be root's");
    put("etc/umactl/guard.conf", "[Floor]\n");
    (void)snprintf(path, sizeof(path), "%s/etc/umactl/guard.conf", machine.path);
    assert_int_equal(chmod(path, 0664), 0);
    assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -EPERM);
    assert_non_null(strstr(err.text, "guard.conf: others than root may write it (mode 0664)"));
    assert_int_equal(uma_guard_policy_load(machine.path, path, &policy, &err), -EPERM);
    assert_int_equal(chmod(path, 0644), 0);
    if (chown(path, 65534, 65534) == 0) {
        assert_int_equal(uma_guard_policy_load(machine.path, NULL, &policy, &err), -EPERM);
        assert_non_null(strstr(err.text, "belongs to user 65534, expected root"));
    }
    folder_drop(&machine, "etc");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(defaults_are_within_bounds),
        cmocka_unit_test(every_kind),
        cmocka_unit_test(switches),
        cmocka_unit_test(all_mistakes),
        cmocka_unit_test(nothing_of_a_broken_file_counts),
        cmocka_unit_test(bounds_of_the_text),
        cmocka_unit_test(printed_reads_back),
        cmocka_unit_test(comments_alone),
        cmocka_unit_test(shared_file_is_what_is_printed),
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(order_of_files),
        cmocka_unit_test(broken_drop_in),
        cmocka_unit_test(long_file),
        cmocka_unit_test(notify),
        cmocka_unit_test(too_many_files),
        cmocka_unit_test(odd_files),
        cmocka_unit_test(files_of_others),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
