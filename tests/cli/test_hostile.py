#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Process lists that want to harm: names with newlines, brackets and escape sequences, and thousands of processes."""

import json
import os
import subprocess
import tempfile

from harness import Skip, add, assert_clean_text, case, check_status, contains, environment, equal, machine, machines, main, on_terminal, run, run_measured

HOSTILE = [n for n in machines() if "hostile" in n]
MIB = 1 << 20


@case("there is a hostile machine")
def _():
    assert HOSTILE, machines()


def clean(name):
    for args in (["status"], ["status", "--all"], ["status", "--json"], ["snapshot"], ["snapshot", "--redact"], ["require", "--bytes", "9999T"]):
        r = run(*args, "--root", machine(name)).expect(1 if args[0] == "require" else 0)
        assert_clean_text(r.out_bytes)
        if "--json" in args:
            check_status(r.json)
    code, out = on_terminal("status", "--root", machine(name), env=environment(TERM="xterm", NO_COLOR="1"))
    equal(code, 0)
    assert_clean_text(out.encode())
    ascii_only = run("status", "--all", "--root", machine(name), env=environment(LC_ALL="C")).expect(0).out_bytes
    assert all(b < 0x80 for b in ascii_only)


for _name in HOSTILE:
    add(f"{_name}: no control byte comes out", clean, _name)


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)


def add_process(root, pid, name, anon_kb, cmdline, cgroup=b"0::/user.slice\n"):
    base = os.path.join(root, "proc", str(pid))
    fields = b"S 1 1 1 0 -1 4194304 100 0 7 0 10 5 0 0 20 0 4 0 1000 100000000 " + str(anon_kb // 4).encode() + b" 18446744073709551615" + b" 0" * 27
    write(os.path.join(base, "stat"), str(pid).encode() + b" (" + name[:15] + b") " + fields + b"\n")
    shown = name[:15].replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    write(os.path.join(base, "status"),
          b"Name:\t" + shown + b"\nState:\tS (sleeping)\nPid:\t%d\nPPid:\t1\nUid:\t1000\t1000\t1000\t1000\n"
          b"VmRSS:\t%d kB\nRssAnon:\t%d kB\nRssFile:\t0 kB\nRssShmem:\t0 kB\nVmSwap:\t0 kB\nVmLck:\t0 kB\nVmPin:\t0 kB\nThreads:\t4\n"
          % (pid, anon_kb, anon_kb))
    write(os.path.join(base, "comm"), name[:15] + b"\n")
    write(os.path.join(base, "cmdline"), cmdline)
    write(os.path.join(base, "cgroup"), cgroup)


MEMINFO = b"""MemTotal:       127600524 kB
MemFree:        60000000 kB
MemAvailable:   90000000 kB
Buffers:          100000 kB
Cached:         30000000 kB
SwapCached:            0 kB
AnonPages:      35000000 kB
Shmem:             10000 kB
Slab:             600000 kB
SReclaimable:     300000 kB
SUnreclaim:       300000 kB
KernelStack:       20000 kB
PageTables:        30000 kB
SwapTotal:             0 kB
SwapFree:              0 kB
"""


def crowd(root, n):
    write(os.path.join(root, "proc", "meminfo"), MEMINFO)
    for i in range(n):
        add_process(root, 1000 + i, b"worker-%d" % i, 4000, b"python3\0-m\0worker\0--rank\0%d\0" % i)


MODEL_NAMES = ["org/plain-7B", "it's", "a b", "; touch {}", "$(touch {})", "`touch {}`", "' ; touch {} ; '", "-rf", "--all", "a\nb", "\x1b[2J", "\u202eb", "\\xff", "*", "~", "=x",
               "#x", "!!", "x" * 600, "\u6a21\u578b", "a\tb", "a|touch {}", "&& touch {}", "", " "]


@case("a model's name is one word of the command that evicts it, or no word of any")
def _():
    snapshot = run("snapshot", "--root", machine("spark-cache-starved")).expect(0).json
    with tempfile.TemporaryDirectory() as place:
        trap = os.path.join(place, "trap")
        for pattern in MODEL_NAMES:
            name = pattern.replace("{}", trap)
            for f in snapshot["page_cache"]["files"]:
                if f["model"] is not None and "4B" not in f["path"]:
                    f["model"] = name
            document = json.dumps(snapshot).encode()
            assert_clean_text(run("status", "--from", "-", stdin=document).expect(0).out_bytes)
            [problem] = run("status", "--json", "--from", "-", stdin=document).expect(0).json["problems"]
            if not name:
                equal(problem["remedy"], "see: umactl cache", "of what has no name")
                continue
            # what a shell makes of it: a function stands for the program
            shell = 'umactl() { for word; do printf "%s\\0" "$word"; done; }; ' + problem["remedy"]
            words = subprocess.run(["sh", "-c", shell], capture_output=True, check=True, timeout=10, cwd=place).stdout.decode().split("\0")[:-1]
            whole = [["cache", "evict", "--model", name], ["cache", "evict", "--model=" + name]]
            assert words in whole + [["cache", "evict", "--all-models"]], (name, problem["remedy"], words)
            if name in ("org/plain-7B", "it's", "; touch " + trap, "-rf", "\u6a21\u578b"):
                assert words in whole, (name, words)
            equal(os.listdir(place), [], "what the command left behind")


@case("names that close the bracket, end the line and paint the screen")
def _():
    with tempfile.TemporaryDirectory() as root:
        crowd(root, 3)
        names = [b"a) R 1 1 (b", b"x\ny", b"\x1b[2J\x1b]0;t\x07", b"\xff\xfe\xfd", "‮drawkcab".encode(), b") S 9 9", b"((((", b"", b"%s%n%s"]
        for i, name in enumerate(names):
            add_process(root, 50 + i, name, (3 + i) << 20, b"/opt/" + name + b"\0" + b"\x1b[31m\0\n\n\0" + b"\xc3\x28\0")
        d = check_status(run("status", "--json", "--root", root).expect(0).json)
        pids = {h["pid"]: h for h in d["holders"]}
        for i in range(len(names)):
            assert 50 + i in pids, f"holder {names[i]!r} is missing in {sorted(pids)}"
            equal(pids[50 + i]["anon_bytes"], (3 + i) << 30, repr(names[i]))
        out = assert_clean_text(run("status", "--all", "--root", root).expect(0).out_bytes)
        contains(out, "x\\ny")
        contains(out, "\\x1b[2J")
        contains(out, "\\xff\\xfe\\xfd")
        contains(out, "a) R 1 1 (b")


@case("a command line of 10 MB")
def _():
    with tempfile.TemporaryDirectory() as root:
        crowd(root, 1)
        add_process(root, 77, b"huge", 8 << 20, b"python3\0" + b"x" * (10 << 20))
        r = run_measured("status", "--root", root)
        equal(r.code, 0)
        if not os.environ.get("UMA_SANITIZED"):
            assert r.rss <= 8 * MIB, f"{r.rss / MIB:.1f} MiB"


@case("5,000 processes: the answer is right and resident memory stays within 8 MiB")
def _():
    with tempfile.TemporaryDirectory() as root:
        crowd(root, 5000)
        add_process(root, 900, b"trainer", 20 << 20, b"python3\0train.py\0")
        for args in (["status"], ["status", "--json"]):
            r = run_measured(*args, "--root", root)
            equal(r.code, 0)
            contains(r.out, "trainer")
            contains(r.out, "900")
            if os.environ.get("UMA_SANITIZED"):
                continue
            assert r.rss <= 8 * MIB, f"{args}: {r.rss / MIB:.1f} MiB resident"
        if os.environ.get("UMA_SANITIZED"):
            raise Skip("the bound is not for sanitizers")


main()
