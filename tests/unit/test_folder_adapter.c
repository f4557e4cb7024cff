/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "model_files.h"
#include "plan/model/folder.h"

static void test_parse(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t rank;
        const char *base;
    } cases[] = {
        { "{\"r\":16,\"base_model_name_or_path\":\"org/name\",\"lora_alpha\":32,\"target_modules\":[\"q_proj\"]}", 16, "org/name" },
        { "{\"r\":8,\"rank_pattern\":{\"a\":64,\"b\":4,\"c\":null},\"base_model_name_or_path\":null}", 64, "" },
        { "{\"peft_type\":\"IA3\"}", 0, "" },
        { "{\"r\":\"16\"}", 0, "" },
        { "{\"r\":99999999999}", 0, "" },
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        struct uma_folder_adapter adapter;
        assert_int_equal(uma_folder_adapter_parse(cases[i].text, strlen(cases[i].text), "a", &adapter, NULL), 0);
        assert_int_equal(adapter.rank, cases[i].rank);
        assert_string_equal(adapter.base, cases[i].base);
    }
    static const char *const bad[] = {
        "", "[]", "{\"r\":1", "{\"r\":1}}", "{\"rank_pattern\":{\"a\"}}", "{\"base_model_name_or_path\":\"a\\u0000b\"}"
    };
    for (size_t i = 0; i < ELEMENTS(bad); i++) {
        struct uma_folder_adapter adapter = { .rank = 5 };
        struct uma_error err = { 0 };
        assert_int_equal(uma_folder_adapter_parse(bad[i], strlen(bad[i]), "a", &adapter, &err), -EINVAL);
        assert_int_equal(adapter.rank, 5);
        assert_true(err.text[0]);
    }
}

static void test_read(void **state) {
    (void)state;
    char *folder = files_folder();
    int at = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct uma_folder_adapter adapter;
    struct uma_error err;
    assert_int_equal(uma_folder_adapter_read(at, folder, &adapter, &err), -ENOENT);
    (void)files_text(folder, "adapter_config.json", "{\"base_model_name_or_path\":\"b\"}");
    assert_int_equal(uma_folder_adapter_read(at, folder, &adapter, &err), 0); /* not trained yet */
    assert_int_equal(adapter.bytes, 0);
    (void)files_text(folder, "adapter_model.bin", "12345");
    assert_int_equal(uma_folder_adapter_read(at, folder, &adapter, &err), 0);
    assert_int_equal(adapter.bytes, 5);
    (void)files_safetensors(folder, "adapter_model.safetensors",
                            "{\"m.q_proj.lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[8,64],\"data_offsets\":[0,2048]},"
                            "\"m.q_proj.lora_B.weight\":{\"dtype\":\"F32\",\"shape\":[64,8],\"data_offsets\":[2048,4096]}}",
                            4096);
    assert_int_equal(uma_folder_adapter_read(at, folder, &adapter, &err), 0);
    assert_int_equal(adapter.bytes, 4096);
    assert_int_equal(adapter.rank, 8); /* from the matrices */
    (void)files_text(folder, "adapter_model.safetensors", "broken");
    assert_int_equal(uma_folder_adapter_read(at, folder, &adapter, &err), -EINVAL);
    (void)close(at);
    files_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_parse), cmocka_unit_test(test_read) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
