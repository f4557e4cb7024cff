/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/text.h"
#include "base/units.h"
#include "model_files.h"
#include "observe/files/stores.h"

#include <errno.h>

struct fixture {
    struct uma_root *root;
    struct uma_arena *arena;
    char *folder; /* without links */
    size_t n;
    struct uma_store *stores;
};

static int setup(void **state) {
    static const char *const variables[] = { "HF_HUB_CACHE",   "HUGGINGFACE_HUB_CACHE", "HF_HOME",
                                             "XDG_CACHE_HOME", "OLLAMA_MODELS",         "TORCH_HOME",
                                             "LLAMA_CACHE" };
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    for (size_t i = 0; i < ELEMENTS(variables); i++)
        (void)unsetenv(variables[i]);
    assert_int_equal(uma_root_open(NULL, NULL, &f->root, NULL), 0);
    f->arena = uma_arena_new(UMA_MIB);
    char *folder = files_folder();
    f->folder = realpath(folder, NULL);
    free(folder);
    (void)setenv("HOME", files_path(f->folder, "home"), 1);
    files_make(f->folder, "home");
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    (void)uma_root_close(f->root);
    (void)uma_arena_free(f->arena);
    files_remove(f->folder);
    free(f);
    return 0;
}

static void make(const struct fixture *f, const char *path) {
    files_parents(f->folder, path);
    (void)mkdir(files_path(f->folder, path), 0700);
}

static void find(struct fixture *f, const struct uma_processes *processes) {
    struct uma_error err = { 0 };
    if (uma_stores_find(f->root, processes, f->arena, &f->n, &f->stores, &err) != 0)
        fail_msg("%s", err.text);
}

/* How often is the store there? Whatever else this machine has is none of ours. */
static unsigned count(const struct fixture *f, const char *path, enum uma_store_kind kind) {
    unsigned n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += strcmp(f->stores[i].path, files_path(f->folder, path)) == 0 && f->stores[i].kind == kind;
    return n;
}
static unsigned count_all(const struct fixture *f) {
    unsigned n = 0;
    for (size_t i = 0; i < f->n; i++)
        n += strncmp(f->stores[i].path, f->folder, strlen(f->folder)) == 0;
    return n;
}

static void test_home(void **state) {
    struct fixture *f = *state;
    make(f, "home/.cache/huggingface/hub");
    make(f, "home/.cache/modelscope");
    make(f, "home/.ollama");
    make(f, "disk/ollama");
    assert_int_equal(symlink("../../disk/ollama", files_path(f->folder, "home/.ollama/models")), 0);
    assert_int_equal(symlink("/", files_path(f->folder, "home/models")), 0); /* not all of the machine */
    (void)files_text(f->folder, "home/.lmstudio", "no folder");
    find(f, NULL);
    assert_int_equal(count(f, "home/.cache/huggingface/hub", UMA_STORE_HUB), 1);
    assert_int_equal(count(f, "home/.cache/modelscope", UMA_STORE_FOLDER), 1);
    assert_int_equal(count(f, "disk/ollama", UMA_STORE_OLLAMA), 1);
    assert_int_equal(count_all(f), 3);
    for (size_t i = 0; i < f->n; i++)
        assert_string_not_equal(f->stores[i].path, "/");
}

static void test_environment(void **state) {
    struct fixture *f = *state;
    make(f, "hf/hub");
    make(f, "cache/huggingface/hub");
    make(f, "cache/llama.cpp");
    make(f, "ollama");
    make(f, "torch/hub/checkpoints");
    assert_int_equal(symlink("hf/hub", files_path(f->folder, "same")), 0);
    (void)setenv("HF_HOME", files_path(f->folder, "hf"), 1);
    (void)setenv("HF_HUB_CACHE", files_path(f->folder, "same"), 1); /* the same folder: once */
    (void)setenv("XDG_CACHE_HOME", files_path(f->folder, "cache"), 1);
    (void)setenv("OLLAMA_MODELS", files_path(f->folder, "ollama"), 1);
    (void)setenv("TORCH_HOME", files_path(f->folder, "torch"), 1);
    (void)setenv("LLAMA_CACHE", "relative", 1);
    find(f, NULL);
    assert_int_equal(count(f, "hf/hub", UMA_STORE_HUB), 1);
    assert_int_equal(count(f, "cache/huggingface/hub", UMA_STORE_HUB), 1);
    assert_int_equal(count(f, "cache/llama.cpp", UMA_STORE_FOLDER), 1);
    assert_int_equal(count(f, "ollama", UMA_STORE_OLLAMA), 1);
    assert_int_equal(count(f, "torch/hub/checkpoints", UMA_STORE_FOLDER), 1);
    assert_int_equal(count_all(f), 5);
}

static void test_processes(void **state) {
    struct fixture *f = *state;
    char home[PATH_MAX], ollama[PATH_MAX], model[PATH_MAX], option[PATH_MAX], shard[PATH_MAX], plain[PATH_MAX], single[PATH_MAX];
    make(f, "hf/hub");
    make(f, "ollama");
    make(f, "one/model");
    make(f, "downloads");
    make(f, "split");
    make(f, "plain");
    (void)files_text(f->folder, "one/model/config.json", "{}");
    (void)files_text(f->folder, "single.gguf", "GGUF");
    (void)snprintf(home, sizeof(home), "HF_HOME=%s", files_path(f->folder, "hf"));
    (void)snprintf(ollama, sizeof(ollama), "OLLAMA_MODELS=%s", files_path(f->folder, "ollama"));
    (void)snprintf(model, sizeof(model), "%s", files_path(f->folder, "one/model"));
    (void)snprintf(option, sizeof(option), "--download-dir=%s", files_path(f->folder, "downloads"));
    (void)snprintf(shard, sizeof(shard), "%s", files_path(f->folder, "split/x-00001-of-00003.gguf"));
    (void)snprintf(plain, sizeof(plain), "%s", files_path(f->folder, "plain"));
    (void)snprintf(single, sizeof(single), "%s", files_path(f->folder, "single.gguf"));
    const char *const env[] = { home, ollama, "TORCH_HOME=/", "RANK=0", "broken" };
    const char *const serve[] = { "vllm", "serve", model, option, "--model", "/" };
    const char *const server[] = { "llama-server", "-m", shard, plain, "/nothing/at/all", "-", "" };
    const char *const other[] = { "tool", single };
    struct uma_process list[] = {
        { .pid = getpid(), .env = env, .envc = ELEMENTS(env), .argv = serve, .argc = ELEMENTS(serve), .container = -1 },
        { .pid = getpid(), .argv = server, .argc = ELEMENTS(server), .container = -1 },
        { .pid = getpid(), .argv = other, .argc = ELEMENTS(other), .container = -1 },
        { .pid = 2, .kernel_thread = true, .container = -1 },
        { .pid = INT32_MAX, .argv = other, .argc = ELEMENTS(other), .container = 0 }, /* gone, of a container: its paths are not ours */
    };
    find(f, &(struct uma_processes){ .n = ELEMENTS(list), .list = list });
    assert_int_equal(count(f, "hf/hub", UMA_STORE_HUB), 1);
    assert_int_equal(count(f, "ollama", UMA_STORE_OLLAMA), 1);
    assert_int_equal(count(f, "one/model", UMA_STORE_FOLDER), 1);
    assert_int_equal(count(f, "downloads", UMA_STORE_FOLDER), 1);
    assert_int_equal(count(f, "split", UMA_STORE_FOLDER), 1); /* all parts of the set */
    assert_int_equal(count(f, "single.gguf", UMA_STORE_FOLDER), 1);
    assert_int_equal(count_all(f), 6); /* "plain" has nothing of a model */
    for (size_t i = 0; i < f->n; i++)
        assert_string_not_equal(f->stores[i].path, "/");
}

/* Places that this user may not enter are no stores. */
static void test_denied(void **state) {
    struct fixture *f = *state;
    make(f, "home/.cache/huggingface/hub");
    make(f, "home/.ollama/models");
    bool root = geteuid() == 0;
    static const char *const open_to_all[] = {
        "", "home", "home/.cache", "home/.cache/huggingface", "home/.ollama", "home/.ollama/models"
    };
    for (size_t i = 0; i < ELEMENTS(open_to_all); i++)
        assert_int_equal(chmod(files_path(f->folder, open_to_all[i]), 0755), 0);
    assert_int_equal(chmod(files_path(f->folder, "home/.cache/huggingface/hub"), 0), 0);
    if (root) /* who enters every folder, but not as somebody else */
        assert_int_equal(seteuid(65534), 0);
    find(f, NULL);
    if (root)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(count(f, "home/.ollama/models", UMA_STORE_OLLAMA), 1);
    assert_int_equal(count_all(f), 1);
}

/* A recorded machine's paths are not this one's. */
static void test_folder(void **state) {
    struct fixture *f = *state;
    struct uma_root *root = NULL;
    make(f, "home/models");
    assert_int_equal(uma_root_open(f->folder, NULL, &root, NULL), 0);
    f->n = 1;
    assert_int_equal(uma_stores_find(root, NULL, f->arena, &f->n, &f->stores, NULL), 0);
    assert_int_equal(f->n, 0);
    (void)uma_root_close(root);
}

static void test_no_memory(void **state) {
    struct fixture *f = *state;
    struct uma_error err = { 0 };
    _cleanup_arena_ struct uma_arena *small = uma_arena_new(16);
    make(f, "home/models");
    assert_int_equal(uma_stores_find(f->root, NULL, small, &f->n, &f->stores, &err), -ENOMEM);
    assert_int_equal(f->n, 0);
    assert_null(f->stores);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = { WITH_FIXTURE(test_home),   WITH_FIXTURE(test_environment), WITH_FIXTURE(test_processes),
                                        WITH_FIXTURE(test_denied), WITH_FIXTURE(test_folder),      WITH_FIXTURE(test_no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
