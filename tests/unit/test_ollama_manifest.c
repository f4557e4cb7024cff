/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/text.h"
#include "observe/files/ollama_manifest.h"

#include <string.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
#define LAYER(kind, digest) "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"sha256:" digest "\",\"size\":9}"

static int parse(const char *text, struct uma_ollama_layer layers[UMA_OLLAMA_LAYERS_MAX], size_t *ret_count, struct uma_error *err) {
    return uma_ollama_manifest_parse("m", text, strlen(text), layers, ret_count, err);
}

static void test_layers(void **state) {
    (void)state;
    struct uma_ollama_layer layers[UMA_OLLAMA_LAYERS_MAX];
    size_t count = 0;
    assert_int_equal(
        parse("{\"layers\":[" LAYER("template", A) "," LAYER("model; v=1", A) "," LAYER("projector", B) "]}", layers, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_int_equal(layers[0].kind, UMA_OLLAMA_MODEL);
    assert_string_equal(layers[0].digest, A);
    assert_int_equal(layers[1].kind, UMA_OLLAMA_PROJECTOR);
    assert_int_equal(strspn(layers[1].digest, "b"), 64); /* in lower case */
}

static void test_refused(void **state) {
    (void)state;
    static const char *const cases[] = {
        "", "[]", "{}", "{\"layers\":[7]}", "{\"layers\":[" LAYER("model", "../../x") "]}", "{\"layers\":[" LAYER("model", A "/..") "]}"
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_ollama_layer layers[UMA_OLLAMA_LAYERS_MAX];
        struct uma_error err = { 0 };
        size_t count = 77;
        assert_int_equal(parse(cases[i], layers, &count, &err), -EINVAL);
        assert_int_equal(strncmp(err.text, "m", 1), 0); /* which file */
        assert_int_equal(count, 77);                    /* untouched */
    }
}

static void test_too_many(void **state) {
    (void)state;
    struct uma_ollama_layer layers[UMA_OLLAMA_LAYERS_MAX];
    struct uma_error err = { 0 };
    size_t count = 0;
    _cleanup_text_ struct uma_text text = { 0 };
    uma_text_append(&text, "{\"layers\":[" LAYER("model", A));
    for (unsigned i = 0; i < UMA_OLLAMA_LAYERS_MAX; i++)
        uma_text_append(&text, "," LAYER("adapter", A));
    uma_text_append(&text, "]}");
    assert_int_equal(parse(text.data, layers, &count, &err), -EINVAL);
    assert_non_null(strstr(err.text, "more than 64 layers"));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_layers), cmocka_unit_test(test_refused), cmocka_unit_test(test_too_many) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
