/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "plan/model/open.h"

static void test_cache(void **state) {
    (void)state;
    static const char *const names[] = { "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME" };
    static const char *const places[] = { "/a", "/n", "/b/hub", "/c/huggingface/hub", "/d/.cache/huggingface/hub" };
    static const char *const values[] = { "/a", "/n", "/b", "/c", "/d" };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        assert_int_equal(setenv(names[i], values[i], 1), 0);
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        char *cache = uma_open_hub_cache();
        assert_string_equal(cache, places[i]);
        free(cache);
        assert_int_equal(setenv(names[i], "", 1), 0); /* empty is not set */
    }
    assert_null(uma_open_hub_cache());
}

static char *make_cache(void) {
    char *folder = files_folder();
    files_make(folder, "models--org--name");
    files_make(folder, "models--org--name/refs");
    files_make(folder, "models--org--name/snapshots");
    files_make(folder, "models--org--name/snapshots/aaa");
    files_make(folder, "models--org--name/snapshots/bbb");
    static const struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    assert_int_equal(utimensat(AT_FDCWD, files_path(folder, "models--org--name/snapshots/aaa"), old, 0), 0);
    return folder;
}

static void expect(const char *cache, const char *name, const char *snapshot) {
    char *path = NULL;
    struct uma_error err = { 0 };
    int r = uma_open_hub_find(cache, name, &path, &err);
    if (r != 0)
        fail_msg("%s: %d %s", name, r, err.text);
    assert_string_equal(path, files_path(cache, snapshot));
    free(path);
}

static void test_find(void **state) {
    (void)state;
    char *cache = make_cache(), *path = NULL;
    struct uma_error err = { 0 };
    expect(cache, "org/name", "models--org--name/snapshots/bbb"); /* the newest */
    (void)files_text(cache, "models--org--name/refs/main", "aaa\n");
    expect(cache, "org/name", "models--org--name/snapshots/aaa");
    static const char *const refs[] = { "ccc", "..", "../../x", "", "." };
    for (size_t i = 0; i < ELEMENTS(refs); i++) { /* to what is not there, or not a name: the newest again */
        (void)files_text(cache, "models--org--name/refs/main", refs[i]);
        expect(cache, "org/name", "models--org--name/snapshots/bbb");
    }
    (void)files_write(cache, "models--org--name/refs/main", "aaa", 3, 1 << 20);
    expect(cache, "org/name", "models--org--name/snapshots/bbb");
    static const char *const names[] = { "org/other", "name", "", "/", "org/", "/name", "a/b/c", "../models--org--name", "org name", "." };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        assert_int_equal(uma_open_hub_find(cache, names[i], &path, &err), -ENOENT);
    assert_null(path);
    files_remove(cache);
}

static void test_without_snapshots(void **state) {
    (void)state;
    char *cache = files_folder(), *path = NULL;
    struct uma_error err = { 0 };
    files_make(cache, "models--name");
    assert_int_equal(uma_open_hub_find(cache, "name", &path, &err), -ENOENT);
    assert_non_null(strstr(err.text, "snapshots"));
    files_make(cache, "models--name/snapshots");
    (void)files_text(cache, "models--name/snapshots/file", "");
    assert_int_equal(uma_open_hub_find(cache, "name", &path, &err), -ENOENT);
    assert_non_null(strstr(err.text, "nothing was downloaded"));
    files_remove(cache);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_find), cmocka_unit_test(test_without_snapshots),
                                        cmocka_unit_test(test_cache) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
