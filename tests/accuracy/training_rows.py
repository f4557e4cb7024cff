# SPDX-License-Identifier: MIT
"""training_rows.py - rows of training: peaks, memory between steps, jobs that ran out of memory."""
import re

from cells import GIB, number, whole, billions, quote, measured, device_pool, model_argument, shape_words, without

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
LITGPT_DEVICES = [(r"config (?:phi-2|stablelm-base-alpha-3b)/full", 2), (r"config (?:gemma-2b|llama-2-7b|llama-3-8b|llama-3\.1-8b)/full", 4)]
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
    elif "AnswerDotAI/fsdp_qlora" in source:
        words += ["--autocast", "no"]  # train.py: precision "bf16" is pure bf16 unless it says _autocast
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
        if "huggingface/peft docs/source/accelerate" in source and "lora" in method:
            preset_rank, preset_targets = 8, "all-linear"  # the launch commands of these pages: --lora_r 8, --lora_target_modules all-linear
        if "AnswerDotAI/fsdp_qlora" in source:
            # The benchmark's commands leave them to train.py: lora_rank 64, and "all" of lora_target_modules, which has no o_proj.
            preset_rank, preset_targets = 64, "q,k,v,gate,up,down"
        rank, targets = rank or preset_rank, targets or preset_targets
        if "lora" in method and rank is None and framework not in ("litgpt",) and "rank" not in method:
            remark.append("rank not stated")
        if is_lora:
            words += ["--rank", str(rank or 8)] if rank or objective else []
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
    elif checkpointing == "unsloth" or ("LLaMA-Factory/wiki" in source and framework == "unsloth" and checkpointing):
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
        if "litgpt config_hub" in source:  # the machine has 4; the YAML file says how many devices are used
            gpus = next((devices for pattern, devices in LITGPT_DEVICES if re.search(pattern, notes)), 1)
            remark.append(f"the configuration uses {gpus} of the machine's devices")
        if gpus > 1:
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
    if shard == "fsdp" and framework == "litgpt" and "--checkpointing" in words:
        # What shards also checkpoints: FSDPStrategy(activation_checkpointing_policy={Block}), litgpt/finetune/full.py and lora.py
        words[words.index("--checkpointing") + 1] = "on"
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
    if "QwenLM/Qwen " in source:
        words += ["--torch", "2.0"]  # README, "Profiling of Memory and Speed": CUDA 11.8 and Pytorch 2.0
        if shard and shard.startswith("zero") and "--optimizer" in words:
            # ds_config_zero2.json and ds_config_zero3.json name AdamW themselves: DeepSpeed builds its FusedAdam, whatever --optim says.
            words[words.index("--optimizer") + 1] = "adamw-fused"
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
        return "device_smi", "device.without_host"  # of a GPU with memory of its own
    if component.startswith("host"):
        return "host_used", "device.total"
    if component == "weights":
        return ("weights_reserved", "weights") if re.search(r"reserved", notes) else ("weights", "weights")
    kind = "pretrain" if plan["pretrain"] else plan["objective"] or ("qlora" if plan["is_lora"] and plan["quantised"] else "lora" if plan["is_lora"] else "full")
    reserved = re.search(r"max reserved|peak reserved|max_memory_reserved|torchtitan", notes + row["source"]) is not None or \
        (re.search(r"unslothai/notebooks", row["source"]) is not None) or \
        (re.search(r"ms-swift", row["source"]) is not None)  # swift/utils/torch_utils.py: memory(GiB) is max_memory_reserved
    if "LLaMA-Factory/wiki" in row["source"]:
        # Whole gigabytes of a GPU; nothing is said of torch. Checkpoints that Unsloth moves to the host are not in them.
        return "total_peak-" + kind, "device.without_host"
    if "huggingface/peft docs" in row["source"]:
        # "64 GB (80%) as seen in the screenshot": "GPU memory usage for the training run", in per cent of an 80 GB device.
        return "total_peak-" + kind, "device.without_host"
    if "QwenLM/Qwen " in row["source"]:
        # Not stated what was read. It cannot be torch's allocated peak: figures fall where the length doubles (35.2 at 1,024, 35.1 at 2,048).
        return "total_peak-" + kind, "device.without_host"
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
