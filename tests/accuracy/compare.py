#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare.py - the same measurements through the formulas of other estimators: one Markdown table, median and 90th percentile of the error.

Each formula is implemented here from what its authors publish; where one says nothing of a case (adapters, shards), it is given the reading that
is best for it, which its comment states. Sizes of a model (parameters, width, layers, heads) come from the same place for all.
"""
import argparse
import os
import re
import shlex

import run
import table

SHAPES = os.path.join(table.HERE, "..", "..", "src", "plan", "model", "builtin_shapes.c")
BITS = {"nf4": 4, "nf4-dq": 4, "nvfp4": 4, "mxfp4": 4, "int8": 8, "fp8": 8, "q8_0": 8, "f16": 16, "fp16": 16, "bf16": 16, "fp32": 32, "f32": 32}


def shapes():
    """Heads, key-value heads and head size of built-in models, by first name."""
    found = {}
    with open(SHAPES, encoding="utf-8") as file:
        for names, fields in re.findall(r'^    \{ "([^"]+)", \d+, "((?:[^"\\]|\\.)*)" \}', file.read(), re.M):
            value = dict(word.split("=", 1) for word in fields.split(" ")[1:] if "=" in word)
            hidden, heads = int(value.get("h", 0)), int(value.get("a", 1))
            found[names.split("|")[0]] = {"heads": heads, "kv_heads": int(value.get("k", heads)), "head": int(value.get("d", hidden // max(heads, 1))),
                                          "ffn": int(value.get("f", 4 * hidden))}
    return found


class Job:
    """What every formula may ask of a row."""

    def __init__(self, row, answer, known):
        words = shlex.split(row["arguments"])
        self.option = {word[2:]: words[i + 1] if i + 1 < len(words) and not words[i + 1].startswith("--") else "yes"
                       for i, word in enumerate(words) if word.startswith("--")}
        model = answer["model"]
        source = (model["source"] or "").replace("built-in shape of ", "")
        shape = known.get(source, {})
        number = lambda name, otherwise: int(self.option.get(name, otherwise))
        self.training = words[0] == "train"
        self.steady = "steady" in row["class"]  # between two steps: no activations, by any formula
        self.params, self.layers, self.hidden, self.vocab = model["params"], model["layers"], model["hidden_size"], model["vocab_size"]
        self.heads = number("heads", shape.get("heads", max(1, self.hidden // 128)))
        self.kv_heads = number("kv-heads", shape.get("kv_heads", self.heads))
        self.head = number("head-dim", shape.get("head", 128))
        self.ffn = number("ffn", shape.get("ffn", 4 * self.hidden))
        self.method = self.option.get("method", "full")
        self.rank_given = "rank" in self.option
        self.adapter = self.method in ("lora", "qlora") or (self.method in ("dpo", "orpo", "kto", "grpo") and self.rank_given)
        self.trainable = model.get("params_trainable") or (0 if self.adapter else self.params)
        dtype = self.option.get("dtype", "nf4" if self.method == "qlora" else "bf16")
        self.bits = BITS.get(dtype) or (4 if re.search(r"4", dtype) else 3 if re.search(r"[iq]q?3", dtype) else 2 if re.search(r"2", dtype) else 16)
        assumed = answer.get("assumed", {})
        self.batch = assumed.get("batch") or 1
        self.seq = assumed.get("seq") or 2048
        self.tokens = assumed.get("tokens") or self.batch * self.seq
        self.checkpointing = assumed.get("checkpointing", "on")
        self.gpus = number("nodes", 1) * number("gpus", 1)
        self.tp, self.pp = number("tp", 1), number("pp", 1)
        self.shard = self.option.get("shard", "none")
        self.sharded = self.shard in ("fsdp", "zero3")
        self.context = int(assumed.get("context") or 0)
        self.sequences = int(assumed.get("sequences") or 1)
        kv = self.option.get("kv-dtype", "bf16").split(",")[0]
        self.kv_bytes = BITS.get(kv, 16) / 8

    # weights as their nominal bits say
    def weights(self):
        return self.params * self.bits / 8

    def devices(self):
        """What divides a model's states: shards, tensor and pipeline ranks."""
        return (self.gpus if self.sharded else 1) * (1 if self.sharded else self.tp * self.pp)


# --- training -------------------------------------------------------------------------------------------------------


def accelerate(job):
    """accelerate estimate-memory (commands/estimate.py): the largest of model, gradients, optimizer and step for Adam; fp32 4x the fp32 size, bf16 8
    bytes a parameter. It knows full training only: adapters are given the size of the frozen weights, its figure for the model itself."""
    if not job.training:
        return 1.2 * job.weights() / (job.tp * job.pp)  # its documentation: add 20 % for inference
    if job.adapter:
        return job.weights() / job.devices()
    return (16 if job.bits == 32 else 8) * job.params / job.devices()


def deepspeed(job):
    """DeepSpeed's estimators of model states (stage_1_and_2.py, stage3.py), without offload: ZeRO-2 4 P + 16 P / N, ZeRO-3 4 x largest layer + 18 P / N.
    Adapters are given their own parameters as P, and frozen weights beside them."""
    if not job.training:
        return None
    states = job.trainable if job.adapter else job.params
    frozen = job.weights() / job.devices() if job.adapter else 0
    layer = max(job.vocab * job.hidden, 4 * job.hidden * job.hidden + 3 * job.hidden * job.ffn)
    if job.sharded:
        return frozen + 18 * states / job.gpus + (0 if job.adapter else 4 * layer)
    n = job.gpus if job.shard in ("zero1", "zero2", "ddp") else 1
    return frozen + (4 * states + 16 * states / n) / (job.tp * job.pp)


def korthikanti(job):
    """Korthikanti et al., arXiv:2205.05198, equations 1 to 6: activations of a layer sbh (34 + 5 as / h), with tensor parallelism sbh (10 + 24 / t + 5 as /
    ht), selective 34 sbh, full 2 sbh and one layer; beside 18 bytes a trained parameter (Megatron-LM), frozen weights as they are."""
    if not job.training:
        return None
    s, b, h, a, layers, t = job.seq, job.tokens / job.seq, job.hidden, job.heads, job.layers, job.tp
    attention = 5 * a * s / h / t
    whole = s * b * h * (10 + 24 / t + attention)
    if job.checkpointing == "off":
        activations = layers * whole
    elif job.checkpointing == "selective":
        activations = layers * s * b * h * (10 + 24 / t)
    else:
        activations = layers * 2 * s * b * h + whole
    states = job.weights() / job.devices() + 16 * job.trainable / job.gpus if job.adapter else 18 * job.params / job.devices()
    return states + (0 if job.steady else activations / job.pp)


def worksheet(job):
    """The accounting sheet that guides print: weights, 2 bytes of gradient and 8 of Adam a trained parameter, and 20 % for activations."""
    if not job.training:
        kv = 2 * job.layers * job.kv_heads * job.head * job.kv_bytes * job.context * job.sequences
        return (job.weights() + kv) / (job.tp * job.pp)
    states = job.weights() + (0 if job.adapter else 10 * job.params)
    return (1 if job.steady else 1.2) * states / job.devices()


def llama_factory(job):
    """LLaMA-Factory's table of hardware (README): full 18 GB a billion parameters, 8 in pure bf16, LoRA 2, 8-bit 1, 4-bit 0.5."""
    if not job.training:
        return None
    each = {32: 2, 16: 2, 8: 1}.get(job.bits, 0.5) if job.adapter else 8 if job.bits == 16 else 18
    return each * job.params * 1.0 / job.devices()


# --- serving --------------------------------------------------------------------------------------------------------


def sparkrun(job):
    """sparkrun's VRAM estimate: parameters x bytes / TP, and 2 x layers x key-value heads x head size of cache a token."""
    if job.training:
        return None
    kv = 2 * job.layers * job.kv_heads * job.head * job.kv_bytes * job.context * job.sequences
    return job.weights() / job.tp + kv / job.tp


def vllm_recipes(job):
    """vLLM's recipes: parameters x bytes x 1.2, rounded up to whole GB."""
    if job.training:
        return None
    return -(-1.2 * job.weights() // 10**9) * 10**9 / (job.tp * job.pp)


def plain_kv(job):
    """2 x layers x key-value heads x head size x tokens x bytes (hf-mem and others), for what it says of a cache alone."""
    if job.training:
        return None
    return 2 * job.layers * job.kv_heads * job.head * job.kv_bytes * job.context * job.sequences / job.tp


def plain_weights(job):
    return None if job.training else job.weights() / (job.tp * job.pp)


TRAINING = [("accelerate", accelerate), ("DeepSpeed", deepspeed), ("Korthikanti et al.", korthikanti), ("worksheet", worksheet),
            ("LLaMA-Factory table", llama_factory)]
TOTALS = [("accelerate + 20 %", accelerate), ("sparkrun", sparkrun), ("worksheet", worksheet), ("vLLM recipes", vllm_recipes)]
CLASSES = [
    ("total_peak-full", "peak, full fine-tuning", TRAINING), ("total_peak-lora", "peak, LoRA", TRAINING), ("total_peak-qlora", "peak, QLoRA", TRAINING),
    ("total_peak-pretrain", "peak, pre-training", TRAINING), ("megatron_peak", "peak, Megatron-LM", TRAINING),
    ("steady_alloc", "between steps, FMS", TRAINING), ("megatron_steady", "between steps, Megatron-LM", TRAINING), ("device_smi", "nvidia-smi, training", TRAINING),
    ("transformers_total", "transformers generate", TOTALS), ("litgpt_total", "LitGPT generate", TOTALS),
    ("kv", "KV cache", [("2 L kv d", plain_kv)]), ("weights", "weights", [("parameters x bits", plain_weights)]),
]


def errors(rows, answers, known, formula):
    out = []
    for row in rows:
        answer = answers.get((row["arguments"], row["params"]))
        if answer is None:
            continue
        value = formula(Job(row, answer, known))
        if value is not None and row["measured"]:
            out.append(abs(value / row["measured"] - 1))
    return out


def pair(values):
    return "-" if not values else f"{table.percent(table.quantile(values, 0.5), 1)} / {table.percent(table.quantile(values, 0.9), 1)}"


def compare(rows, umactl, jobs):
    """(lines of the table, classes where some formula has a smaller median error than the plan)."""
    answers = run.evaluate(umactl, rows, jobs)
    known = shapes()
    lines, lost = [], []
    for name, title, formulas in CLASSES:
        part = [row for row in rows if row["class"] == name and row["complete"] == "yes" and row.get("error") is not None]
        if not part:
            continue
        ours = [abs(row["error"]) for row in part]
        cells, better = [], []
        for label, formula in formulas:
            theirs = errors(part, answers, known, formula)
            cells.append(f"{label}: {pair(theirs)}")
            if theirs and table.quantile(theirs, 0.5) < table.quantile(ours, 0.5):
                better.append(label)
        lines.append([title, len(part), pair(ours)] + [cell.split(": ", 1)[1] for cell in cells] + [""] * (5 - len(cells)))
        lines[-1].append([label for label, _ in formulas])
        if better:
            lost.append((title, better))
    return lines, lost


def render(lines):
    blocks = {}
    for cells in lines:
        labels = tuple(cells[-1])
        blocks.setdefault(labels, []).append(cells[:3 + len(labels)])
    return "\n\n".join(table.markdown(["rows of", "rows", "umactl"] + list(labels), block) for labels, block in blocks.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--umactl", default=run.default_umactl())
    parser.add_argument("--rows", action="append", metavar="FILE")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tap", action="store_true", help="one test: no formula is better than the plan on any class")
    options = parser.parse_args()
    rows = table.read(options.rows)
    lines, lost = compare(rows, options.umactl, options.jobs)
    if options.tap:
        print("1..1")
        text = "; ".join(f"{title}: {', '.join(better)}" for title, better in lost)
        print(f"{'not ok' if lost else 'ok'} 1 - no compared formula is nearer on any class of rows{': ' + text if lost else ''}")
        raise SystemExit(1 if lost else 0)
    print("Median / 90th percentile of the absolute error; rows that state what their figure depends on.\n")
    print(render(lines))
    for title, better in lost:
        print(f"\nnearer than the plan on {title}: {', '.join(better)}")


if __name__ == "__main__":
    main()
