#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every machine of tests/fixtures/machines: the shape of its documents, the ledger's sum, the expected problems and only those, and the
same answer by every way a machine can come in. EXPECTED.json beside a machine says what must be found there."""

import json
import os
import subprocess
import tempfile

from harness import (MACHINES, REQUIRE, add, assert_clean_text, case, check, check_status, contains, difference, equal, machine, machines, main, run)

GIB = 1 << 30


with open(os.path.join(MACHINES, "EXPECTED.json"), encoding="utf-8") as _f:
    EXPECTED = json.load(_f)


def expected(name):
    assert name in EXPECTED, f"EXPECTED.json says nothing about {name}"
    return EXPECTED[name]


def status(name):
    return run("status", "--json", "--root", machine(name)).expect(0)


def document(name):
    check_status(status(name).json)


def problems(name):
    want = sorted(expected(name)["problems"])
    found = status(name).json["problems"]
    equal(sorted(p["id"] for p in found), want, "problems")
    order = ["critical", "warning", "info"]
    ranks = [order.index(p["severity"]) for p in found]
    equal(ranks, sorted(ranks), "most severe first")
    for p in found:
        for key in ("summary", "evidence", "remedy"):
            assert p[key].strip(), f"{p['id']} without {key}"
        assert "\n" not in p["summary"], p["id"]


def facts(name):
    """What EXPECTED.json spells out. A key that is not known here is a fact that nobody checks: that is a fault too."""
    want, got = dict(expected(name)), status(name).json
    del want["problems"]
    places = {
        "total": got["headroom"]["total"], "now": got["headroom"]["now"], "available": got["headroom"]["available"],
        "mem_available": got["views"]["free_available"], "largest_free_block": got["headroom"]["largest_free_block"],
        "gpu_limit": got["headroom"]["gpu_limit"], "hugetlb_rule": got["headroom"]["hugetlb_rule"],
        "available_estimated": got["headroom"]["available_estimated"], "platform": got["platform"]["name"],
        "unified": got["platform"]["unified"],
    }
    for key in list(want):
        if key in places:
            equal(places[key], want.pop(key), key)
    holders = {h["pid"]: h for h in got["holders"]}
    for one in want.pop("holders"):
        assert one["pid"] in holders, f"no holder {one['pid']} among {sorted(holders)}"
        for key, value in one.items():
            equal(holders[one["pid"]][key], value, f"{key} of holder {one['pid']}")
    if "container" in want:
        name_there = want.pop("container")
        assert any(h["container"] == name_there for h in got["holders"]), f"no holder in {name_there}"
    if "gpu_known" in want:
        equal(want.pop("gpu_known"), got["heat"]["gpu_celsius"] is not None, "gpu_known")
        equal([h["gpu_bytes"] for h in got["holders"]], [None] * len(holders), "GPU bytes that nobody could tell")
    if "gpu_bytes" in want:
        equal({row["kind"]: row["bytes"] for row in got["ledger"]}["gpu"], want.pop("gpu_bytes"), "the ledger's GPU row")
    raw = run("snapshot", "--root", machine(name)).json
    if "processes" in want:
        equal(len(raw["processes"]["list"]), want.pop("processes"), "processes")
    if "page_size" in want:
        equal(raw["zones"]["page_size"], want.pop("page_size"), "page size")
    if "cached" in want:
        equal(raw["meminfo"]["cached"], want.pop("cached"), "cached")
    if "effective_max" in want:
        limit = want.pop("effective_max")
        process = next(p for p in raw["processes"]["list"] if p["pid"] == limit["pid"])
        group = raw["cgroups"][process["cgroup"]]
        equal((group["effective_max"], group["effective_max_path"]), (limit["bytes"], limit["path"]), "the smallest limit above it")
    for key in ("evidence", "remedies"):
        for identifier, words in want.pop(key, {}).items():
            for word in [words] if isinstance(words, str) else words:
                contains(problem_of(name, identifier)[{"evidence": "evidence", "remedies": "remedy"}[key]], word)
    if "page_cache" in want:
        cache, seen = want.pop("page_cache"), raw["page_cache"]
        equal({"files": len(seen["files"]), "explained": seen["explained"], "total": seen["total"]}, cache, "the recorded page cache")
        equal(cache["total"], raw["meminfo"]["cached"] + raw["meminfo"]["buffers"] - raw["meminfo"]["shmem"], "its total is meminfo's")
        equal(cache["explained"], sum(f["resident"] or 0 for f in seen["files"] if f["kind"] != "memory"), "its parts are its sum")
    else:
        equal((raw["page_cache"]["source"]["state"], raw["page_cache"]["files"]), ("unknown", []), "a folder without a recorded list")
    equal(want, {}, "facts that this test does not know how to check")


def text(name):
    r = run("status", "--root", machine(name)).expect(0)
    clean = assert_clean_text(r.out_bytes)
    got = status(name).json
    budget = (got["headroom"]["budget"] * 10 + GIB // 2) // GIB
    assert clean.startswith(f"A new job can have {budget // 10}.{budget % 10} GiB of "), clean[:100]
    flat = " ".join(clean.split())
    for p in got["problems"]:
        if p["summary"].isascii():
            contains(flat, " ".join(p["summary"].split()))
    contains(clean, "WHERE IT IS")
    # everything is everything: a row for each kind that has bytes, a line for each holder
    everything = run("status", "--all", "--root", machine(name)).expect(0).out
    rows = everything[everything.index("WHERE IT IS"):].split("\n\n")[0].splitlines()[1:]
    equal(len(rows), sum(row["bytes"] > 0 for row in got["ledger"]), "rows with --all")
    for holder in got["holders"]:
        contains(everything, f"{holder['pid']:8}  ")


def round_trip(name):
    """A snapshot says the same as the machine it was taken from, byte for byte."""
    snapshot = run("snapshot", "--root", machine(name)).expect(0)
    assert snapshot.out.startswith('{\n  "schema": "umactl.snapshot/1",'), snapshot.out[:80]
    for args in (["status"], ["status", "--json"], ["status", "--all"], ["require", "--bytes", "40G", "--json"], ["snapshot"]):
        direct = run(*args, "--root", machine(name))
        again = run(*args, "--from", "-", stdin=snapshot.out_bytes)
        equal((again.code, again.err), (direct.code, direct.err), f"{args}: exit status and stderr")
        assert again.out_bytes == direct.out_bytes, f"{args} differs:\n{difference(direct.out, again.out)}"


def folder(name):
    """--folder copies what was read; --root on the copy is the same machine."""
    with tempfile.TemporaryDirectory() as place:
        copy = os.path.join(place, "copy")
        snapshot = run("snapshot", "--folder", copy, "--root", machine(name)).expect(0)
        for args in (["status"], ["status", "--json"], ["snapshot"]):
            taken = run(*args, "--from", "-", stdin=snapshot.out_bytes).out
            copied = run(*args, "--root", copy).expect(0).out
            assert taken == copied, f"{args} differs:\n{difference(taken, copied)}"


def redacted(name):
    snapshot = run("snapshot", "--redact", "--root", machine(name)).expect(0)
    assert_clean_text(snapshot.out_bytes)
    plain = run("snapshot", "--root", machine(name)).json
    host = plain["platform"]["host"]
    if host:
        assert snapshot.json["platform"]["host"] not in (host, None), f"the host name {host} is still there"
    r = run("status", "--json", "--from", "-", stdin=snapshot.out_bytes).expect(0)
    redone, direct = check_status(r.json), status(name).json
    for key in ("headroom", "ledger", "views", "heat"):
        equal(redone[key], direct[key], f"{key} of the redacted machine")
    equal([p["id"] for p in redone["problems"]], [p["id"] for p in direct["problems"]], "problems of the redacted machine")
    equal(run("snapshot", "--redact", "--from", "-", stdin=snapshot.out_bytes).out, snapshot.out, "redacting twice is redacting once")


def require(name):
    budget = status(name).json["headroom"]["budget"]
    for need, code, met in ((budget, 0, True), (budget + 1, 1, False), (0, 0, True)):
        r = run("require", "--bytes", str(need), "--json", "--root", machine(name)).expect(code)
        check(r.json, REQUIRE)
        equal((r.json["met"], r.json["needed"], r.json["budget"], r.json["waited"]), (met, need, budget, 0), "met")
        equal(run("require", "--bytes", str(need), "--quiet", "--root", machine(name)).expect(code).out, "")
    r = run("require", "--bytes", str(budget + GIB), "--root", machine(name)).expect(1)
    contains(r.out, "not met: ")
    contains(r.out, "1.0 GiB short")
    assert_clean_text(r.out_bytes)
    for holder in status(name).json["holders"][:3]:
        contains(r.out, f"pid {holder['pid']}: ")


for _name in machines():
    for _what in (document, problems, facts, text, round_trip, folder, redacted, require):
        add(f"{_name}: {_what.__name__}", _what, _name)


@case("B2: 3.3 GB free, 101 GB available, 99 GB cache, 11.7 GB in an embeddings server")
def _():
    names = ["spark-cache-starved"]
    d = status(names[0]).json
    h = d["headroom"]
    near = lambda got, gib: abs(got - gib * GIB) < 0.01 * gib * GIB  # noqa: E731 - the case is told in rounded numbers, as `free` has them
    assert near(h["now"], 3.3), h["now"]
    assert near(h["available"], 101), h["available"]
    cache = sum(row["bytes"] for row in d["ledger"] if row["kind"].startswith("cache_"))
    assert near(cache, 99), cache
    top = d["holders"][0]
    assert near(top["gpu_bytes"], 11.7), top
    named = " ".join(str(top[k]) for k in ("name", "container", "unit", "model") if top.get(k))
    assert "embed" in named.lower(), named
    equal(top["role"], "serve")
    out = run("status", "--root", machine(names[0])).expect(0).out
    contains(out, "file cache")
    contains(out.lower(), "embed")
    assert any("cache" in p["id"] for p in d["problems"]), d["problems"]
    # and who is in the way is said where a job is refused
    contains(run("require", "--bytes", "120G", "--root", machine(names[0])).expect(1).out.lower(), "embed")


RUNNABLE = {"sudo", "umactl"}


def remedies(name):
    """A remedy begins with a command, or says that it only looks closer, or is an instruction; none has a place left open."""
    for p in status(name).json["problems"]:
        word = p["remedy"].split()[0]
        assert word in RUNNABLE | {"see:", "add"}, p
        assert "..." not in p["remedy"] and "drop_caches" not in p["remedy"], p


for _name in machines():
    add(f"{_name}: remedies", remedies, _name)


def problem_of(name, identifier):
    [found] = [p for p in status(name).json["problems"] if p["id"] == identifier]
    return found


@case("remedies that help")
def _():
    equal(problem_of("spark-thermal", "thermal")["remedy"], "sudo nvidia-smi -lgc 0,1700")
    equal(problem_of("spark-container", "container-limit-not-cuda")["remedy"], "umactl require --bytes 65G && docker start vllm-qwen")
    equal(problem_of("spark-two-heavy", "two-heavy-jobs")["remedy"], "umactl run --wait 2h --need 49G -- JOB")
    contains(problem_of("spark-swap", "swap-in-use")["evidence"], "9.6 GiB of 16.0 GiB swap are used, 200 MiB of it is in memory again")


@case("GPU bytes that only the device tells of are of no process")
def _():
    d = status("jetson-orin").json
    equal([h["gpu_bytes"] for h in d["holders"]], [None])
    out = run("status", "--root", machine("jetson-orin")).expect(0).out
    contains(out, "GPU, driver's total")
    assert "GPU, by process" not in out, out
    contains(out, "18.0 GiB of GPU memory that its driver does not divide by process")
    contains(out, "cap ? of 3300: command line: fixed at start by -c 32768 -ngl 99")


@case("cudaMemGetInfo is a number, and in the text where there is CUDA")
def _():
    for name in machines():
        d = status(name).json
        want = 31.6 if name == "gh200" else d["headroom"]["now"] / GIB
        assert abs(d["views"]["cuda_mem_get_info"] / GIB - want) < 0.1, (name, d["views"])
        nvidia = name.startswith(("spark", "gh200", "jetson"))
        equal("cudaMemGetInfo" in run("status", "--root", machine(name)).out, nvidia, name)


@case("a total that is missing takes nothing else with it")
def _():
    with tempfile.TemporaryDirectory() as place:
        os.mkdir(os.path.join(place, "proc"))
        with open(os.path.join(machine("spark-idle"), "proc/meminfo"), encoding="ascii") as f:
            lines = f.readlines()
        with open(os.path.join(place, "proc/meminfo"), "w", encoding="ascii") as f:
            f.writelines(lines[1:])
        out = run("status", "--root", place).expect(3).out
        contains(out, "What a new job can have is unknown")
        contains(out, "now 104.5 GiB")
        contains(out, "free 104.5 (available 113.1)")
        d = run("status", "--json", "--root", place).expect(3).json
        equal((d["headroom"]["total"], d["ledger"], d["headroom"]["now"]), (None, None, int(lines[1].split()[1]) * 1024))


@case("limits and servers")
def _():
    out = run("status", "--root", machine("cgroup-v1")).expect(0).out
    contains(out, "limit 4.0")
    contains(out, "HEAT        no GPU seen; CPU temperature not known")
    assert "?" not in out, out


@case("a document travels through a pipe")
def _():
    name = machines()[0]
    from harness import UMACTL, environment

    r = subprocess.run(["bash", "-c", '"$0" snapshot --root "$1" | "$0" status --from -', UMACTL, machine(name)], capture_output=True,
                       env=environment(), timeout=30)
    equal((r.returncode, r.stderr, r.stdout), (0, b"", run("status", "--root", machine(name)).out_bytes))


main()
