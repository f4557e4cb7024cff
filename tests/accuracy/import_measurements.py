#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""import_measurements.py DIR OUT - turn tables of published measurements into this bench's own tables.

DIR holds any of train_measured.csv, train_oom.csv, infer_measured.csv, megatron_golden.csv, trtllm_max_concurrency.csv,
kv_formula_checks.csv, loss_kernel_memory.csv, load_transient.csv; their columns are described in README.md. Each row becomes one line of
OUT/{training,oom,serving,megatron,capacity,kv,loss,load}.csv: what was measured, in bytes, and the `umactl plan` arguments that a careful
user would have typed for it. Nothing is looked up in the rows' figures: arguments come from what a row says of its job.
"""
import csv
import json
import os
import re
import sys

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
COLUMNS = ["id", "class", "component", "measured_bytes", "arguments", "params", "gpus", "complete", "precision", "source", "remark"]

# Memory that CUDA reports as the device's total (torch's "total capacity", cudaMemGetInfo), which is below the number in the name.
DEVICES = [
    (r"GB300", 276.5), (r"GB200|B200-class", 184.3), (r"B200", 178.4), (r"H200", 139.8), (r"H20\b", 95.2), (r"GH200", 94.5),
    (r"H100-96GB", 93.6), (r"H100|h100", 79.11), (r"A100-?(SXM4-?)?80GB|A100-80G|\b80 ?GB GPU|A800", 79.25), (r"A100-?(SXM4-?)?40GB", 39.5),
    (r"PRO 6000", 94.97), (r"PRO 4500", 31.4), (r"RTX 6000|A6000|L40S|L40\b", 47.4), (r"5090", 31.36), (r"4090", 23.65),
    (r"3090", 23.69), (r"A10G|L4\b", 22.18), (r"T4\b", 14.74), (r"V100", 31.7), (r"DGX Spark|GB10\b", 121.69),
]


def number(text):
    """A plain number out of a cell, or None."""
    text = (text or "").strip().replace(",", "")
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?(e\d+)?", text) else None


def whole(text):
    value = number(text)
    return int(value) if value is not None and value > 0 and value == int(value) else None


def billions(text):
    """Parameters in billions. Logs print "1.027 T" for a trillion, and a reader of the number alone has 0.001 billion."""
    value = number(text)
    return value * 1e6 if value is not None and value < 0.005 else value


def quote(text):
    return text if re.fullmatch(r"[A-Za-z0-9._/:@,+=%-]+", text) else '"' + text.replace('"', "") + '"'


def measured(published, unit, notes):
    """Bytes, half of the last printed digit in bytes, and what is to be said of the unit."""
    value = number(published)
    if value is None:
        return None, 0, "no figure"
    digits = len(published.split(".")[1]) if "." in published else 0
    said = unit.strip()
    kind = re.match(r"[A-Za-z]*", said).group(0)
    remark = ""
    if kind == "bytes":
        scale = 1
    elif kind == "KiB":
        scale = KIB
    elif kind in ("MiB", "GiB"):
        scale = {"MiB": MIB, "GiB": GIB}[kind]
    elif "1e9" in said:
        scale = 1000**3
    elif "GiB" in said or "MiB" in said or "1024" in notes:
        scale = MIB if kind.startswith("M") else GIB
    else:
        # Figures that people print as GB come from nvidia-smi (MiB) or from torch divided by 1024^3 far more often than by 1e9.
        scale = MIB if kind.startswith("M") else GIB
        decimal = 1000**2 if kind.startswith("M") else 1000**3
        remark = f"unit not stated: read as 2^30-based as nvidia-smi and torch helpers print; {value * decimal:.0f} B if decimal"
    half = 0.5 * 10**-digits * scale
    if re.search(r"approx|~", notes):
        remark += "; approximate" if remark else "approximate"
        half = max(half, 0.005 * value * scale)
    return int(round(value * scale)), int(half) if scale > 1 else 0, remark


def device_pool(text):
    """What the device has, from the row's own words, in GiB."""
    match = re.search(r"([\d.]+) ?GiB (?:total|GPU)|(?:of|total) (\d+(?:\.\d+)?)(?: GiB)?\b(?! tokens)", text)
    if match:
        value = float(match.group(1) or match.group(2))
        if 8 <= value <= 600:
            return value
    match = re.search(r"[A-Z][\w-]+ (\d+\.\d+) GiB;", text)
    if match:
        return float(match.group(1))
    for pattern, gib in DEVICES:
        if re.search(pattern, text):
            return gib
    return None


# --- models ---------------------------------------------------------------------------------------------------------


def model_argument(name, params, notes=""):
    """The name a user would give: what stands in brackets and words of the file format are not part of it; a size that the name lacks is added."""
    name = re.sub(r"\(.*?\)", " ", name)
    name = re.sub(r"\s+llm_load.*", "", name, flags=re.S)
    name = re.sub(r"\b(GGUF|Safetensors|MoE GGUF)\b", " ", name, flags=re.I)
    name = re.sub(r"^(?:unsloth_|opensourcerelease_)", "", name.strip())
    name = re.sub(r"[ _]+(?:Bf16|BF16)$", "", name.strip())
    name = re.sub(r"\s+", " ", name).strip(" ;,")
    generic = not re.search(r"[A-Za-z]{3}", name) or name.lower() in ("models", "model", "huggingface", "tmp")
    if generic or "/vx-" in name:
        match = re.search(r"([A-Za-z0-9.-]*\d+B[A-Za-z0-9.-]*)", name)
        return match.group(1) if match else None
    if params and not re.search(r"(?<![A-Za-z\d.])[\d.]+ ?[xX]?[\d.]*[BM](?![A-Za-z])|\d+[xX]\d+|[\d.]+[BbMm]\b|mini|medium|small|tiny|large", name, re.I):
        name += f" {params:g}B"
    return name


def shape_words(**shape):
    """The shape options of `umactl plan` in the order of its help; None and 0 are left out."""
    words = []
    for key, value in shape.items():
        if value is True or value is False:
            words += ["--" + key.replace("_", "-"), "yes" if value else "no"]
        elif value:
            words += ["--" + key.replace("_", "-"), str(value)]
    return words


def without(words, options):
    """Words without these options and their values."""
    out, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in options:
            skip = True
        else:
            out.append(word)
    return out


def logged_shape(notes, params):
    """A shape from what a llama.cpp log printed of the model; for names that say nothing."""
    arch = (re.search(r"arch (\w+)", notes) or [None, ""])[1]
    layers, hidden, vocab, kv = (log_field(notes, key) for key in ("layers", "n_embd", "vocab", "k_gqa"))
    if not re.match(r"llama|qwen[23]$|mistral|bitnet", arch) or not (layers and hidden and kv):
        return None
    head = 64 if hidden % 128 or kv % 128 or hidden < 2048 else 128
    vocab = vocab or 32000
    ffn = round(8 * hidden / 3 / 64) * 64
    if params:
        # What a gated feed-forward must be for the count to come out; rounded to 64 as everywhere.
        rest = params * 1e9 - 2 * vocab * hidden - layers * (2 * hidden * hidden + 2 * hidden * kv + 2 * hidden)
        ffn = max(64, round(rest / (3 * hidden * layers) / 64) * 64)
    return shape_words(hidden=hidden, layers=layers, heads=hidden // head, kv_heads=kv // head, head_dim=head, ffn=ffn, vocab=vocab)


def log_field(notes, key):
    match = re.search(r"\b" + key + r" (\d+)", notes)
    return int(match.group(1)) if match else None


# --- training -------------------------------------------------------------------------------------------------------

FRAMEWORKS = [
    (r"examples/megatron|Megatron|NeMo\b|tensor_model_parallel|expert_model_parallel|recompute=", "megatron"),
    (r"unslothai|Unsloth", "unsloth"), (r"torchtune", "torchtune"), (r"torchtitan", "torchtitan"), (r"litgpt", "litgpt"),
    (r"axolotl", "axolotl"), (r"LLaMA-Factory", "llama-factory"), (r"ms-swift", "ms-swift"),
]
OBJECTIVES = ["dpo", "orpo", "kto", "grpo"]
# Methods that exist and are not LoRA or full fine-tuning; the nearest is planned and the row does not count as complete.
STRANGE_METHODS = r"adapter|adalora|bone|ppo|gkd|lisa|galore|simpo|cpo|\brm\b|reft|vera|boft|ia3|prompt|prefix|llamapro|badam|lomo|grad-in-backward|rlhf"


def weight_format(dtype, method, framework, model=""):
    text = dtype.lower()
    if re.search(r"nf4-dq", text):
        return "nf4-dq"
    if re.search(r"bnb\.nf4|nf4$", text) and framework == "litgpt":
        return "nf4"  # litgpt names both kinds
    if re.search(r"nf4|bnb-?4|4bit", text) and "load_in_4bit=false" not in text:
        # PEFT examples, TRL, Unsloth, Axolotl, LLaMA-Factory, ms-swift and torchtune all default to double quantisation.
        return "nf4-dq"
    if "gptq" in text:
        if re.search(r"TheBloke/(Mixtral|Llama-2-70B)", model):
            return "gptq4-channel"  # the cards of these two: the main branch has no groups, to fit smaller devices
        return "gptq4-g128" if "8" not in text.split("gptq")[1] else "gptq8-g128"
    if "awq" in text:
        return "awq4-g128"
    if "nvfp4" in text:
        return "nvfp4"
    if "mxfp4" in text:
        return "mxfp4"
    if re.search(r"\b8bit|int8|bnb-8", text):
        return "int8"
    if text.startswith("fp32"):
        return "fp32"
    if re.search(r"bfloat16|bf16", text):
        return "bf16"
    if re.search(r"float16|fp16", text):
        return "fp16"
    if text.startswith("fp8"):
        return "bf16"  # Transformer Engine hybrid: weights stay bf16 (or fp32), matrix products run in fp8
    return None


OPTIMIZERS = [
    (r"paged.*8bit", "paged-adamw-8bit"), (r"paged", "paged-adamw"), (r"4bit", "adamw-4bit"), (r"lion.*8", "lion-8bit"), (r"lion", "lion"),
    (r"8.?bit|bnb_8", "adamw-8bit"), (r"adafactor", "adafactor"), (r"muon", "muon"), (r"galore", "galore"), (r"lomo", "lomo"),
    (r"badam", "badam"), (r"fused", "adamw-fused"), (r"sgd.*momentum", "sgd-momentum"), (r"\bsgd", "sgd"), (r"adam", "adamw"),
]


def optimizer_name(text):
    for pattern, name in OPTIMIZERS:
        if re.search(pattern, text, re.I):
            return name
    return None


PROJECTIONS = {"q": "q", "k": "k", "v": "v", "o": "o", "q_proj": "q", "k_proj": "k", "v_proj": "v", "o_proj": "o", "gate": "gate", "up": "up",
               "down": "down", "gate_proj": "gate", "up_proj": "up", "down_proj": "down"}


# LitGPT's config_hub, which its table names a row by: matrices with an adapter and, where the table has no rank, the rank. All run on one device,
# whatever the machine (devices: 1), but full fine-tuning, which shards and then checkpoints (litgpt/finetune/full.py).
LITGPT_ALL = r"config (?:gemma|phi|tiny-llama)"
LITGPT_RANKS = [(r"config llama-3\.2", 32), (r"config gemma2?-?2b/qlora", 16)]


def litgpt_adapter(notes):
    if not re.search(r"config [\w.-]+/q?lora\.yaml", notes):
        return None, None
    rank = next((rank for pattern, rank in LITGPT_RANKS if re.search(pattern, notes)), None)
    return rank, "all-linear" if re.search(LITGPT_ALL, notes) else "q,v"


def adapter(method, notes):
    """Rank and targets, as far as the row says them."""
    text = method + " ; " + notes
    rank = re.search(r"(?:\br|lora_r|lora_rank|rank)[ =:]+(\d+)", text)
    targets = None
    if re.search(r"all[- ](?:linear|modules|layers)|r=\d+ all\b|target=all-linear|c_attn,c_proj,w1,w2", text):
        targets = "all-linear"
    elif "experts" in text and "target" in text:
        targets = "all-linear"
    else:
        match = re.search(r"\b((?:[qkvo]|gate|up|down)(?:_proj)?(?:,(?:[qkvo]|gate|up|down)(?:_proj)?)+)\b", text)
        if match:
            targets = ",".join(PROJECTIONS[word] for word in match.group(1).split(","))
    return (int(rank.group(1)) if rank else None), targets


TUNE_STEPS = ["baseline", "packed", "compile", "chunked", "activation checkpointing", "fuse", "activation offloading", "8-bit", "lora", "qlora"]


def training_arguments(row):
    """`train ...` for one row, and what the row leaves open."""
    notes, source, method = row["notes"], row["source"], row["method"].lower()
    open_points, words, remark = [], [], []
    context = " ".join([source, notes, row["parallelism"], row["grad_ckpt"], method])
    framework = next((name for pattern, name in FRAMEWORKS if re.search(pattern, context)), None)
    own_loop = re.search(r"ai-field-notes articles/(baseline-training-loop|autoresearch-agent-loop)", source) is not None
    if own_loop:
        # A loop of its own over Megatron-Core's model: no gradient buffer, torch's AdamW over bf16 parameters, torch's cross entropy.
        framework = "torch"
    params = billions(row["params_b"])
    model = model_argument(row["model"], params)
    pretrain_gpt = re.search(r"GPT ([\d.]+)M", row["model"])
    shape = None
    if pretrain_gpt:
        shape = re.search(r"(\d+)L x (\d+)(?:, vocab (\d+))?", row["model"]) or re.search(r"(\d+)L x (\d+)(?:, vocab (\d+))?", notes)
        layers, hidden, vocab = (int(shape.group(1)), int(shape.group(2)), int(shape.group(3) or 50257)) if shape else (24, 1024, 50257)
        # A GPT-2-like model as Megatron and NeMo build it: biases, LayerNorm, learned positions, the vocabulary padded to 128.
        shape = shape_words(hidden=hidden, layers=layers, heads=hidden // 64, ffn=4 * hidden, vocab=-(-vocab // 128) * 128, tied=True, gated=False,
                            bias=True, positions=max(1024, whole(row["seq_len"]) or 0))
    if model is None or re.search(r"see file|not captured", row["model"]):
        open_points.append("model")
    words += ["train"] + (shape or ["--model", quote(model or "?")])

    # method
    objective = next((name for name in OBJECTIVES if name in method), None)
    fmt = weight_format(row["weight_dtype"], method, framework, row["model"])
    is_lora = "lora" in method or (re.search(r"adapter|bone", method) and "full" not in method)
    quantised = fmt in ("nf4", "nf4-dq", "gptq4-g128", "gptq4-channel", "gptq8-g128", "awq4-g128", "nvfp4", "mxfp4", "int8")
    if re.search(STRANGE_METHODS, method):
        open_points.append("method is a relative of the one planned")
    if objective:
        words += ["--method", objective]
    elif "pretrain" in method:
        words += ["--method", "pretrain"]
    elif is_lora:
        words += ["--method", "qlora" if quantised else "lora"]
    else:
        words += ["--method", "full"]
    if "uncertain" in row["weight_dtype"]:
        fmt = "nf4-dq" if "4bit=True" in row["weight_dtype"] else "bf16"
        open_points.append("dtype")
    if fmt:
        words += ["--dtype", fmt]
    else:
        open_points.append("dtype")
    if fmt == "fp32" and re.search(r"bf16|float8|mxfp8|nvfp4", row["weight_dtype"].lower() + source.lower() + (framework or "")) or \
            (fmt == "fp32" and framework == "torchtitan"):
        words += ["--compute", "bf16"]
    if re.search(r"AMP (bf16|fp16)", notes):
        words += ["--compute", re.search(r"AMP (bf16|fp16)", notes).group(1), "--autocast", "yes"]
    elif "framework_config=" in notes:
        words += ["--autocast", "no"]  # this bench runs without AMP unless its row says so
        if fmt == "fp16":
            words += ["--compute", "fp16"]
    elif "QwenLM/Qwen " in source and quantised:
        words += ["--compute", "fp16", "--autocast", "no"]  # finetune_qlora_single_gpu.sh: fp16 by DeepSpeed, not by AMP
    elif re.search(r"fp16 \(mixed\)", row["weight_dtype"]):
        words += ["--compute", "fp16"]

    optimizer = optimizer_name(row["optimizer"])
    if optimizer:
        words += ["--optimizer", optimizer]
    elif row["optimizer"].strip() not in ("", "default"):
        remark.append("optimizer: " + row["optimizer"])

    # work
    batch = whole(row["micro_batch"])
    if batch:
        words += ["--batch", str(batch)]
    else:
        open_points.append("batch")
    sequence = whole(row["seq_len"])
    sum_match = re.fullmatch(r"(\d+)\+(\d+)", row["seq_len"].strip())
    if sum_match:
        sequence = int(sum_match.group(1)) + int(sum_match.group(2))
    tokens_match = re.match(r"(\d+) tokens", row["seq_len"])
    per_sample = whole((re.search(r"tokens/sample=(\d+)", notes) or [None, ""])[1])
    # swift's max_length truncates; without packing real lengths are the data set's
    capped = re.search(r"is a cap", notes) is not None or ("ms-swift" in source and "packing=true" not in notes and bool(sequence))
    if sequence:
        words += ["--seq", str(sequence)]
    elif tokens_match:
        words += ["--tokens", tokens_match.group(1)]
    elif per_sample and batch:
        words += ["--tokens", str(per_sample * batch)]
        open_points.append("variable length: tokens are a mean, the peak is at the longest")
    else:
        open_points.append("length")
    if re.search(r"unpacked|packing=false", notes) and sequence and framework in ("torchtune",):
        open_points.append("unpacked: lengths below the cap")
    if re.search(r"\bpacked\b(?! \d*;?\s*not)|packing=true|padding.?free", notes) and not re.search(r"not packed|unpacked", notes):
        words += ["--packing", "yes"]
    accumulation = re.search(r"\bga ?(\d+)\b|x ga(\d+)", notes)
    if accumulation and int(accumulation.group(1) or accumulation.group(2)) > 1:
        words += ["--accumulation", accumulation.group(1) or accumulation.group(2)]
    if is_lora or objective:
        rank, targets = adapter(method, notes)
        preset_rank, preset_targets = litgpt_adapter(notes)
        rank, targets = rank or preset_rank, targets or preset_targets
        if "lora" in method and rank is None and framework not in ("litgpt",) and "rank" not in method:
            remark.append("rank not stated")
        if is_lora:
            words += ["--rank", str(rank or 8)] if rank or objective else []
        if "litgpt config_hub" in source and not targets and re.search(r"config (gemma|phi|tiny)", notes):
            targets = "all-linear"  # their YAML files set every lora_* switch, lm_head's too; the others query and value only
        if targets:
            words += ["--targets", targets]
        if "emb" in method:
            words += ["--train-embeddings"]
        if "dora" in method or "/dora/" in source:
            words += ["--dora"]

    # checkpointing
    checkpointing = row["grad_ckpt"].strip().lower()
    if "offload" in checkpointing or "activation offloading" in notes.lower():
        words += ["--checkpointing", "offload"]
    elif checkpointing == "unsloth" or ("LLaMA-Factory/wiki" in source and framework == "unsloth"):
        words += ["--checkpointing", "offload"]  # Unsloth's own default
    elif checkpointing.startswith(("true", "default(true)", "full", "recompute=full")):
        words += ["--checkpointing", "on"]
    elif "selective" in checkpointing:
        words += ["--checkpointing", "selective"]
    elif checkpointing.startswith("false"):
        words += ["--checkpointing", "off"]
        if checkpointing.endswith("?"):
            remark.append("checkpointing inferred, not stated")
    else:
        open_points.append("checkpointing")

    if re.search(r"FA2|FlashAttention|attn=flash|flash.?attn|flash-attn", notes):
        words += ["--attention", "flash"]
    elif re.match(r"HF;", notes):
        words += ["--attention", "eager"]
    config_name = (re.search(r"framework_config=([\w-]+)", notes) or [None, ""])[1]
    if "liger" in config_name or re.search(r"CutCrossEntropy|\bCCE\b|Liger(?! off)", notes) or "linear ce" in method:
        words += ["--loss", "fused-linear"]
    elif "foak" in config_name:
        words += ["--loss", "fused"]
    elif config_name:
        words += ["--loss", "full"]
    elif "llama3_h100_202412_torchtitan" in source:
        words += ["--loss", "full"]  # torchtitan compiles its loss since 2025; these runs hold its fp32 steps
    elif "LLaMA-Factory/wiki" in source and framework == "unsloth":
        words += ["--loss", "fused"]  # Unsloth of that time: fused cross entropy over all logits
    if config_name and "peft-bnb" in config_name or config_name.startswith("accelerated-peft"):
        # Only the plain PEFT path calls prepare_model_for_kbit_training, which turns hidden states into fp32.
        words += ["--residual", "fp32" if config_name.startswith("baseline") else "bf16"]
    step = re.search(r'ablation step "\+?([^"]*)"', notes)
    if step:
        text = step.group(1).lower()
        index = max((i for i, name in enumerate(TUNE_STEPS) if name in text), default=0)
        if index < 1:
            open_points.append("unpacked: lengths below the cap")
        if index >= 1:
            words += ["--packing", "yes"]
        if index >= 2:
            words += ["--compile", "yes"]
        if index >= 3:
            words += ["--loss", "chunked"]
        if index >= 5:
            remark.append("optimizer step fused into the backward pass")
        if index >= 6 and "--checkpointing" in words:
            words[words.index("--checkpointing") + 1] = "offload"  # the steps add up
    elif re.search(r"\bcompile\b", notes):
        words += ["--compile", "yes"]
    if framework:
        words += ["--framework", framework]
    if own_loop:
        words += ["--autocast", "no"]

    # sharding
    gpus = whole(row["gpus"])
    parallel = row["parallelism"].lower()
    total_figure = re.search(r"TOTAL over all GPUs|sum over", notes) is not None
    nodes_match = re.search(r"(\d+) nodes? x (\d+)", parallel)
    if re.search(r"config [\w.-]+/q?lora\.yaml", notes):
        gpus, parallel = 1, "none"
    if gpus is None:
        if parallel not in ("", "none"):
            open_points.append("number of GPUs")
        gpus = 1
    degrees = {}
    for key, pattern in (("tp", r"tensor_model_parallel_size=(\d+)|\btp(\d+)"), ("pp", r"pipeline_model_parallel_size=(\d+)|\bpp(\d+)"),
                         ("cp", r"context_parallel_size=(\d+)|\bcp(\d+)"), ("ep", r"expert_model_parallel_size=(\d+)|\bep(\d+)")):
        match = re.search(pattern, parallel)
        if match and int(match.group(1) or match.group(2)) > 1:
            degrees[key] = int(match.group(1) or match.group(2))
    ep_config = re.search(r"-ep(\d+)", config_name)
    if ep_config and int(ep_config.group(1)) > 1:
        degrees["ep"] = int(ep_config.group(1))
    shard = None
    zero = re.search(r"zero-?(\d)", parallel + " " + method)
    if zero:
        shard = "zero" + zero.group(1)
    elif "fsdp/ddp" in parallel:
        if "litgpt config_hub" in source and not ("phi-2" in notes and "full" in method):
            gpus = 1  # the machine has 4; the YAML files say devices: 1, and the figures are those of one to the last digit
            remark.append("one device of the machine is used")
        else:
            shard = "fsdp"
    elif "fsdp" in parallel and gpus > 1:
        shard = "fsdp"
    elif "ddp" in parallel:
        shard = "ddp"
    elif "deepspeed" in parallel and gpus > 1:
        shard = "zero3" if "full" in method and "QwenLM" in source else "zero2"
        remark.append("DeepSpeed stage not stated: its script's own for full fine-tuning (finetune_ds.sh: 3)" if shard == "zero3" else
                      "DeepSpeed stage not stated: 2 taken")
    elif "QwenLM/Qwen " in source and ("full" in method or quantised):
        shard = "zero3" if "full" in method else "zero2"  # finetune_ds.sh and finetune_qlora_single_gpu.sh, also on one device
    elif parallel.startswith("device_map") and gpus > 1:
        degrees["pp"] = gpus
    if nodes_match:
        words += ["--nodes", nodes_match.group(1), "--gpus", nodes_match.group(2)]
        gpus = int(nodes_match.group(1)) * int(nodes_match.group(2))
    elif gpus > 8:
        words += ["--nodes", str(gpus // 8), "--gpus", "8"]
    elif gpus > 1:
        words += ["--gpus", str(gpus)]
    for key, value in degrees.items():
        words += ["--" + key, str(value)]
    if framework == "megatron" and degrees.get("tp", 1) > 1:
        words += ["--sequence-parallel"]
    if framework == "megatron" and "ms-swift" in source:
        words += ["--distributed-optimizer"]  # ms-swift's Megatron default
    if shard and (gpus > 1 or zero or "QwenLM/Qwen " in source):
        words += ["--shard", shard]
    elif gpus > 1 and not degrees and not shard and parallel == "none":
        words += ["--shard", "ddp"]
    if "cpu_offload" in parallel or ("offload" in parallel and "fsdp" in parallel):
        open_points.append("states offloaded to the host")
    # Which optimizer a preset took is part of a complete row where its state matters.
    if not optimizer and not is_lora and "full" in method and framework != "ms-swift" and "ms-swift" not in source:
        open_points.append("optimizer")

    return {"words": words, "open": open_points, "capped": capped, "remark": remark, "gpus": gpus,
            "divide": gpus if total_figure and gpus > 1 else 1, "framework": framework, "is_lora": is_lora, "quantised": quantised,
            "pretrain": "pretrain" in method, "objective": objective}


def training_class(row, plan):
    component, notes = row["component"], row["notes"]
    if component == "steady_alloc":
        return "steady_alloc", "allocated.between_steps"
    if component.startswith("device"):
        return "device_smi", "device.total"
    if component.startswith("host"):
        return "host_used", "device.total"
    if component == "weights":
        return ("weights_reserved", "weights") if re.search(r"reserved", notes) else ("weights", "weights")
    kind = "pretrain" if plan["pretrain"] else plan["objective"] or ("qlora" if plan["is_lora"] and plan["quantised"] else "lora" if plan["is_lora"] else "full")
    reserved = re.search(r"max reserved|peak reserved|max_memory_reserved|torchtitan", notes + row["source"]) is not None or \
        (re.search(r"unslothai/notebooks", row["source"]) is not None) or \
        (re.search(r"ms-swift", row["source"]) is not None)  # swift/utils/torch_utils.py: memory(GiB) is max_memory_reserved
    if "LLaMA-Factory/wiki" in row["source"]:
        # Whole gigabytes of a device; nothing is said of torch. Checkpoints that Unsloth moves to the host are not in them.
        return "total_peak-" + kind, "device.reserved" if plan["words"][-1:] == ["unsloth"] or "unsloth" in plan["words"] else "device.total"
    if "QwenLM/Qwen " in row["source"]:
        # Not stated what was read. It cannot be torch's allocated peak: figures fall where the length doubles (35.2 at 1,024, 35.1 at 2,048).
        return "total_peak-" + kind, "device.total"
    return "total_peak-" + kind, "device.reserved" if reserved else "allocated.peak"


def import_training(rows):
    out = []
    for row in rows:
        value, half, remark = measured(row["value_published"], row["unit_published"], row["notes"])
        if value is None:
            continue
        plan = training_arguments(row)
        name, component = training_class(row, plan)
        opens = list(plan["open"])
        if name in ("weights", "steady_alloc"):
            # Between two steps nothing depends on lengths and checkpointing.
            opens = [p for p in opens if not re.search(r"length|batch|checkpointing|lengths", p)]
        if name == "weights_reserved":
            opens.append("what is left of the load stays in the reserved figure")
        if name == "host_used":
            opens.append("the operating system's own use is in it")
        if plan["capped"] and name.startswith("total_peak"):
            complete = "cap"
            if [p for p in opens if not p.startswith("length")]:
                complete = "no"
        else:
            complete = "no" if opens else "yes"
        texts = [remark] if remark else []
        if plan["divide"] > 1:
            texts.append(f"published as the sum over {plan['divide']} GPUs")
        if opens:
            texts.append("open: " + ", ".join(dict.fromkeys(opens)))
        elif complete == "cap":
            texts.append("open: the length is a cap, real lengths are the data set's")
        texts += plan["remark"]
        trainable = re.search(r"trainable (?:params )?([\d,]+)", row["notes"])
        if trainable:
            texts.append("trainable " + trainable.group(1).replace(",", ""))
        out.append({"id": row["id"], "class": name, "component": component, "measured_bytes": value // plan["divide"],
                    "arguments": " ".join(plan["words"]),
                    "params": row["params_b"], "gpus": plan["gpus"], "complete": complete, "precision": half // plan["divide"],
                    "source": row["source"], "remark": "; ".join(texts)})
    return out


def import_oom(rows):
    out = []
    for index, row in enumerate(rows):
        row = dict(row)
        plan = training_arguments(row)
        pool = device_pool(row["notes"]) or 79.25
        smi = re.search(r"before failure (\d+) MiB", row["notes"])
        texts = ["did not run on the device"]
        if smi:
            texts.append(f"nvidia-smi {smi.group(1)} MiB before it failed")
        if plan["open"]:
            texts.append("open: " + ", ".join(dict.fromkeys(plan["open"])))
        out.append({"id": f"OOM-{index + 1:03d}", "class": "oom", "component": "verdict", "measured_bytes": int(pool * GIB),
                    "arguments": " ".join(plan["words"] + ["--budget", f"{pool:g}GiB"]),
                    "params": row["params_b"], "gpus": plan["gpus"], "complete": "no" if plan["open"] else "yes", "precision": 0,
                    "source": row["source"], "remark": "; ".join(texts)})
    return out


# --- serving --------------------------------------------------------------------------------------------------------

PURE_FILES = ("f16", "bf16", "f32", "q8_0")


def serving_format(dtype):
    text = dtype.lower().strip()
    text = re.sub(r"\s+llm_load.*", "", text, flags=re.S)
    for pattern, name in ((r"^bnb\.nf4-dq", "nf4-dq"), (r"nf4", "nf4"), (r"q8_0\+mxfp4", "mxfp4"), (r"mxfp4", "mxfp4"), (r"nvfp4", "nvfp4"),
                          (r"awq-hqq", "hqq4-g64"), (r"awq", "awq4-g128"), (r"gptq.?int8", "gptq8-g128"), (r"int8", "int8"), (r"int4wo-64", "gptq4-g64"),
                          (r"gptq|int4", "gptq4-g128"), (r"^fp8|fp8-block", "fp8"), (r"^bf16", "bf16"), (r"^f16|^fp16", "f16"),
                          (r"^f32|^fp32", "f32")):
        if re.search(pattern, text):
            return name
    match = re.match(r"(i?q\d_?\w*?|iq\d_\w+|tq\d_\d)(?:_r\d+)?(?: - .*)?$", text)
    if match:
        name = match.group(1)
        kind = re.match(r"(q\d_k)(?:_[sml])?|(iq\d_k)|(iq\d_k[st])s?|(iq\d_xx?s|iq\d_[smnl]+|iq\d_nl)|(q\d_[01])", name)
        return next((g for g in kind.groups() if g), None) if kind else None
    return None


def serving_engine(row):
    text = row["method"].lower()
    for pattern, name in (("vllm", "vllm"), ("sglang", "sglang"), ("llama.cpp", "llama.cpp"), ("ollama", "ollama"), ("trt", "trt-llm"),
                          ("transformers|generate|torchao|^torch", "transformers")):
        if re.search(pattern, text):
            return name
    return None


KV_FORMATS = {"f16": "f16", "q8_0": "q8_0", "q4_0": "q4_0", "q5_0": "q5_0", "q5_1": "q5_1", "q4_1": "q4_1", "iq4_nl": "iq4_nl", "bf16": "bf16", "f32": "f32",
              "q6_0": "q5_1"}


def logged_bits_are_of(fmt, notes):
    """Some logs name the type of most tensors that is not the type of most bytes."""
    bits = re.search(r"([\d.]+) bpw", notes)
    return not bits or abs(float(bits.group(1)) / (8.5 if fmt == "q8_0" else 32 if fmt == "f32" else 16) - 1) < 0.02


def import_serving(rows):
    out = []
    # What a log says of its engine stands in one of its rows; the others of the same log and model share it.
    groups = {}
    for row in rows:
        groups.setdefault((row["source"], row["model"], row["parallelism"], row["method"]), []).append(row["notes"])
    for row in rows:
        value, half, remark = measured(row["value_published"], row["unit_published"], row["notes"])
        if value is None:
            continue
        notes = row["notes"]
        shared = " ; ".join(groups[(row["source"], row["model"], row["parallelism"], row["method"])]) + " ; " + row["parallelism"]
        engine = serving_engine(row)
        component = row["component"]
        opens, words, texts = [], ["serve"], [remark] if remark else []
        params = billions(row["params_b"])
        model = model_argument(row["model"], params)
        logged = logged_shape(notes, params) if engine == "llama.cpp" else None
        shape = logged if model is None else None
        if (model is None and not shape) or re.search(r"not captured|^\(", row["model"]):
            opens.append("model")
        words += shape or ["--model", quote(model or "?")]
        if engine:
            words += ["--engine", engine]
        else:
            opens.append("engine")
        fmt = serving_format(row["weight_dtype"])
        if fmt:
            words += ["--dtype", fmt]
        elif component.startswith(("weights", "total")):
            opens.append("format")
        gpus = whole(row["gpus"]) or 1
        parallel = row["parallelism"].lower()
        tp = re.search(r"\btp ?(\d+)", parallel) or (re.search(r"()", "") if False else None)
        pp = re.search(r"(?:pipeline |pp)(\d+)", parallel)
        degrees = 1
        if tp and int(tp.group(1)) > 1:
            words += ["--tp", tp.group(1)]
            degrees *= int(tp.group(1))
        elif "generate_tp" in row["method"] and gpus > 1:
            words += ["--tp", str(gpus)]
        if pp:
            words += ["--pp", pp.group(1)]
        elif parallel.startswith("device_map") and gpus > 1:
            words += ["--pp", str(gpus)]
        divide = gpus if re.search(r"sum over", notes) and gpus > 1 else 1

        # length and sequences
        input_match = re.search(r"input (\d+) \+ (\d+) generated", notes)
        # "N tokens needs X GiB" beside another figure tells of a need, not of this one.
        tokens_match = re.search(r"([\d,]{4,}) tokens(?! needs)", notes)
        context = whole(row["seq_len"])
        log_context = log_field(notes, "n_ctx")
        prompt = None
        if input_match:
            prompt, context = int(input_match.group(1)), int(input_match.group(1)) + int(input_match.group(2))
        elif component.startswith("kv") and tokens_match:
            context = int(tokens_match.group(1).replace(",", ""))
        elif log_context:
            context = log_context
        elif re.search(r"generat(?:e|ing) (\d+)|tokens generated", notes) and context:
            prompt = 1
        new_tokens = re.search(r"(\d+) new tokens", notes)
        if context is None and new_tokens:
            prompt, context = 1, int(new_tokens.group(1))
        if context is None and "litgpt generate" in notes:
            prompt, context = 8, 58  # its default prompt of 8 tokens and max_new_tokens of 50
        if context:
            words += ["--context", str(context)]
        elif component.startswith(("kv", "total", "compute")):
            opens.append("context")
        if engine == "transformers" and "Qwen3" in row["model"] and prompt and prompt > 1:
            # This table's figures leave 33 to 48 MiB beside weights and cache at every prompt length: they were taken after the prefill.
            prompt = 1
            texts.append(f"prompt of {input_match.group(1)}, measured without its activations")
        if prompt:
            words += ["--prompt", str(prompt)]
        if engine == "transformers" and re.match(r"Qwen2-", row["model"]):
            words += ["--logits", "all-fp32"]  # transformers 4.38 (documentation v2.0 of the same table)
        elif engine == "transformers" and re.match(r"Qwen-\d", row["model"]):
            words += ["--cache", "tuple"]  # the model's own code, written for transformers 4.32
        elif engine == "transformers" and row["model"].startswith("GLM-4"):
            words += ["--logits", "all"]  # its rows grow by 2 bytes x vocabulary per prompt token
        batch = whole(row["micro_batch"])
        sequences = re.search(r"(\d+) sequences", notes)
        if sequences or (batch and batch > 1):
            words += ["--sequences", sequences.group(1) if sequences else str(batch)]

        # KV format
        kv = re.search(r"K \((\w+)\)", notes)
        kv_v = re.search(r"V \((\w+)\)", notes)
        latent = re.search(r"c\^KV \((\w+)\)", notes)
        if kv and kv_v:
            pair = KV_FORMATS.get(kv.group(1), kv.group(1)), KV_FORMATS.get(kv_v.group(1), kv_v.group(1))
            words += ["--kv-dtype", pair[0] if pair[0] == pair[1] else ",".join(pair)]
            if "q6_0" in (kv.group(1), kv_v.group(1)):
                opens.append("KV format")
        elif latent:
            words += ["--kv-dtype", KV_FORMATS.get(latent.group(1), latent.group(1))]
        elif re.search(r"int8 KV", notes):
            words += ["--kv-dtype", "int8"]
        elif re.search(r"fp8[_ ]?(?:e4m3|KV)?\b", notes) and component.startswith("kv"):
            words += ["--kv-dtype", "fp8"]
        elif engine == "llama.cpp" and component == "compute_buffer":
            pass

        # engine
        if engine == "llama.cpp":
            ubatch, fa, mla, amb = (log_field(notes, key) for key in ("n_ubatch", "fa", "mla", "amb"))
            if ubatch:
                words += ["--ubatch", str(ubatch)]
            if fa is not None:
                words += ["--flash", "yes" if fa else "no"]
            if row["method"].startswith("ik_"):
                words += ["--mtp", "no"]  # its converter leaves prediction layers out of the file
            if "deepseek2" in notes and log_field(notes, "k_gqa") == 576:
                words += ["--mla", "transposed"]  # a file with the latent as its one head: K of 576 and V of 512 are kept
            elif "deepseek2" in notes and mla is not None:
                if re.search(r"kv\^T \(", notes):
                    words += ["--mla", "transposed"]
                else:
                    # -mla 1 without flash attention keeps the transposed copy; 2 and 3 do not.
                    words += ["--mla", "expanded" if mla == 0 and not latent else "transposed" if mla == 1 and not fa and not latent else "latent"]
            elif "deepseek2" in notes and not latent and log_field(notes, "k_gqa"):
                # The log has no -mla yet; the width of K tells: all heads expanded, or the latent with its values kept once more.
                words += ["--mla", "transposed" if log_field(notes, "k_gqa") == 576 else "expanded"]
            elif latent or re.search(r"K\^R \(", notes):
                words += ["--mla", "latent"]
            if "deepseek2" in notes and mla in (2, 3):
                words += ["--amb", f"{amb}MiB" if amb else "none"]
            if "--swa-full" in notes or row["method"].startswith("ik_"):  # ik_llama.cpp keeps the whole context in every layer
                words += ["--swa-full"]
        util = re.search(r"util(?:isation|ization)? \.?(0?\.?\d+)", shared)
        fraction = None
        if engine in ("vllm", "sglang") and util:
            text = re.search(r"util\w* (0?\.\d+)", shared)
            own = re.search(r"util\w* (0?\.\d+)", notes)
            fraction = float((own or text).group(1)) if (own or text) else None
        pool = device_pool(notes + " ; " + shared) if engine in ("vllm", "sglang") else None
        if fraction:
            words += ["--fraction", f"{fraction:g}"]
        if pool and engine in ("vllm", "sglang"):
            words += ["--pool", f"{pool:g}GiB"]
        batched = re.search(r"max_num_batched_tokens (\d+)", notes)
        if batched:
            words += ["--batched-tokens", batched.group(1)]
        if re.search(r"vision|multimodal", notes):
            texts.append("with images")

        # class
        name, field = component, component
        device = (re.match(r"(\w+?) (compute|model) buffer", notes) or [None, None])[1]
        if component == "weights":
            name, field = "weights", "weights"
            if re.search(r"\([^)]*\)\s*$", row["model"]) and re.search(r"nvfp4|int4|awq|exl|gguf|mix", row["weight_dtype"], re.I):
                opens.append("somebody's own quantisation")
            logged_file = re.search(r"file size as logged|file size", notes) is not None
            if engine == "llama.cpp":
                if not logged_file and re.search(r"buffer|CUDA\d|Host|CPU", notes + row["parallelism"]):
                    name = "weights_split"
                    opens.append("part of the layers on this device")
                elif fmt not in PURE_FILES or re.search(r"IQ|_R\d", row["weight_dtype"]) or not logged_bits_are_of(fmt, notes):
                    name = "weights_mix"
                    opens.append("mix of tensor types")
            elif fmt is None:
                opens.append("format")
            if engine == "llama.cpp" and re.search(r"^\d+\.\d+ ?bpw", notes):
                opens.append("mix of tensor types")
        elif component == "kv":
            name, field = "kv", "kv_cache"
            if engine in ("vllm", "sglang") and not tokens_match:
                name, field = "vllm_kv_budget" if engine == "vllm" else "kv_budget", "kv_budget"
                opens = [p for p in opens if p != "context"]
                if not fraction or not pool:
                    opens.append("fraction or device")
        elif component == "compute_buffer":
            name, field = "compute_buffer", "compute_buffers"
            if device and re.search(r"Host|CPU", device):
                name = "compute_buffer-host"
                opens.append("host side")
            elif gpus > 1:
                opens.append("several devices")
            if re.search(r"fa \?|n_ubatch \?", notes) or log_field(notes, "n_ubatch") is None:
                opens.append("batch or attention kernel")
        elif component == "total_peak":
            name = {"transformers": "transformers_total", "llama.cpp": "llama_cpp_total", "ollama": "llama_cpp_total"}.get(engine, "engine_total")
            field = "allocated.peak"
            if engine == "transformers" and re.search(r"\bgenerate(_\w+)?$", row["method"]) and "litgpt" in row["source"]:
                name = "litgpt_total"
            if engine in ("llama.cpp", "ollama"):
                field = "device.total"
            if engine in ("vllm", "sglang"):
                field = "device.total"
                opens.append("an engine fills the fraction it is given")
        elif component.startswith("host"):
            name, field = "host_used", "device.total"
            opens.append("the operating system's own use is in it")
        elif component == "activation":
            name, field = "activation", "activations"
            if not batched:
                opens.append("batched tokens")
        elif component == "recurrent_state":
            name, field = "kv", "recurrent_state"
            words = [w for w in words] + (["--context", "1"] if "--context" not in words else [])
            opens = [p for p in opens if p != "context"]
        else:
            name, field = component, "overhead"
            opens.append("no term of its own")
        if name in ("kv", "weights"):
            opens = [p for p in opens if p != "format" or name == "weights"]
        if name == "kv":  # an engine that is given a pool fills it; these rows are of so many tokens
            words = without(words, ("--fraction", "--pool"))
        if name == "kv" and re.search(r"V3\.2", row["model"]) and "--kv-dtype" not in words:
            opens.append("KV format: the default of sparse attention differs between devices")
        if re.search(r"\d\.x\b", row["model"]):
            opens.append("model")
        if name in ("kv", "vllm_kv_budget", "weights") and re.search(r"ds_mla|exl3|DeepSeek-?V4|GLM-5\.3", notes + row["weight_dtype"] + row["model"], re.I):
            opens.append("a private build's own formats")
        if engine == "llama.cpp" and name == "kv" and log_field(notes, "n_ctx") is None and "n_ctx" in notes:
            opens.append("context")
        if gpus > 1 and name.startswith(("transformers_total", "litgpt_total")) and divide == 1 and "per GPU" not in notes:
            opens.append("share of one device")
        texts += ["open: " + ", ".join(dict.fromkeys(opens))] if opens else []
        if divide > 1:
            texts.append(f"published as the sum over {divide} GPUs; the arguments describe one model over all")
        out.append({"id": row["id"], "class": name, "component": field, "measured_bytes": value // divide, "arguments": " ".join(words),
                    "params": " ".join((["--params", f"{params:g}B"] if params else []) + logged) if logged else row["params_b"], "gpus": gpus,
                    "complete": "no" if opens else "yes", "precision": half // divide, "source": row["source"], "remark": "; ".join(texts)})
    return out


def import_kv(rows):
    """KV formula checks: model, layers, tokens and the figure that an engine logged."""
    out = []
    for index, row in enumerate(rows):
        value, half, _ = measured(row["measured_mib"], "MiB", "")
        tokens = whole(row["tokens"])
        formula, source = row["formula"], row["source"]
        # Totals of a model and its cache are in the serving table, with what else is known of them.
        if value is None or not tokens or "weights" in formula:
            continue
        said = " ".join(re.findall(r"\(.*?\)", row["model"])) + " " + formula  # not the name itself: its FP8 is the weights'
        engine = next((name for pattern, name in ((r"sglang", "sglang"), (r"\bvllm|eugr|club-3090", "vllm")) if
                       re.search(pattern, said + " " + source, re.I)), "llama.cpp")
        opens, component = [], "kv_cache"
        sequences = re.search(r"(\d+) seqs?\b", row["model"])
        model = model_argument(re.sub(r"\b(?:incl\.? indexer|state|\d+ seqs?)\b|,", " ", row["model"]), None)
        words = ["serve", "--model", quote(model or "?"), "--engine", engine]
        if sequences:  # a recurrent state: it has no length
            words += ["--context", "1", "--sequences", sequences.group(1)]
            component = "recurrent_state"
        else:
            words += ["--context", str(tokens)]
        pair = re.search(r"\b(f16|bf16|f32|q\d_\d|q8_KV|iq4_nl)/(f16|bf16|f32|q\d_\d|q8_KV|iq4_nl)\s*$", formula)
        single = re.search(r"\((q\d_\d|f16|bf16)\)", formula)
        if pair:
            words += ["--kv-dtype", pair.group(1) if pair.group(1) == pair.group(2) else f"{pair.group(1)},{pair.group(2)}"]
        elif single:
            words += ["--kv-dtype", single.group(1)]
        elif re.search(r"fp8", said, re.I):
            words += ["--kv-dtype", "fp8"]
        elif re.search(r"\bbf16\b", said):
            words += ["--kv-dtype", "bf16"]
        if engine == "llama.cpp":
            if "MLA" in formula:
                words += ["--mla", "transposed" if "kv^T" in formula or "transposed" in formula else "latent"]
            elif row["arch"] == "deepseek2":
                words += ["--mla", "expanded"]
            if re.match(r"(?:discussions|issues|pull_requests)/", source):
                words += ["--swa-full"]  # ik_llama.cpp keeps the whole context in every layer
        tp = re.search(r"/ ?TP ?(\d+)|\bTP(\d+)", said)
        if tp:
            words += ["--tp", tp.group(1) or tp.group(2)]
        if re.search(r"V3\.2", row["model"]) and "+132" not in formula:
            opens.append("the log leaves the indexer's part out")
        if re.search(r"\b656\b", formula) and "--kv-dtype" not in words:
            words += ["--kv-dtype", "fp8"]  # 656 bytes are fp8_ds_mla's
        if re.search(r"delta", row["model"]):
            opens.append("a difference of two figures")
        if re.search(r"derived|do not use|no state", formula + source):
            opens.append("tokens are what the engine derives, pages of states are in them")
        if not model or not re.search(r"\d+ ?B|DeepSeek|Kimi|gpt-oss|MiniMax|MiMo|GLM", model, re.I):
            opens.append("model")
        out.append({"id": f"KV-{index + 1:03d}", "class": "kv", "component": component, "measured_bytes": value, "arguments": " ".join(words),
                    "params": "", "gpus": int(tp.group(1) or tp.group(2)) if tp else 1, "complete": "no" if opens else "yes", "precision": half,
                    "source": source, "remark": "; ".join(([f"open: {', '.join(opens)}"] if opens else []) + [f"{row['arch']}, {row['layers']} layers"])})
    return out


def import_capacity(rows):
    out = []
    for index, row in enumerate(rows):
        pool = device_pool(row["system"].replace("_sxm", "").upper())
        words = ["serve", "--model", quote(row["model"]), "--engine", "trt-llm", "--tp", row["tp"], "--kv-dtype", row["kv_dtype"], "--fraction",
                 row["free_gpu_memory_fraction"], "--max-seq-len", row["max_seq_len"], "--batched-tokens", row["max_num_tokens"]]
        if pool:
            words += ["--pool", f"{pool:g}GiB"]
        out.append({"id": f"CAP-{index + 1:03d}", "class": "trtllm_sequences", "component": "limits.max_sequences",
                    "measured_bytes": int(row["measured_max_concurrent_sequences"]), "arguments": " ".join(words), "params": "",
                    "gpus": int(row["tp"]), "complete": "yes" if pool else "no", "precision": 0, "source": row["source"],
                    "remark": f"a count, not bytes; {row['system']}; {row['isl']} tokens in, {row['osl']} out"})
    return out


# --- Megatron -------------------------------------------------------------------------------------------------------


def megatron_configurations():
    """What the tests' configurations say (megatron_configs.py): by the test's name."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "megatron_configs.csv")
    with open(path, newline="", encoding="utf-8") as file:
        return {row["test"]: row for row in csv.DictReader(file)}


def megatron_machine(row, words, configuration):
    """What depends on the machine: ranks, micro batches per step, the GPU's generation and, on old software, the attention kernel."""
    degree = lambda option, default=1: int(words[words.index(option) + 1]) if option in words else default
    tp, pp, cp = degree("--tp"), degree("--pp"), degree("--cp")
    gpus = 4 if re.search(r"_1node$|1N4G", row["test"]) else 8  # the recipes' own numbers: two nodes of four GB200, or one of eight
    gpus = max(gpus, tp * pp * cp, degree("--ep") * degree("--expert-tp", tp) * pp)
    opens = []
    if "release" in row["test"]:
        gpus, opens = max(gpus, 64), ["ranks"]
    words = words + ["--nodes", str(-(-gpus // 8)), "--gpus", str(min(gpus, 8))]
    total, batch = int(configuration["global_batch"]), int(configuration["micro_batch"])
    if total // (batch * max(1, gpus // (tp * pp * cp))) > 1:
        words += ["--accumulation", str(total // (batch * max(1, gpus // (tp * pp * cp))))]
    if "dracooci" in row["golden"] and cp == 1:
        # the first cluster's software had only the unfused kernel where deterministic ones were asked for
        words[words.index("--attention") + 1] = "eager"
    return words + ["--compute-capability", {"A100": "8.0", "H100": "9.0", "GB200": "10.0"}[row["gpu"] or "A100"]], opens, gpus


def import_megatron(rows):
    """Megatron-LM's functional tests: the configuration of the test, allocated bytes of the last rank, which is the one that logs."""
    out = []
    configurations = megatron_configurations()
    for index, row in enumerate(rows):
        configuration = configurations.get(row["test"])
        words, opens, gpus = [], ["configuration not found"], 8
        if configuration and not configuration["arguments"]:
            opens = [configuration["open"]]
        elif configuration:
            words, opens, gpus = megatron_machine(row, configuration["arguments"].split(), configuration)
            words, opens = ["train"] + words, [text for text in [configuration["open"]] if text] + opens
        texts = [f"{row['family']}; {row['gpu'] or 'A100'}; {row['test']}"]
        if opens:
            texts.append("open: " + "; ".join(opens))
        base = {"arguments": " ".join(quote(w) for w in words), "params": "", "gpus": gpus, "precision": 0, "source": row["source"],
                "complete": "no" if opens else "yes", "remark": "; ".join(texts)}
        for suffix, name, field, column in (("s", "megatron_steady", "allocated.between_steps", "mem_allocated_bytes_max"),
                                            ("p", "megatron_peak", "allocated.peak", "mem_max_allocated_bytes_max")):
            if whole(row[column]):
                out.append(dict(base, id=f"MEG-{index + 1:03d}{suffix}", component=field, measured_bytes=whole(row[column]), **{"class": name}))
    return out


# --- loss kernels and loading: measured facts without a command line ------------------------------------------------


def import_loss(rows):
    """Loss kernels alone: no job, so no arguments; kept for the coefficients of the loss term (bytes per logit)."""
    out = []
    for index, row in enumerate(rows):
        if "cross_entropy" not in row["kernel"] and "loss" not in row["kernel"]:
            continue
        value = number(row["memory_mb_p50"])
        if not value or row["mode"] != "full":
            continue
        setting = json.loads(row["config"]) if row["config"].startswith("{") else {}
        setting[row["x_name"]] = number(row["x_value"])
        tokens = setting.get("BT") or (setting.get("B") or 1) * (setting.get("T") or setting.get("S") or 1)
        vocab = setting.get("V")
        remark = f"{row['kernel']} {row['provider']}, {json.dumps(setting)}"
        if tokens and vocab:
            remark += f"; {value * MIB / (tokens * vocab):.3f} B per logit"
        out.append({"id": f"LOSS-{index + 1:03d}", "class": "loss_kernel", "component": "peak", "measured_bytes": int(value * MIB), "arguments": "",
                    "params": "", "gpus": 1, "complete": "no", "precision": 0, "source": row["source"], "remark": remark})
    return out


def import_load(rows):
    out = []
    for index, row in enumerate(rows):
        value, half, remark = measured(row["value"], row["unit"] or "x", row["notes"])
        if row["unit"] == "x":
            value, half, remark = int(float(row["value"]) * 1000), 0, "a ratio in thousandths, not bytes"
        elif value is None:
            continue
        out.append({"id": f"LOAD-{index + 1:03d}", "class": "load", "component": row["metric"], "measured_bytes": value, "arguments": "",
                    "params": "", "gpus": 1, "complete": "no", "precision": half, "source": row["source"],
                    "remark": "; ".join(t for t in (f"{row['system']}: {row['model']}, {row['loader']}", remark) if t)})
    return out


TABLES = [
    ("train_measured.csv", import_training, "training.csv"), ("train_oom.csv", import_oom, "oom.csv"),
    ("infer_measured.csv", import_serving, "serving.csv"), ("megatron_golden.csv", import_megatron, "megatron.csv"),
    ("trtllm_max_concurrency.csv", import_capacity, "capacity.csv"), ("kv_formula_checks.csv", import_kv, "kv.csv"),
    ("loss_kernel_memory.csv", import_loss, "loss.csv"), ("load_transient.csv", import_load, "load.csv"),
]


def import_folder(source, target):
    os.makedirs(target, exist_ok=True)
    counts = {}
    for name, convert, out_name in TABLES:
        path = os.path.join(source, name)
        if not os.path.exists(path):
            continue
        with open(path, newline="", encoding="utf-8") as file:
            rows = convert(list(csv.DictReader(file)))
        with open(os.path.join(target, out_name), "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        counts[out_name] = len(rows)
    return counts


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    for name, count in import_folder(sys.argv[1], sys.argv[2]).items():
        print(f"{name}: {count} rows")


if __name__ == "__main__":
    main()
