/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "base/values.h"
#include "cache/select.h"

#include <string.h>

static int setup(void **state) {
    *state = uma_arena_new(UMA_MIB);
    return *state ? 0 : -1;
}
static int teardown(void **state) {
    (void)uma_arena_free(*state);
    return 0;
}

#define FILE_OF(p, m, s)                                                                                                                   \
    {                                                                                                                                      \
        .path = (p), .model = (m), .size = {(s), UMA_KNOWN }                                                                               \
    }

static struct uma_cached_file files[] = {
    FILE_OF("/hub/a1", "Qwen/Qwen3-32B", 100),
    FILE_OF("/hub/b", "Qwen/Qwen3-8B", 50),
    FILE_OF("/hub/a2", "Qwen/Qwen3-32B", 90),
    FILE_OF("/ollama/1", "llama3.1:8b", 40),
    FILE_OF("/ollama/2", "llama3.1:70b", 400),
    FILE_OF("/ollama/3", "gemma3:latest", 30),
    FILE_OF("/ollama/4", "hf.co/unsloth/GLM:latest", 20),
    FILE_OF("/log", NULL, 1000),
    FILE_OF("/x/1", "other/Twin", 1),
    FILE_OF("/x/2", "another/twin", 2),
    { .path = "/dev/shm/m", .model = "Qwen/Qwen3-32B", .kind = UMA_CACHED_MEMORY, .size = { 500, UMA_KNOWN } },
    { .path = "/dev/vda", .kind = UMA_CACHED_BLOCK_DEVICE, .size = { 5000, UMA_KNOWN } },
    { .path = "/unknown", .size = { 0, UMA_DENIED } },
};
static const struct uma_page_cache cache = { .n_files = ELEMENTS(files), .files = files };

/* "a1 a2": the last names of what is chosen, or "-ENOENT: text". */
static const char *chosen(struct uma_arena *arena, const struct uma_cache_selection *selection) {
    static char text[1024];
    size_t n = 99;
    const struct uma_cached_file **list = NULL;
    struct uma_error err = { 0 };
    int r = uma_cache_select(&cache, selection, arena, &n, &list, &err);
    text[0] = '\0';
    if (r < 0) {
        assert_int_equal(err.code, r);
        assert_int_equal(n, 99);
        (void)snprintf(text, sizeof text, "%d: %s", r, err.text);
        return text;
    }
    for (size_t i = 0; i < n; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", list[i]->path);
    return text;
}

static void model(struct uma_arena *arena, const char *name, const char *expected) {
    struct uma_cache_selection s = { .models = &name, .n_models = 1 };
    assert_string_equal(chosen(arena, &s), expected);
}

static void names(void **state) {
    struct uma_arena *arena = *state;
    model(arena, "Qwen/Qwen3-32B", "/hub/a1 /hub/a2");
    model(arena, "qwen/qwen3-32b", "/hub/a1 /hub/a2");
    model(arena, "Qwen3-32B", "/hub/a1 /hub/a2");
    model(arena, "qwen3-8b", "/hub/b");
    model(arena, "llama3.1:8b", "/ollama/1");
    model(arena, "LLAMA3.1:70B", "/ollama/2");
    model(arena, "gemma3", "/ollama/3");
    model(arena, "gemma3:latest", "/ollama/3");
    model(arena, "hf.co/unsloth/glm", "/ollama/4");
    model(arena, "GLM", "/ollama/4");
    /* the exact name decides where others differ in case alone */
    model(arena, "other/Twin", "/x/1");
}

static void unknown_and_several(void **state) {
    char start[64];
    struct uma_arena *arena = *state;
    (void)snprintf(start, sizeof start, "%d: ", -ENOTUNIQ);
    const char *several[] = { "twin", "llama3.1" };
    for (size_t i = 0; i < ELEMENTS(several); i++) {
        struct uma_cache_selection s = { .models = &several[i], .n_models = 1 };
        const char *text = chosen(arena, &s);
        assert_memory_equal(text, start, strlen(start));
        assert_non_null(strstr(text, i ? "\"llama3.1:8b\", \"llama3.1:70b\"" : "\"other/Twin\", \"another/twin\""));
    }
    (void)snprintf(start, sizeof start, "%d: ", -ENOENT);
    const char *none = "qwen3";
    struct uma_cache_selection s = { .models = &none, .n_models = 1 };
    const char *text = chosen(arena, &s);
    assert_memory_equal(text, start, strlen(start));
    assert_non_null(strstr(text, "\"Qwen/Qwen3-32B\", \"Qwen/Qwen3-8B\"")); /* the near ones alone */
    assert_null(strstr(text, "llama"));
    none = "mistral";
    text = chosen(arena, &s);
    assert_memory_equal(text, start, strlen(start));
    assert_non_null(strstr(text, "llama3.1:8b")); /* all of them where none is near */
    none = "";
    assert_memory_equal(chosen(arena, &s), start, strlen(start));
}

static void no_models_at_all(void **state) {
    const char *name = "a";
    struct uma_page_cache empty = { 0 };
    struct uma_cache_selection s = { .models = &name, .n_models = 1 };
    struct uma_error err = { 0 };
    size_t n;
    const struct uma_cached_file **list;
    assert_int_equal(uma_cache_select(&empty, &s, *state, &n, &list, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no models"));
    s = (struct uma_cache_selection){ .all_models = true };
    assert_int_equal(uma_cache_select(&empty, &s, *state, &n, &list, &err), 0);
    assert_int_equal(n, 0);
}

static void sizes(void **state) {
    struct uma_cache_selection s = { .all_models = true };
    assert_string_equal(chosen(*state, &s), "/hub/a1 /hub/b /hub/a2 /ollama/1 /ollama/2 /ollama/3 /ollama/4 /x/1 /x/2");
    s.larger_than = 90; /* above, not at */
    assert_string_equal(chosen(*state, &s), "/hub/a1 /ollama/2");
    s = (struct uma_cache_selection){ .larger_than = 99 };
    assert_string_equal(chosen(*state, &s), "/hub/a1 /ollama/2 /log");
    const char *both[] = { "qwen3-32b", "llama3.1:8b" };
    s = (struct uma_cache_selection){ .models = both, .n_models = 2, .larger_than = 39 };
    assert_string_equal(chosen(*state, &s), "/hub/a1 /hub/a2 /ollama/1");
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(names, setup, teardown),
                                        cmocka_unit_test_setup_teardown(unknown_and_several, setup, teardown),
                                        cmocka_unit_test_setup_teardown(no_models_at_all, setup, teardown),
                                        cmocka_unit_test_setup_teardown(sizes, setup, teardown) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
