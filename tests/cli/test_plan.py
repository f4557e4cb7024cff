#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl plan: its document, its verdicts, models as folders and names, the user's anchors, sweeps, and files that lie."""

import json
import os
import struct
import tempfile

from harness import (BYTES, COUNT, NUMBER, add, assert_clean_text, case, check, contains, environment, equal, machine, main, on_terminal,
                     or_null, run, run_measured)

GIB = 1 << 30
SANITIZED = bool(os.environ.get("UMA_SANITIZED"))
LLAMA = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
         "tie_word_embeddings": False}
PLAN = {
    "schema": "umactl.plan/1",
    "model": {"params": COUNT, "params_trainable": or_null(COUNT), "architecture": str, "weights_bytes": BYTES, "source": str},
    "kind": {"train", "serve"},
    "assumed": dict,
    "steady": {k: BYTES for k in ("weights", "adapter", "gradients", "optimizer", "activations", "kv_cache", "compute_buffers", "overhead",
                                  "total")},
    "load": {"peak": BYTES, "loader": or_null({"mmap", "eager", "streamed", "direct"}), "page_cache": BYTES, "seconds": or_null(NUMBER)},
    "interval": {"low": BYTES, "high": BYTES},
    "allocated": {"peak": BYTES, "between_steps": BYTES},
    "device": {"reserved": BYTES, "context": BYTES, "host": BYTES, "total": BYTES, "high": BYTES},
    "budget": or_null(BYTES), "fits": or_null(bool), "margin": or_null(int), "need": BYTES, "close": bool,
    "limits": {k: or_null(COUNT) for k in ("max_seq", "max_batch", "max_sequences", "max_context")},
    "capacity": {"kv_bytes": or_null(BYTES), "tokens": or_null(COUNT), "sequences": or_null(COUNT)},
    "anchor": or_null({"name": str, "bytes": BYTES, "ratio": NUMBER}),
    "advice": [{"step": COUNT, "do": str, "saves": BYTES, "then_total": BYTES}],
    "flags": [str],
    "terms": [{"group": str, "what": str, "bytes": BYTES, "low": BYTES, "high": BYTES, "between_steps": bool, "formula": str, "source": str}],
    "warnings": [str],
}


def plan(*args, code=0):
    document = run("plan", *args, "--json").expect(code).json
    check(document, PLAN)
    steady = document["steady"]
    equal(sum(v for k, v in steady.items() if k != "total"), steady["total"], "sum of the groups")
    equal(sum(t["bytes"] for t in document["terms"]), steady["total"], "sum of the terms")
    assert document["interval"]["low"] <= steady["total"] <= document["interval"]["high"]
    if document["kind"] == "train":
        assert document["model"]["params_trainable"] > 0, "nothing is trained"
    assert document["device"]["total"] >= steady["total"] and document["device"]["high"] >= document["device"]["total"]
    return document


def tensor_file(path, tensors, start=0):
    """A safetensors file of zeros (sparse); tensors: name -> (dtype, shape, bytes). Returns its data's bytes."""
    header, at = {}, start
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    return at


def model_folder(folder, config=None, tensors=True):
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config or LLAMA, f)
    if not tensors:
        return 0
    h, i, v = 256, 512, 1000
    shapes = {"model.embed_tokens.weight": [v, h], "lm_head.weight": [v, h], "model.norm.weight": [h]}
    for n in range(2):
        p = f"model.layers.{n}."
        shapes |= {p + "self_attn.q_proj.weight": [h, h], p + "self_attn.k_proj.weight": [128, h], p + "self_attn.v_proj.weight": [128, h],
                   p + "self_attn.o_proj.weight": [h, h], p + "mlp.gate_proj.weight": [i, h], p + "mlp.up_proj.weight": [i, h],
                   p + "mlp.down_proj.weight": [h, i], p + "input_layernorm.weight": [h], p + "post_attention_layernorm.weight": [h]}
    size = lambda s: 2 * s[0] * (s[1] if len(s) > 1 else 1)  # noqa: E731
    return tensor_file(os.path.join(folder, "model.safetensors"), {k: ("BF16", s, size(s)) for k, s in shapes.items()})


# ---- the document ----------------------------------------------------------------------------------------------------

for _args in (["train", "--model", "meta-llama/Llama-3.1-8B", "--method", "lora"],
              ["train", "--params", "7B", "--method", "full", "--optimizer", "adafactor"],
              ["train", "--model", "Qwen/Qwen3-30B-A3B", "--method", "dpo", "--rank", "8"],
              ["train", "--model", "mistralai/Mixtral-8x7B-v0.1", "--method", "qlora", "--batch", "2"],
              ["serve", "--model", "openai/gpt-oss-120b", "--engine", "vllm"],
              ["serve", "--model", "deepseek-ai/DeepSeek-V3", "--engine", "sglang", "--tp", "8"],
              ["serve", "--model", "Qwen/Qwen3.5-27B", "--engine", "llama.cpp", "--dtype", "q4_k", "--context", "8K"],
              ["serve", "--model", "google/gemma-3-27b-it", "--engine", "ollama"],
              ["serve", "--model", "meta-llama/Llama-3.1-8B", "--engine", "trt-llm", "--fraction", "0.9", "--pool", "80GB"],
              ["serve", "--model", "Qwen/Qwen2.5-7B", "--engine", "transformers", "--context", "2K"]):
    add("document: " + " ".join(_args), lambda args: plan(*args, "--budget", "100T"), _args)


@case("the same text twice, and explain names every term")
def _():
    args = ["train", "--model", "meta-llama/Llama-3.1-8B", "--method", "lora", "--budget", "60G"]
    document = plan(*args)
    text = run("plan", *args, "--explain", "--worksheet").expect(0).out
    equal(text, run("plan", *args, "--explain", "--worksheet").expect(0).out)
    for term in document["terms"]:
        contains(text, term["what"])
    contains(text, "the plain worksheet")
    assert_clean_text(text.encode())
    assert max(len(line) for line in text.splitlines()) <= 100, "a line is wider than 100 columns"


@case("exit status follows the verdict: 0 fits, 1 does not, 3 not known")
def _():
    args = ["plan", "train", "--model", "meta-llama/Llama-3.1-8B", "--method", "lora"]
    run(*args, "--budget", "100G").expect(0)
    run(*args, "--budget", "1G").expect(1)
    with tempfile.TemporaryDirectory() as empty:
        os.mkdir(os.path.join(empty, "proc"))
        r = run(*args, "--root", empty)
        equal(r.code, 3)


@case("the budget is that of the machine, and a cache-starved one is told to flush")
def _():
    document = plan("train", "--model", "Qwen/Qwen3-0.6B", "--method", "lora", "--root", machine("spark-cache-starved"))
    status = run("status", "--json", "--root", machine("spark-cache-starved")).json
    equal(document["budget"], status["headroom"]["budget"])
    equal(document["advice"][0]["step"], 1, "the flush comes first")
    contains(document["advice"][0]["do"], "umactl cache evict --all-models")


@case("a plan from a snapshot is a plan from its folder")
def _():
    args = ["train", "--model", "Qwen/Qwen3-8B", "--method", "qlora"]
    snapshot = run("snapshot", "--root", machine("spark-serving")).out
    a = run("plan", *args, "--json", "--from", "-", stdin=snapshot).json
    b = run("plan", *args, "--json", "--root", machine("spark-serving")).json
    equal(a, b)


@case("no colour and no wide line on a narrow terminal")
def _():
    code, text = on_terminal("plan", "train", "--model", "Qwen/Qwen3-8B", "--method", "full", "--budget", "20G", columns=60,
                             env=environment(TERM="xterm", NO_COLOR="1"))
    equal(code, 1)
    assert "\x1b" not in text
    assert max(len(line) for line in text.splitlines()) <= 60, max(text.splitlines(), key=len)


# ---- models ----------------------------------------------------------------------------------------------------------


@case("a folder: bytes of its tensors, and without them the same from its configuration")
def _():
    with tempfile.TemporaryDirectory() as folder:
        size = model_folder(folder)
        read = plan("serve", "--model", folder, "--engine", "vllm", "--budget", "100G")
        equal(read["model"]["weights_bytes"], size)
        equal(read["model"]["basis"], "tensors")
        os.unlink(os.path.join(folder, "model.safetensors"))
        computed = plan("serve", "--model", folder, "--engine", "vllm", "--budget", "100G")
        equal(computed["model"]["basis"], "structure")
        equal(computed["model"]["params"], read["model"]["params"])
        equal(computed["model"]["weights_bytes"], size)


@case("an unknown architecture is estimated from its tensors, with a warning")
def _():
    with tempfile.TemporaryDirectory() as folder:
        size = model_folder(folder, LLAMA | {"model_type": "brandnew_7"})
        document = plan("serve", "--model", folder, "--engine", "vllm", "--budget", "100G")
        equal(document["model"]["weights_bytes"], size)
        equal(document["model"]["architecture_known"], False)
        assert any("brandnew_7" in w or "not known" in w or "unknown" in w for w in document["warnings"]), document["warnings"]


@case("tied embeddings count once, at either level of the configuration")
def _():
    text = {k: v for k, v in LLAMA.items() if k not in ("tie_word_embeddings", "model_type")} | {"model_type": "qwen3_5_text"}
    with tempfile.TemporaryDirectory() as folder:
        sizes = []
        for config in (LLAMA, LLAMA | {"tie_word_embeddings": True},
                       {"model_type": "llava", "tie_word_embeddings": True, "text_config": LLAMA | {"tie_word_embeddings": True}},
                       {"model_type": "llava", "text_config": LLAMA | {"tie_word_embeddings": True}}):
            model_folder(folder, config, tensors=False)
            sizes.append(plan("serve", "--model", folder, "--engine", "vllm", "--budget", "100G")["model"]["params"])
        del text
        equal(sizes[0] - sizes[1], 256 * 1000)
        equal(sizes[2], sizes[3])


@case("names that are nowhere say where they were looked for")
def _():
    r = run("plan", "serve", "--model", "nobody/Has-This-9B", "--engine", "vllm", "--budget", "1G")
    equal(r.code, 3)
    contains(r.err, "nobody/Has-This-9B")
    contains(r.err, "built-in")


@case("a hostile name comes out escaped")
def _():
    r = run("plan", "serve", "--model", "a\x1b[31mb\u202ec", "--engine", "vllm", "--budget", "1G")
    equal(r.code, 3)
    assert_clean_text(r.err_bytes)
    with tempfile.TemporaryDirectory() as folder:
        model_folder(folder, LLAMA | {"model_type": "x\x1b]0;y\x07\n", "architectures": ["z\u202e"]}, tensors=False)
        r = run("plan", "serve", "--model", folder, "--engine", "vllm", "--budget", "100G").expect(0)
        assert_clean_text(r.out_bytes)


@case("a hostile name comes out escaped in JSON, too, and is the same name to its reader")
def _():
    evil = "x\x1b]0;y\x07\n\u200f\u202e\u2066z\u2069\x9b"
    with tempfile.TemporaryDirectory() as folder:
        model_folder(folder, LLAMA | {"quantization_config": {"quant_method": evil}}, tensors=False)
        r = run("plan", "serve", "--model", folder, "--engine", "vllm", "--budget", "100G", "--json").expect(0)
        assert_clean_text(r.out_bytes)
        contains(r.json["model"]["quantisation"], "\u2066z\u2069")


# ---- edges -----------------------------------------------------------------------------------------------------------

EDGES = (["train", "--model", "meta-llama/Llama-3.1-8B", "--method", "lora"],
         ["train", "--model", "Qwen/Qwen3-30B-A3B", "--framework", "megatron", "--ep", "8", "--method", "full"],
         ["train", "--model", "meta-llama/Llama-3.1-8B", "--framework", "torchtitan", "--gpus", "8", "--shard", "fsdp"],
         ["serve", "--model", "openai/gpt-oss-120b", "--engine", "vllm"], ["serve", "--model", "Qwen/Qwen3.5-27B", "--engine", "ollama"],
         ["serve", "--model", "deepseek-ai/DeepSeek-V3", "--engine", "sglang", "--tp", "8"],
         ["serve", "--model", "meta-llama/Llama-3.1-8B", "--engine", "transformers", "--context", "2K"])


def edge(args):
    """What is needed fits a budget of just that, and one byte less does not."""
    need = run("plan", *args, "--budget", "100T", "--json").expect(0).json["need"]
    assert plan(*args, "--budget", str(need))["fits"]
    assert not plan(*args, "--budget", str(need - 1), code=1)["fits"]


def grows(args):
    """More of anything never needs less."""
    options = ("batch", "seq") if "torchtitan" in args or "full" in args else ("batch", "seq", "rank") if args[0] == "train" else ("context", "sequences", "batched-tokens")
    for option in options:
        values = "1,2,3,7,64,1000,4096,32768"
        rows = run("plan", *args, "--sweep", f"{option}={values}", "--budget", "100T", "--json").expect(0).json["sweep"]
        for before, after in zip(rows, rows[1:]):
            assert before["total"] <= after["total"] and before["device"] <= after["device"], (option, before, after)


for _args in EDGES:
    add("edge: " + " ".join(_args), edge, _args)
    add("grows: " + " ".join(_args), grows, _args)


@case("a count of parameters that its prediction heads exceed leaves no class empty")
def _():
    for mtp in ("8", "255"):
        d = plan("serve", "--params", "124M", "--mtp-layers", mtp, "--engine", "llama.cpp", "--mtp", "yes", "--budget", "60G")
        equal(d["model"]["params"], 124000000)
        assert 0.9 < d["steady"]["weights"] / 248e6 < 1.1, d["steady"]
        assert plan("serve", "--params", "124M", "--mtp-layers", mtp, "--engine", "vllm", "--budget", "60G")["steady"]["weights"] > 0


for _args, _says in ((["--framework", "torchtitan", "--method", "qlora"], "all parameters"),
                     (["--framework", "torchtitan", "--method", "dpo"], "no preference"),
                     (["--framework", "megatron", "--ep", "256"], "128 routed experts"),
                     (["--framework", "megatron", "--expert-tp", "65536", "--gpus", "8"], "more than the 8 ranks"),
                     (["--framework", "torchtitan", "--expert-tp", "2"], "is of --framework megatron"),
                     (["--method", "full", "--rank", "8"], "are of an adapter"),
                     (["--tp", "64", "--gpus", "64"], "attention heads"), (["--tp", "3", "--gpus", "4"], "does not divide")):
    add("cannot be: " + " ".join(_args),
        lambda args, says: contains(run("plan", "train", "--model", "Qwen/Qwen3-30B-A3B", *args, "--budget", "60G").expect(2, err=None).err, says),
        _args, _says)


@case("a pattern with experts needs their number")
def _():
    shape = ["--layers", "4", "--hidden", "64", "--heads", "2", "--ffn", "128", "--vocab", "1000", "--pattern", "M*EE"]
    contains(run("plan", "serve", *shape, "--engine", "vllm", "--budget", "60G").expect(2, err=None).err, "no number of experts")
    plan("serve", *shape, "--experts", "4", "--engine", "vllm", "--budget", "60G")


@case("the longest sequence of a model of few positions, and the default context of one")
def _():
    d = plan("train", "--layers", "2", "--hidden", "64", "--heads", "2", "--ffn", "128", "--vocab", "1000", "--positions", "16", "--seq", "16",
             "--budget", "60G")
    equal(d["limits"]["max_seq"], 16)
    equal(plan("serve", "--model", "gpt2", "--engine", "transformers", "--budget", "60G")["assumed"]["context"], 1024)


# ---- what users know by heart ----------------------------------------------------------------------------------------

# MemTotal of a DGX Spark is 121.69 GiB; what a new job can have on an idle one is some 4 GiB less.
SPARK = ["--budget", "117.5GiB"]


@case("anchor: 70B QLoRA is about 40 GB where checkpoints are offloaded and the loss is fused")
def _():
    d = plan("train", "--model", "meta-llama/Llama-2-70b-hf", "--method", "qlora", "--batch", "1", "--seq", "2048", "--framework", "unsloth",
             *SPARK)
    equal(d["anchor"]["name"], "70B QLoRA")
    assert d["fits"] and 0.9 < d["steady"]["total"] / 40e9 < 1.15, d["steady"]["total"] / 1e9


@case("anchor: a 120B mixture of experts with NVFP4 weights and LoRA is about 68 GB")
def _():
    d = plan("train", "--model", "openai/gpt-oss-120b", "--method", "lora", "--dtype", "nvfp4", "--batch", "1", "--seq", "1024", *SPARK)
    equal(d["anchor"]["name"], "120B MoE NVFP4 LoRA")
    assert d["fits"] and 0.9 < d["steady"]["total"] / 68e9 < 1.15, d["steady"]["total"] / 1e9


@case("anchor: a 27B LoRA at packing 1,024 fits; full fine-tuning does not")
def _():
    d = plan("train", "--model", "Qwen/Qwen3.5-27B", "--method", "lora", "--batch", "1", "--seq", "1024", *SPARK)
    assert d["fits"] and d["anchor"]["name"] == "27B LoRA" and 50 * GIB < d["steady"]["total"] < 66 * GIB
    d = plan("train", "--model", "Qwen/Qwen3.5-27B", "--method", "full", "--batch", "1", "--seq", "1024", *SPARK, code=1)
    assert any("--method lora" in a["do"] for a in d["advice"])


@case("anchor: a 9B full fine-tune fits with 8-bit states, and not with fp32 master weights")
def _():
    base = ["train", "--model", "Qwen/Qwen3.5-9B", "--method", "full", "--seq", "2048"]
    d = plan(*base, "--optimizer", "adamw-8bit", *SPARK)
    assert d["fits"] and 50 * GIB < d["steady"]["total"] < 65 * GIB
    d = plan(*base, "--dtype", "fp32", "--autocast", "yes", *SPARK, code=1)
    equal(d["anchor"]["name"], "9B full fine-tune")


@case("anchor: Qwen3.5-122B-A10B in FP8 is about 119 GiB over two nodes, and no single one")
def _():
    base = ["serve", "--model", "Qwen/Qwen3.5-122B-A10B-FP8", "--engine", "sglang", "--context", "32K"]
    d = plan(*base, "--tp", "2", "--nodes", "2", *SPARK)
    assert d["fits"] and 0.95 < 2 * d["steady"]["weights"] / (119 * GIB) < 1.05, 2 * d["steady"]["weights"] / GIB
    contains(d["anchor"]["name"], "two nodes")
    plan(*base, *SPARK, code=1)


@case("an engine whose share holds no sequence does not start, however much is free")
def _():
    d = plan("serve", "--model", "meta-llama/Llama-3.1-8B", "--engine", "vllm", "--fraction", "0.1", "--pool", "121GiB", "--context", "8K", *SPARK,
             code=1)
    equal((d["fits"], d["capacity"]["sequences"]), (False, 0))


@case("an engine that takes too much is told to take less")
def _():
    d = plan("serve", "--model", "meta-llama/Llama-3.1-8B", "--engine", "vllm", "--fraction", "0.9", "--pool", "121GiB", "--context", "8K",
             "--budget", "80GiB", code=1)
    contains(d["advice"][0]["do"], "--fraction 0.6")
    assert d["advice"][0]["then_fits"]


@case("gpt-oss is trained in 16 bits, since MXFP4 cannot be trained through, and a name in Ollama's library is Q4_K_M")
def _():
    base = ["train", "--model", "openai/gpt-oss-20b", "--method", "lora", *SPARK]
    d = plan(*base)
    assert 35 * GIB < d["steady"]["weights"] < 42 * GIB, d["steady"]["weights"] / GIB
    assert any("MXFP4" in w for w in d["warnings"])
    equal(plan("train", "--model", "openai/gpt-oss-120b", "--method", "lora", *SPARK, code=1)["anchor"], None)
    assert plan(*base, "--dtype", "mxfp4")["steady"]["weights"] < 15 * GIB
    d = plan("serve", "--model", "meta-llama/Llama-3.1-8B", "--engine", "ollama", *SPARK)
    assert 4.4 * GIB < d["steady"]["weights"] < 5 * GIB and any("Q4_K_M" in w for w in d["warnings"])


@case("targets are listed as they can be given, experts among them")
def _():
    base = ["train", "--model", "Qwen/Qwen3-30B-A3B", "--method", "lora", *SPARK]
    equal(plan(*base, "--targets", "mlp")["assumed"]["targets"], ["experts"])
    assert plan(*base, "--targets", "mlp")["steady"]["adapter"] > 0
    d = plan(*base)
    equal(plan(*base, "--targets", ",".join(d["assumed"]["targets"]))["steady"], d["steady"])


# ---- sweeps ----------------------------------------------------------------------------------------------------------


@case("a sweep is a table of plans")
def _():
    base = ["train", "--model", "Qwen/Qwen3-8B", "--method", "lora", "--budget", "40G"]
    d = run("plan", *base, "--sweep", "seq=1024,2048,batch=1,2,4", "--json").expect(0).json
    equal([(r["seq"], r["batch"]) for r in d["sweep"]], [(s, b) for s in ("1024", "2048") for b in ("1", "2", "4")])
    single = plan(*base, "--seq", "2048", "--batch", "4")
    equal(d["sweep"][-1]["total"], single["steady"]["total"])
    totals = [r["total"] for r in d["sweep"]]
    assert totals[0] < totals[1] < totals[2] and totals[3] > totals[0]
    equal(len(run("plan", *base, "--sweep", "seq=1024,2048;batch=1").expect(0).out.splitlines()), 4)


@case("a cell of a sweep is the plan of its options, whatever they change")
def _():
    llama = "meta-llama/Llama-3.1-8B"
    for base, name, values in ((["serve", "--model", llama, "--engine", "llama.cpp", "--context", "8K"], "dtype", ("Q4_K_M", "Q8_0")),
                               (["serve", "--model", llama, "--engine", "vllm", "--context", "8K"], "dtype", ("fp8", "nvfp4")),
                               (["serve", "--params", "8B", "--engine", "vllm", "--dtype", "fp8"], "context", ("1K", "2K")),
                               (["train", "--params", "8B", "--rank", "8"], "layers", ("16", "32")),
                               (["train", "--model", llama], "rank", ("8", "64")),
                               (["train", "--model", llama, "--framework", "megatron", "--gpus", "4", "--stage", "last"], "pp", ("1", "4"))):
        for cell, value in zip(run("plan", *base, "--budget", "400G", "--sweep", f"{name}={','.join(values)}", "--json").expect(0).json["sweep"],
                               values):
            single = plan(*base, f"--{name}", value, "--budget", "400G")
            equal((cell["total"], cell["device"], cell["load_peak"]),
                  (single["steady"]["total"], single["device"]["total"], single["load"]["peak"]))


for _text, _says in (("seq", "expected NAME=VALUE"), ("seq=", "an empty value"), ("model=a,b", "cannot be swept"), ("nonsense=1", "no option"),
                     ("seq=x", "--seq"), ("seq=1024,seq=2048", "comes twice"), ("a=1,b=1,c=1,d=1,e=1", "more than 4 axes"),
                     (",".join(f"{a}=" + ",".join(str(i + 1) for i in range(32)) for a in ("seq", "batch", "rank")), "combinations")):
    add(f"sweep refused: {_text[:20]}",
        lambda text, says: contains(run("plan", "train", "--params", "1B", "--budget", "1T", "--sweep", text).expect(2, err=None).err, says), _text,
        _says)


# ---- usage -----------------------------------------------------------------------------------------------------------

for _args, _says in ((["plan"], "say what"), (["plan", "trian"], "expected train or serve"), (["plan", "train"], "say which model"),
                     (["plan", "serve", "--model", "x"], "say which engine"), (["plan", "train", "--model", "x", "--params", "1B"], "not both"),
                     (["plan", "train", "--seq", "0", "--params", "1B"], "--seq"),
                     (["plan", "train", "--context", "1", "--params", "1B"], "plan serve"), (["plan", "train", "--bacth", "1"], "--batch"),
                     (["plan", "train", "--params", "1B", "x"], "unexpected argument")):
    add("usage: " + " ".join(_args), lambda args, says: contains(run(*args).expect(2, err=None).err, says), _args, _says)


@case("help is on standard output, for each word")
def _():
    for words in (["plan", "--help"], ["plan", "train", "--help"], ["plan", "serve", "-h"]):
        contains(run(*words).expect(0).out, "usage: umactl plan train")


# ---- files that lie --------------------------------------------------------------------------------------------------


def hostile(name, make, says):
    """A clear error that names the file, in a second and 64 MiB, and nothing is changed."""
    with tempfile.TemporaryDirectory() as folder:
        path = make(folder)
        r = run_measured("plan", "serve", "--model", path, "--engine", "vllm", "--budget", "100G")
        assert r.code in (0, 3), f"exit status {r.code}: {r.err_bytes[:500]!r}"
        if says is not None:
            equal(r.code, 3)
            contains(r.err, says)
        assert_clean_text(r.err_bytes)
        if not SANITIZED:
            assert r.rss <= 64 << 20, f"{r.rss >> 20} MiB resident"
            assert r.seconds <= 1.5, f"{r.seconds:.2f} s"  # a second of its own on a machine that does other things, too
    del name


def file_with(name, data):
    def make(folder):
        path = os.path.join(folder, name)
        with open(path, "wb") as f:
            f.write(data)
        return path
    return make


def header_of(text, data=b""):
    if not isinstance(text, bytes):
        text = json.dumps(text).encode()
    return struct.pack("<Q", len(text)) + text + data


def huge(name, first):
    def make(folder):
        path = os.path.join(folder, name)
        with open(path, "wb") as f:
            f.write(first)
            f.truncate(5 << 30)
        return path if name != "config.json" else folder
    return make


def loop(folder):
    os.symlink("config.json", os.path.join(folder, "config.json"))
    return folder


def gguf(tensors=0, keys=0, body=b""):
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + body


def key(name, kind, data):
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + data


ENTRY = {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}
for _name, _make, _says in (
        ("header length beyond the file", file_with("a.safetensors", struct.pack("<Q", 1 << 40) + b"{}"), "a.safetensors"),
        ("header length of 5 GB", huge("b.safetensors", struct.pack("<Q", (5 << 30) - 8) + b"{"), "b.safetensors"),
        ("2^63 shapes", file_with("c.safetensors", header_of({"w": {"dtype": "BF16", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 8]}},
                                                             bytes(8))), "c.safetensors"),
        ("deep JSON", file_with("d.safetensors", header_of(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}")), "d.safetensors"),
        ("duplicate keys", file_with("e.safetensors", header_of(b'{"w":' + json.dumps(ENTRY).encode() + b',"w":' + json.dumps(ENTRY).encode() +
                                                                b"}", bytes(8))), "e.safetensors"),
        ("overlapping offsets", file_with("f.safetensors", header_of({"v": ENTRY, "w": {"dtype": "BF16", "shape": [4],
                                                                                        "data_offsets": [4, 12]}}, bytes(12))), "f.safetensors"),
        ("offsets beyond the file", file_with("g.safetensors", header_of({"w": {"dtype": "BF16", "shape": [4000], "data_offsets": [0, 8000]}},
                                                                         bytes(8))), "g.safetensors"),
        ("not UTF-8", file_with("h.safetensors", header_of(b'{"\xff\xfe":' + json.dumps(ENTRY).encode() + b"}", bytes(8))), None),
        ("empty", file_with("i.safetensors", b""), "i.safetensors"),
        ("GGUF counts beyond the file", file_with("a.gguf", gguf(1 << 62, 1 << 62)), "a.gguf"),
        ("GGUF string beyond the file", file_with("b.gguf", gguf(0, 1, struct.pack("<Q", 1 << 60) + b"x")), "b.gguf"),
        ("GGUF array beyond the file", file_with("c.gguf", gguf(0, 1, key(b"a", 9, struct.pack("<IQ", 8, 1 << 60)))), "c.gguf"),
        ("GGUF nested arrays", file_with("d.gguf", gguf(0, 1, key(b"a", 9, struct.pack("<IQ", 9, 1) * 20000))), "d.gguf"),
        ("GGUF 2^63 dimensions", file_with("e.gguf", gguf(1, 0, struct.pack("<Q", 1) + b"w" + struct.pack("<IQQIQ", 2, 1 << 63, 1 << 63, 1, 0))),
         "e.gguf"),
        ("GGUF of 5 GB of nothing", huge("f.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 32)), "f.gguf"),
        ("config.json of 5 GB", huge("config.json", b'{"model_type": "llama", "x": "'), "config.json"),
        ("deep config.json", file_with("config.json", b'{"a":' * 50000 + b"1" + b"}" * 50000), "config.json"),
        ("config.json of links in a circle", loop, "config.json"),
        ("config.json with a key twice", file_with("config.json", b'{"hidden_size": 1, "hidden_size": 2}'), "config.json"),
        ("config.json of negative sizes", file_with("config.json", json.dumps(LLAMA | {"hidden_size": -4, "num_hidden_layers": 1 << 40})
                                                    .encode()), "config.json"),
        ("a folder with nothing in it", lambda folder: folder, "config.json")):
    add(f"hostile: {_name}", hostile, _name, _make, _says)


@case("a FIFO for a model is refused, not waited for")
def _():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.gguf")
        os.mkfifo(path)
        r = run("plan", "serve", "--model", path, "--engine", "vllm", "--budget", "1G", timeout=10)
        equal(r.code, 3)
        contains(r.err, "m.gguf")


main()
