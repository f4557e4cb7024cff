/* SPDX-License-Identifier: MIT */
#include "test.h"

#include "base/text.h"
#include "base/units.h"
#include "observe/files/stores.h"

#include <string.h>

#define HASH40 "0123456789abcdef0123456789abcdef01234567"
#define HASH64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct expected {
    const char *path, *model;
};

static void check(const struct expected *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
        const char *model = uma_model_of_path(cases[i].path, NULL, arena);
        if (!model != !cases[i].model || (model && strcmp(model, cases[i].model) != 0))
            fail_msg("%s: \"%s\", expected \"%s\"", cases[i].path, model ? model : "(none)", cases[i].model ? cases[i].model : "(none)");
    }
}

static void hub(void **state) {
    (void)state;
    static const struct expected cases[] = {
        { "/home/u/.cache/huggingface/hub/models--Qwen--Qwen3-32B/blobs/" HASH64, "Qwen/Qwen3-32B" },
        { "/home/u/.cache/huggingface/hub/models--Qwen--Qwen3-32B/blobs/" HASH40, "Qwen/Qwen3-32B" },
        { "/home/u/.cache/huggingface/hub/models--Qwen--Qwen3-32B/blobs/" HASH64 ".incomplete", "Qwen/Qwen3-32B" },
        { "/h/models--Qwen--Qwen3-32B/snapshots/" HASH40 "/model-00001-of-00017.safetensors", "Qwen/Qwen3-32B" },
        { "/h/models--Qwen--Qwen3-32B/snapshots/" HASH40 "/tokenizer.json", "Qwen/Qwen3-32B" },
        { "/h/models--Qwen--Qwen3-32B/refs/main", "Qwen/Qwen3-32B" },
        { "/h/models--Wan-AI--Wan2.2/snapshots/a/transformer/x.safetensors", "Wan-AI/Wan2.2" },
        { "/h/models--gpt2/blobs/" HASH64, "gpt2" },
        { "/opt/nim/.cache/ngc/hub/models--nim--meta--llama-3.1-8b/snapshots/x/y", "nim/meta/llama-3.1-8b" },
        { "models--a--b/x", "a/b" },
        { "/h/models--", NULL },
        { "/h/models--/x.txt", NULL },
        { "/h/models--a--b", NULL }, /* the folder itself */
        { "/h/datasets--a--b/blobs/" HASH64, NULL },
        { "/h/datasets--a--b/snapshots/x/model.safetensors", NULL },
        { "/h/spaces--a--b/snapshots/x/model.safetensors", NULL },
        { "/h/.locks/models--a--b/x.lock", NULL },
        { "/h/version.txt", NULL },
    };
    check(cases, ELEMENTS(cases));
}

static void other_stores(void **state) {
    (void)state;
    static const struct expected cases[] = {
        { "/home/u/.lmstudio/models/lmstudio-community/gemma-3-27b-it-GGUF/gemma-3-27b-it-Q4_K_M.gguf",
          "lmstudio-community/gemma-3-27b-it-GGUF" },
        { "/home/u/.lmstudio/models/a/b/x-00001-of-00002.gguf", "a/b" },
        { "/home/u/.lmstudio/models/a/b/mmproj-model-f16.gguf", "a/b" },
        { "/home/u/.cache/modelscope/hub/models/Qwen/Qwen2___5-7B/model-00001-of-00004.safetensors", "Qwen/Qwen2.5-7B" },
        { "/home/u/.cache/modelscope/hub/Qwen/Qwen2___5-7B/config.json", "Qwen/Qwen2.5-7B" },
        { "/home/u/.cache/modelscope/hub/models/._____temp/Qwen/Qwen3/model.safetensors", "Qwen/Qwen3" },
        { "/home/u/.cache/modelscope/hub/datasets/a/b/x.safetensors", NULL },
        { "/home/u/.cache/modelscope/hub/models/x", NULL },
        { "/home/u/.cache/llama.cpp/ggml-org_gemma-3-4b-it-GGUF_gemma-3-4b-it-Q4_K_M.gguf",
          "ggml-org_gemma-3-4b-it-GGUF_gemma-3-4b-it-Q4_K_M" },
        { "/home/u/.cache/torch/hub/checkpoints/resnet50-0676ba61.pth", "resnet50-0676ba61" },
        { "/home/u/ComfyUI/models/checkpoints/flux1-dev-fp8.safetensors", "flux1-dev-fp8" },
        { "/home/u/ComfyUI/models/diffusion_models/wan/wan2.2_high_noise.safetensors", "wan2.2_high_noise" },
        { "/home/u/webui/models/Stable-diffusion/v1-5-pruned.ckpt", "v1-5-pruned" },
        { "/root/.ollama/models/blobs/sha256-" HASH64, NULL }, /* nobody told its name */
        { "/root/.ollama/models/manifests/registry.ollama.ai/library/llama3.1/8b", NULL },
    };
    check(cases, ELEMENTS(cases));
}

static void folders(void **state) {
    (void)state;
    static const struct expected cases[] = {
        { "/models/Qwen3-32B/model-00001-of-00017.safetensors", "Qwen3-32B" },
        { "/models/Qwen3-32B/model.safetensors", "Qwen3-32B" },
        { "/models/Qwen3-32B/config.json", NULL },
        { "/models/Qwen3-32B/", NULL },
        { "/models/Qwen/Qwen3-32B/model.safetensors", "Qwen3-32B" },
        { "/models/Qwen3-32B/own-name.safetensors", "Qwen3-32B" },
        { "/runs/sft/checkpoint-500/model.safetensors", "sft/checkpoint-500" },
        { "/runs/sft/global_step1000/mp_rank_00_model_states.pt", "sft/global_step1000" },
        { "/models/Llama-3.1-8B/original/consolidated.00.pth", "Llama-3.1-8B/original" },
        { "/data/Wan2.2/transformer/diffusion_pytorch_model-00001-of-00003.safetensors", "Wan2.2/transformer" },
        { "/data/Wan2.2/text_encoder_2/model.fp16.safetensors", "Wan2.2/text_encoder_2" },
        { "/data/nemo_run/weights/__0_1.distcp", "nemo_run/weights" },
        { "/triton/resnet/1/model.plan", "resnet/1" },
        { "/engines/llama/fp16/rank0.engine", "llama/fp16" },
        { "/x/foo/snapshots/" HASH40 "/model.safetensors", "foo" },
        { "/snapshots/model.safetensors", "model.safetensors" },
        { "/models/model.safetensors", "models" },
        { "/models/one.safetensors", "one" },
        { "/tmp/one.safetensors", "one" },
        { "/home/u/one.pt", "one" },
        { "/home/u/Downloads/one.safetensors.part", "one" },
        { "/model.safetensors", "model" },
        { "model.safetensors", "model" },
        { "a/model.safetensors", "a" },
        { "//a///b//./model.safetensors", "b" },
        { "/a/deep/1/2/3/4/5/model.safetensors", "2/3/4/5" },
        { ".safetensors", NULL },
        { "", NULL },
        { "/", NULL },
        { "///", NULL },
        { "/usr/bin/python3", NULL },
        { "/usr/lib/python3/dist-packages/distutils-precedence.pth", NULL },
        { "/lib/firmware/nvidia/gsp.bin", NULL },
    };
    check(cases, ELEMENTS(cases));
}

static void single_files(void **state) {
    (void)state;
    static const struct expected cases[] = {
        { "/x/y/gpt-oss-120b-00001-of-00003.gguf", "gpt-oss-120b" },
        { "/x/y/Qwen3-8B-Q4_K_M.gguf", "Qwen3-8B-Q4_K_M" },
        { "/x/y/Qwen3-8B-Q4_K_M.GGUF", "Qwen3-8B-Q4_K_M" },
        { "/x/llama-2-7b/ggml-model-q4_0.gguf", "llama-2-7b" },
        { "x-00001-of-00003.gguf", "x" },
        { "/x/00001-of-00003.gguf", "x" },
        { "/x/y/parakeet-tdt.nemo", "parakeet-tdt" },
        { "/x/y/a-of-b.gguf", "a-of-b" },
        { "/x/y/a-1-of-.gguf", "a-1-of-" },
    };
    check(cases, ELEMENTS(cases));
}

static void weight_files(void **state) {
    (void)state;
    static const char *const weights[] = { "a.safetensors",
                                           "/x/A.GGUF",
                                           "pytorch_model-00001-of-00002.bin",
                                           "pytorch_model.bin",
                                           "a.pt",
                                           "a.pth",
                                           "a.ckpt",
                                           "a.onnx",
                                           "a.onnx_data",
                                           "a.nemo",
                                           "a.engine",
                                           "a.plan",
                                           "__0_0.distcp",
                                           "a.npz",
                                           "a.h5",
                                           "a.msgpack",
                                           "/h/models--a--b/blobs/" HASH64,
                                           "/o/blobs/sha256-" HASH64,
                                           "/o/blobs/sha256-" HASH64 "-partial-0",
                                           "a.safetensors.incomplete",
                                           "/x/shards-00001-of-00009.bin" };
    static const char *const others[] = { "a.json",
                                          "a.txt",
                                          "safetensors",
                                          ".safetensors",
                                          "a.bin",
                                          "bzImage.bin",
                                          "/h/models--a--b/blobs/" HASH40,
                                          "/o/blobs/" HASH64,
                                          "/o/sha256-" HASH64,
                                          "/o/blobs/sha256-" HASH64 "0",
                                          "a.safetensors/",
                                          "",
                                          "/",
                                          "x/site-packages/a.pth",
                                          "model.safetensors.index.json" };
    for (size_t i = 0; i < ELEMENTS(weights); i++)
        if (!uma_is_weight_file(weights[i]))
            fail_msg("%s is a file of weights", weights[i]);
    for (size_t i = 0; i < ELEMENTS(others); i++)
        if (uma_is_weight_file(others[i]))
            fail_msg("%s is no file of weights", others[i]);
}

/* Any bytes and any length: a name that is made is bounded and is text. */
static void hostile(void **state) {
    (void)state;
    _cleanup_arena_ struct uma_arena *arena = uma_arena_new(UMA_MIB);
    assert_string_equal(uma_model_of_path("/m/models--\xff\xfe--a\nb/x", NULL, arena), "\\xff\\xfe/a\nb");
    _cleanup_text_ struct uma_text path = { 0 };
    for (unsigned i = 0; i < 100000; i++)
        uma_text_append(&path, "/1");
    uma_text_append(&path, "/model.safetensors");
    assert_string_equal(uma_model_of_path(path.data, NULL, arena), "1/1/1/1");
    uma_text_reset(&path);
    uma_text_append(&path, "/models--");
    for (unsigned i = 0; i < 1000000; i++)
        uma_text_char(&path, 'a');
    uma_text_append(&path, "/x");
    assert_in_range(strlen(uma_model_of_path(path.data, NULL, arena)), 255, 4096);
    _cleanup_arena_ struct uma_arena *none = uma_arena_new(16);
    assert_null(uma_model_of_path("/models/a-name-that-does-not-fit-the-arena/model.safetensors", NULL, none));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(hub),          cmocka_unit_test(other_stores), cmocka_unit_test(folders),
                                        cmocka_unit_test(single_files), cmocka_unit_test(weight_files), cmocka_unit_test(hostile) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
