#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""run.py - every published measurement through `umactl plan`, and how far the plan is from it.

Without --tap it prints errors by class and source; with --tap the targets alone, each as one test. A target
that is missed fails, unless it is one of MISSED.
"""
import argparse
import collections
import concurrent.futures
import csv
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

import import_measurements
import table

DEFAULT_BUDGET = ["--budget", "121.69GiB"]  # so that no run reads this machine


def plan(umactl, arguments, params):
    """(answer, how): how is "name", "count" when the model's name was not known and its parameters were used, or what went wrong."""
    words = shlex.split(arguments)
    if "--budget" not in words:
        words += DEFAULT_BUDGET
    for attempt in ("name", "count"):
        if attempt == "count":
            if "--model" not in words or not params:
                break
            at = words.index("--model")
            words[at:at + 2] = shlex.split(params) if params.startswith("--") else ["--params", f"{float(params):g}B"]
        done = subprocess.run([umactl, "plan"] + words + ["--json"], capture_output=True, text=True, timeout=60, check=False)
        if done.stdout.startswith("{"):
            return json.loads(done.stdout), attempt
        if "no built-in shape" not in done.stderr and attempt == "name":
            break
    return None, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]


def cache_bytes(answer, of_states):
    """Of the cache, the recurrent states, or the rest, which grows with the tokens. None where there is nothing of the kind."""
    parts = [term["bytes"] for term in answer["terms"] if term["group"] == "kv_cache" and (term["what"] == "recurrent state") == of_states]
    return sum(parts) if parts else None


def predicted(answer, row):
    """(value, low, high) of what the row's figure is to be compared with; None where the answer has no such figure."""
    steady, interval, device = answer["steady"], answer["interval"], answer["device"]
    component = row["component"]
    if component == "allocated.peak":
        return answer["allocated"]["peak"], interval["low"], interval["high"]
    if component == "allocated.between_steps":
        return answer["allocated"]["between_steps"], None, None
    if component == "device.reserved":
        return device["reserved"], interval["low"], max(interval["high"], device["high"] - device["context"])
    if component == "device.without_host":  # a GPU with memory of its own does not see what is offloaded
        return device["total"] - device["host"], interval["low"], device["high"] - device["host"]
    if component == "device.total":
        return device["total"], interval["low"], device["high"]
    if component == "host_buffer":
        return next((term["bytes"] for term in answer["terms"] if term["what"] == "compute buffer, host"), None), None, None
    if component in ("recurrent_state", "kv_growing"):
        return cache_bytes(answer, component == "recurrent_state"), None, None
    if component in steady:
        return steady[component], None, None
    capacity = answer.get("capacity") or {}
    if component == "kv_budget":
        return capacity.get("kv_bytes"), None, None
    if component == "limits.max_sequences":
        return capacity.get("sequences"), None, None
    return None


def evaluate(umactl, rows, jobs):
    """Fill rows with value, error, covered, width, how; equal arguments are planned once. Returns the answers by arguments and params."""
    wanted = sorted({(row["arguments"], row["params"]) for row in rows})
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        answers = dict(zip(wanted, pool.map(lambda key: plan(umactl, *key), wanted)))
    for row in rows:
        answer, row["how"] = answers[(row["arguments"], row["params"])]
        row["value"] = row["error"] = row["covered"] = row["width"] = None
        if answer is None:
            continue
        if row["class"] == "oom":
            row["fits"] = answer["fits"]
            row["value"] = answer["device"]["total"]
            continue
        found = predicted(answer, row)
        if found is None or found[0] is None:
            row["how"] = "the answer has no such figure"
            continue
        row["value"], low, high = found
        row["error"] = row["value"] / row["measured"] - 1 if row["measured"] else None
        row["within"] = abs(row["value"] - row["measured"]) <= row["half"]
        if low is not None and row["value"]:
            row["covered"] = low - row["half"] <= row["measured"] <= high + row["half"]
            row["width"] = (high - low) / row["value"]
    return {key: answer for key, (answer, _) in answers.items()}


def statistics(rows):
    errors = [abs(row["error"]) for row in rows if row.get("error") is not None]
    signed = [row["error"] for row in rows if row.get("error") is not None]
    covered = [row["covered"] for row in rows if row.get("covered") is not None]
    widths = [row["width"] for row in rows if row.get("width") is not None]
    printed = [row["within"] for row in rows if row.get("error") is not None and row["half"]]
    return {
        "rows": len(rows), "failed": len(rows) - len(errors), "median": table.quantile(errors, 0.5), "p90": table.quantile(errors, 0.9),
        "max": max(errors, default=None), "bias": table.quantile(signed, 0.5), "covered": sum(covered) / len(covered) if covered else None,
        "width": table.quantile(widths, 0.5), "printed": sum(printed) / len(printed) if printed else None,
    }


HEADER = ["class", "rows", "not planned", "median error", "p90", "largest", "median signed", "interval covers", "median width", "within print"]


def line(name, rows):
    s = statistics(rows)
    return [name, s["rows"], s["failed"] or "-", table.percent(s["median"]), table.percent(s["p90"]), table.percent(s["max"]),
            table.percent(s["bias"]), table.percent(s["covered"], 1), table.percent(s["width"], 1), table.percent(s["printed"], 0)]


def grouped(rows, key):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items())


def text_table(header, lines):
    widths = [max(len(str(cell)) for cell in column) for column in zip(header, *lines)]
    return "\n".join("  ".join(str(cell).ljust(w) if i == 0 else str(cell).rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
                     for row in [header] + lines)


def markdown_report(rows):
    """The tables of docs/accuracy.md: complete rows by class, and training peaks by source."""
    names = HEADER[:1] + HEADER[1:2] + HEADER[3:]
    cut = lambda cells: cells[:2] + cells[3:]
    complete = [row for row in rows if row["complete"] == "yes" and row["class"] != "oom"]
    print(table.markdown(names, [cut(line(name, group)) for name, group in grouped(complete, lambda row: row["class"])]))
    peaks = [row for row in complete if row["class"].startswith("total_peak")]
    print("\n" + table.markdown(["training peaks of"] + names[1:], [cut(line(name, group)) for name, group in grouped(peaks, table.publisher)]))


def oom_line(rows):
    right = sum(row.get("fits") is False for row in rows)
    return right, len(rows)


def report(rows, worst):
    complete = [row for row in rows if row["complete"] == "yes" and row["class"] != "oom"]
    capped = [row for row in rows if row["complete"] == "cap"]
    open_rows = [row for row in rows if row["complete"] == "no" and row["class"] != "oom"]
    for title, part in (("Rows that state what the figure depends on", complete), ("Rows whose length is only a cap", capped),
                        ("Rows that leave something open", open_rows)):
        if part:
            lines = [line(name, group) for name, group in grouped(part, lambda row: row["class"])]
            print(f"\n{title}\n" + text_table(HEADER, lines))
    if complete:
        lines = [line(f"{name[0]}: {name[1]}", group) for name, group in grouped(complete, lambda row: (row["class"], table.publisher(row)))]
        print("\nBy source\n" + text_table(HEADER, lines))
    oom = [row for row in rows if row["class"] == "oom"]
    if oom:
        print("\nJobs that ran out of memory and are said not to fit: %d of %d" % oom_line(oom))
    failed = [row for row in rows if row.get("value") is None]
    for how, group in grouped(failed, lambda row: row["how"]):
        print(f"not planned: {len(group)} rows, such as {group[0]['id']}: {how}")
    if worst:
        print(f"\nThe {worst} worst complete rows")
        ranked = sorted((row for row in complete if row.get("error") is not None), key=lambda row: -abs(row["error"]))[:worst]
        for row in ranked:
            print(f"{row['id']:14} {row['class']:20} {100 * row['error']:+8.2f} %  {row['value'] / 2**30:9.3f} for {row['measured'] / 2**30:9.3f} GiB"
                  f"  {row['arguments']}")


# --- targets --------------------------------------------------------------------------------------------------------


def share(rows, test):
    return sum(1 for row in rows if test(row)) / len(rows) if rows else None


def targets(rows):
    """(text, met, what was found). None for met: no such rows."""
    complete = [row for row in rows if row["complete"] == "yes"]
    known = lambda row, limit: row.get("error") is not None and (abs(row["error"]) <= limit or row["within"])
    out = []

    exact = [row for row in complete if row["class"] in ("weights", "kv")]
    got = share(exact, lambda row: known(row, 0.01))
    out.append(("weights and KV caches within 1 % (or their print) on 99 % of rows", got is None or got >= 0.99, f"{table.percent(got)} of {len(exact)}", exact))

    steady = [row for row in complete if row["class"] == "steady_alloc"]
    s = statistics(steady)
    out.append(("memory between steps: median error 0.1 %", s["median"] is None or s["median"] <= 0.001 and not s["failed"],
                f"{table.percent(s['median'], 3)} of {len(steady)}, {s['failed']} not planned", steady))
    out.append(("memory between steps: largest error 1 %", s["max"] is None or s["max"] <= 0.01, table.percent(s["max"]), steady))

    peaks = [row for row in complete if row["class"].startswith("total_peak")]
    s = statistics(peaks)
    out.append(("training peaks: median error 4 %", s["median"] is None or s["median"] <= 0.04 and not s["failed"],
                f"{table.percent(s['median'])} of {len(peaks)}, {s['failed']} not planned", peaks))
    out.append(("training peaks: 90th percentile 12 %", s["p90"] is None or s["p90"] <= 0.12, table.percent(s["p90"]), peaks))
    out.append(("training peaks: the interval covers 90 %", s["covered"] is None or s["covered"] >= 0.90, table.percent(s["covered"]), peaks))
    out.append(("training peaks: median width of the interval 25 %", s["width"] is None or s["width"] <= 0.25, table.percent(s["width"]), peaks))

    oom = [row for row in rows if row["class"] == "oom"]
    right, n = oom_line(oom)
    out.append(("jobs that ran out of memory are said not to fit: 90 %", not n or right >= 0.9 * n, f"{right} of {n}", oom))

    for name, title in (("trtllm_sequences", "TensorRT-LLM's most sequences"), ("vllm_kv_budget", "vLLM's KV budgets")):
        part = [row for row in complete if row["class"] == name]
        got = share(part, lambda row: known(row, 0.05))
        out.append((f"{title} within 5 % on 90 % of rows", got is None or got >= 0.90, f"{table.percent(got)} of {len(part)}", part))
    return out


# Targets that the published rows here are known to miss, and why; docs/accuracy.md says so, too. A target
# missed so is reported as skipped with its figure; one of them that is met passes, and any other that is missed fails.
MISSED = {
    "weights and KV caches": "four of 200: two mixes whose recipe is not published, a pipeline whose printed rank is not stated, a mislabelled log",
    "vLLM's KV budgets": "one of three: a community checkpoint whose tensors are not published, its budget given as approximate",
}


def tap(rows):
    found = targets(rows)
    print(f"1..{len(found)}")
    missed = 0
    for number, (text, met, what, part) in enumerate(found, 1):
        if not part:
            print(f"ok {number} - {text} # SKIP no such rows")
            continue
        why = next((reason for begin, reason in MISSED.items() if text.startswith(begin)), None) if not met else None
        if why:
            print(f"ok {number} - {text} # SKIP missed, {what}: {why}")
            continue
        missed += not met
        print(f"{'ok' if met else 'not ok'} {number} - {text}: {what}")
    return missed


def default_umactl():
    return os.environ.get("UMACTL") or os.path.join(table.HERE, "..", "..", "build", "src", "umactl")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--umactl", default=default_umactl())
    parser.add_argument("--rows", action="append", metavar="FILE", help="another table of this form; may be repeated")
    parser.add_argument("--import", dest="folder", metavar="DIR", help="tables in the layout that README.md describes")
    parser.add_argument("--class", dest="class_", metavar="NAME", help="rows of classes that begin so")
    parser.add_argument("--source", metavar="TEXT", help="rows whose source has this in it")
    parser.add_argument("--id", metavar="TEXT", help="rows whose id begins so")
    parser.add_argument("--worst", type=int, default=0, metavar="N")
    parser.add_argument("--csv", metavar="OUT", help="every row with its estimate")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tap", action="store_true", help="the targets alone, as tests")
    parser.add_argument("--markdown", action="store_true", help="the tables of docs/accuracy.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        if options.folder:
            import_measurements.import_folder(options.folder, scratch)
        rows = table.read(table.files_of(scratch) if options.folder else options.rows)
    rows = [row for row in rows if row["class"].startswith(options.class_ or "") and (options.source or "") in row["source"] and
            row["id"].startswith(options.id or "")]
    evaluate(options.umactl, rows, options.jobs)
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            names = ["id", "class", "complete", "measured_bytes", "value", "error", "covered", "width", "how", "arguments", "source", "remark"]
            writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    if options.tap:
        sys.exit(1 if tap(rows) else 0)
    if options.markdown:
        return markdown_report(rows)
    report(rows, options.worst)
    print("\nTargets")
    for text, met, what, part in targets(rows):
        if part:
            print(f"  {'met   ' if met else 'MISSED'}  {text}: {what}")
    return None


if __name__ == "__main__":
    main()
