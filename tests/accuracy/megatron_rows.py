# SPDX-License-Identifier: MIT
"""megatron_rows.py - rows of Megatron-LM's functional tests, by their published configurations."""
import csv
import os
import re

from cells import whole, quote

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
    return words + ["--compute-capability", {"H100": "9.0", "H200": "9.0", "B200": "10.0", "GB200": "10.0", "GB300": "10.3"}.get(row["gpu"], "8.0")], opens, gpus


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
