/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/error.h"
#include "observe/redact.h"
#include "observe/redact_token.h"
#include "random_snapshot.h"

/* ---- the lists and the words ---------------------------------------------------------------------------------- */

static void test_lists_are_sorted(void **state) {
    (void)state;
    for (int which = UMA_WORDS; which < UMA_WORDS_MAX; which++) {
        size_t n;
        const char *const *list = uma_redact_table((enum uma_words)which, &n);
        for (size_t i = 0; i < n; i++) {
            if (i > 0 && strcmp(list[i - 1], list[i]) >= 0)
                fail_msg("list %d: \"%s\" stands before \"%s\"", which, list[i - 1], list[i]);
            assert_true(uma_redact_known((enum uma_words)which, list[i], strlen(list[i])));
        }
        assert_false(uma_redact_known((enum uma_words)which, "", 0));
        assert_false(uma_redact_known((enum uma_words)which, "zzzz", 4));
    }
}

static void test_tokens(void **state) {
    (void)state;
    static const char *const numbers[] = { "0", "-1", "0.92", "2e-5", "1E+3", "12GiB", "80%", ".5", "5.", "130594131968", "16K" };
    static const char *const no_numbers[] = { "", "-", ".", "1.2.3", "12parsecs", "1234567890123456", "0x10", "e5", "1e", "1e99999" };
    for (size_t i = 0; i < ELEMENTS(numbers); i++)
        if (!uma_token_number(numbers[i], strlen(numbers[i])))
            fail_msg("%s is a number", numbers[i]);
    for (size_t i = 0; i < ELEMENTS(no_numbers); i++)
        if (uma_token_number(no_numbers[i], strlen(no_numbers[i])))
            fail_msg("%s is no number", no_numbers[i]);
    static const struct {
        const char *s;
        size_t n;
    } addresses[] = {
        { "10.0.0.17", 9 },
        { "10.0.0.17:8000", 9 },
        { "10.1.2.0/24", 8 },
        { "1.2.3", 0 },
        { "1.2.3.4-rc1", 0 },
        { "2001:db8::1", 11 },
        { "[2001:db8::1]:80", 13 },
        { "fe80::1%eth0", 12 },
        { "48:b0:2d:ff:00:01", 17 },
        { "12:30:05", 0 },
        { "10:20", 0 },
        { "add", 0 },
        { "::", 0 },
        { "fe80:0:0:1", 10 },
    };
    for (size_t i = 0; i < ELEMENTS(addresses); i++)
        if (uma_token_address(addresses[i].s, strlen(addresses[i].s)) != addresses[i].n)
            fail_msg("%s: %zu", addresses[i].s, uma_token_address(addresses[i].s, strlen(addresses[i].s)));
    assert_true(uma_token_id("GPU-5fd2c1a4-0b6f-11ee-be56-0242ac120002", 40));
    assert_true(uma_token_id("3f2a9c0d1e4b", 12));
    assert_false(uma_token_id("130594131968", 12));
    assert_false(uma_token_id("decade", 6));
    assert_false(uma_token_id("max-num-seqs", 12));
    assert_true(uma_token_public("python3.12", 10));
    assert_true(uma_token_public("hwmon12", 7));
    assert_false(uma_token_public("python3secret", 13));
    assert_int_equal(uma_token_extension("a.gguf", 6), 5);
    assert_int_equal(uma_token_extension(".json", 5), 0);
    assert_int_equal(uma_token_extension("a.anna", 6), 0);
}

/* ---- command lines -------------------------------------------------------------------------------------------- */

static void test_arguments(void **state) {
    (void)state;
    static const struct {
        const char *before[8], *after[8];
    } cases[] = {
        { { "/home/ana/venv/bin/python3.12", "-m", "vllm.entrypoints.openai.api_server", "--model", "/data/acme/secret-70b", "--port",
            "8000" },
          { "path-1/python3.12", "-m", "vllm.entrypoints.openai.api_server", "--model", "model-1", "--port", "8000" } },
        { { "vllm", "serve", "acme/secret-70b", "--gpu-memory-utilization=0.85", "--host", "10.0.0.17" },
          { "vllm", "serve", "model-1", "--gpu-memory-utilization=0.85", "--host", "address-1" } },
        { { "llama-server", "-m", "/models/a.gguf", "-ngl", "99", "-c", "131072", "--no-mmap" },
          { "llama-server", "-m", "path-1.gguf", "-ngl", "99", "-c", "131072", "--no-mmap" } },
        { { "curl", "http://ana:pw@intra.example/x", "--api-key", "12345", "--api-key=12345", "--ana-flag", "ana@example.org" },
          { "curl", "url-1", "--api-key", "text-1", "--api-key=text-1", "--option-1", "email-1" } },
        { { "CUDA_VISIBLE_DEVICES=0,1", "MASTER_ADDR=spark-17", "ANA_THING=1", "LLAMA_ARG_MODEL=/m/b.gguf", "HF_TOKEN=hf_abc",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512", "OLLAMA_MAX_LOADED_MODELS=2",
            "OLLAMA_HOST=0.0.0.0:11434" },
          { "CUDA_VISIBLE_DEVICES=0,1", "MASTER_ADDR=text-1", "VARIABLE-1=1", "LLAMA_ARG_MODEL=model-1.gguf", "VARIABLE-2=text-2",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512", "OLLAMA_MAX_LOADED_MODELS=2",
            "OLLAMA_HOST=0.0.0.0:11434" } },
        { { "sh", "-c", "vllm serve /m/x --dtype bfloat16\n--seed 7", "--master-addr", "10.1.1.1:29500", "lr=2e-5", "acme=5" },
          { "sh", "-c", "vllm serve path-1 --dtype bfloat16 --seed 7", "--master-addr", "address-1:29500", "lr=2e-5", "option-1=5" } },
        { { "sshd: ana [priv]", "/usr/bin/bash", "", "-", "--", "-1" },
          { "text-1 text-2 text-3", "/usr/bin/bash", "", "text-4", "--", "-1" } },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_arena *arena = uma_arena_new(1 << 20);
        _cleanup_redactor_ struct uma_redactor *r = uma_redactor_new(arena);
        const char *strings[8];
        size_t n = 0;
        while (n < 8 && cases[i].before[n]) {
            strings[n] = cases[i].before[n];
            n++;
        }
        uma_redact_arguments(r, strings, n);
        for (size_t j = 0; j < n; j++)
            if (strcmp(strings[j], cases[i].after[j]) != 0)
                fail_msg("\"%s\" became \"%s\", expected \"%s\"", cases[i].before[j], strings[j], cases[i].after[j]);
        (void)uma_arena_free(arena);
    }
}

static void test_strings(void **state) {
    (void)state;
    static const struct {
        enum uma_privacy privacy;
        const char *before, *after;
    } cases[] = {
        { UMA_PRIVACY_PATH, "/swap.img", "/swap.img" },
        { UMA_PRIVACY_PATH, "/home/ana/swap", "/home/part-1/swap" },
        { UMA_PRIVACY_PATH, "/system.slice/ollama.service", "/system.slice/ollama.service" },
        { UMA_PRIVACY_PATH, "/system.slice/acme-train.service", "/system.slice/unit-1.service" },
        { UMA_PRIVACY_PATH, "/user.slice/user-1003.slice/user@1003.service/app.slice",
          "/user.slice/user-person-1.slice/user@person-1.service/app.slice" },
        { UMA_PRIVACY_PATH, "/user.slice/user-1003.slice/session-4.scope", "/user.slice/user-person-1.slice/session-4.scope" },
        { UMA_PRIVACY_PATH, "/system.slice/docker-3f2a9c0d1e4b5a6978877665544332211.scope", "/system.slice/docker-container-1.scope" },
        { UMA_PRIVACY_PATH, "/docker/3f2a9c0d1e4b5a6978877665544332211", "/docker/container-1" },
        { UMA_PRIVACY_PATH, "/lxc.payload.anas-box", "/lxc.payload.container-1" },
        { UMA_PRIVACY_PATH, "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod5fd2c1a4_0b6f_11ee_be56_0242ac120002.slice",
          "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podcontainer-1.slice" },
        { UMA_PRIVACY_FILE, "/home/ana/.cache/hub/models--acme--x/blobs/3f2a9c0d1e4b5a6978877665544332211",
          "/home/part-1/part-2/part-3/part-4/part-5/id-1" },
        { UMA_PRIVACY_FILE, "/proc/77/root/models/x-00001-of-00003.gguf", "/proc/77/root/part-1/part-2.gguf" },
        { UMA_PRIVACY_MODEL, "acme/secret-70b", "model-1" },
        { UMA_PRIVACY_MODEL, "secret.gguf", "model-1.gguf" },
        { UMA_PRIVACY_MODEL, "model-1.gguf", "model-1.gguf" },
        { UMA_PRIVACY_PROGRAM, "python3", "python3" },
        { UMA_PRIVACY_PROGRAM, "VLLM::EngineCor", "VLLM::EngineCor" }, /* 15 bytes of VLLM::EngineCore */
        { UMA_PRIVACY_PROGRAM, "acme-train", "process-1" },
        { UMA_PRIVACY_PROGRAM, "kworker/u40:3-wg-ana", "kworker/u40:3" },
        { UMA_PRIVACY_PROGRAM, "ray::AcmeActor", "ray::process-1" },
        { UMA_PRIVACY_PROGRAM, "a\nb", "process-1" },
        { UMA_PRIVACY_TEXT, "/proc/pressure/memory: Operation not supported", "/proc/pressure/memory: Operation not supported" },
        { UMA_PRIVACY_TEXT, "/proc/swaps:3: expected a number, found \"/dev/mapper/ana-swap\"",
          "/proc/swaps:3: expected a number, found \"path-1\"" },
        { UMA_PRIVACY_TEXT, "no answer within 2.0 s", "no answer within 2.0 s" },
        { UMA_PRIVACY_TEXT, "cannot reach 10.2.3.4:80 (https://a.example/b)", "cannot reach address-1:80 (url-1)" },
        { UMA_PRIVACY_TEXT, "sys/class/hwmon/hwmon3/temp1_input", "sys/class/hwmon/hwmon3/temp1_input" },
        { UMA_PRIVACY_OPEN, "6.14.0-1013-nvidia", "6.14.0-1013-nvidia" },
        { UMA_PRIVACY_OPEN, "drm/0000:03:00.0/vram0", "drm/0000:03:00.0/vram0" },
        { UMA_PRIVACY_UUID, "GPU-5fd2c1a4-0b6f-11ee-be56-0242ac120002", "id-1" },
        { UMA_PRIVACY_HOST, "spark-17.lab.example", "host-1" },
        { UMA_PRIVACY_IMAGE, "registry.acme.example/x:1", "image-1" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_arena *arena = uma_arena_new(1 << 20);
        _cleanup_redactor_ struct uma_redactor *r = uma_redactor_new(arena);
        const char *after = uma_redact_string(r, cases[i].privacy, cases[i].before);
        if (strcmp(after, cases[i].after) != 0)
            fail_msg("\"%s\" became \"%s\", expected \"%s\"", cases[i].before, after, cases[i].after);
        (void)uma_arena_free(arena);
    }
}

/* ---- whole snapshots ------------------------------------------------------------------------------------------ */

static void must_have_class(const struct uma_fields *fields) {
    for (size_t i = 0; i < fields->n; i++) {
        const struct uma_field *f = &fields->list[i];
        if (f->type == UMA_FIELD_STRING || f->type == UMA_FIELD_STRINGS || f->type == UMA_FIELD_NAME)
            if (!f->privacy)
                fail_msg("%s.%s has no privacy class", fields->name, f->name);
        if (f->of)
            must_have_class(f->of);
    }
}

static void test_every_string_has_a_class(void **state) {
    (void)state;
    must_have_class(&uma_snapshot_fields);
}

static char *format(const struct uma_snapshot *s) {
    char *text = NULL;
    size_t n;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_format(s, &text, &n, &err), 0);
    return text;
}

static const char *const secrets[] = {
    "anastasia", "spark-17",     "lab.example", "hunter2",       "10.11.12.13",     "2001:db8:5::9",     "48:b0:2d:5e:c7:01", "acmecorp",
    "projectx",  "3f2a9c0d1e4b", "9b1deb4d",    "5fd2c1a4-0b6f", "gracious_turing", "registry.internal", "wg-acme",           "4242",
};

/* All secrets, in every place where a machine could show them. */
static void plant(struct uma_snapshot *s) {
    static const char *argv[] = { "/home/anastasia/projectx/venv/bin/python3",
                                  "train_projectx.py",
                                  "--model=/srv/acmecorp/projectx-70b.safetensors",
                                  "--host",
                                  "spark-17",
                                  "--api-key",
                                  "hunter2",
                                  "http://10.11.12.13:8000/v1",
                                  "tcp://[2001:db8:5::9]:29500",
                                  "anastasia@lab.example",
                                  "--acmecorp-mode",
                                  "X=hunter2",
                                  "48:b0:2d:5e:c7:01",
                                  "--password=hunter2",
                                  "bash -c 'cd /home/anastasia && ./projectx --token hunter2'",
                                  "acmecorp/projectx-70b",
                                  "projectx\nacmecorp" };
    static const char *env[] = { "MASTER_ADDR=spark-17.lab.example", "HF_TOKEN=hunter2",  "LLAMA_ARG_MODEL=projectx",
                                 "VLLM_HOST_IP=10.11.12.13",         "ACMECORP_SECRET=1", "OLLAMA_MODELS=/home/anastasia/.ollama" };
    s->time_ns = 1790000000000000000;
    s->platform.host = "spark-17.lab.example";
    s->platform.boot_id = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d";
    s->platform.self_cgroup = "/user.slice/user-4242.slice/user@4242.service/projectx.scope";
    s->platform.kernel = "6.14.0-1013-nvidia";
    s->platform.evidence = "hostname spark-17, built by anastasia@lab.example";
    s->meminfo.source = (struct uma_source){ UMA_FAILED, 1790000000000000000, "proc/meminfo",
                                             "/home/anastasia/cap/proc/meminfo: spark-17 said \"hunter2\"" };
    s->swaps_source.detail = "/proc/swaps:2: anastasia's /dev/mapper/acmecorp--vg-swap on spark-17 (10.11.12.13)";
    s->n_swaps = 1;
    s->swaps = uma_arena_array(s->arena, 1, sizeof(*s->swaps));
    s->swaps[0] = (struct uma_swap){ .path = "/home/anastasia/swapfile", .type = "file" };
    s->n_containers = 1;
    s->containers = uma_arena_array(s->arena, 1, sizeof(*s->containers));
    s->containers[0] =
        (struct uma_container){ "docker", "3f2a9c0d1e4b5a69788776655443322110ffeeddccbbaa998877665544332211", "gracious_turing",
                                "registry.internal/acmecorp/projectx:1", "5fd2c1a4-0b6f-11ee-be56-0242ac120002" };
    s->n_cgroups = 2;
    s->cgroups = uma_arena_array(s->arena, 2, sizeof(*s->cgroups));
    s->cgroups[0] = (struct uma_cgroup){
        .source = { UMA_KNOWN, 1,
                    "sys/fs/cgroup/system.slice/docker-3f2a9c0d1e4b5a69788776655443322110ffeeddccbbaa998877665544332211.scope",
                    "container 3f2a9c0d1e4b (gracious_turing) of anastasia" },
        .path = "/system.slice/docker-3f2a9c0d1e4b5a69788776655443322110ffeeddccbbaa998877665544332211.scope",
        .effective_max_path = "/acmecorp.slice/projectx"
    };
    s->cgroups[1] = (struct uma_cgroup){ .path = "/kubepods-burstable-pod5fd2c1a4_0b6f_11ee_be56_0242ac120002.slice/acmecorp",
                                         .unit = "acmecorp-projectx.service" };
    s->processes.source.detail = "3 of spark-17: gracious_turing, acmecorp-daemon";
    s->processes.n = 3;
    s->processes.list = uma_arena_array(s->arena, 3, sizeof(*s->processes.list));
    const char **own_argv = uma_arena_array(s->arena, ELEMENTS(argv), sizeof(*argv)),
               **own_env = uma_arena_array(s->arena, ELEMENTS(env), sizeof(*env));
    (void)memcpy(own_argv, argv, sizeof(argv));
    (void)memcpy(own_env, env, sizeof(env));
    s->processes.list[0] = (struct uma_process){ .pid = 1, .uid = 0, .name = "systemd", .cgroup = -1, .container = -1 };
    s->processes.list[1] = (struct uma_process){
        .pid = 77, .uid = 4242, .name = "kworker/u40:1-wg-acme", .kernel_thread = true, .cgroup = -1, .container = -1
    };
    s->processes.list[2] = (struct uma_process){ .pid = 4243,
                                                 .uid = 4242,
                                                 .name = "acmecorp-daemon",
                                                 .argc = ELEMENTS(argv),
                                                 .argv = own_argv,
                                                 .envc = ELEMENTS(env),
                                                 .env = own_env,
                                                 .cgroup = 0,
                                                 .container = 0,
                                                 .rss = { 11700000000, UMA_KNOWN } };
    s->gpus.n = 1;
    s->gpus.list = uma_arena_array(s->arena, 1, sizeof(*s->gpus.list));
    s->gpus.list[0] = (struct uma_gpu){ .vendor = "nvidia",
                                        .name = "NVIDIA GB10",
                                        .uuid = "GPU-5fd2c1a4-0b6f-11ee-be56-0242ac120002",
                                        .pci = "0000:0f:01.0",
                                        .numa_node = -1 };
    s->page_cache.source.detail = "/home/anastasia/hub/projectx-70b.gguf: not readable for anastasia (acmecorp/projectx-70b)";
    s->page_cache.n_files = 2;
    s->page_cache.files = uma_arena_array(s->arena, 2, sizeof(*s->page_cache.files));
    s->page_cache.files[0] =
        (struct uma_cached_file){ .path =
                                      "/home/anastasia/.cache/hub/models--acmecorp--projectx-70b/blobs/3f2a9c0d1e4b5a69788776655443322110",
                                  .model = "acmecorp/projectx-70b",
                                  .filesystem = "ext4",
                                  .container = "gracious_turing",
                                  .inode = 77,
                                  .resident = { 99000000000, UMA_KNOWN } };
    s->page_cache.files[1] = (struct uma_cached_file){ .path = "/srv/acmecorp/projectx.gguf", .model = "projectx.gguf" };
    s->gpus.source.detail = "probe on spark-17.lab.example: library at /home/anastasia/libnvidia-ml.so.1";
}

static void test_no_secret_survives(void **state) {
    (void)state;
    struct uma_snapshot s;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_init(&s), 0);
    plant(&s);
    s.processes.list[2].pid = 5000;
    _cleanup_free_
    char *before = format(&s);
    for (size_t i = 0; i < ELEMENTS(secrets); i++)
        assert_non_null(strstr(before, secrets[i])); /* it was there to be found */
    assert_int_equal(uma_snapshot_redact(&s, &err), 0);
    _cleanup_free_
    char *after = format(&s);
    for (size_t i = 0; i < ELEMENTS(secrets); i++)
        if (strstr(after, secrets[i]))
            fail_msg("\"%s\" is still there: %.120s", secrets[i], strstr(after, secrets[i]) - 40);
    /* and what a report needs is still there */
    static const char *const kept[] = { "systemd",
                                        "python3",
                                        "--model=model-",
                                        ".safetensors",
                                        "6.14.0-1013-nvidia",
                                        "NVIDIA GB10",
                                        "0000:0f:01.0",
                                        "\"rss\": 11700000000",
                                        "proc/meminfo",
                                        "docker-container-1.scope",
                                        "\"host\": \"host-1\"",
                                        "MASTER_ADDR=host-1",
                                        "MASTER_ADDR",
                                        "libnvidia-ml.so.1",
                                        "\"resident\": 99000000000",
                                        "\"filesystem\": \"ext4\"",
                                        "\"model\": \"model-" };
    for (size_t i = 0; i < ELEMENTS(kept); i++)
        if (!strstr(after, kept[i]))
            fail_msg("\"%s\" is gone", kept[i]);
    assert_int_equal(s.processes.list[2].uid, 1000);
    assert_int_equal(s.processes.list[0].uid, 0);
    /* a second time changes nothing */
    assert_int_equal(uma_snapshot_redact(&s, &err), 0);
    _cleanup_free_
    char *again = format(&s);
    size_t at = 0;
    while (after[at] && after[at] == again[at])
        at++;
    if (after[at] || again[at])
        fail_msg("differs: \"%.80s\" and \"%.80s\"", after + (at > 40 ? at - 40 : 0), again + (at > 40 ? at - 40 : 0));
    uma_snapshot_done(&s);
}

/* Whatever a snapshot holds, it can be redacted, and the result is a snapshot. */
static void test_random(void **state) {
    (void)state;
    struct uma_snapshot s, back;
    struct uma_error err = { 0 };
    assert_int_equal(uma_snapshot_init(&s), 0);
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct dice dice = { .state = seed * 0x9e3779b97f4a7c15ull, .most = seed % 9 };
        dice_snapshot(&dice, &s);
        assert_int_equal(uma_snapshot_redact(&s, &err), 0);
        _cleanup_free_
        char *text = format(&s);
        if (strstr(text, "/home/ana"))
            fail_msg("seed %llu", (unsigned long long)seed);
        if (uma_snapshot_parse(text, strlen(text), "redacted", &back, &err) < 0)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
        uma_snapshot_done(&back);
    }
    uma_snapshot_done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_are_sorted),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_every_string_has_a_class),
        cmocka_unit_test(test_no_secret_survives),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
