/* SPDX-License-Identifier: MIT */
/* Real files in a temporary folder, whose residency is whatever it is: which files there are, what they are called, what is counted. */
#include "test.h"

#include "base/text.h"
#include "base/units.h"
#include "model_files.h"
#include "observe/files/page_cache.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#define HASH40 "0123456789abcdef0123456789abcdef01234567"
#define HASH64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct fixture {
    struct uma_root *root;
    struct uma_arena *arena;
    char *folder;
    struct uma_page_cache cache;
    struct uma_page_cache_counts counts;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    assert_int_equal(uma_root_open(NULL, NULL, &f->root, NULL), 0);
    f->arena = uma_arena_new(64 * UMA_MIB);
    f->folder = files_folder();
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

static void put(const struct fixture *f, const char *path) {
    files_parents(f->folder, path);
    (void)files_text(f->folder, path, "some text");
}

static int try(struct fixture *f, struct uma_page_cache_request request, const char *below, struct uma_error *err) {
    const char *paths[] = { below ? files_path(f->folder, below) : f->folder };
    request.paths = paths;
    request.n_paths = 1;
    return uma_page_cache_read(f->root, &request, NULL, f->arena, &f->cache, &f->counts, err);
}

static void take(struct fixture *f, struct uma_page_cache_request request) {
    struct uma_error err = { 0 };
    if (try(f, request, NULL, &err) != 0)
        fail_msg("%s", err.text);
}

static const struct uma_cached_file *find(const struct fixture *f, const char *path) {
    for (size_t i = 0; i < f->cache.n_files; i++)
        if (strcmp(f->cache.files[i].path, files_path(f->folder, path)) == 0)
            return &f->cache.files[i];
    return NULL;
}

static const char *model_of(const struct fixture *f, const char *path) {
    const struct uma_cached_file *file = find(f, path);
    if (!file)
        fail_msg("%s is not in the list", path);
    return file->model;
}

static void test_tree(void **state) {
    SKIP_UNDER_EMULATION();
    struct fixture *f = *state;
    put(f, "models/Qwen3-32B/model-00001-of-00002.safetensors");
    put(f, "models/Qwen3-32B/config.json");
    put(f, "new\nline/\xff.gguf");
    put(f, "empty");
    assert_int_equal(truncate(files_path(f->folder, "empty"), 0), 0);
    assert_int_equal(mkfifo(files_path(f->folder, "fifo"), 0600), 0); /* opening it would wait */
    assert_int_equal(symlink("/etc/passwd", files_path(f->folder, "outside")), 0);
    assert_int_equal(link(files_path(f->folder, "models/Qwen3-32B/config.json"), files_path(f->folder, "second-name")), 0);
    take(f, (struct uma_page_cache_request){ 0 });
    assert_int_equal(f->cache.source.validity, UMA_KNOWN);
    assert_int_equal(f->cache.n_files, 4);
    assert_int_equal(f->counts.files_seen, 4);
    assert_int_equal(f->counts.links_outside, 1);
    assert_string_equal(model_of(f, "models/Qwen3-32B/model-00001-of-00002.safetensors"), "Qwen3-32B");
    assert_string_equal(model_of(f, "new\nline/\xff.gguf"), "\\xff");
    const struct uma_cached_file *empty = find(f, "empty");
    assert_int_equal(empty->resident.validity, UMA_KNOWN);
    assert_int_equal(empty->resident.value, 0);
    assert_int_equal(empty->size.value, 0);
    assert_true((find(f, "second-name") != NULL) != (find(f, "models/Qwen3-32B/config.json") != NULL));
    assert_true(f->cache.complete);
    assert_int_equal(f->cache.left_out.validity, UMA_UNKNOWN);
    assert_true(uma_usable(f->cache.total.validity) && f->cache.total.value > 0);
    const struct uma_cached_file *written = find(f, "models/Qwen3-32B/model-00001-of-00002.safetensors");
    assert_int_equal(written->size.value, 9);
    assert_int_equal(written->resident.value, sysconf(_SC_PAGESIZE)); /* it was written now: the whole page */
    assert_true(written->used_ns > INT64_C(1600000000) * UMA_SECOND_NS);
    assert_null(written->shown);
}

/* A hub's blobs are found once, though snapshots lead to them, and other files of it are no model's. */
static void test_hub(void **state) {
    struct fixture *f = *state;
    put(f, "hub/models--Qwen--Qwen3/blobs/" HASH64);
    put(f, "hub/models--Qwen--Qwen3/blobs/" HASH40);
    put(f, "hub/models--Qwen--Qwen3/snapshots/" HASH40 "/local.txt");
    put(f, "hub/datasets--a--b/blobs/" HASH64);
    assert_int_equal(
        symlink("../../blobs/" HASH64, files_path(f->folder, "hub/models--Qwen--Qwen3/snapshots/" HASH40 "/model.safetensors")), 0);
    take(f, (struct uma_page_cache_request){ 0 });
    assert_int_equal(f->cache.n_files, 4);
    assert_string_equal(model_of(f, "hub/models--Qwen--Qwen3/blobs/" HASH64), "Qwen/Qwen3");
    assert_string_equal(model_of(f, "hub/models--Qwen--Qwen3/blobs/" HASH40), "Qwen/Qwen3");
    assert_null(model_of(f, "hub/datasets--a--b/blobs/" HASH64));
    struct uma_cached_group *groups = NULL;
    size_t n = 0;
    assert_int_equal(uma_page_cache_group(&f->cache, f->arena, &n, &groups), 0);
    assert_int_equal(n, 2);
    assert_string_equal(groups[0].name, "Qwen/Qwen3");
    assert_int_equal(groups[0].n_files, 3);
}

/* The names that Ollama gave are found wherever a store is, also when it is on no list. */
static void test_ollama(void **state) {
    struct fixture *f = *state;
    put(f, "ollama/blobs/sha256-" HASH64);
    put(f, "ollama/manifests/registry.ollama.ai/library/llama3.1/8b");
    (void)files_text(f->folder, "ollama/manifests/registry.ollama.ai/library/llama3.1/8b",
                     "{\"layers\":[{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"sha256:" HASH64 "\",\"size\":9}]}");
    put(f, "other/blobs/sha256-" HASH64); /* a store of its own, without manifests: the blob is the same */
    take(f, (struct uma_page_cache_request){ 0 });
    assert_string_equal(model_of(f, "ollama/blobs/sha256-" HASH64), "llama3.1:8b");
    assert_null(model_of(f, "ollama/manifests/registry.ollama.ai/library/llama3.1/8b"));
    assert_string_equal(model_of(f, "other/blobs/sha256-" HASH64), "llama3.1:8b");
}

static void test_bounds(void **state) {
    SKIP_UNDER_EMULATION();
    struct fixture *f = *state;
    char path[32];
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(path, sizeof(path), "file-%u", i);
        (void)files_write(f->folder, path, "x", 1, i % 2 ? 1 : (uint64_t)(i + 1) << 20);
    }
    take(f, (struct uma_page_cache_request){ .files_max = 10 });
    assert_int_equal(f->cache.n_files, 10);
    assert_int_equal(f->counts.files_seen, 50);
    assert_int_equal(f->cache.left_out.validity, UMA_KNOWN);
    assert_int_equal(f->cache.left_out.value, 40); /* each had its first page written */
    for (size_t i = 1; i < f->cache.n_files; i++)
        assert_true(f->cache.files[i - 1].resident.value >= f->cache.files[i].resident.value);
    assert_int_equal(truncate(files_path(f->folder, "file-1"), 0), 0);
    take(f, (struct uma_page_cache_request){ .resident_only = true });
    assert_int_equal(f->counts.files_seen, 50);
    assert_int_equal(f->cache.n_files, 49);
    assert_null(find(f, "file-1"));
    /* a time that is over at once: nothing, and it is said */
    take(f, (struct uma_page_cache_request){ .seconds = 1e-9 });
    assert_false(f->cache.complete);
    assert_non_null(strstr(f->cache.source.detail, UMA_PAGE_CACHE_LATE));
}

static bool stop_at_once(void *userdata, uint64_t files, uint64_t resident, const char *at) {
    (void)files;
    (void)resident;
    assert_non_null(at);
    ++*(unsigned *)userdata;
    return false;
}

static void test_stopped(void **state) {
    struct fixture *f = *state;
    unsigned calls = 0;
    put(f, "a");
    put(f, "b");
    take(f, (struct uma_page_cache_request){ .progress = stop_at_once, .userdata = &calls, .stores = true, .everywhere = true });
    assert_int_equal(calls, 1);
    assert_false(f->cache.complete);
    assert_non_null(strstr(f->cache.source.detail, "stopped"));
    assert_int_equal(f->cache.n_files, 0);
}

static void test_paths(void **state) {
    SKIP_UNDER_EMULATION();
    struct fixture *f = *state;
    struct uma_error err = { 0 };
    put(f, "single");
    assert_int_equal(symlink("single", files_path(f->folder, "link")), 0);
    assert_int_equal(mkfifo(files_path(f->folder, "fifo"), 0600), 0);
    assert_int_equal(try(f, (struct uma_page_cache_request){ 0 }, "gone", &err), -ENOENT);
    assert_non_null(strstr(err.text, "gone"));
    assert_int_equal(try(f, (struct uma_page_cache_request){ 0 }, "fifo", &err), -EINVAL);
    assert_int_equal(f->cache.n_files, 0); /* untouched */
    assert_int_equal(try(f, (struct uma_page_cache_request){ 0 }, "single", &err), 0);
    assert_int_equal(f->cache.n_files, 1);
    assert_int_equal(f->cache.files[0].resident.value, sysconf(_SC_PAGESIZE));
    assert_int_equal(try(f, (struct uma_page_cache_request){ 0 }, "link", &err), 0); /* whoever names a link means what it leads to */
    assert_int_equal(f->cache.n_files, 1);
    assert_int_equal(f->cache.files[0].size.value, 9);
    assert_int_equal(f->cache.files[0].resident.value, sysconf(_SC_PAGESIZE));
}

/* This process is left out of those that use files; its child is not. */
static void test_processes(void **state) {
    SKIP_UNDER_EMULATION();
    struct fixture *f = *state;
    put(f, "used/model.safetensors");
    put(f, "gone.gguf");
    int pipes[2];
    char c;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(60);
        int a = open(files_path(f->folder, "used/model.safetensors"), O_RDONLY), b = open(files_path(f->folder, "gone.gguf"), O_RDONLY);
        bool good = a >= 0 && b >= 0 && unlink(files_path(f->folder, "gone.gguf")) == 0 && write(pipes[1], "x", 1) == 1;
        (void)close(pipes[1]);
        if (good)
            (void)pause();
        _exit(1);
    }
    (void)close(pipes[1]);
    assert_int_equal(read(pipes[0], &c, 1), 1);
    take(f, (struct uma_page_cache_request){ .processes = true });
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    (void)close(pipes[0]);
    const struct uma_cached_file *used = find(f, "used/model.safetensors"), *deleted = NULL;
    assert_non_null(used);
    assert_int_equal(used->n_open_by, 1);
    assert_int_equal(used->open_by[0].pid, child);
    assert_string_equal(used->model, "used");
    assert_false(used->deleted);
    for (size_t i = 0; i < f->cache.n_files; i++)
        if (f->cache.files[i].deleted && f->cache.files[i].n_open_by == 1 && f->cache.files[i].open_by[0].pid == child)
            deleted = &f->cache.files[i];
    assert_non_null(deleted);
    assert_string_equal(deleted->model, "gone");
    assert_non_null(strstr(deleted->shown, "gone.gguf"));
    assert_int_equal(strncmp(deleted->path, "/proc/", 6), 0);
    assert_int_equal(deleted->resident.value, sysconf(_SC_PAGESIZE));
}

static void test_recorded(void **state) {
    struct fixture *f = *state;
    struct uma_root *root = NULL;
    struct uma_page_cache_request request = { .processes = true, .stores = true, .everywhere = true };
    assert_int_equal(uma_root_open(f->folder, NULL, &root, NULL), 0);
    assert_int_equal(uma_page_cache_read(root, &request, NULL, f->arena, &f->cache, &f->counts, NULL), 0);
    assert_int_equal(f->cache.source.validity, UMA_UNKNOWN);
    assert_int_equal(f->cache.n_files, 0);
    (void)uma_root_close(root);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = { WITH_FIXTURE(test_tree),      WITH_FIXTURE(test_hub),     WITH_FIXTURE(test_ollama),
                                        WITH_FIXTURE(test_bounds),    WITH_FIXTURE(test_stopped), WITH_FIXTURE(test_paths),
                                        WITH_FIXTURE(test_processes), WITH_FIXTURE(test_recorded) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
