/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "gguf_file.h"
#include "plan/model/ollama.h"
#include "plan/model/structure.h"

#define MODEL_DIGEST "1111111111111111111111111111111111111111111111111111111111111111"
#define PROJECTOR_DIGEST "2222222222222222222222222222222222222222222222222222222222222222"
#define ADAPTER_DIGEST "3333333333333333333333333333333333333333333333333333333333333333"
#define PARAMS_DIGEST "4444444444444444444444444444444444444444444444444444444444444444"

#define LAYER(kind, digest) "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"sha256:" digest "\",\"size\":9}"

struct bytes {
    uint64_t model, projector, adapter;
};

static struct bytes put_blobs(const struct folder *folder) {
    struct bytes bytes = { 0 };
    char path[512];
    _cleanup_gguf_ struct gguf model = { 0 }, projector = { 0 }, adapter = { 0 };
    gguf_text(&model, "general.architecture", "llama");
    gguf_u32(&model, "llama.embedding_length", 256);
    gguf_u32(&model, "llama.attention.head_count", 4);
    bytes.model = gguf_tensor(&model, "token_embd.weight", GGML_Q4_K, 256, 64, 0);
    bytes.model += gguf_tensor(&model, "blk.0.attn_q.weight", GGML_Q4_K, 256, 256, 0);
    gguf_write(&model, folder, "blobs/sha256-" MODEL_DIGEST, path);
    gguf_text(&projector, "general.architecture", "clip");
    bytes.projector = gguf_tensor(&projector, "v.blk.0.attn_q.weight", GGML_F16, 128, 128, 0);
    bytes.projector += gguf_tensor(&projector, "mm.0.weight", GGML_F16, 128, 256, 0);
    gguf_write(&projector, folder, "blobs/sha256-" PROJECTOR_DIGEST, path);
    gguf_text(&adapter, "general.type", "adapter");
    bytes.adapter = gguf_tensor(&adapter, "blk.0.attn_q.weight.lora_a", GGML_F32, 256, 8, 0);
    gguf_write(&adapter, folder, "blobs/sha256-" ADAPTER_DIGEST, path);
    folder_put(folder, "blobs/sha256-" PARAMS_DIGEST, "{\"num_ctx\": 16384, \"temperature\": 0.6}");
    return bytes;
}

static int open_text(const struct folder *folder, const char *manifest, struct uma_model **ret_model, struct uma_error *err) {
    char path[512];
    folder_put(folder, "manifests/registry.ollama.ai/library/small/8b", manifest);
    (void)snprintf(path, sizeof path, "%s/manifests/registry.ollama.ai/library/small/8b", folder->path);
    return uma_ollama_open(path, ret_model, err);
}

static void test_open(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_model_ struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    assert_return_code(folder_new(&folder), 0);
    struct bytes bytes = put_blobs(&folder);
    int e = open_text(&folder,
                      "{\"schemaVersion\":2,\"layers\":[" LAYER("license", "5") "," LAYER("model", MODEL_DIGEST) "," LAYER(
                          "projector", PROJECTOR_DIGEST) "," LAYER("adapter", ADAPTER_DIGEST) "," LAYER("params", PARAMS_DIGEST) "]}",
                      &model, &err);
    if (e < 0)
        fail_msg("%s", err.text);
    assert_string_equal(model->name, "small:8b");
    assert_true(model->has_vision);
    assert_int_equal(model->totals[UMA_CLASS_VISION].bytes, bytes.projector);
    assert_int_equal(uma_model_bytes(model), bytes.model + bytes.projector);
    assert_int_equal(model->adapter_bytes, bytes.adapter);
    assert_int_equal(model->adapter_rank, 8);
    assert_int_equal(model->default_context, 16384);
    assert_int_equal(model->file_count, 3);
    assert_true(model->gguf);
    assert_int_equal(model->layer_count, 1);
}

static void test_missing_blob(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    assert_return_code(folder_new(&folder), 0);
    put_blobs(&folder);
    folder_drop(&folder, "blobs/sha256-" PROJECTOR_DIGEST);
    assert_int_equal(
        open_text(&folder, "{\"layers\":[" LAYER("model", MODEL_DIGEST) "," LAYER("projector", PROJECTOR_DIGEST) "]}", &model, &err),
        -ENOENT);
    assert_non_null(strstr(err.text, "sha256-" PROJECTOR_DIGEST));
    assert_null(model);
    /* parameters that cannot be read set nothing */
    folder_put(&folder, "blobs/sha256-" PARAMS_DIGEST, "[1");
    assert_return_code(
        open_text(&folder, "{\"layers\":[" LAYER("model", MODEL_DIGEST) "," LAYER("params", PARAMS_DIGEST) "]}", &model, &err), 0);
    assert_int_equal(model->default_context, 0);
    (void)uma_model_free(model);
}

/* An adapter in the format before GGUF is as large as its file. */
static void test_old_adapter(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    _cleanup_model_ struct uma_model *model = NULL;
    assert_return_code(folder_new(&folder), 0);
    put_blobs(&folder);
    folder_put(&folder, "blobs/sha256-" ADAPTER_DIGEST, "algg and 12 more");
    assert_return_code(
        open_text(&folder, "{\"layers\":[" LAYER("model", MODEL_DIGEST) "," LAYER("adapter", ADAPTER_DIGEST) "]}", &model, NULL), 0);
    assert_int_equal(model->adapter_bytes, 16);
    assert_int_equal(model->warning_count, 1);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *manifest;
        int code;
        const char *says;
    } cases[] = {
        { "", -EINVAL, "not a manifest" },
        { "[]", -EINVAL, "no \"layers\"" },
        { "{\"layers\":3}", -EINVAL, "no \"layers\"" },
        { "{\"layers\":[],\"layers\":[]}", -EINVAL, "duplicate" },
        { "{\"layers\":[]}", -EINVAL, "names no model" },
        { "{\"layers\":[7]}", -EINVAL, "layer 0" },
        { "{\"layers\":[" LAYER("model", "../../../../etc/passwd") "]}", -EINVAL, "not a digest" },
        { "{\"layers\":[" LAYER("model", "11") "]}", -EINVAL, "not a digest" },
        { "{\"layers\":[" LAYER("model", MODEL_DIGEST "/..") "]}", -EINVAL, "not a digest" },
        { "{\"layers\":[" LAYER("model", MODEL_DIGEST) "," LAYER("model", MODEL_DIGEST) "]}", -ENOTSUP, "more than one file" },
        { "{\"layers\":[" LAYER("tensor; name=x", MODEL_DIGEST) "]}", -ENOTSUP, "not in a GGUF" },
    };
    _cleanup_folder_ struct folder folder = { 0 };
    assert_return_code(folder_new(&folder), 0);
    put_blobs(&folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct uma_model *model = NULL;
        struct uma_error err = { 0 };
        int e = open_text(&folder, cases[i].manifest, &model, &err);
        if (e != cases[i].code || !strstr(err.text, cases[i].says))
            fail_msg("case %zu: %d \"%s\", expected %d \"%s\"", i, e, err.text, cases[i].code, cases[i].says);
        assert_null(model);
    }
}

static void test_too_long(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    _cleanup_text_ struct uma_text text = { 0 };
    assert_return_code(folder_new(&folder), 0);
    uma_text_pad(&text, (size_t)1 << 20);
    assert_int_equal(open_text(&folder, text.data, &model, &err), -EFBIG);
    assert_non_null(strstr(err.text, "at most 65536"));
    /* a manifest with nothing but layers */
    uma_text_reset(&text);
    uma_text_append(&text, "{\"layers\":[" LAYER("model", MODEL_DIGEST));
    for (unsigned i = 0; i < 100; i++)
        uma_text_append(&text, "," LAYER("adapter", ADAPTER_DIGEST));
    uma_text_append(&text, "]}");
    assert_int_equal(open_text(&folder, text.data, &model, &err), -EINVAL);
    assert_non_null(strstr(err.text, "more than 64 layers"));
}

static void test_link_loop(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    struct uma_model *model = NULL;
    struct uma_error err = { 0 };
    char path[512], target[512];
    assert_return_code(folder_new(&folder), 0);
    put_blobs(&folder);
    folder_drop(&folder, "blobs/sha256-" MODEL_DIGEST);
    (void)snprintf(path, sizeof path, "%s/blobs/sha256-" MODEL_DIGEST, folder.path);
    (void)snprintf(target, sizeof target, "sha256-" MODEL_DIGEST);
    assert_return_code(symlink(target, path), errno);
    assert_int_equal(open_text(&folder, "{\"layers\":[" LAYER("model", MODEL_DIGEST) "]}", &model, &err), -ELOOP);
    (void)snprintf(path, sizeof path, "%s/manifests/registry.ollama.ai/library/small/loop", folder.path);
    assert_return_code(symlink("loop", path), errno);
    assert_int_equal(uma_ollama_open(path, &model, &err), -ELOOP);
    char *found = NULL;
    assert_return_code(setenv("OLLAMA_MODELS", folder.path, 1), errno);
    assert_int_equal(uma_ollama_find("small:loop", &found, &err), -ENOENT);
    /* a folder and a FIFO in place of a file are refused, not read */
    folder_drop(&folder, "blobs/sha256-" MODEL_DIGEST);
    (void)snprintf(path, sizeof path, "%s/blobs/sha256-" MODEL_DIGEST, folder.path);
    assert_return_code(mkfifo(path, 0600), errno);
    assert_int_equal(open_text(&folder, "{\"layers\":[" LAYER("model", MODEL_DIGEST) "]}", &model, &err), -EINVAL);
    assert_non_null(strstr(err.text, "is not a file"));
    assert_null(model);
}

static void expect_found(const struct folder *folder, const char *name, const char *below) {
    char *found = NULL, path[512];
    struct uma_error err = { 0 };
    if (uma_ollama_find(name, &found, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    (void)snprintf(path, sizeof path, "%s/manifests/%s", folder->path, below);
    assert_string_equal(found, path);
    free(found);
}

static void test_find(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    assert_return_code(folder_new(&folder), 0);
    folder_put(&folder, "manifests/registry.ollama.ai/library/qwen3/latest", "{}");
    folder_put(&folder, "manifests/registry.ollama.ai/library/llama3.1/8b", "{}");
    folder_put(&folder, "manifests/registry.ollama.ai/someone/tuned/v1", "{}");
    folder_put(&folder, "manifests/hf.co/org/repo/Q4_K_M", "{}");
    folder_put(&folder, "manifests/secret", "{}");
    assert_return_code(setenv("HOME", "/nonexistent", 1), errno);
    assert_return_code(setenv("OLLAMA_MODELS", folder.path, 1), errno);
    expect_found(&folder, "qwen3", "registry.ollama.ai/library/qwen3/latest");
    expect_found(&folder, "llama3.1:8b", "registry.ollama.ai/library/llama3.1/8b");
    expect_found(&folder, "library/llama3.1:8b", "registry.ollama.ai/library/llama3.1/8b");
    expect_found(&folder, "someone/tuned:v1", "registry.ollama.ai/someone/tuned/v1");
    expect_found(&folder, "hf.co/org/repo:Q4_K_M", "hf.co/org/repo/Q4_K_M");
    static const char *const absent[] = { "llama3.1",
                                          "qwen3:",
                                          ":latest",
                                          "",
                                          "/",
                                          "a//b",
                                          "../secret",
                                          "../../secret:x",
                                          "qwen3:../latest",
                                          "a/b/c/d",
                                          "hf.co/org/repo",
                                          ".hidden",
                                          "qwen3:latest:latest",
                                          "re po" };
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        char *found = NULL;
        struct uma_error err = { 0 };
        if (uma_ollama_find(absent[i], &found, &err) != -ENOENT || found)
            fail_msg("\"%s\" was found", absent[i]);
        assert_non_null(strstr(err.text, "no Ollama store"));
    }
    /* a store by name */
    assert_return_code(unsetenv("OLLAMA_MODELS"), errno);
    char name[256];
    (void)snprintf(name, sizeof name, "%s:llama3.1:8b", folder.path);
    expect_found(&folder, name, "registry.ollama.ai/library/llama3.1/8b");
    (void)snprintf(name, sizeof name, "%s/..", folder.path);
    char here[512];
    assert_non_null(getcwd(here, sizeof here));
    assert_return_code(chdir(name), errno);
    (void)snprintf(name, sizeof name, "%s:qwen3", strrchr(folder.path, '/') + 1);
    char *relative = NULL;
    assert_return_code(uma_ollama_find(name, &relative, NULL), 0);
    free(relative);
    assert_return_code(chdir(here), errno);
    /* the user's own */
    _cleanup_folder_ struct folder home = { 0 };
    assert_return_code(folder_new(&home), 0);
    folder_put(&home, ".ollama/models/manifests/registry.ollama.ai/library/phi4/latest", "{}");
    assert_return_code(setenv("HOME", home.path, 1), errno);
    char *found = NULL;
    assert_return_code(uma_ollama_find("phi4", &found, NULL), 0);
    free(found);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),    cmocka_unit_test(test_missing_blob), cmocka_unit_test(test_old_adapter),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_too_long),     cmocka_unit_test(test_link_loop),
        cmocka_unit_test(test_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
