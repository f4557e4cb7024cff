#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""umactl require: waiting for measured room on a machine that changes, fragmentation, signals. The machine is a folder that the test edits."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from harness import REQUIRE, Terminal, UMACTL, case, check, contains, environment, equal, machine, machines, main, run

BASE = "spark-serving" if "spark-serving" in machines() else machines()[0]


class Machine:
    """A copy of a fixture whose MemFree and MemAvailable can be set."""

    def __init__(self, name=BASE):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "m")
        shutil.copytree(machine(name), self.path, symlinks=True)
        self.meminfo = os.path.join(self.path, "proc/meminfo")

    def set(self, **kilobytes):
        """In one write, in place: umactl keeps the file open, as it does the kernel's."""
        with open(self.meminfo, encoding="ascii") as f:
            text = f.read()
        before = len(text)
        for key, value in kilobytes.items():
            text, n = re.subn(rf"(?m)^({key}:)( +\d+)( kB)$", lambda m: m.group(1) + f"{value:{len(m.group(2))}}" + m.group(3), text)
            assert n == 1, key
        assert len(text) == before
        fd = os.open(self.meminfo, os.O_WRONLY)
        assert os.write(fd, text.encode()) == before
        os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()


def later(seconds, function):
    t = threading.Timer(seconds, function)
    t.start()
    return t


@case("waits until there is room, and no longer")
def _():
    with Machine() as m:
        m.set(MemFree=1 << 20, MemAvailable=2 << 20)
        t = later(0.8, lambda: m.set(MemFree=60 << 20, MemAvailable=80 << 20))
        r = run("require", "--bytes", "40G", "--wait", "30", "--json", "--root", m.path).expect(0)
        t.join()
        check(r.json, REQUIRE)
        equal(r.json["met"], True)
        assert 0.5 < r.json["waited"] < 10, r.json["waited"]
        assert abs(r.seconds - r.json["waited"]) < 3, (r.seconds, r.json["waited"])


@case("gives up at the deadline and names who holds it")
def _():
    with Machine() as m:
        m.set(MemFree=1 << 20, MemAvailable=2 << 20)
        r = run("require", "--bytes", "40G", "--wait", "0.7", "--root", m.path).expect(1)
        contains(r.out, "not met: 40.0 GiB needed")
        contains(r.out, " after 0.")
        contains(r.out, "held by ")
        assert 0.6 <= r.seconds < 5, r.seconds


@case("does not wait for what is there")
def _():
    with Machine() as m:
        m.set(MemFree=60 << 20, MemAvailable=80 << 20)
        r = run("require", "--bytes", "1G", "--wait", "1h", "--root", m.path).expect(0)
        assert r.seconds < 5, r.seconds


@case("Ctrl-C while waiting: 130, and where it stood")
def _():
    for number, code, word in ((signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")):
        with Machine() as m:
            m.set(MemFree=1 << 20, MemAvailable=2 << 20)
            child = subprocess.Popen([UMACTL, "require", "--bytes", "40G", "--wait", "1h", "--root", m.path], stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, env=environment(), text=True)
            time.sleep(0.7)
            child.send_signal(number)
            out, err = child.communicate(timeout=20)
            equal((child.returncode, out), (code, ""))
            contains(err, f"stopped by {word} after ")
            contains(err, " of 40.0 GiB")


@case("progress on a terminal, one line, gone at the end")
def _():
    with Machine() as m:
        m.set(MemFree=1 << 20, MemAvailable=2 << 20)
        t = Terminal("require", "--bytes", "40G", "--wait", "60", "--root", m.path)
        t.read(until=b" of 40.0 GiB")
        contains(t.output.decode(), "waiting ")
        contains(t.output.decode(), "held by")
        m.set(MemFree=60 << 20, MemAvailable=80 << 20)
        equal(t.wait(), 0)
        last = t.output.decode().split("\r\x1b[K")[-1]
        assert last.startswith("met: 40.0 GiB needed"), last
        for line in t.output.decode().replace("\x1b[K", "").split("\r"):
            assert len(line) < 80 or line.startswith("met: "), line


@case("no progress where stderr is no terminal")
def _():
    with Machine() as m:
        m.set(MemFree=1 << 20, MemAvailable=2 << 20)
        run("require", "--bytes", "40G", "--wait", "0.5", "--quiet", "--root", m.path).expect(1, err="")


@case("--contiguous: room enough, but in pieces")
def _():
    with Machine() as m:
        m.set(MemFree=60 << 20, MemAvailable=80 << 20)
        pages = os.path.join(m.path, "proc/buddyinfo")
        with open(pages, "w", encoding="ascii") as f:  # many small blocks, three of 2 MiB (order 9), none of 4 MiB
            f.write("Node 0, zone   Normal 100000 50000 2000 100 100 100 10 10 10 3 0\n")
        for size, code in (("64K", 0), ("2M", 0), ("6M", 1), ("4M", 1), ("1G", 1)):
            r = run("require", "--bytes", "1G", "--contiguous", size, "--json", "--root", m.path).expect(code)
            check(r.json, REQUIRE)
            equal(r.json["met"], code == 0, size)
        equal(r.json["largest_free_block"], 2 << 20)
        r = run("require", "--bytes", "1G", "--contiguous", "4M", "--root", m.path).expect(1)
        assert r.out.startswith("not met: 4.0 MiB in one piece needed, 0 B in free blocks that can serve it; "), r.out
        contains(r.out, "\n  1.0 GiB needed, a new job can have ")
        contains(r.out, "vm.compact_memory=1")
        os.unlink(pages)
        r = run("require", "--bytes", "1G", "--contiguous", "4M", "--json", "--root", m.path).expect(3)
        equal((r.json["met"], r.json["contiguous_free"]), (None, None))
        contains(run("require", "--bytes", "1G", "--contiguous", "4M", "--root", m.path).expect(3).out, "unknown: ")


@case("what can never fit is not waited for")
def _():
    for args in (["--bytes", "9T"], ["--bytes", "120G"], ["--bytes", "1G", "--contiguous", "320G"]):
        r = run("require", *args, "--wait", "5m", "--root", machine(BASE)).expect(1)
        assert r.seconds < 10, r.seconds
        contains(r.out, "it can never fit: the whole pool is 122 GiB")
        assert "compact_memory" not in r.out, r.out
        equal(run("require", *args, "--json", "--root", machine(BASE)).expect(1).json["never"], True)
    equal(run("require", "--bytes", "100G", "--json", "--root", machine(BASE)).expect(1).json["never"], False)


@case("a budget in huge pages says so")
def _():
    name = ["--root", machine("spark-hugetlb")]
    contains(run("require", "--bytes", "80G", *name).expect(0).out, "89.9 GiB in huge pages (ordinary allocations have 15.3 GiB available)")
    contains(run("status", *name).expect(0).out, "in huge pages (ordinary allocations have 15.3 GiB available)")
    d = run("require", "--bytes", "80G", "--json", *name).expect(0).json
    equal((d["huge_pages"], d["ordinary_available"] // (1 << 30)), (True, 15))
    equal(run("require", "--bytes", "1G", "--json", "--root", machine(BASE)).json["huge_pages"], False)


@case("what the device holds is held, and an unknown holder is said to be unknown")
def _():
    out = run("require", "--bytes", "40G", "--root", machine("jetson-orin")).expect(1).out
    contains(out, "held by  18.0 GiB of GPU memory that its driver does not divide by process")
    contains(out, "pid 3300: ")
    for name, why in (("spark-nvml-hung", "no answer within 2.0 s"), ("spark-nvml-absent", "libnvidia-ml.so.1 was not found")):
        out = run("require", "--bytes", "110G", "--root", machine(name)).expect(1).out
        contains(out, f"holders of GPU memory are not known ({why}); ")
        assert "no process holds" not in out, out


@case("sizes: binary and decimal")
def _():
    for text, want in (("1G", 1 << 30), ("1GiB", 1 << 30), ("1GB", 10**9), ("1.5G", 3 << 29), ("12884901889", 12884901889), ("0", 0)):
        equal(run("require", "--bytes", text, "--json", "--root", machine(BASE)).json["needed"], want, text)


main()
