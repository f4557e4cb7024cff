/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/text.h"
#include "base/units.h"
#include "model_files.h"
#include "observe/files/ollama_manifest.h"
#include "observe/files/stores.h"

#define DIGIT4(c) c c c c
#define DIGEST(c) DIGIT4(DIGIT4(DIGIT4(c)))
#define LAYER(kind, c) "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"sha256:" DIGEST(c) "\",\"size\":9}"

static void put(const char *store, const char *host, const char *space, const char *name, const char *tag, const char *text) {
    char path[512];
    (void)mkdir(files_path(store, "manifests"), 0700);
    (void)snprintf(path, sizeof(path), "manifests/%s", host);
    (void)mkdir(files_path(store, path), 0700);
    (void)snprintf(path, sizeof(path), "manifests/%s/%s", host, space);
    (void)mkdir(files_path(store, path), 0700);
    (void)snprintf(path, sizeof(path), "manifests/%s/%s/%s", host, space, name);
    (void)mkdir(files_path(store, path), 0700);
    (void)snprintf(path, sizeof(path), "manifests/%s/%s/%s/%s", host, space, name, tag);
    (void)files_text(store, path, text);
}

static struct uma_blob_names *read_names(const char *store, int expected) {
    struct uma_blob_names *names = uma_blob_names_new();
    struct uma_error err = { 0 };
    assert_non_null(names);
    int r = uma_blob_names_add(names, store, &err);
    if (r != expected)
        fail_msg("%d, expected %d: %s", r, expected, err.text);
    return names;
}

static void test_names(void **state) {
    (void)state;
    char *store = files_folder();
    put(store, "registry.ollama.ai", "library", "llama3.1", "8b", "{\"layers\":[" LAYER("model", "a") "," LAYER("params", "b") "]}");
    put(store, "registry.ollama.ai", "library", "llama3.1", "latest", "{\"layers\":[" LAYER("model", "a") "]}");
    put(store, "registry.ollama.ai", "library", "all", "latest", "{\"layers\":[" LAYER("model", "a") "]}");
    put(store, "registry.ollama.ai", "someone", "tuned", "q8", "{\"layers\":[" LAYER("model", "c") "," LAYER("adapter", "d") "]}");
    put(store, "hf.co", "unsloth", "Qwen3-8B-GGUF", "Q4_K_M", "{\"layers\":[" LAYER("model", "e") "," LAYER("projector", "f") "]}");
    struct uma_blob_names *names = read_names(store, 0);
    assert_string_equal(uma_blob_names_of(names, DIGEST("a")), "llama3.1:8b");
    assert_string_equal(uma_blob_names_of(names, DIGEST("b")), "llama3.1:8b");
    assert_string_equal(uma_blob_names_of(names, DIGEST("c")), "someone/tuned:q8");
    assert_string_equal(uma_blob_names_of(names, DIGEST("d")), "someone/tuned:q8");
    assert_string_equal(uma_blob_names_of(names, DIGEST("e")), "hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M");
    assert_string_equal(uma_blob_names_of(names, DIGEST("f")), "hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M");
    assert_null(uma_blob_names_of(names, DIGEST("0")));
    assert_null(uma_blob_names_of(names, ""));
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    assert_string_equal(uma_model_of_path("/any/blobs/sha256-" DIGEST("A"), names, arena), "llama3.1:8b");
    assert_string_equal(uma_model_of_path("/any/blobs/sha256-" DIGEST("c") "-partial-3", names, arena), "someone/tuned:q8");
    assert_null(uma_model_of_path("/any/blobs/sha256-" DIGEST("0"), names, arena));
    assert_null(uma_model_of_path("/any/sha256-" DIGEST("a"), names, arena));
    (void)uma_blob_names_free(names);
    files_remove(store);
}

/* Two stores, one after the other: the second adds to the first. */
static void test_stores(void **state) {
    (void)state;
    char *first = files_folder(), *second = files_folder();
    put(first, "registry.ollama.ai", "library", "one", "1", "{\"layers\":[" LAYER("model", "1") "]}");
    put(second, "registry.ollama.ai", "library", "two", "2", "{\"layers\":[" LAYER("model", "2") "]}");
    struct uma_blob_names *names = read_names(first, 0);
    assert_null(uma_blob_names_of(names, DIGEST("2")));
    assert_int_equal(uma_blob_names_add(names, second, NULL), 0);
    assert_string_equal(uma_blob_names_of(names, DIGEST("1")), "one:1");
    assert_string_equal(uma_blob_names_of(names, DIGEST("2")), "two:2");
    (void)uma_blob_names_free(names);
    files_remove(first);
    files_remove(second);
}

/* What is no manifest is passed over and counted; nothing outside the store is read, nothing blocks. */
static void test_passed_over(void **state) {
    (void)state;
    char *store = files_folder(), *outside = files_folder();
    put(outside, "registry.ollama.ai", "library", "secret", "1", "{\"layers\":[" LAYER("model", "5") "]}");
    put(store, "registry.ollama.ai", "library", "good", "1", "{\"layers\":[" LAYER("model", "1") "]}");
    put(store, "registry.ollama.ai", "library", "bad", "1", "{\"layers\":3}");                                   /* 1 */
    put(store, "registry.ollama.ai", "library", "bad", "2", "{\"layers\":[" LAYER("model", "../x") "]}");        /* 2 */
    put(store, "registry.ollama.ai", "library", "bad", ".hidden", "");                                           /* not looked at */
    (void)files_write(store, "manifests/registry.ollama.ai/library/bad/3", "{", 1, UMA_OLLAMA_MANIFEST_MAX + 1); /* 3 */
    assert_int_equal(mkfifo(files_path(store, "manifests/registry.ollama.ai/library/bad/4"), 0600), 0);          /* 4 */
    files_make(store, "manifests/registry.ollama.ai/library/bad/5");                                             /* 5 */
    assert_int_equal(symlink(files_path(outside, "manifests/registry.ollama.ai/library/secret/1"),
                             files_path(store, "manifests/registry.ollama.ai/library/bad/6")),
                     0); /* 6 */
    assert_int_equal(symlink(files_path(outside, "manifests/registry.ollama.ai/library/secret"),
                             files_path(store, "manifests/registry.ollama.ai/library/link")),
                     0); /* a link: ENOTDIR */
    (void)files_text(store, "manifests/stray", "x");
    struct uma_blob_names *names = read_names(store, 6);
    assert_string_equal(uma_blob_names_of(names, DIGEST("1")), "good:1");
    assert_null(uma_blob_names_of(names, DIGEST("5")));
    (void)uma_blob_names_free(names);
    files_remove(store);
    files_remove(outside);
}

static void test_empty(void **state) {
    (void)state;
    char *store = files_folder();
    struct uma_blob_names *names = read_names(store, 0);
    assert_null(uma_blob_names_of(names, DIGEST("1")));
    struct uma_error err = { 0 };
    assert_int_equal(uma_blob_names_add(names, files_path(store, "gone"), &err), -ENOENT);
    assert_non_null(strstr(err.text, "gone"));
    (void)uma_blob_names_free(names);
    (void)uma_blob_names_free(NULL);
    files_remove(store);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_names), cmocka_unit_test(test_stores), cmocka_unit_test(test_passed_over),
                                        cmocka_unit_test(test_empty) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
