/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "model_tensors.h"
#include "base/units.h"
#include "uma_plan.h"

static const char config[] = "{\"model_type\":\"llama\"," TENSORS_CONFIG "}";

enum { WHOLE = 2 * TENSORS_LAYER_PARAMS + 2 * TENSORS_VOCAB_PARAMS + 64 };

struct fixture {
    char *folder;
    struct uma_model *model;
    struct uma_error err;
};

/* Every place that names are looked up in is below the test's folder, and empty. */
static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    f->folder = files_folder();
    assert_int_equal(setenv("HF_HUB_CACHE", files_path(f->folder, "hub"), 1), 0);
    assert_int_equal(setenv("OLLAMA_MODELS", files_path(f->folder, "ollama"), 1), 0);
    assert_int_equal(setenv("HOME", f->folder, 1), 0);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    (void)uma_model_free(f->model);
    files_remove(f->folder);
    free(f);
    return 0;
}

static int open_path(struct fixture *f, const char *path) {
    f->model = uma_model_free(f->model);
    f->err = (struct uma_error){ 0 };
    int r = uma_model_open(path, &f->model, &f->err);
    if (r == 0)
        assert_non_null(f->model);
    else
        assert_true(f->err.text[0]);
    return r;
}

static void write_model(const char *folder, const char *file) {
    struct tensors t = { 0 };
    (void)files_text(folder, "config.json", config);
    tensors_bf16(&t, "model.embed_tokens.weight", 1000, 64);
    tensors_layer(&t, 0);
    tensors_layer(&t, 1);
    tensors_bf16(&t, "model.norm.weight", 64, 0);
    tensors_bf16(&t, "lm_head.weight", 1000, 64);
    (void)tensors_write(&t, folder, file);
}

static void test_paths(void **state) {
    struct fixture *f = *state;
    write_model(f->folder, "model.safetensors");
    static const char *const paths[] = { "", ".", "model.safetensors" };
    for (size_t i = 0; i < ELEMENTS(paths); i++) {
        assert_int_equal(open_path(f, files_path(f->folder, paths[i])), 0);
        assert_int_equal(f->model->basis, UMA_BASIS_TENSORS);
        assert_int_equal(uma_model_params(f->model), WHOLE);
    }
    assert_int_equal(open_path(f, files_path(f->folder, "config.json")), 0);
    assert_int_equal(f->model->basis, UMA_BASIS_STRUCTURE);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    (void)files_text(f->folder, "other.json", config);
    assert_int_equal(open_path(f, files_path(f->folder, "other.json")), 0);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    /* without a slash */
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(chdir(f->folder), 0);
    assert_int_equal(open_path(f, "model.safetensors"), 0);
    assert_int_equal(open_path(f, "config.json"), 0);
    assert_int_equal(fchdir(here), 0);
    (void)close(here);
}

/* One part of a model, or what lies beside its weights, stands for the model. */
static void test_a_part(void **state) {
    struct fixture *f = *state;
    struct tensors t = { 0 };
    (void)files_text(f->folder, "config.json", config);
    tensors_bf16(&t, "model.embed_tokens.weight", 1000, 64);
    tensors_layer(&t, 0);
    (void)tensors_write(&t, f->folder, "model-00001-of-00002.safetensors");
    tensors_layer(&t, 1);
    tensors_bf16(&t, "model.norm.weight", 64, 0);
    (void)tensors_write(&t, f->folder, "model-00002-of-00002.safetensors");
    (void)files_text(f->folder, "model.safetensors.index.json",
                     "{\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\",\"b\":\"model-00002-of-00002.safetensors\"}}");
    static const char *const paths[] = { "model-00002-of-00002.safetensors", "model.safetensors.index.json" };
    for (size_t i = 0; i < ELEMENTS(paths); i++) {
        assert_int_equal(open_path(f, files_path(f->folder, paths[i])), 0);
        assert_int_equal(uma_model_params(f->model), WHOLE - TENSORS_VOCAB_PARAMS);
        assert_int_equal(f->model->file_count, 2);
    }
}

static void test_hub(void **state) {
    struct fixture *f = *state;
    files_make(f->folder, "hub");
    files_make(f->folder, "hub/models--org--name");
    files_make(f->folder, "hub/models--org--name/blobs");
    files_make(f->folder, "hub/models--org--name/snapshots");
    files_make(f->folder, "hub/models--org--name/snapshots/0abc");
    write_model(files_path(f->folder, "hub/models--org--name/blobs"), "w.safetensors");
    /* as the hub's client lays it out: links into blobs/ */
    assert_int_equal(symlink("../../blobs/w.safetensors", files_path(f->folder, "hub/models--org--name/snapshots/0abc/model.safetensors")),
                     0);
    assert_int_equal(symlink("../../blobs/config.json", files_path(f->folder, "hub/models--org--name/snapshots/0abc/config.json")), 0);
    assert_int_equal(open_path(f, "org/name"), 0);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_int_equal(f->model->basis, UMA_BASIS_TENSORS);
    assert_int_equal(open_path(f, files_path(f->folder, "hub/models--org--name")), 0);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_int_equal(unlink(files_path(f->folder, "hub/models--org--name/blobs/w.safetensors")), 0);
    assert_int_equal(open_path(f, "org/name"), -ENOENT);
    assert_non_null(strstr(f->err.text, "a link to a file that is not there"));
}

static void test_adapter(void **state) {
    struct fixture *f = *state;
    char text[PATH_MAX + 64];
    files_make(f->folder, "base");
    files_make(f->folder, "adapter");
    write_model(files_path(f->folder, "base"), "model.safetensors");
    (void)snprintf(text, sizeof(text), "{\"r\":16,\"base_model_name_or_path\":\"%s\"}", files_path(f->folder, "base"));
    (void)files_text(files_path(f->folder, "adapter"), "adapter_config.json", text);
    (void)files_safetensors(files_path(f->folder, "adapter"), "adapter_model.safetensors",
                            "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16);
    static const char *const paths[] = { "adapter", "adapter/adapter_config.json", "adapter/adapter_model.safetensors" };
    for (size_t i = 0; i < ELEMENTS(paths); i++) {
        assert_int_equal(open_path(f, files_path(f->folder, paths[i])), 0);
        assert_int_equal(uma_model_params(f->model), WHOLE);
        assert_int_equal(f->model->adapter_rank, 16);
        assert_int_equal(f->model->adapter_bytes, 16);
        assert_non_null(strstr(f->model->source, "adapter "));
    }
    /* of a built-in shape, of nothing that is known, of itself, of nobody */
    (void)files_text(files_path(f->folder, "adapter"), "adapter_config.json",
                     "{\"r\":16,\"base_model_name_or_path\":\"meta-llama/Llama-3.1-8B\"}");
    assert_int_equal(open_path(f, files_path(f->folder, "adapter")), 0);
    assert_int_equal(f->model->layer_count, 32);
    (void)files_text(files_path(f->folder, "adapter"), "adapter_config.json",
                     "{\"r\":16,\"base_model_name_or_path\":\"no/such-thing-zz\"}");
    assert_int_equal(open_path(f, files_path(f->folder, "adapter")), -ENOENT);
    assert_non_null(strstr(f->err.text, "is an adapter of \"no/such-thing-zz\""));
    (void)snprintf(text, sizeof(text), "{\"r\":16,\"base_model_name_or_path\":\"%s\"}", files_path(f->folder, "adapter"));
    (void)files_text(files_path(f->folder, "adapter"), "adapter_config.json", text);
    assert_int_equal(open_path(f, files_path(f->folder, "adapter")), -ELOOP);
    (void)files_text(files_path(f->folder, "adapter"), "adapter_config.json", "{\"r\":16}");
    assert_int_equal(open_path(f, files_path(f->folder, "adapter")), -EINVAL);
    assert_non_null(strstr(f->err.text, "names no base model"));
}

static void test_names(void **state) {
    struct fixture *f = *state;
    assert_int_equal(open_path(f, "meta-llama/Llama-3.1-8B"), 0);
    assert_int_equal(f->model->layer_count, 32);
    assert_int_equal(open_path(f, "no/such-thing-zz"), -ENOENT);
    assert_non_null(strstr(f->err.text, "no such file or folder, and no model of that name in the hub cache"));
    assert_non_null(strstr(f->err.text, "Ollama"));
    assert_int_equal(open_path(f, ""), -EINVAL);
    struct uma_model *model = NULL;
    assert_int_equal(uma_model_open(NULL, &model, NULL), -EINVAL);
}

static void test_other_files(void **state) {
    struct fixture *f = *state;
    assert_int_equal(open_path(f, files_text(f->folder, "x.gguf", "GGUF")), -EINVAL);
    assert_int_equal(open_path(f, files_text(f->folder, "blob", "GGUF\3")), -EINVAL);
    assert_int_equal(open_path(f, files_text(f->folder, "manifest", "{\"x\":1}")), -EINVAL);
    assert_int_equal(open_path(f, files_text(f->folder, "text", "hello")), -EINVAL);
    assert_non_null(strstr(f->err.text, "was expected"));
    assert_int_equal(open_path(f, files_text(f->folder, "empty", "")), -EINVAL);
    assert_int_equal(open_path(f, files_text(f->folder, "a.json", "")), -EINVAL);
    assert_int_equal(open_path(f, "/dev/zero"), -EINVAL);
    const char *fifo = files_path(f->folder, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(open_path(f, fifo), -EINVAL);
    const char *loop = files_path(f->folder, "loop");
    assert_int_equal(symlink("loop", loop), 0);
    assert_int_equal(open_path(f, loop), -ELOOP);
    const char *broken = files_path(f->folder, "broken");
    assert_int_equal(symlink("nothing", broken), 0);
    assert_int_equal(open_path(f, broken), -ENOENT);
    assert_non_null(strstr(f->err.text, "a link to what is not there"));
    assert_int_equal(open_path(f, files_path(f->folder, "empty/below")), -ENOENT);
    int64_t start = uma_monotonic_ns();
    assert_int_equal(open_path(f, files_write(f->folder, "config.json", "{", 1, UINT64_C(5) << 30)), -EFBIG);
    assert_true(uma_monotonic_ns() - start < UMA_SECOND_NS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_paths), TEST(test_a_part), TEST(test_hub), TEST(test_adapter), TEST(test_names), TEST(test_other_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
