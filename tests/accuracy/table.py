# SPDX-License-Identifier: MIT
"""table.py - the rows of this bench, and statistics of errors. Shared by run.py and compare.py."""
import csv
import glob
import os

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = ["training.csv", "oom.csv", "megatron.csv", "serving.csv", "kv.csv", "capacity.csv"]  # those with arguments


def read(paths=None):
    rows = []
    for path in paths or [os.path.join(HERE, name) for name in FILES]:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                row["measured"] = int(row["measured_bytes"])
                row["half"] = int(row["precision"] or 0)
                row["file"] = os.path.basename(path)
                rows.append(row)
    return [row for row in rows if row["arguments"]]


def files_of(folder):
    return sorted(path for path in glob.glob(os.path.join(folder, "*.csv")) if os.path.basename(path) in FILES)


def quantile(values, q):
    """The value below which a share q of the values lies, by linear interpolation; None of none."""
    values = sorted(values)
    if not values:
        return None
    place = q * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def percent(value, digits=2):
    return "-" if value is None else f"{100 * value:.{digits}f} %"


def publisher(row):
    """A short name of the source: owner/repository, or the host."""
    source = row["source"]
    for mark in ("github.com/", "huggingface.co/"):
        if mark in source:
            return "/".join(source.split(mark)[1].replace(" ", "/").split("/")[:2])
    return source.replace("https://", "").split("/")[0].split(" ")[0]


def markdown(header, lines):
    out = ["| " + " | ".join(header) + " |", "|" + "|".join("---" if i == 0 else "---:" for i in range(len(header))) + "|"]
    out += ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
    return "\n".join(out)
