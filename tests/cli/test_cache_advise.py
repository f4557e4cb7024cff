#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl cache advise from outside: what it says of machines that are folders, and what it refuses. Changes are test_cache_tune.py's."""

import json
import os
import re
import shutil
import tempfile

import harness
from harness import MACHINES, case, contains, environment, equal, run

SCHEMA = "umactl.cache-advise/1"
VERDICTS = ["hurts", "helps", "disputed", "unknown", "ok"]
CERTAINTIES = ["measured", "kernel", "vendor", "field report"]


def machine(name):
    return os.path.join(MACHINES, name)


def advice(*args):
    document = run("cache", "advise", "--json", *args).expect(0).json
    equal(list(document)[0], "schema")
    equal(document["schema"], SCHEMA)
    return document["advice"]


def verdicts(list_):
    return {a["id"]: a["verdict"] for a in list_ if a["verdict"] not in ("ok", "unknown")}


# ---- machines that are folders ---------------------------------------------------------------------------------------


@case("every machine folder: one document of the promised shape, hurts first")
def _():
    for name in sorted(os.listdir(MACHINES)):
        if not os.path.isdir(machine(name)):
            continue
        found = advice("--root", machine(name))
        order = [VERDICTS.index(a["verdict"]) for a in found]
        equal(order, sorted(order), name)
        equal(len({a["id"] for a in found}), len(found), name)
        for a in found:
            equal(list(a), ["id", "subject", "now", "verdict", "recommended", "path", "applied_by_default", "why", "command", "evidence"])
            assert a["why"], (name, a["id"])
            assert (a["recommended"] is not None) == (a["verdict"] in ("hurts", "helps")), (name, a)
            assert a["applied_by_default"] == (a["verdict"] == "helps" and a["path"] is not None), (name, a)
            for e in a["evidence"]:
                assert e["certainty"] in CERTAINTIES and e["says"] and e["source"], (name, a)
            if a["verdict"] not in ("unknown",):
                assert a["evidence"], (name, a["id"])


@case("a Spark as it comes: what helps is the writing back and the reading ahead")
def _():
    equal(verdicts(advice("--root", machine("spark-idle"))), {
        "dirty-background": "helps", "dirty-limit": "helps", "readahead-nvme0n1": "helps", "swap": "disputed", "nvidia-memory-pools": "disputed"})


@case("a Spark that somebody tuned: the floor of 4 GiB, the OOM killer and the stalls hurt")
def _():
    found = advice("--root", machine("spark-serving"))
    equal({i for i, v in verdicts(found).items() if v == "hurts"}, {"min-free-kbytes", "thp-defrag", "lru-min-ttl"})
    floor = next(a for a in found if a["id"] == "min-free-kbytes")
    contains(floor["why"], "GiB")
    assert any("6.2 GiB" in e["says"] and e["certainty"] == "field report" for e in floor["evidence"])
    equal(floor["command"], "sudo sysctl -w vm.min_free_kbytes=45184")
    equal(next(a for a in found if a["id"] == "loader-5100")["verdict"], "disputed")


@case("a machine with the settings that are recommended: nothing is left")
def _():
    equal(verdicts(advice("--root", machine("strix-halo"))), {"swap": "disputed"})


@case("what is recommended is ok once it is set: the settings of each machine with its advice taken")
def _():
    for name in ("spark-idle", "spark-serving"):
        with tempfile.TemporaryDirectory() as folder:
            root = os.path.join(folder, "root")
            shutil.copytree(machine(name), root, symlinks=True)
            taken = [a for a in advice("--root", root) if a["recommended"] and a["path"]]
            assert taken, name
            for a in taken:
                with open(root + a["path"], "w", encoding="ascii") as f:
                    f.write(a["recommended"] + "\n")
            after = {a["id"]: a["verdict"] for a in advice("--root", root)}
            for a in taken:
                equal(after[a["id"]], "ok", f"{name} {a['id']}")


@case("a captured machine gives the advice of the machine")
def _():
    with tempfile.TemporaryDirectory() as folder:
        capture = os.path.join(folder, "capture")
        run("snapshot", "--folder", capture).expect(0, err=None)
        ours = [(a["id"], a["verdict"]) for a in advice() if not a["id"].startswith(("loader-", "expandable-"))]
        theirs = [(a["id"], a["verdict"]) for a in advice("--root", capture) if not a["id"].startswith(("loader-", "expandable-"))]
        equal(theirs, ours)


@case("a snapshot has no settings: they are unknown, and it is said where they are")
def _():
    text = run("snapshot", "--root", machine("spark-serving")).expect(0, err=None).out
    result = run("cache", "advise", "--from", "-", stdin=text).expect(0)
    contains(result.out, "A snapshot has no settings")
    found = {a["id"]: a["verdict"] for a in run("cache", "advise", "--json", "--from", "-", stdin=text).expect(0).json["advice"]}
    equal(found["min-free-kbytes"], "unknown")
    equal(found["loader-5100"], "disputed")  # command lines it has


@case("text: a table, then why with its source; the rest with --all; within the terminal")
def _():
    out = run("cache", "advise", "--root", machine("spark-serving")).expect(0).out
    contains(out, "  SETTING ")
    contains(out, "> sudo sysctl -w vm.min_free_kbytes=45184")
    contains(out, "- field report: 4 GiB lowered MemAvailable")
    assert "vm.vfs_cache_pressure" not in out
    assert re.search(r"^  ok: .*vfs-cache-pressure", out, re.S | re.M)
    whole = run("cache", "advise", "--all", "--root", machine("spark-serving")).expect(0).out
    contains(whole, "vfs-cache-pressure: vm.vfs_cache_pressure")
    for text in (out, whole):
        assert max(len(line) for line in text.splitlines()) <= 100
        assert "\x1b" not in text


@case("hostile names and values of a folder reach neither a terminal nor a command")
def _():
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "root")
        shutil.copytree(machine("spark-idle"), root, symlinks=True)
        evil = "nvme\x1b[31m\nx"
        os.rename(os.path.join(root, "sys/block/nvme0n1"), os.path.join(root, "sys/block", evil))
        os.rename(os.path.join(root, "sys/block", evil, "nvme0n1p2"), os.path.join(root, "sys/block", evil, evil + "p2"))
        with open(os.path.join(root, "sys/kernel/mm/transparent_hugepage/enabled"), "w", encoding="ascii") as f:
            f.write("[alw\x1b[2Jays] never\n")
        with open(os.path.join(root, "proc/cmdline"), "w", encoding="ascii") as f:
            f.write("kho=\x1b[2J transparent_hugepage=" + "x" * 3000 + "\n")
        for args in ((), ("--all",), ("--sysctl",)):
            out = run("cache", "advise", *args, "--root", root).expect(0).out
            assert "\x1b" not in out, out
        json.loads(run("cache", "advise", "--json", "--root", root).expect(0).out)


@case("malformed, huge and missing settings are unknown, never 0")
def _():
    with tempfile.TemporaryDirectory() as folder:
        root = os.path.join(folder, "root")
        shutil.copytree(machine("spark-idle"), root, symlinks=True)
        vm = os.path.join(root, "proc/sys/vm")
        for name, text in (("min_free_kbytes", "many\n"), ("swappiness", ""), ("dirty_ratio", "9" * 40), ("zone_reclaim_mode", "-1\n")):
            with open(os.path.join(vm, name), "w", encoding="ascii") as f:
                f.write(text)
        os.unlink(os.path.join(vm, "extfrag_threshold"))
        os.unlink(os.path.join(vm, "vfs_cache_pressure"))
        os.mkfifo(os.path.join(vm, "vfs_cache_pressure"))
        found = {a["id"]: a for a in advice("--root", root)}
        for name in ("min-free-kbytes", "swappiness", "dirty-limit", "zone-reclaim-mode", "vfs-cache-pressure"):
            equal(found[name]["verdict"], "unknown", name)
            equal(found[name]["now"], None, name)
        assert "extfrag-threshold" not in found


@case("--sysctl prints a file and writes nothing")
def _():
    out = run("cache", "advise", "--sysctl", "--root", machine("spark-idle")).expect(0).out
    lines = out.splitlines()
    assert lines[0].startswith("# "), out
    assert "vm.dirty_background_bytes = 268435456" in lines and "vm.dirty_bytes = 1073741824" in lines
    contains(out, '# no sysctl; in a file of /etc/udev/rules.d: ACTION=="add|change", KERNEL=="nvme0n1", ATTR{queue/read_ahead_kb}="4096"')
    only = run("cache", "advise", "--sysctl", "dirty-limit", "--root", machine("spark-idle")).expect(0).out
    equal([l for l in only.splitlines() if not l.startswith("#")], ["vm.dirty_bytes = 1073741824"])
    named = run("cache", "advise", "--sysctl", "min-free-kbytes,lru-min-ttl", "--root", machine("spark-serving")).expect(0).out
    contains(named, "vm.min_free_kbytes = 45184\n")
    contains(named, "w /sys/kernel/mm/lru_gen/min_ttl_ms - - - - 0\n")


# ---- usage -----------------------------------------------------------------------------------------------------------


def refuses(args, says, code=2, **changes):
    result = run("cache", "advise", *args, env=environment(UMACTL_STATE="/nonexistent/umactl", **changes))
    equal(result.code, code, " ".join(args))
    equal(result.out, "")
    contains(result.err, says)


@case("what makes no sense is refused, and nothing is changed")
def _():
    idle = machine("spark-idle")
    refuses(["--apply", "--root", idle], "--apply changes this machine, not a folder")
    refuses(["--undo", "--root", idle], "--undo changes this machine")
    refuses(["--apply", "--from", "x.json"], "--apply changes this machine, not a snapshot")
    refuses(["--apply"], "UMACTL_ROOT", UMACTL_ROOT=idle)
    refuses(["--apply", "--undo"], "three things")
    refuses(["--sysctl", "--json"], "give one of them")
    refuses(["swappiness"], "go with --apply or --sysctl")
    refuses(["--undo", "swappiness"], "go with --apply or --sysctl")
    refuses(["--sysctl", "swapiness", "--root", idle], 'did you mean "swappiness"')
    refuses(["--sysctl", "swappiness=10", "--root", idle], "only the advised value is set")
    refuses(["--force"], "--force goes with --undo")
    refuses(["--apply", "--force"], "--force goes with --undo")
    refuses(["--sysctl", ",", "--root", idle], "expected names")
    refuses(["--sysctl", "x" * 200, "--root", idle], "expected names")
    refuses(["--aply"], 'did you mean "--apply"')
    refuses(["--root", "/nonexistent"], "/nonexistent", code=3)


if __name__ == "__main__":
    harness.main()
