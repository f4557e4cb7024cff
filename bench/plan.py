#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Planning a model that is on disk, beside a straightforward Python script that reads the same headers, in one run on one machine: time (median,
with the process start, and without it) and peak RSS.

The models are made here, as sparse files of the right length in a temporary folder: Llama 3.1 405B in 191 shards, a checkpoint of 61 layers of
256 experts in 163 shards (91,000 tensors), a GGUF of 60 layers with a vocabulary of 128,256 words. Everything is warm: it was just written.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

from status import once, peak_rss

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1}

# ---- making models ---------------------------------------------------------------------------------------------------


def write_shard(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape in tensors:
        size = BYTES[dtype]
        for n in shape:
            size *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    return at


def write_folder(folder, tensors, shards, config):
    os.mkdir(folder)
    tensors, weight_map, total = list(tensors), {}, 0
    for i in range(shards):
        name = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = tensors[len(tensors) * i // shards : len(tensors) * (i + 1) // shards]
        total += write_shard(os.path.join(folder, name), part)
        weight_map.update((tensor[0], name) for tensor in part)
    for name, content in (("model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map}), ("config.json", config)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            json.dump(content, f, indent=2)
    return folder


def llama_405b(where):
    layers, hidden, ffn, vocab, kv = 126, 16384, 53248, 128256, 1024

    def tensors():
        yield "model.embed_tokens.weight", "BF16", [vocab, hidden]
        for i in range(layers):
            for name, out, width in (("self_attn.q_proj", hidden, hidden), ("self_attn.k_proj", kv, hidden), ("self_attn.v_proj", kv, hidden),
                                     ("self_attn.o_proj", hidden, hidden), ("mlp.gate_proj", ffn, hidden), ("mlp.up_proj", ffn, hidden),
                                     ("mlp.down_proj", hidden, ffn)):
                yield f"model.layers.{i}.{name}.weight", "BF16", [out, width]
            for name in ("input_layernorm", "post_attention_layernorm"):
                yield f"model.layers.{i}.{name}.weight", "BF16", [hidden]
        yield "model.norm.weight", "BF16", [hidden]
        yield "lm_head.weight", "BF16", [vocab, hidden]

    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers,
              "num_attention_heads": 128, "num_key_value_heads": 8, "intermediate_size": ffn, "vocab_size": vocab,
              "max_position_embeddings": 131072, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    return write_folder(os.path.join(where, "405b"), tensors(), 191, config)


def experts_671b(where):
    layers, hidden, vocab, experts, width = 61, 7168, 129280, 256, 2048

    def linear(name, out, inputs):
        yield name + ".weight", "F8_E4M3", [out, inputs]
        yield name + ".weight_scale_inv", "F32", [-(-out // 128), -(-inputs // 128)]

    def feed_forward(at, size):
        for name, out, inputs in (("gate_proj", size, hidden), ("up_proj", size, hidden), ("down_proj", hidden, size)):
            yield from linear(at + name, out, inputs)

    def tensors():
        yield "model.embed_tokens.weight", "BF16", [vocab, hidden]
        for i in range(layers):
            at = f"model.layers.{i}."
            for name, out, inputs in (("q_a_proj", 1536, hidden), ("q_b_proj", 24576, 1536), ("kv_a_proj_with_mqa", 576, hidden),
                                      ("kv_b_proj", 32768, 512), ("o_proj", hidden, 16384)):
                yield from linear(f"{at}self_attn.{name}", out, inputs)
            for name, size in (("input_layernorm", hidden), ("post_attention_layernorm", hidden), ("self_attn.q_a_layernorm", 1536),
                               ("self_attn.kv_a_layernorm", 512)):
                yield f"{at}{name}.weight", "BF16", [size]
            if i < 3:
                yield from feed_forward(at + "mlp.", 18432)
                continue
            yield at + "mlp.gate.weight", "BF16", [experts, hidden]
            yield at + "mlp.gate.e_score_correction_bias", "F32", [experts]
            for j in range(experts):
                yield from feed_forward(f"{at}mlp.experts.{j}.", width)
            yield from feed_forward(at + "mlp.shared_experts.", width)
        yield "model.norm.weight", "BF16", [hidden]
        yield "lm_head.weight", "BF16", [vocab, hidden]

    config = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": hidden, "num_hidden_layers": layers,
              "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": width,
              "n_routed_experts": experts, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
              "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
              "vocab_size": vocab, "max_position_embeddings": 163840, "tie_word_embeddings": False,
              "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}}
    return write_folder(os.path.join(where, "671b"), tensors(), 163, config)


def gguf_60_layers(where):
    layers, hidden, ffn, vocab, kv = 60, 6144, 16384, 128256, 1024

    def string(text):
        text = text.encode()
        return struct.pack("<Q", len(text)) + text

    def pair(key, kind, value):
        return string("llama." + key if not key.startswith(("general.", "tokenizer.")) else key) + struct.pack("<I", kind) + value

    def words(n, make):
        return struct.pack("<IQ", 8, n) + b"".join(string(make(i)) for i in range(n))

    def u32(n):
        return struct.pack("<I", n)

    pairs = [pair("general.architecture", 8, string("llama")), pair("block_count", 4, u32(layers)), pair("embedding_length", 4, u32(hidden)),
             pair("feed_forward_length", 4, u32(ffn)), pair("attention.head_count", 4, u32(48)), pair("attention.head_count_kv", 4, u32(8)),
             pair("context_length", 4, u32(131072)), pair("vocab_size", 4, u32(vocab)),
             pair("tokenizer.ggml.tokens", 9, words(vocab, lambda i: f"word{i}")),
             pair("tokenizer.ggml.merges", 9, words(280147, lambda i: f"wo rd{i}")),
             pair("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, vocab) + bytes(4 * vocab))]
    q4, q6, f32 = (12, 256, 144), (14, 256, 210), (0, 1, 4)
    tensors = [("token_embd.weight", [hidden, vocab], q4), ("output.weight", [hidden, vocab], q6), ("output_norm.weight", [hidden], f32)]
    for i in range(layers):
        for name, shape, kind in (("attn_q", [hidden, hidden], q4), ("attn_k", [hidden, kv], q4), ("attn_v", [hidden, kv], q6),
                                  ("attn_output", [hidden, hidden], q4), ("ffn_gate", [hidden, ffn], q4), ("ffn_up", [hidden, ffn], q4),
                                  ("ffn_down", [ffn, hidden], q6), ("attn_norm", [hidden], f32), ("ffn_norm", [hidden], f32)):
            tensors.append((f"blk.{i}.{name}.weight", shape, kind))
    text, at = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs)) + b"".join(pairs), 0
    for name, shape, (kind, block, size) in tensors:
        text += string(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", kind, at)
        elements = shape[0] * (shape[1] if len(shape) > 1 else 1)
        at += -(-elements // block * size // 32) * 32
    path = os.path.join(where, "60-layers.gguf")
    with open(path, "wb") as f:
        f.write(text)
        f.truncate(-(-len(text) // 32) * 32 + at)
    return path


# ---- measuring -------------------------------------------------------------------------------------------------------


def plans(umactl):
    """Does this build have the command?"""
    done = subprocess.run([umactl, "plan", "--help"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def numbers(argv):
    return [float(word) for word in subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True).stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", help="build folder (release)")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    umactl, model, measure = (os.path.join(options.build, path) for path in ("src/umactl", "bench/model", "bench/measure"))
    script = os.path.join(HERE, "read_headers.py")
    if not plans(umactl):
        print("umactl plan is not in this build: only the reading of headers is timed\n")
    print("| model | tensors | reader | median ms, whole process | x Python | median ms, inside | x Python | peak RSS MiB |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="umactl-bench-") as where:
        for make in (llama_405b, experts_671b, gguf_60_layers):
            path = make(where)
            python = [sys.executable, "-I", script, path]
            readers = {"Python: json, struct": python, "libuma: `uma_model_open`": [model, "1", path]}
            if plans(umactl):
                readers["`umactl plan serve`"] = [umactl, "plan", "serve", "--engine", "llama.cpp" if path.endswith(".gguf") else "vllm", "--model", path, "--budget", "4096GiB"]
            times = {name: [] for name in readers}
            for _ in range(options.rounds):
                for name, argv in readers.items():
                    times[name].append(once(argv))
            tensors, _, total, _ = numbers(python)
            inside = {"Python: json, struct": statistics.median(numbers(python)[3] for _ in range(5)) * 1e3}
            _, opened_bytes, median, _ = numbers([model, str(options.rounds), path])
            inside["libuma: `uma_model_open`"] = median / 1e3
            if opened_bytes != total:
                sys.exit(f"{path}: {opened_bytes:.0f} bytes opened, {total:.0f} read by the script")
            base = statistics.median(times["Python: json, struct"]) * 1e3
            for name, argv in readers.items():
                whole = statistics.median(times[name]) * 1e3
                within = f"{inside[name]:.2f} | {inside[name] / inside['Python: json, struct']:.3f}" if name in inside else "| "
                print(f"| {os.path.basename(path)} | {tensors:.0f} | {name} | {whole:.2f} | {whole / base:.3f} | {within} | {peak_rss(measure, argv) / 2**20:.1f} |")
    print(f"\n{os.cpu_count()} CPUs, kernel {os.uname().release}, Python {sys.version.split()[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
