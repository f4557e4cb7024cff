/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "base/units.h"
#include "plan/model/folder.h"

/* Names with spaces between them, as a list of safetensors. */
static struct uma_folder_list list_of(const char *names) {
    struct uma_folder_list list = { 0 };
    while (*names) {
        size_t n = strcspn(names, " ");
        assert_int_equal(uma_folder_names_add(&list.safetensors, names, n), 0);
        names += n + strspn(names + n, " ");
    }
    uma_folder_names_sort(&list.safetensors);
    return list;
}

static void test_choose(void **state) {
    (void)state;
    static const struct {
        const char *there, *chosen;
    } cases[] = {
        { "", "" },
        { "model.safetensors", "model.safetensors" },
        { "model.safetensors other.safetensors model.fp16.safetensors", "model.safetensors" },
        { "model-00001-of-00002.safetensors model-00002-of-00002.safetensors consolidated.safetensors adapter_model.safetensors",
          "model-00001-of-00002.safetensors model-00002-of-00002.safetensors" },
        { "model-00000-of-00002.safetensors model-00001-of-00002.safetensors",
          "model-00000-of-00002.safetensors model-00001-of-00002.safetensors" },
        { "consolidated-00001-of-00001.safetensors", "consolidated-00001-of-00001.safetensors" },
        { "model.fp16.safetensors", "model.fp16.safetensors" },
        { "a.safetensors b.safetensors optimizer.safetensors", "a.safetensors b.safetensors" },
        { "adapter_model.safetensors", "" },
        { "x-of-y.safetensors", "x-of-y.safetensors" },
        { "-of-.safetensors 1-of-.safetensors -of-1.safetensors", "-of-.safetensors -of-1.safetensors 1-of-.safetensors" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_folder_list list = list_of(cases[i].there);
        struct uma_folder_names chosen = { 0 };
        assert_int_equal(uma_folder_choose(&list, "DIR", &chosen, NULL), 0);
        char text[512] = "";
        for (size_t j = 0; j < chosen.count; j++) {
            (void)strcat(text, j ? " " : "");
            (void)strcat(text, chosen.names[j]);
        }
        assert_string_equal(text, cases[i].chosen);
        uma_folder_names_done(&chosen);
        uma_folder_list_done(&list);
    }
}

static void test_missing(void **state) {
    (void)state;
    struct uma_folder_list list = list_of("model-00001-of-00004.safetensors model-00004-of-00004.safetensors");
    struct uma_folder_names chosen = { 0 };
    struct uma_error err;
    assert_int_equal(uma_folder_choose(&list, "DIR", &chosen, &err), -ENOENT);
    assert_string_equal(err.text, "DIR: 2 of the 4 files model-...-of-00004.safetensors are missing, the first of them number 2");
    assert_int_equal(chosen.count, 0);
    uma_folder_list_done(&list);
}

static void test_kinds_of_names(void **state) {
    (void)state;
    assert_true(uma_folder_name_is_numbered("model-00002-of-00005.safetensors"));
    assert_false(uma_folder_name_is_numbered("model-00001-of-00001.safetensors"));
    assert_false(uma_folder_name_is_numbered("model-00002-of-00005.gguf"));
    assert_false(uma_folder_name_is_numbered("model.safetensors"));
    assert_true(uma_folder_name_is_beside("consolidated.00.safetensors"));
    assert_true(uma_folder_name_is_beside("adapter_model.safetensors"));
    assert_false(uma_folder_name_is_beside("model.safetensors"));
}

static void test_list(void **state) {
    (void)state;
    char *folder = files_folder();
    static const char *const names[] = { "b.safetensors",
                                         "a.safetensors",
                                         "config.json",
                                         "pytorch_model-00001-of-00002.bin",
                                         "training_args.bin",
                                         "x.gguf",
                                         "model.safetensors.index.json",
                                         "README.md",
                                         "adapter_config.json" };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        (void)files_text(folder, names[i], "");
    files_make(folder, "snapshots");
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct uma_folder_list list;
    for (int i = 0; i < 2; i++) { /* twice: listing must not move the descriptor it was given */
        assert_int_equal(uma_folder_list_read(at, folder, &list, NULL), 0);
        assert_int_equal(list.safetensors.count, 2);
        assert_string_equal(list.safetensors.names[0], "a.safetensors");
        assert_int_equal(list.pickles.count, 1);
        assert_int_equal(list.ggufs.count, 1);
        assert_int_equal(list.indexes.count, 1);
        assert_true(list.has_config && list.has_adapter_config && list.has_snapshots);
        uma_folder_list_done(&list);
    }
    (void)close(at);
    files_remove(folder);
}

/* A folder of 100,000 files of no interest, and one of more weight files than any model has; names made to be slow to choose from. */
static void test_many(void **state) {
    (void)state;
    struct uma_folder_list list = { 0 };
    char name[64];
    for (unsigned i = 0; i < UMA_FOLDER_NAMES_MAX; i++) {
        int n = snprintf(name, sizeof(name), "m-%05u-of-%05u.safetensors", i, 2 + i);
        assert_int_equal(uma_folder_names_add(&list.safetensors, name, (size_t)n), 0);
    }
    assert_int_equal(uma_folder_names_add(&list.safetensors, "more", 4), -E2BIG);
    struct uma_folder_names chosen = { 0 };
    int64_t start = uma_monotonic_ns();
    assert_int_equal(uma_folder_choose(&list, "DIR", &chosen, NULL), -ENOENT);
    assert_true(uma_monotonic_ns() - start < UMA_SECOND_NS);
    uma_folder_list_done(&list);
    char *folder = files_folder();
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < 20000; i++) {
        (void)snprintf(name, sizeof(name), "%u", i);
        int fd = openat(at, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        (void)close(fd);
    }
    start = uma_monotonic_ns();
    assert_int_equal(uma_folder_list_read(at, folder, &list, NULL), 0);
    assert_true(uma_monotonic_ns() - start < UMA_SECOND_NS);
    assert_int_equal(list.safetensors.count, 0);
    uma_folder_list_done(&list);
    (void)close(at);
    files_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choose), cmocka_unit_test(test_missing), cmocka_unit_test(test_kinds_of_names),
        cmocka_unit_test(test_list),   cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
