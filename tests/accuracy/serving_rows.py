# SPDX-License-Identifier: MIT
"""serving_rows.py - rows of serving: weights, caches, buffers, totals, most sequences."""
import re

from cells import number, whole, billions, quote, measured, device_pool, model_argument, without, logged_shape, log_field

# Bits per weight of a file of a type: Llama-3.1-8B in llama.cpp's tools/quantize/README.md; Q8_0 and the rest by their blocks. ik_llama.cpp's types
# print their own beside the name.
FILE_TYPE_BITS = {"F32": 32, "F16": 16, "BF16": 16, "Q8_0": 8.5, "Q6_K": 6.56, "Q5_K_M": 5.69, "Q5_K_S": 5.55, "Q5_1": 6.04, "Q5_0": 5.57, "Q4_K_M": 4.87,
                  "Q4_K_S": 4.65, "Q4_1": 5.12, "Q4_0": 4.66, "Q3_K_L": 4.3, "Q3_K_M": 3.96, "Q3_K_S": 3.64, "Q2_K": 3.16, "Q2_K_S": 2.97, "IQ4_NL": 4.66,
                  "IQ4_XS": 4.4, "IQ3_M": 3.76, "IQ3_S": 3.66, "IQ3_XS": 3.5, "IQ3_XXS": 3.25, "IQ2_M": 2.93, "IQ2_S": 2.74, "IQ2_XS": 2.59,
                  "IQ2_XXS": 2.38, "IQ1_M": 2.15, "IQ1_S": 2, "MXFP4 MoE": 4.34}
GGML_TYPE = r"(?:UD-)?(?:B?F16|F32|I?Q\d_\w+|TQ\d_\d)(?: - (?:Small|Medium|Large))?"


def file_type(dtype):
    """The type of a GGUF file as llama.cpp prints it, without the bits that ik_llama.cpp prints beside it; None for anything else."""
    if dtype.strip().lower() == "q8_0+mxfp4":
        return "MXFP4 MoE"  # what these two make up
    match = re.match(f"({GGML_TYPE})(?: - [\\d.]+ bpw)?$", dtype.strip())
    return match.group(1) if match else None


def file_type_bits(dtype):
    """Bits per weight that a file of this type should have, or None."""
    said = re.search(r"([\d.]+) bpw", dtype)
    name = re.sub(r"_R\d+$", "", file_type(dtype) or "")
    name = re.sub(r" - (\w)\w+$", lambda match: "_" + match.group(1), name)
    name = {"Q2_K_M": "Q2_K", "Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}.get(name, name)
    return FILE_TYPE_BITS.get(name) or (float(said.group(1)) if said else None)


def is_pure(dtype, notes):
    """A file that llama-quantize made by the recipe of its type. Makers of mixes leave in a file the type of what it began as: its bits tell."""
    bits, wanted = re.search(r"([\d.]+) bpw", notes, re.I), file_type_bits(dtype)
    return bool(bits and wanted) and not dtype.startswith("UD-") and abs(float(bits.group(1)) / wanted - 1) <= 0.03


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
    if "litgpt" in row["source"].lower() and "generate" in text:
        return "litgpt"
    for pattern, name in (("vllm", "vllm"), ("sglang", "sglang"), ("llama.cpp", "llama.cpp"), ("ollama", "ollama"), ("trt", "trt-llm"),
                          ("transformers|generate|torchao|^torch", "transformers")):
        if re.search(pattern, text):
            return name
    return None


KV_FORMATS = {"f16": "f16", "q8_0": "q8_0", "q4_0": "q4_0", "q5_0": "q5_0", "q5_1": "q5_1", "q4_1": "q4_1", "iq4_nl": "iq4_nl", "bf16": "bf16", "f32": "f32",
              "q6_0": "q5_1"}


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
        fmt = (file_type(row["weight_dtype"]) if engine in ("llama.cpp", "ollama") else None) or serving_format(row["weight_dtype"])
        if engine == "transformers" and row["model"].startswith("GLM-4") and row["weight_dtype"].lower() == "int4":
            fmt = "nf4"  # its examples load with load_in_4bit
        if fmt:
            words += ["--dtype", f'"{fmt}"' if " " in fmt else fmt]
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
                if ubatch > 2048:
                    words += ["--batch", str(ubatch)]  # the log has n_ubatch after it was cut to n_batch
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
                elif not is_pure(row["weight_dtype"], notes):
                    name = "weights_mix"
                    opens.append("mix of tensor types")
            elif fmt is None:
                opens.append("format")
            if engine == "vllm" and (fmt == "mxfp4" or not fmt and "gpt-oss" in row["model"]) and not re.search(r"marlin|cutlass|triton|flashinfer", notes, re.I):
                opens.append("kernel backend not stated")  # each lays MXFP4 experts out, and pads them, in its own way
            if engine == "llama.cpp" and re.search(r"^\d+\.\d+ ?bpw", notes):
                opens.append("mix of tensor types")
        elif component == "kv":
            name, field = "kv", "kv_growing" if re.search(r"\bK [\d.]+ \+ V [\d.]+", notes) else "kv_cache"
            if engine in ("vllm", "sglang") and not tokens_match:
                name, field = "vllm_kv_budget" if engine == "vllm" else "kv_budget", "kv_budget"
                opens = [p for p in opens if p != "context"]
                if not fraction or not pool:
                    opens.append("fraction or device")
        elif component == "compute_buffer":
            name, field = "compute_buffer", "compute_buffers"
            if device == "CPU" and not re.search(r"(?:CUDA|Vulkan)\w* (?:compute|model|KV) buffer", shared):
                texts.append("no GPU: the whole graph is in this buffer")
            elif device and re.search(r"Host|CPU", device):
                name, field = "compute_buffer-host", "host_buffer"
                opens.append("host side")
            elif gpus > 1:
                opens.append("several devices")
            elif not whole(row["gpus"]) and engine == "llama.cpp":
                opens.append("layers on the device")
            if fmt is None and engine == "llama.cpp":
                opens.append("format: tensors left on the host are copied for large batches")
            if re.search(r"fa \?|n_ubatch \?", notes) or log_field(notes, "n_ubatch") is None:
                opens.append("batch or attention kernel")
        elif component == "total_peak":
            name = {"transformers": "transformers_total", "litgpt": "litgpt_total", "llama.cpp": "llama_cpp_total", "ollama": "llama_cpp_total"}.get(engine, "engine_total")
            field = "allocated.peak"
            if "max single GPU" in notes:
                field = "device.without_host"  # whole GB of the fullest device: a monitor's figure, not torch's
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


def is_latent_twice(value, layers, tokens):
    """K of 576 and V of 512 elements per layer and token, in 16 bits: a file whose one head is the latent, with its values kept once more."""
    return bool(whole(layers)) and abs(value / (whole(layers) * tokens * 2 * (576 + 512)) - 1) < 0.01


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
            if re.match(r"\d+ full layers\*", formula) and "state" not in formula:
                component = "kv_growing"  # K and V of the attention layers of a hybrid model: engines print its states apart
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
            elif row["arch"] == "deepseek2" and "incompatible DeepSeek GGUF" in source:
                words += ["--mla", "transposed"]  # files with the latent as their one head: K of 576 and V of 512 are kept
            elif row["arch"] == "deepseek2":
                words += ["--mla", "transposed" if is_latent_twice(value, row["layers"], tokens) else "expanded"]
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


KV_NAMES = ("bf16", "fp16", "f16", "fp8", "int8", "nvfp4")


def import_capacity(rows):
    out = []
    for index, row in enumerate(rows):
        pool = device_pool(row["system"].replace("_sxm", "").upper())
        count, opens = whole(row["measured_max_concurrent_sequences"]), []
        if count is None:
            continue
        words = ["serve", "--model", quote(row["model"]), "--engine", "trt-llm"]
        for option, column in (("--tp", "tp"), ("--max-seq-len", "max_seq_len"), ("--batched-tokens", "max_num_tokens")):
            if whole(row[column]):
                words += [option, str(whole(row[column]))]
            else:
                opens.append(column.replace("_", " "))
        fraction = number(row["free_gpu_memory_fraction"])
        if fraction and 0 < fraction <= 1:
            words += ["--fraction", f"{fraction:g}"]
        else:
            opens.append("fraction")
        if row["kv_dtype"] in KV_NAMES:
            words += ["--kv-dtype", row["kv_dtype"]]
        else:
            opens.append("KV format")
        if pool:
            words += ["--pool", f"{pool:g}GiB"]
        else:
            opens.append("device")
        out.append({"id": f"CAP-{index + 1:03d}", "class": "trtllm_sequences", "component": "limits.max_sequences", "measured_bytes": count,
                    "arguments": " ".join(words), "params": "", "gpus": whole(row["tp"]) or 1, "complete": "no" if opens else "yes", "precision": 0,
                    "source": row["source"],
                    "remark": "; ".join([f"a count, not bytes; {row['system']}; {row['isl']} tokens in, {row['osl']} out"] +
                                        ([f"open: {', '.join(opens)}"] if opens else []))})
    return out
