#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The importer on rows made up for this test: what it types for them, what it finds open, how it reads units. TAP."""
import csv
import os
import shlex
import tempfile

import import_measurements
import table
from cells import GIB, MIB, device_pool, measured, model_argument
from serving_rows import import_capacity, import_kv, import_serving
from training_rows import import_oom, import_training

TRAIN = {"id": "X-1", "source": "https://github.com/someone/something notes.md", "model": "meta-llama/Llama-3.1-8B", "params_b": "8.03", "task": "train",
         "method": "lora r=16 q,k,v,o", "weight_dtype": "bfloat16", "optimizer": "AdamW (HF default adamw_torch)", "micro_batch": "4", "seq_len": "2048",
         "grad_ckpt": "true", "gpus": "1", "parallelism": "none", "component": "total_peak", "measured_gib": "", "value_published": "20.5",
         "unit_published": "GiB", "notes": "A100-80GB; FA2; gc on; packed 2048"}
SERVE = {"id": "Y-1", "source": "https://github.com/someone/logs", "model": "Llama-3-8B", "params_b": "8.03", "task": "infer", "method": "vllm",
         "weight_dtype": "bf16", "optimizer": "", "micro_batch": "", "seq_len": "", "grad_ckpt": "", "gpus": "1", "parallelism": "none",
         "component": "weights", "measured_gib": "", "value_published": "14.96", "unit_published": "GiB", "notes": "80 GB GPU, util .9"}


def train(**changes):
    return import_training([dict(TRAIN, **changes)])[0]


def serve(**changes):
    return import_serving([dict(SERVE, **changes)])[0]


def has(row, words):
    return f" {words} " in f" {row['arguments']} "


def units():
    assert measured("20.5", "GiB", "")[:2] == (int(20.5 * GIB), int(0.05 * GIB))
    assert measured("9.44", "GB(1e9)", "")[0] == 9440000000
    value, half, remark = measured("7.4", "G(unit not stated)", "")
    assert value == round(7.4 * GIB) and "7400000000 B if decimal" in remark and half == int(0.05 * GIB)
    assert measured("1394", "MB(unit not stated)", "")[0] == 1394 * MIB
    assert measured("123456789", "bytes", "")[:2] == (123456789, 0)
    assert measured("56.051", "GB(=GiB)", "printed as GB but code divides by 1024^3")[0] == round(56.051 * GIB)
    assert measured("47", "GiB", "README approximate")[1] == int(0.5 * GIB)
    assert measured("fix", "", "")[0] is None


def devices():
    assert device_pool("A100-80GB; x") == 79.25
    assert device_pool("Tesla T4 14.741 GiB; y") == 14.741
    assert device_pool("tp2 (2x DGX Spark)") == 121.69
    assert device_pool("util .92 of 31.4") == 31.4
    assert device_pool("nothing said") is None


def names():
    assert model_argument("Llama 2", 69.0) == "Llama 2 69B"
    assert model_argument("Qwen2.5-7B-Instruct", 7.6) == "Qwen2.5-7B-Instruct"
    assert model_argument("Gemma (somebody's build) 2B", 2.5) == "Gemma 2B"
    assert model_argument("Models", 7.0) is None


def plain_training():
    row = train()
    for words in ("train --model meta-llama/Llama-3.1-8B", "--method lora", "--rank 16", "--targets q,k,v,o", "--batch 4", "--seq 2048", "--dtype bf16",
                  "--optimizer adamw", "--checkpointing on", "--attention flash", "--packing yes"):
        assert has(row, words), words
    assert row["class"] == "total_peak-lora" and row["complete"] == "yes" and row["component"] == "allocated.peak"
    assert row["measured_bytes"] == int(20.5 * GIB)


def what_is_open():
    assert train(seq_len="")["complete"] == "no" and "length" in train(seq_len="")["remark"]
    assert train(micro_batch="see script")["complete"] == "no"
    assert train(grad_ckpt="")["complete"] == "no"
    assert train(seq_len="", component="steady_alloc")["complete"] == "yes"  # nothing between two steps depends on it
    capped = train(notes="LoRA r=8; max_seq_length is a cap, real batch lengths come from the dataset")
    assert capped["complete"] == "cap"
    assert train(weight_dtype="uncertain: code says load_in_4bit=True")["complete"] == "no"
    assert train(method="adalora")["complete"] == "no"


def methods():
    assert has(train(method="qlora", weight_dtype="bnb-4bit"), "--method qlora") and has(train(method="qlora", weight_dtype="bnb-4bit"), "--dtype nf4-dq")
    litgpt = train(method="qlora", weight_dtype="bnb.nf4", source="https://github.com/Lightning-AI/litgpt x.md")
    assert has(litgpt, "--dtype nf4") and has(litgpt, "--framework litgpt")
    assert has(train(method="dpo full", notes="FA2"), "--method dpo") and "--rank" not in train(method="dpo full", notes="FA2")["arguments"]
    assert train(method="dpo full")["class"] == "total_peak-dpo"
    assert has(train(method="full", optimizer="adamw_bnb_8bit"), "--optimizer adamw-8bit")
    assert has(train(method="full", optimizer="paged_adamw_8bit"), "--optimizer paged-adamw-8bit")
    amp = train(notes="AMP bf16=True framework_config=accelerated-peft-bnb-foak-liger; FA2; gc on", method="qlora(bnb nf4) r=16 q,k,v,o", weight_dtype="nf4")
    assert has(amp, "--autocast yes") and has(amp, "--loss fused-linear") and has(amp, "--residual bf16")
    old = train(notes="framework_config=baseline-peft-bnb; FA2", method="qlora(bnb nf4) r=16 q,k,v,o", weight_dtype="nf4")
    assert has(old, "--autocast no") and has(old, "--residual fp32") and has(old, "--loss full")


def sharding():
    assert has(train(gpus="4", parallelism="FSDP full-shard"), "--gpus 4") and has(train(gpus="4", parallelism="FSDP full-shard"), "--shard fsdp")
    assert has(train(gpus="4", parallelism="deepspeed=zero3"), "--shard zero3")
    many = train(gpus="128", parallelism="fsdp2 cp4 tp8 pp2", method="pretrain", source="https://github.com/pytorch/torchtitan benchmarks")
    for words in ("--nodes 16 --gpus 8", "--cp 4", "--tp 8", "--pp 2", "--framework torchtitan"):
        assert has(many, words), words
    total = train(gpus="2", parallelism="zero3", notes="value is TOTAL over all GPUs when gpus>1; FA2")
    assert total["measured_bytes"] == int(20.5 * GIB) // 2 and "sum over 2 GPUs" in total["remark"]
    assert train(gpus="", parallelism="fsdp2")["complete"] == "no"


def what_sources_say_elsewhere():
    qwen = dict(source="https://github.com/QwenLM/Qwen README.md", optimizer="adamw_torch")
    one = train(**qwen)
    assert has(one, "--torch 2.0") and has(one, "--optimizer adamw") and one["component"] == "device.without_host"
    assert has(train(gpus="4", parallelism="zero3", **qwen), "--optimizer adamw-fused")  # its DeepSpeed configuration names AdamW
    peft = train(source="https://github.com/huggingface/peft docs/source/accelerate/deepspeed.md", method="lora", notes="per GPU", gpus="8", parallelism="zero3")
    assert has(peft, "--rank 8") and has(peft, "--targets all-linear") and peft["component"] == "device.without_host"
    answer = train(source="https://github.com/AnswerDotAI/fsdp_qlora benchmarks_03_2024.md", method="lora", notes="peak reserved per GPU", gpus="2", parallelism="fsdp2")
    assert has(answer, "--rank 64") and has(answer, "--targets q,k,v,gate,up,down") and answer["component"] == "device.reserved"
    wiki = "https://github.com/hiyouga/LLaMA-Factory/wiki/Performance-comparison"
    assert train(source=wiki, notes="Unsloth+FA2; LoRA r=8 all")["component"] == "device.without_host"
    assert train(source=wiki, notes="HF+FA2; LoRA r=8 all")["component"] == "device.without_host"


def oom():
    row = import_oom([{k: v for k, v in TRAIN.items() if k in ("source", "model", "params_b", "method", "weight_dtype", "optimizer", "micro_batch", "seq_len",
                                                               "grad_ckpt", "gpus", "parallelism", "notes")}])[0]
    assert row["class"] == "oom" and has(row, "--budget 79.25GiB")


def engines():
    row = serve()
    assert has(row, "serve --model Llama-3-8B --engine vllm") and has(row, "--fraction 0.9") and has(row, "--pool 79.25GiB") and row["class"] == "weights"
    budget = import_serving([SERVE, dict(SERVE, id="Y-2", component="kv", notes="available KV")])[1]
    assert budget["class"] == "vllm_kv_budget" and budget["complete"] == "yes" and has(budget, "--fraction 0.9")
    cache = serve(component="kv", notes="util .85 = 240,816 tokens")
    assert cache["class"] == "kv" and has(cache, "--context 240816") and "--fraction" not in cache["arguments"]
    need = serve(component="kv", notes="util .80; 196,608 tokens needs 23.25 GiB")
    assert need["class"] == "vllm_kv_budget"


def llama_cpp():
    notes = ("2440.00 MiB, K (f16): 1464.00 MiB, V (f16):  976.00 MiB; arch deepseek2; n_ctx 512; n_ubatch 256; fa 0; mla 0; amb 0; layers 61; n_embd 7168; "
             "vocab 129280; k_gqa 24576 v_gqa 16384")
    row = serve(method="ik_llama.cpp", model="DeepSeek R1 Bf16", params_b="671.03", weight_dtype="Q8_0", component="kv", notes=notes)
    for words in ("--engine llama.cpp", "--context 512", "--ubatch 256", "--flash no", "--mla expanded", "--kv-dtype f16"):
        assert has(row, words), words
    assert row["complete"] == "yes"
    mixed = serve(method="ik_llama.cpp", weight_dtype="Q4_K - Medium", component="weights", notes="file size as logged (model size); arch llama; n_ctx 512")
    assert mixed["class"] == "weights_mix"
    assert has(mixed, '--dtype "Q4_K - Medium"')
    size = "file size as logged (model size); arch llama; n_ctx 512; file 10 GiB, "
    pure = serve(method="ik_llama.cpp", weight_dtype="Q6_K", component="weights", notes=size + "6.568 bpw")
    assert pure["class"] == "weights" and pure["complete"] == "yes" and has(pure, "--dtype Q6_K")
    assert serve(method="ik_llama.cpp", weight_dtype="Q6_K", component="weights", notes=size + "3.980 bpw")["class"] == "weights_mix"
    assert serve(method="ik_llama.cpp", weight_dtype="UD-Q6_K", component="weights", notes=size + "6.568 bpw")["class"] == "weights_mix"
    own = serve(method="ik_llama.cpp", weight_dtype="IQ4_K_R4 - 4.5 bpw", component="weights", notes=size + "4.52 bpw")
    assert own["class"] == "weights" and has(own, "--dtype IQ4_K_R4")
    part = serve(method="ik_llama.cpp", weight_dtype="Q8_0", component="weights", notes="CUDA1 model buffer; arch llama", parallelism="per device")
    assert part["class"] == "weights_split" and part["complete"] == "no"


def compute_buffers():
    log = "; arch qwen3moe; n_ctx 65536; n_ubatch 4096; fa 1"
    alone = dict(method="ik_llama.cpp", model="Qwen3-30B-A3B", params_b="30.5", weight_dtype="Q5_K - Medium", component="compute_buffer")
    row = serve(**alone, notes="CUDA0 compute buffer" + log)
    assert row["component"] == "compute_buffers" and has(row, "--ubatch 4096 --batch 4096") and row["complete"] == "yes"
    assert serve(**alone, notes="CUDA0 compute buffer" + log, gpus="")["complete"] == "no"
    host = serve(**alone, notes="CUDA_Host compute buffer" + log)
    assert host["class"] == "compute_buffer-host" and host["component"] == "host_buffer" and host["complete"] == "no"
    cpu = serve(**alone, notes="CPU compute buffer" + log, gpus="")
    assert cpu["class"] == "compute_buffer" and cpu["complete"] == "yes"
    both = import_serving([dict(SERVE, **alone, id=name, notes=name + " compute buffer" + log) for name in ("CPU", "CUDA0")])
    assert both[0]["class"] == "compute_buffer-host"


def litgpt():
    row = serve(source="https://github.com/Lightning-AI/litgpt x.md", method="litgpt generate", component="total_peak", weight_dtype="bnb.nf4", gpus="1",
                notes="A100-40GB; litgpt generate; max_memory_allocated")
    assert row["class"] == "litgpt_total" and has(row, "--engine litgpt") and has(row, "--dtype nf4") and row["complete"] == "yes"


def vllm_mxfp4():
    assert "kernel backend" in serve(model="gpt-oss-120b", weight_dtype="mxfp4")["remark"]
    assert serve(model="gpt-oss-120b", weight_dtype="mxfp4", notes="Marlin; util .9")["complete"] == "yes"


def caches():
    row = {"model": "Deepseek-V3-0324", "arch": "deepseek2", "layers": "61", "tokens": "16384", "formula": "L*ctx*(k_gqa*bK+v_gqa*bV) f16/f16",
           "measured_mib": "2074.0", "predicted_mib": "", "err_pct": "", "source": "pull_requests/394 - x.md"}
    assert has(import_kv([row])[0], "--mla transposed")
    assert has(import_kv([dict(row, measured_mib="78080.0")])[0], "--mla expanded")
    hybrid = dict(row, model="Qwen3.6-27B (SGLang, fp8, TP2)", arch="qwen3_5", layers="64", formula="16 full layers*2*4*256*1 B /TP2", source="x")
    assert import_kv([hybrid])[0]["component"] == "kv_growing"


def other_tables():
    kv = import_kv([{"model": "Qwen3-8B-FP8", "arch": "qwen3", "layers": "36", "tokens": "32768", "formula": "GQA 147456 B/tok /TP2 (SGLang, bf16)",
                     "measured_mib": "2304", "predicted_mib": "", "err_pct": "", "source": "sglang"}])[0]
    assert has(kv, "--engine sglang") and has(kv, "--tp 2") and has(kv, "--kv-dtype bf16") and has(kv, "--context 32768")
    capacity = import_capacity([{"source": "x", "system": "h200_sxm", "model": "m/Llama-3.1-8B", "tp": "2", "isl": "1", "osl": "2", "max_seq_len": "4096",
                                 "free_gpu_memory_fraction": "0.8", "max_num_tokens": "8192", "kv_dtype": "fp8", "measured_max_concurrent_sequences": "300"}])[0]
    assert has(capacity, "--pool 139.8GiB") and has(capacity, "--fraction 0.8") and capacity["measured_bytes"] == 300


def tables_as_committed():
    """Every line has its columns, arguments that can be cut into words, and an id of its own."""
    ids = set()
    for row in table.read():
        assert row["id"] not in ids, row["id"]
        ids.add(row["id"])
        assert shlex.split(row["arguments"])[0] in ("train", "serve")
        assert row["complete"] in ("yes", "no", "cap") and row["source"] and row["measured"] > 0
    assert len(ids) > 2000


def a_folder():
    with tempfile.TemporaryDirectory() as source, tempfile.TemporaryDirectory() as target:
        with open(os.path.join(source, "train_measured.csv"), "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(TRAIN))
            writer.writeheader()
            writer.writerow(TRAIN)
        assert import_measurements.import_folder(source, target) == {"training.csv": 1}
        assert len(table.read(table.files_of(target))) == 1


def main():
    tests = [units, devices, names, plain_training, what_is_open, methods, sharding, what_sources_say_elsewhere, oom, engines, llama_cpp, compute_buffers,
             litgpt, vllm_mxfp4, caches, other_tables, tables_as_committed, a_folder]
    print(f"1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}")
        except AssertionError as error:
            failed += 1
            where = error.__traceback__.tb_next
            print(f"not ok {number} - {test.__name__}: line {where.tb_lineno} {error}")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
