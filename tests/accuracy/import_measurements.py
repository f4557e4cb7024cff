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
import sys

from cells import MIB, number, measured
from megatron_rows import import_megatron
from serving_rows import import_capacity, import_kv, import_serving
from training_rows import import_oom, import_training

COLUMNS = ["id", "class", "component", "measured_bytes", "arguments", "params", "gpus", "complete", "precision", "source", "remark"]


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
        if row["unit"] == "x" and number(row["value"]) is not None:
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
