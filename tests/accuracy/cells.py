# SPDX-License-Identifier: MIT
"""cells.py - reading the cells of published tables: numbers, units, devices, model names, shapes that a log prints."""
import re

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# Memory that CUDA reports as the device's total (torch's "total capacity", cudaMemGetInfo), which is below the number in the name.
DEVICES = [
    (r"GB300", 276.5), (r"GB200|B200-class", 184.3), (r"B200", 178.4), (r"H200", 139.8), (r"H20\b", 95.2), (r"GH200", 94.5),
    (r"H100-96GB", 93.6), (r"H100|h100", 79.11), (r"A100-?(SXM4-?)?80GB|A100-80G|\b80 ?GB GPU|A800", 79.25), (r"A100-?(SXM4-?)?40GB", 39.5), (r"^A100\b", 79.25),
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
    return text if re.fullmatch(r"[A-Za-z0-9._/:@,+=%-]+", text) else '"' + re.sub(r'["\\\\`$]', "", text) + '"'


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
