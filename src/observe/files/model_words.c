/* SPDX-License-Identifier: MIT */
#include "observe/files/model_words.h"

#include "base/cleanup.h"

#include <string.h>
#include <strings.h>

bool uma_word_is(struct uma_word word, const char *text) {
    return strlen(text) == word.length && strncasecmp(word.text, text, word.length) == 0;
}

bool uma_word_begins(struct uma_word word, const char *prefix) {
    size_t n = strlen(prefix);
    return word.length >= n && strncasecmp(word.text, prefix, n) == 0;
}

bool uma_word_ends(struct uma_word word, const char *suffix) {
    size_t n = strlen(suffix);
    return word.length > n && strncasecmp(word.text + word.length - n, suffix, n) == 0;
}

static bool is_one_of(struct uma_word word, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (uma_word_is(word, list[i]))
            return true;
    return false;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
static bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
static size_t hex_digits(struct uma_word word) {
    size_t n = 0;
    while (n < word.length && is_hex(word.text[n]))
        n++;
    return n;
}
static bool is_number(struct uma_word word) {
    for (size_t i = 0; i < word.length; i++)
        if (!is_digit(word.text[i]))
            return false;
    return word.length > 0;
}

/*
 * "checkpoint-500", "step_1000", "epoch=3-step=100", "fp16", "rank0": the given word, then nothing, or digits and signs that begin with a digit or
 * sign. "stepfun" and "partner" are other words.
 */
static bool is_counted(struct uma_word word, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!uma_word_begins(word, words[i]))
            continue;
        struct uma_word rest = { word.text + strlen(words[i]), word.length - strlen(words[i]) };
        if (rest.length == 0 || is_digit(rest.text[0]) || strchr("-_.=", rest.text[0]))
            return true;
    }
    return false;
}

/* ---- files -------------------------------------------------------------------------------------------------- */

/* Endings of formats that hold weights: safetensors, llama.cpp, PyTorch, ONNX, NeMo, TensorRT, torch.distributed.checkpoint, NumPy, Keras, Flax, Paddle,
 * TensorFlow Lite, CoreWeave's tensorizer. */
static const char *const endings[] = { ".safetensors", ".gguf",      ".ggml",   ".llamafile", ".pt",      ".pth",    ".ckpt", ".onnx",
                                       ".onnx_data",   ".onnx.data", ".nemo",   ".engine",    ".plan",    ".distcp", ".npz",  ".h5",
                                       ".keras",       ".msgpack",   ".tflite", ".pdparams",  ".tensors", ".pt2" };
/* ".bin" is anybody's: firmware, disks, programs. With these in front, or numbered as a part of a set, it is a model's. */
static const char *const bin_names[] = {
    "pytorch_model", "adapter_model", "diffusion_pytorch_model", "open_clip_pytorch_model", "consolidated", "ggml-", "model", "weights",
    "optimizer",     "tf_model"
};
/* What programs put behind a name until it is whole (huggingface_hub, aria2 and wget wrappers, browsers, Ollama's and LM Studio's own). */
static const char *const unfinished[] = { ".incomplete", ".part", ".partial", ".crdownload", ".downloading" };

static struct uma_word finished(struct uma_word file) {
    for (size_t i = 0; i < ELEMENTS(unfinished); i++)
        if (uma_word_ends(file, unfinished[i]))
            return (struct uma_word){ file.text, file.length - strlen(unfinished[i]) };
    return file;
}

bool uma_word_is_weights(struct uma_word file) {
    file = finished(file);
    for (size_t i = 0; i < ELEMENTS(endings); i++)
        if (uma_word_ends(file, endings[i]))
            return true;
    if (!uma_word_ends(file, ".bin"))
        return false;
    struct uma_word stem = { file.text, file.length - 4 };
    if (uma_word_unnumber(&stem))
        return true;
    for (size_t i = 0; i < ELEMENTS(bin_names); i++)
        if (uma_word_begins(stem, bin_names[i]))
            return true;
    return false;
}

struct uma_word uma_weight_stem(struct uma_word file) {
    file = finished(file);
    for (size_t i = 0; i < ELEMENTS(endings); i++)
        if (uma_word_ends(file, endings[i]))
            return (struct uma_word){ file.text, file.length - strlen(endings[i]) };
    if (uma_word_ends(file, ".bin"))
        file.length -= 4;
    return file;
}

bool uma_word_unnumber(struct uma_word *stem) {
    /* "-NNNNN-of-NNNNN" (transformers, llama.cpp), with any number of digits */
    size_t at = stem->length, digits = 0;
    for (; at > 0 && is_digit(stem->text[at - 1]); digits++)
        at--;
    if (digits == 0 || at < 4 || strncasecmp(stem->text + at - 4, "-of-", 4) != 0)
        return false;
    at -= 4;
    for (digits = 0; at > 0 && is_digit(stem->text[at - 1]); digits++)
        at--;
    if (digits == 0 || (at > 0 && stem->text[at - 1] != '-' && stem->text[at - 1] != '_'))
        return false;
    stem->length = at > 0 ? at - 1 : 0;
    return true;
}

bool uma_word_is_generic_file(struct uma_word stem) {
    static const char *const names[] = {
        "pytorch_model",
        "tf_model",
        "flax_model",
        "diffusion_pytorch_model",
        "open_clip_pytorch_model",
        "adapter_model",
        "adapters",
        "adapter",
        "optimizer",
        "optim",
        "scheduler",
        "training_args",
        "trainer_state",
        "scaler",
        "last",
        "best",
        "final",
        "latest",
        "weights",
        "unet",
        "vae",
        "text_encoder",
        "encoder",
        "decoder",
        "transformer",
        "model_index",
        "params",
        "open_clip_model",
        "sentence_bert",
        "ema",
        "common",
        "saved_model",
    };
    /* with a number or a sign behind: parts of what torch.distributed.checkpoint, DeepSpeed, Megatron, Lightning, TensorRT-LLM and llama.cpp write */
    static const char *const counted[] = {
        "model",        "pytorch_model", "consolidated",  "checkpoint", "ckpt",       "step",    "global_step", "epoch",
        "iter",         "rank",          "shard",         "part",       "tensor",     "mp_rank", "zero",        "bf16_zero",
        "zero_pp_rank", "rng_state",     "random_states", "layer",      "ggml-model", "mmproj",  "tokenizer",   "weights",
    };
    if (stem.length >= 2 && stem.text[0] == '_' && stem.text[1] == '_') /* "__0_1.distcp" */
        return true;
    if (is_number(stem) || is_one_of(stem, names, ELEMENTS(names)))
        return true;
    /* "model.fp16", "model-q4_k_m": the word, a sign, anything */
    return is_counted(stem, counted, ELEMENTS(counted));
}

bool uma_word_digest(struct uma_word file, char ret_digest[65]) {
    if (!uma_word_begins(file, "sha256-") && !uma_word_begins(file, "sha256:"))
        return false;
    struct uma_word rest = { file.text + 7, file.length - 7 };
    if (hex_digits(rest) != 64 || (rest.length > 64 && rest.text[64] != '-'))
        return false;
    for (size_t i = 0; i < 64; i++) {
        char c = rest.text[i];
        ret_digest[i] = (char)(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    }
    ret_digest[64] = '\0';
    return true;
}

bool uma_word_is_sha256(struct uma_word file) {
    return hex_digits(file) == 64 && (file.length == 64 || file.text[64] == '.');
}

/* ---- folders ------------------------------------------------------------------------------------------------ */

bool uma_word_is_part(struct uma_word folder) {
    /* parts of pipelines (diffusers), forms of one model, folders that training programs and servers put between a run and its files */
    static const char *const names[] = {
        "original",
        "transformer",
        "transformer_2",
        "unet",
        "vae",
        "text_encoder",
        "text_encoders",
        "image_encoder",
        "audio_tokenizer",
        "vision_tower",
        "tokenizer",
        "text_encoder_2",
        "text_encoder_3",
        "controlnet",
        "safety_checker",
        "scheduler",
        "vocoder",
        "prior",
        "weights",
        "model",
        "models",
        "checkpoints",
        "ckpts",
        "ckpt",
        "main",
        "master",
        "final",
        "best",
        "last",
        "latest",
        "output",
        "outputs",
        "onnx",
        "gguf",
        "safetensors",
        "pytorch",
        "hf",
        "huggingface",
        "tensorrt",
        "engine",
        "engines",
        "trt_engines",
        "trtllm",
        "default",
        "dist_ckpt",
        "snapshots",
        "adapter",
        "adapters",
        "lora",
        "files",
        "low_noise_model",
        "high_noise_model",
        "torch",
        "pretrained",
    };
    static const char *const counted[] = { "checkpoint",   "step", "global_step", "global_step_", "epoch",   "iter",
                                           "consolidated", "fp",   "bf",          "int",          "mp_rank", "rank",
                                           "tp",           "pp",   "version",     "revision",     "actor" };
    return is_number(folder) || uma_word_is_revision(folder) || is_one_of(folder, names, ELEMENTS(names)) ||
           is_counted(folder, counted, ELEMENTS(counted));
}

bool uma_word_is_revision(struct uma_word folder) {
    size_t digits = hex_digits(folder);
    return uma_word_is(folder, "snapshots") || (digits == folder.length && (digits == 40 || digits == 64));
}

bool uma_word_is_collection(struct uma_word folder) {
    static const char *const names[] = { "models", "checkpoints", "ckpts", "loras", "diffusion_models" };
    return is_one_of(folder, names, ELEMENTS(names));
}

bool uma_word_is_model_kind(struct uma_word folder) {
    /* folder_paths.py of ComfyUI, paths_internal.py of stable-diffusion-webui */
    static const char *const names[] = {
        "checkpoints",
        "configs",
        "loras",
        "lora",
        "vae",
        "vae_approx",
        "text_encoders",
        "clip",
        "clip_vision",
        "unet",
        "diffusion_models",
        "style_models",
        "embeddings",
        "diffusers",
        "controlnet",
        "t2i_adapter",
        "gligen",
        "upscale_models",
        "latent_upscale_models",
        "hypernetworks",
        "photomaker",
        "classifiers",
        "model_patches",
        "audio_encoders",
        "Stable-diffusion",
        "ESRGAN",
        "RealESRGAN",
        "SwinIR",
        "LDSR",
        "GFPGAN",
        "Codeformer",
        "ipadapter",
        "sams",
        "ultralytics",
        "insightface",
        "animatediff_models",
    };
    return is_one_of(folder, names, ELEMENTS(names));
}

bool uma_word_is_place(struct uma_word folder) {
    static const char *const names[] = { "tmp", "temp", "Downloads", "Desktop", "Documents", "data", "cache", ".cache" };
    return is_one_of(folder, names, ELEMENTS(names));
}
