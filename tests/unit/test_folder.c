/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "model_tensors.h"
#include "base/units.h"
#include "plan/model/folder.h"
#include "plan/model/structure.h"

#include <sys/resource.h>

static const char config[] = "{\"model_type\":\"llama\"," TENSORS_CONFIG "}";

enum { WHOLE = 2 * TENSORS_LAYER_PARAMS + 2 * TENSORS_VOCAB_PARAMS + 64 };

struct fixture {
    char *folder;
    struct uma_model *model;
    struct uma_folder_adapter adapter;
    char *file;
    struct uma_error err;
};

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    f->folder = files_folder();
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    (void)uma_model_free(f->model);
    free(f->file);
    files_remove(f->folder);
    free(f);
    return 0;
}

static int read_folder(struct fixture *f) {
    f->model = uma_model_free(f->model);
    free(f->file);
    f->file = NULL;
    f->err = (struct uma_error){ 0 };
    return uma_folder_read(f->folder, &f->model, &f->adapter, &f->file, &f->err);
}

static bool warned(const struct fixture *f, const char *of) {
    for (uint32_t i = 0; i < f->model->warning_count; i++)
        if (strstr(f->model->warnings[i], of))
            return true;
    return false;
}

/* Two shards: embedding and a layer, a layer and the head. Returns their size together. */
static uint64_t write_shards(const char *folder, bool head) {
    struct tensors t = { 0 };
    tensors_bf16(&t, "model.embed_tokens.weight", 1000, 64);
    tensors_layer(&t, 0);
    uint64_t size = tensors_write(&t, folder, "model-00001-of-00002.safetensors");
    tensors_layer(&t, 1);
    tensors_bf16(&t, "model.norm.weight", 64, 0);
    if (head)
        tensors_bf16(&t, "lm_head.weight", 1000, 64);
    return size + tensors_write(&t, folder, "model-00002-of-00002.safetensors");
}

static void write_index(const char *folder) {
    (void)files_text(folder, "model.safetensors.index.json",
                     "{\"metadata\":{\"total_size\":405120},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
                     "\"b\":\"model-00002-of-00002.safetensors\"}}");
}

static void test_sharded(void **state) {
    struct fixture *f = *state;
    (void)files_text(f->folder, "config.json", config);
    uint64_t size = write_shards(f->folder, true);
    write_index(f->folder);
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(f->model->basis, UMA_BASIS_TENSORS);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_int_equal(uma_model_bytes(f->model), 2 * WHOLE);
    assert_int_equal(f->model->file_count, 2);
    assert_false(f->model->gguf);
    assert_int_equal(f->model->file_bytes, size);
    assert_true(f->model->largest_file > size / 2 && f->model->largest_file < size);
    assert_int_equal(f->model->largest_tensor, 2 * TENSORS_VOCAB_PARAMS);
    assert_int_equal(f->model->totals[UMA_CLASS_ATTENTION].tensors, 8);
    assert_int_equal(f->model->totals[UMA_CLASS_NORM].params, 5 * 64);
    assert_int_equal(f->model->class_format[UMA_CLASS_MLP], UMA_FORMAT_BF16);
    assert_false(f->model->tied);
    assert_int_equal(f->model->warning_count, 0);
    assert_string_equal(f->model->name, f->folder);
    assert_non_null(strstr(f->model->source, "tensors of 2 files in "));
    /* the same weights in another layout, an adapter and an optimizer beside them are not counted; a stray file is, in a warning */
    struct tensors t = { 0 };
    tensors_bf16(&t, "layers.0.attention.wq.weight", 64, 64);
    (void)tensors_write(&t, f->folder, "consolidated.safetensors");
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_int_equal(f->model->warning_count, 0);
    tensors_bf16(&t, "x", 64, 64);
    (void)tensors_write(&t, f->folder, "stray.safetensors");
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_true(warned(f, "1 weight files are not in the index and not counted (stray.safetensors)"));
}

static void test_missing_shard(void **state) {
    struct fixture *f = *state;
    (void)files_text(f->folder, "config.json", config);
    (void)write_shards(f->folder, true);
    write_index(f->folder);
    assert_int_equal(unlink(files_path(f->folder, "model-00002-of-00002.safetensors")), 0);
    assert_int_equal(read_folder(f), -ENOENT);
    assert_non_null(strstr(f->err.text, "1 of the 2 weight files that its index names are missing: model-00002-of-00002.safetensors"));
    /* a download that was not finished leaves a link to nothing */
    assert_int_equal(symlink("../../blobs/0", files_path(f->folder, "model-00002-of-00002.safetensors")), 0);
    assert_int_equal(read_folder(f), -ENOENT);
    assert_int_equal(unlink(files_path(f->folder, "model.safetensors.index.json")), 0);
    assert_int_equal(unlink(files_path(f->folder, "model-00002-of-00002.safetensors")), 0);
    assert_int_equal(read_folder(f), -ENOENT);
    assert_non_null(strstr(f->err.text, "1 of the 2 files model-...-of-00002.safetensors are missing"));
    /* none there: then the folder is a configuration */
    assert_int_equal(unlink(files_path(f->folder, "model-00001-of-00002.safetensors")), 0);
    write_index(f->folder);
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(f->model->basis, UMA_BASIS_STRUCTURE);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_int_equal(f->model->file_count, 0);
    assert_true(warned(f, "no weights in"));
}

static void test_index_of_former_files(void **state) {
    struct fixture *f = *state;
    struct tensors t = { 0 };
    (void)files_text(f->folder, "config.json", config);
    write_index(f->folder);
    tensors_bf16(&t, "model.embed_tokens.weight", 1000, 64);
    tensors_layer(&t, 0);
    tensors_layer(&t, 1);
    tensors_bf16(&t, "model.norm.weight", 64, 0);
    (void)tensors_write(&t, f->folder, "model.safetensors");
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(uma_model_params(f->model), WHOLE - TENSORS_VOCAB_PARAMS);
    assert_true(f->model->tied); /* whatever the configuration says: there is no lm_head */
    assert_true(warned(f, "none of the files that the index names is there"));
}

static void test_without_config(void **state) {
    struct fixture *f = *state;
    (void)write_shards(f->folder, true);
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_int_equal(f->model->hidden, 64);
    assert_int_equal(f->model->vocab, 1000);
    assert_int_equal(f->model->layer_count, 2);
    assert_int_equal(f->model->layers[1].ffn_size, 128);
    assert_false(f->model->architecture_known);
    assert_true(warned(f, "no config.json"));
    /* a configuration that says too little is no better than none; one that is broken is an error */
    (void)files_text(f->folder, "config.json", "{\"model_type\":\"new\",\"vocab_size\":1000}");
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(f->model->hidden, 64);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_true(warned(f, "the shape is taken from the tensors: "));
    (void)files_text(f->folder, "config.json", "{\"model_type\":");
    assert_int_equal(read_folder(f), -EINVAL);
    assert_non_null(strstr(f->err.text, "config.json: byte"));
}

/* An architecture that nobody knows, with its numbers stated. */
static void test_unknown_architecture(void **state) {
    struct fixture *f = *state;
    (void)write_shards(f->folder, false);
    (void)files_text(f->folder, "config.json", "{\"model_type\":\"shiny\"," TENSORS_CONFIG "}");
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(uma_model_params(f->model), WHOLE - TENSORS_VOCAB_PARAMS);
    assert_int_equal(f->model->basis, UMA_BASIS_TENSORS);
    assert_false(f->model->architecture_known);
    assert_true(warned(f, "shiny"));
}

static void test_shape_and_tensors_differ(void **state) {
    struct fixture *f = *state;
    (void)write_shards(f->folder, true);
    (void)files_text(
        f->folder, "config.json",
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
        "\"intermediate_size\":128,\"vocab_size\":1000}");
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_true(warned(f, "billion parameters"));
}

static void test_pickles(void **state) {
    struct fixture *f = *state;
    (void)files_text(f->folder, "config.json", config);
    (void)files_write(f->folder, "pytorch_model.bin", "PK", 2, 4 * WHOLE);
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(f->model->file_bytes, 4 * WHOLE);
    assert_int_equal(f->model->file_count, 1);
    assert_int_equal(uma_model_bytes(f->model), 4 * WHOLE); /* stored as fp32, by its size */
    assert_int_equal(f->model->basis, UMA_BASIS_STRUCTURE);
    assert_true(warned(f, "are not looked into"));
}

static void test_adapter(void **state) {
    struct fixture *f = *state;
    (void)files_text(f->folder, "adapter_config.json", "{\"r\":32,\"base_model_name_or_path\":\"org/base\"}");
    (void)files_safetensors(f->folder, "adapter_model.safetensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
                            16);
    assert_int_equal(read_folder(f), UMA_FOLDER_ADAPTER);
    assert_int_equal(f->adapter.rank, 32);
    assert_int_equal(f->adapter.bytes, 16);
    assert_string_equal(f->adapter.base, "org/base");
    /* beside a whole model it is an addition */
    (void)files_text(f->folder, "config.json", config);
    (void)write_shards(f->folder, true);
    assert_int_equal(read_folder(f), UMA_FOLDER_MODEL);
    assert_int_equal(uma_model_params(f->model), WHOLE);
    assert_int_equal(f->model->adapter_rank, 32);
    assert_int_equal(f->model->adapter_bytes, 16);
}

static void test_ggufs(void **state) {
    struct fixture *f = *state;
    (void)files_text(f->folder, "mmproj-x.gguf", "");
    (void)files_text(f->folder, "x-00002-of-00002.gguf", "");
    (void)files_text(f->folder, "x-00001-of-00002.gguf", "");
    assert_int_equal(read_folder(f), UMA_FOLDER_GGUF);
    assert_string_equal(f->file, files_path(f->folder, "x-00001-of-00002.gguf"));
    (void)files_text(f->folder, "y.gguf", "");
    assert_int_equal(read_folder(f), -EINVAL);
    assert_non_null(strstr(f->err.text, "several models"));
}

static void test_nothing(void **state) {
    struct fixture *f = *state;
    assert_int_equal(read_folder(f), -ENOENT);
    assert_non_null(strstr(f->err.text, "neither config.json nor safetensors nor GGUF"));
    files_make(f->folder, "snapshots");
    assert_int_equal(read_folder(f), UMA_FOLDER_SNAPSHOTS);
    assert_int_equal(uma_folder_read("/nowhere/at/all", &f->model, &f->adapter, &f->file, &f->err), -ENOENT);
}

static void test_single(void **state) {
    struct fixture *f = *state;
    struct tensors t = { 0 };
    tensors_bf16(&t, "model.embed_tokens.weight", 1000, 64);
    tensors_layer(&t, 0);
    (void)tensors_write(&t, f->folder, "any.safetensors");
    const char *path = files_path(f->folder, "any.safetensors");
    assert_int_equal(uma_folder_read_single(path, &f->model, &f->err), 0);
    assert_int_equal(uma_model_params(f->model), TENSORS_LAYER_PARAMS + TENSORS_VOCAB_PARAMS);
    assert_string_equal(f->model->name, path);
    f->model = uma_model_free(f->model);
    assert_int_equal(uma_folder_read_single("/nowhere.safetensors", &f->model, &f->err), -ENOENT);
}

/* Weights that are a FIFO, a loop of links, or lie: an error that names the file, at once. */
static void test_hostile(void **state) {
    struct fixture *f = *state;
    int64_t start = uma_monotonic_ns();
    (void)files_text(f->folder, "config.json", config);
    const char *path = files_path(f->folder, "model.safetensors");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(read_folder(f), -EINVAL);
    assert_non_null(strstr(f->err.text, "model.safetensors: not a regular file"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("model.safetensors", path), 0);
    assert_int_equal(read_folder(f), -ELOOP);
    assert_int_equal(unlink(path), 0);
    (void)files_write(f->folder, "model.safetensors", "\0\0\0@\1\0\0\0{", 9,
                      UINT64_C(6) << 30); /* a header of 5 GB, and the bytes are there */
    assert_int_equal(read_folder(f), -EINVAL);
    assert_non_null(strstr(f->err.text, "the format allows"));
    (void)files_write(f->folder, "config.json", "{", 1, UINT64_C(5) << 30);
    assert_int_equal(read_folder(f), -EFBIG);
    assert_true(uma_monotonic_ns() - start < UMA_SECOND_NS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_sharded),
        TEST(test_missing_shard),
        TEST(test_index_of_former_files),
        TEST(test_without_config),
        TEST(test_unknown_architecture),
        TEST(test_shape_and_tensors_differ),
        TEST(test_pickles),
        TEST(test_adapter),
        TEST(test_ggufs),
        TEST(test_nothing),
        TEST(test_single),
        TEST(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
