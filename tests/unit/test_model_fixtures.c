/* SPDX-License-Identifier: MIT */
/* The models that tests/fixtures/make_models.py writes are read as it says: one model in every form that people keep it in. */
#include "test.h"

#include "folder.h"
#include "plan/model/structure.h"

#include <jansson.h>
#include <string.h>
#include <sys/wait.h>

static bool make_models(const struct folder *folder) {
    const char *fixtures = getenv("UMA_FIXTURES");
    char script[512];
    (void)snprintf(script, sizeof script, "%s/make_models.py", fixtures ? fixtures : ".");
    pid_t pid = fork();
    if (pid == 0) {
        (void)freopen("/dev/null", "w", stdout);
        (void)execlp("python3", "python3", "-B", script, folder->path, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static uint64_t number(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void check(const struct folder *folder, const char *name, const json_t *expected) {
    static const char *const classes[] = { "embedding", "lm_head", "norm", "attention", "mixer", "mlp", "experts", "router", "vision" };
    char path[512];
    struct uma_error err = { 0 };
    _cleanup_model_ struct uma_model *model = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, json_string_value(json_object_get(expected, "path")));
    if (uma_model_open(path, &model, &err) < 0)
        fail_msg("%s: %s", name, err.text);
    if (uma_model_params(model) != number(expected, "params") || uma_model_bytes(model) != number(expected, "bytes"))
        fail_msg("%s: %llu parameters, %llu bytes", name, (unsigned long long)uma_model_params(model),
                 (unsigned long long)uma_model_bytes(model));
    for (unsigned i = 0; i < sizeof classes / sizeof classes[0]; i++) {
        const json_t *one = json_object_get(json_object_get(expected, "classes"), classes[i]);
        if (model->totals[i].params != number(one, "params") || model->totals[i].bytes != number(one, "bytes"))
            fail_msg("%s, %s: %llu parameters, %llu bytes", name, classes[i], (unsigned long long)model->totals[i].params,
                     (unsigned long long)model->totals[i].bytes);
    }
    assert_int_equal(model->layer_count, number(expected, "layers"));
    assert_int_equal(model->hidden, number(expected, "hidden"));
    assert_int_equal(model->vocab, number(expected, "vocab"));
    assert_int_equal(model->file_count, number(expected, "files"));
    assert_int_equal(model->default_context, number(expected, "default_context"));
    assert_int_equal(model->layers[1].kv_heads, 4);
    assert_int_equal(model->layers[1].head_dim, 64);
    assert_int_equal(model->layers[1].ffn_size, 2816);
    assert_false(model->tied);
    assert_int_equal(model->warning_count, 0);
}

static void test_every_form(void **state) {
    (void)state;
    _cleanup_folder_ struct folder folder = { 0 };
    assert_return_code(folder_new(&folder), 0);
    if (!make_models(&folder))
        SKIP_BECAUSE("there is no python3 here");
    _cleanup_free_
    char *text = folder_get(&folder, "expected.json", NULL);
    assert_non_null(text);
    json_t *expected = json_loads(text, 0, NULL), *entry;
    const char *name;
    assert_int_equal(json_object_size(expected), 7);
    json_object_foreach(expected, name, entry) check(&folder, name, entry);
    json_decref(expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
